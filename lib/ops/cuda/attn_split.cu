/* attn_split.cu -- few queries against a long cache, on tensor cores: what a step of decoding does.
 * Not the queries but the keys are shared out: a block has one stretch of the cache ("split-K", Dao
 * et al. 2023, "Flash-Decoding") for 16 rows of a k/v head's group, and its 4 warps take 16 keys
 * each of every tile of 64. What the warps found is joined in the block; what the blocks found, by
 * a second kernel. Both go in order, so the sums are the same every time.
 */
#ifdef ACT_BF16
#include "ops/cuda/attn_tile.h"

enum {
    KEYS = 64,
    BLOCKS = 264,       /* wanted at least: two for each of an H100's processors */
    LEAST = 128         /* keys that are worth a block of their own */
};

static int blocks_of_rows(const AttnShape &a) { return (a.T * (a.H / a.K) + 15) / 16; }
/* By shapes alone: where the queries are is known on the device only. */
static int splits_of(const AttnShape &a)
{
    const int64_t others = (int64_t)a.B * a.K * blocks_of_rows(a);
    const int64_t want = (BLOCKS + others - 1) / others, most = (a.M + LEAST - 1) / LEAST;
    return (int)(want < most ? want : most);
}

/* Row n of a group is query t = n / group of its head n % group. */
typedef struct Rows { int b, hk, group, n0, p0; } Rows;
INLINE int64_t query_of(const AttnShape &a, const Rows &x, int n)
{
    return ((int64_t)x.b * a.T + n / x.group) * a.H + x.hk * x.group + n % x.group;
}

/* A warp's share of 16 rows: its max (in log 2) and sum of each, and o [16][D]. */
template <int D> struct Found { float m[16], l[16], o[16][D + 4]; };

/* The block's result for row r: the largest score, the sum, and, in channel d, the sum of p v. */
template <int D>
INLINE float join(const Found<D> *x, int r, int d, float *m, float *l)
{
    float most = ATTN_NONE, sum = 0, o = 0;
    UNROLL for (int w = 0; w < 4; w++) most = fmaxf(most, x[w].m[r]);
    UNROLL for (int w = 0; w < 4; w++) {
        const float c = exp2f(x[w].m[r] - most);
        sum += c * x[w].l[r];
        o += c * x[w].o[r][d];
    }
    *m = most;
    *l = sum;
    return o;
}

/* y[n] = o / l, of which a lane has every 32nd channel; once more by attn_row.h if what it does not see
 * made it NaN */
template <int D>
INLINE void finish(Bf16 *y, const Bf16 *q, const Bf16 *kc, const Bf16 *vc, const AttnShape &a, float f,
                   int64_t n, const float *o, float l, float *room)
{
    bool odd = false;
    UNROLL for (int i = 0; i < D / 32; i++) odd |= not_finite(o[i]);
    if (__any_sync(~0u, odd) && !not_finite(l)) {
        row_fwd<0>(y, NULL, q, kc, vc, a, f, n, room);
        return;
    }
    UNROLL for (int i = 0; i < D / 32; i++)
        aput(y + n * D + i * 32 + threadIdx.x % 32, o[i] / l);
}

