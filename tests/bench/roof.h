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
/* unused where only products are timed: the better of a sum over 256 MB and a scaled sum of two arrays into a third, bytes as named in
 * the code */
__attribute__((unused)) static double bytes_roof(int threads)
{
    (void)threads;
    const int64_t n = 32 << 20;
    float *a = xcalloc((size_t)n, sizeof *a), *b = xcalloc((size_t)n, sizeof *b),
          *c = xcalloc((size_t)n, sizeof *c);
    double best = 0;
    for (int i = 0; i < 5; i++) {
        double t0 = now_seconds(), rate;
#ifdef _OPENMP
#pragma omp parallel for num_threads(threads)
#endif
        for (int64_t j = 0; j < n; j++) a[j] = b[j] + 0.5f * c[j];
        rate = 12 * (double)n / (now_seconds() - t0);
        if (rate > best) best = rate;
        t0 = now_seconds();
        uint64_t sum = 0;
#ifdef _OPENMP
#pragma omp parallel for num_threads(threads) reduction(+ : sum)
#endif
        for (int64_t j = 0; j < n / 2; j++) sum += ((uint64_t *)(void *)b)[j];
        rate = 4 * (double)n / (now_seconds() - t0);
        sink = (double)sum + (double)a[i];
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
