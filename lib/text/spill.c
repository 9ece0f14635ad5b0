/* spill.c -- see spill.h. A record is: length, count (7 bits to a byte, lowest first, the top bit
 * says "more follows"), bytes. */
#include "text/spill.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void spill_init(Spill *f, const char *dir)
{
    *f = (Spill){ .fd = -1, .dir = dir };
}

static void open_file(Spill *f)
{
    char *path = xasprintf("%s/pipegpt-XXXXXX", f->dir);
    f->fd = mkostemp(path, O_CLOEXEC);
    if (f->fd < 0)
        die("%s: cannot make a temporary file there:", f->dir);
    unlink(path);
    free(path);
}

static void flush(Spill *f)
{
    for (size_t i = 0; i < f->out.n; ) {
        ssize_t k = pwrite(f->fd, f->out.s + i, f->out.n - i, (off_t)f->end);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            die("%s: cannot write to the temporary file:", f->dir);
        i += (size_t)k, f->end += (uint64_t)k;
    }
    buf_clear(&f->out);
}

void spill_begin(Spill *f, Runs *v)
{
    if (f->fd < 0)
        open_file(f);
    if (v->n == v->cap) {
        v->cap = v->cap ? 2 * v->cap : 8;
        v->r = xreallocarray(v->r, v->cap, sizeof *v->r);
    }
    v->r[v->n].at = f->end;
}

static void put_number(Buf *b, uint64_t x)
{
    for (; x >= 128; x >>= 7)
        buf_char(b, (char)(x | 128));
    buf_char(b, (char)x);
}

void spill_put(Spill *f, const char *s, size_t n, int64_t count)
{
    put_number(&f->out, n);
    put_number(&f->out, (uint64_t)count);
    buf_add(&f->out, s, n);
    if (f->out.n >= SPILL_BUF)
        flush(f);
}

void spill_end(Spill *f, Runs *v)
{
    flush(f);
    v->r[v->n++].end = f->end;
}

/* ---- reading ----------------------------------------------------------------- */

typedef struct Reader { Run left; Buf b; size_t at, n; int64_t count; bool more; } Reader;

/* At least n bytes in b, from `at` on. */
static void fill(const Spill *f, Reader *r, size_t n)
{
    size_t have = r->b.n - r->at;
    if (have >= n)
        return;
    if (have)
        memmove(r->b.s, r->b.s + r->at, have);
    r->b.n = have, r->at = 0;
    uint64_t left = r->left.end - r->left.at;
    size_t want = n - have < SPILL_BUF ? SPILL_BUF : n - have;
    if (want > left)
        want = (size_t)left;
    buf_reserve(&r->b, want);
    while (want) {
        ssize_t k = pread(f->fd, r->b.s + r->b.n, want, (off_t)r->left.at);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            die("%s: cannot read the temporary file:", f->dir);
        r->b.n += (size_t)k, r->left.at += (uint64_t)k, want -= (size_t)k;
    }
}

static uint64_t number(Reader *r)
{
    uint64_t x = 0;
    for (int shift = 0; ; shift += 7) {
        unsigned char c = (unsigned char)r->b.s[r->at++];
        x |= (uint64_t)(c & 127) << shift;
        if (c < 128)
            return x;
    }
}

/* The next record: n bytes at b.s + at. */
static void next(const Spill *f, Reader *r)
{
    r->at += r->n;
    r->n = 0;
    fill(f, r, 20);             /* less only at the end of the run, which is the end of a record */
    r->more = r->at < r->b.n;
    if (!r->more)
        return;
    size_t n = (size_t)number(r);
    r->count = (int64_t)number(r);
    fill(f, r, n);
    r->n = n;
}

static int order(const Reader *a, const Reader *b)
{
    int c = memcmp(a->b.s + a->at, b->b.s + b->at, a->n < b->n ? a->n : b->n);
    return c ? c : (a->n > b->n) - (a->n < b->n);
}

/* h is a heap of readers, smallest first; its top may be too large. */
static void sift(Reader **h, size_t n)
{
    Reader *x = h[0];
    size_t i = 0;
    for (size_t k; (k = 2 * i + 1) < n; i = k) {
        if (k + 1 < n && order(h[k + 1], h[k]) < 0)
            k++;
        if (order(h[k], x) >= 0)
            break;
        h[i] = h[k];
    }
    h[i] = x;
}

static void merge(Spill *f, const Run *run, size_t n, SpillEach *each, void *to)
{
    Reader *r = xcalloc(n, sizeof *r), **h = xcalloc(n, sizeof *h);
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        r[i].left = run[i];
        next(f, &r[i]);
        if (!r[i].more)
            continue;
        size_t j = k++;
        for (; j && order(&r[i], h[(j - 1) / 2]) < 0; j = (j - 1) / 2)
            h[j] = h[(j - 1) / 2];
        h[j] = &r[i];
    }
    Buf same = {0};
    int64_t count = 0;
    bool any = false;
    while (k) {
        Reader *top = h[0];
        const char *s = top->b.s + top->at;
        if (!any || same.n != top->n || memcmp(same.s, s, same.n)) {
            if (any)
                each(to, same.s, same.n, count);
            buf_clear(&same);
            buf_add(&same, s, top->n);
            count = 0;
            any = true;
        }
        count += top->count;
        next(f, top);
        if (!top->more)
            h[0] = h[--k];
        if (k)
            sift(h, k);
    }
    if (any)
        each(to, same.s, same.n, count);
    for (size_t i = 0; i < n; i++)
        buf_free(&r[i].b);
    buf_free(&same);
    free(r), free(h);
}

static void put(void *to, const char *s, size_t n, int64_t count)
{
    spill_put(to, s, n, count);
}

void spill_merge(Spill *f, Runs *v, SpillEach *each, void *to)
{
    while (v->n > SPILL_FAN) {          /* the first ones into one, at the end */
        spill_begin(f, v);
        merge(f, v->r, SPILL_FAN, put, f);
        spill_end(f, v);
        v->n -= SPILL_FAN;
        memmove(v->r, v->r + SPILL_FAN, v->n * sizeof *v->r);
    }
    merge(f, v->r, v->n, each, to);
    free(v->r);
    *v = (Runs){0};
}

void spill_free(Spill *f)
{
    if (f->fd >= 0)
        close(f->fd);
    buf_free(&f->out);
    f->fd = -1;
}
