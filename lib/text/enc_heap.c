/* enc_heap.c -- long pieces until there is reason to make the tables for walking; see enc_int.h. */
#include "text/enc_int.h"
#include "text/heap.h"
#include <string.h>

static inline Merge find(const void *pairs, uint32_t a, uint32_t b)
{
    uint32_t id = pair_get(pairs, a, b);
    return (Merge){ id, id };                   /* plain: ids rise with the rank */
}

size_t enc_heap(const EncModel *m, PieceRoom *r, const char *s, size_t n, uint32_t *out)
{
    uint32_t *id = heap_cells(r, n);
    for (size_t i = 0; i < n; i++) id[i] = (unsigned char)s[i];
    size_t got = heap_merge(r, n, find, encmodel_pairs(m));
    memcpy(out, id, got * sizeof *id);
    return got;
}
