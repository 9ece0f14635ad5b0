/* harness.h -- checks an operation against a naive version in double precision.
 *
 * An operation is one entry: the arrays it takes (its first function), how to call it, a naive
 * forward in double that also gives each output's magnitude (the sum of the absolute values that
 * were added up, so that an error of a few roundings of it is all the arithmetic excuses), how to
 * call its backward, and a naive one, which is itself held against central differences of the naive
 * forward (not for the last, large shape).
 * For every tier that this processor runs (or, with HARNESS_CUDA, for the emulated CUDA back-end),
 * with float and with bfloat16 activations:
 *   outputs          within c u magnitude, u = 2^-24 (2^-53 in the double build)
 *   gradients        within c u max|g|
 *   bfloat16 ones    within a distance of 3e-3 of their norm. A rounding to 8 bits is at most 2^-8,
 *                    and others were rounded before: each is within 2^-9 of itself and 2^-9
 *                    of its magnitude, which is no less; a gradient within 2^-8 of itself and 2^-7
 *                    of max|g|. Gradients of arrays of less than 64 elements, which few terms cancel
 *                    in, may be half as much again off, those of one element by anything
 *   accumulation     gradients start from nonzero values
 *   NULL             each gradient left out in turn changes nothing in the others
 *   threads          1, 2 and 3 give the same bits; so do the emulator's four schedules
 * Arrays live in the back-end's memory: `call` and `back` get device pointers, and what else they
 * need there is made by dev().
 */
#ifndef HARNESS_H
#define HARNESS_H
#ifdef REAL_F64
#define OPS_ACT double
#else
#define OPS_ACT float
#endif
#include "ops/ops.h"
#include "base/cpu.h"
#include "tap.h"
#include <math.h>
#include <stdbool.h>

#ifdef REAL_F64
static const double unit = 0x1p-53;
#else
static const double unit = 0x1p-24;
#endif

enum { MAXBUF = 8, MAXDIM = 10 };

/* kind: x input with a gradient, p one with a gradient of reals, c one without; y output, Y output
 * that is read first: these are Acts. r input with a gradient, t input without, l output, s output
 * saved for the backward: reals. i integers; d starts of documents, of rows of lo tokens, about hi
 * each. Values are uniform in [lo,hi). n 0: absent (NULL). */
typedef struct Arr { const char *name; char kind; int64_t n; double lo, hi; } Arr;

typedef struct OpTest {
    const char *name;
    void (*arrays)(Arr *a, const int *d);
    void (*call)(const Ops *o, void **a, const int *d);
    void (*naive)(double **a, double **mag, const int *d);     /* integers are doubles here */
    void (*back)(const Ops *o, void **g, void *dy, void **a, const int *d); /* or NULL; y is a[0] */
    void (*grad)(double **g, const double *dy, double **a, const int *d);  /* adds; a after naive */
    double (*terms)(const int *d);      /* length of the longest sum; c = 4 + 2 sqrt(terms) */
    const int (*dims)[MAXDIM];
    int ndims; /* the last one is large enough for several threads */
} OpTest;

static uint64_t lcg = 88172645463325252u;
static double uniform(double lo, double hi)
{
    lcg = lcg * 6364136223846793005u + 1442695040888963407u;
    return lo + (hi - lo) * (double)(lcg >> 11) * 0x1p-53;
}

