/* Input. One buffer holds what the caller sees; gzip and zstd add a second one for the packed
 * bytes. */
#include "base/io.h"
#include "base/io_int.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

enum { BUFSIZE = 512 << 10 };

typedef enum { NEW, PLAIN, GZIP, ZEROS, ZSTD } State;     /* ZEROS: after the last gzip member */

struct In {
    int fd;                                         /* -1: pull() in its place */
    InPull *pull; void *arg;
    bool raw, eof;
    struct stat st;
    State state;
    char *name;
    char *buf; size_t pos, end;                     /* buf[pos..end) is not consumed yet */
    uint64_t before;                                /* bytes that were in buf before this filling */
    uint64_t line;
    unsigned char *packed; size_t ppos, pend;       /* gzip, zstd: packed[ppos..pend) */
    uint64_t pbefore;                               /* file offset of packed[0] */
    z_stream z;
#ifdef HAVE_ZSTD
    ZSTD_DStream *zstd;
    size_t frame;                                   /* 0: between frames */
#endif
};

static In *open_in(const char *path, bool raw)
{
    In *in = xcalloc(1, sizeof *in);
    int fd = strcmp(path, "-") ? fd_named(path) : 0;
    in->name = xstrdup(!*path ? "''" : strcmp(path, "-") ? path : "stdin");
    in->fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (in->fd < 0) die("%s:", in->name);
    if (fstat(in->fd, &in->st) < 0) die("%s:", in->name);
    if (S_ISDIR(in->st.st_mode)) die("%s: is a directory", in->name);
    if (!raw) clash_read(&in->st, in->name);
    if (S_ISREG(in->st.st_mode)) posix_fadvise(in->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    in->raw = raw;
    in->buf = xmalloc(BUFSIZE);
    return in;
}

In *in_from(const char *name, InPull *pull, void *arg)
{
    In *in = xcalloc(1, sizeof *in);
    *in = (In){ .fd = -1, .pull = pull, .arg = arg, .name = xstrdup(name), .buf = xmalloc(BUFSIZE) };
    return in;
}

In *in_open(const char *path) { return open_in(path, false); }
In *in_open_raw(const char *path) { return open_in(path, true); }
const char *in_name(const In *in) { return in->name; }
uint64_t in_offset(const In *in) { return in->before + in->pos; }
uint64_t in_lineno(const In *in) { return in->line; }

static size_t fd_read(In *in, void *p, size_t n)
{
    while (!in->eof) {
        ssize_t k = in->pull ? (ssize_t)in->pull(in->arg, p, n) : read(in->fd, p, n);
        if (k > 0) return (size_t)k;
        if (k == 0) in->eof = true;
        else if (errno == EAGAIN) fd_wait(in->fd, POLLIN);
        else if (errno != EINTR) die("%s: cannot read:", in->name);
    }
    return 0;
}

/* ---- gzip ------------------------------------------------------------------------------------ */

static uint64_t packed_offset(const In *in) { return in->pbefore + in->ppos; }

static bool packed_fill(In *in)                     /* true if a packed byte is there */
{
    if (in->ppos < in->pend) return true;
    in->pbefore += in->pend;
    in->ppos = 0;
    in->pend = fd_read(in, in->packed, BUFSIZE);
    return in->pend > 0;
}

static _Noreturn void gzip_truncated(const In *in)
{
    die("%s: ends inside gzip data, byte %" PRIu64, in->name, packed_offset(in));
}

/* What was read as plain bytes turns out to be the head of a packed file. */
static void packed_start(In *in, State state)
{
    in->packed = (unsigned char *)in->buf;
    in->pend = in->end;
    in->buf = xmalloc(BUFSIZE);
    in->end = 0;
    in->state = state;
}

static void gzip_start(In *in)
{
    if (inflateInit2(&in->z, 16 + MAX_WBITS) != Z_OK) die("%s: zlib cannot start", in->name);
    packed_start(in, GZIP);
}

/* After a member: another one, zero bytes to the end of the file, or the end. */
static void gzip_next(In *in)
{
    if (!packed_fill(in)) { in->state = ZEROS; return; }
    unsigned char c = in->packed[in->ppos];
    if (c == 0x1f) inflateReset(&in->z);
    else if (c == 0) in->state = ZEROS;
    else die("%s: not gzip data after the end of a member, byte %" PRIu64, in->name,
             packed_offset(in));
}

static void gzip_zeros(In *in)
{
    while (packed_fill(in)) {
        for (; in->ppos < in->pend; in->ppos++)
            if (in->packed[in->ppos])
                die("%s: bytes after the end of the gzip data, byte %" PRIu64, in->name,
                    packed_offset(in));
    }
}

static size_t gzip_read(In *in, void *p, size_t n)
{
    z_stream *z = &in->z;
    z->next_out = p;
    z->avail_out = (uInt)n;
    while (in->state == GZIP && z->avail_out == n) {
        if (!packed_fill(in)) gzip_truncated(in);
        z->next_in = in->packed + in->ppos;
        z->avail_in = (uInt)(in->pend - in->ppos);
        int r = inflate(z, Z_NO_FLUSH);
        in->ppos = in->pend - z->avail_in;
        if (r == Z_MEM_ERROR) die("%s: out of memory while unpacking", in->name);
        if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
            die("%s: gzip data is corrupt (%s), byte %" PRIu64, in->name,
                z->msg ? z->msg : "needs a dictionary", packed_offset(in));
        if (r == Z_STREAM_END) gzip_next(in);
    }
    if (in->state == ZEROS && z->avail_out == n) gzip_zeros(in);
    return n - z->avail_out;
}

/* ---- zstd ------------------------------------------------------------------------------------ */

#ifdef HAVE_ZSTD
static void zstd_start(In *in)
{
    in->zstd = ZSTD_createDStream();                /* memory: a window of up to 128 MB */
    if (!in->zstd) die("%s: out of memory while unpacking", in->name);
    packed_start(in, ZSTD);
}

/* One frame after the other; the end may only come between two. */
static size_t zstd_read(In *in, void *p, size_t n)
{
    ZSTD_outBuffer out = { p, n, 0 };
    while (out.pos == 0) {
        if (!packed_fill(in)) {
            if (in->frame) die("%s: ends inside zstd data, byte %" PRIu64, in->name,
                               packed_offset(in));
            break;
        }
        ZSTD_inBuffer from = { in->packed, in->pend, in->ppos };
        in->frame = ZSTD_decompressStream(in->zstd, &out, &from);
        if (ZSTD_isError(in->frame))
            die("%s: zstd data is corrupt (%s), byte %" PRIu64, in->name,
                ZSTD_getErrorName(in->frame), packed_offset(in));
        in->ppos = from.pos;
    }
    return out.pos;
}
#else
static _Noreturn void zstd_start(In *in)
{
    die("%s: zstd data, and this program was built without zstd", in->name);
}
static size_t zstd_read(In *in, void *p, size_t n) { return (void)in, (void)p, (void)n, 0; }
#endif

/* ---- the buffer ------------------------------------------------------------------------------ */

/* Reads on until the k bytes of a magic are there, as long as what is there begins it. */
static bool has_magic(In *in, const char *magic, size_t k)
{
    while (in->end < k && !memcmp(in->buf, magic, in->end)) {
        size_t got = fd_read(in, in->buf + in->end, BUFSIZE - in->end);
        if (!got) return false;
        in->end += got;
    }
    return !memcmp(in->buf, magic, k);
}

/* Look for the magic 1f 8b. A file that is one byte 1f has to be half a magic: no text is that.
 * 28 b5 2f fd is zstd; no text is that either. */
static void first_fill(In *in)
{
    in->state = PLAIN;
    in->end = fd_read(in, in->buf, BUFSIZE);
    if (!in->raw && in->end && has_magic(in, "\x28\xb5\x2f\xfd", 4)) {
        zstd_start(in);
        return;
    }
    if (in->raw || in->end == 0 || (unsigned char)in->buf[0] != 0x1f) return;
    if (in->end == 1) in->end += fd_read(in, in->buf + 1, BUFSIZE - 1);
    if (in->end == 1) die("%s: ends inside gzip data, byte 1", in->name);
    if ((unsigned char)in->buf[1] == 0x8b) gzip_start(in);
}

static bool fill(In *in)                            /* true if buf[pos] is there */
{
    if (in->pos < in->end) return true;
    in->before += in->pos;
    in->pos = in->end = 0;
    if (in->state == NEW) first_fill(in);
    if (in->end == 0)
        in->end = (in->state == PLAIN ? fd_read : in->state == ZSTD ? zstd_read : gzip_read)(
            in, in->buf, BUFSIZE);
    return in->end > 0;
}

size_t in_some(In *in, const char **p)
{
    fill(in);
    *p = in->buf + in->pos;
    return in->end - in->pos;
}

void in_skip(In *in, size_t n)
{
    assert(n <= in->end - in->pos);
    in->pos += n;
}

size_t in_read(In *in, void *p, size_t n)
{
    char *to = p;
    size_t got = 0;
    while (got < n) {
        size_t want = n - got, k;
        if (in->pos == in->end && in->state == PLAIN && want >= BUFSIZE) {
            in->before += in->pos;                  /* straight to the caller */
            in->pos = in->end = 0;
            k = fd_read(in, to + got, want);
            in->before += k;
        } else {
            k = fill(in) ? in->end - in->pos : 0;
            if (k > want) k = want;
            memcpy(to + got, in->buf + in->pos, k);
            in->pos += k;
        }
        if (k == 0) break;
        got += k;
    }
    return got;
}

void in_exact(In *in, void *p, size_t n, const char *what)
{
    if (in_read(in, p, n) != n)
        die("%s: ends inside %s, byte %" PRIu64, in->name, what, in_offset(in));
}

size_t in_longest(void)
{
    static _Atomic size_t most;
    if (most) return most;
    double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    struct rlimit r;
    if (!getrlimit(RLIMIT_AS, &r) && r.rlim_cur != RLIM_INFINITY && (double)r.rlim_cur < bytes)
        bytes = (double)r.rlim_cur;
    if (!(bytes > 1 << 22)) bytes = 1 << 22;
    if (bytes > (double)(SIZE_MAX / 2)) bytes = (double)(SIZE_MAX / 2);
    const size_t quarter = (size_t)(bytes / 4);
    most = quarter;
    return quarter;
}

bool in_line(In *in, Buf *b)
{
    buf_clear(b);
    if (!fill(in)) return false;
    in->line++;
    do {
        const char *s = in->buf + in->pos, *lf = memchr(s, '\n', in->end - in->pos);
        size_t n = lf ? (size_t)(lf - s) : in->end - in->pos;
        if (n > in_longest() - b->n)
            die("%s: line %" PRIu64 ": longer than %zu MB: too long for this machine's memory",
                in->name, in->line, in_longest() >> 20);
        buf_add(b, s, n);
        in->pos += n + (lf != NULL);
        if (!lf) continue;
        if (b->n && b->s[b->n - 1] == '\r') b->s[--b->n] = 0;
        break;
    } while (fill(in));
    return true;
}

void in_close(In *in)
{
    if (in->packed && in->state != ZSTD) inflateEnd(&in->z);
#ifdef HAVE_ZSTD
    ZSTD_freeDStream(in->zstd);
#endif
    if (in->fd >= 0 && !in->raw) clash_was_read(&in->st);
    if (in->fd >= 0) close(in->fd);
    free(in->packed);
    free(in->buf);
    free(in->name);
    free(in);
}
