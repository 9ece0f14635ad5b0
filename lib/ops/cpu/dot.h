/* dot.h -- products of bfloat16 where the processor has an instruction for it (AVX512-BF16): an
 * element of a packed panel is a pair of them that follow each other in k, and looks like a real.
 * The instruction adds two products to a float, each with one rounding; numbers below 2^-126 are
 * taken as 0.
 */
#ifndef OPS_CPU_DOT_H
#define OPS_CPU_DOT_H
#include "ops/cpu/kernel.h"

enum { DEEP = 2 };                      /* k of an element */

/* One step of two of k: s[i][0:V] += a[i] . b[0:V], i < M, V <= 4 vectors. M and V are constants. */
INLINE void deep_step(int M, int V, Vec *s, const real *a, const real *b)
{
    __m512bh x[4];
    UNROLL for (int j = 0; j < V; j++) x[j] = (__m512bh)_mm512_loadu_ps(b + j * VL);
    UNROLL for (int i = 0; i < M; i++) {
        __m512bh t = (__m512bh)_mm512_set1_ps(a[i]);
        UNROLL for (int j = 0; j < V; j++) s[i * V + j] = _mm512_dpbf16_ps(s[i * V + j], t, x[j]);
    }
}

INLINE uint32_t pair_of(const Act *lo, const Act *hi)
{
    return lo->bits | (hi ? (uint32_t)hi->bits << 16 : 0);
}
/* p[ceil(k/2)][W] = pairs of x[i][k] for `rows` <= W vectors x[i] = x + i*ld of k elements */
INLINE void pack_across_pairs(real *p, const Act *x, int64_t ld, int rows, int k, int W)
{
    int done = 0;
    if (ld % 2 == 0 && (uintptr_t)x % sizeof *p == 0) {     /* pairs lie there as they are */
        pack_across_any(p, x, sizeof *p, ld / 2, rows, k / 2, W);
        done = k / 2;
    }
    for (int l = done; l < (k + 1) / 2; l++)
        for (int i = 0; i < W; i++) {
            const Act *at = x + i * ld + 2 * l;
            uint32_t u = i < rows ? pair_of(at, 2 * l + 1 < k ? at + 1 : NULL) : 0;
            memcpy(p + (int64_t)l * W + i, &u, sizeof u);
        }
}
INLINE __m512i load_halves(const Act *p, __mmask16 which)
{
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(which, p));
}
/* p[ceil(k/2)][W] = pairs of x[k][0:W], rows of x ld apart, of which `cols` <= W exist. A whole
 * vector is stored where the next row covers what is too much. */
INLINE void pack_along_pairs(real *p, const Act *x, int64_t ld, int cols, int k, int W)
{
    for (int l = 0; l < k; l += 2, p += W)
        for (int j = 0; j < W; j += VL) {
            const Act *at = x + l * ld + j;
            __mmask16 which = mask_of(min64(VL, cols - j));
            __m512i lo = load_halves(at, which), hi = _mm512_setzero_si512();
            if (l + 1 < k) hi = _mm512_slli_epi32(load_halves(at + ld, which), 16);
            lo = _mm512_or_si512(lo, hi);
            if (j + VL <= W || l + 2 < k) _mm512_storeu_si512(p + j, lo);
            else _mm512_mask_storeu_epi32(p + j, mask_of(W - j), lo);
        }
}
#endif
