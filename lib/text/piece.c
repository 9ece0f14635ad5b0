/* piece.c -- encoding one piece by the rule, whatever the tokenizer; see tok.h.
 *
 * Of the neighbours that can be merged, those with the lowest rank are, the leftmost if there are
 * several: found with a heap of (rank, position). A token stands in the cell of its first byte;
 * next and prev are the cells of its neighbours. A heap entry is stale unless the pair that stands
 * there still has its rank. */
#include "text/tok_int.h"
#include <inttypes.h>
#include <stdlib.h>

#define GONE UINT32_MAX

void piece_free(PieceRoom *r)
{
    free(r->id), free(r->heap);
    *r = (PieceRoom){0};
}

static void sink(uint64_t *h, size_t n, size_t i)
{
    uint64_t x = h[i];
    for (size_t k; (k = 2 * i + 1) < n; i = k) {
        if (k + 1 < n && h[k + 1] < h[k])
            k++;
        if (h[k] >= x)
            break;
        h[i] = h[k];
    }
    h[i] = x;
}

static void push(PieceRoom *r, uint32_t rank, size_t at)
{
    if (r->n == r->cap) {
        r->cap = r->cap ? size_mul(r->cap, 2) : 256;
        r->heap = xreallocarray(r->heap, r->cap, sizeof *r->heap);
    }
    uint64_t x = (uint64_t)rank << 32 | at, *h = r->heap;
    size_t i = r->n++;
    for (; i && h[(i - 1) / 2] > x; i = (i - 1) / 2)
        h[i] = h[(i - 1) / 2];
    h[i] = x;
}

static uint64_t pop(PieceRoom *r)
{
    uint64_t top = r->heap[0];
    r->heap[0] = r->heap[--r->n];
    if (r->n)
        sink(r->heap, r->n, 0);
    return top;
}

static void push_pair(const Tok *t, PieceRoom *r, uint32_t a, uint32_t b, size_t at)
{
    const PairSlot *p = tok_slot(t, a, b);
    if (p->id1)
        push(r, p->rank, at);
}

void tok_merge_piece(const Tok *t, PieceRoom *r, const char *s, size_t n, Ids *out)
{
    if (n >= UINT32_MAX)
        die("a stretch of %zu bytes without a place to split it: less than 2^32 are possible", n);
    if (n > r->cells) {
        r->cells = n < 1024 ? 1024 : n;
        free(r->id);
        r->id = xreallocarray(NULL, size_mul(r->cells, 3), sizeof *r->id);
    }
    uint32_t *id = r->id, *next = id + r->cells, *prev = next + r->cells;
    for (size_t i = 0; i < n; i++) {
        id[i] = (uint32_t)t->byte_id[(unsigned char)s[i]];
        next[i] = (uint32_t)i + 1, prev[i] = (uint32_t)i - 1;
    }
    r->n = 0;
    for (size_t i = 0; i + 1 < n; i++)
        push_pair(t, r, id[i], id[i + 1], i);
    while (r->n) {
        uint64_t top = pop(r);
        size_t p = (uint32_t)top, q = next[p];
        if (id[p] == GONE || q >= n)
            continue;
        const PairSlot *pair = tok_slot(t, id[p], id[q]);
        if (!pair->id1 || pair->rank != top >> 32)
            continue;
        id[p] = pair->id1 - 1, id[q] = GONE;
        next[p] = next[q];
        if (next[p] < n) {
            prev[next[p]] = (uint32_t)p;
            push_pair(t, r, id[p], id[next[p]], p);
        }
        if (p)
            push_pair(t, r, id[prev[p]], id[p], prev[p]);
    }
    for (size_t i = 0; i < n; i = next[i])
        ids_add(out, id[i]);
}

void tok_piece(const Tok *t, PieceRoom *r, const char *s, size_t n, Ids *out)
{
    int id = t->whole ? tok_find(t, s, n) : -1;
    if (id < 0 && t->words)
        id = 1;                                 /* <unk> */
    if (id >= 0)
        ids_add(out, (uint32_t)id);
    else
        tok_merge_piece(t, r, s, n, out);
}
