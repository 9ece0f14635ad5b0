/* The loop: step, evaluate, report, save. */
#include "run.h"
#include "options.h"
#include <inttypes.h>
#include <math.h>

void run_mean(Run *r)
{
    if (r->o->ema) model_exchange(r->trained, r->o->ema);
}

int run_every(int64_t n, int64_t step, int64_t last)
{
    return n > 0 && (step % n == 0 || step == last);
}

/* Before the first step, every --eval-every steps, at the end; once each, also when a signal has
 * cut it short and a resume has to make up for it. */
static int eval_due(const Run *r)
{
    return r->val && r->st.val_step != r->st.step &&
           run_every(opt.eval_every, r->st.step, r->plan.a.steps);
}

/* 0 if a signal cut it short: then it counts as not made. */
static int evaluate(Run *r, Bpb *b)
{
    uint64_t rows = (uint64_t)opt.eval_tokens / (uint64_t)r->plan.T;
    double t0 = now_seconds();
    if (rows > r->val->head.rows) rows = r->val->head.rows;
    if (!rows) rows = 1;
    *b = (Bpb){0};
    const Comm *c = comm_host();                /* each rank takes a stretch of them */
    uint64_t from = rows * (uint64_t)c->rank / (uint64_t)c->ranks;
    uint64_t to = rows * (uint64_t)(c->rank + 1) / (uint64_t)c->ranks;
    run_mean(r);
    int whole = bpb_rows(&r->eval, r->m, &r->tape, r->val, from, to - from,
                         tok_byte_lengths(r->tok), b);
    run_mean(r);
    if (ranks_any(!whole)) return 0;
    *b = ranks_bpb(b);
    r->clock.eval = now_seconds() - t0;
    r->st.val_bpb = bpb_value(b);
    r->st.val_step = r->st.step;
    r->unsaved = 1;
    if (r->st.best_bpb <= r->st.val_bpb) return 1;
    r->st.best_bpb = r->st.val_bpb;
    if (opt.keep_best && r->st.step) run_save_best(r);
    return 1;
}

/* Where the run ends or pauses; --hours may move it once. */
int64_t run_end(const Run *r)
{
    int64_t n = r->plan.a.steps;
    return opt.stop_at && opt.stop_at < n ? opt.stop_at : n;
}

static void after_step(Run *r, StepLog *s)
{
    Bpb b;
    int val = eval_due(r) && evaluate(r, &b);
    metrics_step(r, s, val ? &b : NULL);
    show_step(r, s);
    if (is_first()) {
        if (run_every(opt.sample_every, r->st.step, r->plan.a.steps) && !stopped_by) sample_all(r);
        if (run_every(opt.check_every, r->st.step, -1)) health_check(r);
    }
    if (r->plan.open) horizon_step(r, s);
    run_save_due(r);
}

void run_save_due(Run *r)
{
    int asked = ranks_any(save_asked);
    save_asked = 0;
    if (r->st.step == run_end(r)) return;                /* saved below */
    if ((asked || run_every(opt.save_every, r->st.step, 0)) && run_save(r))
        warn("training goes on; the checkpoint in %s is as it was", opt.out);
}

void run_save_last(Run *r)
{
    if ((r->saved != r->st.step || r->unsaved) && run_save(r)) {
        status_write(r, NULL, "not saved");
        die("%s: step %" PRId64 " is not saved", opt.out, r->st.step);
    }
    if (r->log.failed && is_first()) note(0, "step %" PRId64 ": saved in %s", r->st.step, opt.out);
    else if (stopped_by)
        note(1, "stopped by signal %d; step %" PRId64 " saved in %s", (int)stopped_by, r->st.step,
             opt.out);
    status_write(r, NULL, r->st.step == r->plan.a.steps ? "finished" : "stopped");
}

int run_loop(Run *r)
{
    Bpb b;
    if (r->st.step >= run_end(r))
        note(1, "step %" PRId64 " of %" PRId64 " is done: nothing to do", r->st.step,
             r->plan.a.steps);
    r->clock.began = now_seconds();
    stop_on_signals();                          /* from the first sign of life on */
    status_write(r, NULL, "training");
    if (eval_due(r) && evaluate(r, &b)) metrics_eval(r, &b);
    while (r->st.step < run_end(r) && !ranks_stop() && !ranks_any(r->log.failed)) {
        StepLog s;
        if (!run_step(r, &s)) break;
        after_step(r, &s);
    }
    progress_end(&r->progress);
    run_save_last(r);
    return ranks_stop();
}
