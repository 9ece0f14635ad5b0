/* attn_bwd.cu -- attention backward on tensor cores: p = exp(s - lse), ds = p (dy v^T - dy . y);
 * dv += p^T dy, dk += ds^T q / sqrt(D), dq += ds k / sqrt(D).
 *
 * A first kernel computes dy . y. One kernel takes 64 keys of a k/v head through all queries of its
 * group that see them (dk, dv), another 64 queries through their keys (dq): 7 products where 5
 * would do, but no two blocks add to the same number, so that there are no atomics and the order of
 * sums is fixed. In both the next tile is fetched into the other of two buffers while this one is
 * computed with; one barrier a tile serves for both.
 */
#ifdef ACT_BF16
#include "ops/cuda/attn_tile.h"

/* What a query brings along; queries past the end (T to Tp, whole tiles) see nothing. */
struct alignas(16) Stat { float lse, dot; int lo, unused; };   /* lse in log 2; dy . y; first key */
enum { KEYS = 64, TP = 64 };            /* keys or queries of a block; T is padded to tiles of TP */

INLINE float low(uint32_t pair) { return bf16_float((uint16_t)pair); }
INLINE float high(uint32_t pair) { return bf16_float((uint16_t)(pair >> 16)); }

/* stat [B,H,Tp]: a warp each */
template <int D>
static __global__ void attn_stat(Stat *stat, const Bf16 *y, const Bf16 *dy, const float *lse,
                                 AttnShape a, int Tp)
{
    const int64_t n = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    const int lane = threadIdx.x & 31, h = n % a.H, t = n / a.H % Tp;
    const int64_t b = n / a.H / Tp;
    if (b >= a.B) return;
    float s = 0;
    const int64_t from = (b * a.T + t) * a.H + h;
    if (t < a.T)
        for (int i = lane; i < D / 2; i += 32) {
            const uint32_t u = ((const uint32_t *)(y + from * D))[i],
                           v = ((const uint32_t *)(dy + from * D))[i];
            s += low(u) * low(v) + high(u) * high(v);
        }
    s = warp_sum(s);
    if (lane) return;
    Stat z = { 0, s, INT32_MAX, 0 };
    if (t < a.T) z.lse = lse[from] * ATTN_LOG2E, z.lo = first_key(a, (int)b, t, t);
    stat[(b * a.H + h) * Tp + t] = z;
}

template <int D> INLINE void clear(float (*c)[4])
{
    UNROLL for (int d = 0; d < D / 8; d++)
        UNROLL for (int j = 0; j < 4; j++) c[d][j] = 0;
}
/* two neighbouring results of a row, added to what is there */
INLINE void add_pair(Bf16 *to, float x, float y)
{
    const uint32_t old = *(const uint32_t *)to;
    *(uint32_t *)to = bf16_pair(low(old) + x, high(old) + y);
}
/* dx[rows][D], rows `stride` apart, += f c, but for those in `not_these`: 16 rows of which this lane
 * holds two */
template <int D>
INLINE void add_out(Bf16 *dx, int64_t stride, const float (*c)[4], float f, int rows,
                    unsigned not_these, Lane at)
{
    UNROLL for (int r = 0; r < 2; r++) {
        const int n = r * 8 + at.row;
        if (n >= rows || not_these >> r & 1) continue;
        UNROLL for (int d = 0; d < D / 8; d++)
            add_pair(dx + n * stride + d * 8 + at.col, f * c[d][2 * r], f * c[d][2 * r + 1]);
    }
}

INLINE Stats stats_of(const Stat *stat, const AttnShape &a, int Tp)
{
    return { &stat->lse, &stat->dot, 1, (int64_t)a.H * Tp * 4, 4, (int64_t)Tp * 4 };
}
/* Has this lane's part of a row of a tile a NaN or an infinity in it? */
template <int D> INLINE bool odd_in_tile(const Bf16 *row, Lane at)
{
    uint32_t any = 0;
    UNROLL for (int d = 0; d < D / 8; d++) {
        const uint32_t u = *(const uint32_t *)(row + d * 8 + at.col);
        any |= (u & 0x7f80) == 0x7f80 || (u & 0x7f800000) == 0x7f800000;
    }
    return any;
}

