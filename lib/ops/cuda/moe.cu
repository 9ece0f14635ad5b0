/* moe.cu -- mixtures of experts: routing and the weighted sum (products by expert: experts.cu).
 * Where the assignments of an expert begin stays on the device. */
#include "ops/cuda/rows.h"
#include "ops/cuda/sort.h"
#include "ops/cuda/sum.h"

#define EACH_LANE(e, E) for (int e = threadIdx.x % WARP; e < (E); e += WARP)

/* NaN counts as less than any probability */
INLINE float as_key(float p) { return p >= 0 ? p : -1; }
/* does (p, e) come before (q, f): larger, or as large and of a lower number? */
INLINE bool before(float p, int e, float q, int f) { return p > q || (p == q && e < f); }
/* the first of all that come after (p, e), for all lanes */
INLINE int next_best(const real *prob, int E, float p, int e)
{
    float best = -2;
    int at = E;
    EACH_LANE(i, E) {
        const float q = as_key(prob[i]);
        if (before(p, e, q, i) && before(q, i, best, at)) best = q, at = i;
    }
    for (int o = WARP / 2; o; o >>= 1) {
        const float q = __shfl_xor_sync(~0u, best, o);
        const int i = __shfl_xor_sync(~0u, at, o);
        if (before(q, i, best, at)) best = q, at = i;
    }
    return at;
}
/* p[n] = softmax(h . gate^T); the k best of it */
static __global__ void route(real *p, real *wt, int *pick, const Act *h, const real *gate, int N,
                             int C, int E, int k, int norm)
{
    EACH_ROW(n, N) {
        real *q = p + n * E;
        float most = -INFINITY, sum = 0;
        for (int e = 0; e < E; e++) {
            float s = 0;
            EACH_LANE(c, C) s += aget(h + n * C + c) * gate[(int64_t)e * C + c];
            s = warp_sum(s);
            if (threadIdx.x % WARP == 0) q[e] = s;
            if (!(s <= most)) most = s;
        }
        __syncwarp();
        EACH_LANE(e, E) sum += expf(q[e] - most);
        sum = warp_sum(sum);
        EACH_LANE(e, E) q[e] = expf(q[e] - most) / sum;
        __syncwarp();
        float last = 2, total = 1e-20f;
        for (int j = 0, e = -1; j < k; j++) {
            e = next_best(q, E, last, e);
            last = as_key(q[e]);
            total += q[e];
            if (threadIdx.x % WARP == 0) pick[n * k + j] = e;
        }
        __syncwarp();
        EACH_LANE(j, k) wt[n * k + j] = q[pick[n * k + j]] / (norm ? total : 1);
    }
}
/* from the sorted assignments: slot, src, and off, whose elements up to a key's are set where the key
 * begins */
static __global__ void places(int *slot, int *src, int *off, const int *key, const int *order,
                              int64_t n, int E, int k)
{
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS) {
        slot[order[i]] = (int)i;
        src[i] = order[i] / k;
        for (int e = i ? key[i - 1] + 1 : 0; e <= key[i]; e++) off[e] = (int)i;
        for (int e = key[i] + 1; i == n - 1 && e <= E; e++) off[e] = (int)n;
    }
}
/* part[e] = (assignments of e / N) (mean of p[n][e]); a block has an expert */
static __global__ void load_of(float *part, const real *p, const int *off, int N, int E)
{
    SHARED(float, parts, WARPS);
    const int e = blockIdx.x;
    float s = 0;
    for (int64_t n = threadIdx.x; n < N; n += THREADS) s += p[n * E + e];
    s = block_sum(s, parts);
    if (threadIdx.x == 0) part[e] = (float)(off[e + 1] - off[e]) / (float)N * (s / (float)N);
}
void CU(route)(real *p, real *wt, int *pick, int *slot, int *src, int *off, real *aux,
               const Act *h, const real *gate, int N, int C, int E, int k, int norm)
{
    const int64_t n = (int64_t)N * k;
    if (n <= 0) return;
    LAUNCH(route, cu_grid(N, WARPS), THREADS, 0, cuda_stream, p, wt, pick, h, gate, N, C, E, k,
           norm);
    cuda_sort_forget(pick, (size_t)n * sizeof *pick);
    const Sorted s = cuda_sort(pick, (int)n, E);
    LAUNCH(places, cu_grid(n, THREADS), THREADS, 0, cuda_stream, slot, src, off, s.key, s.order, n,
           E, k);
    if (!aux) return;
    float *part = (float *)cuda_scratch(SLOT_PARTS, (size_t)E * sizeof *part);
    LAUNCH(load_of, (unsigned)E, THREADS, 0, cuda_stream, part, p, off, N, E);
    cuda_zero(aux, sizeof *aux);
    cuda_add_parts(aux, part, E, 1, 1, (float)E);
}