/* part [B,T,H,splits][D]: o; then [B,T,H,splits][2]: max and sum. Not used by one split alone. */
template <int D>
static __global__ void __launch_bounds__(ATTN_THREADS)
    attn_split(Bf16 *y, float *part, const Bf16 *q, const Bf16 *kc, const Bf16 *vc, AttnShape a,
               float f)
{
    const int S = D + ATTN_PAD, splits = gridDim.x, split = blockIdx.x;
    DYN_SMEM(Bf16, sq);
    Bf16 *sk = sq + 16 * S;                     /* k and v, in two buffers */
    const Lane at = lane_of(threadIdx.x);
    Rows x;
    x.group = a.H / a.K;
    x.n0 = blockIdx.y * 16;
    x.b = blockIdx.z / a.K;
    x.hk = blockIdx.z % a.K;
    x.p0 = a.pos ? a.pos[x.b] : 0;
    const int rows = imin(16, a.T * x.group - x.n0);
    const int t0 = x.n0 / x.group, t1 = (x.n0 + rows - 1) / x.group;
    const int64_t lk = (int64_t)a.K * D, ko = (int64_t)x.b * a.M * lk + x.hk * D;

    /* this split's keys of those that the rows see */
    const int first = first_key(a, x.b, t0, x.p0 + t0), end = x.p0 + t1 + 1;
    const int size = ((end - first + splits - 1) / splits + KEYS - 1) / KEYS * KEYS;
    const int from = first + split * size, to = imin(from + size, end);

    for (int i = threadIdx.x; i < 16 * (D / 8); i += ATTN_THREADS) {
        const int r = i / (D / 8), c = i % (D / 8) * 8;
        const bool there = r < rows;
        cp_async16(sq + r * S + c, q + (there ? query_of(a, x, x.n0 + r) * D + c : 0),
                   there ? 16 : 0);
    }
    int lo[2], hi[2];                           /* keys that this lane's rows see */
    UNROLL for (int r = 0; r < 2; r++) {
        const int n = r * 8 + at.row, t = (x.n0 + n) / x.group;
        lo[r] = n < rows ? first_key(a, x.b, t, x.p0 + t) : INT32_MAX;
        hi[r] = x.p0 + t;
    }
    Soft<D, 1> w;
    nothing_yet(w);
    for (int j0 = from - KEYS; j0 < to; j0 += KEYS) {
        if (j0 >= from) tile_is_here();
        if (j0 + KEYS < to) {
            Bf16 *next = sk + ((j0 + KEYS - from) / KEYS & 1) * 2 * KEYS * S;
            fetch_two<D, KEYS>(next, kc + ko + (j0 + KEYS) * lk, vc + ko + (j0 + KEYS) * lk, lk,
                               to - j0 - KEYS);
        }
        tile_is_asked_for();
        const int key = j0 + at.warp * 16;
        if (j0 < from || key >= to) continue;
        const Bf16 *tk = sk + ((j0 - from) / KEYS & 1) * 2 * KEYS * S + at.warp * 16 * S;
        float s[1][2][4];
        uint32_t pp[1][2][2];
        dot_rows<D, 1, 16>(s, sq, tk, at.lane);
        UNROLL for (int n = 0; n < 2; n++)
            UNROLL for (int j = 0; j < 4; j++) {
                const int kv = key + n * 8 + at.col + (j & 1);
                if (kv < lo[j >> 1] || kv > hi[j >> 1] || kv >= to) s[0][n][j] = -INFINITY;
            }
        soften<D, 1, 16>(w, s, f);
        pack_pairs<1, 16>(pp, s);
        add_rows<D, 1, 16>(w.o, pp, tk + KEYS * S, at.lane);
    }
    cp_wait<0>();
    __syncthreads();                            /* the tiles' place is free */
    Found<D> *found = (Found<D> *)sk;
    UNROLL for (int r = 0; r < 2; r++) {
        const int n = r * 8 + at.row;
        const float l = row_sum(w.l[0][r]);
        if (at.col == 0) found[at.warp].m[n] = w.m[0][r] * f, found[at.warp].l[n] = l;
        UNROLL for (int d = 0; d < D / 8; d++)
            UNROLL for (int j = 0; j < 2; j++)
                found[at.warp].o[n][d * 8 + at.col + j] = w.o[0][d][2 * r + j];
    }
    __syncthreads();
    for (int r = at.warp; r < rows; r += 4) {
        const int64_t n = query_of(a, x, x.n0 + r);
        float m, l, o[D / 32];
        UNROLL for (int i = 0; i < D / 32; i++) o[i] = join<D>(found, r, i * 32 + at.lane, &m, &l);
        if (splits == 1) {
            finish<D>(y, q, kc, vc, a, f, n, o, l, (float *)(found + 4) + at.warp * ROW_ROOM_FWD(D));
            continue;
        }
        float *po = part + (n * splits + split) * D,
              *ml = part + (int64_t)a.B * a.T * a.H * splits * D + (n * splits + split) * 2;
        UNROLL for (int i = 0; i < D / 32; i++) po[i * 32 + at.lane] = o[i];
        if (at.lane == 0) ml[0] = m, ml[1] = l;
    }
}

/* y of a query from its splits: a warp each */
template <int D>
static __global__ void attn_join(Bf16 *y, const float *part, const Bf16 *q, const Bf16 *kc,
                                 const Bf16 *vc, AttnShape a, float f, int64_t queries, int splits)
{
    DYN_SMEM(float, room);
    const int64_t n = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (n >= queries) return;
    const int lane = threadIdx.x & 31;
    const float *o = part + n * splits * D, *ml = part + queries * splits * D + n * splits * 2;
    float m = ATTN_NONE, l = 0, s[D / 32];
    UNROLL for (int i = 0; i < D / 32; i++) s[i] = 0;
    for (int i = 0; i < splits; i++) m = fmaxf(m, ml[2 * i]);
    for (int i = 0; i < splits; i++) {
        const float c = exp2f(ml[2 * i] - m);
        l += c * ml[2 * i + 1];
        UNROLL for (int d = 0; d < D / 32; d++) s[d] += c * o[i * D + d * 32 + lane];
    }
    finish<D>(y, q, kc, vc, a, f, n, s, l, room + threadIdx.x / 32 * ROW_ROOM_FWD(D));
}

template <int D>
static void launch(Bf16 *y, const Bf16 *q, const Bf16 *k, const Bf16 *v, AttnShape a, float *part)
{
    const int splits = splits_of(a);
    const int64_t queries = (int64_t)a.B * a.T * a.H;
    const float f = ATTN_LOG2E / sqrtf((float)D);
    constexpr size_t smem = (size_t)(16 + 4 * KEYS) * (D + ATTN_PAD) * sizeof(Bf16);
    static_assert(smem <= CU_SHARED_MAX, "too much for sm_86, 89 and 120");
    static_assert(sizeof(Found<D>) + ROW_ROOM_FWD(D) * sizeof(float) <=
                      KEYS * (D + ATTN_PAD) * sizeof(Bf16), "they share a place");
    auto split = attn_split<D>;
    auto join = attn_join<D>;
    LAUNCH(split, dim3(splits, blocks_of_rows(a), a.B * a.K), ATTN_THREADS, smem, cuda_stream, y,
           part, q, k, v, a, f);
    if (splits > 1)
        LAUNCH(join, (unsigned)div_up(queries, 4), 128, 4 * ROW_ROOM_FWD(D) * sizeof(float),
               cuda_stream, y, part, q, k, v, a, f, queries, splits);
}
size_t cuda_attn_split_tmp(AttnShape a)
{
    const int splits = splits_of(a);
    return splits > 1 ? (size_t)a.B * a.T * a.H * splits * (a.D + 2) * sizeof(float) : 0;
}
void cuda_attn_split(Act *y, const Act *q, const Act *k, const Act *v, AttnShape a, void *tmp)
{
    switch (a.D) {
    case 32: launch<32>(y, q, k, v, a, (float *)tmp); break;
    case 64: launch<64>(y, q, k, v, a, (float *)tmp); break;
    case 96: launch<96>(y, q, k, v, a, (float *)tmp); break;
    case 128: launch<128>(y, q, k, v, a, (float *)tmp); break;
    }
}
#endif
