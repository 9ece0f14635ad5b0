/* adamw, muon, sumsq, scale and lerp against naive versions in double, in float and (REAL_F64) in double;
 * the same bits from 1, 2 and 3 threads; muon within the workspace it asked for. With HARNESS_CUDA, the
 * CUDA back-end's, and muon of its bfloat16 table too. */
#if !defined REAL_F64 && !defined HARNESS_CUDA
#define HARNESS_TWIN
#endif
#include "harness.h"

static double *doubles(const real *x, int64_t n)
{
    double *d = must(malloc((size_t)n * sizeof *d));
    for (int64_t i = 0; i < n; i++) d[i] = (double)x[i];
    return d;
}
static double two = sizeof(real) == 8 ? 2 : 1;      /* the naive version rounds as well */

/* ---- adamw, three steps */
static double adamw_error(const Ops *o, int64_t n, real **out)
{
    const size_t bytes = (size_t)n * sizeof(real);
    real *p = random_reals(n, -1, 1), *m = random_reals(n, -1, 1), *v = random_reals(n, 0, 1);
    double *dp = doubles(p, n), *dm = doubles(m, n), *dv = doubles(v, n), worst = 0;
    real *xp = dev(o, p, bytes), *xm = dev(o, m, bytes), *xv = dev(o, v, bytes);
    for (int t = 1; t <= 3; t++) {
        const double lr = 0.3, b1 = 0.8, b2 = 0.95, eps = 1e-10, wd = 0.1, c1 = 1 - pow(b1, t),
                     c2 = 1 - pow(b2, t);
        real *g = random_reals(n, -1, 1);
        o->adamw(store_real(xp), store_real(dev(o, g, bytes)), store_real(xm), store_real(xv), n, lr,
                 b1, b2, eps, wd, c1, c2);
        o->get(p, xp, bytes);
        for (int64_t i = 0; i < n; i++) {
            double gi = (double)g[i];
            dp[i] *= 1 - lr * wd;
            dm[i] += (1 - b1) * (gi - dm[i]);
            dv[i] += (1 - b2) * (gi * gi - dv[i]);
            double step = lr / c1 * dm[i] / (sqrt(dv[i] / c2) + eps);
            dp[i] -= step;
            /* m may have lost all its digits to cancellation, relative to g and the old m (at most
             * 1); v is a sum of positive terms */
            double may = 8 * t * two * unit * (2 + lr / c1 * 2 / (sqrt(dv[i] / c2) + eps));
            worst = fmax(worst, fabs((double)p[i] - dp[i]) / may);
        }
        free(g);
    }
    free(dp); free(dm); free(dv); free(m); free(v);
    dev_end(o);
    *out = p;
    return worst;
}

