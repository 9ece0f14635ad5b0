/* table.c -- the table of operations of the CUDA back-end, for this Act. */
#include "ops/cuda/cuda.h"

#ifdef ACT_BF16
#define DTYPE "bf16"
#else
#define DTYPE "fp32"
#endif

const Ops *CU(ops)(void)
{
    static const Ops table = {
        .name = "cuda", .dtype = DTYPE, .act_size = sizeof(Act),
        .alloc = cuda_alloc, .free = cuda_free, .zero = cuda_zero, .copy = cuda_copy,
        .put = cuda_put, .get = cuda_get, .sync = cuda_sync, .cast = CU(cast),
        .uncast = CU(uncast),
        .relu2 = CU(relu2), .relu2_bwd = CU(relu2_bwd), .add = CU(add),
        .swiglu = CU(swiglu), .swiglu_bwd = CU(swiglu_bwd),
    };
    return &table;
}
