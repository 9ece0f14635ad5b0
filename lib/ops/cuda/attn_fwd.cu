/* attn_fwd.cu -- attention forward on tensor cores, after FlashAttention-2 (Dao 2023): a block has
 * 64 MT queries of a head, 16 MT of them a warp, and goes through the keys N at a time. v is
 * fetched while q k^T is computed and the next k while p v is: two buffers, and two barriers a
 * tile. Only tiles that hold a key some query of the block sees are visited.
 */
#ifdef ACT_BF16
#include "ops/cuda/attn_tile.h"

/* A block's queries: t .. t + rows, at positions from p; they see keys of [first, end). */
typedef struct Queries { int b, h, t, rows, p, first, end; } Queries;
INLINE Queries queries_of(const AttnShape &a, int size)
{
    Queries x;
    x.b = blockIdx.z;
    x.h = blockIdx.y;
    x.t = (gridDim.x - 1 - blockIdx.x) * size;                  /* longest first */
    x.rows = imin(size, a.T - x.t);
    x.p = (a.pos ? a.pos[x.b] : 0) + x.t;
    x.first = first_key(a, x.b, x.t, x.p);
    x.end = x.p + x.rows;
    return x;
}

/* What soften leaves of the scores, with dropout: s[MT][N/8] of queries from t on, keys from j0. */
template <int MT, int N>
INLINE void drop_weights(float (*s)[N / 8][4], const AttnShape &a, int b, int h, int t,
                         int j0, Lane at)
{
    uint64_t row = drop_row(a, b, h, t + at.row) + j0 + at.col;
    UNROLL for (int i = 0; i < MT; i++)
        UNROLL for (int r = 0; r < 2; r++, row += 8 * (uint64_t)a.T)
            UNROLL for (int n = 0; n < N / 8; n++)
                UNROLL for (int j = 0; j < 2; j++)
                    s[i][n][2 * r + j] *= drop_by(a.drop, row + n * 8 + j);
}

