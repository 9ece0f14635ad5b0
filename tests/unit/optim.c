/* The optimizer's spans: they tile the table, stacks done in parts give the same bits, memory is
 * what optim_bytes() says, padding stays zero. Numbers are in tests/golden/{optim,train10}.c. */
#include "base/rng.h"
#include "gpt/optim.h"
#include "tap.h"
#include <math.h>

static const Ops *real_ops;
static size_t taken;

static void *count_alloc(size_t n)
{
    taken += n;
    return real_ops->alloc(n);
}

/* says that more than one matrix needs too much */
static size_t greedy_tmp(int count, int R, int K)
{
    return real_ops->muon_tmp(count, R, K) + (count > 1 ? (size_t)1 << 40 : 0);
}

static const Config config = { .family = &nanochat_family, .T = 16, .V = 70, .Vp = 128, .L = 5, .H = 2,
                               .K = 1, .C = 28, .window = "SL" };
static const OptimSettings settings = { .embedding_lr = 0.3, .unembedding_lr = 0.008, .matrix_lr = 0.02,
    .scalar_lr = 0.5, .batch_scale = 1, .lr_scale = 1, .weight_decay = 0.28 };

static void random_grads(Model *m, int step)
{
    for (int i = 0; i < m->nparam; i++) {
        const Param *p = &m->param[i];
        Rng r;
        rng_init(&r, (uint64_t)step, (uint64_t)i);
        real *g = xreallocarray(NULL, (size_t)p->n, sizeof *g);
        for (int64_t k = 0; k < p->n; k++) g[k] = (real)(0.01 * rng_normal(&r));
        m->ops->put(m->g + p->off, g, (size_t)p->n * sizeof *g);
        m->ops->sync();
        free(g);
    }
}

static real *fetch(const Ops *ops, const real *dev, int64_t n)
{
    real *x = xreallocarray(NULL, (size_t)n, sizeof *x);
    ops->get(x, dev, (size_t)n * sizeof *x);
    return x;
}

static int same(const Ops *ops, const real *a, const real *b, int64_t n)
{
    real *x = fetch(ops, a, n), *y = fetch(ops, b, n);
    int r = !memcmp(x, y, (size_t)n * sizeof *x);
    free(x); free(y);
    return r;
}

static void tiling(const Optim *o)
{
    const Model *m = o->m;
    int next = 0, good = 1;
    int64_t end = 0, end2 = 0;
    for (int i = 0; i < o->nspan; i++) {
        const OptimSpan *s = &o->span[i];
        good &= s->first == next && s->off >= end && s->off2 >= end2;
        for (int k = s->first; k < s->first + s->count; k++) good &= m->param[k].group == s->group;
        next = s->first + s->count;
        end = s->off + s->n;
        end2 = s->off2 + s->units * s->side;
    }
    ok(good && next == m->nparam && end <= m->n && end2 <= o->n2, "%d spans hold all %d parameters",
       o->nspan, m->nparam);
    char *used = xcalloc((size_t)o->n2, 1);
    for (int i = 0; i < m->nparam; i++) {
        const Param *p = &m->param[i];
        int64_t n, from, at = optim_moment(o, p, 1, &from, &n).w - o->m2;
        int64_t want = p->group == PG_MATRIX ? (p->rows >= p->cols ? p->rows : p->cols) : p->n;
        good &= n == want && at >= 0 && at + n <= o->n2;
        for (int64_t k = at; good && k < at + n; k++) good &= !used[k]++;
    }
    ok(good, "second moments: one place each");
    free(used);
}

static void padding(const Model *m)
{
    real *w = fetch(m->ops, m->w, m->n);
    int zero = 1, any = 0;
    for (int i = 0; i < m->nparam; i++) {
        const Param *p = &m->param[i];
        int64_t end = i + 1 < m->nparam ? p[1].off : m->n;
        for (int64_t k = p->off + p->n; k < end; k++, any++) zero &= w[k] == 0;
    }
    ok(zero && any, "%d elements of padding are still zero", any);
    free(w);
}

/* Parameters that are frozen keep weights and moments; the others do what they did with all of them,
 * though the stacks are in pieces now. The running mean follows every weight. */
