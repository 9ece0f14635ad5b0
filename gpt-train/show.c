/* The step line: on a terminal redrawn, otherwise every 10 s; every step's with -v. */
#include "options.h"
#include "run.h"
#include <inttypes.h>
#include <math.h>

/* 9912 -> "9.91k" */
static void short_number(Buf *b, double x)
{
    static const char unit[] = " kMGTPEZY";
    size_t i = 0;
    for (; x >= 999.5 && i + 2 < sizeof unit; i++) x /= 1000;
    buf_printf(b, "%.3g", x);
    if (i) buf_char(b, unit[i]);
}

/* The running mean starts at 0: divided by what its weights add up to. */
double loss_mean(const Run *r)
{
    double done = (double)state_updates(&r->st);
    return done > 0 ? r->st.loss_ema / (1 - pow(0.9, done)) : NAN;
}

double show_eta(const Run *r)
{
    if (r->plan.open) return opt.hours * 3600 - clock_seconds(r);
    return r->clock.step > 0 ? (double)(r->plan.a.steps - r->st.step) * r->clock.step : NAN;
}

static void rates(Buf *b, const Run *r, const StepLog *s)
{
    double rate = (double)s->tokens / s->seconds, flops = rate * r->plan.a.flops_per_token;
    buf_str(b, ", ");
    short_number(b, rate);
    buf_str(b, " tok/s, ");
    short_number(b, flops);
    buf_str(b, "FLOP/s");
    if (opt.peak_flops > 0) buf_printf(b, " (%.0f%%)", 100 * flops / (opt.peak_flops * opt.ranks));
}

static void line(Buf *b, const Run *r, const StepLog *s)
{
    buf_printf(b, "step %" PRId64, r->st.step);
    if (!r->plan.open)
        buf_printf(b, "/%" PRId64 " (%.0f%%)", r->plan.a.steps,
                   100 * ((double)r->st.step / (double)r->plan.a.steps));
    if (isnan(s->loss)) buf_str(b, ", no loss");
    else buf_printf(b, ", loss %.4f", loss_mean(r));
    if (!isnan(r->st.val_bpb)) buf_printf(b, ", bpb %.4f", r->st.val_bpb);
    buf_printf(b, ", lr %.3g, norm %.3g", s->lr, s->grad_norm);
    if (s->seconds > 0) rates(b, r, s);
    double eta = show_eta(r);
    if (!isnan(eta)) {
        buf_str(b, ", ETA ");
        buf_duration(b, eta);
    }
    buf_printf(b, ", epoch %.2f", data_epochs(r->train, r->st.pos));
}

/* What a step takes with all around it, evaluations too: over the session's first steps the mean,
 * later with a memory of about 100 steps. */
void show_pace(Run *r)
{
    static double last;
    static int64_t n;
    double now = now_seconds();
    if (!last) last = r->clock.began;
    double a = ++n < 100 ? 1 / (double)n : 0.01;
    r->clock.step += a * (now - last - r->clock.step);
    last = now;
}

void show_step(Run *r, const StepLog *s)
{
    show_pace(r);
    buf_clear(&r->shown);
    line(&r->shown, r, s);
    r->progress.whole = r->shown.s;
    if (verbose >= 2) note(2, "%s", r->shown.s);
    else progress(&r->progress, (uint64_t)r->st.step);
    status_write(r, s, "training");
}