static bool bf16;                       /* an Act is a bfloat16 */
#ifdef HARNESS_CUDA
const Ops *cuda_ops_fp32(void), *cuda_ops_bf16(void);
void cuemu_schedule(int s);
enum { VARIANTS = 4 };
static const char variant[] = "schedule";
static const char *const tiers[] = { "cuda" };
static bool tier_runs(const char *name) { return name != NULL; }
static const Ops *tier_ops(const char *name, int schedule)
{
    (void)name;
    cuemu_schedule(schedule - 1);
    return bf16 ? cuda_ops_bf16() : cuda_ops_fp32();
}
#else
enum { VARIANTS = 3 };
static const char variant[] = "threads";
#ifdef HARNESS_TIERS
static const char *const tiers[] = { HARNESS_TIERS };
#else
static const char *const tiers[] = { "base", "avx2", "avx512", "avx512_bf16",
#ifdef HAVE_AMX
                                     "amx_bf16",
#endif
};
#endif
/* The tiers to test: all that run here, or with PIPEGPT_CPU=TIER in the environment that one. */
static const char *only_tier;
__attribute__((constructor)) static void read_only_tier(void)
{
    const char *s = getenv("PIPEGPT_CPU");
    if (s && *s && !(only_tier = strdup(s))) abort();   /* tier_ops() overwrites the variable */
}
/* With HARNESS_TWIN, there are also base_twin and avx512_twin: the products of amx_bf16 with AMX's
 * instructions in C (ops/cpu/tile.h), packed by what these tiers have, and all else as there. */
#ifdef HARNESS_TWIN
const Ops *cpu_ops_base_twin(void);
#ifdef __x86_64__
const Ops *cpu_ops_avx512_twin(void);
#endif
static const Ops *twin_ops(const char *name)
{
#ifdef __x86_64__
    if (strcmp(name, "avx512_twin") == 0) return cpu_ops_avx512_twin();
#endif
    return strcmp(name, "base_twin") == 0 ? cpu_ops_base_twin() : NULL;
}
#else
static const Ops *twin_ops(const char *name) { (void)name; return NULL; }
#endif
/* With floats, avx512_bf16 and amx_bf16 are avx512. */
static bool tier_runs(const char *name)
{
    if (twin_ops(name)) return bf16 && cpu_runs(strcmp(name, "base_twin") ? "avx512_bf16" : "base");
    return cpu_runs(name) && (!only_tier || strcmp(name, only_tier) == 0) &&
           (bf16 || !strstr(name, "_bf16"));
}
static const Ops *tier_ops(const char *name, int threads)
{
    if (twin_ops(name)) {
        ops_open("cpu", "bf16", threads);
        return twin_ops(name);
    }
    setenv("PIPEGPT_CPU", name, 1);
    return ops_open("cpu", bf16 ? "bf16" : "fp32", threads);
}
#endif
static void *must(void *p)
{
    if (!p) abort();
    return p;
}
__attribute__((unused)) static void *dup_bytes(const void *p, size_t n)
{
    return p ? memcpy(must(malloc(n ? n : 1)), p, n) : NULL;
}

/* Memory of a back-end with a copy of `host` in it (zeros if that is NULL), until dev_end(). */
static struct { void *p; size_t n; } dev_list[64];
static int dev_count;
static void *dev(const Ops *o, const void *host, size_t bytes)
{
    if (dev_count == 64) abort();
    void *p = o->alloc(bytes);
    if (host) o->put(p, host, bytes);
    dev_list[dev_count].p = p;
    dev_list[dev_count++].n = bytes;
    return p;
}
static void dev_end(const Ops *o)
{
    while (dev_count--) o->free(dev_list[dev_count].p, dev_list[dev_count].n);
    dev_count = 0;
}
static void *dev_get(const Ops *o, const void *p, size_t bytes)
{
    void *host = must(malloc(bytes ? bytes : 1));
    o->get(host, p, bytes);
    return host;
}