static void freezing(void)
{
    OptimSettings s = settings;
    s.ema = 0.5;
    Model *a = model_new(real_ops, &config, 1), *b = model_new(real_ops, &config, 1);
    model_init(a, 7);
    model_init(b, 7);
    ok(model_freeze(b, "nothing*") == 0 && model_freeze(b, "*.h.[1-2].attn.c_?.*") == 6 &&
           model_freeze(b, "*.wte.*") == 1 && model_freeze(b, "resid_lambdas") == 1,
       "patterns");
    Optim *x = optim_new(a, &s), *y = optim_new(b, &s);
    tiling(y);
    real *start = fetch(real_ops, b->w, b->n), *ema = fetch(real_ops, b->w, b->n);
    double worst = 0;
    for (int t = 1; t <= 3; t++) {
        random_grads(a, t);
        random_grads(b, t);
        optim_step(x, 1, 0.9, 0.28);
        optim_step(y, 1, 0.9, 0.28);
        real *w = fetch(real_ops, b->w, b->n), *got = fetch(real_ops, y->ema, b->n);
        double d = fmin(0.5, (1.0 + t) / (10.0 + t));
        for (int64_t i = 0; i < b->n; i++) {
            ema[i] = (real)(d * (double)ema[i] + (1 - d) * (double)w[i]);
            worst = fmax(worst, fabs((double)got[i] - (double)ema[i]));
        }
        free(w);
        free(got);
    }
    int kept = 1, rest = 1, zero = 1;
    for (int i = 0; i < b->nparam; i++) {
        const Param *p = &b->param[i];
        int64_t n2, from;
        real *at = optim_moment(y, p, 1, &from, &n2).w;
        real *was = optim_moment(x, &a->param[i], 1, &from, &n2).w;
        real *w = fetch(real_ops, b->w + p->off, p->n);
        real *m1 = fetch(real_ops, y->m1 + p->off, p->n), *m2 = fetch(real_ops, at, n2);
        if (p->frozen) kept &= !memcmp(w, start + p->off, (size_t)p->n * sizeof *w);
        else
            rest &= same(real_ops, a->w + p->off, b->w + p->off, p->n) &&
                    same(real_ops, was, at, n2);
        for (int64_t k = 0; p->frozen && k < p->n; k++) zero &= m1[k] == 0;
        for (int64_t k = 0; p->frozen && k < n2; k++) zero &= m2[k] == 0;
        free(w); free(m1); free(m2);
    }
    ok(kept && zero, "frozen: weights and moments stay");
    ok(rest, "the others: the same bits as without");
    ok(worst < 1e-6, "running mean: off by %.2g", worst);
    free(start); free(ema);
    optim_free(x); optim_free(y);
    model_free(a); model_free(b);
}

static void count_grad(void *arg, Var *x) { (void)x; ++*(int *)arg; }

/* Gradients of what is not frozen have the same bits whatever is; frozen ones are never written. */
static void no_gradient(void)
{
    enum { B = 2, T = 16, N = B * T };
    static const char *const pattern[] = { "*.wte.*", "lm_head*", "value*", "*", "*_gate*", "smear*",
                                           "*lambda*", "*.h.0.*", "*.mlp.*", "*.attn.c_[qkv]*", "[!l]*" };
    int x[N], good = 1, some = 0, walked, all_walked = 0, idle = 0;
    for (int i = 0; i < N; i++) x[i] = i * 7 % 60;
    real loss[N], *all = NULL;
    for (size_t k = 0; k <= sizeof pattern / sizeof *pattern; k++) {
        Model *m = model_new(real_ops, &config, 1);
        model_init(m, 3);
        for (int64_t i = 0; i < m->n; i++) m->w[i] += (real)0.01 * (real)(i % 7);
        if (k) model_freeze(m, pattern[k - 1]);
        Tape t;
        tape_init(&t, real_ops);
        t.on = 1;
        walked = 0;
        t.on_grad = count_grad;
        t.on_grad_arg = &walked;
        model_loss(m, &t, model_forward(m, &t, x, B, T, NULL), x, NULL, N, loss, 1.0 / N);
        tape_backward(&t);
        if (!k) all = fetch(real_ops, m->g, m->n);
        for (int i = 0; i < m->nparam; i++) {
            const Param *p = &m->param[i];
            for (int64_t j = p->off; j < p->off + p->n; j++) {
                good &= m->g[j] == (p->frozen ? 0 : all[j]);
                some += p->frozen && all[j] != 0;
            }
        }
        if (!k) all_walked = walked;
        idle = walked;
        tape_free(&t);
        model_free(m);
    }
    ok(good && some > 1000, "gradients with this and that frozen");
    ok(all_walked > 50 && idle == 0, "nothing is walked back to where nothing learns");
    free(all);
}

int main(void)
{
    real_ops = ops_cpu(2);
    Ops parts = *real_ops, counting = *real_ops;
    parts.muon_tmp = greedy_tmp;
    counting.alloc = count_alloc;
    Model *a = model_new(&counting, &config, 1), *b = model_new(&parts, &config, 1);
    model_init(a, 7);
    model_init(b, 7);
    taken = 0;
    Optim *x = optim_new(a, &settings), *y = optim_new(b, &settings);
    ok(taken == optim_bytes(a, &settings), "optim_bytes: %zu", taken);
    ok(y->ntmp < x->ntmp, "parts need less scratch");
    tiling(x);
    for (int i = 0; i < 3; i++) {
        random_grads(a, i);
        random_grads(b, i);
        if (i == 0)
            ok(fabs(grad_norm(a) / (0.01 * sqrt((double)config_params(&config, -1))) - 1) < 0.05,
               "norm of the gradient");
        optim_step(x, 1 - 0.3 * i, 0.85 + 0.01 * i, 0.28);
        optim_step(y, 1 - 0.3 * i, 0.85 + 0.01 * i, 0.28);
    }
    ok(same(real_ops, a->w, b->w, a->n) && same(real_ops, x->m1, y->m1, a->n) &&
           same(real_ops, x->m2, y->m2, x->n2),
       "matrix by matrix: the same bits");
    padding(a);
    optim_free(x); optim_free(y);
    model_free(a); model_free(b);
    freezing();
    no_gradient();
    return done();
}
