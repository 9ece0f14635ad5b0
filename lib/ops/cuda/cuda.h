/* cuda.h -- what the files of the CUDA back-end share on the host's side, in C and in C++.
 *
 * The .cu files hold kernels, each with an extern "C" function of the operations' table that launches
 * it; .c files hold the host: memory, the table, products. A file is compiled twice, plain (an Act
 * is a float) and with ACT_BF16; CU(name) is cuda_name_fp32 or cuda_name_bf16. What knows no Acts is
 * compiled once and is plain cuda_name.
 *
 * All work goes to one stream, in order. Nothing waits for the device but get and sync, and memory
 * for scratch that grows. Sums have an order that depends on shapes only: no atomics on floats.
 * The same files compile for the CPU, where tests/emulator runs the kernels.
 */
#ifndef OPS_CUDA_CUDA_H
#define OPS_CUDA_CUDA_H
#include <stdint.h>
#ifdef ACT_BF16
typedef struct Bf16 { uint16_t bits; } Bf16;    /* the upper half of a float */
#define OPS_ACT Bf16
#define CU(name) cuda_##name##_bf16
#else
#define OPS_ACT float
#define CU(name) cuda_##name##_fp32
#endif
#include "ops/ops.h"
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* mem.c. scratch: kept for reuse, one block per slot, grown when more is asked for; what it held is
 * lost then. Not zeroed. A slot belongs to one file, SLOT_PARTS to whoever sums partials. */
enum { SLOT_PARTS, SLOT_OP, SLOT_SORT, SLOT_ATTN, SLOT_GEMM, SLOT_COUNT };
void *cuda_scratch(int slot, size_t bytes);
extern cudaStream_t cuda_stream;
int cuda_sm_count(void);
void cuda_start(int device);            /* dies if it cannot be used */
void cuda_check(cudaError_t e, const char *what);
void cuda_before(const void *kernel, size_t smem);      /* of a launch: see cu.h */
void *cuda_alloc(size_t bytes);
void cuda_free(void *p, size_t bytes);
void cuda_zero(void *p, size_t bytes);
void cuda_copy(void *to, const void *from, size_t bytes);
void cuda_put(void *dev, const void *host, size_t bytes);
void cuda_get(void *host, const void *dev, size_t bytes);
void cuda_sync(void);

/* table.c */
const Ops *CU(ops)(void);

/* the operations, by file: elem.cu */
void CU(cast)(Act *y, const real *x, int64_t n);
void CU(uncast)(real *y, const Act *x, int64_t n);
void CU(add)(Act *y, const Act *x, int64_t n);
void CU(relu2)(Act *y, const Act *x, int64_t n);
void CU(relu2_bwd)(Act *dx, const Act *dy, const Act *y, int64_t n, int beta);
void CU(swiglu)(Act *y, const Act *a, const Act *b, int64_t n);
void CU(swiglu_bwd)(Act *da, Act *db, const Act *dy, const Act *a, const Act *b, int64_t n,
                    int beta);

#ifdef __cplusplus
}
#endif
#endif
