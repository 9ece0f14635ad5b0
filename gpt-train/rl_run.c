/* The loop of reinforcement learning: steps, pass@k on the way, saves. */
#include "base/progress.h"
#include "options.h"
#include "rl.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* --eval-samples answers to each of the first --eval-prompts of --val; a reward of 1 or more is a
 * pass, an answer that cannot be judged is none. One sample: the likeliest answer. 0: a signal. */
static int evaluate(Run *r, Passed *e)
{
    Rl *rl = r->rl;
    int n = opt.eval_samples, on = 1;
    int64_t most = opt.eval_prompts < (int64_t)rl->val.n ? opt.eval_prompts : (int64_t)rl->val.n;
    double t0 = now_seconds();
    Answer *a = xcalloc((size_t)n, sizeof *a);
    run_mean(r);
    *e = (Passed){ .prompts = most };
    while (e->kinds < RL_PASSES && 1 << e->kinds <= n) e->kinds++;
    for (int64_t i = 0; on && i < most; i++) {
        const Prompt *p = &rl->val.p[i];
        uint64_t key[2] = { xxh3("eval", 4), (uint64_t)i };
        int right = 0;
        on = rl_sample(r, p, a, n, n > 1 ? opt.temperature : 0, xxh3(key, sizeof key)) &&
             judge(rl->judge, r, &p, a, 1, n, "eval");
        for (int k = 0; on && k < n; k++) {
            e->unjudged += isnan(a[k].reward);
            if (isnan(a[k].reward)) continue;
            right += a[k].reward >= 1;
            e->reward += a[k].reward / n;
        }
        for (int k = 0; on && k < e->kinds; k++) e->at[k] += pass_at(n, right, 1 << k);
    }
    run_mean(r);
    for (int k = 0; k < e->kinds; k++) e->at[k] /= (double)most;
    e->reward /= (double)most;
    answers_free(a, n);
    if (!on) return 0;
    r->clock.eval = now_seconds() - t0;
    r->st.val_step = r->st.step;
    r->unsaved = 1;
    rl->pass = e->at[0];
    if (rl->best_pass >= rl->pass) return 1;
    rl->best_pass = rl->pass;
    if (opt.keep_best && r->st.step) run_save_best(r);
    return 1;
}

static int eval_due(const Run *r)
{
    return r->rl->val.n && r->st.val_step != r->st.step &&
           run_every(opt.eval_every, r->st.step, r->plan.a.steps);
}

static void eval_now(Run *r)
{
    Passed e;
    if (eval_due(r) && evaluate(r, &e)) rl_log_eval(r, &e);
}

int rl_loop(Run *r)
{
    int N = opt.examples * opt.samples;
    int64_t end = run_end(r);
    Answer *a = xcalloc((size_t)N, sizeof *a);
    if (r->st.step >= end)
        note(1, "step %" PRId64 " of %" PRId64 " is done: nothing to do", r->st.step,
             r->plan.a.steps);
    r->clock.began = now_seconds();
    stop_on_signals();
    status_write(r, NULL, "training");
    eval_now(r);
    while (r->st.step < end && !stopped_by && !r->log.failed && !judge_failed(r->rl->judge)) {
        RlLog s;
        if (!rl_step(r, a, &s)) break;
        rl_log_step(r, &s);
        rl_show(r, &s);
        eval_now(r);
        run_save_due(r);
    }
    if (!stopped_by && !r->log.failed && !judge_failed(r->rl->judge)) judge_end(r->rl->judge, r);
    progress_end(&r->progress);
    run_save_last(r);
    answers_free(a, N);
    return stopped_by;
}
