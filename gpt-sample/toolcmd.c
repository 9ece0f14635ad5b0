/* toolcmd.c -- see toolcmd.h. */
#include "toolcmd.h"
#include "base/child.h"
#include "base/progress.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS = 3, MOST = 1 << 16 };

/* s goes in, out comes out, until the command closes its stdout. NULL, or why not. */
static const char *talk_to(Child *c, const ToolCmd *t, const Buf *s, Buf *out)
{
    double end = now_seconds() + SECONDS;
    size_t sent = 0;
    char part[4096];
    for (;;) {
        double left = end - now_seconds();
        if (left <= 0) return "took more than 3 seconds";
        if (t->cancel && *t->cancel) return "was interrupted";
        if (sent == s->n && c->in >= 0) close(c->in), c->in = -1;
        struct pollfd p[2] = { { c->out, POLLIN, 0 }, { c->in, POLLOUT, 0 } };
        if (poll(p, c->in >= 0 ? 2 : 1, (int)(left * 1000) + 1) < 0 && errno != EINTR)
            return strerror(errno);
        if (p[1].revents && c->in >= 0) {
            ssize_t k = write(c->in, s->s + sent, s->n - sent);
            if (k > 0) sent += (size_t)k;
            else if (errno != EAGAIN && errno != EINTR) sent = s->n;    /* it does not want it */
        }
        if (!p[0].revents) continue;
        ssize_t k = read(c->out, part, sizeof part);
        if (k == 0) return NULL;
        if (k > 0) buf_add(out, part, (size_t)k);
        if (out->n > MOST) return "printed more than 64 KB";
    }
}

/* It has closed its stdout: it ends soon, or is ended. */
static const char *finish(Child *c, const char *why)
{
    int status = 0;
    double end = now_seconds() + SECONDS;
    if (c->in >= 0) close(c->in);
    close(c->out);
    while (!why && waitpid(c->pid, &status, WNOHANG) == 0) {
        if (now_seconds() > end) why = "took more than 3 seconds";
        else poll(NULL, 0, 1);
    }
    if (why) {
        kill(-c->pid, SIGKILL);
        waitpid(c->pid, &status, 0);
        return why;
    }
    kill(-c->pid, SIGKILL);                     /* what it left behind */
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? NULL : "failed";
}

bool toolcmd_run(void *arg, const char *s, size_t n, Buf *out)
{
    const ToolCmd *t = arg;
    const char *why = NULL;
    Buf line = {0};
    Child c;
    buf_clear(out);
    if (memchr(s, '\n', n)) {
        warn("--tool: the model's expression has several lines: no result");
        return false;
    }
    buf_add(&line, s, n);
    buf_char(&line, '\n');
    struct sigaction ignore = { .sa_handler = SIG_IGN }, old;
    sigaction(SIGPIPE, &ignore, &old);
    const char *argv[] = { "sh", "-c", t->cmd, NULL };
    if (child_sh(argv, &c)) why = finish(&c, talk_to(&c, t, &line, out));
    else why = strerror(errno);
    sigaction(SIGPIPE, &old, NULL);
    buf_free(&line);
    if (why) {
        warn("--tool: '%s' %s: no result", t->cmd, why);
        return false;
    }
    const char *lf = out->n ? memchr(out->s, '\n', out->n) : NULL;
    if (lf) out->n = (size_t)(lf - out->s);
    if (out->n && out->s[out->n - 1] == '\r') out->n--;
    return true;
}
