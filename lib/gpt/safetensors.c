/* safetensors.c -- writing safetensors files; see safetensors.h. Reading is in st_read.c. */
#include "gpt/safetensors.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define CHUNK (1 << 16)             /* reals converted at a time */

/* What was declared, in order: bytes up to its end, and its numbers' type: a Narrow; -1: as reals
 * are. */
typedef struct Declared { uint64_t end; int narrow; size_t width; } Declared;

struct StWriter {
    Buf meta, tensors, head;
    Declared *tensor; int n, now;   /* now: the one whose data is written */
    uint64_t data, written;         /* bytes of data declared, and written */
    Out *out;
    int fd, err;                    /* out NULL: to fd; err: the first failure */
    bool begun;
    int narrow;                     /* of what is added */
    unsigned char *chunk;
    XXH3_state_t *hash; size_t hashes;  /* of the tensor being written; where they are in head */
};

StWriter *stw_new(void)
{
    StWriter *w = xcalloc(1, sizeof *w);
    w->fd = w->narrow = -1;
    return w;
}

static const char *dtype(int narrow)
{
    static const char *const name[] = { "F32", "F16", "BF16" };
    return narrow >= 0 ? name[narrow] : sizeof(real) == 8 ? "F64" : "F32";
}

void stw_narrow(StWriter *w, Narrow type)
{
    assert(!w->begun && type <= NARROW_BF16);
    w->narrow = (int)type;
}

void stw_hash(StWriter *w)
{
    assert(!w->begun);
    w->hash = XXH3_createState();
    if (!w->hash || XXH3_64bits_reset(w->hash)) die("out of memory (for a hash)");
}

void stw_meta(StWriter *w, const char *key, const char *value)
{
    assert(!w->begun);
    if (w->meta.n) buf_char(&w->meta, ',');
    json_str(&w->meta, key, strlen(key));
    buf_char(&w->meta, ':');
    json_str(&w->meta, value, strlen(value));
}

void stw_add(StWriter *w, const char *name, int ndim, const int64_t *dim)
{
    assert(!w->begun);
    Declared d = { .narrow = w->narrow,
                   .width = w->narrow >= 0 ? narrow_bytes((Narrow)w->narrow, 1) : sizeof(real) };
    uint64_t bytes = d.width, begin = w->data;
    if (w->tensors.n) buf_char(&w->tensors, ',');
    json_str(&w->tensors, name, strlen(name));
    buf_printf(&w->tensors, ":{\"dtype\":\"%s\",\"shape\":[", dtype(d.narrow));
    for (int i = 0; i < ndim; i++) {
        buf_printf(&w->tensors, "%s%lld", i ? "," : "", (long long)dim[i]);
        bytes = size_mul(bytes, (size_t)dim[i]);
    }
    d.end = w->data = size_add(w->data, bytes);
    if (w->n % 64 == 0) w->tensor = xreallocarray(w->tensor, (size_t)w->n + 64, sizeof d);
    w->tensor[w->n++] = d;
    buf_printf(&w->tensors, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begin,
               (unsigned long long)w->data);
}

/* Zeros for now, in the metadata, a word for each tensor. */
static void leave_hashes(StWriter *w)
{
    stw_meta(w, ST_HASHES, "");
    w->meta.n--;                                    /* the closing quote */
    w->hashes = 8 + strlen("{\"__metadata__\":{") + w->meta.n;
    for (int i = 0; i < w->n; i++) buf_printf(&w->meta, "%016d", 0);
    buf_char(&w->meta, '"');
}

/* The length and the header, padded with spaces so that the data is aligned to 8. */
static void make_head(StWriter *w)
{
    Buf *h = &w->head;
    if (w->begun) return;
    if (w->hash) leave_hashes(w);
    w->begun = true;
    buf_u64(h, 0);
    buf_char(h, '{');
    if (w->meta.n) {
        buf_str(h, "\"__metadata__\":{");
        buf_add(h, w->meta.s, w->meta.n);
        buf_str(h, w->tensors.n ? "}," : "}");
    }
    if (w->tensors.n) buf_add(h, w->tensors.s, w->tensors.n);
    buf_char(h, '}');
    while (h->n % 8) buf_char(h, ' ');
    for (int i = 0; i < 8; i++) h->s[i] = (char)((uint64_t)(h->n - 8) >> 8 * i);
}

uint64_t stw_size(StWriter *w)
{
    make_head(w);
    return w->head.n + w->data;
}

static void put(StWriter *w, const void *p, size_t n)
{
    if (w->out) { out_write(w->out, p, n); return; }
    for (const char *c = p; n && !w->err; ) {
        ssize_t k = write(w->fd, c, n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) { w->err = errno; break; }
        c += k; n -= (size_t)k;
    }
}

static void begin(StWriter *w)
{
    make_head(w);
    w->chunk = xmalloc(CHUNK * sizeof(real));
    put(w, w->head.s, w->head.n);
}

void stw_begin(StWriter *w, Out *out)
{
    assert(!w->hash);
    w->out = out;
    begin(w);
}

void stw_begin_fd(StWriter *w, int fd) { w->fd = fd; begin(w); }

static void put_le(unsigned char *p, real x)
{
#ifdef REAL_F64
    uint64_t u;
#else
    uint32_t u;
#endif
    memcpy(&u, &x, sizeof u);
    for (size_t i = 0; i < sizeof u; i++) p[i] = (unsigned char)(u >> 8 * i);
}

/* The chunk's first n bytes, of tensor d. */
static void hash(StWriter *w, const Declared *d, size_t n)
{
    char hex[17];
    XXH3_64bits_update(w->hash, w->chunk, n);
    if (w->written < d->end) return;
    snprintf(hex, sizeof hex, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(w->hash));
    memcpy(w->head.s + w->hashes + 16 * (size_t)(d - w->tensor), hex, 16);
    XXH3_64bits_reset(w->hash);
}

/* The header once more, now that they are known. */
static void put_hashes(StWriter *w)
{
    size_t n = 16 * (size_t)w->n, done = 0;
    while (w->hash && !w->err && done < n) {
        ssize_t k = pwrite(w->fd, w->head.s + w->hashes + done, n - done,
                           (off_t)(w->hashes + done));
        if (k < 0 && errno != EINTR) w->err = errno;
        if (k > 0) done += (size_t)k;
    }
}

void stw_data(StWriter *w, const real *x, int64_t n)
{
    while (n > 0) {
        while (w->now < w->n && w->tensor[w->now].end == w->written) w->now++;
        assert(w->now < w->n);
        const Declared *d = &w->tensor[w->now];
        uint64_t left = (d->end - w->written) / d->width;
        size_t k = n < CHUNK ? (size_t)n : CHUNK;
        if (k > left) k = (size_t)left;
        if (d->narrow >= 0) narrow_put((Narrow)d->narrow, w->chunk, x, (int64_t)k);
        else for (size_t i = 0; i < k; i++) put_le(w->chunk + i * sizeof *x, x[i]);
        put(w, w->chunk, k * d->width);
        w->written += k * d->width;
        if (w->hash) hash(w, d, k * d->width);
        x += k; n -= (int64_t)k;
    }
}

void stw_discard(StWriter *w)
{
    buf_free(&w->meta); buf_free(&w->tensors); buf_free(&w->head);
    XXH3_freeState(w->hash);
    free(w->chunk);
    free(w->tensor);
    free(w);
}

int stw_end(StWriter *w)
{
    put_hashes(w);
    int err = w->err;
    assert(err || w->written == w->data);
    stw_discard(w);
    return err;
}
