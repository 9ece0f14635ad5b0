/* pick.cu -- a token from each row of logits, as lib/gpt/pick.c chooses it, in double precision; a block
 * has a row. Its filters sort; here the border of what stays is looked for instead, among the floats
 * that a logit can be: as many as are kept, or as heavy, are at or above it. Each look at the row tries
 * WAYS borders, so that 11 find the one of 2^32. Of those that are equal to the border the first ids
 * stay, which are counted.
 *
 * Sums have an order of their own, so a weight may be off by a rounding from the host's: a token differs
 * from the host's where a border or a random number lies within that of it. */
#include "ops/cuda/cu.h"

enum { MOST = 512, WARPS = MOST / WARP, WAYS = 8, TRIED = WAYS - 1 };

/* What a block works on, the same in all of its threads. A warp has neighbours [from, to). */
typedef struct Row {
    const float *l;
    const unsigned char *seen;              /* NULL: nothing is penalised */
    double *w;                              /* [V]: weights */
    double penalty, temperature;
    int V, from, to;
    float best;                             /* the largest logit */
    double *parts;                          /* shared: [WARPS,TRIED] */
    int *found;                             /* shared: one */
} Row;

#define EACH(i, r) for (int i = (r).from + (int)(threadIdx.x % WARP); i < (r).to; i += WARP)

INLINE float logit(const Row &r, int i)
{
    const float x = r.l[i];
    if (!r.seen || !r.seen[i]) return x;
    return (float)(x > 0 ? (double)x / r.penalty : (double)x * r.penalty);
}
/* floats as numbers in the same order; both zeros are one */
INLINE uint32_t key_of(float x)
{
    const uint32_t u = __float_as_uint(x + 0.0f);
    return u >> 31 ? ~u : u | 1u << 31;
}
INLINE float of_key(uint32_t k) { return __uint_as_float(k >> 31 ? k & ~(1u << 31) : ~k); }
INLINE double weight(const Row &r, float x)
{
    return exp(((double)x - (double)r.best) / r.temperature);
}

/* ---- what a block has together */

template <class T> INLINE T warp_upto(T v)              /* sum of the lanes up to this one */
{
    for (int o = 1; o < WARP; o *= 2) {
        const T before = __shfl_up_sync(~0u, v, o);
        if ((int)(threadIdx.x % WARP) >= o) v += before;
    }
    return v;
}
/* v[n] = sums over the block */
INLINE void block_all(double *v, int n, double *parts)
{
    const int warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    for (int j = 0; j < n; j++) {
        const double s = warp_sum(v[j]);
        if (threadIdx.x % WARP == 0) parts[warp * TRIED + j] = s;
    }
    __syncthreads();
    for (int j = 0; j < n; j++) {
        v[j] = 0;
        for (int i = 0; i < warps; i++) v[j] += parts[i * TRIED + j];
    }
    __syncthreads();
}
INLINE double block_least(double v, double *parts)
{
    for (int o = WARP / 2; o; o >>= 1) {
        const double w = __shfl_xor_sync(~0u, v, o);
        if (w < v) v = w;
    }
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = v;
    __syncthreads();
    for (unsigned i = 0; i < blockDim.x / WARP; i++) if (parts[i] < v) v = parts[i];
    __syncthreads();
    return v;
}

/* ---- borders */

