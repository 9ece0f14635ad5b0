/* embed.cu -- what reads a table by token, and the gates: embed, vgate, smear. */
#include "ops/cuda/rows.h"
#include "ops/cuda/sort.h"
#include "ops/cuda/sum.h"

enum { ROWS = 64 };         /* rows per part of the gates' gradients */

template <int V> static __global__ void embed(Act *y, const Act *w, const int *idx, int N, int C)
{
    EACH_ROW(n, N) {
        const Act *row = w + (int64_t)idx[n] * C;
        EACH_GROUP(c, C) {
            float t[V];
            aload<V>(t, row + c);
            astore<V>(y + n * C + c, t);
        }
    }
}
void CU(embed)(Act *y, const Act *w, const int *idx, int N, int C)
{
    RUN(cu_wide(y, C) && cu_wide(w, C), N, embed, y, w, idx, N, C);
}

/* V elements of a Store of reals or Acts from i on */
template <int V> INLINE void sload(float *x, const Store &s, int64_t i)
{
    if (s.w) rload<V>(x, s.w + i);
    else aload<V>(x, (const Act *)(const void *)s.hi + i);
}
template <int V> INLINE void sstore(const Store &s, int64_t i, const float *x)
{
    if (s.w) rstore<V>(s.w + i, x);
    else astore<V>((Act *)(void *)s.hi + i, x);
}
/* dw[key] += sum over its tokens n, in order, of (g ? g[n][c / D] : 1) dy[n]. A block has V * threads
 * channels of the key that begins at its place among the sorted tokens, if one does. */
enum { SCATTER = 128, AT_ONCE = 8 };    /* rows whose loads are under way: a frequent token has thousands */
template <int V>
static __global__ void scatter(Store dw, const Act *dy, const real *g, const int *key,
                               const int *order, int N, int C, int D)
{
    const int64_t i = blockIdx.x, c = ((int64_t)blockIdx.y * SCATTER + threadIdx.x) * V;
    const int k = key[i];
    if (c >= C || (i > 0 && key[i - 1] == k)) return;
    float s[V];
    sload<V>(s, dw, (int64_t)k * C + c);
    int found = AT_ONCE;
    for (int64_t j = i; found == AT_ONCE; j += AT_ONCE) {
        float d[AT_ONCE][V];
        int64_t n[AT_ONCE];
        found = 0;
        UNROLL for (int u = 0; u < AT_ONCE; u++) found += j + u < N && key[j + u] == k;
        UNROLL for (int u = 0; u < AT_ONCE; u++) n[u] = u < found ? order[j + u] : 0;
        UNROLL for (int u = 0; u < AT_ONCE; u++)
            if (u < found) aload<V>(d[u], dy + n[u] * C + c);
        UNROLL for (int u = 0; u < AT_ONCE; u++)
            UNROLL for (int v = 0; v < V; v++)
                if (u < found) s[v] += g ? g[n[u] * (C / D) + (c + v) / D] * d[u][v] : d[u][v];
    }
    sstore<V>(dw, (int64_t)k * C + c, s);
}
static void add_rows(Store dw, const Act *dy, const real *g, const int *idx, int N, int C, int D,
                     int V)
{
    if (N <= 0) return;
    const Sorted s = cuda_sort(idx, N, V);
    const int wide = cu_wide(dw.w ? (void *)dw.w : dw.hi, C) && cu_wide(dy, C);
    auto k = wide ? scatter<VW> : scatter<1>;
    const dim3 grid((unsigned)N, (unsigned)div_up(C, SCATTER * (wide ? VW : 1)));
    LAUNCH(k, grid, SCATTER, 0, cuda_stream, dw, dy, g, s.key, s.order, N, C, D);
}
void CU(embed_bwd)(Store dw, const Act *dy, const int *idx, int N, int C, int V)
{
    if (store_some(dw)) add_rows(dw, dy, NULL, idx, N, C, C, V);
}

/* sigmoid(w . x), G terms, for all lanes */
INLINE float gate(const Act *x, const real *w, int G)
{
    float s = 0;
    for (int i = threadIdx.x % WARP; i < G; i += WARP) s += aget(x + i) * w[i];
    return 1 / (1 + expf(-warp_sum(s)));
}

/* ---- vgate: a row is a head of a token */

