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
    if (opt.doc_mask) r->doc = xreallocarray(NULL, N, sizeof *r->doc);
    micro_init(&r->micro, r->ops, r->plan.B, r->plan.T, opt.doc_mask);
    tape_init(&r->tape, r->ops);
    r->tape.recompute = opt.recompute;
}

void run_buffers(Run *r)
{
    run_batch(r);
    if (r->val) bpb_eval_init(&r->eval, r->ops, r->plan.B, r->plan.T);
    r->eval.stop = &stopped_by;
    r->eval.docs = opt.doc_mask;
}

void step_batch(Run *r, uint64_t pos, int B, uint64_t valid)
{
    data_batch(r->train, pos, B, r->x, r->y);
    if (r->doc) data_docs(r->doc, r->x, B, r->plan.T, r->train->head.bos);
    r->m->aux_scale = 1 / (double)(r->plan.accum * opt.ranks);
    micro_step(&r->micro, r->m, &r->tape, B, r->x, r->y, r->doc, pos, valid);
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

/* The gradient of (sum of losses) / valid over the whole step and all ranks, each its part, and all
 * sums; false if a signal came in between. */
static int gradient(Run *r, uint64_t valid)
{
    int B = r->plan.B;
    model_zero_grad(r->trained);
    micro_begin(&r->micro);
    for (int64_t i = 0; i < r->plan.accum; i++) {
        if (ranks_stop()) return 0;
        step_batch(r, ranks_turn(r, i), B, valid);
    }
    optim_reduce(r->o);
    optim_squares(r->o, r->micro.sum + SUM_SQUARES);
    r->comm->wait(r->comm->sum(r->micro.sum, MICRO_SUMS, COMM_F64));
    return 1;
}

/* From the gradient to new weights, unless something is not finite. Here alone a step waits for the
 * device. */
static void update(Run *r, StepLog *s, uint64_t valid)
{
    double sum[MICRO_SUMS];
    r->ops->get(sum, r->micro.sum, sizeof sum);
    double loss = sum[SUM_LOSS] / (double)valid, norm = sqrt(sum[SUM_SQUARES]);
    s->aux_loss = sum[SUM_AUX] * r->plan.cfg.llama.aux * r->m->aux_scale;
    if (!isfinite(loss)) {
        health_bad(r, "loss", loss, valid);
    } else if (!isfinite(norm)) {
        health_bad(r, "gradient's norm", norm, valid);
    } else {
        double by = opt.clip_norm > 0 ? clip_factor(norm, opt.clip_norm) : 1;
        if (by < 1) grad_scale(r->trained, by);
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
    if (valid && !gradient(r, valid)) return 0;
    if (valid) update(r, s, valid);
    else r->st.skipped++;
    r->st.step++;
    r->st.pos += (uint64_t)p->rows;
    s->seconds = now_seconds() - t0;
    return 1;
}
