/* pick(): against a naive selection by sorting, at the edges, and by its frequencies. */
#include "gpt/pick.h"
#include "base/err.h"
#include "tap.h"
#include <float.h>
#include <math.h>

typedef struct Rank { double l; int id; } Rank;

static int by_rank(const void *a, const void *b)
{
    const Rank *x = a, *y = b;
    if (x->l != y->l) return x->l < y->l ? 1 : -1;
    return x->id - y->id;
}

/* Probabilities prob [V] by sorting everything. */
static void naive(const Pick *p, const real *l, int V, double *prob)
{
    Rank *r = xcalloc((size_t)V, sizeof *r);
    for (int i = 0; i < V; i++) r[i] = (Rank){ (double)l[i], i };
    qsort(r, (size_t)V, sizeof *r, by_rank);
    int k = p->top_k > 0 && p->top_k < V ? p->top_k : V;
    double sum = 0;
    for (int i = 0; i < V; i++) prob[i] = 0;
    for (int i = 0; i < k; i++) sum += prob[r[i].id] = exp((r[i].l - r[0].l) / p->temperature);
    if (p->top_p > 0 && p->top_p < 1) {
        double c = 0;
        for (int i = 0; i < k; i++) {
            double w = prob[r[i].id];
            if (i > 0 && c >= p->top_p * sum) prob[r[i].id] = 0;
            c += w;
        }
    }
    sum = 0;
    for (int i = 0; i < V; i++) {
        if (prob[i] < p->min_p) prob[i] = 0;
        sum += prob[i];
    }
    for (int i = 0; i < V; i++) prob[i] /= sum;
    free(r);
}

/* The id whose share of [0,1) holds u; edge: u is too near a border to tell. */
static int share(const double *prob, int V, double u, int *edge)
{
    double c = 0;
    int id = -1;
    *edge = 0;
    for (int i = 0; i < V; i++) {
        if (prob[i] == 0) continue;
        c += prob[i];
        if (fabs(c - u) < 1e-12) *edge = 1;
        if (id < 0 && u < c) id = i;
    }
    return id;
}

static void against_naive(void)
{
    enum { V = 100 };
    real l[V];
    double tmp[2 * V], prob[V];
    Rng make, draw;
    rng_init(&make, 1, 0);
    rng_init(&draw, 2, 0);
    int bad = 0, edges = 0;
    for (int round = 0; round < 20000; round++) {
        int n = 1 + (int)rng_below(&make, V), ties = round % 3 == 0;
        for (int i = 0; i < n; i++)
            l[i] = (real)(ties ? (double)rng_below(&make, 5) : 3 * rng_normal(&make));
        Pick p = { .temperature = 0.1 + 2 * rng_uniform(&make) };
        p.top_k = (int)rng_below(&make, V + 5);
        if (round % 2) p.top_p = 1.1 * rng_uniform(&make);
        if (round % 5 > 2) p.min_p = rng_uniform(&make) / 2;
        naive(&p, l, n, prob);
        Rng copy = draw;
        int edge, want = share(prob, n, rng_uniform(&copy), &edge);
        int got = pick(&p, l, n, &draw, tmp);
        edges += edge;
        bad += !edge && got != want;
        bad += memcmp(&copy, &draw, sizeof copy) != 0;
    }
    ok(bad == 0, "20000 random cases equal selection by sorting; each draws one number");
    ok(edges < 20, "of which few are too near a border to tell (%d)", edges);
}

static void greedy(void)
{
    real l[5] = { 1, 7, -2, 7, 6 };
    double tmp[10];
    Rng r;
    Pick zero = { 0 };
    ok(pick(&zero, l, 5, NULL, NULL) == 1, "temperature 0: the largest, the smallest id on a tie");
    Pick one = { .temperature = 1, .top_k = 1 };
    int bad = 0;
    for (int s = 0; s < 100; s++) {
        rng_init(&r, (uint64_t)s, 0);
        bad += pick(&one, l, 5, &r, tmp) != 1;
    }
    ok(bad == 0, "top-k 1 is greedy for any seed, ties included");
    static const double tiny[] = { 1e-6, 1e-30, DBL_MIN, 4.9e-324 };
    real m[4] = { -1, 2, (real)1.5, -FLT_MAX };
    for (int i = 0; i < 4; i++) {
        Pick p = { .temperature = tiny[i] };
        bad = 0;
        for (int s = 0; s < 100; s++) {
            rng_init(&r, (uint64_t)s, 0);
            bad += pick(&p, m, 4, &r, tmp) != 1;
        }
        ok(bad == 0, "temperature %g is greedy and overflows nothing", tiny[i]);
    }
}

