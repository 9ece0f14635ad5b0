#include "base/child.h"
#include "base/err.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

extern char **environ;

bool child_sh(const char *const argv[], Child *c)
{
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC)) return false;
    if (pipe2(from, O_CLOEXEC)) return close(to[0]), close(to[1]), false;
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
    int err = posix_spawn(&c->pid, "/bin/sh", &acts, &attr, (char *const *)(uintptr_t)argv,
                          environ);
    posix_spawn_file_actions_destroy(&acts);
    posix_spawnattr_destroy(&attr);
    close(to[0]), close(from[1]);
    c->in = to[1], c->out = from[0], c->err = -1;
    if (!err) return fcntl(c->in, F_SETFL, O_NONBLOCK), true;
    close(c->in), close(c->out);
    return errno = err, false;
}

/* ---- without a shell */

bool child_found(const char *name)
{
    const char *path = getenv("PATH");
    for (const char *p = path && *path ? path : "/bin:/usr/bin"; ; p++) {
        size_t n = strcspn(p, ":");
        char *at = n ? xasprintf("%.*s/%s", (int)n, p, name) : xstrdup(name);
        bool there = access(at, X_OK) == 0;
        free(at);
        if (there) return true;
        p += n;
        if (!*p) return false;
    }
}

/* In the new process: pipe[0..2] become 0, 1, 2; why it cannot be goes to `told`. */
static _Noreturn void become(const char *const argv[], int pipe[4][2], pid_t parent)
{
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);          /* it ended before that was set */
#else
    (void)parent;
#endif
    signal(SIGPIPE, SIG_DFL);
    if (dup2(pipe[0][0], 0) == 0 && dup2(pipe[1][1], 1) == 1 && dup2(pipe[2][1], 2) == 2)
        execvp(argv[0], (char *const *)(uintptr_t)argv);
    int e = errno;
    (void)!write(pipe[3][1], &e, sizeof e);
    _exit(127);
}

static bool four_pipes(int pipe[4][2])
{
    for (int i = 0; i < 4; i++)
        if (pipe2(pipe[i], O_CLOEXEC)) {
            while (i-- > 0) close(pipe[i][0]), close(pipe[i][1]);
            return false;
        }
    return true;
}

bool child_run(const char *const argv[], Child *c)
{
    int pipe[4][2], e = 0;                      /* stdin, stdout, stderr, and why there was no exec */
    pid_t me = getpid();
    if (!four_pipes(pipe)) return false;
    c->pid = fork();
    if (c->pid == 0) become(argv, pipe, me);
    if (c->pid < 0) e = errno;
    close(pipe[0][0]), close(pipe[1][1]), close(pipe[2][1]), close(pipe[3][1]);
    while (c->pid > 0 && read(pipe[3][0], &e, sizeof e) < 0 && errno == EINTR) {}
    close(pipe[3][0]);
    c->in = pipe[0][1], c->out = pipe[1][0], c->err = pipe[2][0];
    if (!e) return fcntl(c->in, F_SETFL, O_NONBLOCK), true;
    close(c->in), close(c->out), close(c->err);
    if (c->pid > 0) waitpid(c->pid, NULL, 0);
    return errno = e, false;
}