/* Tile i of a group's queries: `tiles` a head, from query t0 on. */
typedef struct Tile { int64_t query, stat; int t, rows; } Tile;
template <int M>
INLINE Tile tile_of(const AttnShape &a, int Tp, int b, int hk, int i, int tiles,
                                        int t0)
{
    const int h = hk * (a.H / a.K) + i / tiles, t = t0 + i % tiles * M;
    return { ((int64_t)b * a.T + t) * a.H + h, ((int64_t)b * a.H + h) * Tp + t, t, a.T - t };
}

/* dk, dv of 64 keys, 16 a warp; M queries at a time. f: 1 / sqrt(D). With DROP the sign of p says
 * that it is dropped: it is dropped for dv, dy v^T for ds. */
template <int D, int M, int DROP>
static __global__ void __launch_bounds__(ATTN_THREADS)
attn_dkdv(Bf16 *dk, Bf16 *dv, const Bf16 *dy, const Stat *stat, const Bf16 *q, const Bf16 *k,
          const Bf16 *v, AttnShape a, int Tp, float f)
{
    const int S = D + ATTN_PAD;
    DYN_SMEM(Bf16, sk);
    Bf16 *sv = sk + KEYS * S, *sq = sv + KEYS * S;              /* sq: q and dy, in two buffers */
    Stat *ss = (Stat *)(sq + 4 * M * S);
    const Lane at = lane_of(threadIdx.x);
    const int j0 = blockIdx.x * KEYS, hk = blockIdx.y, b = blockIdx.z;
    const int64_t lq = (int64_t)a.H * D, lk = (int64_t)a.K * D,
                  ko = ((int64_t)b * a.T + j0) * lk + hk * D;
    const int nk = imin(KEYS, a.T - j0), end = last_query(a, b, j0 + nk);
    const int tiles = (end - j0 + M - 1) / M, all_tiles = tiles * (a.H / a.K);
    fetch_two<D, KEYS>(sk, k + ko, v + ko, lk, nk);

    float ak[1][D / 8][4], av[1][D / 8][4];
    clear<D>(ak[0]);
    clear<D>(av[0]);
    const int key = j0 + at.warp * 16;          /* the warp's first */
    for (int i = -1; i < all_tiles; i++) {
        if (i >= 0) tile_is_here();             /* and all are done with the one before */
        if (i + 1 < all_tiles) {
            const Tile x = tile_of<M>(a, Tp, b, hk, i + 1, tiles, j0);
            const int odd = (i + 1) & 1;
            fetch_two<D, M>(sq + odd * 2 * M * S, q + x.query * D, dy + x.query * D, lq, x.rows);
            const int n = threadIdx.x;
            if (n < M) cp_async16(ss + odd * M + n, stat + x.stat + n, 16);
        }
        tile_is_asked_for();
        if (i < 0) continue;
        const Bf16 *tq = sq + (i & 1) * 2 * M * S, *td = tq + M * S;
        const Stat *st = ss + (i & 1) * M;
        const int t = j0 + i % tiles * M, h = hk * (a.H / a.K) + i / tiles;
        if (t + M <= key) continue;             /* the queries are before all its keys */
        const bool all = t >= key + 15 && st[M - 1].lo <= key;
        float p[1][M / 8][4], s[1][M / 8][4];
        uint32_t pp[1][M / 8][2];
        dot_rows<D, 1, M>(p, sk + at.warp * 16 * S, tq, at.lane);
        UNROLL for (int n = 0; n < M / 8; n++)
            UNROLL for (int j = 0; j < 4; j++) {
                const int c = n * 8 + at.col + (j & 1), kv = key + at.row + (j >> 1) * 8;
                const bool seen = all || (kv <= t + c && kv >= st[c].lo);
                p[0][n][j] = seen ? exp2f(p[0][n][j] * (f * ATTN_LOG2E) - st[c].lse) : 0.f;
                if (!DROP) continue;
                if (drop_number(a.drop.key, drop_row(a, b, h, t + c) + kv) < a.drop.limit)
                    p[0][n][j] = -p[0][n][j];
                s[0][n][j] = p[0][n][j] < 0 ? 0.f : p[0][n][j] * a.drop.by;
            }
        pack_pairs<1, M>(pp, DROP ? s : p);
        add_rows<D, 1, M>(av, pp, td, at.lane);
        dot_rows<D, 1, M>(s, sv + at.warp * 16 * S, td, at.lane);
        UNROLL for (int n = 0; n < M / 8; n++)
            UNROLL for (int j = 0; j < 4; j++) {
                if (DROP) s[0][n][j] = p[0][n][j] < 0 ? 0.f : s[0][n][j] * a.drop.by;
                s[0][n][j] = (DROP ? fabsf(p[0][n][j]) : p[0][n][j]) *
                             (s[0][n][j] - st[n * 8 + at.col + (j & 1)].dot);
            }
        pack_pairs<1, M>(pp, s);
        add_rows<D, 1, M>(ak, pp, tq, at.lane);
    }
    const int64_t to = ko + at.warp * 16 * lk;
    const int rows = nk - at.warp * 16;
    unsigned again = 0, hopeless = 0;           /* a NaN in k: all of dk and dv is */
    UNROLL for (int r = 0; r < 2; r++) {
        if (any_odd<D>(ak[0], r) || any_odd<D>(av[0], r)) again |= 1u << r;
        if (again && odd_in_tile<D>(sk + (at.warp * 16 + r * 8 + at.row) * S, at)) hopeless |= 1u << r;
    }
    again = of_rows(again) & ~of_rows(hopeless);
    if (dk) add_out<D>(dk + to, lk, ak[0], f, rows, again, at);
    if (dv) add_out<D>(dv + to, lk, av[0], 1, rows, again, at);
    if (!__any_sync(~0u, again)) return;
    const AttnGrads g = { NULL, dk, dv, dy, NULL, q, k, v, NULL };
    for (int n = 0; n < imin(16, rows); n++)
        if (is_set(again, n))
            row_dkdv<DROP>(dk, dv, g, stats_of(stat, a, Tp), a, f,
                           ((int64_t)b * a.T + key + n) * a.K + hk,
                           (float *)(void *)(sk + at.warp * 16 * S));
}

