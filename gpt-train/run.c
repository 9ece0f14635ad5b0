/* The loop: step, evaluate, report, save. */
#include "run.h"
#include "base/progress.h"
#include "options.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

real *run_mean_on(Run *r) { return r->o->ema ? model_swap(r->m, r->o->ema) : NULL; }

void run_mean_off(Run *r, real *w)
{
    if (w) model_swap(r->m, w);
}

static Bpb evaluate(Run *r)
{
    uint64_t rows = (uint64_t)opt.eval_tokens / (uint64_t)r->plan.cfg.T;
    if (rows > r->val->head.rows) rows = r->val->head.rows;
    if (!rows) rows = 1;
    Bpb b = {0};
    real *w = run_mean_on(r);
    bpb_rows(&r->eval, r->m, &r->tape, r->val, 0, rows, tok_byte_lengths(r->tok), &b);
    run_mean_off(r, w);
    r->st.val_bpb = bpb_value(&b);
    if (!(r->st.best_bpb <= r->st.val_bpb)) r->st.best_bpb = r->st.val_bpb;
    return b;
}

static int every(int64_t n, int64_t step, int64_t last)
{
    return n > 0 && (step % n == 0 || step == last);
}

static void show(Progress *p, char *extra, size_t size, const Run *r, const StepLog *s)
{
    double done = (double)state_updates(&r->st),
           ema = done > 0 ? r->st.loss_ema / (1 - pow(0.9, done)) : NAN;
    int k = snprintf(extra, size, "loss %.4f", ema);
    if (k > 0 && (size_t)k < size && !isnan(r->st.val_bpb))
        k += snprintf(extra + k, size - (size_t)k, ", bpb %.4f", r->st.val_bpb);
    if (k > 0 && (size_t)k < size && s->seconds > 0)
        snprintf(extra + k, size - (size_t)k, ", %.0f tok/s", (double)s->tokens / s->seconds);
    p->extra = extra;
    progress(p, (uint64_t)r->st.step);
}

int run_loop(Run *r)
{
    int64_t n = r->plan.a.steps, start = r->st.step;
    int64_t end = opt.stop_at && opt.stop_at < n ? opt.stop_at : n;
    char extra[160];
    Progress p = { .what = "training", .unit = "steps", .total = (uint64_t)n,
                   .from = (uint64_t)start };
    if (start >= end) note(1, "step %" PRId64 " of %" PRId64 " is done: nothing to do", start, n);
    stop_on_signals();
    if (start == 0 && r->val && opt.eval_every) {
        Bpb b = evaluate(r);
        metrics_eval(r, &b);
    }
    progress(&p, (uint64_t)start);
    while (r->st.step < end && !stopped_by) {
        StepLog s;
        if (!run_step(r, &s)) break;
        int eval = r->val && every(opt.eval_every, r->st.step, n);
        Bpb b = eval ? evaluate(r) : (Bpb){0};
        metrics_step(r, &s, eval ? &b : NULL);
        show(&p, extra, sizeof extra, r, &s);
        if (every(opt.sample_every, r->st.step, n)) sample_all(r);
        if (every(opt.check_every, r->st.step, -1)) health_check(r);
        if (every(opt.save_every, r->st.step, end) && r->st.step < end) run_save(r);
    }
    progress_end(&p);
    if (r->saved != r->st.step && run_save(r)) die("%s: not saved", opt.out);
    if (stopped_by)
        note(1, "stopped by signal %d; step %" PRId64 " saved in %s", (int)stopped_by, r->st.step,
             opt.out);
    return stopped_by;
}
