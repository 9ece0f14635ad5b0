/* What is not one operation's arithmetic: picking a back-end, memory, caches in chunks, NaN, the
 * vector exp and tanh, and the counting back-end. Also as double (REAL_F64). */
#include "harness.h"
#include "base/err.h"

#define TIER_FN(fn)                                                                                \
    void cpu_##fn##_base(real *, const real *, int64_t);                                           \
    void cpu_##fn##_avx2(real *, const real *, int64_t);                                           \
    void cpu_##fn##_avx512(real *, const real *, int64_t)
TIER_FN(exp_n);
TIER_FN(exp2_n);
TIER_FN(tanh_n);
typedef void VecFn(real *, const real *, int64_t);

/* error in units in the last place of the exact value, subnormals counted as the smallest normal */
static double ulps(real got, double want)
{
    if ((double)got == want || (isnan(got) && isnan(want))) return 0;
    if (isinf(want) || isinf(got))
        return (double)got == want || (isinf(got) && want > 3.4e38) ? 0 : INFINITY;
    int e;
    frexp(want, &e);
    int least = sizeof(real) == 8 ? -1021 : -125, bits = sizeof(real) == 8 ? 53 : 24;
    return fabs((double)got - want) / ldexp(1, (e < least ? least : e) - bits);
}
static void check_fn(const char *name, VecFn *f, double (*exact)(double), double lo, double hi,
                     double most)
{
    enum { N = 200003 };
    real *x = random_reals(N, lo, hi), *y = must(malloc(N * sizeof *y)), at = 0;
    const real special[] = { 0,         -(real)0, (real)1e-30, (real)-1e-30, (real)0.625, INFINITY,
                             -INFINITY, NAN,      89,          -104,         88,          -88 };
    memcpy(x, special, sizeof special);
    for (int i = 20; i < 20000; i++)
        x[i] = (real)((double)x[i] * exp(-(double)(i % 300) / 10)); /* small ones */
    f(y, x, N);
    double worst = 0;
    for (int i = 0; i < N; i++) {
        double e = ulps(y[i], exact((double)x[i]));
        if (!(e <= worst)) worst = e, at = x[i];
    }
    ok(worst <= most, "%s: at most %.2f ulp, at %.9g", name, worst, (double)at);
    ok(!signbit(y[1]) == !signbit(exact(-0.0)), "%s(-0)", name);
    free(x); free(y);
}
/* 2^x as softmax needs it: nothing above 127, exactly 0 from below 2^-126 on, NaN kept */
static void check_exp2(const char *name, VecFn *f)
{
    enum { N = 100003 };
    real *x = random_reals(N, -126, 127), *y = must(malloc(N * sizeof *y));
    const real special[] = { 0, -(real)0, -126, 127, NAN, -INFINITY, (real)-1e30, -127, 1, -1 };
    memcpy(x, special, sizeof special);
    for (int i = 20; i < 50000; i++) x[i] = -x[i] * x[i] / 4000;
    f(y, x, N);
    double worst = 0;
    const int is_float = sizeof(real) == sizeof(float);
    for (int i = 10; i < N; i++) worst = fmax(worst, ulps(y[i], exp2((double)x[i])));
    ok(worst <= 1.5, "%s: at most %.2f ulp", name, worst);
    ok(y[0] == 1 && y[1] == 1 && y[2] == (real)0x1p-126 && y[3] == (real)0x1p127 && isnan(y[4]) &&
           y[5] == 0 && y[6] == 0 && (y[7] == 0 || !is_float) && y[8] == 2 && y[9] == (real)0.5,
       "%s: what must be exact is", name);
    free(x); free(y);
}
static void check_fns(void)
{
    /* libm does it in the double build; there the "exact" one is the same function */
    check_fn("exp base", cpu_exp_n_base, exp, -110, 95, 1.5);
    check_exp2("exp2 base", cpu_exp2_n_base);
    check_fn("tanh base", cpu_tanh_n_base, tanh, -12, 12, 2);
#ifdef __x86_64__
    if (tier_runs("avx2")) {
        check_fn("exp avx2", cpu_exp_n_avx2, exp, -110, 95, 1.5);
        check_exp2("exp2 avx2", cpu_exp2_n_avx2);
        check_fn("tanh avx2", cpu_tanh_n_avx2, tanh, -12, 12, 2);
    }
    if (tier_runs("avx512")) {
        check_fn("exp avx512", cpu_exp_n_avx512, exp, -110, 95, 1.5);
        check_exp2("exp2 avx512", cpu_exp2_n_avx512);
        check_fn("tanh avx512", cpu_tanh_n_avx512, tanh, -12, 12, 2);
    }
#endif
}

