/* elem.cu -- operations element by element: cast, add, dropout, relu2, swiglu, mix. */
#include "ops/cuda/cu.h"
#include "ops/cuda/fp8.h"
#include "ops/cuda/mix.h"
#include "ops/cuda/sum.h"

enum { THREADS = 256 };

/* the i-th group of V elements, block-stride */
#define EACH(n) \
    for (int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V; i < (n); \
         i += (int64_t)gridDim.x * blockDim.x * V)
/* kernel<VW> if all of it may be read 16 bytes at a time, else kernel<1> */
#define RUN(wide, n, kernel, ...) do { \
        if ((n) <= 0) break; \
        auto wide_ = kernel<VW>; \
        auto one_ = kernel<1>; \
        if (wide) LAUNCH(wide_, cu_grid((n) / VW, THREADS), THREADS, 0, cuda_stream, __VA_ARGS__); \
        else LAUNCH(one_, cu_grid(n, THREADS), THREADS, 0, cuda_stream, __VA_ARGS__); \
    } while (0)

template <int V> static __global__ void cast(Act *y, const real *x, int64_t n)
{
    EACH(n) {
        float t[V];
        rload<V>(t, x + i);
        astore<V>(y + i, t);
    }
}
template <int V> static __global__ void uncast(real *y, const Act *x, int64_t n)
{
    EACH(n) {
        float t[V];
        aload<V>(t, x + i);
        rstore<V>(y + i, t);
    }
}
void CU(cast)(Act *y, const real *x, int64_t n)
{
    cuda_fp8_forget(y, (size_t)n * sizeof *y);
    RUN(cu_wide(y, n) && cu_wide(x, n), n, cast, y, x, n);
}
void CU(uncast)(real *y, const Act *x, int64_t n)
{
    RUN(cu_wide(y, n) && cu_wide(x, n), n, uncast, y, x, n);
}

template <int V> static __global__ void add(Act *y, const Act *x, int64_t n)
{
    EACH(n) {
        float a[V], b[V];
        aload<V>(a, y + i);
        aload<V>(b, x + i);
        UNROLL for (int j = 0; j < V; j++) a[j] += b[j];
        astore<V>(y + i, a);
    }
}
void CU(add)(Act *y, const Act *x, int64_t n)
{
    RUN(cu_wide(y, n) && cu_wide(x, n), n, add, y, x, n);
}

/* y = beta y + (x / (1 - p), or 0) */
template <int V>
static __global__ void dropout(Act *y, const Act *x, int64_t n, Dropping d, int beta)
{
    const uint64_t first = drop_start(d);
    EACH(n) {
        float t[V], old[V];
        aload<V>(t, x + i);
        if (beta) aload<V>(old, y + i);
        UNROLL for (int j = 0; j < V; j++)
            t[j] = t[j] * drop_by(d, first + (uint64_t)(i + j)) + (beta ? old[j] : 0);
        astore<V>(y + i, t);
    }
}
void CU(dropout)(Act *y, const Act *x, int64_t n, const Drop *d, int beta)
{
    RUN(cu_wide(y, n) && cu_wide(x, n), n, dropout, y, x, n, dropping(d), beta);
}

/* NaN stays NaN */
template <int V> static __global__ void relu2(Act *y, const Act *x, int64_t n)
{
    EACH(n) {
        float t[V];
        aload<V>(t, x + i);
        UNROLL for (int j = 0; j < V; j++) t[j] = t[j] < 0 ? 0 : t[j] * t[j];
        astore<V>(y + i, t);
    }
}
template <int V>
static __global__ void relu2_bwd(Act *dx, const Act *dy, const Act *y, int64_t n, int beta)
{
    EACH(n) {
        float d[V], t[V], old[V];
        aload<V>(d, dy + i);
        aload<V>(t, y + i);
        if (beta) aload<V>(old, dx + i);
        UNROLL for (int j = 0; j < V; j++) t[j] = 2 * sqrtf(t[j]) * d[j] + (beta ? old[j] : 0);
        astore<V>(dx + i, t);
    }
}
void CU(relu2)(Act *y, const Act *x, int64_t n)
{
    RUN(cu_wide(y, n) && cu_wide(x, n), n, relu2, y, x, n);
}
void CU(relu2_bwd)(Act *dx, const Act *dy, const Act *y, int64_t n, int beta)
{
    if (!dx) return;
    RUN(cu_wide(dx, n) && cu_wide(dy, n) && cu_wide(y, n), n, relu2_bwd, dx, dy, y, n, beta);
}

INLINE float sigmoid(float x) { return 1 / (1 + expf(-x)); }

