/* optim.cu -- what works on a Store: adamw, sums of squares, scaling, means, and in and out of it. */
#include "ops/cuda/cu.h"
#include "ops/cuda/fp8.h"

enum { THREADS = 256 };

#define EACH(n) \
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < (n); \
         i += (int64_t)gridDim.x * THREADS)
#define RUN(kernel, n, ...) do { \
        if ((n) > 0) LAUNCH(kernel, cu_grid(n, THREADS), THREADS, 0, cuda_stream, __VA_ARGS__); \
    } while (0)

typedef struct AdamW { float keep, f1, f2, step, inv2, eps; } AdamW;

static __global__ void adamw(Store p, Store g, Store m, Store v, int64_t n, AdamW h)
{
    EACH(n) {
        float d = sget(g, i), a = sget(m, i), b = sget(v, i);
        a += h.f1 * (d - a);
        b += h.f2 * (d * d - b);
        sput(m, i, a);
        sput(v, i, b);
        sput(p, i, h.keep * sget(p, i) - h.step * a / (sqrtf(b * h.inv2) + h.eps));
    }
}
void cuda_adamw(Store p, Store g, Store m, Store v, int64_t n, double lr, double b1, double b2,
                double eps, double wd, double c1, double c2)
{
    const AdamW h = { (float)(1 - lr * wd), (float)(1 - b1), (float)(1 - b2), (float)(lr / c1),
                      (float)(1 / c2), (float)eps };
    cuda_fp8_written(p, n);
    RUN(adamw, n, p, g, m, v, n, h);
}
static __global__ void scale(Store x, float f, int64_t n) { EACH(n) sput(x, i, sget(x, i) * f); }
static __global__ void lerp(real *y, Store x, float f, int64_t n)
{
    EACH(n) y[i] += f * (sget(x, i) - y[i]);
}
static __global__ void exchange(Store p, real *x, int64_t n)
{
    EACH(n) {
        const float a = x[i];
        if (p.w || p.lo) {
            x[i] = sget(p, i);
            sput(p, i, a);
        } else {
            x[i] = join(p.hi[i], lower(a));
            p.hi[i] = upper(a);
        }
    }
}
void cuda_scale(Store x, double s, int64_t n) { RUN(scale, n, x, (float)s, n); }
void cuda_lerp(real *y, Store x, double a, int64_t n) { RUN(lerp, n, y, x, (float)a, n); }
void cuda_exchange(Store p, real *x, int64_t n)
{
    cuda_fp8_written(p, n);
    RUN(exchange, n, p, x, n);
}

/* ---- between the host and what is not reals: through scratch */
enum { STAGE = 1 << 18 };
static __global__ void copy(Store to, Store from, int64_t n) { EACH(n) sput(to, i, sget(from, i)); }
void cuda_store(Store to, const real *host, int64_t n)
{
    if (to.w) { cuda_put(to.w, host, (size_t)n * sizeof *host); return; }
    cuda_fp8_written(to, n);
    for (int64_t at = 0; at < n; at += STAGE) {
        const int64_t k = cu_min(STAGE, n - at);
        real *x = (real *)cuda_scratch(SLOT_PARTS, (size_t)k * sizeof *x);
        cuda_put(x, host + at, (size_t)k * sizeof *x);
        RUN(copy, k, store_at(to, at), store_real(x), k);
    }
}
void cuda_load(real *host, Store from, int64_t n)
{
    if (from.w) { cuda_get(host, from.w, (size_t)n * sizeof *host); return; }
    for (int64_t at = 0; at < n; at += STAGE) {
        const int64_t k = cu_min(STAGE, n - at);
        real *x = (real *)cuda_scratch(SLOT_PARTS, (size_t)k * sizeof *x);
        RUN(copy, k, store_real(x), store_at(from, at), k);
        cuda_get(host + at, x, (size_t)k * sizeof *x);
    }
}

/* A thread adds PIECE squares as floats, what follows is double: the clip of a norm and the sum over
 * a model need it. part [blocks]. */
enum { PIECE = 32, CHUNK = PIECE * THREADS };
static __global__ void squares(double *part, Store x, int64_t n)
{
    SHARED(double, parts, THREADS / WARP);
    const int64_t at = (int64_t)blockIdx.x * CHUNK, end = cu_min(n, at + CHUNK);
    float s = 0;
    for (int64_t i = at + threadIdx.x; i < end; i += THREADS) {
        const float a = sget(x, i);
        s += a * a;
    }
    const double all = block_sum((double)s, parts);
    if (threadIdx.x == 0) part[blockIdx.x] = all;
}
static __global__ void add_squares(double *out, const double *part, int64_t n)
{
    SHARED(double, parts, THREADS / WARP);
    double s = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) s += part[i];
    s = block_sum(s, parts);
    if (threadIdx.x == 0) *out += s;
}
void cuda_sumsq(double *out, Store x, int64_t n)
{
    if (n <= 0) return;
    const int64_t blocks = div_up(n, CHUNK);
    double *part = (double *)cuda_scratch(SLOT_PARTS, (size_t)blocks * sizeof *part);
    LAUNCH(squares, (unsigned)blocks, THREADS, 0, cuda_stream, part, x, n);
    LAUNCH(add_squares, 1, THREADS, 0, cuda_stream, out, part, blocks);
}
