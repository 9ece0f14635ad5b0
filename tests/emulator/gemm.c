/* gemm.c -- the twin of lib/ops/cuda/gemm.c for tests: plain loops, sums in floats. Refuses what
 * cublasLt would of eight-bit numbers on every device that has them. */
#include "ops/cuda/cuda.h"
#include "ops/cuda/gemm.h"
#include "fp8_twin.h"
#include <stdio.h>
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
static float get(const void *p, CudaNum num, int64_t i)
{
    switch (num) {
    case NUM_F32: return ((const float *)p)[i];
    case NUM_BF16: return bf16_get(((const uint16_t *)p)[i]);
    case NUM_E4M3: return fp8_decode(((const uint8_t *)p)[i], FP8_E4M3);
    case NUM_E5M2: return fp8_decode(((const uint8_t *)p)[i], FP8_E5M2);
    }
    abort();
}
/* [rows,cols] of floats from x, which may be its transpose */
static float *unpack(const void *x, CudaNum num, int64_t at, int rows, int cols, int t)
{
    float *f = malloc(sizeof *f * (size_t)rows * (size_t)cols + 1);
    if (!f) abort();
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            f[i * cols + j] = get(x, num, at + (t ? j * rows + i : i * cols + j));
    return f;
}
static int eight(CudaNum num) { return num == NUM_E4M3 || num == NUM_E5M2; }
static int aligned(const void *p) { return (uintptr_t)p % 16 == 0; }
static void check(const CudaGemm *g)
{
    if (eight(g->num_a) != eight(g->num_b) || eight(g->num_y)) abort();
    if (!eight(g->num_a)) return;
    if (!g->ta && g->tb && g->k % 16 == 0 && g->n % 16 == 0 && g->scale_a && g->scale_b &&
        (g->num_a != NUM_E5M2 || g->num_b != NUM_E5M2) && aligned(g->a) && aligned(g->b) &&
        aligned(g->y) && (g->beta == 0 || aligned(g->d)))
        return;
    fprintf(stderr, "cuemu: cublasLt multiplies no eight-bit numbers like these\n");
    abort();
}
static void one(const CudaGemm *g, int64_t i)
{
    const int64_t m = g->m, n = g->n, k = g->k;
    const float alpha = eight(g->num_a) ? g->alpha * *g->scale_a * *g->scale_b : g->alpha;
    float *a = unpack(g->a, g->num_a, i * m * k, g->m, g->k, g->ta),
          *b = unpack(g->b, g->num_b, i * n * k, g->k, g->n, g->tb),
          *row = malloc(sizeof *row * (size_t)n + 1);
    if (!row) abort();
    for (int64_t r = 0; r < m; r++) {
        memset(row, 0, sizeof *row * (size_t)n);
        for (int64_t c = 0; c < k; c++)
            for (int64_t j = 0; j < n; j++) row[j] += a[r * k + c] * b[c * n + j];
        for (int64_t j = 0; j < n; j++) {
            const int64_t to = i * m * n + r * n + j;
            float v = alpha * row[j];
            if (g->beta != 0) v += g->beta * get(g->d, g->num_y, to);
            if (g->num_y == NUM_BF16) ((uint16_t *)g->y)[to] = bf16_of(v);
            else ((float *)g->y)[to] = v;
        }
    }
    free(a); free(b); free(row);
}
static void run_noted(const void *g) { cuda_gemm(g); }
void cuda_gemm(const CudaGemm *g)
{
    cuda_scratch(SLOT_GEMM, CUDA_GEMM_WORK);    /* as the other one does */
    check(g);
    if (cuemu_note(run_noted, g, sizeof *g)) return;
    cuemu_access(1);
    for (int64_t i = 0; i < g->batch; i++) one(g, i);
    cuemu_access(0);
}
