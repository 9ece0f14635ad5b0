#include "gpt/data_int.h"
#include "base/io.h"
#include "base/rng.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void agree(const char *path, const RowHead *h, const char *path0, const RowHead *h0)
{
    if (h->T != h0->T)
        die("%s: rows of T %" PRIu32 ", but those of %s have T %" PRIu32, path, h->T, path0, h0->T);
    if (h->tok_hash != h0->tok_hash)
        die("%s: made with tokenizer %016" PRIx64 ", but %s with %016" PRIx64, path, h->tok_hash,
            path0, h0->tok_hash);
    if (h->vocab != h0->vocab)
        die("%s: a vocabulary of %" PRIu32 ", but that of %s is %" PRIu32, path, h->vocab, path0,
            h0->vocab);
    if (h->masks != h0->masks)
        die("%s: %s loss masks, but %s is %s", path, h->masks ? "with" : "without", path0,
            h0->masks ? "with" : "without");
}

/* Opens the file at path as the next shard, unless it has no rows. Takes path over. */
static void add_shard(Data *d, char *path, const char *path0)
{
    RowHead h;
    Rows *r = rows_open(path, &h);
    io_reads(path);
    if (!d->head.T) d->head = h;
    agree(path, &h, path0, &d->head);
    if (h.rows == 0) {
        rows_unmap(r);
        free(path);
        return;
    }
    size_t n = (size_t)d->n;
    d->shard = xreallocarray(d->shard, n + 1, sizeof *d->shard);
    d->path = xreallocarray(d->path, n + 1, sizeof *d->path);
    d->first = xreallocarray(d->first, n + 2, sizeof *d->first);
    d->shard[n] = r;
    d->path[n] = path;
    if (n == 0) d->first[0] = 0;
    d->first[n + 1] = d->first[n] + h.rows;
    d->n++;
}

Data *data_open(const StrList *spec)
{
    Paths v = paths_expand(spec);
    Data *d = xcalloc(1, sizeof *d);
    if (v.n == 0) die("no shards");
    d->spec.s = xcalloc((size_t)spec->n, sizeof *d->spec.s);
    for (; d->spec.n < spec->n; d->spec.n++) d->spec.s[d->spec.n] = xstrdup(spec->s[d->spec.n]);
    for (size_t i = 0; i < v.n; i++) add_shard(d, xstrdup(v.s[i]), v.s[0]);
    if (d->n == 0)
        die("%s%s: no rows (a row is %" PRIu64 " tokens)", v.s[0], v.n > 1 ? " and the others" : "",
            (uint64_t)d->head.T + 1);
    data_spans(d, &(DataSpan){ .n = d->n }, 1);
    paths_free(&v);
    return d;
}

void data_free(Data *d)
{
    if (!d) return;
    data_unwatch(d);
    for (int i = 0; i < d->n; i++) {
        rows_unmap(d->shard[i]);
        free(d->path[i]);
    }
    for (int i = 0; i < d->spec.n; i++) free((char *)(uintptr_t)d->spec.s[i]);
    free(d->spec.s);
    free(d->shard);
    free(d->path);
    free(d->first);
    free(d->span);
    free(d);
}

void data_require(const Data *d, uint64_t tok_hash, int vocab, int T)
{
    if (d->head.tok_hash != tok_hash)
        die("%s: made with tokenizer %016" PRIx64 ", not with this one, %016" PRIx64, d->path[0],
            d->head.tok_hash, tok_hash);
    if (d->head.vocab != (uint32_t)vocab)
        die("%s: a vocabulary of %" PRIu32 ", but the tokenizer's is %d", d->path[0], d->head.vocab,
            vocab);
    if (T && d->head.T != (uint32_t)T)
        die("%s: rows of T %" PRIu32 ", but the model's is %d", d->path[0], d->head.T, T);
}

/* ---- order */

void data_shuffle(Data *d, uint64_t seed)
{
    d->shuffled = true;
    d->seed = seed;
}

static const DataSpan *span_at(const Data *d, uint64_t pos)
{
    const DataSpan *s = &d->span[d->nspan - 1];
    while (s->pos > pos) s--;
    return s;
}

uint64_t data_epoch(const Data *d, uint64_t pos, uint64_t *in)
{
    const DataSpan *s = span_at(d, pos);
    *in = (pos - s->pos) % s->rows;
    return s->epoch + (pos - s->pos) / s->rows;
}

double data_epochs(const Data *d, uint64_t pos)
{
    const DataSpan *s = span_at(d, pos);
    return (double)s->epoch + (double)(pos - s->pos) / (double)s->rows;
}

uint64_t data_row(const Data *d, uint64_t pos)
{
    static const uint64_t stream = 0x73687566666c65;        /* "shuffle" */
    uint64_t in, epoch = data_epoch(d, pos, &in);
    return d->shuffled ? rng_order(d->seed, stream + epoch, span_at(d, pos)->rows, in) : in;
}

