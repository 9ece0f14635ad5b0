#include "adapter.h"
#include "base/buf.h"
#include "base/child.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/progress.h"
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PROGRAM_MOST = 100000,      /* an argument of exec holds 128 KB */
    IN_MOST = 64 << 10,         /* bytes that wait for jq before we wait for it */
    ERR_MOST = 8 << 10,         /* kept of its stderr */
    ROW_MOST = 256 << 20
};

struct Adapter {
    const Program *p;
    char *file;
    AdapterRow *row; void *arg;
    Child jq;                   /* pid 0: not started; a descriptor -1: closed */
    Buf in; size_t sent;        /* in[sent..n) is still to be written */
    Buf out, err;               /* out: the beginning of a line */
    uint64_t first, taken, given;       /* index of the first row; rows in, rows out */
    Arena arena;
    bool enough, large;         /* no more rows are wanted; a large number was warned of */
};

/* ---- the program */

static RowsRule rows_rule(const char *name, const char *s, size_t n)
{
    static const char *const words[] = { "same", "fewer", "any" };
    for (int i = 0; i < 3; i++)
        if (strlen(words[i]) == n && !memcmp(words[i], s, n)) return (RowsRule)i;
    die("%s: '# rows: %.*s': same, fewer or any is wanted", name, (int)(n < 40 ? n : 40), s);
}

Program program_load(const char *path)
{
    static const char mark[] = "# rows:";
    Buf b = {0};
    io_reads(path);
    read_file(path, &b, PROGRAM_MOST);
    if (memchr(b.s, 0, b.n)) die("%s: a NUL is no part of a program", path);
    const char *slash = strrchr(path, '/');
    Program p = { .name = xstrdup(slash ? slash + 1 : path), .text = b.s };
    for (const char *s = b.s; *s == '#' || *s == '\n' || *s == '\r'; ) {
        size_t n = strcspn(s, "\n");
        const char *word = s + strlen(mark);
        if (!strncmp(s, mark, strlen(mark))) {
            word += strspn(word, " \t");
            p.rows = rows_rule(p.name, word, strcspn(word, " \t\r\n"));
        }
        s += n + (s[n] == '\n');
    }
    return p;
}

void program_free(Program *p)
{
    free(p->name);
    free(p->text);
}

/* ---- starting, and ending badly */

Adapter *adapter_open(const Program *p, const char *file, AdapterRow *row, void *arg)
{
    Adapter *a = xcalloc(1, sizeof *a);
    *a = (Adapter){ .p = p, .file = xstrdup(file), .row = row, .arg = arg };
    return a;
}

static void start(Adapter *a)
{
    char *text = xasprintf("%s%s", a->p->text[0] == '-' ? " " : "", a->p->text);
    const char *argv[] = { "jq", "-nc", "--unbuffered", "--arg", "file", a->file, text, NULL };
    if (!child_run(argv, &a->jq))
        die("%s: %s needs jq, which cannot be run:", a->file, a->p->name);
    free(text);
}