typedef struct OpenArgs { const char *device, *dtype, *cpu; } OpenArgs;
static void try_open(void *arg)
{
    OpenArgs *a = arg;
    if (a->cpu) setenv("PIPEGPT_CPU", a->cpu, 1);
    ops_open(a->device, a->dtype, 1);
    _exit(0);
}
static int opens(const char *device, const char *dtype)
{
    return dies(0, "", try_open, &(OpenArgs){ device, dtype, NULL });
}
static int fails(int code, const char *text, const char *device, const char *dtype, const char *cpu)
{
    return dies(code, text, try_open, &(OpenArgs){ device, dtype, cpu });
}
static void ask(void *o) { ((const Ops *)o)->alloc(SIZE_MAX / 2 + 1); }
static void ask_less(void *o)
{
#ifdef __SANITIZE_ADDRESS__             /* ends in its own way when malloc fails */
    ask(o);
#endif
    ((const Ops *)o)->alloc((size_t)1 << 62);
}

static void ask_threads(void *unused)
{
    (void)unused;
    const Ops *o = ops_cpu(2000000000);
    enum { N = 64 };
    real x[N * N] = { 0 }, y[N * N];
    o->linear((Act *)y, (Act *)x, (Act *)x, N, N, N, 0);
    o->rmsnorm((Act *)y, NULL, (Act *)x, N, N, 1);
    _exit(y[0] == 0 ? 0 : 3);
}

