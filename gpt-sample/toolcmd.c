/* toolcmd.c -- see toolcmd.h. */
#include "toolcmd.h"
#include "base/progress.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS = 3, MOST = 1 << 16 };
extern char **environ;

typedef struct Child { pid_t pid; int in, out; } Child;     /* what we write to and read from */

static bool start(const char *cmd, Child *c)
{
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC)) return false;
    if (pipe2(from, O_CLOEXEC)) return close(to[0]), close(to[1]), false;
    char sh[] = "sh", dash_c[] = "-c", *text = xstrdup(cmd), *argv[] = { sh, dash_c, text, NULL };
    posix_spawn_file_actions_t acts;
    posix_spawnattr_t attr;
    sigset_t set;
    posix_spawn_file_actions_init(&acts);
    posix_spawn_file_actions_adddup2(&acts, to[0], 0);
    posix_spawn_file_actions_adddup2(&acts, from[1], 1);
    posix_spawnattr_init(&attr);
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    sigaddset(&set, SIGINT);
    posix_spawnattr_setsigdefault(&attr, &set);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
    int err = posix_spawn(&c->pid, "/bin/sh", &acts, &attr, argv, environ);
    posix_spawn_file_actions_destroy(&acts);
    posix_spawnattr_destroy(&attr);
    free(text);
    close(to[0]), close(from[1]);
    c->in = to[1], c->out = from[0];
    if (!err) return true;
    close(c->in), close(c->out);
    return errno = err, false;
}

/* s goes in, out comes out, until the command closes its stdout. NULL, or why not. */
static const char *talk_to(Child *c, const ToolCmd *t, const Buf *s, Buf *out)
{
    double end = now_seconds() + SECONDS;
    size_t sent = 0;
    char part[4096];
    fcntl(c->in, F_SETFL, O_NONBLOCK);
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
    if (start(t->cmd, &c)) why = finish(&c, talk_to(&c, t, &line, out));
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
