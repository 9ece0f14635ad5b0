/* rows.h -- kernels of which a warp works on a row at a time, a lane on every 32nd group of V elements. */
#ifndef OPS_CUDA_ROWS_H
#define OPS_CUDA_ROWS_H
#include "ops/cuda/cu.h"

enum { WARPS = 8, THREADS = WARPS * WARP };

/* this warp's rows of n */
#define EACH_ROW(row, n) \
    for (int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP; row < (n); \
         row += (int64_t)gridDim.x * WARPS)
/* this lane's groups of a row */
#define EACH_GROUP(c, C) for (int c = (int)(threadIdx.x % WARP) * V; c < (C); c += WARP * V)
/* kernel<VW> if all of its rows may be read 16 bytes at a time, else kernel<1> */
#define RUN(wide, rows, kernel, ...) do { \
        if ((rows) <= 0) break; \
        auto k_ = (wide) ? kernel<VW> : kernel<1>; \
        LAUNCH(k_, cu_grid(rows, WARPS), THREADS, 0, cuda_stream, __VA_ARGS__); \
    } while (0)

/* x . y, for all lanes */
template <int V> INLINE float row_dot(const Act *x, const Act *y, int C)
{
    float s = 0;
    EACH_GROUP(c, C) {
        float a[V], b[V];
        aload<V>(a, x + c);
        aload<V>(b, y + c);
        UNROLL for (int j = 0; j < V; j++) s += a[j] * b[j];
    }
    return warp_sum(s);
}
#endif
