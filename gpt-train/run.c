#include "run.h"
#include "base/progress.h"
#include "gpt/ckpt.h"
#include "options.h"
#include <fcntl.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* ---- signals: the first ends the run after the micro-batch in progress, a later one at once.
 * What sends a signal to a process and then to its group, as timeout(1) does, means it once: only
 * one that comes a second later is another. */

enum { NSIG_STOP = 3 };
static const int stop_signals[NSIG_STOP] = { SIGINT, SIGTERM, SIGHUP };
static struct sigaction before[NSIG_STOP];
static volatile sig_atomic_t stopped_by;
static struct timespec stopped_at;      /* the handlers block each other */

static void on_stop(int sig)
{
    int e = errno;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    if (!stopped_by) {
        stopped_at = t;
        stopped_by = sig;
    } else if ((double)(t.tv_sec - stopped_at.tv_sec) +
               1e-9 * (double)(t.tv_nsec - stopped_at.tv_nsec) >= 1) {
        for (int i = 0; i < NSIG_STOP; i++) sigaction(stop_signals[i], &before[i], NULL);
        raise(sig);
    }
    errno = e;
}

static void catch_signals(void)
{
    struct sigaction act = { .sa_handler = on_stop, .sa_flags = SA_RESTART };
    sigemptyset(&act.sa_mask);
    for (int i = 0; i < NSIG_STOP; i++) sigaddset(&act.sa_mask, stop_signals[i]);
    for (int i = 0; i < NSIG_STOP; i++) sigaction(stop_signals[i], NULL, &before[i]);
    for (int i = 0; i < NSIG_STOP; i++)     /* what nohup ignores stays ignored */
        if (before[i].sa_handler != SIG_IGN) sigaction(stop_signals[i], &act, NULL);
}

/* ---- one step */

void run_buffers(Run *r)
{
    const Ops *ops = r->ops;
    size_t T = (size_t)r->plan.cfg.T, N = size_mul((size_t)r->plan.B, T);
    size_t all = size_mul((size_t)r->plan.rows, T);
    r->x = xreallocarray(NULL, N, sizeof *r->x);
    r->y = xreallocarray(NULL, N, sizeof *r->y);
    r->loss = xreallocarray(NULL, all, sizeof *r->loss);
    r->dx = ops->alloc(size_mul(N, sizeof *r->dx));
    r->dy = ops->alloc(size_mul(N, sizeof *r->dy));
    r->dloss = ops->alloc(size_mul(all, sizeof *r->dloss));
    tape_init(&r->tape, ops);
    if (r->val) bpb_eval_init(&r->eval, ops, r->plan.B, r->plan.cfg.T);
}

/* Adds this micro-batch's part of the gradient of (sum of losses) / valid. */
static void micro_step(Run *r, int64_t i, uint64_t valid)
{
    int B = r->plan.B, T = r->plan.cfg.T, N = B * T;
    data_batch(r->train, r->st.pos + (uint64_t)i * (uint64_t)B, B, r->x, r->y);
    r->ops->put(r->dx, r->x, (size_t)N * sizeof *r->x);
    r->ops->put(r->dy, r->y, (size_t)N * sizeof *r->y);
    tape_reset(&r->tape);
    r->tape.on = 1;
    Var *h = model_forward(r->m, &r->tape, r->dx, B, T, NULL);
    model_loss(r->m, &r->tape, h, r->dy, NULL, N, r->dloss + i * N, 1 / (double)valid);
    tape_backward(&r->tape);
}

_Noreturn static void not_finite(const Run *r, const char *what, double x)
{
    size_t T = (size_t)r->plan.cfg.T, bad = 0, n = (size_t)r->plan.rows * T;
    while (bad < n && isfinite(r->loss[bad])) bad++;
    uint64_t rows = r->train->head.rows, in = 0, pos = r->st.pos + (bad < n ? bad / T : 0);
    const char *file = data_where(r->train, data_row(r->train, pos), &in);
    die("step %" PRId64 ": the %s is %g, %s %s row %" PRIu64 " (rows %" PRIu64 " to %" PRIu64
        " of epoch %" PRIu64 "); the last checkpoint saved in %s stays",
        r->st.step + 1, what, x, bad < n ? "first in" : "from", file, in, r->st.pos % rows,
        (r->st.pos + (uint64_t)r->plan.rows - 1) % rows, r->st.pos / rows, opt.out);
}

static double mean_loss(const Run *r, uint64_t valid)
{
    size_t n = (size_t)r->plan.rows * (size_t)r->plan.cfg.T;
    double sum = 0;                             /* ignored targets have loss 0 */
    r->ops->get(r->loss, r->dloss, n * sizeof *r->loss);
    for (size_t i = 0; i < n; i++) sum += (double)r->loss[i];
    return sum / (double)valid;
}

