/* pieces.c -- see pieces.h: a hash table with open addressing, at most three quarters full. */
#include "text/pieces.h"
#include "base/io.h"
#include "text/split.h"
#include <stdlib.h>
#include <string.h>

static void rehash(Pieces *v)
{
    size_t slots = v->slot ? size_mul(v->mask + 1, 2) : 1 << 12;
    free(v->slot);
    v->slot = xcalloc(slots, sizeof *v->slot);
    v->mask = slots - 1;
    for (size_t k = 0; k < v->n; k++) {
        size_t i = v->p[k].hash & v->mask;
        while (v->slot[i])
            i = (i + 1) & v->mask;
        v->slot[i] = (uint32_t)k + 1;
    }
}

static Piece *append(Pieces *v, const char *s, size_t n, uint32_t hash)
{
    if (v->n == v->cap) {
        v->cap = v->cap ? size_mul(v->cap, 2) : 1 << 12;
        v->p = xreallocarray(v->p, v->cap, sizeof *v->p);
    }
    if (v->n >= UINT32_MAX - 1)
        die("more than %zu distinct pieces: use less text", v->n);
    Piece *p = &v->p[v->n++];
    *p = (Piece){ .at = v->bytes.n, .len = (uint32_t)n, .hash = hash };
    buf_add(&v->bytes, s, n);
    return p;
}

void pieces_add(Pieces *v, const char *s, size_t n, int64_t count)
{
    if (n > UINT32_MAX)
        die("a stretch of %zu bytes without a place to split it: less than 2^32 are possible", n);
    if (v->n >= v->mask / 4 * 3)
        rehash(v);
    uint32_t hash = (uint32_t)xxh3(s, n), k;
    size_t i = hash & v->mask;
    Piece *p = NULL;
    for (; (k = v->slot[i]); i = (i + 1) & v->mask) {
        p = &v->p[k - 1];
        if (p->hash == hash && p->len == n && !memcmp(v->bytes.s + p->at, s, n))
            break;
    }
    if (!k) {
        p = append(v, s, n, hash);
        v->slot[i] = (uint32_t)v->n;
    }
    p->count += count;
    v->total += (uint64_t)count;
}

void pieces_text(Pieces *v, const char *s, size_t n)
{
    for (size_t i = 0, next; i < n; i = next) {
        next = split_next(s, n, i);
        pieces_add(v, s + i, next - i, 1);
    }
}

void pieces_free(Pieces *v)
{
    free(v->p), free(v->slot);
    buf_free(&v->bytes);
    *v = (Pieces){0};
}