/* Is i at the border x? COUNT: by logits, else by weights. */
template <bool COUNT> INLINE double order(const Row &r, int i)
{
    return COUNT ? (double)logit(r, i) : r.w[i];
}
/* The largest key of [lo, hi] with sum at or above it of weights (COUNT: of ones) >= goal; lo is one. */
template <bool COUNT> INLINE uint32_t border(const Row &r, uint32_t lo, uint32_t hi, double goal)
{
    while (lo < hi) {
        const uint32_t step = (hi - lo + WAYS - 1) / WAYS;
        double at[TRIED], sum[TRIED];
        UNROLL for (int j = 0; j < TRIED; j++) {
            const uint32_t k = lo + (uint32_t)cu_min((int64_t)step * (j + 1), hi - lo);
            at[j] = COUNT ? (double)of_key(k) : weight(r, of_key(k));
            sum[j] = 0;
        }
        EACH(i, r) {
            const double x = order<COUNT>(r, i), w = COUNT ? 1 : x;
            UNROLL for (int j = 0; j < TRIED; j++) if (x >= at[j]) sum[j] += w;
        }
        block_all(sum, TRIED, r.parts);
        int j = 0;
        while (j < TRIED && sum[j] >= goal) j++;
        const uint32_t low = lo + (uint32_t)cu_min((int64_t)step * j, hi - lo);
        if (j < TRIED) hi = lo + (uint32_t)cu_min((int64_t)step * (j + 1), hi - lo) - 1;
        lo = low;
    }
    return lo;
}
/* the id of the m-th (from 1) of those that are equal to x */
template <bool COUNT> INLINE int nth(const Row &r, double x, int m)
{
    const int warp = threadIdx.x / WARP;
    int n = 0, before = 0;
    EACH(i, r) n += order<COUNT>(r, i) == x;
    n = warp_sum(n);
    if (threadIdx.x % WARP == 0) r.parts[warp] = n;
    __syncthreads();
    for (int i = 0; i < warp; i++) before += (int)r.parts[i];
    if (before < m && m <= before + n)
        for (int g = r.from; g < r.to; g += WARP) {
            const int i = g + (int)(threadIdx.x % WARP), is = i < r.to && order<COUNT>(r, i) == x,
                      upto = before + warp_upto(is);
            if (is && upto == m) *r.found = i;
            before = __shfl_sync(~0u, upto, WARP - 1);
        }
    __syncthreads();
    const int id = *r.found;
    __syncthreads();
    return id;
}

/* ---- filters. Weights are written by the threads that read them again. */

INLINE void top_k(const Row &r, int k, uint32_t least)
{
    const bool all = k <= 0 || k >= r.V;
    float at = 0;
    int last = 0;
    if (!all) {
        at = of_key(border<true>(r, least, key_of(r.best), k));
        double above = 0;
        EACH(i, r) above += logit(r, i) > at;
        block_all(&above, 1, r.parts);
        last = nth<true>(r, at, k - (int)above);
    }
    EACH(i, r) {
        const float x = logit(r, i);
        r.w[i] = all || x > at || (x == at && i <= last) ? weight(r, x) : 0;
    }
}
INLINE void top_p(const Row &r, double p, uint32_t least)
{
    double sum[2] = { 0, 0 }, at = INFINITY;
    EACH(i, r) sum[0] += r.w[i];
    block_all(sum, 1, r.parts);
    const double goal = p * sum[0], from = weight(r, of_key(border<false>(r, least, key_of(r.best), goal)));
    EACH(i, r) if (r.w[i] > 0 && r.w[i] >= from && r.w[i] < at) at = r.w[i];
    at = block_least(at, r.parts);
    sum[0] = sum[1] = 0;
    EACH(i, r) {
        if (r.w[i] > at) sum[0] += r.w[i];
        sum[1] += r.w[i] == at;
    }
    block_all(sum, 2, r.parts);
    double m = ceil((goal - sum[0]) / at);
    if (!(m >= 1)) m = 1;
    if (m > sum[1]) m = sum[1];
    if (m > 1 && sum[0] + (m - 1) * at >= goal) m--;
    if (m < sum[1] && sum[0] + m * at < goal) m++;
    const int last = nth<false>(r, at, (int)m);
    EACH(i, r) if (!(r.w[i] > at || (r.w[i] == at && i <= last))) r.w[i] = 0;
}
/* The first id up to which the weights add up to more than u of all; `best` if rounding forbids it. */
INLINE int draw(const Row &r, double u, int best)
{
    const int warp = threadIdx.x / WARP, warps = blockDim.x / WARP, lane = threadIdx.x % WARP;
    double sum = 0, all = 0, before = 0;
    EACH(i, r) sum += r.w[i];
    sum = warp_sum(sum);
    if (lane == 0) r.parts[warp] = sum;
    if (threadIdx.x == 0) *r.found = best;
    __syncthreads();
    for (int i = 0; i < warps; i++) all += r.parts[i];
    int w = 0;
    for (u *= all; w < warps && !(u < before + r.parts[w]); w++) before += r.parts[w];
    if (w == warp) {
        int id = -1;                                    /* the last of any weight, until u is reached */
        bool there = false;
        for (int g = r.from; g < r.to && !there; g += WARP) {
            const int i = g + lane;
            const double x = i < r.to ? r.w[i] : 0, upto = before + warp_upto(x);
            int first = x > 0 && u < upto ? i : r.V, last = x > 0 ? i : -1;
            for (int o = WARP / 2; o; o >>= 1) {
                const int f = __shfl_xor_sync(~0u, first, o), l = __shfl_xor_sync(~0u, last, o);
                if (f < first) first = f;
                if (l > last) last = l;
            }
            there = first < r.V;
            if (there) id = first;
            else if (last >= 0) id = last;
            before = __shfl_sync(~0u, upto, WARP - 1);
        }
        if (lane == 0) *r.found = id;
    }
    __syncthreads();
    return *r.found;
}