static void check_open(void)
{
    ok(dies(0, "", ask_threads, NULL), "two thousand million threads are asked for and not taken");
    unsetenv("PIPEGPT_CPU");
    ok(opens("auto", "auto") && opens("cpu", "fp32") && opens("auto", "fp32"), "auto and cpu open");
    if (sizeof(real) == sizeof(float)) ok(opens("auto", "bf16"), "bf16 opens");
    else ok(fails(1, "double", "cpu", "bf16", NULL), "no bf16 beside doubles");
#if defined HAVE_CUDA && !defined REAL_F64
    if (opens("cuda", "auto")) skip("it is here", "cuda is not here");
    else ok(fails(1, "no device can be used", "cuda", "auto", NULL), "cuda is not here");
#else
    ok(fails(1, "built without CUDA", "cuda", "auto", NULL), "cuda is not here");
#endif
    ok(fails(1, "cuda:99", "cuda:99", "auto", NULL), "nor is cuda:99");
    ok(fails(2, "--device", "cuda:", "auto", NULL) && fails(2, "--device", "cuda:1x", "auto", NULL),
       "a bad number");
    ok(fails(2, "--device", "gpu", "auto", NULL) && fails(2, "--device", "", "auto", NULL),
       "an unknown device");
    ok(fails(2, "--dtype", "cpu", "fp16", NULL), "an unknown dtype");
    ok(fails(1, "not on the CPU", "cpu", "fp8", NULL), "fp8 needs a GPU");
    ok(fails(1, "PIPEGPT_CPU=sse9", "cpu", "auto", "sse9"), "an unknown tier");
    for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++) {
        if (!cpu_runs(tiers[i])) {
            ok(fails(1, "cannot run it", "cpu", "auto", tiers[i]) ||
                   fails(1, "not known", "cpu", "auto", tiers[i]),
               "%s refused here", tiers[i]);
            continue;
        }
        const Ops *o = tier_ops(tiers[i], 1);
        if (sizeof(real) == sizeof(float)) {
            const char *name = ops_open("cpu", "bf16", 1)->name;
            ok(strncmp(name, "cpu ", 4) == 0 && strcmp(name + 4, tiers[i]) == 0,
               "%s is what opens", name);
        }
        ok(strcmp(o->dtype, "fp32") == 0 && o->act_size == sizeof(real), "%s: an Act is a real",
           o->name);
        ok(dies(1, "out of memory asking for", ask, (void *)o) &&
               dies(1, "out of memory asking for", ask_less, (void *)o),
           "%s: no memory", o->name);
    }
}
static void check_memory(const Ops *o)
{
    int bad = 0;
    for (int i = 0; i < 5; i++) {
        size_t n = (size_t[]){ 0, 1, 63, 4097, (5 << 20) + 3 }[i];
        unsigned char *p = o->alloc(n), *q = o->alloc(n);
        bad += (uintptr_t)p % 64 != 0 || p == q;
        for (size_t j = 0; j < n; j++) bad += p[j] != 0;
        for (size_t j = 0; j < n; j++) p[j] = (unsigned char)(j * 7 + 1);
        o->copy(q, p, n);
        bad += n && memcmp(p, q, n) != 0;
        o->zero(p, n);
        for (size_t j = 0; j < n; j++) bad += p[j] != 0;
        o->put(p, q, n);
        o->get(q, p, n);
        for (size_t j = 0; j < n; j++) bad += q[j] != (unsigned char)(j * 7 + 1);
        o->free(p, n);
        o->free(q, n);
    }
    ok(bad == 0, "memory: zeroed, aligned, copied");
    real x[5] = { 1, 2, 3, 4, 5 }, y[5] = { 0 };
    Act a[5];
    o->cast(a, x, 5);
    o->uncast(y, a, 5);
    ok(memcmp(x, y, sizeof x) == 0, "cast and back");
}

#ifndef REAL_F64
/* bf16: what a cast gives is the nearest (of two as near, the even one), and NaN stays NaN */
static uint16_t nearest(float x)
{
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    double down = bf16_value(b >> 16), up = bf16_value((b >> 16) + 1);
    if (isinf(up)) up = copysign(0x1p128, up);          /* as if the exponents went on */
    double a = fabs((double)x - down), c = fabs((double)x - up);
    return (uint16_t)((b >> 16) + (isinf(x) ? 0 : a > c || (a == c && (b >> 16 & 1))));
}
static void check_cast(const Ops *o)
{
    enum { N = 300001, BITS = 65536 };
    float *x = must(malloc(N * sizeof *x));
    uint16_t *y = must(malloc(N * sizeof *y)), all[BITS], back[BITS];
    for (int i = 0; i < BITS; i++) all[i] = (uint16_t)i;
    o->uncast(x, (void *)all, BITS);
    int bad = 0;
    for (int i = 0; i < BITS; i++) {
        uint32_t b;
        memcpy(&b, x + i, sizeof b);
        bad += b != (uint32_t)i << 16;
    }
    o->cast((void *)back, x, BITS);
    for (int i = 0; i < BITS; i++)
        bad += (back[i] | (isnan(x[i]) ? 0x40 : 0)) != (all[i] | (isnan(x[i]) ? 0x40 : 0));
    ok(bad == 0, "%s: every bfloat16 becomes the float it is, and comes back", o->name);
    for (int i = 0; i < N; i++) {               /* any bits, and halves between two */
        uint32_t b = (uint32_t)(uniform(0, 0x1p32));
        if (i % 3 == 0) b = (b & 0xffff0000u) | 0x8000u;
        if (i % 100 == 0) b = (b & 0x80000000u) | (0x7f7f0000u + (b & 0xffff));
        if (i % 101 == 0) b = (b & 0x80000000u) | 0x7f800001u;      /* NaN by its last bit */
        memcpy(x + i, &b, sizeof b);
    }
    o->cast((void *)y, x, N);
    bad = 0;
    for (int i = 0; i < N; i++)
        bad += isnan(x[i]) ? !isnan(elem_get(y, true, i)) : y[i] != nearest(x[i]);
    ok(bad == 0, "%s: cast to the nearest bfloat16", o->name);
    free(x); free(y);
}
#endif

