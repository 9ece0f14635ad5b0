/* What a run of reinforcement learning tells: records, the step line, the plan. */
#include "options.h"
#include "rl.h"
#include <inttypes.h>
#include <math.h>

static void num(Buf *b, const char *key, double x)
{
    buf_printf(b, ", \"%s\": ", key);
    json_num(b, x);
}

double rl_reward_mean(const Rl *rl)
{
    double done = (double)rl->judged_steps;
    return done > 0 ? rl->reward_ema / (1 - pow(0.9, done)) : NAN;
}

static double epochs(const Run *r)
{
    return (double)r->st.step * opt.examples / (double)r->rl->train.n;
}

void rl_log_step(Run *r, const RlLog *s)
{
    Buf *b = &r->line;
    int answers = opt.examples * opt.samples;
    buf_clear(b);
    buf_printf(b, "{\"step\": %" PRId64, r->st.step);
    num(b, "epoch", epochs(r));
    num(b, "reward", s->reward);
    num(b, "reward_std", s->deviation);
    num(b, "loss", s->loss);
    if (r->rl->ref) num(b, "kl", s->kl);
    num(b, "entropy", s->entropy);
    num(b, "length", (double)s->tokens / answers);
    buf_printf(b, ", \"answers\": %d, \"unjudged\": %d, \"cut\": %d, \"equal_groups\": %d", answers,
               s->unjudged, s->cut, s->equal);
    if (opt.grpo) buf_printf(b, ", \"clipped\": %d", s->clipped);
    num(b, "lr", s->lr);
    num(b, "lr_mult", s->lr_mult);
    num(b, "grad_norm", s->grad_norm);
    if (!isnan(s->check)) num(b, "logp_diff", s->check);
    buf_printf(b, ", \"tok_per_s\": %.1f, \"seconds\": %.3f, \"dt\": %.6f}\n",
               s->seconds > 0 ? (double)s->tokens / s->seconds : 0, clock_seconds(r), s->seconds);
    mlog_write(&r->log, b->s, b->n);
}

void rl_log_eval(Run *r, const Passed *e)
{
    Buf *b = &r->line;
    buf_clear(b);
    buf_printf(b, "{\"step\": %" PRId64 ", \"eval_prompts\": %" PRId64, r->st.step, e->prompts);
    num(b, "eval_reward", e->reward);
    for (int k = 0; k < e->kinds; k++) {
        buf_printf(b, ", \"pass_at_%d\": ", 1 << k);
        json_num(b, e->at[k]);
    }
    buf_printf(b, ", \"unjudged\": %" PRId64 "}\n", e->unjudged);
    mlog_write(&r->log, b->s, b->n);
    progress_end(&r->progress);
    note(1, "step %" PRId64 ": pass@1 %.3f of %" PRId64 " prompts, mean reward %.3f", r->st.step,
         e->at[0], e->prompts, e->reward);
}

void rl_show(Run *r, const RlLog *s)
{
    Buf *b = &r->shown;
    int answers = opt.examples * opt.samples;
    show_pace(r);
    buf_clear(b);
    buf_printf(b, "step %" PRId64 "/%" PRId64 " (%.0f%%)", r->st.step, r->plan.a.steps,
               100 * ((double)r->st.step / (double)r->plan.a.steps));
    if (isnan(s->reward)) buf_str(b, ", no reward");
    else buf_printf(b, ", reward %.3f", rl_reward_mean(r->rl));
    if (!isnan(r->rl->pass)) buf_printf(b, ", pass@1 %.3f", r->rl->pass);
    buf_printf(b, ", length %.1f, entropy %.2f, %d of %d groups equal, norm %.3g",
               (double)s->tokens / answers, s->entropy, s->equal, opt.examples, s->grad_norm);
    if (s->unjudged) buf_printf(b, ", %d unjudged", s->unjudged);
    double eta = show_eta(r);
    if (!isnan(eta)) {
        buf_str(b, ", ETA ");
        buf_duration(b, eta);
    }
    buf_printf(b, ", epoch %.2f", epochs(r));
    r->progress.whole = b->s;
    if (verbose >= 2) note(2, "%s", b->s);
    else progress(&r->progress, (uint64_t)r->st.step);
    status_write(r, NULL, "training");
}

/* ---- the plan */

static const char *loss_name(void)
{
    return opt.grpo ? "GRPO: advantages by the deviation, ratios clipped"
                    : "on-policy: advantages by the mean";
}

void rl_plan_text(const Run *r, Buf *b)
{
    const Plan *p = &r->plan;
    const Config *c = &p->cfg;
    buf_printf(b, "%-22sdepth %d, width %d, %d heads of %d, T %d, vocabulary %d, %" PRId64
               " parameters\n", "model", c->L, c->C, c->H, head_size(c), c->T, c->V, p->params);
    buf_printf(b, "%-22s%zu, the longest of %zu tokens%s\n", "prompts", r->rl->train.n,
               r->rl->train.longest, r->rl->has_tool ? "; the calculator answers calls" : "");
    buf_printf(b, "%-22s%" PRId64 " of %d prompts with %d answers of up to %d tokens; %.4g epochs\n",
               "steps", p->a.steps, opt.examples, opt.samples, opt.max_tokens,
               (double)p->a.steps * opt.examples / (double)r->rl->train.n);
    buf_printf(b, "%-22s%s, normalised by %s; KL %g\n", "loss", loss_name(), opt.norm, opt.kl);
    buf_printf(b, "%-22smatrices %.6g, wte %.6g, lm_head %.6g, scalars %.6g at first\n", "rates",
               p->group[PG_MATRIX].lr, p->group[PG_WTE].lr, p->group[PG_LM_HEAD].lr,
               p->group[PG_X0].lr);
    buf_printf(b, "%-22s%.1f MB: weights %.1f, gradients %.1f, optimizer %.1f, activations %.1f, "
               "decoding and reference %.1f\n", "memory", p->mem_total / 1e6, p->mem_weights / 1e6,
               p->mem_grads / 1e6, p->mem_optim / 1e6, p->mem_acts / 1e6, r->rl->mem_cache / 1e6);
}

void rl_plan_json(const Run *r, Buf *b)
{
    const Plan *p = &r->plan;
    Buf cfg = {0};
    config_json(&p->cfg, &cfg);
    while (cfg.n && cfg.s[cfg.n - 1] == '\n') cfg.n--;
    buf_printf(b, "\"kind\": \"rl\", \"model\": %.*s, \"params\": %" PRId64 ", \"steps\": %" PRId64
               ", \"prompts\": %zu, \"longest_prompt\": %zu, \"eval_prompts\": %zu, "
               "\"answers_per_step\": %d, \"device_batch\": %d",
               (int)cfg.n, cfg.s, p->params, p->a.steps, r->rl->train.n, r->rl->train.longest,
               r->rl->val.n, opt.examples * opt.samples, p->B);
    num(b, "bytes", p->mem_total);
    num(b, "bytes_weights", p->mem_weights);
    num(b, "bytes_gradients", p->mem_grads);
    num(b, "bytes_optimizer", p->mem_optim);
    num(b, "bytes_activations", p->mem_acts);
    num(b, "bytes_decoding", r->rl->mem_cache);
    buf_free(&cfg);
}
