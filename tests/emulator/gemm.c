/* gemm.c -- the twin of lib/ops/cuda/gemm.c for tests: plain loops, sums in floats. */
#include "ops/cuda/cuda.h"
#include "ops/cuda/gemm.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static float bf16_get(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
static uint16_t bf16_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
static float get(const void *p, int bf16, int64_t i)
{
    return bf16 ? bf16_get(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}
/* [rows,cols] of floats from x, which may be its transpose */
static float *unpack(const void *x, int bf16, int64_t at, int rows, int cols, int t)
{
    float *f = malloc(sizeof *f * (size_t)rows * (size_t)cols + 1);
    if (!f) abort();
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            f[i * cols + j] = get(x, bf16, at + (t ? j * rows + i : i * cols + j));
    return f;
}
static void one(const CudaGemm *g, int64_t i)
{
    const int64_t m = g->m, n = g->n, k = g->k;
    float *a = unpack(g->a, g->bf16_in, i * m * k, g->m, g->k, g->ta),
          *b = unpack(g->b, g->bf16_in, i * n * k, g->k, g->n, g->tb),
          *row = malloc(sizeof *row * (size_t)n + 1);
    if (!row) abort();
    for (int64_t r = 0; r < m; r++) {
        memset(row, 0, sizeof *row * (size_t)n);
        for (int64_t c = 0; c < k; c++)
            for (int64_t j = 0; j < n; j++) row[j] += a[r * k + c] * b[c * n + j];
        for (int64_t j = 0; j < n; j++) {
            const int64_t to = i * m * n + r * n + j;
            float v = g->alpha * row[j];
            if (g->beta != 0) v += g->beta * get(g->d, g->bf16_out, to);
            if (g->bf16_out) ((uint16_t *)g->y)[to] = bf16_of(v);
            else ((float *)g->y)[to] = v;
        }
    }
    free(a); free(b); free(row);
}
static void run_noted(const void *g) { cuda_gemm(g); }
void cuda_gemm(const CudaGemm *g)
{
    cuda_scratch(SLOT_GEMM, CUDA_GEMM_WORK);    /* as the other one does */
    if (cuemu_note(run_noted, g, sizeof *g)) return;
    cuemu_access(1);
    for (int64_t i = 0; i < g->batch; i++) one(g, i);
    cuemu_access(0);
}
