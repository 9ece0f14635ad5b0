#include "gpt/data.h"
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct Paths { char **s; size_t n, cap; } Paths;

static void paths_add(Paths *v, char *s)
{
    if (v->n == v->cap) {
        v->cap = v->cap ? 2 * v->cap : 16;
        v->s = xreallocarray(v->s, v->cap, sizeof *v->s);
    }
    v->s[v->n++] = s;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_dir(Paths *v, const char *dir)
{
    size_t from = v->n, len = strlen(dir);
    DIR *d = opendir(dir);
    if (!d) die("%s:", dir);
    for (struct dirent *e; errno = 0, (e = readdir(d)); ) {
        size_t n = strlen(e->d_name);
        if (n > 5 && e->d_name[0] != '.' && !strcmp(e->d_name + n - 5, ".rows"))
            paths_add(v, xasprintf("%s%s%s", dir, dir[len - 1] == '/' ? "" : "/", e->d_name));
    }
    if (errno) die("%s:", dir);
    closedir(d);
    if (v->n == from) die("%s: no *.rows in this directory", dir);
    qsort(v->s + from, v->n - from, sizeof *v->s, by_bytes);
}

static void add_glob(Paths *v, const char *pattern)
{
    size_t from = v->n;
    glob_t g = {0};
    int r = glob(pattern, GLOB_ERR | GLOB_NOSORT, NULL, &g);
    if (r == GLOB_NOMATCH) die("%s: matches no file", pattern);
    if (r) die("%s: cannot be expanded", pattern);
    for (size_t i = 0; i < g.gl_pathc; i++) paths_add(v, xstrdup(g.gl_pathv[i]));
    globfree(&g);
    qsort(v->s + from, v->n - from, sizeof *v->s, by_bytes);
}

static Paths expand(const StrList *spec)
{
    Paths v = {0};
    for (int i = 0; i < spec->n; i++) {
        const char *s = spec->s[i];
        struct stat st;
        if (!stat(s, &st)) {
            if (S_ISDIR(st.st_mode)) add_dir(&v, s);
            else paths_add(&v, xstrdup(s));
        } else if (strpbrk(s, "*?[")) {
            add_glob(&v, s);
        } else {
            die("%s:", s);
        }
    }
    return v;
}

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

Data *data_open(const StrList *spec)
{
    Paths v = expand(spec);
    Data *d = xcalloc(1, sizeof *d);
    d->shard = xcalloc(v.n + 1, sizeof *d->shard);
    d->path = xcalloc(v.n + 1, sizeof *d->path);
    d->first = xcalloc(v.n + 1, sizeof *d->first);
    RowHead h0 = {0};
    for (size_t i = 0; i < v.n; i++) {
        RowHead h;
        Rows *r = rows_open(v.s[i], &h);
        if (i == 0) d->head = h0 = h;
        agree(v.s[i], &h, v.s[0], &h0);
        if (h.rows == 0) {
            rows_unmap(r);
            if (i) free(v.s[i]);
            continue;
        }
        d->shard[d->n] = r;
        d->path[d->n++] = v.s[i];
        d->first[d->n] = d->first[d->n - 1] + h.rows;
    }
    d->head.rows = d->first[d->n];
    if (d->head.rows == 0) {
        if (v.n == 0) die("no shards");
        die("%s%s: no rows (a row is %" PRIu64 " tokens)", v.s[0], v.n > 1 ? " and the others" : "",
            (uint64_t)h0.T + 1);
    }
    if (d->path[0] != v.s[0]) free(v.s[0]);
    free(v.s);
    return d;
}

void data_free(Data *d)
{
    if (!d) return;
    for (int i = 0; i < d->n; i++) {
        rows_unmap(d->shard[i]);
        free(d->path[i]);
    }
    free(d->shard);
    free(d->path);
    free(d->first);
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

uint64_t data_row(const Data *d, uint64_t pos)
{
    return pos % d->head.rows;
}

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

const char *data_where(const Data *d, uint64_t r, uint64_t *in_shard)
{
    int i = shard_of(d, r);
    *in_shard = r - d->first[i];
    return d->path[i];
}

uint64_t data_print(const Data *d)
{
    Buf b = {0};
    size_t T = d->head.T;
    int32_t *x = xreallocarray(NULL, T, sizeof *x), *y = xreallocarray(NULL, T, sizeof *y);
    for (int i = 0; i < d->n; i++) {
        uint64_t row[2] = { d->first[i], d->first[i + 1] - 1 };
        buf_u64(&b, row[1] - row[0] + 1);
        for (int k = 0; k < 2; k++) {
            get(d, row[k], x, y);
            buf_u64(&b, xxh3(x, T * sizeof *x));
            buf_u64(&b, xxh3(y, T * sizeof *y));
        }
    }
    uint64_t h = xxh3(b.s, b.n);
    buf_free(&b);
    free(x);
    free(y);
    return h;
}
