/* What input and output share: signals and temporaries, descriptors by name, whole files. */
#include "base/io.h"
#include "base/io_int.h"
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* ---- temporaries -------------------------------------------------------------------------------
 * A list that a signal handler may walk at any instant, in any thread: nodes are only ever added,
 * and a name belongs to whoever swaps it out of its node. A forked child must leave its parent's
 * files alone, hence the pid. */
typedef struct Name { pid_t pid; char path[]; } Name;
struct Temp { _Atomic(Name *) name; struct Temp *next; };
static _Atomic(struct Temp *) temps;

struct Temp *temp_add(const char *path)
{
    size_t n = strlen(path) + 1;
    Name *name = xmalloc(sizeof *name + n), *none;
    name->pid = getpid();
    memcpy(name->path, path, n);
    for (struct Temp *t = atomic_load(&temps); t; t = t->next) {
        none = NULL;
        if (atomic_compare_exchange_strong(&t->name, &none, name)) return t;
    }
    struct Temp *t = xcalloc(1, sizeof *t);
    atomic_init(&t->name, name);
    t->next = atomic_load(&temps);
    while (!atomic_compare_exchange_weak(&temps, &t->next, t)) {}
    return t;
}

void temp_drop(struct Temp *t, bool unlink_it)
{
    Name *name = atomic_exchange(&t->name, NULL);
    if (!name) return;
    if (unlink_it) unlink(name->path);
    free(name);
}

static void temps_unlink(void)      /* async-signal-safe, so it frees nothing */
{
    int e = errno;
    pid_t me = getpid();
    for (struct Temp *t = atomic_load(&temps); t; t = t->next) {
        Name *name = atomic_exchange(&t->name, NULL);
        if (!name) continue;
        if (name->pid == me) {
            unlink(name->path);
            name->pid = 0;          /* nobody's any more */
        }
        atomic_store(&t->name, name);
    }
    errno = e;
}

static void on_signal(int sig)
{
    temps_unlink();
    signal(sig, SIG_DFL);
    raise(sig);                     /* delivered when the handler returns: we end by the signal */
}

static void at_exit(void)
{
    temps_unlink();
    if (fflush(stdout) == 0 && !ferror(stdout)) return;     /* what printf still held */
    dprintf(STDERR_FILENO, "%s: stdout: cannot write: %s\n", prog, strerror(errno));
    _exit(1);
}

/* A file opened while 0, 1 or 2 is closed would take its number, and messages would go into it.
 * The stand-in is opened the wrong way round: using it is still an error. */
static void std_fds(void)
{
    for (int fd = 0; fd < 3; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) continue;
        if (open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) _exit(1);
    }
}

void io_init(void)
{
    static bool once;
    if (once) return;
    once = true;
    std_fds();
    setlocale(LC_NUMERIC, "C");
    atexit(at_exit);
    const int sigs[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
    for (size_t i = 0; i < sizeof sigs / sizeof *sigs; i++) {
        struct sigaction old, act = { .sa_handler = on_signal };
        sigemptyset(&act.sa_mask);
        sigaction(sigs[i], NULL, &old);
        /* nohup's ignored SIGHUP stays ignored; an inherited ignored SIGPIPE does not, for the
         * stage before a finished `head` has to end */
        if (old.sa_handler != SIG_IGN || sigs[i] == SIGPIPE) sigaction(sigs[i], &act, NULL);
    }
    signal(SIGXFSZ, SIG_IGN);       /* write() then says EFBIG, and that is reported */
}

/* ---- shared by in.c and out.c ---------------------------------------------------------------- */

void fd_wait(int fd, int events)
{
    struct pollfd p = { .fd = fd, .events = (short)events };
    poll(&p, 1, -1);
}

int fd_named(const char *path)
{
    if (!strcmp(path, "/dev/stdin")) return 0;
    if (!strcmp(path, "/dev/stdout")) return 1;
    if (!strcmp(path, "/dev/stderr")) return 2;
    const char *s = NULL;
    if (!strncmp(path, "/dev/fd/", 8)) s = path + 8;
    if (!strncmp(path, "/proc/self/fd/", 14)) s = path + 14;
    if (!s || !*s || strlen(s) > 6 || strspn(s, "0123456789") != strlen(s)) return -1;
    return atoi(s);
}

char *path_beside(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    return xasprintf("%.*s%s", slash ? (int)(slash - path + 1) : 0, path, name);
}

void sync_dir_of(const char *path)
{
    char *dir = path_beside(path, ".");
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(dir);
    if (fd < 0) return;             /* a folder we may write but not read: nothing to be done */
    if (fsync(fd) < 0 && errno == EIO) die("%s: cannot sync its folder:", path);
    close(fd);
}

void read_file(const char *path, Buf *b, size_t max)
{
    In *in = in_open_raw(path);
    const char *p;
    size_t k;
    buf_clear(b);
    buf_reserve(b, 1);
    b->s[0] = 0;
    while ((k = in_some(in, &p)) > 0) {
        if (k > max - b->n) die("%s: is longer than %zu bytes", in_name(in), max);
        buf_add(b, p, k);
        in_skip(in, k);
    }
    in_close(in);
}

uint64_t xxh3(const void *p, size_t n) { return XXH3_64bits(p, n); }
