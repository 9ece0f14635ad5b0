/* count.c -- a back-end that computes nothing and adds up what another would do: the plan of a run
 * (--dry-run), without its memory or time.
 *
 * Addresses come from a range that is reserved and never mapped: reading one is a crash. Bytes are
 * those of one pass over every array an operation must read or write.
 */
#include "ops/ops.h"
#include "base/err.h"
#include "ops/fp8.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static OpsCount *c;
static char *range; /* given out from the start; again from the start when all is freed */
static size_t used, range_size;

static Ops table;
enum { REAL = sizeof(real) };

/* `elements` Acts and what else in bytes. Last in each operation: products that were counted and not
 * told of yet are its own. */
#define moved(elements, others) moved_by(__func__ + 2, elements, others)
static void moved_by(const char *op, double elements, double others)
{
    const double bytes = elements * (double)table.act_size + others;
    double flops = c->flops_fwd + c->flops_bwd + c->flops_opt;
    OpsCountOf *of = c->by, *mine = NULL;
    for (; of->op; of++) {
        flops -= of->flops;
        if (strcmp(of->op, op) == 0) mine = of;
    }
    if (!mine) mine = of;
    mine->op = op;
    mine->flops += flops;
    mine->bytes += bytes;
    mine->calls++;
    c->calls++;
    c->bytes += bytes;
}
static double mul3(int a, int b, int d) { return (double)a * b * d; }

static void *n_alloc(size_t bytes)
{
    /* addresses of 0 bytes are distinct too */
    size_t n = bytes < SIZE_MAX - 4096 ? (bytes + 63) / 64 * 64 + 64 : bytes;
    if (n > range_size - used) die("out of memory asking for %zu bytes", bytes);
    void *p = range + used;
    used += n;
    c->mem += bytes;
    if (c->mem > c->mem_peak) c->mem_peak = c->mem;
    return p;
}
static void n_free(void *p, size_t bytes)
{
    if (!p) return;
    c->mem -= bytes < c->mem ? bytes : c->mem;
    if (c->mem == 0) used = 0;
}
static void n_zero(void *p, size_t n) { (void)p; moved(0, (double)n); }
static void n_copy(void *to, const void *from, size_t n)
{
    (void)to; (void)from;
    moved(0, 2 * (double)n);
}
static void n_put(void *d, const void *h, size_t n) { (void)d; (void)h; moved(0, (double)n); }
static void n_get(void *h, const void *d, size_t n)
{
    (void)d;
    if (n) memset(h, 0, n);
    moved(0, (double)n);
}
static void n_sync(void) {}
static void n_cast(Act *y, const real *x, int64_t n)
{
    (void)y; (void)x;
    moved((double)n, REAL * (double)n);
}
static void n_uncast(real *y, const Act *x, int64_t n)
{
    (void)y; (void)x;
    moved((double)n, REAL * (double)n);
}

/* What the back-end that is planned for keeps for an operation */
#define keeps(op, ...) do { if (c->room) c->room->op(&c->kept, __VA_ARGS__); } while (0)
/* acts, reals: elements read and written */
#define product(...) product_by(__func__ + 2, __VA_ARGS__)
static void product_by(const char *op, double *flops, int N, int C, int O, double acts,
                       double reals)
{
    *flops += 2 * mul3(N, C, O);
    moved_by(op, acts, REAL * reals);
}
static void n_linear(Act *y, const Act *x, const Act *w, int N, int C, int O, int beta)
{
    (void)y; (void)x; (void)w;
    keeps(linear, N, C, O);
    product(&c->flops_fwd, N, C, O, (double)N * C + (double)C * O + (beta ? 2. : 1.) * N * O, 0);
}
static void n_linear_dx(Act *dx, const Act *dy, const Act *w, int N, int C, int O, int beta)
{
    (void)dy; (void)w;
    if (!dx) return;
    keeps(linear_dx, N, C, O);
    product(&c->flops_bwd, N, C, O, (1. + beta) * N * C + (double)C * O + (double)N * O, 0);
}
static void n_linear_dw(real *dw, const Act *dy, const Act *x, int N, int C, int O)
{
    (void)dy; (void)x;
    if (!dw) return;
    keeps(linear_dw, N, C, O);
    product(&c->flops_bwd, N, C, O, (double)N * C + (double)N * O, 2. * C * O);
}
/* ---- in eight-bit floats. Quantising is told of by itself: each tensor is read twice and written,
 * once or both ways; weights both ways, when they are first seen. */
