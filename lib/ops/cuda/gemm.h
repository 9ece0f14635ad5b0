/* gemm.h -- products of matrices on the device. gemm.c makes them with cublasLt; tests have a plain
 * twin (tests/emulator/gemm.c).
 *
 *   y [m,n] = alpha op(a) op(b) + beta d, row-major, op(a) [m,k], op(b) [k,n]
 *
 * ta: a is [k,m] and taken transposed; tb likewise, b [n,k]. d has y's shape and type and may be y; it
 * is not read if beta is 0. Sums are floats; what is rounded is the result, once. `batch` products,
 * each array's matrices one after the other.
 *
 * Eight-bit floats (ops/fp8.h) are stored as x / scale, a number on the device for each of a and b,
 * and must lie along k (ta 0, tb 1), with k and n multiples of 16 and arrays aligned to as much; fast:
 * sums may be kept in fewer bits than a float has, where the device gains by that. */
#ifndef OPS_CUDA_GEMM_H
#define OPS_CUDA_GEMM_H
#ifdef __cplusplus
extern "C" {
#endif
typedef enum CudaNum { NUM_F32, NUM_BF16, NUM_E4M3, NUM_E5M2 } CudaNum;
typedef struct CudaGemm {
    void *y; const void *d, *a, *b;
    int m, n, k, ta, tb, batch;
    CudaNum num_a, num_b, num_y;        /* d's is y's, which has 16 bits or more */
    float alpha, beta;
    const float *scale_a, *scale_b;     /* of eight-bit floats */
    int fast;
} CudaGemm;
enum { CUDA_GEMM_WORK = 32 << 20 };      /* bytes of scratch it takes, once */
void cuda_gemm(const CudaGemm *g);
#ifdef __cplusplus
}
#endif
#endif
