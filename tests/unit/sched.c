/* Schedules and sizes: rounding, borders and clamps. Exact numbers are in tests/golden/sched.c. */
#include "gpt/sched.h"
#include "tap.h"
#include <math.h>

static void rounding(void)
{
    static const double in[] = {
        0, 0.5, 1.5, 2.5, 6.5, 19.5, -0.5, -1.5, -2.5, 0.49999999999999994, 1.3, 4503599627370497
    };
    static const double out[] = { 0, 0, 2, 2, 6, 20, 0, -2, -2, 0, 1, 4503599627370497 };
    int good = 1;
    for (unsigned i = 0; i < sizeof in / sizeof *in; i++)
        if (round_even(in[i]) != out[i]) {
            good = 0;
            printf("# %g -> %g\n", in[i], round_even(in[i]));
        }
    ok(good, "round_even is half to even");
}

/* n as large as a count may be, n of 0, ratios at and beyond their ends */
static void ranges(void)
{
    static const int64_t ns[] = { 0, 1, 2, 3, 10, 399, 400, 401, 1000, INT64_C(1) << 40 };
    static const double ratios[] = { 0, 0.3, 0.65, 1, 1.5 };
    int lr = 1, mu = 1, wd = 1;
    for (int i = 0; i < 10; i++) for (int r = 0; r < 5; r++) for (int k = -2; k < 20; k++) {
                int64_t n = ns[i], it = k < 17 ? k * n / 10
                                               : n + (int64_t[]){ 1, 5, INT64_C(1) << 41 }[k - 17];
                for (int w = 0; w <= 40; w += 20) {
                    double x = sched_lr(it, n, w, ratios[r], 0.05);
                    lr &= x >= 0 && x <= 1;
        }
        double m = sched_momentum(it, n, ratios[r]);
        mu &= m >= 0.85 - 1e-15 && m <= 0.97 + 1e-15;
        double d = sched_weight_decay(it, n, 0.28);
        wd &= d >= 0 && d <= 0.28;
    }
    ok(lr, "the multiplier stays in [0, 1] for any step");
    ok(mu, "momentum stays in [0.85, 0.97]");
    ok(wd, "weight decay stays in [0, wd]");
    ok(sched_lr(1000, 10, 0, 0.65, 0.05) == 0.05 && sched_lr(10, 10, 0, 0.65, 0.05) == 0.05,
       "past the end the multiplier holds its last value");
    ok(sched_lr(7, 10, 40, 0.65, 0.05) == 8 / 40.0, "warm-up wins over warm-down");
    ok(sched_lr(10, 10, 0, 0, 0.05) == 1, "no warm-down: 1 to the end");
    ok(fabs(sched_momentum(399, 500, 0.65) - 0.9697) < 1e-12
       && fabs(sched_momentum(400, 500, 0.65) - (0.97 - 0.07 * 225 / 325)) < 1e-12,
       "the momentum's warm-up wins over its warm-down");
}

