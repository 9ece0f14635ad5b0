/* cases_llama.h -- part of cases.h: the operations of the Llama family alone. */
#ifndef CASES_LLAMA_H
#define CASES_LLAMA_H
#include "harness.h"

/* ---- gain: N C */
static void gain_arrays(Arr *a, const int *d)
{
    ARRAYS({ "y", 'y', d[0] * d[1], 0, 0 }, { "x", 'x', d[0] * d[1], 0, 0 },
           { "g", 'r', d[1], -2, 2 });
}
static void gain_call(const Ops *o, void **a, const int *d)
{
    o->gain(a[0], a[1], a[2], d[0], d[1]);
}
static void gain_back(const Ops *o, void **g, void *dy, void **a, const int *d)
{
    o->gain_bwd(g[1], g[2], dy, a[1], a[2], d[0], d[1]);
}
static void gain_naive(double **a, double **mag, const int *d)
{
    for (int i = 0; i < d[0] * d[1]; i++) mag[0][i] = fabs(a[0][i] = a[1][i] * a[2][i % d[1]]);
}
static const int gain_dims[][MAXDIM] = { D(1, 1),    D(3, 7),   D(257, 5), D(2, 17),
                                         D(40, 65), D(70, 1032), D(300, 130) };

/* ---- swiglu: n */
static void sw_arrays(Arr *a, const int *d)
{
    ARRAYS({ "y", 'y', d[0], 0, 0 }, { "a", 'x', d[0], -12, 12 }, { "b", 'x', d[0], -2, 2 });
}
static void sw_call(const Ops *o, void **a, const int *d) { o->swiglu(a[0], a[1], a[2], d[0]); }
static void sw_back(const Ops *o, void **g, void *dy, void **a, const int *d)
{
    o->swiglu_bwd(g[1], g[2], dy, a[1], a[2], d[0], 1);
}
/* da = dy b s (1 + a (1 - s)): s, and so 1 - s, is off by an exp's, a sum's and a quotient's
 * roundings, and a, which multiplies that, is up to 12 */
static double sw_terms(const int *d) { return (void)d, 50; }
static void sw_naive(double **a, double **mag, const int *d)
{
    for (int i = 0; i < d[0]; i++)
        mag[0][i] = fabs(a[0][i] = a[1][i] * sigmoid(a[1][i]) * a[2][i]);
}

/* ---- slots_add: N k C; some permutation of the places */
static int *some_slots(int n)
{
    static int s[4096];
    int step = 7;
    while (n % step == 0) step += 4;            /* 7, 11, 15: prime to the numbers below */
    for (int i = 0; i < n; i++) s[i] = (int)(((int64_t)i * step + 3) % n);
    return s;
}
static int *dev_slots(const Ops *o, const int *d)
{
    int n = d[0] * d[1];
    return dev(o, some_slots(n), (size_t)n * sizeof(int));
}
static void sa_arrays(Arr *a, const int *d)
{
    ARRAYS({ "y", 'Y', d[0] * d[2], 0, 0 }, { "x", 'x', d[0] * d[1] * d[2], 0, 0 },
           { "wt", 'r', d[0] * d[1], 0, 1 });
}
static void sa_call(const Ops *o, void **a, const int *d)
{
    o->slots_add(a[0], a[1], a[2], dev_slots(o, d), d[0], d[1], d[2]);
}
static void sa_back(const Ops *o, void **g, void *dy, void **a, const int *d)
{
    o->slots_add_bwd(g[1], g[2], dy, a[1], a[2], dev_slots(o, d), d[0], d[1], d[2], 1);
}
static void sa_naive(double **a, double **mag, const int *d)
{
    const int *slot = some_slots(d[0] * d[1]);
    for (int i = 0; i < d[0] * d[2]; i++) mag[0][i] = fabs(a[0][i]);
    for (int n = 0; n < d[0]; n++)
        for (int j = 0; j < d[1]; j++)
            for (int c = 0; c < d[2]; c++) {
                double t = a[2][n * d[1] + j] * a[1][slot[n * d[1] + j] * d[2] + c];
                a[0][n * d[2] + c] += t;
                mag[0][n * d[2] + c] += fabs(t);
            }
}
static double sa_terms(const int *d) { return fmax(d[1], d[2]); }
static const int sa_dims[][MAXDIM] = { D(1, 1, 1), D(5, 1, 17), D(3, 2, 33), D(8, 4, 7),
                                       D(20, 2, 264), D(140, 2, 130) };

