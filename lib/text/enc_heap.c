/* enc_heap.c -- a piece too long to scan, in windows; see enc_int.h. */
#include "text/enc_int.h"
#include "text/heap.h"
#include "text/windows.h"

static inline Merge find(const void *pairs, uint32_t a, uint32_t b)
{
    uint32_t id = pair_get(pairs, a, b);
    return (Merge){ id, id };                   /* plain: ids rise with the rank */
}

const uint32_t *enc_heap(const EncModel *m, PieceRoom *r, const char *s, size_t n, size_t *got)
{
    uint32_t *id = heap_cells(r, n);
    for (size_t i = 0; i < n; i++) id[i] = (unsigned char)s[i];
    *got = heap_merge(r, n, find, encmodel_pairs(m));
    return id;
}

typedef struct Long { const EncModel *m; PieceRoom *r; uint32_t id[SCAN_MAX]; } Long;

static const uint32_t *window(void *arg, const char *s, size_t n, size_t *got)
{
    Long *p = arg;
    if (n > scan_max(p->m)) return enc_heap(p->m, p->r, s, n, got);
    *got = enc_scan(p->m, s, n, p->id);
    return p->id;
}

void enc_long(const EncModel *m, PieceRoom *r, const char *s, size_t n, size_t first, Ids *out)
{
    Long p = { .m = m, .r = r };
    windows_encode(&(Windows){ window, &p, encmodel_lengths(m), first }, s, n, out);
}