/* dq of 64 queries, 16 a warp; N keys at a time */
template <int D, int N, int DROP>
static __global__ void __launch_bounds__(ATTN_THREADS)
attn_dq(Bf16 *dq, const Bf16 *dy, const Stat *stat, const Bf16 *q, const Bf16 *k, const Bf16 *v,
        AttnShape a, int Tp, float f)
{
    const int S = D + ATTN_PAD;
    DYN_SMEM(Bf16, sq);
    Bf16 *sd = sq + TP * S, *sk = sd + TP * S;                  /* sk: k and v, in two buffers */
    const Lane at = lane_of(threadIdx.x);
    const int t0 = (gridDim.x - 1 - blockIdx.x) * TP, h = blockIdx.y, b = blockIdx.z;
    const int rows = imin(TP, a.T - t0), end = t0 + rows;
    const int64_t lq = (int64_t)a.H * D, lk = (int64_t)a.K * D;
    const int64_t qo = ((int64_t)b * a.T + t0) * lq + h * D,
                  ko = (int64_t)b * a.T * lk + h / (a.H / a.K) * D;
    const int t = t0 + at.warp * 16;            /* the warp's first query */
    const Stat *row = stat + ((int64_t)b * a.H + h) * Tp + t,
               x[2] = { row[at.row], row[at.row + 8] };
    const int lo_first = row[0].lo, lo_last = row[15].lo;
    const int first = first_key(a, b, t0, t0) / N * N;
    fetch_two<D, TP>(sq, q + qo, dy + qo, lq, rows);

    float dx[1][D / 8][4];
    clear<D>(dx[0]);
    for (int j0 = first - N; j0 < end; j0 += N) {
        if (j0 >= first) tile_is_here();
        if (j0 + N < end)
            fetch_two<D, N>(sk + ((j0 + N) / N & 1) * 2 * N * S, k + ko + (j0 + N) * lk,
                            v + ko + (j0 + N) * lk, lk, end - j0 - N);
        tile_is_asked_for();
        if (j0 < first || j0 > t + 15 || j0 + N <= lo_first) continue;
        const Bf16 *tk = sk + (j0 / N & 1) * 2 * N * S, *tv = tk + N * S;
        const bool all = j0 + N <= t + 1 && j0 >= lo_last;
        float s[1][N / 8][4], dp[1][N / 8][4];
        uint32_t pp[1][N / 8][2];
        dot_rows<D, 1, N>(s, sq + at.warp * 16 * S, tk, at.lane);
        dot_rows<D, 1, N>(dp, sd + at.warp * 16 * S, tv, at.lane);
        UNROLL for (int n = 0; n < N / 8; n++)
            UNROLL for (int j = 0; j < 4; j++) {
                const int kv = j0 + n * 8 + at.col + (j & 1), r = j >> 1;
                const bool seen = all || (kv <= t + at.row + r * 8 && kv >= x[r].lo);
                if (DROP)
                    dp[0][n][j] *= drop_by(a.drop, drop_row(a, b, h, t + at.row + r * 8) + kv);
                s[0][n][j] = seen ? exp2f(s[0][n][j] * (f * ATTN_LOG2E) - x[r].lse) *
                                        (dp[0][n][j] - x[r].dot) : 0.f;
            }
        pack_pairs<1, N>(pp, s);
        add_rows<D, 1, N>(dx, pp, tk, at.lane);
    }
    unsigned again = 0;
    UNROLL for (int r = 0; r < 2; r++)
        if (any_odd<D>(dx[0], r) && !not_finite(x[r].lse) && !not_finite(x[r].dot)) again |= 1u << r;
    again = of_rows(again);
    add_out<D>(dq + qo + at.warp * 16 * lq, lq, dx[0], f, rows - at.warp * 16, again, at);
    if (!__any_sync(~0u, again)) return;
    const AttnGrads g = { dq, NULL, NULL, dy, NULL, q, k, v, NULL };
    for (int n = 0; n < imin(16, rows - at.warp * 16); n++)
        if (is_set(again, n))
            row_dq<DROP>(dq, g, stats_of(stat, a, Tp), a, f, ((int64_t)b * a.T + t + n) * a.H + h,
                         (float *)(void *)(sq + at.warp * 16 * S));
}