/* ---- muon, as in the definition: one matrix at a time, plain loops */
static const double polar[5][3] = {
    { 8.156554524902461, -22.48329292557795, 15.878769915207462 },
    { 4.042929935166739, -2.808917465908714, 0.5000178451051316 },
    { 3.8916678022926607, -2.772484153217685, 0.5060648178503393 },
    { 3.285753657755655, -2.3681294933425376, 0.46449024233003106 },
    { 2.3465413258596377, -1.7097828382687081, 0.42323551169305323 },
};
static double norm_of(const double *x, int64_t n)
{
    double s = 0;
    for (int64_t i = 0; i < n; i++) s += x[i] * x[i];
    return sqrt(s);
}
static double nearest_bf16(double x)
{
    const bool was = bf16;
    uint16_t h;
    bf16 = true;                        /* what elem_set() and elem_get() go by */
    elem_set(&h, true, 0, x);
    x = elem_get(&h, true, 0);
    bf16 = was;
    return x;
}
/* what is stored as a bfloat16 by a back-end that multiplies them */
static double stored(double x) { return bf16 ? nearest_bf16(x) : x; }
/* With `rounded`, factors of products are bfloat16. */
static bool rounded;
static double *factor(const double *x, int64_t n)
{
    double *y = must(malloc((size_t)n * sizeof *y));
    for (int64_t i = 0; i < n; i++) y[i] = rounded ? nearest_bf16(x[i]) : x[i];
    return y;
}
/* x = p x + (q a + s a a) x with a = x x^T, x [R,K] */
static void polar_step(double *x, int R, int K, const double *c)
{
    double *xh = factor(x, (int64_t)R * K), *ah, *bh;
    double *a = must(calloc((size_t)R * (size_t)R, sizeof *a)),
           *b = must(calloc((size_t)R * (size_t)R, sizeof *b));
    double *y = must(calloc((size_t)R * (size_t)K, sizeof *y));
    for (int i = 0; i < R; i++) for (int j = 0; j < R; j++) {
        for (int k = 0; k < K; k++) a[i * R + j] += xh[i * K + k] * xh[j * K + k];
        a[i * R + j] = stored(a[i * R + j]);
    }
    ah = factor(a, (int64_t)R * R);
    for (int i = 0; i < R; i++) for (int j = 0; j < R; j++) {
        for (int k = 0; k < R; k++) b[i * R + j] += c[2] * ah[i * R + k] * ah[k * R + j];
        b[i * R + j] = stored(b[i * R + j] + c[1] * a[i * R + j]);
    }
    bh = factor(b, (int64_t)R * R);
    for (int i = 0; i < R; i++) for (int j = 0; j < K; j++) {
        for (int k = 0; k < R; k++) y[i * K + j] += bh[i * R + k] * xh[k * K + j];
        y[i * K + j] = stored(y[i * K + j] + c[0] * x[i * K + j]);
    }
    free(xh); free(ah); free(bh);
    memcpy(x, y, (size_t)R * (size_t)K * sizeof *x);
    free(a); free(b); free(y);
}
static void polar_all(double *x, int R, int K)
{
    double *t = must(malloc((size_t)R * (size_t)K * sizeof *t)); /* wide: transposed if tall */
    for (int i = 0; i < R; i++)
        for (int j = 0; j < K; j++) t[R > K ? j * R + i : i * K + j] = x[i * K + j];
    for (int s = 0; s < 5; s++) polar_step(t, R > K ? K : R, R > K ? R : K, polar[s]);
    for (int i = 0; i < R; i++)
        for (int j = 0; j < K; j++) x[i * K + j] = t[R > K ? j * R + i : i * K + j];
    free(t);
}
/* g becomes the update before lr */
static void naive_muon(double *p, double *g, double *m, double *s, int R, int K, double mu,
                       double beta2, double lr, double wd)
{
    int n = R * K, rows = R >= K, kept = rows ? R : K, red = rows ? K : R;
    for (int i = 0; i < n; i++) m[i] += (1 - mu) * (g[i] - m[i]), g[i] += mu * (m[i] - g[i]);
    double target = norm_of(g, n) / sqrt(R);
    for (int r = 0; r < R; r++) {
        double f = target / fmax(norm_of(g + r * K, K), 1e-6);
        for (int c = 0; c < K; c++) g[r * K + c] *= f;
    }
    double f = 1.01 * norm_of(g, n) + 1e-6;
    for (int i = 0; i < n; i++) g[i] = stored(g[i] / f);
    polar_all(g, R, K);
    f = sqrt(R < K ? R : K) / fmax(norm_of(g, n), 1e-6);
    double before = 0, after = 0;
    for (int i = 0; i < n; i++) g[i] *= f;
    for (int k = 0; k < kept; k++) {
        double v = 0;
        for (int j = 0; j < red; j++)
            v += g[rows ? k * K + j : j * K + k] * g[rows ? k * K + j : j * K + k] / red;
        s[k] += (1 - beta2) * (v - s[k]);
        before += v * red;
        after += v * red / fmax(s[k], 1e-10);
    }
    for (int r = 0; r < R; r++) for (int c = 0; c < K; c++)
            g[r * K + c] *= 1 / sqrt(fmax(s[rows ? r : c], 1e-10)) * sqrt(before) /
                            fmax(sqrt(after), 1e-10);
    for (int i = 0; i < n; i++) p[i] -= lr * g[i] + (g[i] * p[i] >= 0 ? lr * wd * p[i] : 0);
}
/* In five steps a direction's smallest singular value grows by the product of the first
 * coefficients, and so does a rounding error in it. */
