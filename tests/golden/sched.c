/* Schedules, automatic sizes and optimizer groups against nanochat's own numbers. */
#include "gpt/optim.h"
#include "gpt/sched.h"
#include "golden.h"
#include "tap.h"

#define REL 1e-12

static void base(const Json *run)
{
    int64_t n = (int64_t)num(run, "num_iterations"), warmup = (int64_t)num(run, "warmup_steps");
    double down = num(run, "warmdown_ratio"), last = num(run, "final_lr_frac");
    double wd = num(run, "weight_decay_scaled");
    int lr = 1, mu = 1, dec = 1;
    for (const Json *r = json_get(run, "rows")->child; r; r = r->next) {
        int64_t it = (int64_t)num(r, "it");
        lr &= near(sched_lr(it, n, warmup, down, last), num(r, "lr_multiplier"), REL);
        mu &= near(sched_momentum(it, n, down), num(r, "muon_momentum"), REL);
        dec &= near(sched_weight_decay(it, n, wd), num(r, "weight_decay"), REL);
    }
    ok(lr && mu && dec, "%d steps: multiplier %d, momentum %d, weight decay %d", (int)n, lr, mu,
       dec);
    ok(round_even(down * (double)n) == num(run, "warmdown_iters"),
       "%d steps: length of the warm-down", (int)n);
}

static void warmdown(const Json *run)
{
    int64_t n = (int64_t)num(run, "num_iterations"), it = 0;
    int good = round_even(num(run, "product")) == num(run, "warmdown_iters");
    for (const Json *r = json_get(run, "lr_multiplier")->child; r; r = r->next, it++)
        good &= near(sched_lr(it, n, 0, num(run, "product") / (double)n, 0.05), r->num, REL);
    ok(good, "warm-down of %g of %d steps", num(run, "product"), (int)n);
}

/* Past progress 1 nanochat's multiplier goes below 0; ours stops at 0. */
static void sft(const Json *run)
{
    double w = num(run, "warmup_ratio"), d = num(run, "warmdown_ratio"),
           f = num(run, "final_lr_frac");
    int lr = 1, mu = 1;
    for (const Json *r = json_get(run, "rows")->child; r; r = r->next) {
        double want = num(r, "lr_multiplier");
        lr &= near(sched_sft_lr(num(r, "progress"), w, d, f), want > 0 ? want : 0, REL);
    }
    for (const Json *r = json_get(run, "muon_momentum")->child; r; r = r->next)
        mu &= near(sched_sft_momentum((int64_t)num(r, "it")), num(r, "muon_momentum"), REL);
    ok(lr, "SFT multiplier, warm-up %g, warm-down %g", w, d);
    ok(mu, "SFT momentum");
}

static double either(const Json *args, const Json *defaults, const char *key)
{
    return num(json_get(args, key) ? args : defaults, key);
}

static Config config_of(const Json *args, const Json *def, int depth, int V)
{
    const Json *w = json_get(json_get(args, "window_pattern") ? args : def, "window_pattern");
    return config_depth(depth, (int)either(args, def, "aspect_ratio"),
                        (int)either(args, def, "head_dim"), (int)either(args, def, "max_seq_len"),
                        V, w->s);
}

static void groups(const Json *row, const Json *def, const AutoSizes *a, int C)
{
    OptimSettings s = { .embedding_lr = num(def, "embedding_lr"),
                        .unembedding_lr = num(def, "unembedding_lr"),
                        .matrix_lr = num(def, "matrix_lr"), .scalar_lr = num(def, "scalar_lr"),
                        .batch_scale = a->batch_lr_scale, .lr_scale = 1,
                        .weight_decay = a->weight_decay_scaled };
    OptimGroup g[PG_COUNT];
    optim_groups(g, &s, C);
    static const ParamGroup order[] = { PG_LM_HEAD, PG_WTE, PG_VALUE_EMBEDS,
                                        PG_RESID,   PG_X0,  PG_SMEAR };
    int i = 0, good = 1;
    for (const Json *j = json_get(row, "groups")->child; j; j = j->next, i++) {
        const OptimGroup *p = &g[json_is_str(json_get(j, "kind"), "muon") ? PG_MATRIX : order[i]];
        good &= near(p->lr, num(j, "lr"), REL) && near(p->wd, num(j, "weight_decay"), REL);
    }
    ok(good && i >= 9, "  rates and weight decays of its %d groups", i);
}

static void sizes(const Json *row, const Json *def, int V)
{
    const Json *args = json_get(row, "args"), *p = json_get(row, "predicted_batch_size");
    int depth = (int)either(args, def, "depth");
    Config c = config_of(args, def, depth, V), c12 = config_of(args, def, 12, V);
    AutoSizes a = {
        .scaling_params = config_scaling_params(&c),
        .scaling_params_d12 = config_scaling_params(&c12),
        .ratio = either(args, def, "target_param_data_ratio"),
        .flops_per_token = config_flops_per_token(&c),
        .target_flops = either(args, def, "target_flops"),
        .steps_given = (int64_t)either(args, def, "num_iterations"),
        .batch_given = (int64_t)either(args, def, "total_batch_size"),
        .weight_decay = either(args, def, "weight_decay"),
    };
    ok((double)a.scaling_params == num(row, "num_scaling_params"),
       "depth %d, ratio %g: scaling parameters", depth, a.ratio);
    ok(a.flops_per_token == num(row, "num_flops_per_token"), "  FLOPs per token");
    auto_sizes(&a);
    ok((double)a.target_tokens == num(row, "target_tokens") &&
           (double)a.total_batch == num(row, "total_batch_size") &&
           (double)a.steps == num(row, "num_iterations") &&
           (double)a.total_tokens == num(row, "total_tokens"),
       "  tokens %lld, batch %lld, steps %lld", (long long)a.target_tokens,
       (long long)a.total_batch, (long long)a.steps);
    ok(near(a.D_ref, num(row, "D_REF"), REL) &&
           near(a.batch_lr_scale, num(row, "batch_lr_scale"), REL) &&
           near(a.weight_decay_scaled, num(row, "weight_decay_scaled"), REL) &&
           (p->kind == J_NULL || near(a.predicted_batch, p->num, 1e-9)),
       "  D_ref, batch scale, weight decay");
    groups(row, def, &a, c.C);
}

int main(void)
{
    Arena a = { 0 };
    const Json *s = golden_json(&a, golden("nanochat", "e_schedules.json"));
    for (const Json *r = json_get(s, "base_train")->child; r; r = r->next) base(r);
    for (const Json *r = json_get(s, "warmdown_rounding")->child; r; r = r->next) warmdown(r);
    for (const Json *r = json_get(s, "chat_sft")->child; r; r = r->next) sft(r);
    const Json *z = golden_json(&a, golden("nanochat", "e_auto_sizes.json"));
    for (const Json *r = json_get(z, "rows")->child; r; r = r->next)
        sizes(r, json_get(z, "defaults"), (int)num(z, "vocab_size"));
    arena_free(&a);
    return done();
}