/* ---- experts: n E C O; where experts begin: some have no row, the last ones the most */
static int *some_rows(const int *d)
{
    static int off[65];
    for (int e = 0; e <= d[1]; e++) off[e] = (int)((int64_t)d[0] * e * e / (d[1] * d[1]));
    if (d[1] > 2) off[2] = off[1];
    return off;
}
static int *dev_rows(const Ops *o, const int *d)
{
    return dev(o, some_rows(d), (size_t)(d[1] + 1) * sizeof(int));
}
static void ex_arrays(Arr *a, const int *d)
{
    ARRAYS({ "y", 'y', d[0] * d[3], 0, 0 }, { "x", 'x', d[0] * d[2], 0, 0 },
           { "w", 'p', d[1] * d[2] * d[3], 0, 0 });
}
static void ex_call(const Ops *o, void **a, const int *d)
{
    o->experts(a[0], a[1], a[2], dev_rows(o, d), d[0], d[1], d[2], d[3]);
}
static void ex_back(const Ops *o, void **g, void *dy, void **a, const int *d)
{
    o->experts_dx(g[1], dy, a[2], dev_rows(o, d), d[0], d[1], d[2], d[3], 1);
    o->experts_dw(g[2], dy, a[1], dev_rows(o, d), d[0], d[1], d[2], d[3]);
}
static void ex_naive(double **a, double **mag, const int *d)
{
    const int *off = some_rows(d), C = d[2], O = d[3];
    for (int n = 0, e = 0; n < d[0]; n++) {
        while (off[e + 1] <= n) e++;
        for (int o = 0; o < O; o++) {
            double s = 0, m = 0;
            for (int c = 0; c < C; c++) {
                double t = a[1][n * C + c] * a[2][(e * O + o) * C + c];
                s += t, m += fabs(t);
            }
            a[0][n * O + o] = s;
            mag[0][n * O + o] = m;
        }
    }
}
static double ex_terms(const int *d) { return fmax(d[2], fmax(d[0], d[3])); }
static const int ex_dims[][MAXDIM] = { D(1, 1, 3, 2), D(9, 3, 7, 5), D(20, 4, 17, 6),
                                       D(300, 3, 70, 75) };

/* ---- route: N C E k norm. No two scores here are so near that rounding picks. */
static void ro_run(const Ops *o, void **a, const int *d, real *p, real *wt, int *pick, int *off)
{
    int n = d[0] * d[3];
    size_t bytes = (size_t)n * sizeof(int), noff = (size_t)(d[2] + 1) * sizeof(int);
    int *dslot = dev(o, NULL, bytes), *dsrc = dev(o, NULL, bytes);
    o->route(p, wt, pick, dslot, dsrc, off, NULL, a[2], a[3], d[0], d[1], d[2], d[3], d[4]);
    int *slot = dev_get(o, dslot, bytes), *src = dev_get(o, dsrc, bytes),
        *to = dev_get(o, pick, bytes), *at = dev_get(o, off, noff);
    int bad = at[0] != 0 || at[d[2]] != n;
    for (int i = 0; i < n; i++)
        bad += src[slot[i]] != i / d[3] || slot[i] < at[to[i]] || slot[i] >= at[to[i] + 1] ||
               (i >= d[3] && to[i] == to[i - d[3]] && slot[i] <= slot[i - d[3]]);
    if (bad) die("route: the assignments are not sorted by expert and token");
    free(slot), free(src), free(to), free(at);
}
static void ro_arrays(Arr *a, const int *d)
{
    ARRAYS({ "wt", 'l', d[0] * d[3], 0, 0 }, { "p", 's', d[0] * d[2], 0, 0 },
           { "h", 'x', d[0] * d[1], 0, 0 }, { "gate", 'r', d[2] * d[1], 0, 0 });
}
static void ro_call(const Ops *o, void **a, const int *d)
{
    int *pick = dev(o, NULL, (size_t)(d[0] * d[3]) * sizeof *pick),
        *off = dev(o, NULL, (size_t)(d[2] + 1) * sizeof *off);
    ro_run(o, a, d, a[1], a[0], pick, off);
}
static void ro_back(const Ops *o, void **g, void *dy, void **a, const int *d)
{
    int *pick = dev(o, NULL, (size_t)(d[0] * d[3]) * sizeof *pick),
        *off = dev(o, NULL, (size_t)(d[2] + 1) * sizeof *off);
    ro_run(o, a, d, a[1], a[0], pick, off);
    o->route_bwd(g[2], g[3], dy, a[1], a[0], pick, off, a[2], a[3], d[0], d[1], d[2], d[3], d[4], 0);
}
static void ro_naive(double **a, double **mag, const int *d)
{
    int C = d[1], E = d[2], k = d[3];
    for (int n = 0; n < d[0]; n++) {
        double *p = a[1] + n * E, most = 0, sum = 0, top = 0;
        char taken[64] = { 0 };
        for (int e = 0; e < E; e++) {
            double z = 0, m = 0;
            for (int c = 0; c < C; c++) {
                double t = a[2][n * C + c] * a[3][e * C + c];
                z += t, m += fabs(t);
            }
            sum += p[e] = exp(z);
            most = fmax(most, m);
        }
        for (int e = 0; e < E; e++) mag[1][n * E + e] = (p[e] /= sum) * (1 + 2 * most);
        for (int j = 0; j < k; j++) {
            int best = -1;
            for (int e = 0; e < E; e++) if (!taken[e] && (best < 0 || p[e] > p[best])) best = e;
            top += a[0][n * k + j] = p[best];
            taken[best] = 1;
        }
        for (int j = 0; j < k; j++) {
            if (d[4]) a[0][n * k + j] /= top;
            mag[0][n * k + j] = a[0][n * k + j] * (1 + 4 * most);
        }
    }
}
static double ro_terms(const int *d) { return fmax(d[1], d[0]); }
static const int ro_dims[][MAXDIM] = { D(1, 1, 1, 1, 0), D(7, 9, 4, 1, 0), D(6, 17, 5, 2, 1),
                                       D(9, 8, 8, 3, 0), D(5, 33, 3, 3, 1), D(300, 260, 4, 2, 1) };