static void close_one(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static void kill_it(Adapter *a)
{
    if (a->jq.pid > 0) kill(a->jq.pid, SIGKILL), waitpid(a->jq.pid, NULL, 0);
    a->jq.pid = 0;
}

/* The row that jq was at, from 1, as far as rows come out one for one. */
static uint64_t at_row(const Adapter *a) { return a->first + a->given + 1; }

static _Noreturn void bad(Adapter *a, const char *why)
{
    kill_it(a);
    die("%s: row %" PRIu64 ": %s %s", a->file, at_row(a), a->p->name, why);
}

/* ---- what comes back */

static void one_row(Adapter *a, const char *s, size_t n)
{
    const char *why;
    size_t at;
    if (a->enough) return;
    arena_reset(&a->arena);
    const Json *j = json_parse(&a->arena, s, n, &why, &at);
    if (!j || j->kind != J_OBJ) {
        kill_it(a);
        die("%s: row %" PRIu64 ": what %s makes is no JSON object: %.*s", a->file, at_row(a),
            a->p->name, (int)(n < 60 ? n : 60), s);
    }
    if (a->p->rows != ROWS_ANY && a->given == a->taken) {
        kill_it(a);
        die("%s: %s makes more rows than the %" PRIu64 " it was given", a->file, a->p->name, a->taken);
    }
    a->given++;
    a->enough = !a->row(a->arg, s, n);
}

static void lines(Adapter *a, const char *s, size_t n)
{
    const char *lf;
    while ((lf = memchr(s, '\n', n))) {
        size_t k = (size_t)(lf - s);
        if (a->out.n) {
            buf_add(&a->out, s, k);
            one_row(a, a->out.s, a->out.n);
            buf_clear(&a->out);
        } else {
            one_row(a, s, k);
        }
        s += k + 1, n -= k + 1;
    }
    if (n > ROW_MOST - a->out.n) bad(a, "makes a row of more than 256 MB");
    buf_add(&a->out, s, n);
}

/* ---- the three pipes */

static ssize_t write_quietly(int fd, const char *s, size_t n)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN }, old;
    sigaction(SIGPIPE, &ignore, &old);
    ssize_t k = write(fd, s, n);
    int e = errno;
    sigaction(SIGPIPE, &old, NULL);
    return errno = e, k;
}

static void send_some(Adapter *a)
{
    ssize_t k = write_quietly(a->jq.in, a->in.s + a->sent, a->in.n - a->sent);
    if (k > 0) a->sent += (size_t)k;
    else if (errno != EAGAIN && errno != EINTR) close_one(&a->jq.in);   /* it reads no more */
    if (a->sent == a->in.n) buf_clear(&a->in), a->sent = 0;
}

/* What it says last is why it ends. */
static void keep_end(Buf *b, const char *s, size_t n)
{
    buf_add(b, s, n);
    if (b->n <= ERR_MOST) return;
    memmove(b->s, b->s + b->n - ERR_MOST, ERR_MOST + 1);
    b->n = ERR_MOST;
}