/* element i of an array of Acts or reals */
static size_t elem_size(bool act) { return act && bf16 ? 2 : sizeof(real); }
static double bf16_value(unsigned h)
{
    uint32_t b = (uint32_t)h << 16;
    float f;
    memcpy(&f, &b, sizeof f);
    return (double)f;
}
static double elem_get(const void *p, bool act, int64_t i)
{
    if (!act || !bf16) {
        real x;
        memcpy(&x, (const char *)p + (size_t)i * sizeof x, sizeof x);
        return (double)x;
    }
    uint16_t h;
    memcpy(&h, (const char *)p + 2 * i, sizeof h);
    return bf16_value(h);
}
static void elem_set(void *p, bool act, int64_t i, double x)
{
    if (!act || !bf16) { ((real *)p)[i] = (real)x; return; }
    float f = (float)x;
    uint32_t b;
    memcpy(&b, &f, sizeof b);
    ((uint16_t *)p)[i] = (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

typedef struct Case {
    const OpTest *t; const int *d;
    int n; Arr a[MAXBUF];
    void *in[MAXBUF];                   /* as they are before the call, of the operation's types */
    double *x[MAXBUF], *y[MAXBUF], *mag[MAXBUF]; /* the same in double; after naive; magnitudes */
    void *dy, *g0[MAXBUF];              /* gradient of y; what gradients start from */
    double *g[MAXBUF], size[MAXBUF];    /* the naive gradients; what their errors are measured by */
} Case;

static bool is_int(char kind) { return kind == 'i' || kind == 'd'; }
static bool is_act(char kind) { return strchr("xpcyY", kind) != NULL; }
static bool is_out(char kind) { return strchr("yYls", kind) != NULL; }
static bool has_grad(char kind) { return strchr("xpr", kind) != NULL; }
static bool grad_act(char kind) { return kind == 'x'; }
static size_t size_of(const Case *c, int k)
{
    char kind = c->a[k].kind;
    return (size_t)c->a[k].n * (is_int(kind) ? sizeof(int) : elem_size(is_act(kind)));
}
static size_t grad_size(const Case *c, int k)
{
    return (size_t)c->a[k].n * elem_size(grad_act(c->a[k].kind));
}

__attribute__((unused)) static real *random_reals(int64_t n, double lo, double hi)
{
    real *r = must(malloc((size_t)(n ? n : 1) * sizeof *r));
    for (int64_t i = 0; i < n; i++) r[i] = (real)uniform(lo, hi);
    return r;
}
static void *random_elems(bool act, int64_t n, double lo, double hi)
{
    void *p = must(malloc((size_t)(n ? n : 1) * elem_size(act)));
    for (int64_t i = 0; i < n; i++) elem_set(p, act, i, uniform(lo, hi));
    return p;
}
static void document_starts(int *v, int64_t n, int T, double mean)
{
    for (int64_t i = 0; i < n; i++)
        v[i] = i % T == 0 ? 0 : uniform(0, mean) < 1 ? (int)(i % T) : v[i - 1];
}
static void case_make(Case *c, const OpTest *t, const int *d)
{
    memset(c, 0, sizeof *c);
    c->t = t;
    c->d = d;
    t->arrays(c->a, d);
    while (c->n < MAXBUF && c->a[c->n].name) c->n++;
    for (int k = 0; k < c->n; k++) {
        Arr *a = &c->a[k];
        if (a->n == 0) continue;
        if (a->lo == 0 && a->hi == 0) a->lo = -1, a->hi = 1;
        c->x[k] = must(malloc((size_t)a->n * sizeof(double)));
        c->y[k] = must(malloc((size_t)a->n * sizeof(double)));
        c->mag[k] = must(calloc((size_t)a->n, sizeof(double)));
        if (is_int(a->kind)) {
            int *v = c->in[k] = must(malloc((size_t)a->n * sizeof *v));
            if (a->kind == 'd') document_starts(v, a->n, (int)a->lo, a->hi);
            else for (int64_t i = 0; i < a->n; i++) v[i] = (int)floor(uniform(a->lo, a->hi));
            for (int64_t i = 0; i < a->n; i++) c->x[k][i] = v[i];
        } else {
            bool act = is_act(a->kind);
            c->in[k] = random_elems(act, a->n, a->lo, a->hi);
            for (int64_t i = 0; i < a->n; i++) c->x[k][i] = elem_get(c->in[k], act, i);
        }
        if (has_grad(a->kind)) c->g0[k] = random_elems(grad_act(a->kind), a->n, -1, 1);
    }
    c->dy = random_elems(is_act(c->a[0].kind), c->a[0].n, -1, 1);
}
static void case_free(Case *c)
{
    for (int k = 0; k < c->n; k++) {
        free(c->in[k]); free(c->x[k]); free(c->y[k]); free(c->mag[k]);
        free(c->g0[k]); free(c->g[k]);
    }
    free(c->dy);
}
/* the naive forward on copies of x; results in y */
static void case_naive(Case *c)
{
    for (int k = 0; k < c->n; k++)
        if (c->x[k]) memcpy(c->y[k], c->x[k], (size_t)c->a[k].n * sizeof(double));
    c->t->naive(c->y, c->mag, c->d);
}
typedef struct Result { void *a[MAXBUF], *g[MAXBUF]; } Result;

static Result case_run(const Case *c, const Ops *o, int without)
{
    Result r = { { 0 }, { 0 } };
    void *a[MAXBUF] = { 0 }, *g[MAXBUF] = { 0 };
    for (int k = 0; k < c->n; k++)
        if (c->in[k]) a[k] = dev(o, c->in[k], size_of(c, k));
    c->t->call(o, a, c->d);
    if (c->t->back) {
        void *dy = dev(o, c->dy, (size_t)c->a[0].n * elem_size(is_act(c->a[0].kind)));
        for (int k = 0; k < c->n; k++)
            if (k != without && c->g0[k]) g[k] = dev(o, c->g0[k], grad_size(c, k));
        c->t->back(o, g, dy, a, c->d);
    }
    for (int k = 0; k < c->n; k++) {
        if (a[k]) r.a[k] = dev_get(o, a[k], size_of(c, k));
        if (g[k]) r.g[k] = dev_get(o, g[k], grad_size(c, k));
    }
    dev_end(o);
    return r;
}
static void result_free(Result *r)
{
    for (int k = 0; k < MAXBUF; k++) free(r->a[k]), free(r->g[k]);
}
static bool same_bits(const Case *c, const Result *p, const Result *q)
{
    for (int k = 0; k < c->n; k++) {
        if (p->a[k] && memcmp(p->a[k], q->a[k], size_of(c, k)) != 0) return false;
        if (p->g[k] && q->g[k] && memcmp(p->g[k], q->g[k], grad_size(c, k)) != 0) return false;
    }
    return true;
}
/* in the double build the naive version rounds as much as the other */
static double tolerance(const Case *c)
{
    return (sizeof(real) == 8 ? 2 : 1) * unit * (4 + 2 * sqrt(c->t->terms ? c->t->terms(c->d) : 1));
}

/* what arrays of n bfloat16s may be off by; few roundings may all be large */
static double bf16_error(int64_t n) { return n < 64 ? 4.5e-3 : 3e-3; }
/* their distance from what it should be, in units of that */
static double distance(double err2, double norm2, int64_t n)
{
    return err2 > 0 || isnan(err2) ? sqrt(err2 / norm2) / bf16_error(n) : 0;
}

/* *worst: the largest of `error / may` so far, NaN counts as large */
static void worse(double *worst, double error, double may)
{
    if (!(error <= *worst * may)) *worst = error / may;
}
/* worst error of the outputs in units of what is allowed */
static double outputs_error(const Case *c, const Result *r)
{
    double worst = 0;
    for (int k = 0; k < c->n; k++) {
        if (!is_out(c->a[k].kind) || !r->a[k]) continue;
        const bool act = is_act(c->a[k].kind);
        if (act && bf16) {
            double e2 = 0, n2 = 0;
            for (int64_t i = 0; i < c->a[k].n; i++) {
                const double y = c->y[k][i], e = elem_get(r->a[k], act, i) - y;
                e2 += e * e;
                n2 += y * y;
                worse(&worst, fabs(e), 0x1.01p-9 * (fabs(y) + c->mag[k][i]));
            }
            worse(&worst, distance(e2, n2, c->a[k].n), 1);
            continue;
        }
        for (int64_t i = 0; i < c->a[k].n; i++) {
            double err = fabs(elem_get(r->a[k], act, i) - c->y[k][i]),
                   may = tolerance(c) * c->mag[k][i] + 1e-300;
            if (!(err / may <= worst)) {
                worst = err / may;
                if (!(worst <= 1))
                    printf("# %s[%lld]: %.17g, naive %.17g, magnitude %g\n", c->a[k].name,
                           (long long)i, elem_get(r->a[k], act, i), c->y[k][i], c->mag[k][i]);
            }
        }
    }
    return worst;
}
/* d(sum dy . y)/d x[k][i] by central difference of the naive forward; *mag: the sum of its terms without
 * their signs */
static double slope(Case *c, int k, int64_t i, double *up, double *mag)
{
    const double h = 1e-5, x = c->x[k][i];
    double s = 0;
    *mag = 0;
    c->x[k][i] = x + h;
    case_naive(c);
    if (c->a[0].n) memcpy(up, c->y[0], (size_t)c->a[0].n * sizeof *up);
    c->x[k][i] = x - h;
    case_naive(c);
    c->x[k][i] = x;
    for (int64_t j = 0; j < c->a[0].n; j++) {
        const double d = elem_get(c->dy, is_act(c->a[0].kind), j) * (up[j] - c->y[0][j]) / (2 * h);
        s += d, *mag += fabs(d);
    }
    return s;
}
/* The naive gradients, from what case_naive() left. */
static void case_grad(Case *c)
{
    double *dy = must(malloc((size_t)(c->a[0].n ? c->a[0].n : 1) * sizeof *dy));
    for (int64_t i = 0; i < c->a[0].n; i++) dy[i] = elem_get(c->dy, is_act(c->a[0].kind), i);
    for (int k = 0; k < c->n; k++)
        if (c->g0[k]) c->g[k] = must(calloc((size_t)c->a[k].n, sizeof(double)));
    c->t->grad(c->g, dy, c->y, c->d);
    for (int k = 0; k < c->n; k++)
        for (int64_t i = 0; c->g[k] && i < c->a[k].n; i++)
            c->size[k] = fmax(c->size[k], fabs(c->g[k][i]));
    free(dy);
}
/* The naive gradients against differences: all elements of a small array, else some. The only one may
 * be small by chance, of large terms: its size is theirs. Returns the worst error. */
enum { FEW = 50, SOME = 24 };
static double naive_error(Case *c, bool large)
{
    double worst = 0, mag, *up = must(malloc((size_t)(c->a[0].n ? c->a[0].n : 1) * sizeof *up));
    for (int k = 0; k < c->n; k++) {
        const int64_t n = c->a[k].n, m = n == 1 ? 1 : large ? 0 : n < FEW ? n : SOME;
        for (int64_t j = 0; c->g0[k] && j < m; j++) {
            const int64_t any = (int64_t)uniform(0, (double)n),
                          i = m == n ? j : j == 0 ? 0 : j == 1 ? n - 1 : any;
            const double v = slope(c, k, i, up, &mag);
            if (n == 1) c->size[k] = mag;
            worst = fmax(worst, fabs(v - c->g[k][i]) / (1e-7 * c->size[k] + 1e-9));
        }
    }
    free(up);
    return worst;
}
/* The worst error of a gradient in units of what is allowed. What starts at 1 and is added to is a
 * rounding or two off by that alone. */
static double gradient_error(const Case *c, const Result *r, int k)
{
    const bool act = grad_act(c->a[k].kind), rounded = act && bf16;
    const double u = sizeof(real) == 8 ? 2 * unit : unit;
    double worst = 0, e2 = 0, n2 = 0;
    const double w = 0x1p-8 * bf16_error(c->a[k].n) / 3e-3;
    if (rounded && c->a[k].n == 1) return 0;
    for (int64_t i = 0; i < c->a[k].n; i++) {
        const double start = elem_get(c->g0[k], act, i), want = start + c->g[k][i],
                     got = elem_get(r->g[k], act, i), was = worst;
        e2 += (got - want) * (got - want);
        n2 += want * want;
        worse(&worst, fabs(got - want), rounded ? w * (fabs(want) + 2 * c->size[k])
                                                : tolerance(c) * c->size[k] + 2 * u);
        if (worst > 1 && worst > was)
            printf("# d%s[%lld]: %.17g, naive %.17g, largest %g\n", c->a[k].name, (long long)i,
                   got - start, want - start, c->size[k]);
    }
    if (rounded) worse(&worst, distance(e2, n2, c->a[k].n), 1);
    return worst;
}
static const char *dims_text(const int *d)
{
    static char s[128];
    int n = bf16 ? snprintf(s, sizeof s, "bf16: ") : 0;
    for (int i = 0; i < MAXDIM && n < 100; i++)
        n += snprintf(s + n, sizeof s - (size_t)n, "%s%d", i ? " " : "", d[i]);
    while (n > 2 && s[n - 1] == '0' && s[n - 2] == ' ') s[n -= 2] = 0;
    return s;
}
static void check_tier(Case *c, const char *tier, bool large)
{
    Result one = case_run(c, tier_ops(tier, 1), -1);
    double e = outputs_error(c, &one);
    ok(e <= 1, "%s %s (%s): outputs, %.2f of what is allowed", c->t->name, tier, dims_text(c->d),
       e);
    for (int k = 0; c->t->back && k < c->n; k++) {
        if (!c->g0[k]) continue;
        e = gradient_error(c, &one, k);
        ok(e <= 1, "%s %s (%s): d%s, %.2f of what is allowed", c->t->name, tier, dims_text(c->d),
           c->a[k].name, e);
        Result r = case_run(c, tier_ops(tier, 1), k);
        ok(same_bits(c, &one, &r), "%s %s (%s): the same without d%s", c->t->name, tier,
           dims_text(c->d), c->a[k].name);
        result_free(&r);
    }
    for (int i = 2; (large || VARIANTS == 4) && i <= VARIANTS; i++) {
        Result r = case_run(c, tier_ops(tier, i), -1);
        ok(same_bits(c, &one, &r), "%s %s (%s): %s %d gives the same bits", c->t->name, tier,
           dims_text(c->d), variant, i);
        result_free(&r);
    }
    result_free(&one);
}
/* A case has numbers of its own: a new one changes no other's. */
static void seed_case(const char *name, const int *d)
{
    lcg = 88172645463325252u;
    for (; *name; name++) lcg = (lcg ^ (unsigned char)*name) * 0x100000001b3u;
    for (int i = 0; i < MAXDIM; i++) lcg = (lcg ^ (unsigned)d[i]) * 0x100000001b3u;
    for (int i = 0; i < 4; i++) (void)uniform(0, 1);
}
static void check_dims(const OpTest *t)
{
    for (int i = 0; i < t->ndims; i++) {
        Case c;
        const bool large = i == t->ndims - 1;
        seed_case(t->name, t->dims[i]);
        case_make(&c, t, t->dims[i]);
        case_naive(&c);
        if (t->back) {
            case_grad(&c);
            const double e = naive_error(&c, large);
            ok(e <= 1, "%s (%s): naive gradients are differences, %.2f of what is allowed", t->name,
               dims_text(c.d), e);
            case_naive(&c);
        }
        for (size_t j = 0; j < sizeof tiers / sizeof *tiers; j++)
            if (tier_runs(tiers[j])) check_tier(&c, tiers[j], large);
        case_free(&c);
    }
}
__attribute__((unused)) static void check_op(const OpTest *t)
{
    for (int h = 0; h <= (sizeof(real) == sizeof(float)); h++) {
        bf16 = h;
        check_dims(t);
    }
    bf16 = false;
}
#endif