static int padded(int T) { return (T + TP - 1) / TP * TP; }

template <int D, int M, int DROP> static void launch(AttnGrads g, AttnShape a, Stat *stat)
{
    const int Tp = padded(a.T), tiles = Tp / TP;
    const int64_t warps = (int64_t)a.B * a.H * Tp;
    constexpr size_t smem = (size_t)(2 * 64 + 4 * M) * (D + ATTN_PAD) * sizeof(Bf16);
    static_assert(smem + 2 * M * sizeof(Stat) <= CU_SHARED_MAX, "too much for sm_86, 89 and 120");
    const float f = 1 / sqrtf((float)D);
    auto dot = attn_stat<D>;
    auto dkdv = attn_dkdv<D, M, DROP>;
    auto dq = attn_dq<D, M, DROP>;
    LAUNCH(dot, (unsigned)div_up(warps, 4), 128, 0, cuda_stream, stat, g.y, g.dy, g.lse, a, Tp);
    if (g.dk || g.dv)
        LAUNCH(dkdv, dim3(tiles, a.K, a.B), ATTN_THREADS, smem + 2 * M * sizeof(Stat), cuda_stream,
               g.dk, g.dv, g.dy, stat, g.q, g.k, g.v, a, Tp, f);
    if (g.dq)
        LAUNCH(dq, dim3(tiles, a.H, a.B), ATTN_THREADS, smem, cuda_stream, g.dq, g.dy, stat, g.q,
               g.k, g.v, a, Tp, f);
}
template <int D, int M> static void launch(AttnGrads g, AttnShape a, void *stat)
{
    if (a.drop.by > 0) launch<D, M, 1>(g, a, (Stat *)stat);
    else launch<D, M, 0>(g, a, (Stat *)stat);
}
size_t cuda_attn_bwd_tmp(AttnShape a)
{
    return (size_t)a.B * a.H * padded(a.T) * sizeof(Stat);
}
void cuda_attn_bwd(AttnGrads g, AttnShape a, void *tmp)
{
    switch (a.D) {
    case 32: launch<32, 64>(g, a, tmp); break;
    case 64: launch<64, 64>(g, a, tmp); break;
    case 96: launch<96, 32>(g, a, tmp); break;
    case 128: launch<128, 32>(g, a, tmp); break;
    }
}
#endif
