/* One step: answers, rewards, gradient, update. */
#include "base/progress.h"
#include "options.h"
#include "rl.h"
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t stream(const char *what, uint64_t i)
{
    uint64_t key[2] = { xxh3(what, strlen(what)), i };
    return xxh3(key, sizeof key);
}

/* The i-th prompt of the run, in another order each epoch. */
static const Prompt *nth_prompt(const Rl *rl, uint64_t i)
{
    uint64_t n = rl->train.n;
    return &rl->train.p[rng_order((uint64_t)opt.seed, stream("prompts", i / n), n, i % n)];
}

/* ---- rows: a prompt and an answer each, padded to the longest */

typedef struct Rows { int B, T, first; } Rows;  /* T inputs; where an answer's targets begin */

static Rows lay(Run *r, const Prompt *p, const Answer *a, int n)
{
    Rows b = { n, 1, (int)p->ids.n - 1 };
    for (int i = 0; i < n; i++) {
        int T = (int)(p->ids.n + a[i].ids.n) - 1;
        if (T > b.T) b.T = T;
    }
    assert(b.T <= r->plan.T);
    for (int i = 0; i < n; i++) {
        int32_t *x = r->x + (size_t)i * (size_t)b.T, *y = r->y + (size_t)i * (size_t)b.T;
        size_t np = p->ids.n, na = a[i].ids.n;
        for (size_t t = 0; t < (size_t)b.T; t++) {
            uint32_t id = t < np ? p->ids.id[t] : t < np + na ? a[i].ids.id[t - np] : p->ids.id[0];
            int drawn = t + 1 >= np && t + 1 < np + na && a[i].mask.s[t + 1 - np];
            x[t] = (int32_t)id;
            y[t] = drawn ? (int32_t)a[i].ids.id[t + 1 - np] : -1;
        }
    }
    size_t bytes = (size_t)b.B * (size_t)b.T * sizeof(int32_t);
    r->ops->put(r->micro.x, r->x, bytes);
    r->ops->put(r->micro.y, r->y, bytes);
    return b;
}

/* logp [n,L] of the drawn tokens under m. */
static void logps(Run *r, Model *m, const Prompt *p, const Answer *a, int n, int L, double *logp)
{
    Rl *rl = r->rl;
    for (int i = 0; i < n; i += r->plan.B) {
        int k = n - i < r->plan.B ? n - i : r->plan.B;
        Rows b = lay(r, p, a + i, k);
        tape_reset(&r->tape);
        r->tape.on = 0;
        Var *h = model_forward(m, &r->tape, r->micro.x, b.B, b.T, NULL);
        model_loss(m, &r->tape, h, r->micro.y, NULL, b.B * b.T, r->micro.loss, 0);
        r->ops->get(rl->wt, r->micro.loss, (size_t)b.B * (size_t)b.T * sizeof *rl->wt);
        for (int j = 0; j < k; j++)
            for (size_t l = 0; l < a[i + j].ids.n; l++)
                logp[(size_t)(i + j) * (size_t)L + l] =
                    -(double)rl->wt[(size_t)j * (size_t)b.T + (size_t)b.first + l];
    }
}

/* Adds scale times the loss's gradient to the model's: grad [n,L] is that by each token's logp. A
 * micro-batch whose gradient is all 0 is left out. may_stop: a signal ends it; then 0. */
