#include "base/child.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <unistd.h>

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
    c->in = to[1], c->out = from[0];
    if (!err) return fcntl(c->in, F_SETFL, O_NONBLOCK), true;
    close(c->in), close(c->out);
    return errno = err, false;
}
