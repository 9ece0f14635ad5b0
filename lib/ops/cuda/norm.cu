/* norm.cu -- rmsnorm, also of a mix, gain, and rope with the head norm. A row (or a head) is read twice,
 * the second time from the cache. */
#include "ops/cuda/mix.h"
#include "ops/cuda/rows.h"
#include "ops/cuda/sum.h"

/* y = r x, with r of the row's sum of squares, which this lane has a part of */
template <int V>
INLINE void normalise(Act *y, real *rstd, const Act *x, float part, int64_t n, int C, real eps)
{
    const float r = 1 / sqrtf(warp_sum(part) / (float)C + eps);
    if (rstd && threadIdx.x % WARP == 0) rstd[n] = r;
    EACH_GROUP(c, C) {
        float t[V];
        aload<V>(t, x + n * C + c);
        UNROLL for (int j = 0; j < V; j++) t[j] *= r;
        astore<V>(y + n * C + c, t);
    }
}
template <int V>
static __global__ void rmsnorm(Act *y, real *rstd, const Act *x, int N, int C, real eps)
{
    EACH_ROW(n, N) {
        float s = 0;
        EACH_GROUP(c, C) {
            float t[V];
            aload<V>(t, x + n * C + c);
            UNROLL for (int j = 0; j < V; j++) s += t[j] * t[j];
        }
        normalise<V>(y, rstd, x, s, n, C, eps);
    }
}
/* dx += r (dy - y (y . dy) / C) */
template <int V>
static __global__ void rmsnorm_bwd(Act *dx, const Act *dy, const Act *y, const real *rstd, int N,
                                   int C)
{
    EACH_ROW(n, N) {
        const int64_t o = n * C;
        const float a = rstd[n], b = row_dot<V>(y + o, dy + o, C) * a / (float)C;
        EACH_GROUP(c, C) {
            float t[V], d[V], g[V];
            aload<V>(t, y + o + c);
            aload<V>(d, dy + o + c);
            aload<V>(g, dx + o + c);
            UNROLL for (int j = 0; j < V; j++) g[j] += a * d[j] - b * t[j];
            astore<V>(dx + o + c, g);
        }
    }
}
void CU(rmsnorm)(Act *y, real *rstd, const Act *x, int N, int C, real eps)
{
    RUN(cu_wide(y, C) && cu_wide(x, C), N, rmsnorm, y, rstd, x, N, C, eps);
}
void CU(rmsnorm_bwd)(Act *dx, const Act *dy, const Act *y, const real *rstd, int N, int C)
{
    if (!dx) return;
    RUN(cu_wide(dx, C) && cu_wide(dy, C) && cu_wide(y, C), N, rmsnorm_bwd, dx, dy, y, rstd, N, C);
}

/* ---- the norm of a mix */

template <int V>
static __global__ void mix_norm(Act *u, Act *y, real *rstd, const Act *x, const real *a,
                                const Act *z, const real *b, real s, int N, int C, real eps)
{
    const float p = a ? *a : 1, q = s * (b ? *b : 1);
    EACH_ROW(n, N) {
        const int64_t o = n * C;
        float sum = 0;
        EACH_GROUP(c, C) {
            float t[V], w[V];
            aload<V>(t, x + o + c);
            aload<V>(w, z + o + c);
            UNROLL for (int j = 0; j < V; j++) {
                t[j] = around(p * t[j] + q * w[j]);
                sum += t[j] * t[j];
            }
            astore<V>(u + o + c, t);
        }
        normalise<V>(y, rstd, u, sum, n, C, eps);
    }
}
/* d = g + r (dy - y (y . dy) / C), which g becomes, and mix's backward of it; a block leaves d . x and
 * d . z of its rows in part [blocks,2] */