static int push(Run *r, const Prompt *p, const Answer *a, int n, int L, const double *grad,
                double scale, int may_stop)
{
    Rl *rl = r->rl;
    for (int i = 0; i < n; i += r->plan.B) {
        if (may_stop && stopped_by) return 0;
        int k = n - i < r->plan.B ? n - i : r->plan.B, any = 0;
        Rows b = lay(r, p, a + i, k);
        size_t all = (size_t)b.B * (size_t)b.T;
        memset(rl->wt, 0, all * sizeof *rl->wt);
        for (int j = 0; j < k; j++)
            for (size_t l = 0; l < a[i + j].ids.n; l++) {
                double g = grad[(size_t)(i + j) * (size_t)L + l];
                /* the model's loss is -logp: its weight is the gradient by logp, negated */
                rl->wt[(size_t)j * (size_t)b.T + (size_t)b.first + l] = (real)-g;
                any |= g != 0;
            }
        if (!any) continue;
        r->ops->put(r->micro.wt, rl->wt, all * sizeof *rl->wt);
        tape_reset(&r->tape);
        r->tape.on = 1;
        Var *h = model_forward(r->m, &r->tape, r->micro.x, b.B, b.T, NULL);
        model_loss(r->m, &r->tape, h, r->micro.y, r->micro.wt, b.B * b.T, r->micro.loss, scale);
        tape_backward(&r->tape);
    }
    return 1;
}

/* ---- groups: the answers to one prompt */

typedef struct Group {
    int n, L;
    double *reward, *logp, *old, *ref, *grad, *adv;
    unsigned char *mask;
} Group;

static Group group_new(const Answer *a, int n)
{
    Group g = { .n = n, .L = 1 };
    for (int i = 0; i < n; i++)
        if ((int)a[i].ids.n > g.L) g.L = (int)a[i].ids.n;
    size_t L = (size_t)g.L, all = size_mul((size_t)n, L);
    double **of_token[] = { &g.logp, &g.old, &g.ref, &g.grad };
    for (int i = 0; i < 4; i++) *of_token[i] = xcalloc(all, sizeof(double));
    g.reward = xcalloc((size_t)n, sizeof(double));
    g.adv = xcalloc((size_t)n, sizeof(double));
    g.mask = xcalloc(all, 1);
    for (int i = 0; i < n; i++) {
        g.reward[i] = a[i].reward;
        memcpy(g.old + (size_t)i * L, a[i].logp, a[i].ids.n * sizeof(double));
        if (a[i].ids.n) memcpy(g.mask + (size_t)i * L, a[i].mask.s, a[i].ids.n);
    }
    return g;
}

static void group_free(Group *g)
{
    free(g->reward);
    free(g->adv);
    free(g->logp);
    free(g->old);
    free(g->ref);
    free(g->grad);
    free(g->mask);
}

/* Sums, until mean_numbers(). */
static void add_answers(RlLog *s, const Answer *a, int n)
{
    for (int i = 0; i < n; i++) {
        s->cut += !a[i].ended;
        s->tokens += (int64_t)a[i].ids.n;
        s->entropy += a[i].entropy;
        for (size_t k = 0; k < a[i].ids.n; k++) s->drawn += a[i].mask.s[k];
        if (isnan(a[i].reward)) continue;
        s->reward += a[i].reward;
        s->deviation += a[i].reward * a[i].reward;
    }
}

static void mean_numbers(RlLog *s)
{
    s->reward = s->judged ? s->reward / s->judged : NAN;
    s->deviation = s->judged
                       ? sqrt(fmax(0, s->deviation / s->judged - s->reward * s->reward)) : NAN;
    s->entropy = s->drawn ? s->entropy / (double)s->drawn : NAN;
}

/* One prompt's group: loss and gradient. first: the weights are still those that sampled, and a
 * signal may end it (0 then). */
