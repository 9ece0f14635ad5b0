/* mix.h -- the backward of mix, V elements of a thread at a time. */
#ifndef OPS_CUDA_MIX_H
#define OPS_CUDA_MIX_H
#include "ops/cuda/cu.h"

/* dx = beta dx + a d, dz += s b d. A gradient that is NULL is not wanted, nor the sum with x or z if
 * that is. dx may be dz, and with beta 0 what d was read from. */
typedef struct MixBack {
    Act *dx, *dz;
    const Act *x, *z;
    const real *a, *b;
    real s;
    int beta;
} MixBack;

/* p and q are a and s b; d . x and d . z are added to sx and sz */
template <int V>
INLINE void mix_back(const MixBack &m, const float *d, int64_t i, float p, float q, float *sx,
                     float *sz)
{
    float t[V];
    if (m.dx) {
        UNROLL for (int j = 0; j < V; j++) t[j] = 0;
        if (m.beta) aload<V>(t, m.dx + i);
        UNROLL for (int j = 0; j < V; j++) t[j] += p * d[j];
        astore<V>(m.dx + i, t);
    }
    if (m.dz) {
        aload<V>(t, m.dz + i);
        UNROLL for (int j = 0; j < V; j++) t[j] += q * d[j];
        astore<V>(m.dz + i, t);
    }
    if (m.x) {
        aload<V>(t, m.x + i);
        UNROLL for (int j = 0; j < V; j++) *sx += d[j] * t[j];
    }
    if (m.z) {
        aload<V>(t, m.z + i);
        UNROLL for (int j = 0; j < V; j++) *sz += d[j] * t[j];
    }
}
/* part [blocks,2], NULL: not wanted; sum_x, sum_z as block_sum's */
INLINE void mix_parts(float *part, float sx, float sz, float *sum_x, float *sum_z)
{
    if (!part) return;
    sx = block_sum(sx, sum_x);
    sz = block_sum(sz, sum_z);
    if (threadIdx.x == 0) {
        part[2 * (int64_t)blockIdx.x] = sx;
        part[2 * (int64_t)blockIdx.x + 1] = sz;
    }
}
/* may rows of n elements be read VW at a time? */
static inline int mix_wide(const MixBack &m, int64_t n)
{
    return cu_wide(m.dx, n) && cu_wide(m.dz, n) && cu_wide(m.x, n) && cu_wide(m.z, n);
}
#endif
