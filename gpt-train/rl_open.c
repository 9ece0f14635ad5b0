/* What a run of reinforcement learning needs, made and taken down. */
#include "gpt/ckpt.h"
#include "gpt/ends.h"
#include "options.h"
#include "rl.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MICRO_TOKENS 8192       /* as plan.c */

Rl *rl_new(void)
{
    Rl *rl = xcalloc(1, sizeof *rl);
    rl->pass = rl->best_pass = NAN;
    return rl;
}

/* Steps, rates; what a step takes. */
static void plan(Run *r, const Config *c)
{
    Plan *p = &r->plan;
    Rl *rl = r->rl;
    const char *bad = config_check(c);
    if (bad) die_usage("no such model: %s", bad);
    int64_t longest = (int64_t)rl->train.longest + opt.max_tokens;
    int T = longest < c->T ? (int)longest : c->T;
    int auto_B = T < MICRO_TOKENS ? MICRO_TOKENS / T : 1;
    *p = (Plan){ .cfg = *c, .T = T, .B = opt.B ? opt.B : auto_B < opt.samples ? auto_B : opt.samples };
    p->rows = p->B;
    p->accum = 1;
    double steps = opt.steps ? (double)opt.steps
                             : floor(opt.epochs * (double)rl->train.n / opt.examples);
    if (steps < 1)
        die("%s: %zu prompts make less than one step of %d in %g epochs: see --examples, --epochs",
            opt.rl, rl->train.n, opt.examples, opt.epochs);
    p->a.steps = opt.steps = steps < (double)SCHED_OPEN ? (int64_t)steps : SCHED_OPEN;
    p->a.flops_per_token = config_flops_per_token(c);
    /* the rates that the model's own run had, with their scaling by its batch */
    p->a.batch_lr_scale = opt.total_batch ? sched_batch_scale(opt.total_batch) : 1;
    plan_optim(p, opt.weight_decay);
    p->sched = (Sched){ plan_schedule(), p->a.steps, opt.warmup, opt.warmdown, opt.final_lr,
                        opt.weight_decay, 1 / (double)p->a.steps };
    p->params = config_params(c, -1);
    opt.depth = c->L;
    opt.head_dim = head_size(c);
    opt.window = c->window;
    opt.T = c->T;
    opt.B = p->B;
}

/* Two caches: a prompt's row and the samples' rows, keys and values of every layer; logits; with
 * --kl a model without gradients. */
static void count_memory(Run *r)
{
    const Config *c = &r->plan.cfg;
    double M = (double)r->rl->train.longest + opt.max_tokens, rows = opt.samples < 64 ? opt.samples : 64;
    if (M > c->T) M = c->T;
    double act = (double)r->ops->act_size;
    double cache = (rows + 1) * M * c->K * head_size(c) * 2 * c->L * act;
    double ref = opt.kl > 0 && !opt.lora ? r->plan.mem_weights : 0;
    r->rl->mem_cache = cache + (rows + 1) * c->V * (double)sizeof(real) + ref;
    r->plan.mem_total += r->rl->mem_cache;
}

void rl_prepare(Run *r, const Config *c)
{
    Rl *rl = r->rl;
    size_t T = (size_t)c->T;
    if (!opt.resume && !opt_given("max-tokens") && opt.max_tokens > c->T / 2)
        opt.max_tokens = c->T / 2 > 0 ? c->T / 2 : 1;
    if ((size_t)opt.max_tokens >= T)
        die_usage("--max-tokens: %d, but the model has %zu positions", opt.max_tokens, T);
    rl->enc = tokenc_new(r->tok);
    if (chat_known(r->tok))
        rl->chat = chat_new(r->tok, "the tokenizer", rl->enc, chat_guess(r->tok), -1);
    rl->has_tool = !opt.no_tools && tool_init(&rl->tool, r->tok, rl->enc);
    rl->stop = xcalloc((size_t)c->V, 1);
    if (rl->chat) chat_stops(rl->chat, rl->stop);
    ends_stops(run_source(), r->tok, c->V, rl->stop);
    int bos = ends_bos(run_source(), r->tok, c);
    size_t most = T - (size_t)opt.max_tokens;
    prompts_read(&rl->train, opt.rl, rl->enc, rl->chat, bos, most);
    for (int i = 0; i < opt.val.n; i++)
        prompts_read(&rl->val, opt.val.s[i], rl->enc, rl->chat, bos, most);
    plan(r, c);
    plan_count(&r->plan);
    count_memory(r);
    rl->loss = (RlSettings){ .std = opt.grpo, .eps = opt.advantage_eps,
                             .clip = opt.grpo ? opt.clip : 0, .beta = opt.kl,
                             .norm = strcmp(opt.norm, "answer") ? RL_PER_TOKEN : RL_PER_ANSWER };
}

static void open_reference(Run *r)
{
    Rl *rl = r->rl;
    uint64_t was = rl->ref_hash;
    if (!opt.resume) {
        rl->ref_dir = realpath(opt.init, NULL);
        if (!rl->ref_dir) die("%s:", opt.init);
    }
    rl->ref = r->lora ? r->m : ckpt_model(rl->ref_dir, r->ops, 0);  /* without the adapter */
    rl->ref_hash = r->lora ? r->base_hash : model_hash(rl->ref);
    if (opt.resume && rl->ref_hash != was)
        die("%s: not the weights any more that the run in %s began with, which --kl needs",
            rl->ref_dir, opt.out);
}

void rl_begin(Run *r)
{
    Rl *rl = r->rl;
    size_t N = size_mul((size_t)r->plan.B, (size_t)r->plan.T);
    if (opt.kl > 0) open_reference(r);
    run_batch(r);
    rl->wt = xreallocarray(NULL, N, sizeof *rl->wt);
    r->gen = gen_new(r->m);
    rl->judge = judge_open(r->tok, rl->chat, opt.resume ? r->st.step : -1);
}

void rl_free(Run *r)
{
    Rl *rl = r->rl;
    if (!rl) return;
    judge_close(rl->judge);
    if (rl->ref && rl->ref != r->m) model_free(rl->ref);
    chat_free(rl->chat);
    tokenc_free(rl->enc);
    prompts_free(&rl->train);
    prompts_free(&rl->val);
    free(rl->ref_dir);
    free(rl->stop);
    free(rl->wt);
    free(rl);
}