static const double gain = 990;
/* With bfloat16 the naive version rounds in the same places. But sums of floats fall on the other side
 * of a tie now and then, which is 2^-8 of an element, and that is amplified too: 4e-2 was seen, as
 * relative L2 of the updates, in matrices of 66 x 130; 1e-4 in small ones, where no sum does. */
static const double muon_bf16 = 6e-2;

static double muon_error(const Ops *o, int count, int R, int K, real **out)
{
    int64_t n = (int64_t)R * K, ns = R >= K ? R : K;
    const double mu = 0.9, beta2 = 0.9, lr = 0.05, wd = 0.2;
    real *p = random_reals(count * n, -1, 1), *m = random_reals(count * n, -1, 1),
         *s = random_reals(count * ns, 0, 1);
    double *dp = doubles(p, count * n), *dm = doubles(m, count * n), *ds = doubles(s, count * ns),
           worst = 0;
    const size_t all = (size_t)(count * n) * sizeof(real), nt = o->muon_tmp(count, R, K);
    real *xp = dev(o, p, all), *xm = dev(o, m, all), *xs = dev(o, s, (size_t)(count * ns) * sizeof(real));
    unsigned char *fill = must(malloc(nt + 64)), *tmp = dev(o, memset(fill, 0xa5, nt + 64), nt + 64);
    for (int t = 0; t < 2; t++) {
        real *g = random_reals(count * n, -1, 1);
        if (t == 1 && count > 1)
            memset(g, 0, (size_t)n * sizeof *g); /* no gradient: only momentum */
        double *dg = doubles(g, count * n);
        o->muon(store_real(xp), dev(o, g, all), xm, xs, tmp, count, R, K, mu, beta2, lr, wd);
        o->get(p, xp, all);
        for (int i = 0; i < count; i++)
            naive_muon(dp + i * n, dg + i * n, dm + i * n, ds + i * ns, R, K, mu, beta2, lr, wd);
        double top = 0;
        for (int64_t i = 0; i < count * n; i++) top = fmax(top, fabs(dg[i]));
        double e2 = 0, n2 = 0;
        for (int64_t i = 0; bf16 && i < count * n; i++) {
            double e = fabs((double)p[i] - dp[i]);
            if (fabs(dg[i]) < 0.01 * top)               /* either sign of a zero will do */
                e = fmin(e, fabs(e - lr * wd * fabs(dp[i])));
            e2 += e * e;
            n2 += lr * lr * dg[i] * dg[i];
        }
        if (bf16) worst = fmax(worst, sqrt(e2 / n2) / muon_bf16);
        for (int64_t i = 0; !bf16 && i < count * n; i++) {
            double may = 0.5 * two * unit * gain * top, err = fabs((double)p[i] - dp[i]);
            double sign = fabs(dg[i]) < may ? lr * wd * fabs(dp[i])
                                            : 0; /* either sign of a zero will do */
            worst = fmax(worst, err / (lr * (t + 1) * may + 4 * unit * two + sign));
        }
        free(g); free(dg);
    }
    o->get(fill, tmp, nt + 64);
    for (int i = 0; i < 64; i++) if (fill[nt + (size_t)i] != 0xa5) worst = INFINITY;
    free(fill);
    dev_end(o);
    free(dp); free(dm); free(ds); free(m); free(s);
    *out = p;
    return worst;
}

