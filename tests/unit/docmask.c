/* F57: documents of a row that are kept apart. What stands before a document changes no bit of its
 * losses and gradients, and it is as if it stood at the row's start. In float, and in double. */
#include "gpt/data.h"
#include "gpt/model.h"
#include "tap.h"
#include <math.h>

enum { T = 48, A = 19, B = 23, V = 60, BOS = 59 };

#ifdef REAL_F64
static const double tol = 1e-12;
#else
static const double tol = 1e-6;
#endif

typedef struct Result { real loss[T]; real *g; } Result;

/* Losses of a row and the gradient of their sum over targets [from, to). */
static Result run(Model *m, const int *x, int from, int to, int apart)
{
    Result r;
    int y[T], doc[T];
    Tape t;
    for (int i = 0; i < T; i++) y[i] = i >= from && i < to ? x[(i + 1) % T] : -1;
    data_docs(doc, x, 1, T, BOS);
    tape_init(&t, m->ops);
    t.on = 1;
    model_zero_grad(m);
    Var *h = model_forward_docs(m, &t, x, apart ? doc : NULL, 1, T);
    model_loss(m, &t, h, y, NULL, T, r.loss, 1);
    tape_backward(&t);
    tape_free(&t);
    r.g = xreallocarray(NULL, (size_t)m->n, sizeof *r.g);
    memcpy(r.g, m->g, (size_t)m->n * sizeof *r.g);
    return r;
}

static double off(const real *a, const real *b, int64_t n)
{
    double d = 0, most = 1e-30;
    for (int64_t i = 0; i < n; i++) {
        d = fmax(d, fabs((double)a[i] - (double)b[i]));
        most = fmax(most, fabs((double)b[i]));
    }
    return d / most;
}

/* A document of n tokens, the first of which is bos. */
static void put(int *x, int n, int seed)
{
    x[0] = BOS;
    for (int i = 1; i < n; i++) x[i] = (i * i * 7 + seed * 13 + i * seed) % BOS;
}

static void starts(void)
{
    int x[2 * 5] = { 3, BOS, 4, 5, BOS, BOS, 1, 2, 3, 4 }, doc[2 * 5];
    const int want[2 * 5] = { 0, 1, 1, 1, 4, 0, 0, 0, 0, 0 };
    data_docs(doc, x, 2, 5, BOS);
    ok(!memcmp(doc, want, sizeof want), "where documents start, row by row");
}

int main(void)
{
    const Ops *ops = ops_cpu(2);
    Config c = config_depth(3, 16, 16, T, V, "SL");
    Model *m = model_new(ops, &c, 1);
    int one[T], two[T], alone[T];
    starts();
    model_init(m, 5);
    for (int64_t i = 0; i < m->n; i++) m->w[i] += (real)0.05 * (real)((i * 7919) % 13 - 6);
    put(one, A, 1);
    put(two, A, 2);
    put(one + A, B, 3);
    memcpy(two + A, one + A, B * sizeof *one);
    put(one + A + B, T - A - B, 4);
    memcpy(two + A + B, one + A + B, (T - A - B) * sizeof *one);
    put(alone, B, 3);
    put(alone + B, T - B, 5);

    Result a = run(m, one, A, A + B - 1, 1), b = run(m, two, A, A + B - 1, 1);
    ok(memcmp(one, two, sizeof one) && !memcmp(a.loss, b.loss, sizeof a.loss),
       "another document before it: the same losses");
    int same = 1;
    for (int64_t i = 0; i < m->n; i++) same &= a.g[i] == b.g[i];
    ok(same, "and the same gradients, bit for bit");
    Result s = run(m, alone, 0, B - 1, 1);
    double d = off(a.loss + A, s.loss, B - 1);
    ok(d < tol, "as if it stood at the row's start: losses off by %.2g", d);
    d = off(a.g, s.g, m->n);
    ok(d < 10 * tol, "gradients by %.2g", d);
    Result p = run(m, one, A, A + B - 1, 0), q = run(m, two, A, A + B - 1, 0);
    ok(off(p.loss, q.loss, T) > 1e-3 && off(p.loss, a.loss, T) > 1e-3,
       "without, they see each other: %.2g", off(p.loss, q.loss, T));
    Result first = run(m, one, 0, A - 1, 1), plain = run(m, one, 0, A - 1, 0);
    ok(off(first.loss, plain.loss, T) < tol, "the first document of a row is as ever");
    Result *all[] = { &a, &b, &s, &p, &q, &first, &plain };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->g);
    model_free(m);
    return done();
}
