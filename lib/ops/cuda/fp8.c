/* fp8.c -- linear maps in eight-bit floats (ops/fp8.h), for passes that record.
 *
 * cublasLt multiplies them only where both lie along what is summed over (on Ada and Hopper): so dx
 * takes the weights transposed, and dw both dy and x. Scales stay on the device; nothing waits.
 *
 * Weights change once a step and are used by every micro-batch, lm_head's by every chunk of it: they are
 * kept quantised, both ways, until something is written to where they came from. What a graph notes
 * down must not lean on what was kept before it, nor what comes after on what it only noted down:
 * graphs begin and end with nothing kept. So a micro-batch that is run as a graph makes them itself,
 * once; only where there are no graphs do all micro-batches of a step share them. */
#include "ops/cuda/cuda.h"
#include "ops/cuda/fp8.h"
#include "ops/cuda/gemm.h"
#include "ops/fp8.h"
#include "base/err.h"
#include <stdlib.h>

/* q [rows,cols], t [cols,rows padded]; scale: s, 1 / s */
typedef struct Quant { uint8_t *q, *t; float *scale; } Quant;
typedef struct Weight {
    const char *w;                      /* [O,C] */
    int C, O, fresh;
    Quant quant;
} Weight;
static Weight *weights;
static int nweight, capweight;

static size_t weight_size(const Weight *w) { return 2 * (size_t)w->C * (size_t)w->O; }
static int overlaps(const Weight *w, const char *p, size_t bytes)
{
    return w->w < p + bytes && p < w->w + weight_size(w);
}
void cuda_fp8_forget(const void *p, size_t bytes)
{
    for (int i = 0; i < nweight; i++)
        if (!p || overlaps(&weights[i], p, bytes)) weights[i].fresh = 0;
}
void cuda_fp8_free(const void *p, size_t bytes)
{
    for (int i = 0; p && i < nweight; i++) {
        if (!overlaps(&weights[i], p, bytes)) continue;
        const Weight gone = weights[i];
        weights[i--] = weights[--nweight];
        cuda_free(gone.quant.q, fp8_weight_bytes(gone.C, gone.O));
    }
}
static Weight *weight_new(const void *w, int C, int O)
{
    if (nweight == capweight) {
        capweight = capweight ? 2 * capweight : 64;
        weights = xreallocarray(weights, (size_t)capweight, sizeof *weights);
    }
    const size_t n = fp8_block((int64_t)C * O);
    uint8_t *q = cuda_alloc(fp8_weight_bytes(C, O));
    weights[nweight] = (Weight){ w, C, O, 0, { q, q + n, (float *)(void *)(q + 2 * n) } };
    return &weights[nweight++];
}
static const Quant *quantised(const void *w, int C, int O)
{
    Weight *k = NULL;
    for (int i = 0; i < nweight && !k; i++)
        if (weights[i].w == w && weights[i].C == C && weights[i].O == O) k = &weights[i];
    if (!k) k = weight_new(w, C, O);
    if (!k->fresh) cuda_fp8(k->quant.q, k->quant.t, k->quant.scale, w, O, C, 0);
    k->fresh = 1;
    return &k->quant;
}

/* y [m,n] = beta y + a [m,k] b [n,k]^T */
static void product(void *y, CudaNum num_y, const uint8_t *a, const float *scale_a, CudaNum num_a,
                    const uint8_t *b, const float *scale_b, int m, int n, int k, int beta, int fast)
{
    cuda_gemm(&(CudaGemm){ .y = y, .d = y, .a = a, .b = b, .m = m, .n = n, .k = k, .tb = 1,
                           .batch = 1, .num_a = num_a, .num_b = NUM_E4M3, .num_y = num_y, .alpha = 1,
                           .beta = (float)beta, .scale_a = scale_a + 1, .scale_b = scale_b + 1,
                           .fast = fast });
}
void cuda_linear8(Act *y, const Act *x, const Act *w, int N, int C, int O, int beta)
{
    if (N <= 0) return;
    const Quant *qw = quantised(w, C, O);
    uint8_t *q = cuda_scratch(SLOT_FP8, fp8_forward_bytes(N, C));
    float *scale = (float *)(void *)(q + fp8_block((int64_t)N * C));
    cuda_fp8(q, NULL, scale, x, N, C, 0);
    product(y, NUM_BF16, q, scale, NUM_E4M3, qw->q, qw->scale, N, O, C, beta, 1);
}
void cuda_linear8_bwd(Act *dx, real *dw, const Act *dy, const Act *x, const Act *w, int N, int C,
                      int O, int beta)
{
    if (N <= 0 || (!dx && !dw)) return;
    const int P = (int)fp8_padded(N);
    uint8_t *q = cuda_scratch(SLOT_FP8, fp8_backward_bytes(N, C, O, dw != NULL)),
            *t = dw ? q + fp8_block((int64_t)N * O) : NULL,
            *tx = dw ? t + fp8_block((int64_t)P * O) : NULL,
            *last = dw ? tx + fp8_block((int64_t)P * C) : q + fp8_block((int64_t)N * O);
    float *scale = (float *)(void *)last;
    cuda_fp8(dx ? q : NULL, t, scale, dy, N, O, 1);
    if (dx) {
        const Quant *qw = quantised(w, C, O);
        product(dx, NUM_BF16, q, scale, NUM_E5M2, qw->t, qw->scale, N, C, O, beta, 0);
    }
    if (dw) {
        cuda_fp8(NULL, tx, scale + 2, x, N, C, 0);
        product(dw, NUM_F32, t, scale, NUM_E5M2, tx, scale + 2, O, C, P, 1, 0);
    }
}
