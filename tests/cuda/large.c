/* The largest shapes: what a launch may be (blocks in y and z), and indices past 2^31. All launches are
 * made, but only their first and last blocks run, in memory that is nowhere but for the pages they touch.
 * The values are not looked at: a launch that a device would refuse ends the test, and so do, under
 * make check-asan, an index that overflows and, anywhere, most addresses that come of one. */
#define HARNESS_CUDA
#include "../ops/harness.h"
#include "ops/cuda/fp8.h"

#ifndef ON_DEVICE
void cuemu_sample(long blocks);
int cuemu_damaged(void);

enum { B = 64, T = 4096, N = B * T, C = 8192, H = 64, K = 8, D = 128, V = 1 << 18, ROWS = 1 << 14,
       M = 1 << 16, CACHES = 512, E = 128, PICKS = 8, F = 2048, WINDOW = 200 };
static const int64_t NC = (int64_t)N * C;
static const Ops *o;

static Act *acts(int64_t n) { return dev(o, NULL, (size_t)n * elem_size(true)); }
static real *reals(int64_t n) { return dev(o, NULL, (size_t)n * sizeof(real)); }
static int *ints(int64_t n) { return dev(o, NULL, (size_t)n * sizeof(int)); }
static void did(const char *what)
{
    ok(cuemu_damaged() == 0, "%s %s: the largest shapes", bf16 ? "bf16" : "fp32", what);
    dev_end(o);
}