template <int V>
static __global__ void swiglu(Act *y, const Act *a, const Act *b, int64_t n)
{
    EACH(n) {
        float p[V], q[V];
        aload<V>(p, a + i);
        aload<V>(q, b + i);
        UNROLL for (int j = 0; j < V; j++) p[j] *= sigmoid(p[j]) * q[j];
        astore<V>(y + i, p);
    }
}
/* with s = sigmoid(a): da = dy b s (1 + a (1 - s)), db = dy a s */
template <int V>
static __global__ void swiglu_bwd(Act *da, Act *db, const Act *dy, const Act *a, const Act *b,
                                  int64_t n, int beta)
{
    EACH(n) {
        float p[V], q[V], d[V], u[V], v[V];
        aload<V>(p, a + i);
        aload<V>(q, b + i);
        aload<V>(d, dy + i);
        UNROLL for (int j = 0; j < V; j++) u[j] = v[j] = 0;
        if (beta && da) aload<V>(u, da + i);
        if (beta && db) aload<V>(v, db + i);
        UNROLL for (int j = 0; j < V; j++) {
            float s = sigmoid(p[j]);
            u[j] += d[j] * q[j] * s * (1 + p[j] * (1 - s));
            v[j] += d[j] * p[j] * s;
        }
        if (da) astore<V>(da + i, u);
        if (db) astore<V>(db + i, v);
    }
}
void CU(swiglu)(Act *y, const Act *a, const Act *b, int64_t n)
{
    RUN(cu_wide(y, n) && cu_wide(a, n) && cu_wide(b, n), n, swiglu, y, a, b, n);
}
void CU(swiglu_bwd)(Act *da, Act *db, const Act *dy, const Act *a, const Act *b, int64_t n,
                    int beta)
{
    RUN(cu_wide(da, n) && cu_wide(db, n) && cu_wide(dy, n) && cu_wide(a, n) && cu_wide(b, n), n,
        swiglu_bwd, da, db, dy, a, b, n, beta);
}

/* ---- mix: y = a x + s b z, a and b on the device, NULL is 1 */

template <int V>
static __global__ void mix(Act *y, const Act *x, const real *a, const Act *z, const real *b, real s,
                           int64_t n)
{
    const float p = a ? *a : 1, q = s * (b ? *b : 1);
    EACH(n) {
        float t[V], u[V];
        aload<V>(t, x + i);
        aload<V>(u, z + i);
        UNROLL for (int j = 0; j < V; j++) t[j] = p * t[j] + q * u[j];
        astore<V>(y + i, t);
    }
}
/* a block has CHUNK elements and leaves dy . x and dy . z of them in part [blocks,2] */
enum { CHUNK = 8192 };
template <int V>
static __global__ void mix_bwd(MixBack m, float *part, const Act *dy, int64_t n)
{
    SHARED(float, sum_x, THREADS / WARP);
    SHARED(float, sum_z, THREADS / WARP);
    const float p = m.a ? *m.a : 1, q = m.s * (m.b ? *m.b : 1);
    const int64_t at = (int64_t)blockIdx.x * CHUNK, end = cu_min(n, at + CHUNK);
    float sx = 0, sz = 0;
    for (int64_t i = at + threadIdx.x * V; i < end; i += THREADS * V) {
        float d[V];
        aload<V>(d, dy + i);
        mix_back<V>(m, d, i, p, q, &sx, &sz);
    }
    mix_parts(part, sx, sz, sum_x, sum_z);
}
void CU(mix)(Act *y, const Act *x, const real *a, const Act *z, const real *b, real s, int64_t n)
{
    RUN(cu_wide(y, n) && cu_wide(x, n) && cu_wide(z, n), n, mix, y, x, a, z, b, s, n);
}
void CU(mix_bwd)(Act *dx, real *da, Act *dz, real *db, const Act *dy, const Act *x, const real *a,
                 const Act *z, const real *b, real s, int64_t n)
{
    if (n <= 0) return;
    const int64_t blocks = div_up(n, CHUNK);
    float *part = da || db ? (float *)cuda_scratch(SLOT_PARTS, (size_t)blocks * 2 * sizeof *part)
                           : NULL;
    const MixBack m = { dx, dz, da ? x : NULL, db ? z : NULL, a, b, s, 1 };
    auto k = mix_wide(m, n) && cu_wide(dy, n) ? mix_bwd<VW> : mix_bwd<1>;
    LAUNCH(k, (unsigned)blocks, THREADS, 0, cuda_stream, m, part, dy, n);
    if (da) cuda_add_parts(da, part, blocks, 1, 2, 1);
    if (db) cuda_add_parts(db, part + 1, blocks, 1, 2, s);
}