template <int V>
static __global__ void vgate(Act *y, const Act *v, const Act *ve, const int *idx, const Act *h,
                             const real *w, int64_t heads, int C, int K, int D, int G)
{
    EACH_ROW(r, heads) {
        const int64_t n = r / K, k = r % K;
        const float g = 3 * gate(h + n * C, w + k * G, G);
        const Act *e = ve + ((int64_t)idx[n] * K + k) * D;
        EACH_GROUP(d, D) {
            float a[V], b[V];
            aload<V>(a, v + r * D + d);
            aload<V>(b, e + d);
            UNROLL for (int j = 0; j < V; j++) a[j] += g * b[j];
            astore<V>(y + r * D + d, a);
        }
    }
}
/* s = sigmoid(w . h), y = v + 3 s ve: g [N,K] = 3 s, da = d(w . h) = 3 s (1-s) dy . ve */
template <int V>
static __global__ void vgate_grad(real *g, real *da, const Act *dy, const Act *ve, const int *idx,
                                  const Act *h, const real *w, int64_t heads, int C, int K, int D,
                                  int G)
{
    EACH_ROW(r, heads) {
        const int64_t n = r / K, k = r % K;
        const float s = gate(h + n * C, w + k * G, G),
                    e = row_dot<V>(dy + r * D, ve + ((int64_t)idx[n] * K + k) * D, D);
        if (threadIdx.x % WARP == 0) {
            g[r] = 3 * s;
            da[r] = 3 * s * (1 - s) * e;
        }
    }
}
/* dh[n][i] += sum over k of da[n][k] w[k][i], i < G */
static __global__ void gate_dh(Act *dh, const real *da, const real *w, int N, int C, int K, int G)
{
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < (int64_t)N * G;
         i += (int64_t)gridDim.x * THREADS) {
        const int64_t n = i / G, c = i % G;
        float s = 0;
        for (int k = 0; k < K; k++) s += da[n * K + k] * w[k * G + c];
        aput(dh + n * C + c, aget(dh + n * C + c) + s);
    }
}
/* part[chunk][k][i] = sum over the chunk's rows of da[n][k] h[n][i]; and, with e, [chunk][K G] = sum
 * of e[n]. A part has P elements. */
static __global__ void gate_dw(float *part, const real *da, const real *e, const Act *h, int N, int C,
                               int K, int G, int P)
{
    const int64_t at = (int64_t)blockIdx.x * ROWS, end = cu_min(N, at + ROWS);
    for (int i = threadIdx.x; i < P; i += THREADS) {
        float s = 0;
        for (int64_t n = at; n < end; n++)
            s += i < K * G ? da[n * K + i / G] * aget(h + n * C + i % G) : e[n];
        part[blockIdx.x * (int64_t)P + i] = s;
    }
}
void CU(vgate)(Act *y, const Act *v, const Act *ve, const int *idx, const Act *h, const real *w,
               int N, int C, int K, int D, int G)
{
    const int64_t heads = (int64_t)N * K;
    RUN(cu_wide(y, D) && cu_wide(v, D) && cu_wide(ve, D), heads, vgate, y, v, ve, idx, h, w, heads,
        C, K, D, G);
}
void CU(vgate_bwd)(Act *dv, Store dve, Act *dh, real *dw, const Act *dy, const Act *ve,
                   const int *idx, const Act *h, const real *w, int N, int C, int K, int D, int G,
                   int V)
{
    const int64_t heads = (int64_t)N * K, chunks = div_up(N, ROWS), P = (int64_t)K * G;
    if (heads <= 0) return;
    real *g = (real *)cuda_scratch(SLOT_OP, (size_t)heads * 2 * sizeof *g), *da = g + heads;
    if (dv) CU(add)(dv, dy, heads * D);
    RUN(cu_wide(dy, D) && cu_wide(ve, D), heads, vgate_grad, g, da, dy, ve, idx, h, w, heads, C, K,
        D, G);
    if (dh)
        LAUNCH(gate_dh, cu_grid((int64_t)N * G, THREADS), THREADS, 0, cuda_stream, dh, da, w, N, C,
               K, G);
    if (dw) {
        float *part = (float *)cuda_scratch(SLOT_PARTS, (size_t)(chunks * P) * sizeof *part);
        LAUNCH(gate_dw, (unsigned)chunks, THREADS, 0, cuda_stream, part, da, (const real *)NULL, h,
               N, C, K, G, (int)P);
        cuda_add_parts(dw, part, chunks, P, P, 1);
    }
    if (store_some(dve)) add_rows(dve, dy, g, idx, N, K * D, D, V);
}

/* ---- smear: a row is a token */

