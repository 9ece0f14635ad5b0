/* optim.cu -- adamw, sums of squares, scale and lerp, on reals. */
#include "ops/cuda/cu.h"

enum { THREADS = 256 };

#define EACH(n) \
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < (n); \
         i += (int64_t)gridDim.x * THREADS)
#define RUN(kernel, n, ...) do { \
        if ((n) > 0) LAUNCH(kernel, cu_grid(n, THREADS), THREADS, 0, cuda_stream, __VA_ARGS__); \
    } while (0)

typedef struct AdamW { float keep, f1, f2, step, inv2, eps; } AdamW;

static __global__ void adamw(real *p, const real *g, real *m, real *v, int64_t n, AdamW h)
{
    EACH(n) {
        const float d = g[i], a = m[i] + h.f1 * (d - m[i]), b = v[i] + h.f2 * (d * d - v[i]);
        m[i] = a;
        v[i] = b;
        p[i] = h.keep * p[i] - h.step * a / (sqrtf(b * h.inv2) + h.eps);
    }
}
void cuda_adamw(real *p, const real *g, real *m, real *v, int64_t n, double lr, double b1,
                double b2, double eps, double wd, double c1, double c2)
{
    const AdamW h = { (float)(1 - lr * wd), (float)(1 - b1), (float)(1 - b2), (float)(lr / c1),
                      (float)(1 / c2), (float)eps };
    RUN(adamw, n, p, g, m, v, n, h);
}
static __global__ void scale(real *x, float f, int64_t n) { EACH(n) x[i] *= f; }
static __global__ void lerp(real *y, const real *x, float f, int64_t n)
{
    EACH(n) y[i] += f * (x[i] - y[i]);
}
void cuda_scale(real *x, double s, int64_t n) { RUN(scale, n, x, (float)s, n); }
void cuda_lerp(real *y, const real *x, double a, int64_t n) { RUN(lerp, n, y, x, (float)a, n); }

/* A thread adds PIECE squares as floats, what follows is double: the clip of a norm and the sum over
 * a model need it. part [blocks]. */
enum { PIECE = 32, CHUNK = PIECE * THREADS };
INLINE double block_sum_double(double v, double *parts)
{
    for (int o = WARP / 2; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = v;
    __syncthreads();
    double s = 0;
    for (int i = 0; i < THREADS / WARP; i++) s += parts[i];
    return s;
}
static __global__ void squares(double *part, const real *x, int64_t n)
{
    SHARED(double, parts, THREADS / WARP);
    const int64_t at = (int64_t)blockIdx.x * CHUNK, end = cu_min(n, at + CHUNK);
    float s = 0;
    for (int64_t i = at + threadIdx.x; i < end; i += THREADS) s += x[i] * x[i];
    const double all = block_sum_double((double)s, parts);
    if (threadIdx.x == 0) part[blockIdx.x] = all;
}
static __global__ void add_squares(double *out, const double *part, int64_t n)
{
    SHARED(double, parts, THREADS / WARP);
    double s = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) s += part[i];
    s = block_sum_double(s, parts);
    if (threadIdx.x == 0) *out += s;
}
void cuda_sumsq(double *out, const real *x, int64_t n)
{
    if (n <= 0) return;
    const int64_t blocks = div_up(n, CHUNK);
    double *part = (double *)cuda_scratch(SLOT_PARTS, (size_t)blocks * sizeof *part);
    LAUNCH(squares, (unsigned)blocks, THREADS, 0, cuda_stream, part, x, n);
    LAUNCH(add_squares, 1, THREADS, 0, cuda_stream, out, part, blocks);
}
