#include "gpt/rl.h"
#include <math.h>
#include <string.h>

int rl_advantages(double *adv, const RlSettings *s, const double *reward, int n, double *mean,
                  double *std)
{
    int judged = 0, equal = 1;
    double sum = 0, first = NAN, var = 0;
    for (int i = 0; i < n; i++) {
        if (isnan(reward[i])) continue;
        if (!judged++) first = reward[i];
        equal &= reward[i] == first;
        sum += reward[i];
    }
    *mean = judged ? sum / judged : 0;
    for (int i = 0; i < n; i++)
        if (!isnan(reward[i])) var += (reward[i] - *mean) * (reward[i] - *mean);
    *std = judged && !equal ? sqrt(var / judged) : 0;
    for (int i = 0; i < n; i++) {
        adv[i] = isnan(reward[i]) || equal ? 0 : reward[i] - *mean;     /* exactly 0 if equal */
        if (s->std) adv[i] /= *std + s->eps;
    }
    return judged;
}

/* One token: its loss, and *grad the derivative by logp. */
static double token_loss(const RlSettings *s, double adv, double logp, double old, double *grad,
                         int *clipped)
{
    double ratio = exp(logp - old), loss = -adv * ratio;
    *grad = loss;
    if (!(s->clip > 0)) return loss;
    double lo = 1 - s->clip, hi = 1 + s->clip;
    double held = -adv * (ratio < lo ? lo : ratio > hi ? hi : ratio);
    if (held <= loss) return loss;
    *grad = 0;
    ++*clipped;
    return held;
}

static int tokens_of(const RlGroup *g, int i)
{
    int n = 0;
    for (int l = 0; l < g->L; l++) n += g->mask[(long)i * g->L + l] != 0;
    return n;
}

RlLoss rl_loss(double *grad, double *adv, const RlSettings *s, const RlGroup *g)
{
    RlLoss r = { 0 };
    r.judged = rl_advantages(adv, s, g->reward, g->n, &r.mean, &r.std);
    memset(grad, 0, sizeof *grad * (size_t)g->n * (size_t)g->L);
    for (int i = 0; i < g->n; i++)
        if (!isnan(g->reward[i])) r.tokens += tokens_of(g, i);
    for (int i = 0; i < g->n; i++) {
        int mine = isnan(g->reward[i]) ? 0 : tokens_of(g, i);
        if (!mine) continue;
        double scale = s->norm == RL_PER_TOKEN ? 1.0 / r.tokens : 1.0 / mine / r.judged;
        for (int l = 0; l < g->L; l++) {
            long at = (long)i * g->L + l;
            if (!g->mask[at]) continue;
            double d, x = token_loss(s, adv[i], g->logp[at], g->old ? g->old[at] : g->logp[at], &d,
                                     &r.clipped);
            if (!g->old) x = -adv[i] * g->logp[at];             /* same gradient; what is reported */
            if (g->ref) {
                double up = exp(g->ref[at] - g->logp[at]), k = up - (g->ref[at] - g->logp[at]) - 1;
                r.kl += k / r.tokens;
                x += s->beta * k;
                d += s->beta * (1 - up);
            }
            r.loss += scale * x;
            grad[at] = scale * d;
        }
    }
    return r;
}

double pass_at(int n, int right, int k)
{
    double none = 1;                            /* C(n - right, k) / C(n, k), factor by factor */
    if (n - right < k) return 1;
    for (int i = n - right + 1; i <= n; i++) none *= 1 - (double)k / i;
    return 1 - none;
}
