/* Is the run well? Losses and gradients that are not finite, losses out of line, and the same
 * micro-batch computed in another way. */
#include "base/progress.h"
#include "options.h"
#include "run.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* ---- not finite */

/* A row's shard and number there, with the epoch: where to look for what is wrong. */
static char *name_row(const Run *r, uint64_t pos)
{
    uint64_t in, in_epoch, epoch = data_epoch(r->train, pos, &in_epoch);
    const char *file = data_where(r->train, data_row(r->train, pos), &in);
    return xasprintf("%s row %" PRIu64 " (epoch %" PRIu64 ")", file, in, epoch);
}

/* The smallest of all ranks' positions. */
static uint64_t first_of(uint64_t pos)
{
    double x = -(double)pos;
    comm_max(&x, 1);
    return (uint64_t)-x;
}

static double mean_of(const Ops *ops, const real *dloss, int N, uint64_t valid)
{
    real *loss = xreallocarray(NULL, (size_t)N, sizeof *loss);
    double sum = 0;
    ops->get(loss, dloss, (size_t)N * sizeof *loss);
    for (int i = 0; i < N; i++) sum += (double)loss[i];
    free(loss);
    return sum / (double)valid;
}

/* The position of the first row of the step whose loss, or else whose gradient alone, is not finite;
 * the end of the step if each is by itself. The gradient is lost. */
static uint64_t bad_row(Run *r, uint64_t valid)
{
    uint64_t rows = (uint64_t)r->plan.accum * (uint64_t)r->plan.B,
             none = r->st.pos + (uint64_t)r->plan.rows, loss = none, grad = none;
    for (uint64_t i = 0; loss == none && i < rows; i++) {
        uint64_t pos = ranks_row(r, i);
        model_zero_grad(r->trained);
        step_batch(r, pos, 1, valid);
        if (!isfinite(mean_of(r->ops, r->micro.loss, r->plan.T, valid))) loss = pos;
        if (grad == none && !isfinite(grad_norm(r->trained))) grad = pos;
    }
    loss = first_of(loss);
    grad = first_of(grad);
    return loss < none ? loss : grad;
}

/* What is on the disk, for someone who has to go on from there. */
static char *last_checkpoint(const Run *r)
{
    if (r->saved < 0) return xasprintf("nothing was saved yet");
    return xasprintf("the checkpoint of step %" PRId64 " is in %s%s", r->saved, opt.out,
                     r->saved == r->st.step ? ", but those weights gave this" : "");
}

void health_bad(Run *r, const char *what, double x, uint64_t valid)
{
    if (isnan(x)) x = NAN;                      /* no "-nan" */
    uint64_t pos = bad_row(r, valid), end = r->st.pos + (uint64_t)r->plan.rows;
    char *row = name_row(r, pos < end ? pos : r->st.pos);
    const char *where = pos < end ? "first in" : "finite row by row; from";
    if (r->st.nonfinite >= opt.skip_nonfinite)
        die("step %" PRId64 ": the %s is %g, %s %s; %s", r->st.step + 1, what, x, where, row,
            last_checkpoint(r));
    r->st.nonfinite++;
    warn("step %" PRId64 ": the %s is %g, %s %s: skipped, %" PRId64 " of at most %" PRId64,
         r->st.step + 1, what, x, where, row, r->st.nonfinite, opt.skip_nonfinite);
    free(row);
}

static int all_finite(const Model *m)
{
    enum { CHUNK = 1 << 16 };
    real *a = xreallocarray(NULL, CHUNK, sizeof *a);
    int good = 1;
    for (int p = 0; p < m->nparam; p++) {
        const Param *x = &m->param[p];
        for (int64_t i = 0; good && i < x->n; i += CHUNK) {
            int64_t n = x->n - i < CHUNK ? x->n - i : CHUNK;
            m->ops->load(a, store_at(var_weights(&x->var), i), n);
            for (int64_t k = 0; k < n; k++) good &= isfinite(a[k]) != 0;
        }
    }
    free(a);
    return good;
}

/* The norm is quick, and infinite also where only squares overflow. */
void health_weights(Run *r)
{
    if (!isfinite(weight_norm(r->trained)) && !all_finite(r->trained))
        die("step %" PRId64 ": the weights are not finite any more; %s", r->st.step,
            last_checkpoint(r));
}

/* ---- losses out of line */

