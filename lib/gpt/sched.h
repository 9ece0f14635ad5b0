/* sched.h -- schedules, and the sizes a run takes from its depth. Pure functions in double
 * precision, equal to nanochat's to 1e-12; every rounding is half to even. */
#ifndef GPT_SCHED_H
#define GPT_SCHED_H
#include <stdint.h>

/* Learning-rate multiplier at step it of n: warm-up (it+1)/warmup, 1, then linear to final_frac
 * over the last round(warmdown_ratio * n). Warm-up wins. In [0, 1] for any it. */
double sched_lr(int64_t it, int64_t n, int64_t warmup, double warmdown_ratio, double final_frac);
/* 0.85 -> 0.97 over 400 steps, -> 0.90 in the warm-down; the 400 steps win */
double sched_momentum(int64_t it, int64_t n, double warmdown_ratio);
double sched_weight_decay(int64_t it, int64_t n, double wd);        /* wd/2 (1 + cos(pi it / n)) */

/* A run's schedule. nanochat: the three above. cosine: after the warm-up half a cosine from 1 to
 * final_frac at step n; the momentum rises and stays. minimind: the
 * same one step later, so that the last step has final_frac. constant: after the
 * warm-up 1 and wd; momentum as in cosine. sft: by the part of the data that was taken before the
 * step, per_step for each; see sched_sft_lr(). */
typedef enum { SCHED_NANOCHAT, SCHED_COSINE, SCHED_MINIMIND, SCHED_CONSTANT, SCHED_SFT } SchedKind;
typedef struct Sched {
    SchedKind kind;
    int64_t n, warmup;              /* steps */
    double warmdown_ratio, final_frac, wd;
    double per_step;                /* sft */
} Sched;
typedef struct SchedAt { double lr, momentum, weight_decay; } SchedAt;
#define SCHED_OPEN INT64_C(1000000000000000)    /* n: not known yet, and no warm-down in sight */
SchedAt sched_at(const Sched *s, int64_t it);

/* By progress in [0, 1]; past 1 it falls on, as nanochat's does, but not below 0. */
double sched_sft_lr(double progress, double warmup, double warmdown, double final_frac);
double sched_sft_momentum(int64_t it);                              /* 0.85 -> 0.95 over 300 */

/* What a batch of so many tokens a step multiplies the base rates by: sqrt(tokens / 524288). */
double sched_batch_scale(int64_t tokens);

typedef struct AutoSizes {
    int64_t scaling_params;                         /* of this model */
    int64_t scaling_params_d12;                     /* of depth 12, else the same */
    double ratio;                                   /* target tokens per scaling parameter; 12 */
    double flops_per_token;
    double target_flops;                            /* > 0: horizon by FLOPs */
    int64_t steps_given;                            /* > 0: horizon by steps */
    int64_t tokens_given;                           /* > 0: horizon by tokens */
    int64_t batch_given;                            /* > 0: total batch in tokens */
    double weight_decay;                            /* 0.28 */
    /* results. steps may be 0: a horizon shorter than one batch */
    int64_t target_tokens, total_batch, steps, total_tokens;
    double batch_lr_scale, weight_decay_scaled, predicted_batch, D_ref;
} AutoSizes;
void auto_sizes(AutoSizes *a);
double round_even(double x);

#endif