/* has token n, t-th of its row, none before it in its document? */
INLINE bool is_first(const int *doc, int64_t n, int64_t t) { return t == 0 || (doc && doc[n] == t); }

template <int V>
static __global__ void smear(Act *y, const Act *x, const Act *prev, const int *pos, const int *doc,
                             const real *w, const real *lam, int64_t N, int T, int C, int G)
{
    EACH_ROW(n, N) {
        const int64_t t = n % T;
        const Act *p = x + n * C, *q = NULL;
        if (t > 0 && !is_first(doc, n, t)) q = p - C;
        if (t == 0 && pos && pos[n / T] > 0) q = prev + n / T * C;
        const float g = gate(p, w, G) * *lam;
        EACH_GROUP(c, C) {
            float a[V], b[V];
            aload<V>(a, p + c);
            if (q) {
                aload<V>(b, q + c);
                UNROLL for (int j = 0; j < V; j++) a[j] += g * b[j];
            }
            astore<V>(y + n * C + c, a);
        }
    }
}
/* s = sigmoid(w . x[t]), e = dy[t] . x[t-1]: da = lam s (1-s) e, se = s e; all 0 without a
 * predecessor */
template <int V>
static __global__ void smear_grad(real *s, real *da, real *se, const Act *dy, const Act *x,
                                  const int *doc, const real *w, const real *lam, int64_t N, int T,
                                  int C, int G)
{
    EACH_ROW(n, N) {
        const bool first = is_first(doc, n, n % T);
        const float g = first ? 0 : gate(x + n * C, w, G),
                    e = first ? 0 : row_dot<V>(dy + n * C, x + (n - 1) * C, C);
        if (threadIdx.x % WARP == 0) {
            s[n] = g;
            da[n] = *lam * g * (1 - g) * e;
            se[n] = g * e;
        }
    }
}
/* dx[t] += dy[t] + da w + lam s[t+1] dy[t+1] */
template <int V>
static __global__ void smear_dx(Act *dx, const Act *dy, const real *s, const real *da,
                                const int *doc, const real *w, const real *lam, int64_t N, int T,
                                int C, int G)
{
    EACH_ROW(n, N) {
        const bool next = n + 1 < N && !is_first(doc, n + 1, (n + 1) % T);
        const float g = next ? *lam * s[n + 1] : 0;
        EACH_GROUP(c, C) {
            float a[V], b[V];
            aload<V>(a, dx + n * C + c);
            aload<V>(b, dy + n * C + c);
            UNROLL for (int j = 0; j < V; j++) a[j] += b[j];
            if (next) {
                aload<V>(b, dy + (n + 1) * C + c);
                UNROLL for (int j = 0; j < V; j++) a[j] += g * b[j];
            }
            UNROLL for (int j = 0; j < V; j++) if (c + j < G) a[j] += da[n] * w[c + j];
            astore<V>(dx + n * C + c, a);
        }
    }
}
void CU(smear)(Act *y, const Act *x, const Act *prev, const int *pos, const int *doc,
               const real *w, const real *lam, int B, int T, int C, int G)
{
    const int64_t N = (int64_t)B * T;
    RUN(cu_wide(y, C) && cu_wide(x, C) && cu_wide(prev, C), N, smear, y, x, prev, pos, doc, w, lam,
        N, T, C, G);
}
void CU(smear_bwd)(Act *dx, real *dw, real *dlam, const Act *dy, const Act *x, const int *doc,
                   const real *w, const real *lam, int B, int T, int C, int G)
{
    const int64_t N = (int64_t)B * T, chunks = div_up(N, ROWS), P = G + 1;
    if (N <= 0) return;
    real *s = (real *)cuda_scratch(SLOT_OP, (size_t)N * 3 * sizeof *s), *da = s + N, *se = da + N;
    RUN(cu_wide(dy, C) && cu_wide(x, C), N, smear_grad, s, da, se, dy, x, doc, w, lam, N, T, C, G);
    float *part = (float *)cuda_scratch(SLOT_PARTS, (size_t)(chunks * P) * sizeof *part);
    LAUNCH(gate_dw, (unsigned)chunks, THREADS, 0, cuda_stream, part, da, se, x, (int)N, C, 1, G,
           (int)P);
    if (dw) cuda_add_parts(dw, part, chunks, G, P, 1);
    if (dlam) cuda_add_parts(dlam, part + G, chunks, 1, P, 1);
    if (dx)
        RUN(cu_wide(dx, C) && cu_wide(dy, C), N, smear_dx, dx, dy, s, da, doc, w, lam, N, T, C, G);
}
