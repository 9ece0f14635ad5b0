/* sched.c -- schedules and automatic sizes; see sched.h. */
#include "gpt/sched.h"
#include <math.h>

#define B_REF 524288.0              /* tokens per step that the base learning rates were tuned at */

/* Half to even whatever the rounding mode of the process. */
double round_even(double x)
{
    double r = floor(x), d = x - r;
    if (d > 0.5 || (d == 0.5 && fmod(r, 2) != 0)) r += 1;
    return r;
}

static int64_t to_int64(double x)
{
    return x >= 0x1p63 ? INT64_MAX : x > 0 ? (int64_t)x : 0;
}

static double clamp01(double x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

static int64_t warmdown_steps(int64_t n, double ratio)
{
    return to_int64(round_even(ratio * (double)n));
}

double sched_lr(int64_t it, int64_t n, int64_t warmup, double warmdown_ratio, double final_frac)
{
    if (it < 0) it = 0;
    if (it < warmup) return (double)(it + 1) / (double)warmup;
    if (it > n) it = n;
    int64_t down = warmdown_steps(n, warmdown_ratio);
    if (it <= n - down) return 1;
    double left = (double)(n - it) / (double)down;
    return clamp01(left * 1.0 + (1 - left) * final_frac);
}

double sched_momentum(int64_t it, int64_t n, double warmdown_ratio)
{
    int64_t down = warmdown_steps(n, warmdown_ratio), start = n - down;
    if (it < 0) it = 0;
    if (it < 400) {
        double f = (double)it / 400;
        return (1 - f) * 0.85 + f * 0.97;
    }
    if (it > n) it = n;
    if (it < start || down == 0) return 0.97;
    double f = (double)(it - start) / (double)down;
    return 0.97 * (1 - f) + 0.90 * f;
}

double sched_weight_decay(int64_t it, int64_t n, double wd)
{
    if (it < 0 || n <= 0) it = 0;
    if (n > 0 && it > n) it = n;
    return wd * 0.5 * (1 + cos(M_PI * (double)it / (double)(n > 0 ? n : 1)));
}

/* Half a cosine over the n - warmup steps after the warm-up. */
static double cosine_lr(int64_t it, int64_t n, int64_t warmup, double final_frac)
{
    if (it < 0) it = 0;
    if (it < warmup) return (double)(it + 1) / (double)warmup;
    if (it >= n) return final_frac;
    double f = (double)(it - warmup) / (double)(n - warmup);
    return clamp01(final_frac + (1 - final_frac) * 0.5 * (1 + cos(M_PI * f)));
}

SchedAt sched_at(const Sched *s, int64_t it)
{
    if (s->kind == SCHED_NANOCHAT)
        return (SchedAt){ sched_lr(it, s->n, s->warmup, s->warmdown_ratio, s->final_frac),
                          sched_momentum(it, s->n, s->warmdown_ratio),
                          sched_weight_decay(it, s->n, s->wd) };
    if (s->kind == SCHED_SFT)
        return (SchedAt){ sched_sft_lr((double)it * s->per_step, (double)s->warmup * s->per_step,
                                       s->warmdown_ratio, s->final_frac),
                          sched_sft_momentum(it), s->wd };
    double momentum = sched_momentum(it, s->n, 0);
    if (s->kind == SCHED_COSINE || s->kind == SCHED_MINIMIND)
        return (SchedAt){ cosine_lr(it + (s->kind == SCHED_MINIMIND && it >= s->warmup), s->n, s->warmup, s->final_frac), momentum,
                          sched_weight_decay(it, s->n, s->wd) };
    return (SchedAt){ sched_lr(it, s->n, s->warmup, 0, 1), momentum, s->wd };
}

/* The 1e-8 keeps the very first step from having no effect at all. */
double sched_sft_lr(double progress, double warmup, double warmdown, double final_frac)
{
    if (progress < warmup) return clamp01((progress + 1e-8) / warmup);
    if (progress <= 1.0 - warmdown || !(warmdown > 0)) return 1;
    double f = (progress - (1.0 - warmdown)) / warmdown;
    return clamp01((1 - f) * 1.0 + f * final_frac);
}

double sched_sft_momentum(int64_t it)
{
    double f = it < 0 ? 0 : it < 300 ? (double)it / 300 : 1;
    return (1 - f) * 0.85 + f * 0.95;
}

static int64_t steps_of(const AutoSizes *a)
{
    if (a->steps_given > 0) return a->steps_given;
    if (a->tokens_given > 0) return a->tokens_given / a->total_batch;
    double flops_per_step = a->flops_per_token * (double)a->total_batch;
    if (a->target_flops > 0) return to_int64(round_even(a->target_flops / flops_per_step));
    return a->target_tokens / a->total_batch;
}

double sched_batch_scale(int64_t tokens) { return sqrt((double)tokens / B_REF); }

void auto_sizes(AutoSizes *a)
{
    a->target_tokens = to_int64(a->ratio * (double)a->scaling_params);
    a->D_ref = a->ratio * (double)a->scaling_params_d12;
    double horizon = (double)a->target_tokens / a->D_ref;
    a->predicted_batch = B_REF * pow(horizon, 0.383);
    a->total_batch = a->batch_given;
    if (a->batch_given <= 0) {
        double e = round_even(log2(a->predicted_batch));
        a->total_batch = e >= 62 ? (int64_t)1 << 62 : e > 0 ? (int64_t)1 << (int)e : 1;
    }
    double scale = sched_batch_scale(a->total_batch);
    a->batch_lr_scale = scale;
    a->weight_decay_scaled = a->weight_decay * scale * (a->D_ref / (double)a->target_tokens);
    a->steps = steps_of(a);
    if (__builtin_mul_overflow(a->total_batch, a->steps, &a->total_tokens))
        a->total_tokens = INT64_MAX;
}
