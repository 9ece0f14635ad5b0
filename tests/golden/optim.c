/* Single optimizer steps against nanochat's: eleven Muon matrices, four AdamW groups, three steps
 * each. With REAL_F64 against the float64 numbers. */
#include "golden.h"
#include "gpt/safetensors.h"
#include "tap.h"

static const Ops *ops;

#ifdef REAL_F64
static const char *suffix = "_f64";
#else
static const char *suffix = "";
#endif

static double tol(double of_float) { return sizeof(real) == 8 ? 1e-10 : of_float; }

/* Tensor CASE.WHAT{step}{suffix} in host memory; n elements. */
static real *load(const StFile *f, const char *c, const char *what, int step, const char *suf,
                  int64_t *n)
{
    char *num_ = step ? xasprintf("%d", step) : xstrdup("");
    char *name = xasprintf("%s.%s%s%s", c, what, num_, suf);
    const StTensor *t = st_find(f, name);
    if (!t) die("golden: no tensor %s", name);
    real *x = xcalloc((size_t)t->n, sizeof *x);
    st_read(f, t, x);
    *n = t->n;
    free(name); free(num_);
    return x;
}

static real *to_device(const StFile *f, const char *c, const char *what, int step)
{
    int64_t n;
    real *x = load(f, c, what, step, "", &n), *d = ops->alloc((size_t)n * sizeof *x);
    ops->put(d, x, (size_t)n * sizeof *x);
    ops->sync();
    free(x);
    return d;
}

/* Largest difference of device array x from the file's, divided by the file's largest if rel. */
static double distance(const StFile *f, const real *x, const char *c, const char *what, int step,
                       int rel)
{
    int64_t n;
    real *want = load(f, c, what, step, suffix, &n), *got = xcalloc((size_t)n, sizeof *got);
    double most = 0, top = 0;
    ops->get(got, x, (size_t)n * sizeof *got);
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - (double)want[i]);
        if (!(d <= most)) most = d;                     /* a NaN stays */
        top = fmax(top, fabs((double)want[i]));
    }
    free(want); free(got);
    return rel && top > 0 ? most / top : most;
}

static void muon_case(const StFile *f, const char *c, int R, int K)
{
    static const double lr[] = { 0.02, 0.02, 0.01 }, mu[] = { 0.85, 0.8503, 0.97 };
    static const double wd[] = { 0.28, 0.25, 0.1 };
    size_t nm = (size_t)(R * K) * sizeof(real), ns = (size_t)(R >= K ? R : K) * sizeof(real);
    size_t nt = ops->muon_tmp(1, R, K);
    real *p = to_device(f, c, "p0", 0), *m = ops->alloc(nm), *s = ops->alloc(ns);
    void *tmp = ops->alloc(nt);
    double dp = 0, dm = 0, ds = 0;
    for (int i = 0; i < 3; i++) {
        real *g = to_device(f, c, "grad", i + 1);
        double rate = lr[i] * sqrt(fmax(1, (double)R / K));
        ops->muon(store_real(p), g, m, s, tmp, 1, R, K, mu[i], 0.9, rate, wd[i]);
        dp = fmax(dp, distance(f, p, c, "p", i + 1, 0));
        dm = fmax(dm, distance(f, m, c, "momentum_buffer", i + 1, 1));
        ds = fmax(ds, distance(f, s, c, "second_momentum_buffer", i + 1, 1));
        ops->free(g, nm);
    }
    int rank1 = !strcmp(c, "rank1");
    ok(dp <= tol(rank1 ? 1e-5 : 5e-7) && dm <= tol(1e-6) && ds <= tol(rank1 ? 1e-3 : 1e-4),
       "muon %s [%d,%d]: weights %.2g, momentum %.2g, second moments %.2g", c, R, K, dp, dm, ds);
    ops->free(p, nm); ops->free(m, nm); ops->free(s, ns); ops->free(tmp, nt);
}

static void muons(void)
{
    const char *path = golden("nanochat", "d_muon_single.safetensors");
    if (!path) { skip("d_muon_single.safetensors is not here", "single Muon matrices"); return; }
    StFile *f = st_open(path);
    Arena a = { 0 };
    const Json *text = json_get(st_meta(f), "shapes");
    const char *err;
    size_t at;
    const Json *shapes = json_parse(&a, text->s, text->len, &err, &at);
    ok(shapes && shapes->n == 11, "eleven matrices");
    for (const Json *j = shapes->child; j; j = j->next) {
        char *name = arena_strndup(&a, j->key, j->key_len);
        muon_case(f, name, (int)j->child->num, (int)j->child->next->num);
    }
    arena_free(&a);
    st_close(f);
}

static void adamw_case(const StFile *f, const char *c, double b1, double b2, double wd)
{
    int64_t n;
    free(load(f, c, "p0", 0, "", &n));
    size_t bytes = (size_t)n * sizeof(real);
    real *p = to_device(f, c, "p0", 0), *m = ops->alloc(bytes), *v = ops->alloc(bytes);
    double dp = 0, dm = 0, dv = 0;
    for (int i = 1; i <= 3; i++) {
        real *g = to_device(f, c, "grad", i);
        ops->adamw(store_real(p), store_real(g), store_real(m), store_real(v), n, 0.01, b1, b2, 1e-10,
                   wd, 1 - pow(b1, i), 1 - pow(b2, i));
        dp = fmax(dp, distance(f, p, c, "p", i, 0));
        dm = fmax(dm, distance(f, m, c, "exp_avg", i, 1));
        dv = fmax(dv, distance(f, v, c, "exp_avg_sq", i, 1));
        ops->free(g, bytes);
    }
    ok(dp <= tol(5e-7) && dm <= tol(1e-6) && dv <= tol(2e-6),
       "adamw %s: weights %.2g, first moments %.2g, second %.2g", c, dp, dm, dv);
    ops->free(p, bytes); ops->free(m, bytes); ops->free(v, bytes);
}

static void adamws(void)
{
    StFile *f = st_open("tests/golden/data/d_adamw_single.safetensors");
    adamw_case(f, "unembedding", 0.8, 0.96, 0.01);
    adamw_case(f, "embedding", 0.8, 0.995, 0.001);
    adamw_case(f, "resid", 0.8, 0.95, 0.05);
    adamw_case(f, "x0", 0.96, 0.95, 0);
    st_close(f);
}

int main(void)
{
    ops = ops_cpu(2);
    adamws();
    muons();
    return done();
}
