/* The loss of more rows than nn_loss() makes logits of at once is that of all rows at once: each loss and
 * each gradient of a row to the bit, that of lm_head, a sum over rows, but for roundings. In float, in
 * bfloat16, and as double (REAL_F64). */
#include "base/err.h"
#include "gpt/nn.h"
#include "tap.h"
#include <math.h>

enum { N = 2500, C = 24, V = 60, Vp = 64 };
static const real cap = 15, scale = (real)(1.0 / N);

static uint64_t state;
static double uniform(double lo, double hi)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return lo + (hi - lo) * (double)(state >> 11) * 0x1p-53;
}
/* device memory with n random Acts, or n zeros if hi is 0; *host: the same as reals, if it is wanted */
static Act *acts(const Ops *ops, int64_t n, double hi, real *host)
{
    real *r = xcalloc((size_t)n, sizeof *r), *dev = ops->alloc((size_t)n * sizeof *r);
    Act *x = ops->alloc((size_t)n * ops->act_size);
    for (int64_t i = 0; i < n; i++) r[i] = (real)uniform(-hi, hi);
    ops->put(dev, r, (size_t)n * sizeof *r);
    ops->cast(x, dev, n);
    if (host) {
        ops->uncast(dev, x, n);
        ops->get(host, dev, (size_t)n * sizeof *host);
    }
    ops->free(dev, (size_t)n * sizeof *r);
    free(r);
    return x;
}
static int same(const Ops *ops, const void *a, const void *b, size_t bytes)
{
    void *x = xcalloc(bytes, 1), *y = xcalloc(bytes, 1);
    ops->get(x, a, bytes);
    ops->get(y, b, bytes);
    const int equal = memcmp(x, y, bytes) == 0;
    free(x), free(y);
    return equal;
}
/* Is dw [Vp,C] the sum of z[n]^T x[n], as far as its terms in reals let it be? */
static int is_sum(const Ops *ops, const real *dw, const Act *z, const real *x)
{
    const double unit = sizeof(real) == 8 ? 0x1p-53 : 0x1p-24;
    real *got = xcalloc(Vp * C, sizeof *got), *g = xcalloc((size_t)N * Vp, sizeof *g),
         *dev = ops->alloc((size_t)N * Vp * sizeof *dev);
    int good = 1, some = 0;
    ops->get(got, dw, Vp * C * sizeof *got);
    ops->uncast(dev, z, (int64_t)N * Vp);
    ops->get(g, dev, (size_t)N * Vp * sizeof *g);
    for (int v = 0; v < Vp; v++)
        for (int c = 0; c < C; c++) {
            double sum = 0, mag = 0;
            for (int n = 0; n < N; n++) {
                const double t = (double)g[n * Vp + v] * (double)x[n * C + c];
                sum += t;
                mag += fabs(t);
            }
            good &= fabs((double)got[v * C + c] - sum) <= unit * (4 + 2 * sqrt(N)) * mag;
            some += sum != 0;
        }
    ops->free(dev, (size_t)N * Vp * sizeof *dev);
    free(got), free(g);
    return good && some == V * C;
}

static void check(const char *dtype, int weighted)
{
    const Ops *ops = ops_open("cpu", dtype, 1);
    const size_t act = ops->act_size;
    real *hx = xcalloc((size_t)N * C, sizeof *hx), *hwt = xcalloc(N, sizeof *hwt);
    int *htgt = xcalloc(N, sizeof *htgt);
    Var x = { .v = acts(ops, (int64_t)N * C, 2, hx), .n = (int64_t)N * C },
        w = { .v = acts(ops, Vp * C, 1, NULL), .n = Vp * C, .param = 1 };
    for (int n = 0; n < N; n++) {
        htgt[n] = (int)uniform(0, V + 3) - 3;
        htgt[n] = htgt[n] < 0 ? -1 : htgt[n];
        hwt[n] = (real)uniform(0, 2);
    }
    int *tgt = ops->alloc(N * sizeof *tgt);
    real *wt = weighted ? ops->alloc(N * sizeof *wt) : NULL, *dw = ops->alloc(Vp * C * sizeof *dw),
         *loss = ops->alloc(N * sizeof *loss), *want = ops->alloc(N * sizeof *want),
         *eval = ops->alloc(N * sizeof *eval);
    ops->put(tgt, htgt, N * sizeof *tgt);
    if (wt) ops->put(wt, hwt, N * sizeof *wt);
    w.dw = dw;
    Tape t;
    tape_init(&t, ops);
    nn_loss(&t, eval, &x, &w, tgt, wt, N, C, V, Vp, (double)cap, (double)scale);
    t.on = 1;
    nn_loss(&t, loss, &x, &w, tgt, wt, N, C, V, Vp, (double)cap, (double)scale);
    ok(t.bytes < (size_t)N * Vp * act, "%s: rows of logits are made a part at a time", dtype);

    Act *z = acts(ops, (int64_t)N * Vp, 0, NULL), *dx = acts(ops, (int64_t)N * C, 0, NULL);
    ops->linear(z, x.v, w.v, N, C, Vp, 0);
    ops->xent(want, z, tgt, wt, N, V, Vp, cap, scale);
    ops->linear_dx(dx, z, w.v, N, C, Vp, 0);
    ok(same(ops, loss, want, N * sizeof *loss), "%s: losses are those of all rows at once", dtype);
    ok(same(ops, eval, want, N * sizeof *loss), "%s: and without gradients", dtype);
    ok(x.g && same(ops, x.g, dx, (size_t)N * C * act), "%s: gradients of rows as well", dtype);
    ok(is_sum(ops, dw, z, hx), "%s: lm_head's is their sum", dtype);
    tape_free(&t);
    ops->free(z, (size_t)N * Vp * act), ops->free(dx, (size_t)N * C * act);
    ops->free(x.v, (size_t)N * C * act), ops->free(w.v, Vp * C * act);
    ops->free(tgt, N * sizeof *tgt), ops->free(dw, Vp * C * sizeof *dw);
    ops->free(loss, N * sizeof *loss), ops->free(want, N * sizeof *loss);
    ops->free(eval, N * sizeof *loss);
    if (wt) ops->free(wt, N * sizeof *wt);
    free(hx), free(hwt), free(htgt);
}

int main(void)
{
    check("fp32", 0);
    check("fp32", 1);
#ifndef REAL_F64
    check("bf16", 0);
    check("bf16", 1);
#endif
    return done();
}