/* Mean and variance with weights that fall off exponentially, over about 50 steps, a plain average
 * at first (West 1979, Welford's method with a floor under 1/n). */
double health_spike(RunState *s, double loss)
{
    enum { ENOUGH = 10 };
    double n = (double)(state_updates(s) + 1), a = fmax(1 / n, 0.02), d = loss - s->loss_mean;
    double z = n > ENOUGH && s->loss_var > 0 ? d / sqrt(s->loss_var) : NAN;
    s->loss_mean += a * d;
    s->loss_var = (1 - a) * (s->loss_var + a * d * d);
    return z;
}

/* ---- the same again */

/* sqrt of the sum of squares of g - h, and of g, over all parameters that learn. */
static void compare(const Model *g, const Model *h, double *diff, double *norm)
{
    enum { CHUNK = 1 << 16 };
    real *a = xreallocarray(NULL, CHUNK, sizeof *a), *b = xreallocarray(NULL, CHUNK, sizeof *b);
    *diff = *norm = 0;
    for (int p = 0; p < g->nparam; p++) {
        const Var *x = &g->param[p].var, *y = &h->param[p].var;
        for (int64_t i = 0; var_learns(x) && i < x->n; i += CHUNK) {
            int64_t n = x->n - i < CHUNK ? x->n - i : CHUNK;
            g->ops->load(a, store_at(var_grad(x), i), n);
            h->ops->load(b, store_at(var_grad(y), i), n);
            for (int64_t k = 0; k < n; k++) {
                double d = (double)a[k] - (double)b[k];
                *diff += d * d;
                *norm += (double)a[k] * (double)a[k];
            }
        }
    }
    *diff = sqrt(*diff);
    *norm = sqrt(*norm);
    free(a);
    free(b);
}

static void copy_weights(Model *to, const Model *from)
{
    enum { CHUNK = 1 << 16 };
    real *a = xreallocarray(NULL, CHUNK, sizeof *a);
    for (int p = 0; p < from->nparam; p++) {
        const Var *x = &from->param[p].var, *y = &to->param[p].var;
        for (int64_t i = 0; i < x->n; i += CHUNK) {
            int64_t n = x->n - i < CHUNK ? x->n - i : CHUNK;
            from->ops->load(a, store_at(var_weights(x), i), n);
            to->ops->store(store_at(var_weights(y), i), a, n);
            to->ops->sync();
        }
    }
    free(a);
}

/* What step_batch() does, for the ids in r->x, r->y, r->doc and another model. */
static double elsewhere(Model *m, const Run *r, uint64_t pos, uint64_t valid)
{
    int B = r->plan.B, T = r->plan.T;
    Micro u;
    Tape t;
    micro_init(&u, m->ops, B, T, r->doc != NULL);
    tape_init(&t, m->ops);
    t.recompute = opt.recompute;
    m->aux_scale = r->m->aux_scale;
    m->dropping = r->m->dropping;
    m->drop_seed = r->m->drop_seed;
    micro_step(&u, m, &t, B, r->x, r->y, r->doc, pos, valid);
    double loss = mean_of(m->ops, u.loss, B * T, valid);
    tape_free(&t);
    micro_free(&u);
    return loss;
}

void health_check(Run *r)
{
    const Ops *ops = ops_reference(r->ops, ranks_device(), opt.threads);
    uint64_t pos = r->st.pos - (uint64_t)r->plan.rows;
    uint64_t valid = data_batch(r->train, pos, r->plan.B, r->x, r->y);
    if (!valid) return;
    model_zero_grad(r->trained);
    step_batch(r, pos, r->plan.B, valid);
    double have = mean_of(r->ops, r->micro.loss, r->plan.B * r->plan.T, valid), diff, norm;
    Model *m = model_new(ops, &r->plan.cfg, !r->lora);
    Lora *l = plan_lora(m, 1);
    copy_weights(m, r->m);
    if (l) copy_weights(l->p, r->lora->p);
    double want = elsewhere(m, r, pos, valid);
    compare(l ? l->p : m, r->trained, &diff, &norm);
    lora_free(l);
    model_free(m);
    double off = norm > 0 ? diff / norm : 0;
    metrics_check(r, ops, have - want, off);
    note(1,
         "step %" PRId64 ": a micro-batch again on %s %s: loss %.6f, off by %.2g; gradient off by "
         "%.2g of its norm",
         r->st.step, ops->name, ops->dtype, want, have - want, off);
}