/* the auxiliary loss and its gradient, by differences of it: the picks do not change */
enum { AUX_N = 9, AUX_C = 5, AUX_E = 4, AUX_K = 2, AUX_H = AUX_N * AUX_C, AUX_G = AUX_E * AUX_C };
/* the loss for h and gate, x [AUX_H + AUX_G]; with grad, three times its gradient */
static double aux_loss(const Ops *o, const real *x, real *grad, int *picked)
{
    enum { N = AUX_N, C = AUX_C, E = AUX_E, K = AUX_K, R = sizeof(real), I = sizeof(int) };
    Act *h = dev(o, x, AUX_H * R), *dh = dev(o, NULL, AUX_H * R);
    real *gate = dev(o, x + AUX_H, AUX_G * R), *dgate = dev(o, NULL, AUX_G * R),
         *p = dev(o, NULL, N * E * R), *wt = dev(o, NULL, N * K * R), *dwt = dev(o, NULL, N * K * R),
         *aux = dev(o, NULL, R), got;
    int *pick = dev(o, NULL, N * K * I), *slot = dev(o, NULL, N * K * I),
        *src = dev(o, NULL, N * K * I), *off = dev(o, NULL, (E + 1) * I);
    o->route(p, wt, pick, slot, src, off, aux, h, gate, N, C, E, K, 1);
    o->get(&got, aux, sizeof got);
    o->get(picked, pick, N * K * I);
    if (grad) {
        o->route_bwd(dh, dgate, dwt, p, wt, pick, off, h, gate, N, C, E, K, 1, 3);
        o->get(grad, dh, AUX_H * R);
        o->get(grad + AUX_H, dgate, AUX_G * R);
    }
    dev_end(o);
    return (double)got;
}
/* against differences, where both ends pick the same experts: it jumps where they do not */
__attribute__((unused)) static void check_aux(const Ops *o)
{
    enum { ALL = AUX_H + AUX_G, PICKS = AUX_N * AUX_K };
    real *x = random_reals(ALL, -1, 1), got[ALL];
    int bad = 0, compared = 0, picked[2][PICKS];
    aux_loss(o, x, got, picked[0]);
    const double step = sizeof(real) == 8 ? 1e-6 : 2e-3, may = sizeof(real) == 8 ? 1e-8 : 1e-3;
    for (int i = 0; i < ALL; i++) {
        const real was = x[i];
        x[i] = was + (real)step;
        double up = aux_loss(o, x, NULL, picked[0]);
        x[i] = was - (real)step;
        double down = aux_loss(o, x, NULL, picked[1]);
        x[i] = was;
        if (memcmp(picked[0], picked[1], sizeof picked[0])) continue;
        compared++;
        bad += !(fabs((double)got[i] - 3 * (up - down) / (2 * step)) <= may);
    }
    ok(bad == 0 && compared > ALL * 9 / 10, "%s: the auxiliary loss's gradient, %d of %d numbers",
       o->name, compared, ALL);
    free(x);
}
#endif
