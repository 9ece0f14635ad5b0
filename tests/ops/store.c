/* What is kept as bfloat16s, or as reals in two halves (ops.h, Store): in and out of it, rounding, and
 * the operations on it. In two halves nothing is lost: each gives the bits that it gives with reals.
 * As bfloat16s: those of reals, rounded. With HARNESS_CUDA, the CUDA back-end's. */
#include "harness.h"

static uint32_t bits_of(real x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static real real_of(uint32_t u)
{
    real x;
    memcpy(&x, &u, sizeof x);
    return x;
}
/* to the nearest; of two as near the even one, or the one farther from 0 */
static uint16_t nearest(real x, bool even)
{
    uint32_t u = bits_of(x), up = u >> 16, rest = u & 0xffff;
    return (uint16_t)(up + (rest > 0x8000 || (rest == 0x8000 && (!even || up & 1))));
}
static real half_real(uint16_t h) { return real_of((uint32_t)h << 16); }

typedef enum { REALS, HALVES, SPLIT } Kind;
static const char *const kind_name[] = { "reals", "bfloat16s", "two halves" };
/* a Store of n numbers, until dev_end() */
static Store keep(const Ops *o, Kind kind, const real *x, int64_t n)
{
    size_t half = (size_t)n * sizeof(uint16_t);
    Store s = { 0 };
    if (kind == REALS) s.w = dev(o, NULL, 2 * half);
    else s.hi = dev(o, NULL, half);
    if (kind == SPLIT) s.lo = dev(o, NULL, half);
    o->store(s, x, n);
    o->sync();
    return s;
}
static real *loaded(const Ops *o, Store s, int64_t n)
{
    real *x = must(malloc((size_t)n * sizeof *x));
    o->load(x, s, n);
    return x;
}
static real *numbers(int64_t n, double lo, double hi)
{
    real *x = must(malloc((size_t)n * sizeof *x));
    for (int64_t i = 0; i < n; i++) x[i] = (real)uniform(lo, hi);
    return x;
}
static real *rounded(const real *x, int64_t n)
{
    real *y = must(malloc((size_t)n * sizeof *y));
    for (int64_t i = 0; i < n; i++) y[i] = half_real(nearest(x[i], true));
    return y;
}
static bool same(const real *x, const real *y, int64_t n) { return !memcmp(x, y, (size_t)n * sizeof *x); }

/* All upper halves with ties and their neighbours, and any bits. */
static void check_formats(const char *tier)
{
    enum { N = 65536 * 6 + 5 };
    static const uint32_t low[] = { 0, 1, 0x7fff, 0x8000, 0x8001, 0xffff };
    const Ops *o = tier_ops(tier, 2);
    real *x = must(malloc(N * sizeof *x));
    for (int i = 0; i < N; i++) x[i] = real_of((uint32_t)(i / 6) << 16 | low[i % 6]);
    for (int i = 65536 * 6; i < N; i++) x[i] = (real)uniform(-1, 1);
    Store two = keep(o, SPLIT, x, N), one = keep(o, HALVES, x, N);
    real *y = loaded(o, two, N), *z = loaded(o, one, N);
    uint16_t *hi = dev_get(o, two.hi, N * sizeof *hi);
    int exact = 0, near = 0, copy = 0, nan = 0;
    for (int i = 0; i < N; i++) {
        if (x[i] != x[i]) {
            real h = half_real(hi[i]);
            nan += y[i] == y[i] || z[i] == z[i] || h == h;
            continue;
        }
        exact += bits_of(y[i]) != bits_of(x[i]);
        copy += hi[i] != nearest(x[i], false);
        near += bits_of(z[i]) != (uint32_t)nearest(x[i], true) << 16;
    }
    ok(!exact, "%s: %d numbers in two halves come out as they went in", tier, N);
    ok(!copy, "%s: the upper half is the nearest bfloat16", tier);
    ok(!near, "%s: bfloat16s are the nearest, of two the even one", tier);
    ok(!nan, "%s: what is no number stays none, in the upper half alone too", tier);
    dev_end(o);
    free(x); free(y); free(z); free(hi);
}

/* p, g, m, v kept so, three steps; `wide` [4]: as they are afterwards */
static void adamw_steps(const Ops *o, const Kind *kind, real *const *start, int64_t n, int steps,
                        real **wide)
{
    Store s[4];
    for (int k = 0; k < 4; k++) s[k] = keep(o, kind[k], start[k], n);
    for (int t = 1; t <= steps; t++)
        o->adamw(s[0], s[1], s[2], s[3], n, 0.03, 0.8, 0.95, 1e-10, 0.1, 1 - pow(0.8, t),
                 1 - pow(0.95, t));
    for (int k = 0; k < 4; k++) wide[k] = loaded(o, s[k], n);
    dev_end(o);
}
static void check_adamw(const char *tier, int64_t n)
{
    static const Kind reals[4], split[4] = { SPLIT }, halves[4] = { HALVES, HALVES, HALVES, HALVES };
    const Ops *o = tier_ops(tier, 1 + (int)(n % 2));
    real *x[4] = { numbers(n, -1, 1), numbers(n, -1, 1), numbers(n, -1, 1), numbers(n, 0, 1) };
    real *a[4], *b[4], *c[4], *d[4], *r[4];
    adamw_steps(o, reals, x, n, 3, a);
    adamw_steps(o, split, x, n, 3, b);
    bool good = true, near = true;
    for (int k = 0; k < 4; k++) good &= same(a[k], b[k], n), r[k] = rounded(x[k], n);
    ok(good, "adamw %s %lld: with p in two halves the same bits", tier, (long long)n);
    adamw_steps(o, halves, r, n, 1, c);         /* one step: rounded once */
    adamw_steps(o, reals, r, n, 1, d);
    for (int k = 0; k < 4; k++) {
        real *e = rounded(d[k], n);
        near &= same(e, c[k], n);
        free(e);
    }
    ok(near, "adamw %s %lld: with bfloat16s that of reals, rounded", tier, (long long)n);
    for (int k = 0; k < 4; k++) free(x[k]), free(a[k]), free(b[k]), free(c[k]), free(d[k]), free(r[k]);
}

static real *muon_step(const Ops *o, Kind kind, real *const *x, int count, int R, int K)
{
    int64_t n = (int64_t)count * R * K, ns = (int64_t)count * (R >= K ? R : K);
    Store p = keep(o, kind, x[0], n);
    real *g = dev(o, x[1], (size_t)n * sizeof *g), *m = dev(o, x[2], (size_t)n * sizeof *m),
         *s = dev(o, x[3], (size_t)ns * sizeof *s);
    o->muon(p, g, m, s, dev(o, NULL, o->muon_tmp(count, R, K)), count, R, K, 0.9, 0.9, 0.05, 0.2);
    real *w = loaded(o, p, n);
    dev_end(o);
    return w;
}
static void check_muon(const char *tier, int count, int R, int K)
{
    int64_t n = (int64_t)count * R * K;
    const Ops *o = tier_ops(tier, 2);
    real *x[4] = { numbers(n, -1, 1), numbers(n, -1, 1), numbers(n, -1, 1), numbers(n, 0, 1) };
    real *a = muon_step(o, REALS, x, count, R, K), *b = muon_step(o, SPLIT, x, count, R, K);
    ok(same(a, b, n) && !same(a, x[0], n), "muon %s %dx[%d,%d]: with p in two halves the same bits",
       tier, count, R, K);
    for (int k = 0; k < 4; k++) free(x[k]);
    free(a); free(b);
}

static void check_others(const char *tier, Kind kind, int64_t n)
{
    const Ops *o = tier_ops(tier, 1 + (int)(n % 2));
    real *x = numbers(n, -1, 1), *y = numbers(n, -1, 1), *h = rounded(x, n);
    const real *is = kind == HALVES ? h : x;            /* what the Store holds */
    Store s = keep(o, kind, x, n), r = keep(o, REALS, is, n);
    double zero[2] = { 0 }, sum[2], *out = dev(o, zero, sizeof zero);
    o->sumsq(out, s, n);
    o->sumsq(out + 1, r, n);
    o->get(sum, out, sizeof sum);
    ok(sum[0] == sum[1] && sum[0] > 0, "sumsq %s %s: that of reals", tier, kind_name[kind]);
    real *dy = dev(o, y, (size_t)n * sizeof *dy), *dz = dev(o, y, (size_t)n * sizeof *dz);
    o->lerp(dy, s, 0.3, n);
    o->lerp(dz, r, 0.3, n);
    real *gy = dev_get(o, dy, (size_t)n * sizeof *gy), *gz = dev_get(o, dz, (size_t)n * sizeof *gz);
    ok(same(gy, gz, n), "lerp %s %s: that of reals", tier, kind_name[kind]);
    o->scale(s, 1.1, n);
    o->scale(r, 1.1, n);
    real *a = loaded(o, s, n), *b = loaded(o, r, n), *c = rounded(b, n);
    ok(same(a, kind == HALVES ? c : b, n), "scale %s %s: that of reals%s", tier, kind_name[kind],
       kind == HALVES ? ", rounded" : "");
    dev_end(o);
    free(x); free(y); free(h); free(gy); free(gz); free(a); free(b); free(c);
}

/* Weights and their mean change places, and back. Zeros: with the lower half of a small negative
 * number they look like none. */
static void check_exchange(const char *tier, Kind kind, int64_t n)
{
    const Ops *o = tier_ops(tier, 2);
    real *x = numbers(n, -1, 1), *y = numbers(n, -1e-3, 1e-3), *h = rounded(x, n);
    for (int64_t i = 0; i < n; i += 3) x[i] = h[i] = i % 2 ? 0 : (real)-0.0;
    const real *is = kind == HALVES ? h : x;
    Store s = keep(o, kind, x, n);
    real *dy = dev(o, y, (size_t)n * sizeof *dy);
    o->exchange(s, dy, n);
    real *a = loaded(o, s, n);
    int bad = 0;
    for (int64_t i = 0; i < n; i++)
        bad += bits_of(a[i]) != (kind == HALVES ? (uint32_t)nearest(y[i], false) << 16 : bits_of(y[i]));
    ok(!bad, "exchange %s %s: the weights are their mean", tier, kind_name[kind]);
    o->exchange(s, dy, n);
    real *b = loaded(o, s, n), *c = dev_get(o, dy, (size_t)n * sizeof *c);
    ok(same(b, is, n) && same(c, y, n), "exchange %s %s: twice, all is as it was", tier,
       kind_name[kind]);
    dev_end(o);
    free(x); free(y); free(h); free(a); free(b); free(c);
}

/* A table's gradient: the rows of a token are added up as reals, and the sum is rounded once. */
static void check_rows(const char *tier, int N, int K, int D, int V, bool gated)
{
    enum { G = 3 };
    const int C = K * D;
    bf16 = true;
    real *dw = numbers((int64_t)V * C, -1, 1), *dy = numbers((int64_t)N * C, -1, 1);
    real *h = numbers((int64_t)N * C, -1, 1), *w = numbers(K * G, -1, 1), *got[3] = { NULL };
    int *idx = must(malloc((size_t)N * sizeof *idx)), bad = 0;
    for (int i = 0; i < N; i++) idx[i] = (int)uniform(0, V);
    for (int j = 0; j < 3; j++) {
        const Ops *o = tier_ops(tier, j + 1);
        Store to = keep(o, j == 2 ? REALS : HALVES, dw, (int64_t)V * C);
        Store dys = keep(o, HALVES, dy, (int64_t)N * C), hs = keep(o, HALVES, h, (int64_t)N * C);
        if (j == 2) {                           /* the same start */
            real *start = rounded(dw, (int64_t)V * C);
            o->store(to, start, (int64_t)V * C);
            o->sync();
            free(start);
        }
        Act *a = (void *)dys.hi, *b = (void *)hs.hi;
        int *di = dev(o, idx, (size_t)N * sizeof *di);
        if (!gated) o->embed_bwd(to, a, di, N, C, V);
        else o->vgate_bwd(NULL, to, NULL, NULL, a, b, di, b, dev(o, w, (size_t)(K * G) * sizeof *w),
                          N, C, K, D, G, V);
        got[j] = loaded(o, to, (int64_t)V * C);
        dev_end(o);
    }
    for (int64_t i = 0; i < (int64_t)V * C; i++)
        bad += got[0][i] != half_real(nearest(got[2][i], true));
    const char *what = gated ? "vgate_bwd" : "embed_bwd";
    ok(!bad, "%s %s [%d,%d] of %d: that into reals, rounded once", what, tier, N, C, V);
    ok(same(got[0], got[1], (int64_t)V * C), "%s %s [%d,%d]: the same, %s 2", what, tier, N, C,
       variant);
    bf16 = false;
    free(dw); free(dy); free(h); free(w); free(idx);
    for (int j = 0; j < 3; j++) free(got[j]);
}

int main(void)
{
    static const int shapes[][3] = { { 40, 6, 12 }, { 2, 70, 66 }, { 1, 66, 130 }, { 2, 3, 17 } };
    for (size_t j = 0; j < sizeof tiers / sizeof *tiers; j++) {
        if (!tier_runs(tiers[j])) continue;
        check_formats(tiers[j]);
        for (int i = 0; i < 4; i++) check_adamw(tiers[j], (int64_t[]){ 1, 65, 130, 50001 }[i]);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            check_muon(tiers[j], shapes[i][0], shapes[i][1], shapes[i][2]);
        for (Kind k = HALVES; k <= SPLIT; k++) {
            check_others(tiers[j], k, 67);
            check_others(tiers[j], k, 8200);
        }
        for (Kind k = REALS; k <= SPLIT; k++) check_exchange(tiers[j], k, 1003);
    }
    for (size_t j = 0; j < sizeof tiers / sizeof *tiers; j++) {
        bf16 = true;
        bool runs = tier_runs(tiers[j]);
        bf16 = false;
        if (!runs) continue;
        for (int g = 0; g < 2; g++) {
            check_rows(tiers[j], 1, 1, 8, 5, g);
            check_rows(tiers[j], 50, 3, 10, 7, g);
            check_rows(tiers[j], 300, 4, 32, 40, g);
        }
    }
    return done();
}
