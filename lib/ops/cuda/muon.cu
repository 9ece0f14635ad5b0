/* muon.cu -- the Muon step on a stack of matrices [R,K], all of them at once: the same algebra as
 * lib/ops/cpu/optim.c. X, and what is multiplied, are Acts: with bfloat16 the products run on tensor
 * cores, as in nanochat; momentum, norms and the update stay fp32. */
#include "ops/cuda/cu.h"
#include "ops/cuda/fp8.h"
#include "ops/cuda/gemm.h"

enum { THREADS = 256 };

static const float polar[5][3] = {      /* Amsel et al. 2025, arXiv 2505.16932 */
    { 8.156554524902461f, -22.48329292557795f, 15.878769915207462f },
    { 4.042929935166739f, -2.808917465908714f, 0.5000178451051316f },
    { 3.8916678022926607f, -2.772484153217685f, 0.5060648178503393f },
    { 3.285753657755655f, -2.3681294933425376f, 0.46449024233003106f },
    { 2.3465413258596377f, -1.7097828382687081f, 0.42323551169305323f },
};

/* Workspace: x [count,R,K], a, b [count,mn,mn] Acts; by [count,max(R,K)] reals; and y, like x */
typedef struct Work { Act *x, *y, *a, *b; real *by; size_t bytes; } Work;

static size_t place(size_t *at, int64_t n, size_t size)
{
    const size_t o = *at;
    *at += ((size_t)n * size + 255) / 256 * 256;
    return o;
}
/* y lies where the gradient was: X is made of that, in x, before y is written */
static Work layout(void *tmp, real *g, int count, int R, int K)
{
    const int64_t mn = R < K ? R : K, mx = R < K ? K : R;
    char *p = (char *)tmp;
    Work w;
    w.bytes = 0;
    w.x = (Act *)(void *)(p + place(&w.bytes, count * mn * mx, sizeof(Act)));
    w.y = (Act *)(void *)g;
    w.a = (Act *)(void *)(p + place(&w.bytes, count * mn * mn, sizeof(Act)));
    w.b = (Act *)(void *)(p + place(&w.bytes, count * mn * mn, sizeof(Act)));
    w.by = (real *)(void *)(p + place(&w.bytes, count * mx, sizeof(real)));
    return w;
}
size_t CU(muon_tmp)(int count, int R, int K)
{
    static char none[1];
    return layout(none, NULL, count, R, K).bytes;
}

/* Steps 1, 2: momentum; g becomes what is to be made orthogonal. A block has a row; by[row] = its sum
 * of squares. */
static __global__ void momentum(real *g, real *m, real *by, int K, float f, float mu)
{
    SHARED(float, parts, THREADS / WARP);
    const int64_t row = blockIdx.x;
    float s = 0;
    for (int64_t i = row * K + threadIdx.x; i < (row + 1) * K; i += THREADS) {
        const float a = m[i] + f * (g[i] - m[i]), u = g[i] + mu * (a - g[i]);
        m[i] = a;
        g[i] = u;
        s += u * u;
    }
    s = block_sum(s, parts);
    if (threadIdx.x == 0) by[row] = s;
}
/* Step 3: rows equally long, the whole of norm below 1: by[row] = the factor. A block has a matrix. */
static __global__ void row_factors(real *by, int R)
{
    SHARED(float, parts, THREADS / WARP);
    SHARED(float, parts2, THREADS / WARP);
    real *v = by + (int64_t)blockIdx.x * R;
    float s = 0, norm = 0;
    for (int r = threadIdx.x; r < R; r += THREADS) s += v[r];
    const float target = sqrtf(block_sum(s, parts)) / sqrtf((float)R);
    for (int r = threadIdx.x; r < R; r += THREADS) {
        const float len = sqrtf(v[r]), f = target / (len > 1e-6f ? len : 1e-6f);
        v[r] = f;
        norm += len * f * (len * f);
    }
    norm = 1.01f * sqrtf(block_sum(norm, parts2)) + 1e-6f;
    for (int r = threadIdx.x; r < R; r += THREADS) v[r] /= norm;
}
static __global__ void scale_rows(Act *x, const real *g, const real *by, int64_t n, int K)
{
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS)
        aput(x + i, g[i] * by[i / K]);
}
/* y = alpha op(a) op(b) + beta d, count of them */
static void multiply(Act *y, const Act *d, const Act *a, const Act *b, int m, int n, int k, int ta,
                     int tb, int count, float alpha, float beta)
{
    const CudaNum num = sizeof(Act) == 2 ? NUM_BF16 : NUM_F32;
    CudaGemm g = {};
    g.y = y, g.d = d, g.a = a, g.b = b;
    g.m = m, g.n = n, g.k = k, g.ta = ta, g.tb = tb, g.batch = count;
    g.num_a = g.num_b = g.num_y = num;
    g.alpha = alpha, g.beta = beta;
    cuda_gemm(&g);
}
/* Step 4. X alternates between x and y; returns where it ends. */
static Act *orthogonal(const Work *w, int count, int R, int K)
{
    const int n = R < K ? R : K, tall = R > K;
    Act *x = w->x, *y = w->y;
    for (int i = 0; i < 5; i++) {
        const float p = polar[i][0], q = polar[i][1], s = polar[i][2];
        multiply(w->a, NULL, x, x, n, n, tall ? R : K, tall, !tall, count, 1, 0);
        multiply(w->b, w->a, w->a, w->a, n, n, n, 0, 0, count, s, q);
        multiply(y, x, tall ? x : w->b, tall ? w->b : x, R, K, n, 0, 0, count, 1, p);
        Act *t = x;
        x = y;
        y = t;
    }
    return x;
}
/* by[row] or, for wide ones, by[column] = sum of squares */
static __global__ void row_squares(real *by, const Act *x, int K)
{
    SHARED(float, parts, THREADS / WARP);
    const int64_t row = blockIdx.x;
    float s = 0;
    for (int64_t i = row * K + threadIdx.x; i < (row + 1) * K; i += THREADS)
        s += aget(x + i) * aget(x + i);
    s = block_sum(s, parts);
    if (threadIdx.x == 0) by[row] = s;
}
static __global__ void col_squares(real *by, const Act *x, int R, int K)
{
    const int c = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (c >= K) return;
    x += (int64_t)blockIdx.y * R * K;
    float s = 0;
    for (int r = 0; r < R; r++) {
        const float t = aget(x + (int64_t)r * K + c);
        s += t * t;
    }
    by[(int64_t)blockIdx.y * K + c] = s;
}
/* Steps 5, 6: norm sqrt(min(R,K)), variance reduction: by = the factor of each of `kept` rows or
 * columns, that have n elements each. A block has a matrix. */