static int group_step(Run *r, const Prompt *p, Answer *a, int first, RlLog *s)
{
    Rl *rl = r->rl;
    int n = opt.samples;
    Group g = group_new(a, n);
    RlGroup q = { n, g.L, g.reward, g.old, NULL, NULL, g.mask };
    if (opt.grpo) {                             /* ratios to those that sampled */
        logps(r, r->m, p, a, n, g.L, g.logp);
        q.logp = g.logp;
        q.old = g.old;
    }
    if (rl->ref) {
        if (r->lora) lora_attach(r->lora, 0);
        if (first) logps(r, rl->ref, p, a, n, g.L, g.ref);
        if (r->lora) lora_attach(r->lora, 1);
        for (int i = 0; i < n; i++) {           /* it does not move: asked once a step */
            double *now = g.ref + (size_t)i * (size_t)g.L;
            size_t bytes = a[i].ids.n * sizeof *now;
            if (bytes) memcpy(first ? a[i].ref : now, first ? now : a[i].ref, bytes);
        }
        q.ref = g.ref;
    }
    RlLoss l = rl_loss(g.grad, g.adv, &rl->loss, &q);
    s->loss += l.loss / opt.examples;
    s->kl += l.kl / opt.examples;
    s->clipped += l.clipped;
    if (first) {
        s->judged += l.judged;
        s->unjudged += n - l.judged;
        s->equal += l.std == 0;
        add_answers(s, a, n);
    }
    int done = push(r, p, a, n, g.L, g.grad, 1.0 / opt.examples, first);
    group_free(&g);
    return done;
}

/* ---- the step */

/* From the gradient to new weights. A gradient of nothing changes nothing, moments included. */
static void update(Run *r, RlLog *s, SchedAt at, int first)
{
    double norm = grad_norm(r->trained);
    if (!isfinite(norm))
        die("step %" PRId64 ": the gradient's norm is %g; the checkpoint of step %" PRId64
            " is in %s", r->st.step + 1, norm, r->saved, opt.out);
    if (first) s->grad_norm = norm;
    if (norm == 0) {
        r->st.skipped += first;
        return;
    }
    if (opt.clip_norm > 0 && norm > opt.clip_norm)
        grad_scale(r->trained, opt.clip_norm / norm);
    optim_step(r->o, at.lr, 0.95, at.weight_decay);
    r->rl->updates++;
}

/* The answers to a prompt once more, by the training forward pass: the largest difference to the
 * log-probabilities that were recorded while they were sampled. */
static double compare(Run *r, const Prompt *p, const Answer *a)
{
    Group g = group_new(a, opt.samples);
    double worst = 0;
    logps(r, r->m, p, a, g.n, g.L, g.logp);
    for (int i = 0; i < g.n * g.L; i++)
        if (g.mask[i]) worst = fmax(worst, fabs(g.logp[i] - g.old[i]));
    group_free(&g);
    return worst;
}

int rl_step(Run *r, Answer *a, RlLog *s)
{
    Rl *rl = r->rl;
    int E = opt.examples, n = opt.samples, rounds = opt.grpo ? opt.grpo_epochs : 1, on = 1;
    SchedAt at = sched_at(&r->plan.sched, r->st.step);
    double t0 = now_seconds();
    const Prompt **p = xcalloc((size_t)E, sizeof *p);
    *s = (RlLog){ .check = NAN, .lr_mult = at.lr, .lr = at.lr * r->plan.group[PG_MATRIX].lr };
    for (int e = 0; on && e < E; e++) {
        uint64_t i = (uint64_t)r->st.step * (uint64_t)E + (uint64_t)e;
        p[e] = nth_prompt(rl, i);
        on = rl_sample(r, p[e], a + e * n, n, opt.temperature, stream("answers", i));
    }
    on = on && judge(rl->judge, r, p, a, E, n, "train");
    if (on && opt.check_every && (r->st.step + 1) % opt.check_every == 0)
        s->check = compare(r, p[0], a);
    for (int k = 0; on && k < rounds; k++) {
        model_zero_grad(r->trained);
        for (int e = 0; on && e < E; e++) on = group_step(r, p[e], a + e * n, k == 0, s);
        if (on) update(r, s, at, k == 0);
    }
    if (on) {
        s->loss /= rounds;
        s->kl /= rounds;
        mean_numbers(s);
        if (s->judged) {
            rl->reward_ema = 0.9 * rl->reward_ema + 0.1 * s->reward;
            rl->judged_steps++;
        }
        r->st.step++;
        s->seconds = now_seconds() - t0;
    }
    free(p);
    return on;
}