static struct { const Act **w; size_t n, cap; } met;
static void quantise(double elements, int ways) { moved_by("quantise", 0, (4. + ways) * elements); }
static void quantise_weights(const Act *w, int C, int O)
{
    for (size_t i = 0; i < met.n; i++) if (met.w[i] == w) return;
    if (met.n == met.cap) {
        met.cap = met.cap ? 2 * met.cap : 256;
        met.w = xreallocarray(met.w, met.cap, sizeof *met.w);
    }
    met.w[met.n++] = w;
    c->fp8_weights += fp8_weight_bytes(C, O);
    quantise((double)C * O, 2);
}
static void fp8_scratch(size_t bytes) { if (bytes > c->fp8_scratch) c->fp8_scratch = bytes; }
static void n_linear8(Act *y, const Act *x, const Act *w, int N, int C, int O, int beta)
{
    (void)y; (void)x;
    fp8_scratch(fp8_forward_bytes(N, C));
    quantise_weights(w, C, O);
    quantise((double)N * C, 1);
    c->flops_fwd += 2 * mul3(N, C, O);
    moved((1. + beta) * N * O, (double)C * O + (double)N * C);
}
static void n_linear8_bwd(Act *dx, real *dw, const Act *dy, const Act *x, const Act *w, int N, int C,
                          int O, int beta)
{
    (void)dy; (void)x;
    const double CO = (double)C * O, NC = (double)N * C, NO = (double)N * O;
    fp8_scratch(fp8_backward_bytes(N, C, O, dw != NULL));
    if (dx) quantise_weights(w, C, O);
    quantise(NO, !!dx + !!dw);
    if (dw) quantise(NC, 1);
    c->flops_bwd += 2 * mul3(N, C, O) * (!!dx + !!dw);
    moved(dx ? (1. + beta) * NC : 0, (dx ? CO + NO : 0) + (dw ? NC + NO + 2. * REAL * CO : 0));
}
static void n_embed(Act *y, const Act *w, const int *idx, int N, int C)
{
    (void)y; (void)w; (void)idx;
    moved(2 * (double)N * C, 4.0 * N);
}
/* bytes of one of s's numbers */
static double wide(Store s) { return s.w ? REAL : s.lo ? 4 : s.hi ? 2 : 0; }
static void n_store(Store to, const real *h, int64_t n) { (void)h; moved(0, wide(to) * (double)n); }
static void n_load(real *h, Store from, int64_t n)
{
    if (n) memset(h, 0, (size_t)n * sizeof *h);
    moved(0, wide(from) * (double)n);
}
static void n_embed_bwd(Store dw, const Act *dy, const int *idx, int N, int C, int V)
{
    (void)dy; (void)idx;
    if (!store_some(dw)) return;
    keeps(embed_bwd, N, V);
    moved((double)N * C, 2. * wide(dw) * N * C + 4.0 * N);
}
static void n_rmsnorm(Act *y, real *rstd, const Act *x, int N, int C, real eps)
{
    (void)y; (void)rstd; (void)x; (void)eps;
    moved(2 * (double)N * C, REAL * (double)N);
}
static void n_rmsnorm_bwd(Act *dx, const Act *dy, const Act *y, const real *rstd, int N, int C)
{
    (void)dy; (void)y; (void)rstd;
    if (dx) moved(4 * (double)N * C, REAL * (double)N);
}
static void n_gain(Act *y, const Act *x, const real *g, int N, int C)
{
    (void)y; (void)x; (void)g;
    moved(2 * (double)N * C, REAL * (double)C);
}
static void n_gain_bwd(Act *dx, real *dg, const Act *dy, const Act *x, const real *g, int N, int C)
{
    (void)dy; (void)x; (void)g;
    moved((1 + 2 * !!dx + !!dg) * (double)N * C, REAL * (1 + 2 * !!dg) * (double)C);
}
static void n_smear(Act *y, const Act *x, const Act *prev, const int *pos, const int *doc,
                    const real *w, const real *lam, int B, int T, int C, int G)
{
    (void)y; (void)x; (void)prev; (void)pos; (void)doc; (void)w; (void)lam; (void)G;
    moved(2 * mul3(B, T, C), 0);
}
static void n_smear_bwd(Act *dx, real *dw, real *dlam, const Act *dy, const Act *x,
                        const int *doc, const real *w, const real *lam, int B, int T, int C, int G)
{
    (void)dx; (void)dw; (void)dlam; (void)dy; (void)x; (void)doc; (void)w; (void)lam; (void)G;
    moved(4 * mul3(B, T, C), 0);
}
static void n_mix(Act *y, const Act *x, const real *a, const Act *z, const real *b, real s,
                  int64_t n)
{
    (void)y; (void)x; (void)a; (void)z; (void)b; (void)s;
    moved(3 * (double)n, 0);
}
static void n_mix_bwd(Act *dx, real *da, Act *dz, real *db, const Act *dy, const Act *x,
                      const real *a, const Act *z, const real *b, real s, int64_t n)
{
    (void)dy; (void)x; (void)a; (void)z; (void)b; (void)s;
    moved((1 + 2 * !!dx + 2 * !!dz + !!da + !!db) * (double)n, 0);
}
static void n_mix_norm(Act *u, Act *y, real *rstd, const Act *x, const real *a, const Act *z,
                       const real *b, real s, int N, int C, real eps)
{
    (void)u; (void)y; (void)rstd; (void)x; (void)a; (void)z; (void)b; (void)s; (void)eps;
    moved(4 * (double)N * C, REAL * (double)N);
}
static void n_mix_norm_bwd(Act *dx, real *da, Act *dz, real *db, Act *g, const Act *dy,
                           const Act *y, const real *rstd, const Act *x, const real *a,
                           const Act *z, const real *b, real s, int N, int C, int beta)
{
    (void)dy; (void)y; (void)rstd; (void)x; (void)a; (void)z; (void)b; (void)s;
    moved((3 + (dx != g) + (1 + beta) * !!dx + 2 * !!dz + !!da + !!db) * (double)N * C,
          REAL * (double)N);
}
static void n_vgate(Act *y, const Act *v, const Act *ve, const int *idx, const Act *h,
                    const real *w, int N, int C, int K, int D, int G)
{
    (void)y; (void)v; (void)ve; (void)idx; (void)h; (void)w; (void)C;
    moved(3 * mul3(N, K, D) + (double)N * G, 4.0 * N);
}
static void n_vgate_bwd(Act *dv, Store dve, Act *dh, real *dw, const Act *dy, const Act *ve,
                        const int *idx, const Act *h, const real *w, int N, int C, int K, int D,
                        int G, int V)
{
    (void)dh; (void)dw; (void)dy; (void)ve; (void)idx; (void)h; (void)w; (void)C;
    if (store_some(dve)) keeps(embed_bwd, N, V);
    moved((2 + 2 * !!dv) * mul3(N, K, D) + 3 * (double)N * G,
          2. * wide(dve) * mul3(N, K, D) + 4.0 * N);
}
static void n_rope(Act *y, real *rstd, const Act *x, const real *tab, const int *pos,
                   const int *doc, int B, int T, int H, int D, int sign, real scale, real eps)
{
    (void)y; (void)rstd; (void)x; (void)tab; (void)pos; (void)doc; (void)sign; (void)scale;
    (void)eps;
    moved(2.0 * D * mul3(B, T, H), REAL * mul3(B, T, H));
}
static void n_rope_bwd(Act *dx, const Act *dy, const Act *y, const real *rstd, const real *tab,
                       const int *doc, int B, int T, int H, int D, int sign, real scale, int beta)
{
    (void)dy; (void)y; (void)rstd; (void)tab; (void)doc; (void)sign; (void)scale;
    if (dx) moved((3.0 + beta) * D * mul3(B, T, H), REAL * mul3(B, T, H));
}

