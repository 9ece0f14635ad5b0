/* sum.cu -- see sum.h. Many sums have a thread each, few a block each. */
#include "ops/cuda/cu.h"
#include "ops/cuda/sum.h"

enum { THREADS = 256, MANY = 256 };

static __global__ void by_thread(float *out, const float *part, int64_t chunks, int64_t n,
                                 int64_t stride, float f)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    float s = 0;
    for (int64_t c = 0; c < chunks; c++) s += part[c * stride + i];
    out[i] += f * s;
}
static __global__ void by_block(float *out, const float *part, int64_t chunks, int64_t stride,
                                float f)
{
    SHARED(float, parts, THREADS / WARP);
    float s = 0;
    for (int64_t c = threadIdx.x; c < chunks; c += THREADS) s += part[c * stride + blockIdx.x];
    s = block_sum(s, parts);
    if (threadIdx.x == 0) out[blockIdx.x] += f * s;
}
void cuda_add_parts(float *out, const float *part, int64_t chunks, int64_t n, int64_t stride,
                    float f)
{
    if (n >= MANY)
        LAUNCH(by_thread, (unsigned)div_up(n, THREADS), THREADS, 0, cuda_stream, out, part, chunks,
               n, stride, f);
    else
        LAUNCH(by_block, (unsigned)n, THREADS, 0, cuda_stream, out, part, chunks, stride, f);
}
/* As doubles, by one block: it is of losses, which are few. */
enum { SUM = 1024 };
static __global__ void __launch_bounds__(SUM) by_one_block(double *out, const float *x, int64_t n)
{
    SHARED(double, parts, SUM / WARP);
    double s = 0;
    for (int64_t i = threadIdx.x; i < n; i += SUM) s += (double)x[i];
    s = warp_sum(s);
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = s;
    __syncthreads();
    if (threadIdx.x) return;
    s = *out;
    for (int i = 0; i < SUM / WARP; i++) s += parts[i];
    *out = s;
}
void cuda_sum(double *out, const real *x, int64_t n)
{
    if (n > 0) LAUNCH(by_one_block, 1, SUM, 0, cuda_stream, out, x, n);
}
