/* kernel.h -- the micro-kernel of all matrix products, and packing for it. */
#ifndef OPS_CPU_KERNEL_H
#define OPS_CPU_KERNEL_H
#include "ops/cpu/vec.h"

/* The tile of the matrix product: TM x TV vectors of sums. 16 registers hold 4 x 3 sums, 3 of b and
 * one of a: fewer instructions per multiply-add than any other shape. */
#ifdef ACT_TILE                 /* 2 x 2 tiles of 16 x 16 floats (tile.h), in memory afterwards */
enum { TM = 32, TV = 32 / VL };
#elif VBYTES == 64
enum { TM = 8, TV = 3 };
#elif VBYTES == 32
enum { TM = 4, TV = 3 };
#else
enum { TM = MR, TV = 2 };
#endif
enum { TN = TV * VL };
#ifdef ACT_TILE
enum { CHUNK = 16 };            /* packed panels end in zeros, to a multiple of so many elements */
#else
enum { CHUNK = 1 };
#endif

/* An element of a packed operand is DEEP numbers that follow each other in k: one real, or with
 * ACT_DOT or ACT_TILE a pair of bfloat16, the first in the lower half of what looks like a real.
 * One step: s[i][0:V] += a[i*rsa] . b[0:V], i < M, V <= 4 vectors. M and V are constants. */
#if defined ACT_DOT || defined ACT_TILE
enum { DEEP = 2 };
#else
enum { DEEP = 1 };
#endif
#ifdef ACT_DOT
/* AVX512-BF16 adds both products to the sum, one rounding each, and takes what is below 2^-126 as 0. */
INLINE void step(int M, int V, Vec *s, const real *a, int64_t rsa, const real *b)
{
    __m512bh x[4];
    UNROLL for (int j = 0; j < V; j++) x[j] = (__m512bh)_mm512_loadu_ps(b + j * VL);
    UNROLL for (int i = 0; i < M; i++) {
        __m512bh t = (__m512bh)_mm512_set1_ps(a[i * rsa]);
        UNROLL for (int j = 0; j < V; j++) s[i * V + j] = _mm512_dpbf16_ps(s[i * V + j], t, x[j]);
    }
}
#else
INLINE void step(int M, int V, Vec *s, const real *a, int64_t rsa, const real *b)
{
    Vec x[4];
    UNROLL for (int j = 0; j < V; j++) x[j] = *(const VecU *)(b + j * VL);
    UNROLL for (int i = 0; i < M; i++)
        UNROLL for (int j = 0; j < V; j++) s[i * V + j] += a[i * rsa] * x[j];
}
#endif
/* s[i][0:NR] += sum over l < k of a[i*rsa + l*csa] . b[l*ldb + 0:NR], i < MR. The strides are best
 * constants; s stays in registers once this is inlined. */
INLINE void mul_more(Vec s[MR][2], const real *a, int64_t rsa, int64_t csa, const real *b,
                     int64_t ldb, int k)
{
    for (int l = 0; l < k; l++, a += csa, b += ldb) step(MR, 2, s[0], a, rsa, b);
}

/* the same, = in place of += */
INLINE void mul(Vec s[MR][2], const real *a, int64_t rsa, int64_t csa, const real *b, int64_t ldb,
                int k)
{
    UNROLL for (int i = 0; i < MR; i++) s[i][0] = s[i][1] = (Vec){ 0 };
    mul_more(s, a, rsa, csa, b, ldb, k);
}

/* Transpose VL x VL: for s = 1, 2, 4 .. exchange the s x s blocks off the diagonal of each 2s x 2s
 * block. */
#define UPPER_(l, s) (((l) & (s) ? VL + (l) - (s) : (l)) & (2 * VL - 1))
#define LOWER_(l, s) (((l) & (s) ? VL + (l) : (l) + (s)) & (2 * VL - 1))
#define LANES2_(f, o, s) f(o, s), f((o) + 1, s)
#define LANES4_(f, o, s) LANES2_(f, o, s), LANES2_(f, (o) + 2, s)
#define LANES8_(f, o, s) LANES4_(f, o, s), LANES4_(f, (o) + 4, s)
#define LANES16_(f, o, s) LANES8_(f, o, s), LANES8_(f, (o) + 8, s)
#if VBYTES == 64 && !defined REAL_F64
#define LANES_(f, s) LANES16_(f, 0, s)
#elif VBYTES == 64 || (VBYTES == 32 && !defined REAL_F64)
#define LANES_(f, s) LANES8_(f, 0, s)
#elif VBYTES == 32 || !defined REAL_F64
#define LANES_(f, s) LANES4_(f, 0, s)
#else
#define LANES_(f, s) LANES2_(f, 0, s)
#endif
#define EXCHANGE(R, s) \
    if ((R) > (s)) \
        UNROLL for (int i = 0; i < (R); i++) \
            if (!(i & (s))) { \
                Vec a = r[i], b = r[(i + (s)) % VL]; \
                r[i] = __builtin_shufflevector(a, b, LANES_(UPPER_, s)); \
                r[(i + (s)) % VL] = __builtin_shufflevector(a, b, LANES_(LOWER_, s)); \
            }