/* pairs (i, j) with j in [max(0, i - w), i] for T queries at positions p .. p + T - 1 */
static double pairs(double T, double p, int w)
{
    double full = T * p + T * (T + 1) / 2, seen = w;
    if (w <= 0 || p + T - 1 <= seen) return full;
    double before = seen > p ? seen - p : 0;        /* queries that see from 0 on */
    return before * p + before * (before + 1) / 2 + (T - before) * (seen + 1);
}
/* documents are on the device too: counted as one */
static void n_attn(Act *y, real *lse, const Act *q, const Act *k, const Act *v, const int *doc,
                   int B, int T, int H, int K, int D, int window)
{
    (void)y; (void)lse; (void)q; (void)k; (void)v; (void)doc;
    keeps(attn, B, T, K, D);
    c->flops_fwd += 4 * mul3(B, H, D) * pairs(T, 0, window);
    moved(2 * mul3(B, T, D) * (H + (double)K), REAL * mul3(B, T, H));
}
static void n_attn_bwd(Act *dq, Act *dk, Act *dv, const Act *dy, const Act *y, const real *lse,
                       const Act *q, const Act *k, const Act *v, const int *doc, int B, int T,
                       int H, int K, int D, int window)
{
    (void)dq; (void)dk; (void)dv; (void)dy; (void)y; (void)lse; (void)q; (void)k; (void)v;
    (void)doc;
    keeps(attn_bwd, B, T, H, K, D);
    c->flops_bwd += 10 * mul3(B, H, D) * pairs(T, 0, window);
    moved(mul3(B, T, D) * (5.0 * H + 6.0 * K), REAL * mul3(B, T, H));
}
static void n_attn_drop(Act *y, real *lse, const Act *q, const Act *k, const Act *v, const int *doc,
                        int B, int T, int H, int K, int D, int window, const Drop *d)
{
    (void)d;
    n_attn(y, lse, q, k, v, doc, B, T, H, K, D, window);
}
static void n_attn_drop_bwd(Act *dq, Act *dk, Act *dv, const Act *dy, const Act *y,
                            const real *lse, const Act *q, const Act *k, const Act *v,
                            const int *doc, int B, int T, int H, int K, int D, int window,
                            const Drop *d)
{
    (void)d;
    n_attn_bwd(dq, dk, dv, dy, y, lse, q, k, v, doc, B, T, H, K, D, window);
}
static void n_dropout(Act *y, const Act *x, int64_t n, const Drop *d, int beta)
{
    (void)y; (void)x; (void)d;
    moved((2 + beta) * (double)n, 0);
}
static void n_kv_put(Act *kc, Act *vc, const Act *k, const Act *v, const int *pos, int B, int T,
                     int M, int K, int D)
{
    (void)kc; (void)vc; (void)k; (void)v; (void)pos; (void)M;
    moved(4 * mul3(B, T, D) * K, 0);
}
/* positions are on the device: counted as if the cache were full after the call */
static void n_attn_kv(Act *y, const Act *q, const Act *kc, const Act *vc, const int *pos, int B,
                      int T, int M, int H, int K, int D, int window)
{
    (void)y; (void)q; (void)kc; (void)vc; (void)pos;
    double keys = window > 0 && (double)window + T < M ? (double)window + T : M;
    c->flops_fwd += 4 * mul3(B, H, D) * pairs(T, M > T ? M - T : 0, window);
    moved(2 * mul3(B, T, D) * H + 2 * (double)B * keys * K * D, 0);
}
static void n_relu2(Act *y, const Act *x, int64_t n) { (void)y; (void)x; moved(2 * (double)n, 0); }
static void n_relu2_bwd(Act *dx, const Act *dy, const Act *y, int64_t n, int beta)
{
    (void)dy; (void)y;
    if (dx) moved((3 + beta) * (double)n, 0);
}
static void n_swiglu(Act *y, const Act *a, const Act *b, int64_t n)
{
    (void)y; (void)a; (void)b;
    moved(3 * (double)n, 0);
}
static void n_swiglu_bwd(Act *da, Act *db, const Act *dy, const Act *a, const Act *b, int64_t n,
                         int beta)
{
    (void)dy; (void)a; (void)b;
    moved((3 + (1 + beta) * (!!da + !!db)) * (double)n, 0);
}
static void n_route(real *p, real *wt, int *pick, int *slot, int *src, int *off, real *aux,
                    const Act *h, const real *gate, int N, int C, int E, int k, int norm)
{
    (void)p; (void)wt; (void)pick; (void)slot; (void)src; (void)off; (void)aux; (void)h;
    (void)gate; (void)norm;
    product(&c->flops_fwd, N, C, E, (double)N * C, (double)E * C + (double)N * (E + 4.0 * k));
}
static void n_route_bwd(Act *dh, real *dgate, const real *dwt, const real *p, const real *wt,
                        const int *pick, const int *off, const Act *h, const real *gate, int N,
                        int C, int E, int k, int norm, double aux)
{
    (void)dwt; (void)p; (void)wt; (void)pick; (void)off; (void)h; (void)gate; (void)norm;
    (void)aux;
    keeps(route_bwd, N, E);
    product(&c->flops_bwd, N, C, E * (!!dh + !!dgate), (double)N * C * (2. * !!dh + !!dgate),
            (double)E * C * (!!dh + 2. * !!dgate) + (double)N * (E + 2.0 * k));
}
/* where experts begin is on the device too: each is counted as in use */
static void n_experts(Act *y, const Act *x, const Act *w, const int *off, int n, int E, int C,
                      int O)
{
    (void)y; (void)x; (void)w; (void)off;
    keeps(linear, n, C, O);
    product(&c->flops_fwd, n, C, O, (double)n * C + mul3(E, O, C) + (double)n * O, 0);
}
static void n_experts_dx(Act *dx, const Act *dy, const Act *w, const int *off, int n, int E, int C,
                         int O, int beta)
{
    (void)dy; (void)w; (void)off;
    if (!dx) return;
    keeps(linear_dx, n, C, O);
    product(&c->flops_bwd, n, C, O, (1. + beta) * n * C + mul3(E, O, C) + (double)n * O, 0);
}
static void n_experts_dw(real *dw, const Act *dy, const Act *x, const int *off, int n, int E,
                         int C, int O)
{
    (void)dy; (void)x; (void)off;
    if (!dw) return;
    keeps(linear_dw, n, C, O);
    product(&c->flops_bwd, n, C, O, (double)n * C + (double)n * O, 2 * mul3(E, O, C));
}
static void n_slots_add(Act *y, const Act *x, const real *wt, const int *slot, int N, int k, int C)
{
    (void)y; (void)x; (void)slot;
    moved((2. + k) * N * C, (4. + REAL * !!wt) * N * k);
}
static void n_slots_add_bwd(Act *dx, real *dwt, const Act *dy, const Act *x, const real *wt,
                            const int *slot, int N, int k, int C, int beta)
{
    (void)dy; (void)x; (void)wt; (void)slot;
    moved((1. + (1. + beta) * !!dx + !!dwt) * k * N * C, (4. + REAL * (1 + 2 * !!dwt)) * N * k);
}
static void n_add(Act *y, const Act *x, int64_t n) { (void)y; (void)x; moved(3 * (double)n, 0); }
static void n_xent(real *loss, Act *z, const int *tgt, const real *wt, int N, int V, int Vp,
                   real cap, real scale)
{
    (void)loss; (void)z; (void)tgt; (void)wt; (void)cap;
    keeps(xent, V);
    moved((double)N * V + (scale != 0 ? (double)N * Vp : 0), (REAL + 4.0) * N);
}
static void n_logits(real *l, const Act *z, int N, int V, int Vp, real cap)
{
    (void)l; (void)z; (void)Vp; (void)cap;
    moved((double)N * V, REAL * (double)N * V);
}
static void n_adamw(Store p, Store g, Store m, Store v, int64_t n, double lr, double b1, double b2,
                    double eps, double wd, double c1, double c2)
{
    (void)lr; (void)b1; (void)b2; (void)eps; (void)wd; (void)c1; (void)c2;
    moved(0, (2 * (wide(p) + wide(m) + wide(v)) + wide(g)) * (double)n);
}
static size_t n_muon_tmp(int count, int R, int K) { return ops_cpu(0)->muon_tmp(count, R, K); }
/* five steps of X X^T (n x n from n x m), A A and B X */
static void n_muon(Store p, real *g, real *m, real *s, void *tmp, int count, int R, int K,
                   double mu, double beta2, double lr, double wd)
{
    (void)p; (void)g; (void)m; (void)s; (void)tmp; (void)mu; (void)beta2; (void)lr; (void)wd;
    double a = R < K ? R : K, b = R < K ? K : R;
    keeps(muon, R, K);
    c->flops_opt += count * 5 * (4 * a * a * b + 2 * a * a * a);
    moved(0, REAL * count * (7 * a * b + 5 * (4 * a * b + 5 * a * a)));
}
static void n_sumsq(double *out, Store x, int64_t n)
{
    (void)out;
    moved(0, wide(x) * (double)n + 8);
}
static void n_sum(double *out, const real *x, int64_t n)
{
    (void)out; (void)x;
    moved(0, REAL * (double)n + 8);
}
static void n_scale(Store x, double s, int64_t n)
{
    (void)s;
    moved(0, 2 * wide(x) * (double)n);
}
static void n_lerp(real *y, Store x, double a, int64_t n)
{
    (void)y; (void)a;
    moved(0, (2. * REAL + wide(x)) * (double)n);
}
static void n_exchange(Store p, real *x, int64_t n)
{
    (void)x;
    moved(0, 2 * (REAL + wide(p)) * (double)n);
}