template <int V>
static __global__ void mix_norm_bwd(MixBack m, float *part, Act *g, const Act *dy, const Act *y,
                                    const real *rstd, int N, int C)
{
    SHARED(float, sum_x, WARPS);
    SHARED(float, sum_z, WARPS);
    const float p = m.a ? *m.a : 1, q = m.s * (m.b ? *m.b : 1);
    float sx = 0, sz = 0;
    EACH_ROW(n, N) {
        const int64_t o = n * C;
        const float r = rstd[n], f = row_dot<V>(y + o, dy + o, C) * r / (float)C;
        EACH_GROUP(c, C) {
            float t[V], e[V], d[V];
            aload<V>(t, y + o + c);
            aload<V>(e, dy + o + c);
            aload<V>(d, g + o + c);
            UNROLL for (int j = 0; j < V; j++) d[j] = around(d[j] + (r * e[j] - f * t[j]));
            if (g != m.dx) astore<V>(g + o + c, d);
            mix_back<V>(m, d, o + c, p, q, &sx, &sz);
        }
    }
    mix_parts(part, sx, sz, sum_x, sum_z);
}
void CU(mix_norm)(Act *u, Act *y, real *rstd, const Act *x, const real *a, const Act *z,
                  const real *b, real s, int N, int C, real eps)
{
    RUN(cu_wide(u, C) && cu_wide(y, C) && cu_wide(x, C) && cu_wide(z, C), N, mix_norm, u, y, rstd,
        x, a, z, b, s, N, C, eps);
}
void CU(mix_norm_bwd)(Act *dx, real *da, Act *dz, real *db, Act *g, const Act *dy, const Act *y,
                      const real *rstd, const Act *x, const real *a, const Act *z, const real *b,
                      real s, int N, int C, int beta)
{
    if (N <= 0) return;
    const int64_t blocks = cu_grid(N, WARPS);
    float *part = da || db ? (float *)cuda_scratch(SLOT_PARTS, (size_t)blocks * 2 * sizeof *part)
                           : NULL;
    const MixBack m = { dx, dz, da ? x : NULL, db ? z : NULL, a, b, s, beta };
    RUN(mix_wide(m, C) && cu_wide(g, C) && cu_wide(dy, C) && cu_wide(y, C), N, mix_norm_bwd, m,
        part, g, dy, y, rstd, N, C);
    if (da) cuda_add_parts(da, part, blocks, 1, 2, 1);
    if (db) cuda_add_parts(db, part + 1, blocks, 1, 2, s);
}

template <int V> static __global__ void gain(Act *y, const Act *x, const real *g, int N, int C)
{
    EACH_ROW(n, N)
        EACH_GROUP(c, C) {
            float t[V], f[V];
            aload<V>(t, x + n * C + c);
            rload<V>(f, g + c);
            UNROLL for (int j = 0; j < V; j++) t[j] *= f[j];
            astore<V>(y + n * C + c, t);
        }
}
/* A thread has V columns of a chunk of rows: dx, and the chunk's part of dg, part [chunks,C]. */
enum { GAIN_ROWS = 64, GAIN_THREADS = 128 };
template <int V>
static __global__ void gain_bwd(Act *dx, float *part, const Act *dy, const Act *x, const real *g,
                                int N, int C)
{
    const int64_t c = ((int64_t)blockIdx.y * GAIN_THREADS + threadIdx.x) * V;
    if (c >= C) return;
    float f[V], s[V];
    rload<V>(f, g + c);
    UNROLL for (int j = 0; j < V; j++) s[j] = 0;
    const int64_t end = cu_min(N, (blockIdx.x + (int64_t)1) * GAIN_ROWS);
    for (int64_t n = (int64_t)blockIdx.x * GAIN_ROWS; n < end; n++) {
        float d[V], t[V];
        aload<V>(d, dy + n * C + c);
        if (part) {
            aload<V>(t, x + n * C + c);
            UNROLL for (int j = 0; j < V; j++) s[j] += d[j] * t[j];
        }
        if (dx) {
            aload<V>(t, dx + n * C + c);
            UNROLL for (int j = 0; j < V; j++) t[j] += f[j] * d[j];
            astore<V>(dx + n * C + c, t);
        }
    }
    if (part) rstore<V>(part + (int64_t)blockIdx.x * C + c, s);
}
void CU(gain)(Act *y, const Act *x, const real *g, int N, int C)
{
    RUN(cu_wide(y, C) && cu_wide(x, C) && cu_wide(g, C), N, gain, y, x, g, N, C);
}
void CU(gain_bwd)(Act *dx, real *dg, const Act *dy, const Act *x, const real *g, int N, int C)
{
    if (N <= 0) return;
    const int64_t chunks = div_up(N, GAIN_ROWS);
    float *part = dg ? (float *)cuda_scratch(SLOT_PARTS, (size_t)(chunks * C) * sizeof *part) : NULL;
    const int wide = cu_wide(dx, C) && cu_wide(dy, C) && cu_wide(x, C) && cu_wide(g, C);
    auto k = wide ? gain_bwd<VW> : gain_bwd<1>;
    const dim3 grid((unsigned)chunks, (unsigned)div_up(C, GAIN_THREADS * (wide ? VW : 1)));
    LAUNCH(k, grid, GAIN_THREADS, 0, cuda_stream, dx, part, dy, x, g, N, C);
    if (dg) cuda_add_parts(dg, part, chunks, C, C, 1);
}

