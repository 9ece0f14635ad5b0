/* attn.h -- what attention's forward (attn.c) and backward (attn_bwd.c) share.
 *
 * Blocks of q, k, v and dy are packed with zeros after what exists, so that the micro-kernel meets
 * neither edges nor large strides; elements are those of kernel.h. n rows of x [n][Dp] become
 *   a left operand, panels [Dp/NR][n][NW] of NR channels of a row (k runs over channels),
 *   a right one with the same k, panels [n/NR][Dp/DEEP][NR] of NR rows turned, or
 *   a right one whose k runs over rows, panels [Dp/NR][n/DEEP][NR].
 * With reals the first and the last are the same.
 */
#ifndef OPS_CPU_ATTN_H
#define OPS_CPU_ATTN_H
#include "ops/cpu/kernel.h"
#include <float.h>
#ifdef ACT_DOT
#include "ops/cpu/dot.h"
#endif

enum {
    NW = NR / DEEP,
    BK = 64,                            /* keys of a block */
    BKP = (BK + MR - 1) / MR * MR,      /* the same in whole tiles of rows */
    LDS = ((BKP + 15) / 16 | 1) * 16   /* row of a block of scores; an odd number of cache lines */
};
_Static_assert(BK % NR == 0, "a block of keys is whole panels");
#define NONE (sizeof(real) == sizeof(float) ? -FLT_MAX : (real)-DBL_MAX)   /* no score is below; finite */
#define LOG2E 1.4426950408889634074

INLINE int64_t pad(int D) { return div_up(D, NR) * NR; }        /* Dp */
INLINE real *take(real **at, int64_t n)
{
    real *p = *at;
    *at += div_up(n, 16) * 16;
    return p;
}

/* elements of n rows packed in any of these ways */
INLINE int64_t cells(int64_t n, int64_t Dp) { return n * Dp / DEEP; }

/* to: n rows, of which x has `rows` of D channels, lx apart, as a left operand */
INLINE void pack_left(real *to, int n, const Act *x, int64_t lx, int rows, int D)
{
    for (int r = 0; r < n; r++) {
        const Act *p = x + r * lx;
        real *q = to + r * NW;
        for (int c = 0; c < D; c += NR, q += (int64_t)n * NW) {
#ifdef ACT_DOT
            int left = r < rows ? D - c : 0;
            __mmask32 which = left >= NR ? ~(__mmask32)0 : ((__mmask32)1 << left) - 1;
            *(VecU *)q = (Vec)_mm512_maskz_loadu_epi16(which, p + c);
#else
            *(VecU *)q = r < rows ? aload(p + c, D - c) : (Vec){ 0 };
            *(VecU *)(q + VL) = r < rows ? aload(p + c + VL, D - c - VL) : (Vec){ 0 };
#endif
        }
    }
}
/* as a right operand, k over rows; n is even */
INLINE void pack_right(real *to, int n, const Act *x, int64_t lx, int rows, int D)
{
#ifdef ACT_DOT
    for (int r = 0; r < n; r += 2)
        for (int c = 0; c < pad(D); c += VL) {
            const Act *p = x + r * lx + c;
            __m512i lo = load_halves(p, r < rows ? mask_of(min64(VL, D - c)) : 0),
                    hi = load_halves(p + lx, r + 1 < rows ? mask_of(min64(VL, D - c)) : 0);
            lo = _mm512_or_si512(lo, _mm512_slli_epi32(hi, 16));
            *(VecU *)(to + ((int64_t)(c / NR) * n + r) / 2 * NR + c % NR) = (Vec)lo;
        }
#else
    pack_left(to, n, x, lx, rows, D);
#endif
}
/* to: the BK rows packed in x as a left operand, as a right one with the same k */
INLINE void turn(real *to, const real *x, int64_t Dp)
{
    for (int j = 0; j < BK; j += NR)
        for (int64_t c = 0; c < Dp; c += NR, to += NW * NR)
            pack_across(to, x + c * BK / DEEP + j * NW, NW, NR, NW, NR);
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

/* Dropout of a query's row of weights or their gradients s[BK], keys [w.lo, w.hi) of the block;
 * first: the number of its first key. */
INLINE void drop_row(real *s, Seen w, const Drop *d, uint64_t first)
{
    const uint32_t limit = drop_limit(d->p);
    const real by = (real)(1 / (1 - d->p));
    for (int j = w.lo; j < w.hi; j++)
        s[j] *= drop_number(d->key, first + (uint64_t)j) >= limit ? by : 0;
}

/* ---- a row alone, for what a product of blocks made NaN: it multiplies what a row does not see by 0,
 * and 0 times the NaN or the infinity of another is NaN */

/* Has x [Dp] a NaN or an infinity in it? */
INLINE int odd_row(const real *x, int64_t Dp)
{
    Vec z = { 0 };
    for (int64_t c = 0; c < Dp; c += VL) z += 0 * *(const VecU *)(x + c);
    return vsum(z) != 0;
}
INLINE real dot_row(const Act *x, const Act *y, int D)
{
    Vec s = { 0 };
    for (int c = 0; c < D; c += VL) s += aload(x + c, D - c) * aload(y + c, D - c);
    return (real)vsum(s);
}
INLINE void add_row(real *to, real f, const Act *x, int D)      /* to [Dp] += f x */
{
    for (int c = 0; c < D; c += VL) *(VecU *)(to + c) += f * aload(x + c, D - c);
}

/* s[MR][LDS], the panels of columns that w touches: rows a of n packed on the left times b */
INLINE void scores(real *s, const real *a, int n, const real *b, int64_t Dp, Seen w)
{
    for (int j = w.lo / NR * NR; j < w.hi; j += NR) {
        Vec t[MR][2];
        UNROLL for (int r = 0; r < MR; r++) t[r][0] = t[r][1] = (Vec){ 0 };
        for (int64_t c = 0; c < Dp; c += NR)
            mul_more(t, a + c * n / DEEP, NW, 1, b + (j * Dp + c * NR) / DEEP, NR, NW);
        UNROLL for (int r = 0; r < MR; r++) {
            *(VecU *)(s + r * LDS + j) = t[r][0];
            *(VecU *)(s + r * LDS + j + VL) = t[r][1];
        }
    }
}
/* s = the product of elements [lo, hi) of k of a left operand, strides rsa and csa, with a right one
 * of rows of NR; what lies beside them in a pair must be 0 on the left */
INLINE void mul_part(Vec s[MR][2], const real *a, int64_t rsa, int64_t csa, const real *b,
                     int64_t lo, int64_t hi)
{
    int64_t from = lo / DEEP, to = div_up(max64(lo, hi), DEEP);
    mul(s, a + from * csa, rsa, csa, b + from * NR, NR, (int)(to - from));
}
#endif