template <int D, int MT, int N, int DROP>
static __global__ void __launch_bounds__(ATTN_THREADS)
attn_fwd(Bf16 *y, float *lse, const Bf16 *q, const Bf16 *k, const Bf16 *v, AttnShape a, float f)
{
    const int S = D + ATTN_PAD, R = 16 * MT;
    DYN_SMEM(Bf16, sq);
    Bf16 *sk = sq + 4 * R * S, *sv = sk + N * S;
    const Lane at = lane_of(threadIdx.x);
    const Queries x = queries_of(a, 4 * R);
    const int64_t lq = (int64_t)a.H * D, lk = (int64_t)a.K * D;
    const int64_t qo = ((int64_t)x.b * a.T + x.t) * lq + x.h * D,
                  ko = (int64_t)x.b * a.M * lk + x.h / (a.H / a.K) * D;
    int j0 = x.first / N * N;
    fetch<D, 4 * R>(sq, q + qo, lq, x.rows);
    fetch<D, N>(sk, k + ko + j0 * lk, lk, x.end - j0);
    cp_commit();

    /* rows of this warp: positions [p, p + R); the first keys of this lane's and of the last one */
    const int t = x.t + at.warp * R, p = x.p + at.warp * R, last = a.T - 1;
    int lo[MT][2];
    UNROLL for (int i = 0; i < MT; i++)
        UNROLL for (int r = 0; r < 2; r++) {
            const int n = i * 16 + r * 8 + at.row;
            lo[i][r] = first_key(a, x.b, imin(t + n, last), p + n);
        }
    const int lo_first = first_key(a, x.b, imin(t, last), p),
              lo_last = first_key(a, x.b, imin(t + R - 1, last), p + R - 1);

    Soft<D, MT> w;
    nothing_yet(w);
    for (; j0 < x.end; j0 += N) {
        const bool some = j0 < p + R && j0 + N > lo_first, all = j0 + N <= p + 1 && j0 >= lo_last;
        uint32_t pp[MT][N / 8][2];
        tile_is_here();                         /* k; all are done with the last v */
        fetch<D, N>(sv, v + ko + j0 * lk, lk, x.end - j0);
        tile_is_asked_for();
        if (some) {
            float s[MT][N / 8][4];
            dot_rows<D, MT, N>(s, sq + at.warp * R * S, sk, at.lane);
            if (!all)
                UNROLL for (int i = 0; i < MT; i++)
                    UNROLL for (int n = 0; n < N / 8; n++)
                        UNROLL for (int j = 0; j < 4; j++) {
                            const int key = j0 + n * 8 + at.col + (j & 1), r = j >> 1;
                            if (key > p + i * 16 + r * 8 + at.row || key < lo[i][r])
                                s[i][n][j] = -INFINITY;
                        }
            soften<D, MT, N>(w, s, f);
            if (DROP) drop_weights<MT, N>(s, a, x.b, x.h, t, j0, at);
            pack_pairs<MT, N>(pp, s);
        }
        tile_is_here();                         /* v; all are done with k */
        if (j0 + N < x.end) fetch<D, N>(sk, k + ko + (j0 + N) * lk, lk, x.end - j0 - N);
        tile_is_asked_for();
        if (some) add_rows<D, MT, N>(w.o, pp, sv, at.lane);
    }
    float l[MT][2];
    unsigned again = 0;
    UNROLL for (int i = 0; i < MT; i++)
        UNROLL for (int r = 0; r < 2; r++) {
            l[i][r] = row_sum(w.l[i][r]);
            if (any_odd<D>(w.o[i], r) && !not_finite(l[i][r])) again |= 1u << (2 * i + r);
        }
    again = of_rows(again);
    UNROLL for (int i = 0; i < MT; i++)
        UNROLL for (int r = 0; r < 2; r++) {
            const int n = at.warp * R + i * 16 + r * 8 + at.row;
            if (n >= x.rows) continue;
            if (lse && at.col == 0)
                lse[((int64_t)x.b * a.T + x.t + n) * a.H + x.h] =
                    (w.m[i][r] * f + log2f(l[i][r])) * ATTN_LN2;
            if (again >> (2 * i + r) & 1) continue;
            Bf16 *to = y + qo + n * lq + at.col;
            const float by = 1.f / l[i][r];
            UNROLL for (int d = 0; d < D / 8; d++) {
                const float *o = w.o[i][d] + 2 * r;
                *(uint32_t *)(to + d * 8) = bf16_pair(o[0] * by, o[1] * by);
            }
        }
    if (!__any_sync(~0u, again)) return;
    for (int n = 0; n < imin(R, x.rows - at.warp * R); n++)
        if (is_set(again, n))
            row_fwd<DROP>(y, NULL, q, k, v, a, f, ((int64_t)x.b * a.T + t + n) * a.H + x.h,
                          (float *)(void *)(sq + at.warp * R * S));
}

template <int D, int MT, int N>
static void launch(Bf16 *y, float *lse, const Bf16 *q, const Bf16 *k, const Bf16 *v, AttnShape a)
{
    constexpr size_t smem = (size_t)(64 * MT + 2 * N) * (D + ATTN_PAD) * sizeof(Bf16);
    static_assert(smem <= CU_SHARED_MAX, "too much for sm_86, 89 and 120");
    auto kernel = a.drop.by > 0 ? attn_fwd<D, MT, N, 1> : attn_fwd<D, MT, N, 0>;
    LAUNCH(kernel, dim3((unsigned)div_up(a.T, 64 * MT), a.H, a.B), ATTN_THREADS, smem, cuda_stream,
           y, lse, q, k, v, a, ATTN_LOG2E / sqrtf((float)D));
}
void cuda_attn_fwd(Act *y, float *lse, const Act *q, const Act *k, const Act *v, AttnShape a)
{
    switch (a.D) {
    case 32: launch<32, 2, 64>(y, lse, q, k, v, a); break;
    case 64: launch<64, 2, 64>(y, lse, q, k, v, a); break;
    case 96: launch<96, 2, 64>(y, lse, q, k, v, a); break;
    case 128: launch<128, 2, 64>(y, lse, q, k, v, a); break;
    }
}
#endif