/* ---- rope: x [N,H,D], a warp has a head; lane j the elements j and D/2 + j, and every 32nd after */

/* the position that token n, t-th of its row, is turned by */
INLINE int64_t position(const int *pos, const int *doc, int64_t n, int T)
{
    return n % T + (pos ? pos[n / T] : 0) - (doc ? doc[n] : 0);
}
INLINE void turn(float *y1, float *y2, const Act *x, const real *tab, int j, int half, int sign)
{
    const float x1 = aget(x + j), x2 = aget(x + half + j), c = tab[2 * j],
                s = sign < 0 ? -tab[2 * j + 1] : tab[2 * j + 1];
    *y1 = x1 * c + x2 * s;
    *y2 = x2 * c - x1 * s;
}
static __global__ void rope(Act *y, real *rstd, const Act *x, const real *tab, const int *pos,
                            const int *doc, int64_t heads, int T, int H, int D, int sign,
                            real scale, real eps)
{
    const int half = D / 2, lane = threadIdx.x % WARP;
    EACH_ROW(h, heads) {
        const real *angle = tab + position(pos, doc, h / H, T) * D;
        const Act *p = x + h * D;
        Act *q = y + h * D;
        float f = 1, y1, y2;
        if (scale > 0) {
            float s = 0;
            for (int j = lane; j < half; j += WARP) {
                turn(&y1, &y2, p, angle, j, half, sign);
                s += y1 * y1 + y2 * y2;
            }
            const float r = 1 / sqrtf(warp_sum(s) / (float)D + eps);
            if (rstd && lane == 0) rstd[h] = r;
            f = scale * r;
        }
        for (int j = lane; j < half; j += WARP) {
            turn(&y1, &y2, p, angle, j, half, sign);
            aput(q + j, f * y1);
            aput(q + half + j, f * y2);
        }
    }
}
/* With u = the rotated x, r = rstd and y = scale r u: du = scale r dy - y (y . dy) r / (scale D),
 * dx = beta dx + rotation back of du. */
static __global__ void rope_bwd(Act *dx, const Act *dy, const Act *y, const real *rstd,
                                const real *tab, const int *doc, int64_t heads, int T, int H, int D,
                                int sign, real scale, int beta)
{
    const int half = D / 2, lane = threadIdx.x % WARP;
    EACH_ROW(h, heads) {
        const real *angle = tab + position(NULL, doc, h / H, T) * D;
        const Act *u = y + h * D, *g = dy + h * D;
        Act *d = dx + h * D;
        float a = 1, b = 0;
        if (scale > 0) {
            float s = 0;
            for (int j = lane; j < D; j += WARP) s += aget(u + j) * aget(g + j);
            a = scale * rstd[h];
            b = warp_sum(s) * rstd[h] / (scale * (float)D);
        }
        for (int j = lane; j < half; j += WARP) {
            const float c = angle[2 * j], s = sign < 0 ? -angle[2 * j + 1] : angle[2 * j + 1];
            float d1 = a * aget(g + j), d2 = a * aget(g + half + j);
            if (scale > 0) {
                d1 -= b * aget(u + j);
                d2 -= b * aget(u + half + j);
            }
            float e1 = d1 * c - d2 * s, e2 = d2 * c + d1 * s;
            if (beta) {
                e1 += aget(d + j);
                e2 += aget(d + half + j);
            }
            aput(d + j, e1);
            aput(d + half + j, e2);
        }
    }
}
void CU(rope)(Act *y, real *rstd, const Act *x, const real *tab, const int *pos, const int *doc,
              int B, int T, int H, int D, int sign, real scale, real eps)
{
    const int64_t heads = (int64_t)B * T * H;
    if (heads <= 0) return;
    LAUNCH(rope, cu_grid(heads, WARPS), THREADS, 0, cuda_stream, y, rstd, x, tab, pos, doc,
           heads, T, H, D, sign, scale, eps);
}
void CU(rope_bwd)(Act *dx, const Act *dy, const Act *y, const real *rstd, const real *tab,
                  const int *doc, int B, int T, int H, int D, int sign, real scale, int beta)
{
    const int64_t heads = (int64_t)B * T * H;
    if (!dx || heads <= 0) return;
    LAUNCH(rope_bwd, cu_grid(heads, WARPS), THREADS, 0, cuda_stream, dx, dy, y, rstd, tab, doc,
           heads, T, H, D, sign, scale, beta);
}