static void elements(void)
{
    const Drop d = { .p = 0.25, .key = 1 };
    Act *x = acts(NC), *y = acts(NC), *z = acts(NC);
    real *a = reals(1), *b = reals(1);
    o->add(y, x, NC);
    o->relu2(y, x, NC);
    o->relu2_bwd(y, x, z, NC, 1);
    o->swiglu(y, x, z, NC);
    o->swiglu_bwd(y, z, x, y, z, NC, 1);
    o->dropout(y, x, NC, &d, 1);
    o->mix(y, x, a, z, b, 2, NC);
    o->mix_bwd(y, a, z, b, x, y, a, z, b, 2, NC);
    o->cast(y, reals(NC), NC);
    o->uncast(reals(NC), y, NC);
    did("element by element");
}
static void rows(void)
{
    Act *x = acts(NC), *y = acts(NC), *z = acts(NC);
    real *rstd = reals(N), *g = reals(C), *dg = reals(C);
    o->rmsnorm(y, rstd, x, N, C, 1e-5f);
    o->rmsnorm_bwd(z, x, y, rstd, N, C);
    o->mix_norm(y, z, rstd, x, g, x, dg, 2, N, C, 1e-5f);
    o->mix_norm_bwd(z, g, x, dg, z, x, y, rstd, x, g, y, dg, 2, N, C, 0);
    o->gain(y, x, g, N, C);
    o->gain_bwd(z, dg, y, x, g, N, C);
    o->gain_bwd(z, dg, y, x, g, N * H, D);      /* norms of heads: a row each */
    o->smear(y, x, NULL, NULL, NULL, g, dg, B, T, C, 24);
    o->smear_bwd(z, g, dg, y, x, NULL, g, dg, B, T, C, 24);
    o->embed(y, z, ints(N), N, C);
    o->vgate(y, x, z, ints(N), x, reals(H * 12), N, C, H, D, 12);
    did("by rows");
}
static void heads(void)
{
    Act *x = acts(NC), *y = acts(NC), *z = acts(NC);
    real *rstd = reals((int64_t)N * H), *tab = reals((int64_t)T * D);
    o->rope(y, rstd, x, tab, NULL, NULL, B, T, H, D, 1, 1, 1e-5f);
    o->rope_bwd(z, x, y, rstd, tab, NULL, B, T, H, D, 1, 1, 1);
    did("rope");
    Act *q = acts(NC), *dq = acts(NC), *dy = acts(NC), *k = acts(NC / H * K), *v = acts(NC / H * K),
        *dk = acts(NC / H * K), *dv = acts(NC / H * K);
    real *lse = reals((int64_t)N * H);
    y = acts(NC);
    o->attn(y, lse, q, k, v, NULL, B, T, H, K, D, WINDOW);
    o->attn_bwd(dq, dk, dv, dy, y, lse, q, k, v, NULL, B, T, H, K, D, WINDOW);
    did("attention");
}
static void cached(void)
{
    const int64_t all = (int64_t)CACHES * M * K * D, some = (int64_t)CACHES * H * D;
    Act *kc = acts(all), *vc = acts(all), *q = acts(some), *y = acts(some);
    int at[CACHES];
    for (int b = 0; b < CACHES; b++) at[b] = M - 1;
    const int *pos = dev(o, at, sizeof at);
    o->kv_put(kc, vc, q, y, pos, CACHES, 1, M, K, D);
    o->attn_kv(y, q, kc, vc, pos, CACHES, 1, M, H, K, D, WINDOW);
    did("a cache");
}
static void experts(void)
{
    const int64_t n = (int64_t)N * PICKS;
    Act *h = acts((int64_t)N * F), *x = acts(n * F), *y = acts(n * C), *w = acts((int64_t)E * F * C);
    real *p = reals((int64_t)N * E), *dp = reals((int64_t)N * E), *wt = reals(n), *gate = reals(E * F),
         *aux = reals(1), *dw = reals((int64_t)E * F * C);
    int *pick = ints(n), *slot = ints(n), *src = ints(n), *off = ints(E + 1), begin[E + 1];
    o->route(p, wt, pick, slot, src, off, aux, h, gate, N, F, E, PICKS, 1);
    for (int e = 0; e <= E; e++) begin[e] = (int)(n / E * e);
    o->put(off, begin, sizeof begin);
    o->route_bwd(h, gate, dp, p, wt, pick, off, h, gate, N, F, E, PICKS, 1, 0.01);
    o->experts(y, x, w, off, (int)n, E, F, C);
    o->experts_dx(x, y, w, off, (int)n, E, F, C, 1);
    for (int e = 0; e <= E; e++) begin[e] = (int)n - (E - e) * 64;      /* few rows: a block has them all */
    o->put(off, begin, sizeof begin);
    o->experts_dw(dw, y, x, off, (int)n, E, F, C);
    o->slots_add(h, x, wt, slot, N, PICKS, F);
    o->slots_add_bwd(x, wt, h, x, wt, slot, N, PICKS, F, 1);
    did("experts");
}
/* more tiles of rows than a launch has blocks in y */
static void many_rows(void)
{
    enum { n = 9 << 20, WIDE = 80 };
    Act *x = acts((int64_t)n * WIDE), *y = acts((int64_t)n * WIDE), *w = acts(2 * WIDE * WIDE);
    const int begin[] = { 0, n / 3, n };
    const int *off = dev(o, begin, sizeof begin);
    o->experts(y, x, w, off, n, 2, WIDE, WIDE);
    o->experts_dx(x, y, w, off, n, 2, WIDE, WIDE, 1);
    did("many rows of experts");
}
static void logits(void)
{
    Act *z = acts((int64_t)ROWS * V);
    real *loss = reals(ROWS), *l = reals((int64_t)ROWS * V);
    o->xent(loss, z, ints(ROWS), NULL, ROWS, V - 3, V, 15, 1);
    o->logits(l, z, ROWS, V - 3, V, 15);
    did("logits");
}
static void eight_bits(void)
{
    uint8_t *q = dev(o, NULL, (size_t)NC), *t = dev(o, NULL, (size_t)NC);
    float *scale = reals(2);
    cuda_fp8(q, t, scale, acts(NC), N, C, 0);
    did("eight bits");
    q = dev(o, NULL, (size_t)ROWS * V), t = dev(o, NULL, (size_t)ROWS * V), scale = reals(2);
    cuda_fp8(q, t, scale, acts((int64_t)ROWS * V), ROWS, V, 1);
    did("logits in eight bits");
}
int main(void)
{
    cuemu_sample(2);
    for (int h = 0; h < 2; h++) {
        bf16 = h;
        o = tier_ops("cuda", 1 + h);
        elements();
        rows();
        heads();
        cached();
        experts();
        many_rows();
        logits();
        if (h) eight_bits();
    }
    return done();
}
#else
int main(void)
{
    skip("blocks are left out by the emulator only", "the largest shapes");
    return done();
}
#endif
