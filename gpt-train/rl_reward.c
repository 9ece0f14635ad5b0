/* Rewards: answers go to the filter as JSON Lines, numbers come back. */
#include "options.h"
#include "rl.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct Judge {
    const Tok *tok;
    Chat *chat;
    Filter *filter;
    MetricsLog log;                 /* fd -1: none */
    Buf ask, got, text, parts, line;
};

Judge *judge_open(const Tok *tok, Chat *chat, int64_t step)
{
    Judge *j = xcalloc(1, sizeof *j);
    *j = (Judge){ .tok = tok, .chat = chat, .filter = filter_open(opt.reward), .log = { .fd = -1 } };
    if (opt.log_rollouts) mlog_open(&j->log, opt.log_rollouts, step);
    return j;
}

int judge_failed(const Judge *j) { return j->log.failed; }

void judge_close(Judge *j)
{
    if (!j) return;
    filter_close(j->filter);
    if (j->log.fd >= 0) mlog_close(&j->log);
    buf_free(&j->ask);
    buf_free(&j->got);
    buf_free(&j->text);
    buf_free(&j->parts);
    buf_free(&j->line);
    free(j);
}

static void on_part(void *arg, PartKind k, const char *s, size_t n)
{
    Judge *j = arg;
    if (k == PART_TEXT) buf_add(&j->text, s, n);
    buf_str(&j->parts, j->parts.n ? ", {\"type\": \"" : "{\"type\": \"");
    buf_str(&j->parts, part_names[k]);
    buf_str(&j->parts, "\", \"text\": ");
    json_str(&j->parts, s, n);
    buf_char(&j->parts, '}');
}

/* The answer's words into j->text; with turns, its parts into j->parts. */
static void words(Judge *j, const Answer *a)
{
    size_t n = a->ids.n - (size_t)(a->ended ? 1 : 0), k;
    buf_clear(&j->text);
    buf_clear(&j->parts);
    if (j->chat) {
        chat_parts(j->chat, a->ids.id, n, on_part, j);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const char *s = tok_bytes(j->tok, (int)a->ids.id[i], &k);
        if (!tok_is_special(j->tok, (int)a->ids.id[i])) buf_add(&j->text, s, k);
    }
}

/* One answer as members of an object. */
static void members(Judge *j, const Prompt *p, const Answer *a, Buf *b)
{
    words(j, a);
    buf_str(b, "\"prompt\": ");
    json_str(b, p->text, p->text_len);
    buf_str(b, ", \"completion\": ");
    json_str(b, j->text.n ? j->text.s : "", j->text.n);
    if (j->parts.n) {
        buf_str(b, ", \"content\": [");
        buf_add(b, j->parts.s, j->parts.n);
        buf_char(b, ']');
    }
    buf_printf(b, ", \"tokens\": %zu, \"finish\": \"%s\", \"reference\": ", a->ids.n,
               a->ended ? "stop" : "length");
    buf_add(b, p->row, p->row_len);
}

/* A number or null; anything else is a filter that cannot be trusted. */
static double reward_of(const char *s, size_t n, const char **why)
{
    Arena arena = {0};
    const char *err;
    size_t at;
    const Json *j = json_parse(&arena, s, n, &err, &at);
    double x = NAN;
    if (!j || (j->kind != J_NUM && j->kind != J_NULL) || (j->kind == J_NUM && !isfinite(j->num)))
        *why = "gave a line that is neither a number nor null";
    else if (j->kind == J_NUM) x = j->num;
    arena_free(&arena);
    return x;
}

static const char *take(Judge *j, Answer *a, int n, char **line)
{
    const char *s = j->got.s, *end = s + j->got.n, *why = NULL;
    for (int i = 0; i < n && !why; i++) {
        const char *lf = memchr(s, '\n', (size_t)(end - s));
        size_t len = lf ? (size_t)(lf - s) : (size_t)(end - s);
        a[i].reward = reward_of(s, len, &why);
        if (why) *line = xasprintf(": '%.*s'", len < 80 ? (int)len : 80, s);
        s += len + 1;
    }
    return why;
}

static void log_all(Judge *j, const Run *r, const Prompt *const *p, const Answer *a, int k, int n,
                    const char *phase)
{
    int eval = !strcmp(phase, "eval");          /* of the step that is done; else of the next */
    for (int i = 0; j->log.fd >= 0 && i < k * n; i++) {
        buf_clear(&j->line);
        buf_printf(&j->line, "{\"step\": %" PRId64 ", \"phase\": \"%s\", \"reward\": ",
                   r->st.step + !eval, phase);
        json_num(&j->line, a[i].reward);
        buf_str(&j->line, ", ");
        members(j, p[i / n], &a[i], &j->line);
        buf_str(&j->line, "}\n");
        mlog_write(&j->log, j->line.s, j->line.n);
    }
}

_Noreturn static void give_up(Run *r, const char *why, const char *line)
{
    int bad = r->saved != r->st.step && run_save(r);
    progress_end(&r->progress);
    die("--reward: '%s' %s%s; step %" PRId64 " %s %s", opt.reward, why, line ? line : "", r->st.step,
        bad ? "could not be saved in" : "is saved in", opt.out);
}

void judge_end(Judge *j, Run *r)
{
    const char *why = filter_end(j->filter);
    if (why) give_up(r, why, NULL);
}

int judge(Judge *j, Run *r, const Prompt *const *p, Answer *a, int k, int n, const char *phase)
{
    char *line = NULL;
    buf_clear(&j->ask);
    for (int i = 0; i < k * n; i++) {
        buf_char(&j->ask, '{');
        members(j, p[i / n], &a[i], &j->ask);
        buf_str(&j->ask, "}\n");
    }
    const char *why = filter_ask(j->filter, &j->ask, (size_t)(k * n), opt.reward_timeout,
                                 &stopped_by, &j->got);
    if (why && !strcmp(why, "interrupted")) return 0;
    if (!why) why = take(j, a, k * n, &line);
    if (why) give_up(r, why, line);
    log_all(j, r, p, a, k, n, phase);
    return 1;
}