INLINE void transpose(Vec r[VL])
{
    EXCHANGE(VL, 1) EXCHANGE(VL, 2) EXCHANGE(VL, 4) EXCHANGE(VL, 8)
}

/* Elements i .. of x, which are reals or Acts by their size, a constant. */
INLINE Vec load_any(const void *x, size_t size, int64_t i, int64_t left)
{
    if (size == sizeof(real)) return vload((const real *)x + i, left);
    return aload((const Act *)x + i, left);
}
INLINE real get_any(const void *x, size_t size, int64_t i)
{
    return size == sizeof(real) ? ((const real *)x)[i] : aget((const Act *)x + i);
}

/* p[VL][W] = VL columns of `rows` <= VL rows of x from x[at], ld apart. Up to VL - W elements past
 * the last are written as well. */
INLINE void pack_square(real *p, int W, const void *x, size_t size, int64_t at, int64_t ld,
                        int rows)
{
    Vec r[VL];
    UNROLL for (int j = 0; j < VL; j++)
        r[j] = j < rows ? load_any(x, size, at + j * ld, VL) : (Vec){ 0 };
    transpose(r);
    UNROLL for (int j = 0; j < VL; j++) *(VecU *)(p + j * W) = r[j];
}
/* p[VL][W] = VL columns of W rows of x, by squares of W, 2 or 4 or 8 */
INLINE void pack_few(real *p, int W, const void *x, size_t size, int64_t at, int64_t ld)
{
    Vec r[VL];
    UNROLL for (int j = 0; j < W; j++) r[j] = load_any(x, size, at + j * ld, VL);
    EXCHANGE(W, 1) EXCHANGE(W, 2) EXCHANGE(W, 4)
    UNROLL for (int j = 0; j < W; j++)
        UNROLL for (int i = 0; i < VL; i += W)
            memcpy(p + W * (i + j), (real *)&r[j] + i, (size_t)W * sizeof(real));
}

/* p[k][W] = x[i][k] for `rows` <= W vectors x[i] = x + i*ld of k elements; the rest is 0 */
INLINE void pack_across_any(real *p, const void *x, size_t size, int64_t ld, int rows, int k, int W)
{
    enum { LINE = 16 };         /* k: a cache line of each row while it is there */
    int done = 0;
    if (rows < W) memset(p, 0, (size_t)k * (size_t)W * sizeof *p);
    else if (W % VL == 0)
        for (; done + LINE <= k; done += LINE)
            for (int i = 0; i < W; i += VL)
                for (int l = done; l < done + LINE; l += VL)
                    pack_square(p + (int64_t)l * W + i, W, x, size, i * ld + l, ld, VL);
    else if (W == 4 || W == 8)
        for (; done + VL <= k; done += VL) pack_few(p + (int64_t)done * W, W, x, size, done, ld);
    else if (W < VL)        /* not the last row: what is written past a row, the next covers */
        for (; done + VL < k; done += VL)
            pack_square(p + (int64_t)done * W, W, x, size, done, ld, W);
    for (int k0 = done; k0 < k; k0 += LINE)
        for (int i = 0; i < rows; i++)
            for (int l = k0; l < k && l < k0 + LINE; l++)
                p[(int64_t)l * W + i] = get_any(x, size, i * ld + l);
}
INLINE void pack_across(real *p, const real *x, int64_t ld, int rows, int k, int W)
{
    pack_across_any(p, x, sizeof *x, ld, rows, k, W);
}
/* p[k][W] = x[k][0:W], rows of x ld apart, of which `cols` <= W exist */
INLINE void pack_along_any(real *p, const void *x, size_t size, int64_t ld, int cols, int k, int W)
{
    for (int l = 0; l < k; l++, p += W) {
        int j = 0;
        if (W < VL && cols == W) {      /* part of a vector: masked stores would be slow */
            if (size == sizeof(real)) memcpy(p, (const real *)x + l * ld, (size_t)W * sizeof *p);
            else UNROLL for (int i = 0; i < W; i++) p[i] = get_any(x, size, l * ld + i);
            continue;
        }
        for (; j + VL <= cols; j += VL) *(VecU *)(p + j) = load_any(x, size, l * ld + j, VL);
        for (; j < cols; j++) p[j] = get_any(x, size, l * ld + j);
        for (; j < W; j++) p[j] = 0;
    }
}
#endif
