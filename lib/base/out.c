/* Output: a buffer of 64 KB, and for named files the temporary that becomes the file. */
#include "base/io.h"
#include "base/io_int.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFSIZE = 64 << 10, LINKS = 40 };

struct Out {
    int fd;
    char *name;
    char *target, *tmp;                 /* named file: what tmp is renamed to; else NULL */
    struct Temp *temp;
    struct stat old; bool is_old;       /* the file that stands there */
    uint64_t written;                   /* bytes that left buf */
    size_t n;
    char buf[BUFSIZE];
};

/* Where a chain of symbolic links ends, whether or not something is there. free() it. */
static char *follow(const char *path)
{
    char *at = xstrdup(path);
    for (int hops = 0; ; hops++) {
        struct stat st;
        if (lstat(at, &st) < 0 || !S_ISLNK(st.st_mode)) return at;
        if (hops == LINKS) { errno = ELOOP; die("%s:", path); }
        size_t cap = st.st_size > 0 ? (size_t)st.st_size + 1 : 4096;
        char *to = xmalloc(cap + 1);
        ssize_t k = readlink(at, to, cap);
        if (k < 0) die("%s:", path);
        to[k] = 0;
        char *next = to[0] == '/' ? xstrdup(to) : path_beside(at, to);
        free(to);
        free(at);
        at = next;
    }
}

static void open_temporary(Out *o)
{
    static atomic_int count;
    struct stat st;
    bool there = stat(o->target, &st) == 0;
    if (there && faccessat(AT_FDCWD, o->target, W_OK, AT_EACCESS) < 0)
        die("%s: cannot write:", o->name);
    for (;;) {
        o->tmp = xasprintf("%s.tmp-%ld-%d", o->target, (long)getpid(), atomic_fetch_add(&count, 1));
        o->temp = temp_add(o->tmp);     /* before it exists: a signal may come at any instant */
        o->fd = open(o->tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (o->fd >= 0) break;
        int e = errno;
        temp_drop(o->temp, false);
        errno = e;
        if (e != EEXIST) die("%s: cannot create:", o->name);
        free(o->tmp);
    }
    if (there) (void)!fchmod(o->fd, st.st_mode & 0777);
}

/* What stands now where it will end; false: nothing yet. */
static bool stands(const Out *o, struct stat *st)
{
    return (o->tmp ? stat(o->target, st) : fstat(o->fd, st)) == 0;
}

Out *out_open(const char *path, int flags)
{
    Out *o = xcalloc(1, sizeof *o);
    struct stat st;
    int fd = strcmp(path, "-") ? fd_named(path) : 1;
    o->name = xstrdup(strcmp(path, "-") ? path : "stdout");
    if (!*path) die("'': an empty name; no file can be written");
    if (fd >= 0) {
        o->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    } else if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        if (S_ISDIR(st.st_mode)) die("%s: is a directory", path);
        o->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    } else {
        o->target = follow(path);
        open_temporary(o);
    }
    if (o->fd < 0) die("%s: cannot write:", o->name);
    if ((flags & OUT_BINARY) && isatty(o->fd))
        die("refusing to write binary data to a terminal; use -o FILE or a pipe");
    o->is_old = stands(o, &o->old);
    if (o->is_old) clash_write(&o->old, o->name);
    return o;
}

const char *out_name(const Out *o) { return o->name; }

static bool one_inode(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool out_same(const Out *a, const Out *b)
{
    struct stat s, t;
    bool x = stands(a, &s), y = stands(b, &t);
    if (x && y) return one_inode(&s, &t) && (!S_ISCHR(s.st_mode) || isatty(a->fd));
    if (x || y || strcmp(last_part(a->target), last_part(b->target))) return false;
    char *p = path_beside(a->target, "."), *q = path_beside(b->target, ".");
    bool same = stat(p, &s) == 0 && stat(q, &t) == 0 && one_inode(&s, &t);
    free(p), free(q);
    return same;
}

uint64_t out_offset(const Out *o) { return o->written + o->n; }

static void fd_write(Out *o, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t k = write(o->fd, p, n);
        if (k >= 0) { p += k; n -= (size_t)k; o->written += (uint64_t)k; }
        else if (errno == EAGAIN) fd_wait(o->fd, POLLOUT);
        else if (errno != EINTR) die("%s: cannot write:", o->name);
    }
}

void out_flush(Out *o)
{
    size_t n = o->n;
    o->n = 0;
    fd_write(o, o->buf, n);
}

void out_write(Out *o, const void *p, size_t n)
{
    if (n > BUFSIZE - o->n) out_flush(o);
    if (n >= BUFSIZE) { fd_write(o, p, n); return; }
    if (n) memcpy(o->buf + o->n, p, n);
    o->n += n;
}

void out_str(Out *o, const char *s) { out_write(o, s, strlen(s)); }

void out_printf(Out *o, const char *fmt, ...)
{
    va_list ap;
    char small[512], *s = small;
    va_start(ap, fmt);
    int n = vsnprintf(small, sizeof small, fmt, ap);
    va_end(ap);
    if (n < 0) die("%s: cannot format a text:", o->name);
    if ((size_t)n >= sizeof small) {
        s = xmalloc((size_t)n + 1);
        va_start(ap, fmt);
        vsnprintf(s, (size_t)n + 1, fmt, ap);
        va_end(ap);
    }
    out_write(o, s, (size_t)n);
    if (s != small) free(s);
}

static void out_free(Out *o)
{
    if (o->is_old) clash_written(&o->old);
    free(o->name);
    free(o->target);
    free(o->tmp);
    free(o);
}

void out_close(Out *o)
{
    out_flush(o);
    if (o->tmp && fsync(o->fd) < 0 && errno != EINVAL && errno != ENOTSUP)
        die("%s: cannot write to the disk:", o->name);
    if (close(o->fd) < 0 && errno != EINTR) die("%s: cannot close:", o->name);
    if (o->tmp) {
        if (rename(o->tmp, o->target) < 0) die("%s: cannot rename %s:", o->name, o->tmp);
        temp_drop(o->temp, false);
        sync_dir_of(o->target);
    }
    out_free(o);
}

void out_discard(Out *o)
{
    close(o->fd);
    if (o->tmp) temp_drop(o->temp, true);
    out_free(o);
}
