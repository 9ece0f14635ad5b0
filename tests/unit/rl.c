/* gpt-train --rl: what is recorded of an answer while it is sampled, and the rows made of answers;
 * a policy of two tokens. */
#include "../../gpt-train/rl_sample.c"
#include "../../gpt-train/rl_step.c"
#include "base/rng.h"
#include "tap.h"

/* what the two files ask of the others */
Options opt;
volatile sig_atomic_t stopped_by;
int judge(Judge *j, Run *r, const Prompt *const *p, Answer *a, int k, int n, const char *phase)
{
    (void)j, (void)r, (void)p, (void)a, (void)k, (void)n, (void)phase;
    return 0;
}

/* One answer of 3 drawn ids, the second of which a tool forced, with or without its end. */
static Answer *sampled(int ended)
{
    static real logits[4] = { 1, 2, 3, 0.5 };
    Answer *a = xcalloc(1, sizeof *a);
    Sampler s = { .a = a, .V = 4 };
    on_logits(&s, 0, 0, logits), on_token(&s, 0, 2);
    on_forced(&s, 0, 3);
    on_logits(&s, 0, 2, logits), on_token(&s, 0, 0);
    if (ended) on_logits(&s, 0, 3, logits);
    on_end(&s, 0, ended ? 1 : -1);
    return a;
}

/* F45: ids, masks and chances have one length each and belong together. */
static void recorded(void)
{
    Answer *a = sampled(1);
    double sum = exp(1.) + exp(2.) + exp(3.) + exp(0.5), h = 0;
    static const double l[] = { 1, 2, 3, 0.5 };
    for (int i = 0; i < 4; i++) h -= exp(l[i]) / sum * (l[i] - log(sum));
    ok(a->ids.n == 4 && a->mask.n == 4 && a->ids.id[0] == 2 && a->ids.id[1] == 3 &&
       a->ids.id[2] == 0 && a->ids.id[3] == 1, "F45 ids as they were drawn, the end too");
    ok(a->mask.s[0] == 1 && a->mask.s[1] == 0 && a->mask.s[2] == 1 && a->mask.s[3] == 1,
       "what a tool forced is marked");
    ok(fabs(a->logp[0] - (3 - log(sum))) < 1e-12 && a->logp[1] == 0 &&
       fabs(a->logp[2] - (1 - log(sum))) < 1e-12 && fabs(a->logp[3] - (2 - log(sum))) < 1e-12,
       "log-probabilities over the whole vocabulary");
    ok(fabs(a->entropy - 3 * h) < 1e-12, "entropy of the three that were drawn");
    answers_free(a, 1);
}

/* F47, and F43: what counts among the targets. */
static void rows(void)
{
    uint32_t prompt[] = { 9, 8, 7 };
    Prompt p = { .ids = { prompt, 3, 3 } };
    Answer *two[] = { sampled(1), sampled(0) }, a[2] = { *two[0], *two[1] };
    int32_t x[64], y[64], dx[64], dy[64];
    Run r = { .ops = ops_open("cpu", "fp32", 1), .x = x, .y = y, .micro = { .x = dx, .y = dy },
              .plan = { .B = 2, .T = 16, .cfg = { .T = 16 } } };
    Rows b = lay(&r, &p, a, 2);
    static const int32_t wx[2][6] = { { 9, 8, 7, 2, 3, 0 }, { 9, 8, 7, 2, 3, 0 } };
    static const int32_t wy[2][6] = { { -1, -1, 2, -1, 0, 1 }, { -1, -1, 2, -1, 0, -1 } };
    ok(b.B == 2 && b.T == 6 && b.first == 2, "rows as long as the longest answer needs");
    ok(!memcmp(x, wx, sizeof wx), "inputs: the prompt and the answer");
    ok(!memcmp(y, wy, sizeof wy),
       "F47 targets: drawn ids alone; the end where it was drawn, nothing where the answer was cut");
    ok(!memcmp(dx, wx, sizeof wx) && !memcmp(dy, wy, sizeof wy), "on the device too");
    a[1].ids.n = 1;
    lay(&r, &p, a, 2);
    ok(x[6 + 4] == 9 && y[6 + 3] == -1 && y[6 + 5] == -1 && y[6 + 2] == 2,
       "F43 padding is no target");
    for (int i = 0; i < 2; i++) answers_free(two[i], 1);
}

/* Two tokens, one of which is rewarded: its chance goes to 1, with either way of the loss. */
static void policy(int grpo)
{
    enum { N = 8 };
    RlSettings s = { .std = grpo, .eps = 1e-8, .clip = grpo ? 0.2 : 0,
                     .norm = grpo ? RL_PER_ANSWER : RL_PER_TOKEN };
    double w[2] = { 0, 0 };
    Rng rng;
    rng_init(&rng, 5, 0);
    for (int step = 0; step < 300; step++) {
        double reward[N], old[N], logp[N], grad[N], adv[N], lse = log(exp(w[0]) + exp(w[1]));
        unsigned char mask[N];
        int id[N];
        for (int i = 0; i < N; i++) {
            id[i] = rng_uniform(&rng) >= exp(w[0] - lse);
            reward[i] = id[i] == 1;
            old[i] = w[id[i]] - lse;
            mask[i] = 1;
        }
        for (int k = 0; k < (grpo ? 2 : 1); k++) {
            lse = log(exp(w[0]) + exp(w[1]));
            for (int i = 0; i < N; i++) logp[i] = w[id[i]] - lse;
            RlGroup g = { N, 1, reward, logp, grpo ? old : NULL, NULL, mask };
            rl_loss(grad, adv, &s, &g);
            double d[2] = { 0, 0 };
            for (int i = 0; i < N; i++)         /* d logp / d w = [it is mine] - p */
                for (int j = 0; j < 2; j++) d[j] += grad[i] * ((id[i] == j) - exp(w[j] - lse));
            for (int j = 0; j < 2; j++) w[j] -= 0.5 * d[j];
        }
    }
    double p = 1 / (1 + exp(w[0] - w[1]));
    ok(p > 0.97, "%s: the rewarded token of two comes to %.4f", grpo ? "GRPO" : "on-policy", p);
}

int main(void)
{
    recorded();
    rows();
    policy(0);
    policy(1);
    return done();
}