static __global__ void finish_factors(real *by, real *second, int kept, int n, int mn, float f)
{
    SHARED(float, parts, THREADS / WARP);
    SHARED(float, parts2, THREADS / WARP);
    SHARED(float, parts3, THREADS / WARP);
    real *v = by + (int64_t)blockIdx.x * kept, *s = second + (int64_t)blockIdx.x * kept;
    float norm = 0, before = 0, after = 0;
    for (int i = threadIdx.x; i < kept; i += THREADS) norm += v[i];
    norm = sqrtf(block_sum(norm, parts));
    const float to = sqrtf((float)mn) / (norm > 1e-6f ? norm : 1e-6f);
    for (int i = threadIdx.x; i < kept; i += THREADS) {
        const float mean = v[i] * to * to / (float)n;
        s[i] += f * (mean - s[i]);
        const float u = 1 / sqrtf(s[i] > 1e-10f ? s[i] : 1e-10f);
        before += mean * (float)n;
        after += mean * (float)n * u * u;
        v[i] = u;
    }
    before = sqrtf(block_sum(before, parts2));
    after = sqrtf(block_sum(after, parts3));
    const float all = to * before / (after > 1e-10f ? after : 1e-10f);
    for (int i = threadIdx.x; i < kept; i += THREADS) v[i] *= all;
}
/* Step 7: the update, weight decay where signs agree */
static __global__ void update(Store p, const Act *x, const real *by, int64_t n, int R, int K,
                              float lr, float decay)
{
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS) {
        const int64_t at = R >= K ? i / K : i / ((int64_t)R * K) * K + i % K;
        const float t = aget(x + i) * by[at], w = sget(p, i);
        sput(p, i, w - (lr * t + (t * w >= 0 ? decay * w : 0)));
    }
}
void CU(muon)(Store p, real *g, real *m, real *s, void *tmp, int count, int R, int K, double mu,
              double beta2, double lr, double wd)
{
    const Work w = layout(tmp, g, count, R, K);
    const int64_t n = (int64_t)count * R * K;
    const int tall = R >= K;
    if (n <= 0) return;
    cuda_fp8_written(p, n);
    LAUNCH(momentum, (unsigned)((int64_t)count * R), THREADS, 0, cuda_stream, g, m, w.by, K,
           (float)(1 - mu), (float)mu);
    LAUNCH(row_factors, (unsigned)count, THREADS, 0, cuda_stream, w.by, R);
    LAUNCH(scale_rows, cu_grid(n, THREADS), THREADS, 0, cuda_stream, w.x, g, w.by, n, K);
    const Act *x = orthogonal(&w, count, R, K);
    if (tall)
        LAUNCH(row_squares, (unsigned)((int64_t)count * R), THREADS, 0, cuda_stream, w.by, x, K);
    else
        LAUNCH(col_squares, dim3((unsigned)div_up(K, THREADS), (unsigned)count), THREADS, 0,
               cuda_stream, w.by, x, R, K);
    LAUNCH(finish_factors, (unsigned)count, THREADS, 0, cuda_stream, w.by, s, tall ? R : K,
           tall ? K : R, R < K ? R : K, (float)(1 - beta2));
    LAUNCH(update, cu_grid(n, THREADS), THREADS, 0, cuda_stream, p, x, w.by, n, R, K, (float)lr,
           (float)(lr * wd));
}
