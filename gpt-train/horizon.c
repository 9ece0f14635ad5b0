/* --hours: how many steps fit into a time.
 *
 * Until the number is known the run is that of an endless horizon: warm-up, then full rates. The
 * first steps of a process are left out (caches, page faults); then steps are measured for 5 % of
 * the time, 5 minutes at most and 5 steps at least, and
 *
 *     steps = step + (time - time spent - last evaluation) / (time of a step + its share of evaluations)
 *
 * is the plan from then on, printed, put into state.json and saved at once: whatever happens later,
 * also on another machine, a resumed run keeps to it. Before that a resume measures anew. */
#include "options.h"
#include "run.h"
#include <inttypes.h>

enum { LEFT_OUT = 2, AT_LEAST = 5 };
#define PART 0.05
#define LONGEST 300.0               /* seconds */

static int64_t planned(const Run *r, double a_step)
{
    double all = opt.hours * 3600, left = all - clock_seconds(r);
    if (r->val && opt.eval_every) {
        left -= r->clock.eval;
        a_step += r->clock.eval / (double)opt.eval_every;
    }
    double n = left > 0 ? left / a_step : 0, most = (double)(SCHED_OPEN - 1 - r->st.step);
    return r->st.step + (n >= most ? (int64_t)most : n >= 1 ? (int64_t)n : 1);
}

void horizon_step(Run *r, const StepLog *s)
{
    RunClock *c = &r->clock;
    if (!c->from_step) {                /* the first step of this process */
        c->from_step = r->st.step + LEFT_OUT - 1;
        c->measured = 0;
    }
    if (r->st.step <= c->from_step) return;
    c->measured += s->seconds;
    double enough = PART * opt.hours * 3600;
    int64_t n = r->st.step - c->from_step;
    int know = n >= AT_LEAST && c->measured >= (enough < LONGEST ? enough : LONGEST);
    if (ranks_first(know) == 0) return;                 /* rank 0's clock counts */
    double a_step = c->measured / (double)n;
    plan_horizon(&r->plan, (int64_t)ranks_first((double)planned(r, a_step)));
    note(1, "a step takes %.3g s: %" PRId64 " steps fill %g hours; the plan is kept from now on",
         a_step, r->plan.a.steps, opt.hours);
    metrics_plan(r);
    if (run_save(r)) warn("training goes on; the checkpoint in %s is as it was", opt.out);
}