/* 0 if a signal came in between: then nothing has changed. */
static int one_step(Run *r, StepLog *s)
{
    const Plan *p = &r->plan;
    int64_t it = r->st.step, n = p->a.steps;
    double t0 = now_seconds();
    *s = (StepLog){ .loss = NAN, .grad_norm = NAN, .tokens = (uint64_t)p->a.total_batch,
                    .lr_mult = sched_lr(it, n, opt.warmup, opt.warmdown, opt.final_lr),
                    .momentum = sched_momentum(it, n, opt.warmdown),
                    .weight_decay = sched_weight_decay(it, n, p->a.weight_decay_scaled) };
    uint64_t valid = data_valid(r->train, r->st.pos, (uint64_t)p->rows, r->x, r->y);
    if (valid) {
        model_zero_grad(r->m);
        for (int64_t i = 0; i < p->accum; i++) {
            if (stopped_by) return 0;
            micro_step(r, i, valid);
        }
        s->loss = mean_loss(r, valid);
        if (!isfinite(s->loss)) not_finite(r, "loss", s->loss);
        s->grad_norm = grad_norm(r->m);
        if (!isfinite(s->grad_norm)) not_finite(r, "gradient's norm", s->grad_norm);
        optim_step(r->o, s->lr_mult, s->momentum, s->weight_decay);
        r->st.loss_ema = 0.9 * r->st.loss_ema + 0.1 * s->loss;
    } else {
        r->st.skipped++;
    }
    r->st.step++;
    r->st.pos += (uint64_t)p->rows;
    r->st.targets += valid;
    s->seconds = now_seconds() - t0;
    return 1;
}

/* ---- the loop */

static Bpb evaluate(Run *r)
{
    uint64_t rows = (uint64_t)opt.eval_tokens / (uint64_t)r->plan.cfg.T;
    if (rows > r->val->head.rows) rows = r->val->head.rows;
    if (!rows) rows = 1;
    Bpb b = {0};
    bpb_rows(&r->eval, r->m, &r->tape, r->val, 0, rows, tok_byte_lengths(r->tok), &b);
    r->st.val_bpb = bpb_value(&b);
    if (!(r->st.best_bpb <= r->st.val_bpb)) r->st.best_bpb = r->st.val_bpb;
    return b;
}

/* The tokenizer goes in with the first save, from memory: its file may be gone by then. */
static int save_first(Run *r, const char *state)
{
    char *name = xasprintf("%s/.tokenizer.tok", opt.out), *path;
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) die("%s:", name);
    unlink(name);                               /* a kill leaves nothing behind */
    path = xasprintf("/dev/fd/%d", fd);
    tok_save(r->tok, path);
    lseek(fd, 0, SEEK_SET);
    int bad = ckpt_save(opt.out, r->m, r->o, path, state);
    close(fd);
    free(path);
    free(name);
    return bad;
}

static int save(Run *r)
{
    Buf b = {0};
    state_json(r, &b);
    int bad = r->has_tok ? ckpt_save(opt.out, r->m, r->o, NULL, b.s) : save_first(r, b.s);
    if (!bad) r->has_tok = 1;
    buf_free(&b);
    if (!bad) note(2, "step %" PRId64 ": saved in %s", r->st.step, opt.out);
    return bad;
}

static int every(int64_t n, int64_t step, int64_t last)
{
    return n > 0 && (step % n == 0 || step == last);
}

static void show(Progress *p, char *extra, size_t size, const Run *r, const StepLog *s)
{
    double done = (double)(r->st.step - r->st.skipped),
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
    int64_t n = r->plan.a.steps, start = r->st.step, saved = start ? start : -1;
    int64_t end = opt.stop_at && opt.stop_at < n ? opt.stop_at : n;
    char extra[160];
    Progress p = { .what = "training", .unit = "steps", .total = (uint64_t)n,
                   .from = (uint64_t)start };
    if (start >= end) note(1, "step %" PRId64 " of %" PRId64 " is done: nothing to do", start, n);
    catch_signals();
    if (start == 0 && r->val && opt.eval_every) {
        Bpb b = evaluate(r);
        metrics_eval(r, &b);
    }
    progress(&p, (uint64_t)start);
    while (r->st.step < end && !stopped_by) {
        StepLog s;
        if (!one_step(r, &s)) break;
        int eval = r->val && every(opt.eval_every, r->st.step, n);
        Bpb b = eval ? evaluate(r) : (Bpb){0};
        metrics_step(r, &s, eval ? &b : NULL);
        show(&p, extra, sizeof extra, r, &s);
        if (every(opt.sample_every, r->st.step, n)) sample_all(r);
        if (every(opt.save_every, r->st.step, end) && r->st.step < end && !save(r))
            saved = r->st.step;
    }
    progress_end(&p);
    if (saved != r->st.step && save(r)) die("%s: not saved", opt.out);
    if (stopped_by)
        note(1, "stopped by signal %d; step %" PRId64 " saved in %s", (int)stopped_by, r->st.step,
             opt.out);
    return stopped_by;
}