static void take_some(Adapter *a, int *fd)
{
    char part[65536];
    ssize_t k = read(*fd, part, sizeof part);
    if (k < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (k <= 0) close_one(fd);
    else if (fd == &a->jq.out) lines(a, part, (size_t)k);
    else keep_end(&a->err, part, (size_t)k);
}

/* Whatever can be written or read now; waits until something can. */
static void exchange(Adapter *a)
{
    bool more = a->jq.in >= 0 && a->sent < a->in.n;
    struct pollfd p[] = { { a->jq.out, POLLIN, 0 }, { a->jq.err, POLLIN, 0 },
                          { more ? a->jq.in : -1, POLLOUT, 0 } };
    int k = poll(p, 3, a->p->seconds ? a->p->seconds * 1000 : -1);
    if (k < 0) return;
    if (k == 0) bad(a, xasprintf("has neither taken nor given anything for %d s", a->p->seconds));
    if (p[2].revents) send_some(a);
    if (p[0].revents) take_some(a, &a->jq.out);
    if (p[1].revents) take_some(a, &a->jq.err);
}

/* ---- how it ended */

/* "jq: error (at <stdin>:5): row 5: no text" -> "no text": we know the row better. */
static const char *reason(Adapter *a)
{
    char *s = a->err.n ? a->err.s : "", *at = NULL;
    while (a->err.n && strchr("\r\n ", s[a->err.n - 1])) s[--a->err.n] = 0;
    for (char *p = s; (p = strstr(p, "jq: error (")); p++) at = p;
    if (!at || !(at = strstr(at, "): "))) return s;
    s = at + 3;
    size_t digits = strncmp(s, "row ", 4) ? 0 : strspn(s + 4, "0123456789");
    return digits && !strncmp(s + 4 + digits, ": ", 2) ? s + 6 + digits : s;
}

static void check_status(Adapter *a, int status)
{
    const char *why = reason(a);
    if (WIFSIGNALED(status))
        die("%s: row %" PRIu64 ": %s: jq was ended by signal %d", a->file, at_row(a), a->p->name,
            WTERMSIG(status));
    if (status && WEXITSTATUS(status) == 3 && strstr(why, "compile error"))
        die("%s: not a program for jq: %s", a->p->name, why);
    if (status)
        die("%s: row %" PRIu64 ": %s: %s", a->file, at_row(a), a->p->name,
            *why ? why : "jq failed, and did not say why");
    if (*why) warn("%s: %s says: %s", a->file, a->p->name, why);
}

static void check_rows(Adapter *a)
{
    if (a->out.n) bad(a, "ends inside a row");
    if (a->p->rows == ROWS_SAME && a->given != a->taken)
        die("%s: %s made %" PRIu64 " rows of %" PRIu64 "%s", a->file, a->p->name, a->given, a->taken,
            a->given < a->taken ? "; if it may leave some out, '# rows: fewer' says so" : "");
}

/* Its stdout is closed: it ends now, or is ended. */
static int wait_for(Adapter *a)
{
    int status;
    double end = now_seconds() + (a->p->seconds ? a->p->seconds : 1e9);
    for (pid_t k; (k = waitpid(a->jq.pid, &status, WNOHANG)) != a->jq.pid; poll(NULL, 0, 1))
        if (k < 0 && errno != EINTR) die("%s: jq is lost:", a->file);
        else if (now_seconds() > end) bad(a, "has closed its output, but does not end");
    a->jq.pid = 0;
    return status;
}

static void finish(Adapter *a)
{
    while (a->jq.out >= 0 && !a->enough) {
        if (a->sent == a->in.n) close_one(&a->jq.in);
        exchange(a);
    }
    if (a->enough) return;
    close_one(&a->jq.in);
    int status = wait_for(a);
    while (a->jq.err >= 0) exchange(a);
    check_status(a, status);
    check_rows(a);
}

/* ---- in and out */

/* jq before 1.7 makes 12345678901234567000 of 12345678901234567890. */
static bool large_number(const Json *j)
{
    if (j->kind == J_NUM && (j->num > 0x1p53 || j->num < -0x1p53) && !strpbrk(j->s, ".eE"))
        return true;
    for (const Json *k = j->child; k; k = k->next)
        if (large_number(k)) return true;
    return false;
}

static void warn_of_large(Adapter *a, uint64_t index, const char *s, size_t n)
{
    const char *why;
    size_t at, digits = 0;
    for (size_t i = 0; i < n && digits < 16; i++) digits = s[i] >= '0' && s[i] <= '9' ? digits + 1 : 0;
    if (a->large || digits < 16) return;
    arena_reset(&a->arena);
    const Json *j = json_parse(&a->arena, s, n, &why, &at);
    a->large = j && large_number(j);
    if (a->large)
        warn("%s: row %" PRIu64 ": an integer past 2^53, which jq before 1.7 rounds", a->file,
             index + 1);
}

bool adapter_feed(Adapter *a, uint64_t index, const char *s, size_t n)
{
    if (!a->jq.pid) start(a), a->first = index;
    warn_of_large(a, index, s, n);
    buf_add(&a->in, s, n);
    buf_char(&a->in, '\n');
    a->taken++;
    while (!a->enough && a->jq.in >= 0 && a->in.n - a->sent > IN_MOST) exchange(a);
    if (a->sent > IN_MOST) {
        memmove(a->in.s, a->in.s + a->sent, a->in.n -= a->sent);
        a->sent = 0;
    }
    return !a->enough && a->jq.in >= 0;
}

void adapter_close(Adapter *a)
{
    if (a->jq.pid) finish(a);
    kill_it(a);
    if (a->taken) close_one(&a->jq.in), close_one(&a->jq.out), close_one(&a->jq.err);
    buf_free(&a->in), buf_free(&a->out), buf_free(&a->err);
    arena_free(&a->arena);
    free(a->file);
    free(a);
}
