/* dot.h -- packing of pairs of bfloat16, for processors that multiply them (AVX512-BF16, kernel.h;
 * AMX, tile.h). */
#ifndef OPS_CPU_DOT_H
#define OPS_CPU_DOT_H
#include "ops/cpu/kernel.h"

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
#ifdef ACT_DOT
INLINE __m512i load_halves(const Act *p, __mmask16 which)
{
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(which, p));
}
/* 2 VL reals as pairs, rounded */
INLINE Vec pairs_of(Vec lo, Vec hi) { return (Vec)_mm512_cvtne2ps_pbh((__m512)hi, (__m512)lo); }
/* VL pairs of lo[i] and hi[i], rounded */
INLINE Vec pairs_across(Vec lo, Vec hi)
{
    __m512i l = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh((__m512)lo)),
            h = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh((__m512)hi));
    return (Vec)_mm512_or_si512(l, _mm512_slli_epi32(h, 16));
}
/* p[ceil(k/2)][W] = pairs of x[k][0:W], rows of x ld apart, of which `cols` <= W exist. A whole
 * vector is stored where the next row covers what is too much. */
INLINE void pack_along_pairs(real *p, const Act *x, int64_t ld, int cols, int k, int W)
{
    for (int l = 0; l < k; l += 2, p += W) {
        if (W == 8 && cols == W && l + 1 < k) {
            const __m128i *row = (const __m128i *)(const void *)(x + l * ld),
                          *next = (const __m128i *)(const void *)(x + (l + 1) * ld);
            __m128i lo = _mm_loadu_si128(row), hi = _mm_loadu_si128(next);
            __m128i *to = (__m128i *)(void *)p;
            _mm_storeu_si128(to, _mm_unpacklo_epi16(lo, hi));
            _mm_storeu_si128(to + 1, _mm_unpackhi_epi16(lo, hi));
            continue;
        }
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
}
#else
INLINE void pack_along_pairs(real *p, const Act *x, int64_t ld, int cols, int k, int W)
{
    for (int l = 0; l < k; l += 2, p += W)
        for (int j = 0; j < W; j++) {
            const Act *at = x + l * ld + j;
            uint32_t u = j < cols ? pair_of(at, l + 1 < k ? at + ld : NULL) : 0;
            memcpy(p + j, &u, sizeof u);
        }
}
#endif
#ifdef ACT_TILE
/* The left operand of tiles, p[W][CHUNK] = pairs of at most 2 CHUNK k of `rows` <= W vectors as
 * above: a row of a tile after the other, zeros where there is nothing */
INLINE void pack_rows_across(real *p, const Act *x, int64_t ld, int rows, int k, int W)
{
    enum { WHOLE = DEEP * CHUNK };
    for (int i = 0; i < W; i++, p += CHUNK, x += ld) {
        if (i < rows && k == WHOLE) { memcpy(p, x, WHOLE * sizeof *x); continue; }
        memset(p, 0, CHUNK * sizeof *p);
        if (i < rows) memcpy(p, x, (size_t)k * sizeof *x);
    }
}
INLINE void pack_rows_along(real *p, const Act *x, int64_t ld, int rows, int k, int W)
{
    real pairs[CHUNK * TM];
    if (k < DEEP * CHUNK) memset(pairs, 0, sizeof pairs);
    pack_along_pairs(pairs, x, ld, rows, k, W);
    for (int i = 0; i < W; i += VL)
        for (int l = 0; l < CHUNK; l += VL)
            pack_square(p + i * CHUNK + l, CHUNK, pairs, sizeof *pairs, l * W + i, W, VL);
}
#endif
#endif
