/* pq_map.c -- a MAP's pairs as the members of an object, each key once.
 *
 * Parquet allows a key to stand several times in a map, and says that the last one counts
 * (LogicalTypes.md, "Maps"). The pairs of all maps that are being put together are a stack. */
#include "base/io.h"
#include "data/pq.h"
#include <stdlib.h>
#include <string.h>

size_t pq_pair(Parquet *p, const PqLeaf *l, size_t key, size_t key_end)
{
    if (p->npair == PARQUET_PAIRS)
        pq_bad(p, l, "a row whose maps have more than 1048576 pairs, which is not supported");
    if (p->npair == p->pair_cap)
        p->pair = xreallocarray(p->pair, p->pair_cap = p->pair_cap ? 2 * p->pair_cap : 64,
                                sizeof *p->pair);
    p->pair[p->npair] = (PqPair){ key, 0, (uint32_t)(key_end - key) };
    return p->npair++;
}

static bool same(const Buf *b, const PqPair *x, const PqPair *y)
{
    return x->key_len == y->key_len && !memcmp(b->s + x->at, b->s + y->at, x->key_len);
}

/* Of equal keys all but the last become of no length; how many. A table of the pairs' numbers, from
 * 1, by the hash of their keys; open addressing. */
static size_t strike(PqPair *x, size_t n, const Buf *b)
{
    size_t slots = 4, struck = 0;
    while (slots < 2 * n) slots *= 2;
    uint32_t *slot = xcalloc(slots, sizeof *slot);
    for (size_t i = 0; i < n; i++) {
        size_t h = (size_t)xxh3(b->s + x[i].at, x[i].key_len) & (slots - 1);
        while (slot[h] && !same(b, &x[slot[h] - 1], &x[i])) h = (h + 1) & (slots - 1);
        if (slot[h]) x[slot[h] - 1].key_len = 0, struck++;
        slot[h] = (uint32_t)i + 1;
    }
    free(slot);
    return struck;
}

void pq_map_end(Parquet *p, size_t first, Buf *b)
{
    PqPair *x = p->pair + first;
    size_t n = p->npair - first;
    p->npair = first;
    if (n < 2 || !strike(x, n, b)) return;
    size_t to = x[0].at;
    for (size_t i = 0; i < n; i++) {
        size_t len = x[i].end - x[i].at;
        if (!x[i].key_len) continue;
        if (to > x[0].at) b->s[to++] = ',';
        memmove(b->s + to, b->s + x[i].at, len);
        to += len;
    }
    b->n = to;
    buf_char(b, '}');
}
