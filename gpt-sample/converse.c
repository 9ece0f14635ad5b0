/* converse.c -- see converse.h. */
#include "converse.h"
#include "writer.h"
#include "text/talk.h"
#include "text/utf8.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct State {
    Session *s;
    const Converse *c;
    Talk talk;
    Out *out;
    int asks, terminal;             /* stdin is a terminal; stdout is one */
    Ids answer;                     /* of the turn in progress */
    Buf text;                       /* of it, not yet written */
    int call;                       /* 0; 1: inside a tool's call or result; 2: between them */
    int stopped;
} State;

/* ---- Ctrl-C ------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted, answering;

static void on_interrupt(int sig)
{
    static const char hint[] = "\n(/quit or Ctrl-D ends)\n> ";
    (void)sig;
    interrupted = 1;
    if (!answering && write(2, hint, sizeof hint - 1) < 0) return;
}

/* ---- an answer ---------------------------------------------------------------------- */

static void put(State *t, const char *s, size_t n)
{
    buf_add(&t->text, s, n);
    write_text(t->out, &t->text, t->terminal);
}

/* Special tokens are not printed; of a call one sees [expression = result]. */
static void show(State *t, int id)
{
    const Tool *tool = &t->s->tool;
    bool tools = tool->run != NULL, result = tools && id == tool->result;
    size_t n;
    if (t->call == 2 && !result) put(t, "]", 1), t->call = 0;
    if (tools && id == tool->call) put(t, "[", 1), t->call = 1;
    else if (tools && id == tool->call_end && t->call == 1) t->call = 2;
    else if (result && t->call == 2) put(t, " = ", 3), t->call = 1;
    else if (tools && id == tool->result_end && t->call == 1) put(t, "]", 1), t->call = 0;
    if (tok_is_special(t->s->tok, id)) return;
    const char *s = tok_bytes(t->s->tok, id, &n);
    put(t, s, n);
}

static void on_token(void *arg, int sample, int id)
{
    State *t = arg;
    (void)sample;
    ids_add(&t->answer, (uint32_t)id);
    show(t, id);
}

static void on_end(void *arg, int sample, int id)
{
    State *t = arg;
    (void)sample;
    t->stopped = id >= 0;
    buf_str(&t->text, t->call ? "]\n" : "\n");
    write_text(t->out, &t->text, 0);
    t->call = 0;
}

static double rate(int64_t n, double seconds) { return seconds > 0 ? (double)n / seconds : 0; }

/* Room for an answer that turns are left out for: what may be needed, but not the most of a small
 * context. */
static int room_for_answer(const State *t)
{
    int quarter = t->s->m->cfg.T / 4, most = t->c->set.max_tokens;
    return most < quarter ? most : quarter > 0 ? quarter : 1;
}

/* Answer the last turn. false: it does not fit, and is forgotten. */
static bool answer(State *t)
{
    int T = t->s->m->cfg.T;
    size_t before = t->talk.first;
    size_t left_out = talk_prompt(&t->talk, T, room_for_answer(t), !t->c->strict);
    size_t n = t->talk.ids.ids.n;
    if (n >= (size_t)T) {
        warn("%s: %zu tokens of a context of %d: not answered",
             t->c->strict && t->talk.n > 1 ? "the conversation is too long" : "too long", n, T);
        talk_drop(&t->talk);
        t->talk.first = before;
        return false;
    }
    if (left_out)
        note(1, "the context is full: the oldest %zu turn%s left out (%zu of %zu remain)", left_out,
             left_out == 1 ? " is" : "s are", t->talk.n - t->talk.first, t->talk.n);
    GenJob j = session_job(t->s, chatids(&t->talk.ids), n, &t->c->set);
    const Gen *g = t->s->gen;
    int64_t prompt = g->prompt_tokens, made = g->new_tokens;
    double prompt_time = g->prompt_seconds, time = g->new_seconds;
    t->answer.n = 0;
    j.token = on_token, j.end = on_end, j.arg = t, j.keep = 1, j.cancel = &interrupted;
    interrupted = 0, answering = 1;
    gen_run(t->s->gen, &j);
    answering = 0;
    talk_answer(&t->talk, t->answer.id, t->answer.n);
    if (interrupted) note(1, "interrupted");
    else if (!t->stopped) note(1, "the answer was cut at %zu tokens", t->answer.n);
    note(2, "%lld tokens, %.1f/s; prompt %zu, %lld of them new, %.1f/s",
         (long long)(g->new_tokens - made), rate(g->new_tokens - made, g->new_seconds - time), n,
         (long long)(g->prompt_tokens - prompt),
         rate(g->prompt_tokens - prompt, g->prompt_seconds - prompt_time));
    return true;
}

/* ---- commands ------------------------------------------------------------------------- */

static const char help[] =
    "/reset         forget all turns\n"
    "/retry         another answer to the last message\n"
    "/system TEXT   what stands before the first message; without TEXT: nothing\n"
    "/save FILE     write the conversation, as {\"messages\": ...}\n"
    "/load FILE     go on with the first conversation in FILE\n"
    "/quit          end, as Ctrl-D does\n"
    "//...          a message that begins with a slash\n"
    "Ctrl-C stops an answer. For line editing and history: rlwrap gpt-sample ... --chat\n";

/* Output that fails ends the program, and a file that cannot be written is no reason to end a
 * conversation: a child writes it. */
