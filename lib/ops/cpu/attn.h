/* attn.h -- what attention's forward (attn.c) and backward (attn_bwd.c) share.
 *
 * Blocks of q, k, v and dy are packed as reals, zeros after what exists, so that the micro-kernel
 * meets neither edges nor large strides: as rows, panels [Dp/NR][n][NR] of NR channels of n rows;
 * or as columns, panels [n/NR][Dp][NR] of NR rows turned. Rows serve both as the left operand, NR
 * channels at a time, and as the right one.
 */
#ifndef OPS_CPU_ATTN_H
#define OPS_CPU_ATTN_H
#include "ops/cpu/kernel.h"

enum {
    BK = 64,                            /* keys of a block */
    BKP = (BK + MR - 1) / MR * MR,      /* the same in whole tiles of rows */
    LDS = ((BKP + 15) / 16 | 1) * 16   /* row of a block of scores; an odd number of cache lines */
};
_Static_assert(BK % NR == 0, "a block of keys is whole panels");
#define NONE ((real)-1e30)      /* below any score; finite, so that NONE - NONE is 0 */
#define LOG2E 1.4426950408889634074

INLINE int64_t pad(int D) { return div_up(D, NR) * NR; }        /* Dp */
INLINE real *take(real **at, int64_t n)
{
    real *p = *at;
    *at += div_up(n, 16) * 16;
    return p;
}

/* to: n rows of f * x[rows][0:D], rows of x lx apart */
INLINE void pack_rows(real *to, int n, const Act *x, int64_t lx, int rows, int D, real f)
{
    for (int r = 0; r < n; r++) {
        const Act *p = x + r * lx;
        real *q = to + r * NR;
        for (int c = 0; c < D; c += NR, q += (int64_t)n * NR) {
            *(VecU *)q = r < rows ? f * aload(p + c, D - c) : (Vec){ 0 };
            *(VecU *)(q + VL) = r < rows ? f * aload(p + c + VL, D - c - VL) : (Vec){ 0 };
        }
    }
}
/* to: the BK rows packed in x, as columns */
INLINE void turn(real *to, const real *x, int64_t Dp)
{
    for (int j = 0; j < BK; j += NR)
        for (int64_t c = 0; c < Dp; c += NR, to += NR * NR)
            pack_across(to, x + c * BK + j * NR, NR, NR, NR, NR);
}

/* Of a block of keys, a query sees [lo, hi). */
typedef struct Seen { int lo, hi; } Seen;
/* The first key that the query at position p sees; start: of its document. */
INLINE int64_t first_key(int64_t p, int window, int64_t start)
{
    return window > 0 ? max64(start, p - window) : start;
}
INLINE Seen sees(int64_t p, int window, int64_t start, int64_t j0)
{
    int lo = (int)min64(BK, max64(0, first_key(p, window, start) - j0));
    return (Seen){ lo, (int)max64(lo, min64(BK, p + 1 - j0)) };
}
INLINE int last_of(int i, int rows) { return i + MR <= rows ? i + MR - 1 : rows - 1; }
INLINE void blank(real *s, Seen w, real with)
{
    for (int j = 0; j < w.lo; j++) s[j] = with;
    for (int j = w.hi; j < BK; j++) s[j] = with;
}

/* Dropout of a query's row of scores, weights or their gradients s[BK], keys [w.lo, w.hi) of the block;
 * first: the number of its first key. */
INLINE void drop_row(real *s, Seen w, const Drop *d, uint64_t first)
{
    const uint32_t limit = drop_limit(d->p);
    const real by = (real)(1 / (1 - d->p));
    for (int j = w.lo; j < w.hi; j++)
        s[j] *= drop_number(d->key, first + (uint64_t)j) >= limit ? by : 0;
}

/* s[MR][LDS], the panels of columns that w touches: rows a of n packed ones times columns b */
INLINE void scores(real *s, const real *a, int n, const real *b, int64_t Dp, Seen w)
{
    for (int j = w.lo / NR * NR; j < w.hi; j += NR) {
        Vec t[MR][2];
        UNROLL for (int r = 0; r < MR; r++) t[r][0] = t[r][1] = (Vec){ 0 };
        for (int64_t c = 0; c < Dp; c += NR)
            mul_more(t, a + c * n, NR, 1, b + j * Dp + c * NR, NR, NR);
        UNROLL for (int r = 0; r < MR; r++) {
            *(VecU *)(s + r * LDS + j) = t[r][0];
            *(VecU *)(s + r * LDS + j + VL) = t[r][1];
        }
    }
}
#endif
