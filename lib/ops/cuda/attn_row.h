/* attn_row.h -- attention a row at a time, by a warp: the keys of a query, or the queries of a key, 32
 * at a time; each lane computes one score, then each its channels of the sums. What a row does not see
 * is not read. attn_plain.cu has nothing else; the kernels on tensor cores do with it once more what
 * came out as NaN: a product of tiles multiplies what is not seen by 0, and 0 times the NaN or the
 * infinity of another row is NaN.
 *
 * `room` is shared memory of the warp alone, of the floats that ROW_ROOM says. DROP 1: with dropout.
 */
#ifndef OPS_CUDA_ATTN_ROW_H
#define OPS_CUDA_ATTN_ROW_H
#include "ops/cuda/attn.h"

#define ROW_ROOM_FWD(D) (2 * (D) + 32)
#define ROW_ROOM_DQ(D) (3 * (D) + 32)
#define ROW_ROOM_DKDV(D) (4 * (D) + 64)

INLINE bool not_finite(float x) { return !(fabsf(x) <= 3.4028235e38f); }

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

/* y[n]; lse or NULL. f: log2(e) / sqrt(D) */
template <int DROP>
INLINE void row_fwd(Act *y, float *lse, const Act *q, const Act *k, const Act *v, const AttnShape &a,
                    float f, int64_t n, float *room)
{
    float *sq = room, *so = sq + a.D, *p = so + a.D;
    const int64_t lk = (int64_t)a.K * a.D;
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

/* What the backward kernels know of query (b, t, h), at b sb + t st + h sh: its lse, times `unit` in
 * log 2, and dy . y. */
typedef struct Stats { const float *lse, *dot; float unit; int64_t sb, st, sh; } Stats;

/* dq[n] += ... f: 1 / sqrt(D) */
template <int DROP>
INLINE void row_dq(Act *dq, const AttnGrads &g, const Stats &stats, const AttnShape &a, float f,
                   int64_t n, float *room)
{
    float *sq = room, *sd = sq + a.D, *so = sd + a.D, *ds = so + a.D;
    const int64_t lk = (int64_t)a.K * a.D;
    const Query x = query_at(a, n);
    const int64_t at = x.b * stats.sb + x.t * stats.st + x.h * stats.sh;
    const float l = stats.lse[at] * stats.unit, e = stats.dot[at];
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
    give(dq + n * a.D, so, f, a.D);
}
/* dk[n], dv[n] += ... of key n of [B,T,K], either of which may be NULL: all queries of its group from
 * its own position to the last that sees it do. */
template <int DROP>
INLINE void row_dkdv(Act *dk, Act *dv, const AttnGrads &g, const Stats &stats, const AttnShape &a,
                     float f, int64_t n, float *room)
{
    float *sk = room, *sv = sk + a.D, *ak = sv + a.D, *av = ak + a.D, *p = av + a.D, *ds = p + 32;
    const int64_t lq = (int64_t)a.H * a.D;
    const int hk = n % a.K, j = n / a.K % a.T, b = n / a.K / a.T, group = a.H / a.K;
    const int end = last_query(a, b, j + 1), i = lane_of_warp();
    keep(sk, g.k + n * a.D, a.D);
    keep(sv, g.v + n * a.D, a.D);
    keep_zeros(ak, a.D);
    keep_zeros(av, a.D);
    __syncwarp();
    for (int h = hk * group; h < (hk + 1) * group; h++)
        for (int t0 = j; t0 < end; t0 += 32) {
            const int64_t m = ((int64_t)b * a.T + t0) * a.H + h;
            if (t0 + i < end) {
                const int64_t of = (m + (int64_t)i * a.H) * a.D,
                              at = b * stats.sb + (t0 + i) * stats.st + h * stats.sh;
                p[i] = exp2f(f * ATTN_LOG2E * dot(sk, g.q + of, a.D) - stats.lse[at] * stats.unit);
                const float by = DROP ? drop_by(a.drop, drop_row(a, b, h, t0 + i) + j) : 1;
                ds[i] = p[i] * (by * dot(sv, g.dy + of, a.D) - stats.dot[at]);
                p[i] *= by;
            }
            __syncwarp();
            add_up(av, 1, p, g.dy + m * a.D, lq, imin(32, end - t0), a.D);
            add_up(ak, 1, ds, g.q + m * a.D, lq, imin(32, end - t0), a.D);
            __syncwarp();
        }
    if (dk) give(dk + n * a.D, ak, f, a.D);
    if (dv) give(dv + n * a.D, av, 1, a.D);
}
#endif
