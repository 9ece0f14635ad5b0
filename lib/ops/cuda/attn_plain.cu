/* attn_plain.cu -- attention for what tensor cores do not take: fp32, and other head sizes. A warp
 * works on one row alone, a query or (dk, dv) a key, and goes through what belongs to it 32 at a
 * time: each lane computes one score, then each its channels of the sums. Formulas as in
 * attn_fwd.cu, attn_bwd.cu; DROP 1: with dropout.
 */
#include "ops/cuda/attn.h"

/* a warp's number in the grid, a lane's in its warp */
INLINE int64_t warp_of_grid()
{
    return (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
}
INLINE int lane_of_warp() { return threadIdx.x & 31; }

/* to[D] = x[D] */
INLINE void keep(float *to, const Act *x, int D)
{
    for (int d = lane_of_warp(); d < D; d += 32) to[d] = aget(x + d);
}
INLINE void keep_zeros(float *to, int D)
{
    for (int d = lane_of_warp(); d < D; d += 32) to[d] = 0;
}
/* a . x, a in shared memory */
INLINE float dot(const float *a, const Act *x, int D)
{
    float s = 0;
    for (int d = 0; d < D; d++) s += a[d] * aget(x + d);
    return s;
}
/* o = c o + the sum over i < n of p[i] x[i], rows of x `stride` apart */
INLINE void add_up(float *o, float c, const float *p, const Act *x, int64_t stride, int n, int D)
{
    for (int d = lane_of_warp(); d < D; d += 32) {
        float s = c * o[d];
        for (int i = 0; i < n; i++) s += p[i] * aget(x + i * stride + d);
        o[d] = s;
    }
}
/* dx[D] += f o */
INLINE void give(Act *dx, const float *o, float f, int D)
{
    for (int d = lane_of_warp(); d < D; d += 32) aput(dx + d, aget(dx + d) + f * o[d]);
}

/* Query n of [B,T,H]: where it is, and the first of its keys in k and v. */
typedef struct Query { int b, t, h, p; int64_t k; } Query;
INLINE Query query_at(const AttnShape &a, int64_t n)
{
    Query x;
    x.h = n % a.H;
    x.t = n / a.H % a.T;
    x.b = n / a.H / a.T;
    x.p = (a.pos ? a.pos[x.b] : 0) + x.t;
    x.k = ((int64_t)x.b * a.M * a.K + x.h / (a.H / a.K)) * a.D;
    return x;
}

/* f: log2(e) / sqrt(D) */
template <int DROP>
static __global__ void plain_fwd(Act *y, float *lse, const Act *q, const Act *k, const Act *v,
                                 AttnShape a, float f)
{
    DYN_SMEM(float, all);
    float *sq = all + threadIdx.x / 32 * (2 * a.D + 32), *so = sq + a.D, *p = so + a.D;
    const int64_t n = warp_of_grid(), lk = (int64_t)a.K * a.D;
    if (n >= (int64_t)a.B * a.T * a.H) return;
    const Query x = query_at(a, n);
    keep(sq, q + n * a.D, a.D);
    keep_zeros(so, a.D);
    __syncwarp();
    float m = ATTN_NONE, l = 0;
    for (int j0 = first_key(a, x.b, x.t, x.p); j0 <= x.p; j0 += 32) {
        const int j = j0 + lane_of_warp();
        const float s = j <= x.p ? f * dot(sq, k + x.k + j * lk, a.D) : -INFINITY;
        const float most = fmaxf(m, warp_max(s)), c = exp2f(m - most);
        m = most;
        p[lane_of_warp()] = exp2f(s - m);
        l = c * l + warp_sum(p[lane_of_warp()]);
        if (DROP) p[lane_of_warp()] *= drop_by(a.drop, drop_row(a, x.b, x.h, x.t) + j);
        __syncwarp();
        add_up(so, c, p, v + x.k + j0 * lk, lk, imin(32, x.p + 1 - j0), a.D);
        __syncwarp();
    }
    for (int d = lane_of_warp(); d < a.D; d += 32) aput(y + n * a.D + d, so[d] / l);
    if (lse && lane_of_warp() == 0) lse[n] = (m + log2f(l)) * ATTN_LN2;
}

/* dot[n] = dy . y */
static __global__ void plain_dot(float *to, const Act *y, const Act *dy, int64_t n, int D)
{
    const int64_t i = warp_of_grid();
    if (i >= n) return;
    float s = 0;
    for (int d = lane_of_warp(); d < D; d += 32) s += aget(y + i * D + d) * aget(dy + i * D + d);
    s = warp_sum(s);
    if (lane_of_warp() == 0) to[i] = s;
}
template <int DROP>
static __global__ void plain_dq(AttnGrads g, const float *dots, AttnShape a, float f)
{
    DYN_SMEM(float, all);
    float *sq = all + threadIdx.x / 32 * (3 * a.D + 32), *sd = sq + a.D, *so = sd + a.D,
          *ds = so + a.D;
    const int64_t n = warp_of_grid(), lk = (int64_t)a.K * a.D;
    if (n >= (int64_t)a.B * a.T * a.H) return;
    const Query x = query_at(a, n);
    const float l = g.lse[n] * ATTN_LOG2E, e = dots[n];
    keep(sq, g.q + n * a.D, a.D);
    keep(sd, g.dy + n * a.D, a.D);
    keep_zeros(so, a.D);
    __syncwarp();
    for (int j0 = first_key(a, x.b, x.t, x.p); j0 <= x.p; j0 += 32) {
        const int j = j0 + lane_of_warp();
        if (j <= x.p) {
            float dp = dot(sd, g.v + x.k + j * lk, a.D);
            if (DROP) dp *= drop_by(a.drop, drop_row(a, x.b, x.h, x.t) + j);
            ds[lane_of_warp()] =
                exp2f(f * ATTN_LOG2E * dot(sq, g.k + x.k + j * lk, a.D) - l) * (dp - e);
        }
        __syncwarp();
        add_up(so, 1, ds, g.k + x.k + j0 * lk, lk, imin(32, x.p + 1 - j0), a.D);
        __syncwarp();
    }
    give(g.dq + n * a.D, so, f, a.D);
}
/* A key n of [B,T,K]: all queries of its group from its own position to the last that sees it do.
 */
template <int DROP>
static __global__ void plain_dkdv(AttnGrads g, const float *dots, AttnShape a, float f)
{
    DYN_SMEM(float, all);
    float *sk = all + threadIdx.x / 32 * (4 * a.D + 64), *sv = sk + a.D, *ak = sv + a.D,
          *av = ak + a.D, *p = av + a.D, *ds = p + 32;
    const int64_t n = warp_of_grid(), lq = (int64_t)a.H * a.D;
    if (n >= (int64_t)a.B * a.T * a.K) return;
    const int hk = n % a.K, j = n / a.K % a.T, b = n / a.K / a.T, group = a.H / a.K;
    const int end = last_query(a, b, j + 1), i = lane_of_warp();
    keep(sk, g.k + n * a.D, a.D);
    keep(sv, g.v + n * a.D, a.D);
    keep_zeros(ak, a.D);
    keep_zeros(av, a.D);
    __syncwarp();
    for (int h = hk * group; h < (hk + 1) * group; h++)
        for (int t0 = j; t0 < end; t0 += 32) {
            const int64_t m = ((int64_t)b * a.T + t0) * a.H + h, at = m + (int64_t)i * a.H;
            if (t0 + i < end) {
                p[i] =
                    exp2f(f * ATTN_LOG2E * dot(sk, g.q + at * a.D, a.D) - g.lse[at] * ATTN_LOG2E);
                const float by = DROP ? drop_by(a.drop, drop_row(a, b, h, t0 + i) + j) : 1;
                ds[i] = p[i] * (by * dot(sv, g.dy + at * a.D, a.D) - dots[at]);
                p[i] *= by;
            }
            __syncwarp();
            add_up(av, 1, p, g.dy + m * a.D, lq, imin(32, end - t0), a.D);
            add_up(ak, 1, ds, g.q + m * a.D, lq, imin(32, end - t0), a.D);
            __syncwarp();
        }
    if (g.dk) give(g.dk + n * a.D, ak, f, a.D);
    if (g.dv) give(g.dv + n * a.D, av, 1, a.D);
}

/* Blocks of up to four warps, each with `arrays` of D floats and `scores` more in shared memory. */
typedef struct Shape { unsigned grid, threads; size_t smem; } Shape;
static Shape shape_of(int64_t units, int arrays, int D, int scores)
{
    const size_t room = ((size_t)arrays * D + scores) * sizeof(float);
    const int64_t warps = cu_min(4, CU_SHARED_MAX / (int64_t)room);
    if (warps < 1) cuda_check(cudaErrorInvalidValue, "attention with heads that large");
    return { (unsigned)div_up(units, warps), (unsigned)warps * 32, (size_t)warps * room };
}
#define RUN(kernel, s, ...) LAUNCH(kernel, (s).grid, (s).threads, (s).smem, cuda_stream, __VA_ARGS__)

void CU(attn_plain)(Act *y, float *lse, const Act *q, const Act *k, const Act *v, AttnShape a)
{
    auto fwd = a.drop.by > 0 ? plain_fwd<1> : plain_fwd<0>;
    const Shape s = shape_of((int64_t)a.B * a.T * a.H, 2, a.D, 32);
    RUN(fwd, s, y, lse, q, k, v, a, ATTN_LOG2E / sqrtf((float)a.D));
}
size_t CU(attn_plain_bwd_tmp)(AttnShape a) { return (size_t)a.B * a.T * a.H * sizeof(float); }
void CU(attn_plain_bwd)(AttnGrads g, AttnShape a, void *tmp)
{
    const int64_t n = (int64_t)a.B * a.T * a.H, nk = (int64_t)a.B * a.T * a.K;
    const float f = 1 / sqrtf((float)a.D);
    const Shape flat = { (unsigned)div_up(n, 4), 128, 0 }, rows = shape_of(n, 3, a.D, 32),
                keys = shape_of(nk, 4, a.D, 64);
    float *dots = (float *)tmp;
    auto dkdv = a.drop.by > 0 ? plain_dkdv<1> : plain_dkdv<0>;
    auto dq = a.drop.by > 0 ? plain_dq<1> : plain_dq<0>;
    RUN(plain_dot, flat, dots, g.y, g.dy, n, a.D);
    if (g.dk || g.dv) RUN(dkdv, keys, g, dots, a, f);
    if (g.dq) RUN(dq, rows, g, dots, a, f);
}
