/* gpt-train --status: what a run is at, told from another terminal. The run leaves status.json in
 * its directory every few seconds; whether it runs is told by its lock, and what is saved by the
 * checkpoint. */
#include "base/io.h"
#include "gpt/ckpt.h"
#include "options.h"
#include "rl.h"
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FRESH 2.0                   /* seconds between two of the same phase */
#define FILE_MAX ((size_t)1 << 20)

/* ---- writing */

static void num(Buf *b, const char *key, double x)
{
    buf_printf(b, ",\n  \"%s\": ", key);
    json_num(b, x);
}

static void status_json(const Run *r, const StepLog *s, const char *phase, Buf *b)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    buf_printf(b, "{\n  \"version\": 1,\n  \"phase\": \"%s\",\n  \"pid\": %ld,\n  \"host\": ", phase,
               (long)getpid());
    json_str(b, host, strlen(host));
    num(b, "updated", (double)time(NULL));
    num(b, "step", (double)r->st.step);
    num(b, "steps", r->plan.open ? NAN : (double)r->plan.a.steps);
    if (r->rl) {
        num(b, "reward", rl_reward_mean(r->rl));
        num(b, "pass_at_1", r->rl->pass);
        num(b, "best_pass_at_1", r->rl->best_pass);
    } else {
        num(b, "epoch", data_epochs(r->train, r->st.pos));
        num(b, "loss", loss_mean(r));
        num(b, "val_bpb", r->st.val_bpb);
        num(b, "best_val_bpb", r->st.best_bpb);
    }
    num(b, "lr", s ? s->lr : NAN);
    num(b, "grad_norm", s ? s->grad_norm : NAN);
    double rate = s && s->seconds > 0 ? (double)s->tokens / s->seconds : NAN;
    num(b, "tok_per_s", rate);
    num(b, "flops_per_s", rate * r->plan.a.flops_per_token);
    num(b, "seconds", clock_seconds(r));
    num(b, "eta", show_eta(r));
    buf_str(b, "\n}\n");
}