static void save(State *t, const char *path)
{
    if (!*path) {
        warn("/save needs a file name");
        return;
    }
    pid_t pid = fork();
    if (pid < 0) warn("/save: fork:");
    if (pid == 0) {
        Out *o = out_open(path, 0);
        Buf b = {0};
        talk_json(&t->talk, &b);
        out_write(o, b.s, b.n);
        out_close(o);
        note(1, "%s: %zu turn%s", path, t->talk.n, t->talk.n == 1 ? "" : "s");
        _exit(0);
    }
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR) {}
}

/* The first line of a file. false, and a warning: it cannot be read, no reason to end either. */
static bool first_line(const char *path, Buf *b)
{
    FILE *f = *path ? fopen(path, "rb") : NULL;
    if (!*path) warn("/load needs a file name");
    else if (!f) warn("%s: cannot read:", path);
    if (!f) return false;
    for (int ch; (ch = getc(f)) != EOF && ch != '\n' && b->n < 1 << 26; ) buf_char(b, (char)ch);
    bool good = !ferror(f);
    if (!good) warn("%s: cannot read:", path);
    fclose(f);
    return good;
}

/* What cannot be loaded leaves the conversation as it is. */
static void load(State *t, const char *path)
{
    Buf b = {0};
    Arena a = {0};
    Talk talk = { .chat = t->talk.chat }, old = t->talk;
    const char *why = NULL;
    char *bad = NULL;
    size_t at;
    if (!first_line(path, &b)) {
        buf_free(&b);
        return;
    }
    const Json *row = json_parse(&a, b.n ? b.s : "", b.n, &why, &at);
    const Json *m = row ? json_get(row, "messages") : NULL;
    bool good = m && m->kind == J_ARR && !(bad = talk_load(&talk, m));
    if (!row) warn("%s: line 1, byte %zu: %s", path, at + 1, why);
    else if (bad) warn("%s: line 1: %s", path, bad);
    else if (!good) warn("%s: line 1: no \"messages\" that are an array", path);
    else note(1, "%s: %zu turn%s", path, talk.n, talk.n == 1 ? "" : "s");
    if (good) t->talk = talk, talk = old;
    talk_free(&talk);
    free(bad);
    arena_free(&a);
    buf_free(&b);
    if (good && t->talk.n && !t->talk.turn[t->talk.n - 1].answered) answer(t);
}

static void retry(State *t)
{
    if (t->talk.n == 0) {
        warn("/retry: there is nothing to answer");
        return;
    }
    talk_unanswer(&t->talk);
    answer(t);
}

/* The rest of a line after the command `name` and blanks, or NULL if it is another command. */
static const char *argument(const char *line, const char *name)
{
    size_t n = strlen(name);
    if (strncmp(line, name, n) || (line[n] && line[n] != ' ' && line[n] != '\t')) return NULL;
    return line + n + strspn(line + n, " \t");
}

/* false: the conversation is over. */
static bool command(State *t, const char *line, size_t n)
{
    const char *arg;
    if (argument(line, "/quit") || argument(line, "/exit")) return false;
    if (argument(line, "/help")) fputs(help, stderr);
    else if (argument(line, "/reset")) talk_reset(&t->talk);
    else if (argument(line, "/retry")) retry(t);
    else if ((arg = argument(line, "/system")))
        talk_system(&t->talk, arg, (size_t)(line + n - arg));
    else if ((arg = argument(line, "/save"))) save(t, arg);
    else if ((arg = argument(line, "/load"))) load(t, arg);
    else warn("no such command: %s (/help lists them; // begins a message with a slash)", line);
    return true;
}

/* ---- lines ---------------------------------------------------------------------------- */

static bool next_line(State *t, In *in, Buf *line)
{
    if (t->asks) fputs("> ", stderr);
    return in_line(in, line);
}

static bool take(State *t, const Buf *line, Buf *fixed)
{
    if (line->n == 0) return true;
    buf_clear(fixed);
    uint64_t bad = utf8_repair(fixed, line->s, line->n);
    if (bad) warn("not valid UTF-8: %llu replacement characters put in", (unsigned long long)bad);
    const char *s = fixed->s;
    if (s[0] == '/' && s[1] != '/') return command(t, s, fixed->n);
    size_t slash = s[0] == '/';
    talk_user(&t->talk, s + slash, fixed->n - slash);
    answer(t);
    return true;
}

void converse(Session *s, const Converse *c)
{
    State t = { .s = s, .c = c, .talk = { .chat = s->chat }, .asks = isatty(0),
                .terminal = strcmp(c->output, "-") == 0 && isatty(1) };
    Buf line = {0}, fixed = {0};
    if (c->system) talk_system(&t.talk, c->system, strlen(c->system));
    t.out = out_open(c->output, 0);
    s->cmd.cancel = &interrupted;
    struct sigaction stop = { .sa_handler = on_interrupt, .sa_flags = SA_RESTART };
    if (t.asks) {
        sigaction(SIGINT, &stop, NULL);
        note(1, "/help lists the commands; Ctrl-D ends");
    }
    In *in = in_open("-");
    while (next_line(&t, in, &line) && take(&t, &line, &fixed)) {}
    if (t.asks) fputs("\n", stderr);
    in_close(in);
    out_close(t.out);
    talk_free(&t.talk);
    ids_free(&t.answer);
    buf_free(&t.text), buf_free(&line), buf_free(&fixed);
}