static void check_adamw(const char *tier, int64_t n)
{
    real *one, *more;
    uint64_t seed = lcg;
    double e = adamw_error(tier_ops(tier, 1), n, &one);
    ok(e <= 1, "adamw %s %lld: %.2f of what is allowed", tier, (long long)n, e);
    for (int j = 2; j <= VARIANTS; j++) {
        lcg = seed;
        adamw_error(tier_ops(tier, j), n, &more);
        ok(memcmp(one, more, (size_t)n * sizeof *one) == 0,
           "adamw %s %lld: the same, %s %d", tier, (long long)n, variant, j);
        free(more);
    }
    free(one);
}
static void check_muon(const char *tier, int count, int R, int K)
{
    real *one, *more;
    uint64_t seed = lcg;
    double e = muon_error(tier_ops(tier, 1), count, R, K, &one);
    ok(e <= 1, "muon %s%s %d x [%d,%d]: %.2f of what is allowed", tier, bf16 ? " bf16" : "", count, R,
       K, e);
    for (int j = 2; j <= VARIANTS; j++) {
        lcg = seed;
        muon_error(tier_ops(tier, j), count, R, K, &more);
        ok(memcmp(one, more, (size_t)count * (size_t)R * (size_t)K * sizeof *one) == 0,
           "muon %s %d x [%d,%d]: the same, %s %d", tier, count, R, K, variant, j);
        free(more);
    }
    free(one);
}
#ifndef HARNESS_CUDA
/* With bfloat16 factors, the update is as far from the exact one as a naive one's with the same
 * rounding. (The two do not agree: where a factor is near the middle of two bfloat16 numbers, a
 * float's error decides, and the five steps multiply that.) */
static void check_muon_bf16(const char *tier, int R, int K)
{
    int64_t n = (int64_t)R * K, ns = R >= K ? R : K;
    double *was[4], e2 = 0, n2 = 0, rounding2 = 0;
    real *p[3], *in[4] = { random_reals(n, -1, 1), random_reals(n, -1, 1), random_reals(n, -1, 1),
                           random_reals(ns, 0, 1) };          /* p, g, m, s */
    bf16 = true;
    for (int j = 0; j < 3; j++) {
        const Ops *o = tier_ops(tier, j + 1);
        real *a[4];
        for (int k = 0; k < 4; k++) a[k] = dup_bytes(in[k], (size_t)(k < 3 ? n : ns) * sizeof(real));
        void *tmp = o->alloc(o->muon_tmp(1, R, K));
        o->muon(store_real(a[0]), a[1], a[2], a[3], tmp, 1, R, K, 0.9, 0.9, 1, 0);
        o->free(tmp, o->muon_tmp(1, R, K));
        p[j] = a[0];
        free(a[1]); free(a[2]); free(a[3]);
    }
    bf16 = false;
    double *d[2];
    for (int j = 0; j < 2; j++) {
        for (int k = 0; k < 4; k++) was[k] = doubles(in[k], k < 3 ? n : ns);
        rounded = j == 0;
        naive_muon(was[0], was[1], was[2], was[3], R, K, 0.9, 0.9, 1, 0);
        d[j] = was[0];
        free(was[1]); free(was[2]); free(was[3]);
    }
    rounded = false;
    for (int64_t i = 0; i < n; i++) {
        double start = (double)in[0][i], want = d[1][i] - start;
        e2 += ((double)p[0][i] - d[1][i]) * ((double)p[0][i] - d[1][i]);
        rounding2 += (d[0][i] - d[1][i]) * (d[0][i] - d[1][i]);
        n2 += want * want;
    }
    ok(e2 < 1.5 * 1.5 * rounding2 && rounding2 < 0.01 * n2,
       "muon %s bf16 [%d,%d]: off by %.1e of the update, as rounding is (%.1e)", tier, R, K,
       sqrt(e2 / n2), sqrt(rounding2 / n2));
    ok(!memcmp(p[0], p[1], (size_t)n * sizeof(real)) && !memcmp(p[0], p[2], (size_t)n * sizeof(real)),
       "muon %s bf16 [%d,%d]: the same with 2 and 3 threads", tier, R, K);
    for (int j = 0; j < 3; j++) free(p[j]);
    for (int k = 0; k < 4; k++) free(in[k]);
    free(d[0]); free(d[1]);
}
#endif
static void check_sums(const char *tier, int64_t n)
{
    const size_t bytes = (size_t)n * sizeof(real);
    real *x = random_reals(n, -1, 1), *y = must(malloc(bytes));
    long double sum = 0.25L;
    double got[VARIANTS + 1] = { 0 };
    bool same = true;
    for (int64_t i = 0; i < n; i++) sum += (long double)x[i] * x[i];
    double naive = (double)sum;
    for (int j = 1; j <= VARIANTS; j++) {
        const Ops *o = tier_ops(tier, j);
        got[j] = 0.25;
        double *out = dev(o, &got[j], sizeof *out);
        o->sumsq(out, store_real(dev(o, x, bytes)), n);
        o->get(&got[j], out, sizeof *out);
        dev_end(o);
        same &= got[j] == got[1];
    }
    ok(fabs(got[1] - naive) <= 12 * unit * naive, "sumsq %s %lld: off by %g u", tier, (long long)n,
       fabs(got[1] - naive) / naive / unit);
    ok(same, "sumsq %s %lld: the same, %s 1 to %d", tier, (long long)n, variant, VARIANTS);
    const Ops *o = tier_ops(tier, 2);
    real *dx = dev(o, x, bytes);
    o->scale(store_real(dx), 1.1, n);
    o->get(y, dx, bytes);
    int bad = 0;
    for (int64_t i = 0; i < n; i++) bad += y[i] != x[i] * (real)1.1;
    ok(bad == 0, "scale %s %lld", tier, (long long)n);
    for (int64_t i = 0; i < n; i++) y[i] = x[n - 1 - i];
    o->put(dx, x, bytes);
    o->lerp(dx, store_real(dev(o, y, bytes)), 0.3, n);
    real *z = dev_get(o, dx, bytes);
    for (int64_t i = 0; i < n; i++) {
        double was = (double)x[i], to = (double)y[i], want = was + (double)(real)0.3 * (to - was);
        bad += fabs((double)z[i] - want) > 2 * unit * (fabs(was) + fabs(to));
    }
    ok(bad == 0, "lerp %s %lld", tier, (long long)n);
    dev_end(o);
    free(x); free(y); free(z);
}

