/* gemm.h -- products of matrices on the device. gemm.c makes them with cublasLt; tests have a plain
 * twin (tests/emulator/gemm.c).
 *
 *   y [m,n] = alpha op(a) op(b) + beta d, row-major, op(a) [m,k], op(b) [k,n]
 *
 * ta: a is [k,m] and taken transposed; tb likewise, b [n,k]. d has y's shape and type and may be y; it
 * is not read if beta is 0. Sums are floats; what is rounded is the result, once. `batch` products,
 * each array's matrices one after the other. */
#ifndef OPS_CUDA_GEMM_H
#define OPS_CUDA_GEMM_H
#ifdef __cplusplus
extern "C" {
#endif
typedef struct CudaGemm {
    void *y; const void *d, *a, *b;
    int m, n, k, ta, tb, batch;
    int bf16_in, bf16_out;              /* a and b, y and d are bfloat16, else fp32 */
    float alpha, beta;
} CudaGemm;
enum { CUDA_GEMM_WORK = 32 << 20 };      /* bytes of scratch it takes, once */
void cuda_gemm(const CudaGemm *g);
#ifdef __cplusplus
}
#endif
#endif
