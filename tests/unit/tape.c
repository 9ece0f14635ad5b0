/* The tape's memory: recomputing blocks changes no bit of losses and gradients; what a step takes
 * per layer, per block recomputed, and in an evaluation. */
#include "gpt/model.h"
#include "tap.h"
#include <math.h>

enum { B = 2, T = 64, N = B * T };

typedef struct Result { real *g; real loss[N]; size_t bytes; } Result;

static Config config(int L)
{
    return (Config){ .family = &nanochat_family, .T = T, .V = 50, .Vp = 64, .L = L, .H = 4, .K = 2,
                     .C = 64, .window = "SL" };
}

/* One forward pass of a model of L layers; on: backward too. Gradients in r->g, to be freed. */
static void run(const Ops *ops, int L, int on, int recompute, Result *r)
{
    Config c = config(L);
    Model *m = model_new(ops, &c, 1);
    model_init(m, 1);
    for (int i = 0; i < m->nparam; i++) {       /* nothing may be zero: no gradient would be tried */
        Param *p = &m->param[i];
        if (p->init != INIT_CONST && (p->a != 0 || p->b != 0)) continue;
        real *w = xreallocarray(NULL, (size_t)p->n, sizeof *w);
        for (int64_t k = 0; k < p->n; k++) w[k] = (real)((k * 7 + i) % 11 - 5) / 40;
        model_set(m, p, w);
        free(w);
    }
    int id[N];
    for (int i = 0; i < N; i++) id[i] = i * i % 50;
    int *x = ops->alloc(sizeof id);
    real *loss = ops->alloc(sizeof r->loss);
    ops->put(x, id, sizeof id);
    Tape t;
    tape_init(&t, ops);
    t.on = on;
    t.recompute = recompute;
    Var *h = model_forward(m, &t, x, B, T, NULL);
    model_loss(m, &t, h, x, NULL, N, loss, 1.0 / N);
    if (on) tape_backward(&t);
    ops->get(r->loss, loss, sizeof r->loss);
    r->g = xcalloc((size_t)m->n, sizeof *r->g);
    for (int i = 0; i < m->nparam; i++)
        ops->load(r->g + m->param[i].off, var_grad(&m->param[i].var), m->param[i].n);
    r->bytes = t.bytes;
    tape_free(&t);
    ops->free(x, sizeof id);
    ops->free(loss, sizeof r->loss);
    model_free(m);
}

static void recompute(const Ops *ops, int L)
{
    Result a, b;
    Config c = config(L);
    run(ops, L, 1, 0, &a);
    run(ops, L, 1, 1, &b);
    ok(memcmp(a.loss, b.loss, sizeof a.loss) == 0, "%s, %d layers: losses are the same", ops->dtype,
       L);
    Model *m = model_new(ops, &c, 0);
    int bad = 0, none = 0;
    for (int i = 0; i < m->nparam; i++) {
        const Param *p = &m->param[i];
        bad += memcmp(a.g + p->off, b.g + p->off, (size_t)p->n * sizeof *a.g) != 0;
        double most = 0;
        for (int64_t k = 0; k < p->n; k++) most = fmax(most, fabs((double)a.g[p->off + k]));
        none += !(most > 0);
    }
    ok(bad == 0, "%s, %d layers: gradients are the same", ops->dtype, L);
    ok(none == 0, "and none is all zeros (%d)", none);
    model_free(m);
    free(a.g);
    free(b.g);
}

/* Bytes that one more layer takes, in arrays of N x C: the difference of two depths. */
static double per_layer(const Ops *ops, int on, int recompute)
{
    Result a, b;
    run(ops, 12, on, recompute, &a);
    run(ops, 4, on, recompute, &b);
    free(a.g);
    free(b.g);
    return (double)(a.bytes - b.bytes) / 8 / ((double)N * 64 * (double)ops->act_size);
}

int main(void)
{
    const Ops *ops = ops_cpu(1);
    recompute(ops, 5);
    recompute(ops, 1);
    recompute(ops_open("cpu", "bf16", 1), 5);
    double all = per_layer(ops, 1, 0), re = per_layer(ops, 1, 1), eval = per_layer(ops, 0, 0);
    /* kept: the block's input, q, k and v (1/2 each), y, mlp_in, relu^2 (4) */
    ok(all <= 9, "a layer keeps %.2f N C", all);
    ok(re <= 1, "with recomputation %.2f", re);
    ok(eval == 0, "in an evaluation %.2f", eval);
    return done();
}