int main(void)
{
    static const int shapes[][3] = {
        { 1, 1, 1 },    { 2, 1, 7 },    { 3, 7, 1 },     { 2, 3, 17 },
        { 1, 17, 3 },   { 40, 6, 12 },  { 3, 31, 31 },   { 1, 65, 64 },
        { 2, 130, 66 }, { 2, 66, 130 }, { 1, 130, 130 }, { 1, 7, 700 },
    };
    for (size_t j = 0; j < sizeof tiers / sizeof *tiers; j++) {
        if (!tier_runs(tiers[j])) continue;
        for (int i = 0; i < 6; i++)
            check_adamw(tiers[j], (int64_t[]){ 1, 7, 65, 130, 8193, 50001 }[i]);
        for (int i = 0; i < 6; i++)
            check_sums(tiers[j], (int64_t[]){ 1, 7, 65, 1030, 8193, 50001 }[i]);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            check_muon(tiers[j], shapes[i][0], shapes[i][1], shapes[i][2]);
#ifdef HARNESS_CUDA
        bf16 = true;
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            check_muon(tiers[j], shapes[i][0], shapes[i][1], shapes[i][2]);
        bf16 = false;
#endif
    }
#ifndef HARNESS_CUDA
    static const int large[][2] = { { 33, 50 }, { 65, 64 }, { 66, 130 }, { 131, 65 }, { 130, 130 } };
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        for (int j = 0; j < 3 && sizeof(real) == 4; j++) {
            static const char *const by[] = { "avx512_bf16", "avx512_twin", "amx_bf16" };
            if (cpu_runs(j == 2 ? by[j] : by[0])) check_muon_bf16(by[j], large[i][0], large[i][1]);
            else skip("this processor does not multiply bfloat16 so", "muon %s", by[j]);
        }
#endif
    return done();
}
