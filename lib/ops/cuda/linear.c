/* linear.c -- the linear maps, as products of whole matrices, but for the few rows of decoding. */
#include "ops/cuda/cuda.h"
#include "ops/cuda/few.h"
#include "ops/cuda/gemm.h"

static const CudaNum num = sizeof(Act) == 2 ? NUM_BF16 : NUM_F32;

void CU(linear)(Act *y, const Act *x, const Act *w, int N, int C, int O, int beta)
{
    if (CU(few_rows)(y, x, w, N, C, O, beta)) return;
    cuda_gemm(&(CudaGemm){ .y = y, .d = y, .a = x, .b = w, .m = N, .n = O, .k = C, .tb = 1,
                           .batch = 1, .num_a = num, .num_b = num, .num_y = num,
                           .alpha = 1, .beta = (float)beta });
}
void CU(linear_dx)(Act *dx, const Act *dy, const Act *w, int N, int C, int O, int beta)
{
    if (dx)
        cuda_gemm(&(CudaGemm){ .y = dx, .d = dx, .a = dy, .b = w, .m = N, .n = C, .k = O,
                               .batch = 1, .num_a = num, .num_b = num, .num_y = num,
                               .alpha = 1, .beta = (float)beta });
}
void CU(linear_dw)(real *dw, const Act *dy, const Act *x, int N, int C, int O)
{
    if (dw)
        cuda_gemm(&(CudaGemm){ .y = dw, .d = dw, .a = dy, .b = x, .m = O, .n = C, .k = N, .ta = 1,
                               .batch = 1, .num_a = num, .num_b = num, .alpha = 1, .beta = 1 });
}