/* What one document holds changes no bit of another. */
static void check_documents(const Ops *o)
{
    enum { T = 200, H = 2, D = 33, CUT = 77, N = T * H * D };
    int doc[T];
    for (int t = 0; t < T; t++) doc[t] = t < CUT ? 0 : CUT;
    void *q = random_elems(true, N, -2, 2), *k = random_elems(true, N, -2, 2),
         *v = random_elems(true, N, -1, 1), *dy = random_elems(true, N, -1, 1);
    const size_t e = elem_size(true), first = (size_t)(CUT * H * D) * e, all = N * e;
    void *y[2], *d[2][3];
    for (int i = 0; i < 2; i++) {
        real lse[T * H];
        y[i] = must(calloc(1, all));
        for (int j = 0; j < 3; j++) d[i][j] = must(calloc(1, all));
        o->attn(y[i], lse, q, k, v, doc, 1, T, H, H, D, 0);
        o->attn_bwd(d[i][0], d[i][1], d[i][2], dy, y[i], lse, q, k, v, doc, 1, T, H, H, D, 0);
        for (int64_t n = 0; n < CUT * H * D; n++) {
            void *at[] = { q, k, v, dy };
            for (int j = 0; j < 4; j++) elem_set(at[j], true, n, uniform(-9, 9));
        }
    }
    int bad = memcmp((char *)y[0] + first, (char *)y[1] + first, all - first) != 0;
    for (int j = 0; j < 3; j++)
        bad += memcmp((char *)d[0][j] + first, (char *)d[1][j] + first, all - first) != 0;
    ok(bad == 0, "%s %s: a document's attention does not depend on the one before", o->name,
       o->dtype);
    free(q); free(k); free(v); free(dy);
    for (int i = 0; i < 2; i++) {
        free(y[i]);
        for (int j = 0; j < 3; j++) free(d[i][j]);
    }
}

