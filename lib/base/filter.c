#include "base/filter.h"
#include "base/child.h"
#include "base/progress.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE_MOST = 1 << 20 };
static const char too_much[] = "gave more lines than it got";

struct Filter {
    pid_t pid;
    int in, out;                /* what we write to and read from */
    char why[128];
};

Filter *filter_open(const char *cmd)
{
    static const char run[] = "command -v stdbuf >/dev/null 2>&1 && exec stdbuf -oL sh -c \"$1\"\n"
                              "exec sh -c \"$1\"";
    const char *argv[] = { "sh", "-c", run, "sh", cmd, NULL };
    Child c;
    if (!child_sh(argv, &c)) die("'%s':", cmd);
    Filter *f = xcalloc(1, sizeof *f);
    *f = (Filter){ .pid = c.pid, .in = c.in, .out = c.out };
    return f;
}

static size_t count_lines(const char *s, size_t n)
{
    size_t k = 0;
    for (const char *end = s + n; s < end && (s = memchr(s, '\n', (size_t)(end - s))); s++) k++;
    return k;
}

/* How it ended, once its stdout is closed. */
static const char *ended(Filter *f)
{
    int status = 0;
    double end = now_seconds() + 1;
    while (waitpid(f->pid, &status, WNOHANG) == 0 && now_seconds() < end) poll(NULL, 0, 1);
    if (now_seconds() >= end) return "closed its output";
    f->pid = -1;
    if (WIFSIGNALED(status))
        snprintf(f->why, sizeof f->why, "was ended by signal %d", WTERMSIG(status));
    else snprintf(f->why, sizeof f->why, "ended with status %d", WEXITSTATUS(status));
    return f->why;
}

static const char *exchange(Filter *f, const Buf *in, size_t n, double seconds,
                            const volatile sig_atomic_t *cancel, Buf *out)
{
    size_t sent = 0, have = 0, line = 0;        /* line: where the unfinished one begins */
    double end = now_seconds() + seconds;
    char part[65536];
    if (poll(&(struct pollfd){ f->out, POLLIN, 0 }, 1, 0) > 0 && read(f->out, part, 1) > 0)
        return too_much;                                /* in answer to the last ones */
    while (have < n || sent < in->n) {
        double left = end - now_seconds();
        if (cancel && *cancel) return "interrupted";
        if (left <= 0) {
            snprintf(f->why, sizeof f->why,
                     "gave %zu of %zu answers, and none in %g s (does it hold its output back?)",
                     have, n, seconds);
            return f->why;
        }
        struct pollfd p[2] = { { f->out, POLLIN, 0 }, { f->in, POLLOUT, 0 } };
        if (poll(p, sent < in->n ? 2 : 1, left < 0.2 ? (int)(left * 1000) + 1 : 200) < 0) continue;
        if (sent < in->n && p[1].revents) {
            ssize_t k = write(f->in, in->s + sent, in->n - sent);
            if (k > 0) sent += (size_t)k;
            else if (k < 0 && errno != EAGAIN && errno != EINTR) return ended(f);
        }
        if (!p[0].revents) continue;
        ssize_t k = read(f->out, part, sizeof part);
        if (k == 0) return ended(f);
        if (k < 0) continue;
        buf_add(out, part, (size_t)k);
        size_t more = count_lines(part, (size_t)k);
        if (more) line = out->n - (size_t)(part + k - 1 - (char *)memrchr(part, '\n', (size_t)k));
        if (out->n - line > LINE_MOST) return "gave a line of more than 1 MB";
        if (more) end = now_seconds() + seconds;
        have += more;
    }
    if (have > n || line < out->n) return too_much;
    return NULL;
}

const char *filter_ask(Filter *f, const Buf *in, size_t n, double seconds,
                       const volatile sig_atomic_t *cancel, Buf *out)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN }, old;
    buf_clear(out);
    sigaction(SIGPIPE, &ignore, &old);
    const char *why = exchange(f, in, n, seconds, cancel, out);
    sigaction(SIGPIPE, &old, NULL);
    return why;
}

const char *filter_end(Filter *f)
{
    const double end = now_seconds() + 0.5;
    char c;
    close(f->in), f->in = -1;
    for (double left; (left = end - now_seconds()) > 0; ) {
        if (poll(&(struct pollfd){ f->out, POLLIN, 0 }, 1, (int)(left * 1000) + 1) <= 0) continue;
        const ssize_t k = read(f->out, &c, 1);
        if (k > 0) return too_much;
        if (k == 0) break;
    }
    return NULL;
}

void filter_close(Filter *f)
{
    if (!f) return;
    if (f->in >= 0) close(f->in);
    close(f->out);
    if (f->pid > 0) {
        double end = now_seconds() + 0.5;
        while (waitpid(f->pid, NULL, WNOHANG) == 0)
            if (now_seconds() > end) kill(-f->pid, SIGKILL), end += 3600;
            else poll(NULL, 0, 1);
    }
    free(f);
}