/* The largest logit and, of equal ones, the first: as one number. least: the smallest one's key.
 * false: one is not finite. */
INLINE bool ends(Row &r, int *best, uint32_t *least)
{
    uint64_t top = 0;
    double low = INFINITY, bad = 0;
    EACH(i, r) {
        const float x = logit(r, i);
        const uint64_t k = (uint64_t)key_of(x) << 32 | (uint32_t)(0x7fffffff - i);
        if (!(fabsf(x) < INFINITY)) bad = 1;
        if (k > top) top = k;
        if ((double)(k >> 32) < low) low = (double)(k >> 32);
    }
    for (int o = WARP / 2; o; o >>= 1) {
        const uint64_t k = __shfl_xor_sync(~0u, top, o);
        if (k > top) top = k;
    }
    SHARED(uint64_t, tops, WARPS);
    if (threadIdx.x % WARP == 0) tops[threadIdx.x / WARP] = top;
    low = block_least(low, r.parts);                    /* its barriers serve both */
    block_all(&bad, 1, r.parts);
    for (unsigned i = 0; i < blockDim.x / WARP; i++) if (tops[i] > top) top = tops[i];
    *best = 0x7fffffff - (int)(uint32_t)top;
    *least = (uint32_t)low;
    r.best = of_key((uint32_t)(top >> 32));
    return bad == 0;
}

static __global__ void __launch_bounds__(MOST)
pick(int *id, const real *l, const double *u, unsigned char *seen, const int *last, double *w, int V,
     Pick by)
{
    SHARED(double, parts, WARPS * TRIED);
    SHARED(int, found, 1);
    const int64_t n = blockIdx.x;
    const int warps = blockDim.x / WARP, each = (V + warps * WARP - 1) / (warps * WARP) * WARP;
    Row r;
    r.l = l + n * V;
    r.seen = seen ? seen + n * V : NULL;
    r.w = w + n * V;
    r.penalty = by.penalty;
    r.temperature = by.temperature;
    r.V = V;
    r.from = (int)cu_min((int64_t)(threadIdx.x / WARP) * each, V);
    r.to = (int)cu_min((int64_t)r.from + each, V);
    r.parts = parts;
    r.found = found;
    if (seen && last && threadIdx.x == 0) seen[n * V + last[n]] = 1;
    __syncthreads();
    int best;
    uint32_t least;
    if (!ends(r, &best, &least)) best = -1;
    else if (by.temperature > 0) {
        top_k(r, by.top_k, least);
        if (by.top_p > 0 && by.top_p < 1) top_p(r, by.top_p, least);
        if (by.min_p > 0) {
            const double min = by.min_p < 1 ? by.min_p : 1;
            EACH(i, r) if (r.w[i] < min) r.w[i] = 0;
        }
        best = draw(r, u[n], best);
    }
    if (threadIdx.x == 0) id[n] = best;
}
void cuda_pick(int *id, const real *l, const double *u, unsigned char *seen, const int *last, int N,
               int V, const Pick *by)
{
    if (N <= 0) return;
    const int threads = V >= 4096 ? MOST : V >= 512 ? 128 : WARP;
    double *w = (double *)cuda_scratch(SLOT_PARTS, (size_t)N * (size_t)V * sizeof *w);
    LAUNCH(pick, (unsigned)N, threads, 0, cuda_stream, id, l, u, seen, last, w, V, *by);
}
