/* xent.cu -- softcap, softmax, loss and its gradient; a block has a row of logits. The row is read
 * twice, the second time from the cache. With a cap that is not too large no maximum is needed:
 * l lies in [-cap, cap], and cap serves as well. Rows go from the last to the first: the last ones
 * are the likeliest to be in the cache still. */
#include "ops/cuda/cu.h"

enum { THREADS = 512 };
static const float no_max = 30;         /* exp(-2 * 30) is far from the least float */

#define EACH_GROUP(c, n) for (int c = (int)threadIdx.x * V; c < (n); c += THREADS * V)

INLINE float capped(float z, float cap, float inv) { return cap > 0 ? cap * tanhf(z * inv) : z; }

/* of a block's threads, for all of them; NaN stays */
INLINE float block_max(float v, float *parts)
{
    v = warp_max(v);
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = v;
    __syncthreads();
    float m = parts[0];
    for (unsigned i = 1; i < blockDim.x / WARP; i++) if (!(parts[i] <= m)) m = parts[i];
    return m;
}
template <int V>
static __global__ void __launch_bounds__(THREADS)
    xent(real *loss, Act *z, const int *tgt, const real *wt, int N, int Vocab, int Vp, real cap,
         real scale)
{
    SHARED(float, parts_m, THREADS / WARP);
    SHARED(float, parts_s, THREADS / WARP);
    const int64_t n = N - 1 - (int64_t)blockIdx.x;
    const int t = tgt[n];
    const float inv = cap > 0 ? 1 / cap : 0;
    Act *p = z + n * Vp;
    float x[V], m = cap, s = 0;
    if (t < 0) {
        if (threadIdx.x == 0) loss[n] = 0;
        UNROLL for (int j = 0; j < V; j++) x[j] = 0;
        if (scale != 0) EACH_GROUP(c, Vp) astore<V>(p + c, x);
        return;
    }
    if (!(cap > 0 && cap <= no_max)) {
        m = -INFINITY;
        EACH_GROUP(c, Vocab) {
            aload<V>(x, p + c);
            UNROLL for (int j = 0; j < V; j++) {
                float l = c + j < Vocab ? capped(x[j], cap, inv) : m;
                if (!(l <= m)) m = l;
            }
        }
        m = block_max(m, parts_m);
    }
    EACH_GROUP(c, Vocab) {
        aload<V>(x, p + c);
        UNROLL for (int j = 0; j < V; j++)
            if (c + j < Vocab) s += expf(capped(x[j], cap, inv) - m);
    }
    s = block_sum(s, parts_s);
    if (threadIdx.x == 0) loss[n] = logf(s) + m - capped(aget(p + t), cap, inv);
    if (scale == 0) return;
    __syncthreads();                    /* the target's logit has been read */
    const float f = scale * (wt ? wt[n] : 1), norm = 1 / s;
    EACH_GROUP(c, Vp) {
        aload<V>(x, p + c);
        UNROLL for (int j = 0; j < V; j++) {
            const float l = capped(x[j], cap, inv), th = l * inv,
                        e = expf(l - m) * norm - (c + j == t ? 1 : 0);
            x[j] = c + j < Vocab ? f * e * (1 - th * th) : 0;
        }
        astore<V>(p + c, x);
    }
}
static __global__ void __launch_bounds__(THREADS)
    logits(real *l, const Act *z, int64_t n, int V, int Vp, real cap)
{
    const float inv = cap > 0 ? 1 / cap : 0;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS)
        l[i] = capped(aget(z + i / V * Vp + i % V), cap, inv);
}
void CU(xent)(real *loss, Act *z, const int *tgt, const real *wt, int N, int V, int Vp, real cap,
              real scale)
{
    if (N <= 0) return;
    auto k = cu_wide(z, Vp) ? xent<VW> : xent<1>;
    LAUNCH(k, (unsigned)N, THREADS, 0, cuda_stream, loss, z, tgt, wt, N, V, Vp, cap, scale);
}
void CU(logits)(real *l, const Act *z, int N, int V, int Vp, real cap)
{
    const int64_t n = (int64_t)N * V;
    if (n <= 0) return;
    LAUNCH(logits, cu_grid(n, THREADS), THREADS, 0, cuda_stream, l, z, n, V, Vp, cap);
}