/* a row fed to the cache in chunks gives what attn gives at once */
static void check_chunks(const Ops *o, int T, int window)
{
    enum { H = 4, K = 2, D = 17, M = 200 };
    real *q = random_reals((int64_t)T * H * D, -2, 2), *k = random_reals((int64_t)T * K * D, -2, 2);
    real *v = random_reals((int64_t)T * K * D, -1, 1), *y = random_reals((int64_t)T * H * D, 0, 1);
    real *z = random_reals((int64_t)T * H * D, 0, 1), *lse = random_reals((int64_t)T * H, 0, 1);
    real *kc = random_reals(2 * M * K * D, -9, 9), *vc = random_reals(2 * M * K * D, -9, 9),
         *keep = dup_bytes(kc, 2 * M * K * D * sizeof *kc);
    o->attn(y, lse, q, k, v, NULL, 1, T, H, K, D, window);
    double worst = 0;
    int at = 0;
    for (int i = 0; at < T; i++) {
        int n = (int[]){ 1, 5, 2, 70, 3 }[i % 5];
        if (n > T - at) n = T - at;
        o->kv_put(kc + M * K * D, vc + M * K * D, k + at * K * D, v + at * K * D, &at, 1, n, M, K,
                  D);
        o->attn_kv(z + at * H * D, q + at * H * D, kc + M * K * D, vc + M * K * D, &at, 1, n, M, H,
                   K, D, window);
        at += n;
    }
    for (int i = 0; i < T * H * D; i++) worst = fmax(worst, fabs((double)z[i] - (double)y[i]));
    ok(worst <= 16 * unit, "%s: attn_kv in chunks, T %d window %d: off by %.1f u", o->name, T,
       window, worst / unit);
    ok(memcmp(keep, kc, M * K * D * sizeof *kc) == 0 &&
           memcmp(keep + (M + T) * K * D, kc + (M + T) * K * D,
                  (size_t)(M - T) * K * D * sizeof *kc) == 0 &&
           memcmp(kc + M * K * D, k, (size_t)T * K * D * sizeof *kc) == 0,
       "%s: kv_put writes its positions only", o->name);
    free(q); free(k); free(v); free(y); free(z); free(lse); free(kc); free(vc); free(keep);
}
/* A NaN must not get lost on its way to the loss. */
static void check_nan(const Ops *o)
{
    enum { N = 6, C = 40 };
    real *x = random_reals(N * C, -1, 1), *w = random_reals(C * C, -1, 1),
         *y = random_reals(N * C, -1, 1), u[N * C], r[N], loss[N];
    int tgt[N] = { 0 };
    x[2 * C + 39] = NAN;
    o->linear(y, x, w, N, C, C, 0);
    ok(isnan(y[2 * C]) && !isnan(y[3 * C]), "%s: NaN through linear", o->name);
    o->relu2(y, x, N * C);
    ok(isnan(y[2 * C + 39]), "%s: NaN through relu2", o->name);
    o->rmsnorm(y, r, x, N, C, (real)1e-6);
    ok(isnan(y[2 * C]) && !isnan(y[3 * C]), "%s: NaN through rmsnorm", o->name);
    o->mix_norm(u, y, r, w, NULL, x, NULL, 1, N, C, (real)1e-6);
    ok(isnan(u[2 * C + 39]) && isnan(y[2 * C]) && !isnan(y[3 * C]), "%s: NaN through mix_norm",
       o->name);
    o->attn(y, loss, x, x, x, NULL, 1, N, 1, 1, C, 0);
    ok(isnan(y[2 * C + 39]) && !isnan(y[C]), "%s: NaN through attn", o->name);
    o->xent(loss, x, tgt, NULL, N, C, C, 15, 0);
    ok(isnan(loss[2]) && !isnan(loss[1]), "%s: NaN through xent", o->name);
    free(x); free(w); free(y);
}
#define A(p) ((Act *)(p))
/* However large scores are, of either sign, a query that one key is far ahead for gets that key's value:
 * in blocks, in a cache, and a few queries alone. */
static void check_large_scores(const Ops *o, double size)
{
    enum { T = 9, D = 4, N = T * D };
    const int pos = 0;
    int bad = 0;
    for (int sign = -1; sign <= 1; sign += 2)
        for (int few = 0; few < 2; few++) {
            real *q = random_reals(N, 0.5, 1), *k = random_reals(N, 0, 1), *v = random_reals(N, -1, 1),
                 y[2][N], lse[T];
            const int n = few ? 2 : T;
            for (int t = 0; t < T; t++)
                for (int d = 0; d < D; d++) {           /* the first key for -1, the last for 1 */
                    q[t * D + d] *= (real)sqrt(size);
                    k[t * D + d] = (real)(sign * sqrt(size) * (t + 1));
                }
            o->attn(A(y[0]), lse, A(q), A(k), A(v), NULL, 1, n, 1, 1, D, 0);
            o->attn_kv(A(y[1]), A(q), A(k), A(v), &pos, 1, n, T, 1, 1, D, 0);
            for (int i = 0; i < n * D; i++) {
                const double want = (double)v[sign < 0 ? i % D : i];
                for (int j = 0; j < 2; j++) bad += !(fabs((double)y[j][i] - want) <= 4 * unit);
            }
            free(q), free(k), free(v);
        }
    ok(bad == 0, "%s: attention with scores of %g", o->name, size);
}
/* gradient rows of ignored targets and padding columns are 0 whatever was there */
static void check_xent_zeros(const Ops *o)
{
    enum { N = 3, V = 37, Vp = 64 };
    real *z = random_reals(N * Vp, -1, 1), loss[N];
    const int tgt[N] = { 1, -1, 36 };
    for (int n = 0; n < N; n++) for (int v = V; v < Vp; v++) z[n * Vp + v] = NAN;
    z[Vp] = NAN;
    o->xent(loss, z, tgt, NULL, N, V, Vp, 15, 1);
    int bad = loss[1] != 0;
    for (int n = 0; n < N; n++)
        for (int v = 0; v < Vp; v++)
            if (v >= V || n == 1) bad += z[n * Vp + v] != 0;
    ok(bad == 0, "%s: xent: padding columns and ignored rows get gradient 0", o->name);
    free(z);
}

