/* One optimizer step: its micro-batches, its mean loss, its health. */
#include "run.h"
#include "base/progress.h"
#include "options.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

void run_batch(Run *r)
{
    size_t N = size_mul((size_t)r->plan.B, (size_t)r->plan.T);
    r->x = xreallocarray(NULL, N, sizeof *r->x);
    r->y = xreallocarray(NULL, N, sizeof *r->y);
    r->dx = r->ops->alloc(size_mul(N, sizeof *r->dx));
    r->dy = r->ops->alloc(size_mul(N, sizeof *r->dy));
    tape_init(&r->tape, r->ops);
    r->tape.recompute = opt.recompute;
}

void run_buffers(Run *r)
{
    const Ops *ops = r->ops;
    size_t T = (size_t)r->plan.T, N = size_mul((size_t)r->plan.B, T);
    size_t all = size_mul((size_t)r->plan.accum, N);
    run_batch(r);
    r->loss = xreallocarray(NULL, all, sizeof *r->loss);
    r->dloss = ops->alloc(size_mul(all, sizeof *r->dloss));
    if (opt.doc_mask) {
        r->doc = xreallocarray(NULL, N, sizeof *r->doc);
        r->ddoc = ops->alloc(size_mul(N, sizeof *r->ddoc));
    }
    if (r->val) bpb_eval_init(&r->eval, ops, r->plan.B, r->plan.T);
    r->eval.stop = &stopped_by;
    r->eval.docs = opt.doc_mask;
}

void step_batch(Run *r, uint64_t pos, int B, real *dloss, uint64_t valid)
{
    int T = r->plan.T, N = B * T;
    data_batch(r->train, pos, B, r->x, r->y);
    r->ops->put(r->dx, r->x, (size_t)N * sizeof *r->x);
    r->ops->put(r->dy, r->y, (size_t)N * sizeof *r->y);
    tape_reset(&r->tape);
    r->tape.on = 1;
    if (r->doc) {
        data_docs(r->doc, r->x, B, T, r->train->head.bos);
        r->ops->put(r->ddoc, r->doc, (size_t)N * sizeof *r->doc);
    }
    r->m->aux_scale = 1 / (double)(r->plan.accum * opt.ranks);
    r->m->drop_row = pos;
    Var *h = model_forward_docs(r->m, &r->tape, r->dx, r->ddoc, B, T);
    model_loss(r->m, &r->tape, h, r->dy, NULL, N, dloss, 1 / (double)valid);
    tape_backward(&r->tape);
}

static double mean_loss(const Run *r, uint64_t valid)
{
    size_t n = (size_t)r->plan.accum * (size_t)r->plan.B * (size_t)r->plan.T;
    double sum = 0;                             /* ignored targets have loss 0 */
    r->ops->get(r->loss, r->dloss, n * sizeof *r->loss);
    for (size_t i = 0; i < n; i++) sum += (double)r->loss[i];
    return comm_sum(sum) / (double)valid;
}

/* Shards that have come since are taken in where an epoch begins within this step. The run is saved
 * before: one of them may be of another tokenizer, and ends it. */
static void rescan(Run *r)
{
    uint64_t end = r->st.pos + (uint64_t)r->plan.rows, p = data_boundary(r->train, r->st.pos);
    for (; p < end; p = data_boundary(r->train, p + 1)) {
        if (!data_unseen(r->train)) continue;
        run_save(r);
        int n = data_grow(r->train, p);
        if (n)
            note(1, "epoch %" PRIu64 ": %d shards more, %" PRIu64 " rows in all",
                 r->train->span[r->train->nspan - 1].epoch, n, r->train->head.rows);
    }
}

/* The auxiliary losses of the last micro-batch, as they count in the step's mean. */
static double aux_loss(const Run *r)
{
    int L = r->plan.cfg.L;
    double sum = 0;
    if (!r->m->aux) return 0;
    real *x = xreallocarray(NULL, (size_t)L, sizeof *x);
    r->ops->get(x, r->m->aux, (size_t)L * sizeof *x);
    for (int i = 0; i < L; i++) sum += (double)x[i];
    free(x);
    return sum * r->plan.cfg.llama.aux * r->m->aux_scale;
}

/* Targets of the step's rows that count. */
static uint64_t valid_targets(Run *r)
{
    const Plan *p = &r->plan;
    if (!r->train->head.masks) return (uint64_t)p->rows * (uint64_t)p->T;
    uint64_t n = 0, B = (uint64_t)p->B;
    for (int64_t i = 0; i < p->accum; i++)
        n += data_valid(r->train, ranks_turn(r, i), B, r->x, r->y);
    return (uint64_t)comm_sum((double)n);
}

/* The gradient of (sum of losses) / valid over the whole step, and over all ranks; false if a signal
 * came in between. */
static int gradient(Run *r, StepLog *s, uint64_t valid)
{
    int B = r->plan.B;
    model_zero_grad(r->trained);
    for (int64_t i = 0; i < r->plan.accum; i++) {
        if (ranks_stop()) return 0;
        step_batch(r, ranks_turn(r, i), B, r->dloss + i * B * r->plan.T, valid);
        s->aux_loss += aux_loss(r);
    }
    r->comm->wait(r->comm->sum(r->trained->g, r->trained->n, COMM_REAL));
    if (r->m->aux) s->aux_loss = comm_sum(s->aux_loss);
    return 1;
}

/* From the gradient to new weights, unless something is not finite. */
static void update(Run *r, StepLog *s, uint64_t valid)
{
    double loss = mean_loss(r, valid), norm = isfinite(loss) ? grad_norm(r->trained) : NAN;
    if (!isfinite(loss)) {
        health_bad(r, "loss", loss, valid);
    } else if (!isfinite(norm)) {
        health_bad(r, "gradient's norm", norm, valid);
    } else {
        double by = opt.clip_norm > 0 ? clip_factor(norm, opt.clip_norm) : 1;
        if (by < 1) r->ops->scale(r->trained->g, by, r->trained->n);
        optim_step(r->o, s->lr_mult, s->momentum, s->weight_decay);
        s->loss = loss;
        s->grad_norm = norm;
        s->loss_z = health_spike(&r->st, loss);
        r->st.loss_ema = 0.9 * r->st.loss_ema + 0.1 * loss;
        r->st.targets += valid;
    }
}

int run_step(Run *r, StepLog *s)
{
    const Plan *p = &r->plan;
    SchedAt at = sched_at(&p->sched, r->st.step);
    double t0 = now_seconds();
    *s = (StepLog){ .loss = NAN, .loss_z = NAN, .grad_norm = NAN,
                    .tokens = (uint64_t)p->a.total_batch,
                    .lr = at.lr * p->group[PG_MATRIX].lr, .lr_mult = at.lr,
                    .momentum = at.momentum, .weight_decay = at.weight_decay };
    if (p->os.adamw) s->momentum = p->os.beta1, s->weight_decay = p->os.weight_decay;
    data_look(r->train);
    if (opt.rescan) rescan(r);
    uint64_t valid = valid_targets(r);
    if (valid && !gradient(r, s, valid)) return 0;
    if (valid) update(r, s, valid);
    else r->st.skipped++;
    r->st.step++;
    r->st.pos += (uint64_t)p->rows;
    s->seconds = now_seconds() - t0;
    return 1;
}