/* dz[n][e] = p (dp - p . dp), with dp from the weights of the picks and from the auxiliary loss */
static __global__ void route_grad(real *dz, const real *dwt, const real *p, const real *wt,
                                  const int *pick, const int *off, int N, int E, int k, int norm,
                                  float aux)
{
    EACH_ROW(n, N) {
        const real *q = p + n * E, *d = dwt + n * k;
        const int *to = pick + n * k;
        float dot = 0, sum = 1e-20f, all = 0;
        for (int j = 0; j < k; j++) {
            dot += d[j] * wt[n * k + j];
            sum += q[to[j]];
        }
        EACH_LANE(e, E) {
            float dp = aux * (float)E * (float)(off[e + 1] - off[e]) / (float)N / (float)N;
            for (int j = 0; j < k; j++)
                if (to[j] == e) dp += norm ? (d[j] - dot) / sum : d[j];
            dz[n * E + e] = dp;
            all += q[e] * dp;
        }
        all = warp_sum(all);
        EACH_LANE(e, E) dz[n * E + e] = q[e] * (dz[n * E + e] - all);
    }
}
/* dh[n] += dz[n] . gate */
static __global__ void route_dh(Act *dh, const real *dz, const real *gate, int N, int C, int E)
{
    EACH_ROW(n, N)
        EACH_LANE(c, C) {
            float s = 0;
            for (int e = 0; e < E; e++) s += dz[n * E + e] * gate[(int64_t)e * C + c];
            aput(dh + n * C + c, aget(dh + n * C + c) + s);
        }
}
/* part[chunk][e][c] = sum over the chunk's tokens of dz[n][e] h[n][c] */
enum { GATE_ROWS = 256 };
static __global__ void route_dgate(float *part, const real *dz, const Act *h, int N, int C, int E)
{
    const int c = (int)(blockIdx.x * THREADS + threadIdx.x), e = blockIdx.y;
    if (c >= C) return;
    const int64_t at = (int64_t)blockIdx.z * GATE_ROWS, end = cu_min(N, at + GATE_ROWS);
    float s = 0;
    for (int64_t n = at; n < end; n++) s += dz[n * E + e] * aget(h + n * C + c);
    part[((int64_t)blockIdx.z * E + e) * C + c] = s;
}
void CU(route_bwd)(Act *dh, real *dgate, const real *dwt, const real *p, const real *wt,
                   const int *pick, const int *off, const Act *h, const real *gate, int N, int C,
                   int E, int k, int norm, double aux)
{
    if (N <= 0) return;
    real *dz = (real *)cuda_scratch(SLOT_OP, (size_t)N * (size_t)E * sizeof *dz);
    LAUNCH(route_grad, cu_grid(N, WARPS), THREADS, 0, cuda_stream, dz, dwt, p, wt, pick, off, N, E,
           k, norm, (float)aux);
    if (dh) LAUNCH(route_dh, cu_grid(N, WARPS), THREADS, 0, cuda_stream, dh, dz, gate, N, C, E);
    if (!dgate) return;
    const int64_t chunks = div_up(N, GATE_ROWS), n = (int64_t)E * C;
    float *part = (float *)cuda_scratch(SLOT_PARTS, (size_t)(chunks * n) * sizeof *part);
    const dim3 grid((unsigned)div_up(C, THREADS), (unsigned)E, (unsigned)chunks);
    LAUNCH(route_dgate, grid, THREADS, 0, cuda_stream, part, dz, h, N, C, E);
    cuda_add_parts(dgate, part, chunks, n, n, 1);
}

/* ---- the sum */

template <int V>
static __global__ void slots_add(Act *y, const Act *x, const real *wt, const int *slot, int N,
                                 int k, int C)
{
    EACH_ROW(n, N)
        EACH_GROUP(c, C) {
            float s[V], t[V];
            aload<V>(s, y + n * C + c);
            for (int64_t i = n * k; i < (n + 1) * k; i++) {
                const float f = wt ? wt[i] : 1;
                aload<V>(t, x + slot[i] * (int64_t)C + c);
                UNROLL for (int j = 0; j < V; j++) s[j] += f * t[j];
            }
            astore<V>(y + n * C + c, s);
        }
}
/* a warp has an assignment */
template <int V>
static __global__ void slots_add_bwd(Act *dx, real *dwt, const Act *dy, const Act *x,
                                     const real *wt, const int *slot, int64_t n, int k, int C,
                                     int beta)
{
    EACH_ROW(i, n) {
        const int64_t to = slot[i] * (int64_t)C, from = i / k * C;
        const float f = wt ? wt[i] : 1;
        float s = 0;
        EACH_GROUP(c, C) {
            float d[V], t[V];
            aload<V>(d, dy + from + c);
            if (dwt) {
                aload<V>(t, x + to + c);
                UNROLL for (int j = 0; j < V; j++) s += d[j] * t[j];
            }
            if (!dx) continue;
            UNROLL for (int j = 0; j < V; j++) t[j] = 0;
            if (beta) aload<V>(t, dx + to + c);
            UNROLL for (int j = 0; j < V; j++) t[j] += f * d[j];
            astore<V>(dx + to + c, t);
        }
        s = warp_sum(s);
        if (dwt && threadIdx.x % WARP == 0) dwt[i] += s;
    }
}
void CU(slots_add)(Act *y, const Act *x, const real *wt, const int *slot, int N, int k, int C)
{
    RUN(cu_wide(y, C) && cu_wide(x, C), N, slots_add, y, x, wt, slot, N, k, C);
}
void CU(slots_add_bwd)(Act *dx, real *dwt, const Act *dy, const Act *x, const real *wt,
                       const int *slot, int N, int k, int C, int beta)
{
    const int64_t n = (int64_t)N * k;
    RUN(cu_wide(dx, C) && cu_wide(dy, C) && cu_wide(x, C), n, slots_add_bwd, dx, dwt, dy, x, wt,
        slot, n, k, C, beta);
}
