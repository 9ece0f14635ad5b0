/* few.h -- linear maps of up to four rows; for linear.c, which gives the others to gemm.h. */
#ifndef OPS_CUDA_FEW_H
#define OPS_CUDA_FEW_H
#include "ops/cuda/cuda.h"
#ifdef __cplusplus
extern "C" {
#endif
/* as ops.h's linear; 0: not for this kernel, and nothing is done */
int CU(few_rows)(Act *y, const Act *x, const Act *w, int N, int C, int O, int beta);
#ifdef __cplusplus
}
#endif
#endif
