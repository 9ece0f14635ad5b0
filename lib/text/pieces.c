/* pieces.c -- see pieces.h. */
#include "text/pieces.h"
#include "text/split.h"
#include <stdlib.h>
#include <string.h>

void pieces_add(Pieces *v, const char *s, size_t n, int64_t count)
{
    if (n > UINT32_MAX)
        die("a stretch of %zu bytes without a place to split it: less than 2^32 are possible", n);
    if (v->n == v->cap) {
        v->cap = v->cap < 4096 ? 4096 : size_add(v->cap, v->cap / 2);
        v->p = xreallocarray(v->p, v->cap, sizeof *v->p);
    }
    v->p[v->n++] = (Piece){ .at = v->bytes.n, .count = count, .len = (uint32_t)n };
    buf_add(&v->bytes, s, n);
    v->total += (uint64_t)count;
}

void pieces_text(Pieces *v, const char *s, size_t n)
{
    for (size_t i = 0, next; i < n; i = next) {
        next = split_next(s, n, i);
        pieces_add(v, s + i, next - i, 1);
    }
}

/* By bytes, a prefix first. */
static int by_bytes(const void *x, const void *y, void *bytes)
{
    const Piece *a = x, *b = y;
    const char *s = bytes;
    uint32_t n = a->len < b->len ? a->len : b->len;
    int c = memcmp(s + a->at, s + b->at, n);
    return c ? c : (a->len > b->len) - (a->len < b->len);
}

void pieces_sort(Pieces *v)
{
    if (v->n > 1)
        qsort_r(v->p, v->n, sizeof *v->p, by_bytes, v->bytes.s);
    size_t n = 0;
    for (size_t k = 0; k < v->n; k++) {
        if (n && !by_bytes(&v->p[n - 1], &v->p[k], v->bytes.s))
            v->p[n - 1].count += v->p[k].count;
        else
            v->p[n++] = v->p[k];
    }
    v->n = n;
}

void pieces_prune(Pieces *v, int64_t min_count)
{
    size_t n = 0;
    v->total = 0;
    for (size_t k = 0; k < v->n; k++) {
        if (v->p[k].count < min_count)
            continue;
        v->total += (uint64_t)v->p[k].count;
        v->p[n++] = v->p[k];
    }
    v->n = n;
}

static int by_place(const void *x, const void *y)
{
    const Piece *a = x, *b = y;
    return (a->at > b->at) - (a->at < b->at);
}

void pieces_by_place(Pieces *v)
{
    size_t k = 1;
    while (k < v->n && v->p[k - 1].at < v->p[k].at)
        k++;
    if (k < v->n)
        qsort(v->p, v->n, sizeof *v->p, by_place);
}

void pieces_cut(Pieces *v, size_t n)
{
    if (!n) {
        pieces_free(v);
        return;
    }
    v->bytes.n = v->p[n - 1].at + v->p[n - 1].len;
    v->bytes.s[v->bytes.n] = 0;
    v->bytes.cap = v->bytes.n + 1;
    v->bytes.s = xrealloc(v->bytes.s, v->bytes.cap);
    v->n = v->cap = n;
    v->p = xreallocarray(v->p, n, sizeof *v->p);
}

void pieces_free(Pieces *v)
{
    free(v->p);
    buf_free(&v->bytes);
    *v = (Pieces){0};
}
