/* roof.h -- what this machine can do, measured in the same run as what is compared with it:
 * multiply-adds on registers, of the tier that an Ops uses, and streaming from memory. */
#ifndef ROOF_H
#define ROOF_H
#include "base/err.h"
#include "base/progress.h"
#include "ops/ops.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef _OPENMP
#include <omp.h>
#endif

double cpu_fma_probe_base(int64_t n, double *out);
#ifdef __x86_64__
double cpu_fma_probe_avx2(int64_t n, double *out);
double cpu_fma_probe_avx512(int64_t n, double *out);
double cpu_dot_probe_avx512_dot(int64_t n, double *out);
#ifdef HAVE_AMX
double cpu_dot_probe_avx512_tile(int64_t n, double *out);
#endif
#endif

static volatile double sink;

__attribute__((unused)) static double flops_roof(const char *tier, int threads)
{
    double (*probe)(int64_t, double *) = cpu_fma_probe_base;
#ifdef __x86_64__
    if (strcmp(tier, "cpu avx2") == 0) probe = cpu_fma_probe_avx2;
    if (strcmp(tier, "cpu avx512") == 0) probe = cpu_fma_probe_avx512;
    if (strcmp(tier, "cpu avx512_bf16") == 0) probe = cpu_dot_probe_avx512_dot;
#ifdef HAVE_AMX
    if (strcmp(tier, "cpu amx_bf16") == 0) probe = cpu_dot_probe_avx512_tile;
#endif
#else
    (void)tier;
#endif
    (void)threads;
    double best = 0;
    for (int i = 0; i < 5; i++) {
        double done = 0, out = 0, t0 = now_seconds();
#ifdef _OPENMP
#pragma omp parallel num_threads(threads) reduction(+ : done, out)
#endif
        done += probe(10000000, &out);
        double rate = done / (now_seconds() - t0);
        sink = out;
        if (rate > best) best = rate;
    }
    return best;
}
/* Unused where only products are timed: the best of a sum over an array of 128 MB, of a scaling of it
 * and of a scaled sum of two into a third, bytes as named in the code. In vectors, several of them on
 * their way at once, and in large pages, as the back-end's arrays are: one number at a time is half
 * as fast as memory. */
typedef float Line __attribute__((vector_size(64)));
static Line *lines(int64_t n)
{
    Line *x = aligned_alloc(2 << 20, (size_t)n * sizeof *x);
    if (!x) die("out of memory");
#ifdef MADV_HUGEPAGE
    madvise(x, (size_t)n * sizeof *x, MADV_HUGEPAGE);
#endif
    memset(x, 0, (size_t)n * sizeof *x);
    return x;
}
#if defined __x86_64__ && defined __GLIBC__ && defined __GNUC__ && !defined __clang__
#define WIDEST __attribute__((target_clones("avx512f", "avx2", "default"), unused, noinline))
#else
#define WIDEST __attribute__((unused, noinline))
#endif
enum { ROOF_PART = 1024 };
/* kind 0: a sum of x; 1: x scaled; 2: y = x + z / 2; arrays of ROOF_PART lines */
WIDEST static double roof_part(int kind, Line *y, Line *x, const Line *z)
{
    Line s0 = { 0 }, s1 = { 0 };
    if (kind == 0)
        for (int j = 0; j < ROOF_PART; j += 2) s0 += x[j], s1 += x[j + 1];
    else if (kind == 1)
        for (int j = 0; j < ROOF_PART; j++) x[j] *= 0.5f;
    else
        for (int j = 0; j < ROOF_PART; j++) y[j] = x[j] + 0.5f * z[j];
    s0 += s1;
    return (double)s0[0];
}
__attribute__((unused)) static double bytes_roof(int threads)
{
    (void)threads;
    const int64_t n = 2 << 20;
    Line *a = lines(n), *b = lines(n), *c = lines(n);
    double best = 0;
    for (int i = 0; i < 24; i++) {
        double t0 = now_seconds(), out = 0;
#ifdef _OPENMP
#pragma omp parallel for num_threads(threads) reduction(+ : out)
#endif
        for (int64_t k = 0; k < n; k += ROOF_PART) out += roof_part(i % 3, a + k, b + k, c + k);
        const double rate = (i % 3 + 1) * 64. * (double)n / (now_seconds() - t0);
        sink = out + (double)a[i][0];
        if (rate > best) best = rate;
    }
    free(a); free(b); free(c);
    return best;
}

typedef struct Roof { double flops, bytes; } Roof; /* a second */

static inline int threads_used(void)
{
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}
#endif