static int64_t brute_pairs(int T, int w)
{
    int64_t n = 0;
    for (int i = 0; i < T; i++) for (int j = 0; j <= i; j++) n += w <= 0 || j >= i - w;
    return n;
}
static void check_count(void)
{
    OpsCount c = { 0 };
    const Ops *o = ops_count(&c, "fp32");
    const size_t r = sizeof(real);
    real *x = o->alloc(1000), *y = o->alloc((size_t)1 << 40), *z = o->alloc(0);
    ok(x && y && z && x != y && y != z && (uintptr_t)y % 64 == 0,
       "count: distinct addresses, a terabyte too");
    ok(c.mem == 1000 + ((size_t)1 << 40) && c.mem_peak == c.mem, "count: memory");
    o->free(y, (size_t)1 << 40);
    ok(c.mem == 1000 && c.mem_peak > c.mem, "count: peak");
    o->linear(A(y), A(x), A(z), 7, 5, 3, 0);
    ok(c.flops_fwd == 210 && c.bytes == (double)((35 + 15 + 21) * r) && c.calls == 1,
       "count: linear");
    o->linear_dx(A(y), A(x), A(z), 7, 5, 3, 1);
    o->linear_dw(y, A(x), A(z), 7, 5, 3);
    o->linear_dw(NULL, A(x), A(z), 7, 5, 3);
    ok(c.flops_bwd == 420 && c.calls == 3, "count: its backward; a NULL gradient costs nothing");
    ok(!strcmp(c.by[0].op, "linear") && c.by[0].flops == 210 && c.by[0].calls == 1 &&
           !strcmp(c.by[1].op, "linear_dx") && c.by[1].flops == 210 && !strcmp(c.by[2].op, "linear_dw") &&
           c.by[0].bytes + c.by[1].bytes + c.by[2].bytes == c.bytes && !c.by[3].op,
       "count: by operation");
    int bad = 0;
    for (int T = 1; T < 40; T++)
        for (int w = 0; w < 45; w++) {
            c.flops_fwd = c.flops_bwd = 0;
            o->attn(A(y), x, A(x), A(x), A(x), NULL, 2, T, 3, 1, 8, w);
            o->attn_bwd(A(y), A(y), A(y), A(x), A(x), x, A(x), A(x), A(x), NULL, 2, T, 3, 1, 8, w);
            double want = 2.0 * 3 * 8 * (double)brute_pairs(T, w);
            bad += c.flops_fwd != 4 * want || c.flops_bwd != 10 * want;
        }
    ok(bad == 0, "count: attention by the pairs that are seen");
    o->muon(store_real(x), y, x, y, z, 2, 6, 10, 0, 0, 0, 0);
    ok(c.flops_opt == 2 * 5 * 2 * (6 * 6 * 10 + 6 * 6 * 6 + 6 * 6 * 10.), "count: muon");
    ok(o->muon_tmp(2, 6, 10) == tier_ops("base", 1)->muon_tmp(2, 6, 10),
       "count: muon's workspace is the CPU's");
    real got[3] = { 1, 2, 3 };
    o->get(got, x, sizeof got);
    ok(got[0] == 0 && got[2] == 0, "count: get gives zeros");
    ok(c.kept.packed + c.kept.stage + c.kept.scratch + c.kept.rows == 0,
       "count: nothing is kept for operations where nobody says what");
}
/* What operations are said to keep: of each kind the largest, more for more threads where each has its
 * own, and none where they do without. */
