/* heap.h -- one piece by a heap of the pairs that can be merged, O(n log n); included by what knows
 * where to look a pair up.
 *
 * Of the neighbours that can be merged, those with the lowest rank are, the leftmost if there are
 * several: found with a heap of (rank, position). A token stands in the cell of its first byte;
 * next and prev are the cells of its neighbours. A heap entry is stale unless the pair that stands
 * there still has its rank. */
#ifndef TEXT_HEAP_H
#define TEXT_HEAP_H
#include "text/tok.h"
#include "base/io.h"
#include <stdlib.h>

#define HEAP_GONE UINT32_MAX
typedef struct Merge { uint32_t rank, id; } Merge;      /* id NO_MERGE: there is none */
#define NO_MERGE UINT32_MAX
/* The merge of two tokens, neither of them gone. */
typedef Merge HeapFind(const void *table, uint32_t a, uint32_t b);

/* x, which is not less than what is above place i, goes up from there to where it belongs. */
static inline void heap_rise(uint64_t *h, size_t i, uint64_t x)
{
    for (; i && h[(i - 1) / 2] > x; i = (i - 1) / 2)
        h[i] = h[(i - 1) / 2];
    h[i] = x;
}

static inline void heap_push(PieceRoom *r, uint32_t rank, size_t at)
{
    if (r->n == r->cap) {
        r->cap = r->cap ? size_mul(r->cap, 2) : 256;
        r->heap = xreallocarray(r->heap, r->cap, sizeof *r->heap);
    }
    heap_rise(r->heap, r->n, (uint64_t)rank << 32 | at);
    r->n++;
}

/* The last entry nearly always belongs at the bottom: so the gap at the top goes down to there by
 * the lesser ones, which needs no jump that depends on them, and then the entry up. */
static inline uint64_t heap_pop(PieceRoom *r)
{
    uint64_t *h = r->heap, top = h[0];
    size_t n = --r->n, i = 0;
    for (size_t k; (k = 2 * i + 2) <= n; i = k) {
        k -= h[k - 1] < h[k];                   /* h[n] is still there */
        h[i] = h[k];
    }
    heap_rise(h, i, h[n]);
    return top;
}

/* Room for the cells of n bytes: their ids first, then what is next and what is before. */
static inline uint32_t *heap_cells(PieceRoom *r, size_t n)
{
    if (n >= UINT32_MAX)
        die("a stretch of %zu bytes without a place to split it: less than 2^32 are possible", n);
    if (n > r->cells) {
        r->cells = n < 1024 ? 1024 : n;
        free(r->id);
        r->id = xreallocarray(NULL, size_mul(r->cells, 3), sizeof *r->id);
    }
    return r->id;
}

static inline __attribute__((always_inline))
void heap_pair(PieceRoom *r, HeapFind *find, const void *table, size_t p, size_t q)
{
    Merge m = find(table, r->id[p], r->id[q]);
    if (m.id != NO_MERGE)
        heap_push(r, m.rank, p);
}

/* The ids of n bytes stand in heap_cells(r, n), and then those they become; returns how many. */
static inline __attribute__((always_inline))
size_t heap_merge(PieceRoom *r, size_t n, HeapFind *find, const void *table)
{
    uint32_t *id = r->id, *next = id + r->cells, *prev = next + r->cells;
    for (size_t i = 0; i < n; i++)
        next[i] = (uint32_t)i + 1, prev[i] = (uint32_t)i - 1;
    r->n = 0;
    for (size_t i = 0; i + 1 < n; i++)
        heap_pair(r, find, table, i, i + 1);
    while (r->n) {
        uint64_t top = heap_pop(r);
        size_t p = (uint32_t)top, q = next[p];
        if (id[p] == HEAP_GONE || q >= n)
            continue;
        Merge m = find(table, id[p], id[q]);
        if (m.id == NO_MERGE || m.rank != top >> 32)
            continue;
        id[p] = m.id, id[q] = HEAP_GONE;
        next[p] = next[q];
        if (next[p] < n) {
            prev[next[p]] = (uint32_t)p;
            heap_pair(r, find, table, p, next[p]);
        }
        if (p)
            heap_pair(r, find, table, prev[p], p);
    }
    size_t got = 0;
    for (size_t i = 0; i < n; i = next[i])
        id[got++] = id[i];
    return got;
}

#endif