static Ops table = {
    .name = "count", .alloc = n_alloc, .free = n_free,
    .zero = n_zero, .copy = n_copy, .put = n_put, .get = n_get, .sync = n_sync, .cast = n_cast,
    .uncast = n_uncast, .linear = n_linear, .linear_dx = n_linear_dx, .linear_dw = n_linear_dw,
    .embed = n_embed, .embed_bwd = n_embed_bwd, .rmsnorm = n_rmsnorm, .rmsnorm_bwd = n_rmsnorm_bwd,
    .gain = n_gain, .gain_bwd = n_gain_bwd, .swiglu = n_swiglu, .swiglu_bwd = n_swiglu_bwd,
    .route = n_route, .route_bwd = n_route_bwd, .experts = n_experts, .experts_dx = n_experts_dx,
    .experts_dw = n_experts_dw, .slots_add = n_slots_add, .slots_add_bwd = n_slots_add_bwd,
    .smear = n_smear, .smear_bwd = n_smear_bwd, .mix = n_mix, .mix_bwd = n_mix_bwd,
    .mix_norm = n_mix_norm, .mix_norm_bwd = n_mix_norm_bwd,
    .vgate = n_vgate, .vgate_bwd = n_vgate_bwd, .rope = n_rope, .rope_bwd = n_rope_bwd,
    .dropout = n_dropout, .attn_drop = n_attn_drop, .attn_drop_bwd = n_attn_drop_bwd,
    .attn = n_attn, .attn_bwd = n_attn_bwd, .kv_put = n_kv_put, .attn_kv = n_attn_kv,
    .relu2 = n_relu2, .relu2_bwd = n_relu2_bwd, .add = n_add, .xent = n_xent, .logits = n_logits,
    .adamw = n_adamw, .muon_tmp = n_muon_tmp, .muon = n_muon, .sumsq = n_sumsq, .scale = n_scale,
    .lerp = n_lerp, .sum = n_sum, .exchange = n_exchange, .store = n_store, .load = n_load,
};

const Ops *ops_count(OpsCount *count, const char *dtype)
{
    const int fp8 = strcmp(dtype, "fp8") == 0;
    c = count;
    met.n = 0;
    table.linear8 = fp8 ? n_linear8 : NULL;
    table.linear8_bwd = fp8 ? n_linear8_bwd : NULL;
    table.dtype = dtype;
    table.act_size = fp8 || strcmp(dtype, "bf16") == 0 ? 2 : sizeof(real);
    used = 0;
    for (size_t n = (size_t)1 << (sizeof n > 4 ? 46 : 30); !range && n > 1 << 20; n /= 2) {
        void *p = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p != MAP_FAILED) range = p, range_size = n;
    }
    if (!range) die("no address space to count in:");
    return &table;
}