/* chi-square of n draws against prob; cells with probability 0 must stay empty (then -1) */
static double chi_square(const Pick *p, const real *l, int V, const double *prob, int n)
{
    int *count = xcalloc((size_t)V, sizeof *count);
    double *tmp = xcalloc(2 * (size_t)V, sizeof *tmp), x = 0;
    Rng r;
    rng_init(&r, 42, 7);
    for (int i = 0; i < n; i++) {
        int id = pick(p, l, V, &r, tmp);
        if (id < 0 || id >= V || prob[id] == 0) { x = -1; break; }
        count[id]++;
    }
    for (int i = 0; i < V && x >= 0; i++)
        if (prob[i] > 0) x += (count[i] - n * prob[i]) * (count[i] - n * prob[i]) / (n * prob[i]);
    free(count);
    free(tmp);
    return x;
}

/* With 19, 4, 19, 2 and 19 degrees of freedom chi-square passes 60 with probability below 1e-5. */
static void frequencies(void)
{
    enum { V = 20 };
    real l[V];
    double prob[V];
    for (int i = 0; i < V; i++) l[i] = (real)(2 * sin(i * 1.7));
    static const Pick cases[] = {
        { .temperature = 1 }, { .temperature = 1, .top_k = 5 },
        { .temperature = 2.5, .top_k = V + 3 }, { .temperature = 0.3, .top_k = 3 }
    };
    for (int i = 0; i < 4; i++) {
        naive(&cases[i], l, V, prob);
        double x = chi_square(&cases[i], l, V, prob, 100000);
        ok(x >= 0 && x < 60, "temperature %g, top-k %d: chi-square %.1f", cases[i].temperature,
           cases[i].top_k, x);
    }
    for (int i = 0; i < V; i++) prob[i] = 1.0 / V;
    Pick hot = { .temperature = 1e300 };
    double x = chi_square(&hot, l, V, prob, 100000);
    ok(x >= 0 && x < 60, "temperature 1e300 is uniform: chi-square %.1f", x);
}

static void edges(void)
{
    real l[3] = { -FLT_MAX, FLT_MAX, FLT_MAX };
    double tmp[6];
    Rng r;
    rng_init(&r, 1, 1);
    Pick p = { .temperature = 1 };
    int seen[3] = { 0 };
    for (int i = 0; i < 200; i++) {
        int id = pick(&p, l, 3, &r, tmp);
        if (id >= 0) seen[id]++;
    }
    ok(seen[0] == 0 && seen[1] > 50 && seen[2] > 50, "the largest floats do not overflow");
    ok(pick(&p, l, 1, &r, tmp) == 0, "a vocabulary of one");
    static const double odd[] = { NAN, INFINITY, -INFINITY };
    int bad = 0;
    for (int i = 0; i < 9; i++) {
        real m[3] = { 1, 2, 3 };
        m[i / 3] = (real)odd[i % 3];
        Pick cold = { 0 }, few = { .temperature = 1, .top_k = 1 };
        bad += pick(&p, m, 3, &r, tmp) != -1;
        bad += pick(&cold, m, 3, NULL, NULL) != -1;
        bad += pick(&few, m, 3, &r, tmp) != -1;
    }
    ok(bad == 0, "a logit that is not finite gives -1, wherever it stands");
}

/* The worst order for a heap of the largest: every logit is larger than those before. */
static void rising(void)
{
    enum { V = 200000, K = 100000 };
    real *l = xcalloc(V, sizeof *l);
    double *tmp = xcalloc(2 * V, sizeof *tmp);
    for (int i = 0; i < V; i++) l[i] = (real)i;
    Rng r;
    rng_init(&r, 3, 3);
    Pick p = { .temperature = 1e300, .top_k = K };
    int bad = 0;
    for (int i = 0; i < 50; i++) bad += pick(&p, l, V, &r, tmp) < V - K;
    ok(bad == 0, "top-k 100000 of 200000 rising logits");
    free(l);
    free(tmp);
}

int main(void)
{
    against_naive();
    greedy();
    frequencies();
    edges();
    rising();
    return done();
}
