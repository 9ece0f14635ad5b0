/* kernel.h -- the micro-kernel of all matrix products, and packing for it. */
#ifndef OPS_CPU_KERNEL_H
#define OPS_CPU_KERNEL_H
#include "ops/cpu/vec.h"

/* s[i][0:NR] += sum over l < k of a[i*rsa + l*csa] b[l*ldb + 0:NR], i < MR. The strides are best
 * constants; s stays in registers once this is inlined. */
INLINE void mul_more(Vec s[MR][2], const real *a, int64_t rsa, int64_t csa, const real *b,
                     int64_t ldb, int k)
{
    for (int l = 0; l < k; l++, a += csa, b += ldb) {
        Vec b0 = *(const VecU *)b, b1 = *(const VecU *)(b + VL);
        UNROLL for (int i = 0; i < MR; i++) {
            s[i][0] += a[i * rsa] * b0;
            s[i][1] += a[i * rsa] * b1;
        }
    }
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
#define EXCHANGE(s) \
    if (VL > (s)) \
        UNROLL for (int i = 0; i < VL; i++) \
            if (!(i & (s))) { \
                Vec a = r[i], b = r[(i + (s)) % VL]; \
                r[i] = __builtin_shufflevector(a, b, LANES_(UPPER_, s)); \
                r[(i + (s)) % VL] = __builtin_shufflevector(a, b, LANES_(LOWER_, s)); \
            }
INLINE void transpose(Vec r[VL]) { EXCHANGE(1) EXCHANGE(2) EXCHANGE(4) EXCHANGE(8) }

/* p[k][W] = x[i][k] for `rows` <= W vectors x[i] = x + i*ld of k elements; the rest is 0 */
INLINE void pack_across(real *p, const real *x, int64_t ld, int rows, int k, int W)
{
    if (rows < W) memset(p, 0, (size_t)k * (size_t)W * sizeof *p);
    int done = 0;
    if (rows == W && W % VL == 0)
        for (; done + VL <= k; done += VL)
            for (int i = 0; i < W; i += VL) {
                Vec r[VL];
                UNROLL for (int j = 0; j < VL; j++) r[j] = *(const VecU *)(x + (i + j) * ld + done);
                transpose(r);
                UNROLL
                for (int j = 0; j < VL; j++) *(VecU *)(p + (int64_t)(done + j) * W + i) = r[j];
            }
    for (int k0 = done; k0 < k; k0 += 16)           /* a cache line of each row while it is there */
        for (int i = 0; i < rows; i++) {
            const real *r = x + i * ld + k0;
            real *q = p + (int64_t)k0 * W + i;
            if (k - k0 >= 16)
                UNROLL for (int l = 0; l < 16; l++) q[l * W] = r[l];
            else
                for (int l = 0; l < k - k0; l++) q[l * W] = r[l];
        }
}
/* p[k][W] = x[k][0:W], rows of x ld apart, of which `cols` <= W exist */
INLINE void pack_along(real *p, const real *x, int64_t ld, int cols, int k, int W)
{
    if (cols == W)
        for (int l = 0; l < k; l++) memcpy(p + (int64_t)l * W, x + l * ld, (size_t)W * sizeof *p);
    else
        for (int l = 0; l < k; l++)
            for (int j = 0; j < W; j++) p[(int64_t)l * W + j] = j < cols ? x[l * ld + j] : 0;
}
#endif