/* F11: sched_at() is what a run goes by: any schedule, at any step, before, in and past its end. */
static void whole(void)
{
    static const int64_t ns[] = { 1, 2, 10, 640, 5000, SCHED_OPEN };
    static const SchedKind kinds[] = { SCHED_NANOCHAT, SCHED_COSINE, SCHED_CONSTANT, SCHED_SFT };
    static const char *const name[] = { "nanochat", "cosine", "constant", "sft" };
    for (int k = 0; k < 4; k++) {
        int good = 1, holds = 1, falls = 1;
        for (int i = 0; i < 6; i++) for (int w = 0; w <= 80; w += 40) for (int r = 0; r <= 4; r++) {
            int64_t n = ns[i];
            Sched s = { kinds[k], n, w, r / 4.0, 0.05, 0.28, 1 / (double)n };
            double before = 2;
            for (int64_t j = -3; j <= 43; j++) {
                int64_t it = j <= 40 ? j * n / 40 : j == 41 ? n + 1 : j == 42 ? 3 * n : INT64_MAX;
                SchedAt a = sched_at(&s, it);
                good &= a.lr >= 0 && a.lr <= 1 && a.momentum >= 0.85 - 1e-15 &&
                        a.momentum <= 0.97 + 1e-15 && a.weight_decay >= 0 && a.weight_decay <= 0.28;
                if (it >= w && n > w) {
                    falls &= a.lr <= before;
                    before = a.lr;
                }
                if (it > n && k != 3)
                    holds &= a.lr == sched_at(&s, n > w ? n : it).lr &&
                             a.weight_decay == sched_at(&s, n).weight_decay;
            }
        }
        ok(good, "%s: multiplier, momentum, decay in range at any step", name[k]);
        ok(falls && holds, "  never rises after the warm-up, and holds its end");
    }
    Sched s = { SCHED_NANOCHAT, 640, 40, 0.5, 0.05, 0.28, 0 };
    SchedAt a = sched_at(&s, 480);
    ok(fabs(a.lr - 0.525) < 1e-15 && fabs(a.momentum - 0.935) < 1e-15 &&
       fabs(a.weight_decay - 0.14 * (1 - sqrt(0.5))) < 1e-15, "nanochat, half down, by hand");
    s.kind = SCHED_COSINE;
    a = sched_at(&s, 340);
    ok(fabs(a.lr - 0.525) < 1e-15 && fabs(a.momentum - 0.952) < 1e-15, "cosine, half-way, by hand");
    s.kind = SCHED_CONSTANT;
    a = sched_at(&s, 639);
    ok(a.lr == 1 && a.momentum == 0.97 && a.weight_decay == 0.28, "constant, to the end");
    s = (Sched){ SCHED_SFT, 10, 0, 0.5, 0, 0.28, 0.1 };
    a = sched_at(&s, 9);
    ok(fabs(a.lr - 0.2) < 1e-15 && fabs(a.momentum - 0.853) < 1e-15 && a.weight_decay == 0.28 &&
       sched_at(&s, 10).lr == 0 && sched_at(&s, 11).lr == 0, "sft, by rows taken before the step");
}

static void sft(void)
{
    int good = 1;
    for (double p = 0; p < 3; p += 0.001)
        for (double f = 0; f <= 1; f += 0.25) {
            double a = sched_sft_lr(p, 0.1, 0.3, f), b = sched_sft_lr(p, 0, 0, f);
            good &= a >= 0 && a <= 1 && b == 1;
        }
    ok(good, "the SFT multiplier stays in [0, 1]");
    ok(sched_sft_lr(1.0, 0, 0.5, 0) == 0 && sched_sft_lr(1.01, 0, 0.5, 0) == 0,
       "and is 0 at the end and past it");
    ok(sched_sft_momentum(-1) == 0.85 && sched_sft_momentum(INT64_MAX) == 0.95,
       "SFT momentum holds its ends");
}

static AutoSizes sizes(int64_t scaling, double ratio)
{
    AutoSizes a = { .scaling_params = scaling, .scaling_params_d12 = 110100912, .ratio = ratio,
                    .flops_per_token = 1e9, .weight_decay = 0.28 };
    return a;
}

static void extremes(void)
{
    AutoSizes a = sizes(110100912, 12);
    a.batch_given = 1000; a.steps_given = 7;
    auto_sizes(&a);
    ok(a.total_batch == 1000 && a.steps == 7 && a.total_tokens == 7000,
       "given batch and steps stand");
    ok(a.batch_lr_scale == sqrt(1000 / 524288.0), "a batch that is no power of two scales too");
    a = sizes(10, 0.1);
    auto_sizes(&a);
    ok(a.total_batch >= 1 && a.steps >= 0, "a tiny model: a batch of at least one token");
    a = sizes(INT64_MAX, 1e6);
    auto_sizes(&a);
    ok(a.target_tokens == INT64_MAX && a.total_batch > 0 && a.steps > 0, "an absurd one saturates");
    a = sizes(110100912, 12);
    a.target_flops = 1e300;
    auto_sizes(&a);
    ok(a.steps == INT64_MAX && a.total_tokens == INT64_MAX, "an absurd budget of FLOPs saturates");
}

int main(void)
{
    rounding();
    ranges();
    sft();
    whole();
    extremes();
    return done();
}
