/* attn_cudnn.h -- attention by cuDNN as attn.cu calls it: attn and attn_bwd of ops.h without
 * documents. False: nothing was done, our kernels must. */
#ifndef OPS_CUDA_ATTN_CUDNN_H
#define OPS_CUDA_ATTN_CUDNN_H
#include "ops/cuda/cuda.h"
#include "ops/cuda/cudnn.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif
bool cudnn_attn(Act *y, real *lse, const Act *q, const Act *k, const Act *v, CudnnShape s);
bool cudnn_attn_bwd(Act *dq, Act *dk, Act *dv, const Act *dy, const Act *y, const real *lse,
                    const Act *q, const Act *k, const Act *v, CudnnShape s);
#ifdef __cplusplus
}
#endif
#endif