/* Renamed into place, so that a reader sees all of it. No run ends for want of it. */
void status_write(const Run *r, const StepLog *s, const char *phase)
{
    static double last;
    static const char *was;
    double now = now_seconds();
    if (!is_first()) return;
    if (was == phase && now - last < FRESH) return;
    was = phase;
    last = now;
    Buf b = {0};
    status_json(r, s, phase, &b);
    char *name = xasprintf("%s/" CKPT_STATUS, opt.out), *new = xasprintf("%s.new", name);
    int fd = open(new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int bad = fd < 0 || write(fd, b.s, b.n) != (ssize_t)b.n;
    if (fd >= 0) bad |= close(fd);
    if (bad ? unlink(new) : rename(new, name)) note(2, "%s:", name);
    free(new);
    free(name);
    buf_free(&b);
}

/* ---- showing */

typedef struct Status {
    const Json *now, *saved;        /* status.json, state.json; NULL: not there */
    int running;
} Status;

static double number(const Json *o, const char *key)
{
    const Json *j = o ? json_get(o, key) : NULL;
    return j && j->kind == J_NUM ? j->num : NAN;
}

static const char *text(const Json *o, const char *key)
{
    const Json *j = o ? json_get(o, key) : NULL;
    return j && j->kind == J_STR ? j->s : "";
}

static const Json *read_status(const char *dir, Arena *a)
{
    char *path = xasprintf("%s/" CKPT_STATUS, dir);
    Buf b = {0};
    const char *err;
    size_t at;
    const Json *j = NULL;
    struct stat st;
    if (!stat(path, &st)) {
        read_file(path, &b, FILE_MAX);
        j = json_parse(a, arena_strndup(a, b.s ? b.s : "", b.n), b.n, &err, &at);
        if (!j || j->kind != J_OBJ) die("%s: not a status of gpt-train", path);
    }
    buf_free(&b);
    free(path);
    return j;
}

/* The whole truth in a word or two: what the lock and the files say together. */
static const char *phase(const Status *s)
{
    double saved = number(s->saved, "step"), steps = number(json_get(s->saved, "options"), "steps");
    if (s->running) return "running";
    if (steps > 0 && saved >= steps) return "finished";
    const char *p = text(s->now, "phase");
    if (!strcmp(p, "training")) return "not running: it was killed, or died";
    return *p ? p : "stopped";
}

static void add(Buf *b, const char *fmt, double x)
{
    if (isnan(x)) return;
    buf_str(b, b->n && b->s[b->n - 1] != '\n' ? ", " : "  ");
    buf_printf(b, fmt, x);
}

static void add_time(Buf *b, const char *what, double x)
{
    if (isnan(x)) return;
    buf_printf(b, "%s%s", b->n && b->s[b->n - 1] != '\n' ? ", " : "  ", what);
    buf_duration(b, x);
}

static void show_text(const char *dir, const Status *s, Buf *b)
{
    const Json *n = s->now ? s->now : s->saved;
    double steps = number(json_get(s->saved, "options"), "steps");
    if (s->now && !isnan(number(s->now, "steps"))) steps = number(s->now, "steps");
    buf_printf(b, "%s: %s\n", dir, phase(s));
    add(b, "step %.0f", number(n, "step"));
    if (steps > 0)
        buf_printf(b, " of %.0f (%.0f%%)", steps, 100 * number(n, "step") / steps);
    add(b, "epoch %.2f", number(n, "epoch"));
    add(b, "loss %.4f", number(s->now, "loss"));
    add(b, "val bpb %.4f", number(n, "val_bpb"));
    add(b, "best %.4f", number(n, "best_val_bpb"));
    add(b, "reward %.3f", number(s->now, "reward"));
    add(b, "pass@1 %.3f", number(n, "pass_at_1"));
    add(b, "best %.3f", number(n, "best_pass_at_1"));
    buf_char(b, '\n');
    if (s->now) {
        if (s->running) {
            add(b, "%.0f tok/s", number(s->now, "tok_per_s"));
            add(b, "%.3g FLOP/s", number(s->now, "flops_per_s"));
            add_time(b, "ETA ", number(s->now, "eta"));
        }
        add_time(b, "trained for ", number(s->now, "seconds"));
        const double ago = difftime(time(NULL), 0) - number(s->now, "updated");
        add_time(b, "last seen ", ago);
        if (!isnan(ago)) buf_str(b, " ago");
        if (s->running)
            buf_printf(b, ", process %.0f on %s", number(s->now, "pid"), text(s->now, "host"));
        buf_char(b, '\n');
    }
    if (s->saved) buf_printf(b, "  saved: step %.0f\n", number(s->saved, "step"));
    else buf_str(b, "  nothing saved yet\n");
}

static void member(Buf *b, const char *key, const Json *j)
{
    buf_printf(b, ", \"%s\": ", key);
    if (j) buf_add(b, j->src, j->src_len);
    else buf_str(b, "null");
}

static void show_json(const char *dir, const Status *s, Buf *b)
{
    Buf one = {0};
    buf_str(b, "{\"dir\": ");
    json_str(b, dir, strlen(dir));
    buf_printf(b, ", \"running\": %s, \"phase\": ", s->running ? "true" : "false");
    json_str(b, phase(s), strlen(phase(s)));
    member(b, "saved_step", json_get(s->saved, "step"));
    member(b, "steps", json_get(json_get(s->saved, "options"), "steps"));
    member(b, "status", s->now);
    for (size_t i = 0; i < b->n; i++)                   /* one line: strings hold no line ends */
        if (b->s[i] != '\n') buf_char(&one, b->s[i]);
    buf_str(&one, "}\n");
    buf_free(b);
    *b = one;
}

void status_show(const char *dir, int json)
{
    Arena a = {0};
    Buf b = {0};
    struct stat st;
    if (stat(dir, &st)) die("%s:", dir);
    Status s = { .running = ckpt_locked(dir), .saved = ckpt_state(dir, &a),
                 .now = read_status(dir, &a) };
    if (!s.now && !s.saved && !s.running)
        die("%s: no run here%s", dir, ckpt_exists(dir) ? ": a model of weights only" : "");
    if (json) show_json(dir, &s, &b);
    else show_text(dir, &s, &b);
    Out *out = out_open("-", 0);
    out_write(out, b.s, b.n);
    out_close(out);
    buf_free(&b);
    arena_free(&a);
}