uint64_t data_boundary(const Data *d, uint64_t pos)
{
    uint64_t in;
    data_epoch(d, pos, &in);
    return in || pos == 0 ? pos - in + span_at(d, pos)->rows : pos;
}

/* ---- shards that come and go */

void data_spans(Data *d, const DataSpan *span, int n)
{
    d->span = xreallocarray(d->span, (size_t)n, sizeof *span);
    d->nspan = n;
    for (int i = 0; i < n; i++) {
        d->span[i] = span[i];
        d->span[i].rows = d->first[span[i].n];
    }
    d->head.rows = d->span[n - 1].rows;
}

/* The paths of spec that are not d's yet, in order; a file without rows is one of them each
 * time. */
static Paths unseen(const Data *d)
{
    Paths v = paths_expand(&d->spec);
    size_t n = 0;
    for (size_t i = 0; i < v.n; i++) {
        int k = 0;
        while (k < d->n && strcmp(d->path[k], v.s[i])) k++;
        if (k == d->n) v.s[n++] = v.s[i];
        else free(v.s[i]);
    }
    v.n = n;
    return v;
}

int data_unseen(const Data *d)
{
    Paths v = unseen(d);
    int n = d->n - d->span[d->nspan - 1].n + (int)v.n;
    paths_free(&v);
    return n;
}

int data_grow(Data *d, uint64_t pos)
{
    Paths v = unseen(d);
    int had = d->n, used = d->span[d->nspan - 1].n;
    uint64_t in;
    for (size_t i = 0; i < v.n; i++) add_shard(d, xstrdup(v.s[i]), d->path[0]);
    paths_free(&v);
    if (d->n > had) data_watch(d, had);
    if (d->n == used) return 0;
    DataSpan next = { .pos = pos, .epoch = data_epoch(d, pos, &in), .rows = d->first[d->n],
                      .n = d->n };
    d->span = xreallocarray(d->span, (size_t)d->nspan + 1, sizeof next);
    d->span[d->nspan++] = next;
    d->head.rows = next.rows;
    return d->n - used;
}

static void swap_shards(Data *d, int a, int b)
{
    Rows *r = d->shard[a];
    char *p = d->path[a];
    d->shard[a] = d->shard[b];
    d->path[a] = d->path[b];
    d->shard[b] = r;
    d->path[b] = p;
}

/* The shards not named keep their order among themselves: each is moved down, not swapped away. */
int data_arrange(Data *d, const uint64_t *hash, int n)
{
    int i = 0;
    for (; i < n; i++) {
        int k = i;
        while (k < d->n && rows_hash(d->shard[k]) != hash[i]) k++;
        if (k == d->n) break;
        for (; k > i; k--) swap_shards(d, k, k - 1);
    }
    for (int k = 0; k < d->n; k++) d->first[k + 1] = d->first[k] + rows_count(d->shard[k]);
    return i;
}

/* ---- rows */

static int shard_of(const Data *d, uint64_t r)
{
    int lo = 0, hi = d->n;              /* first[lo] <= r < first[hi] */
    while (hi - lo > 1) {
        int mid = lo + (hi - lo) / 2;
        if (d->first[mid] <= r) lo = mid;
        else hi = mid;
    }
    return lo;
}

static void get(const Data *d, uint64_t r, int32_t *x, int32_t *y)
{
    int i = shard_of(d, r);
    rows_get(d->shard[i], r - d->first[i], x, y);
}

void data_get(const Data *d, uint64_t pos, int32_t *x, int32_t *y)
{
    get(d, data_row(d, pos), x, y);
}

static uint64_t count_valid(const int32_t *y, size_t n)
{
    uint64_t k = 0;
    for (size_t i = 0; i < n; i++) k += y[i] >= 0;
    return k;
}

uint64_t data_batch(const Data *d, uint64_t pos, int B, int32_t *x, int32_t *y)
{
    size_t T = d->head.T;
    for (size_t b = 0; b < (size_t)B; b++) data_get(d, pos + b, x + b * T, y + b * T);
    return count_valid(y, (size_t)B * T);
}

uint64_t data_valid(const Data *d, uint64_t pos, uint64_t n, int32_t *x, int32_t *y)
{
    if (!d->head.masks) return n * d->head.T;
    uint64_t k = 0;
    for (uint64_t i = 0; i < n; i++) {
        data_get(d, pos + i, x, y);
        k += count_valid(y, d->head.T);
    }
    return k;
}

void data_docs(int32_t *doc, const int32_t *x, int B, int T, uint32_t bos)
{
    for (size_t at = 0, n = (size_t)B * (size_t)T; at < n; at += (size_t)T)
        for (int32_t t = 0, start = 0; t < T; t++) {
            if ((uint32_t)x[at + (size_t)t] == bos) start = t;
            doc[at + (size_t)t] = start;
        }
}

const char *data_where(const Data *d, uint64_t r, uint64_t *in_shard)
{
    int i = shard_of(d, r);
    *in_shard = r - d->first[i];
    return d->path[i];
}