static void check_kept(const char *tier)
{
    OpsCount c = { .room = tier_ops(tier, 1)->room };
    const Ops *o = ops_count(&c, bf16 ? "bf16" : "fp32");
    const size_t r = sizeof(real), pair = bf16 && strstr(tier, "_bf16") ? 2 : 1;
    real *x = o->alloc(64), *y = o->alloc(64), *z = o->alloc(64);
    int *i = o->alloc(64);
    o->linear(A(y), A(x), A(z), 4, 5000, 5000, 0);
    ok(c.kept.packed == 0, "%s: few rows of a product are not packed", tier);
    o->linear(A(y), A(x), A(z), 2048, 768, 640, 0);
    const size_t packed = c.kept.packed, right = 768 / pair * 640 * r;
    ok(packed > right && packed < right + (128 << 10) * r + (256 << 10) && c.kept.stage == 0,
       "%s: packed are all of the right operand and some of the left one", tier);
    o->linear_dw(y, A(x), A(z), 100, 64, 96);
    ok(c.kept.packed == packed, "%s: the largest is kept", tier);
    tier_ops(tier, 3);
    o->linear(A(y), A(x), A(z), 2048, 768, 640, 0);
    ok(c.kept.packed > packed && c.kept.packed <= 3 * packed + 64,
       "%s: three threads pack more", tier);
    tier_ops(tier, 1);
    o->linear(A(y), A(x), A(z), 64, 8192 * 2, 96, 0);
    const size_t some = c.kept.stage;
    o->linear_dx(A(y), A(x), A(z), 8000, 768, 32768, 1);
    ok(bf16 ? some == 64 * 96 * r && c.kept.stage == 1365 * 768 * r : c.kept.stage == 0,
       "%s: sums of deep products of bfloat16s", tier);
    o->embed_bwd(store_real(y), A(x), i, 100, 8, 1000);
    ok(c.kept.rows == 1100 * sizeof *i + 100, "%s: where the same tokens are", tier);
    o->xent(y, A(x), i, x, 8, 1000, 1024, 15, 1);
    const size_t one = c.kept.scratch;
    tier_ops(tier, 3);
    o->xent(y, A(x), i, x, 8, 1000, 1024, 15, 1);
    ok(one == 2 * 1008 * r && c.kept.scratch == 3 * one, "%s: two rows a thread of a loss", tier);
    tier_ops(tier, 1);
    o->attn_bwd(A(y), A(y), A(y), A(x), A(x), x, A(x), A(x), A(x), NULL, 1, 4096, 8, 1, 64, 0);
    const size_t back = c.kept.scratch, dq = 8 * 4096 * 64 * r;
    tier_ops(tier, 64);
    o->attn_bwd(A(y), A(y), A(y), A(x), A(x), x, A(x), A(x), A(x), NULL, 1, 4096, 8, 1, 64, 0);
    ok(back > 10 * dq && c.kept.scratch > 24 * dq && c.kept.scratch < 26 * dq,
       "%s: a group's queries for each worker, and their gradients for each part", tier);
}

int main(void)
{
    check_open();
    check_fns();
    for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++) {
        if (!tier_runs(tiers[i])) continue;
        const Ops *o = tier_ops(tiers[i], 2);
        check_memory(o);
        check_chunks(o, 1, 0);
        check_chunks(o, 150, 0);
        check_chunks(o, 150, 65);
        check_nan(o);
        for (double size = 1e4; size < 1e37; size *= 1e4) check_large_scores(o, size);
        check_documents(o);
        check_xent_zeros(o);
    }
#ifndef REAL_F64
    bf16 = true;
    for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++) {
        if (!tier_runs(tiers[i])) continue;
        const Ops *o = tier_ops(tiers[i], 2);
        check_cast(o);
        check_documents(o);
    }
    bf16 = false;
#endif
    check_count();
    for (int h = 0; h <= (sizeof(real) == sizeof(float)); h++) {
        bf16 = h;
        for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++)
            if (tier_runs(tiers[i])) check_kept(tiers[i]);
    }
    bf16 = false;
    return done();
}
