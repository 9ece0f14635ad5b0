/* kernel.h -- the micro-kernel of all matrix products, and packing for it. */
#ifndef OPS_CPU_KERNEL_H
#define OPS_CPU_KERNEL_H
#include "ops/cpu/vec.h"

/* s[i][0:NR] = sum over l < k of a[i*rsa + l*csa] b[l*ldb + 0:NR], i < MR. The strides are best
 * constants; s stays in registers once this is inlined. */
INLINE void mul(Vec s[MR][2], const real *a, int64_t rsa, int64_t csa, const real *b, int64_t ldb, int k)
{
    UNROLL for (int i = 0; i < MR; i++) s[i][0] = s[i][1] = (Vec){ 0 };
    for (int l = 0; l < k; l++, a += csa, b += ldb) {
        Vec b0 = *(const VecU *)b, b1 = *(const VecU *)(b + VL);
        UNROLL for (int i = 0; i < MR; i++) {
            s[i][0] += a[i * rsa] * b0;
            s[i][1] += a[i * rsa] * b1;
        }
    }
}

/* p[k][W] = x[i][k] for `rows` <= W vectors x[i] = x + i*ld of k elements; the rest is 0 */
INLINE void pack_across(real *p, const real *x, int64_t ld, int rows, int k, int W)
{
    if (rows < W) memset(p, 0, (size_t)k * (size_t)W * sizeof *p);
    for (int k0 = 0; k0 < k; k0 += 16)              /* a cache line of each row while it is there */
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
