/* gpt-train -- trains a GPT on row shards: options, what is there already, the plan, then run.c. */
#include "gpt/ckpt.h"
#include "gpt/ends.h"
#include "export_run.h"
#include "gpt/llama.h"
#include "options.h"
#include "rl.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static Arena keep;                      /* program: what came from state.json */

/* What there is must be what was asked for. Looked at before the inputs are read, so that a mistake
 * is told at once and leaves nothing behind, and once more under the lock. */
static void check_output(void)
{
    int model = ckpt_exists(opt.out), there = model || ckpt_is_lora(opt.out);
    if (model && (opt.adapter || opt.lora) && !opt.merge)
        die("%s: holds a model: an adapter needs a directory of its own", opt.out);
    if (there && !opt.resume && !opt.force)
        die("%s: holds a model already: go on with --resume, or overwrite it with --force",
            opt.out);
    if (!there && opt.resume) die("%s: nothing to resume: no model here", opt.out);
    struct stat st;
    const char *file[] = { opt.metrics, opt.log_rollouts }, *name[] = { "metrics", "log-rollouts" };
    for (int i = 0; i < 2; i++)
        if (file[i] && ckpt_owns(opt.out, file[i]))
            die_usage("--%s: %s: is a name of the checkpoint's own", name[i], file[i]);
    for (int i = 0; i < 2; i++)
        if (file[i] && !opt.resume && !opt.force && !stat(file[i], &st) && S_ISREG(st.st_mode) &&
            st.st_size > 0)
            die("%s: is there already: give --%s another name, or overwrite it with --force",
                file[i], name[i]);
}

/* What --force is to remove must not be what the run begins with. */
static void check_init(void)
{
    char *out = realpath(opt.out, NULL), *init = opt.init ? realpath(opt.init, NULL) : NULL;
    size_t n = out ? strlen(out) : 0;
    if (opt.force && out && init && !strncmp(init, out, n) && init[n] == '/')
        die("%s: --force would remove it with the run in %s: copy it elsewhere first", opt.init,
            opt.out);
    free(out);
    free(init);
}

/* Rank 0 has the lock for all. */
static void lock_output(void)
{
    if (is_first()) ckpt_lock(opt.out);
    comm_host()->barrier();
    check_output();
}

/* state.json of the run to resume; its options become ours. */
static const Json *open_state(char **file)
{
    *file = xasprintf("%s/state.json", opt.out);
    const Json *j = ckpt_state(opt.out, &keep);
    if (!j)
        die("%s: weights only, no state to resume: start a new run from them with --init %s",
            opt.out, opt.out);
    const Json *o = json_get(j, "options");
    if (!o || o->kind != J_OBJ) die("%s: 'options' is missing", *file);
    options_restore(o, *file, &keep);
    lora_base(j, *file, &keep);
    options_agree();
    return j;
}

const char *run_source(void) { return opt.resume && !opt.lora ? opt.out : opt.init; }

static Tok *open_tok(void)
{
    const char *from = run_source();
    if (!opt.tok) return ckpt_tok(from);
    io_reads(opt.tok);
    Tok *t = tok_load(opt.tok);
    if (from) {
        Tok *old = ckpt_tok(from);
        if (tok_hash(old) != tok_hash(t))
            die("%s: tokenizer %016" PRIx64 ", but that of %s is %016" PRIx64, opt.tok, tok_hash(t),
                from, tok_hash(old));
        tok_free(old);
    }
    return t;
}

/* A model that is there already: options on the command line must not say otherwise. */
static void same(const char *name, int given, int there, const char *dir)
{
    if (opt_given(name) && given != there)
        die_usage("--%s: %d, but the model in %s has %d", name, given, dir, there);
}

static Config config_from(const char *dir)
{
    Config c = ckpt_config(dir);
    same("depth", opt.depth, c.L, dir);
    same("head-dim", opt.head_dim, head_size(&c), dir);
    if (!c.family->shorter) same("max-seq-len", opt.T, c.T, dir);
    if (opt_given("window-pattern") && strcmp(opt.window, c.window))
        die_usage("--window-pattern: %s, but the model in %s has %s", opt.window, dir, c.window);
    opt.depth = c.L;
    opt.head_dim = head_size(&c);
    if (c.family != &nanochat_family) return c;
    Config dial = config_depth(c.L, opt.aspect_ratio, opt.head_dim, c.T, c.V, c.window);
    if (dial.C != c.C) {
        if (opt_given("aspect-ratio"))
            die_usage("--aspect-ratio: %d makes %d channels, but the model in %s has %d",
                      opt.aspect_ratio, dial.C, dir, c.C);
        opt.aspect_ratio = c.C > c.L ? c.C / c.L : 1;
    }
    return c;
}

/* A preset, which takes any vocabulary and any rows up to its context, or a config.json. V 0: there
 * is no tokenizer to ask. */
static Config named_model(int V)
{
    Config c;
    if (llama_preset(&c, opt.model)) {
        if (V) c.V = c.Vp = V;
        return c;
    }
    if (access(opt.model, F_OK) && !strchr(opt.model, '/') && !strchr(opt.model, '.'))
        die_usage("--model: '%s' is neither tutorial, minimind, minimind-moe nor a file",
                  opt.model);
    c = config_file(opt.model);
    if (V && c.V < V)
        die("%s: vocab_size is %d, but the tokenizer has %d tokens", opt.model, c.V, V);
    return c;
}

/* --dropout: of a run from --init, too, or of an adapter's, whose model has another. */
static Config with_dropout(Config c)
{
    if (opt.dropout < 0) return c;
    if (c.family != &llama_family && opt.dropout > 0)
        die_usage("--dropout: the %s family has none", c.family->name);
    c.llama.dropout = c.llama.attn_dropout = opt.dropout;
    return c;
}

static Config find_config(const Data *train, int V)
{
    if (run_source()) return config_from(run_source());
    if (train && opt.T && (uint32_t)opt.T != train->head.T)
        die("%s: rows of T %" PRIu32 ", but --max-seq-len is %d", train->path[0], train->head.T,
            opt.T);
    if (train && train->head.T > 1 << 24)
        die("%s: rows of T %" PRIu32 " are too long", train->path[0], train->head.T);
    if (opt.model) return named_model(V);
    int T = train ? (int)train->head.T : opt.T ? opt.T : 2048;
    return config_depth(opt.depth, opt.aspect_ratio, opt.head_dim, T, V ? V : opt.vocab, opt.window);
}

static Config choose_config(const Data *train, int V)
{
    return with_dropout(find_config(train, V));
}

/* Tokens of a row: the model's context, or what the rows have where they may be shorter. */
static int row_length(const Data *train, const Config *c)
{
    if (!c->family->shorter) return c->T;
    int64_t T = train ? (int64_t)train->head.T : opt.T ? opt.T : c->T < 2048 ? c->T : 2048;
    if (T > c->T) {
        if (train) die("%s: rows of T %" PRId64 " exceed the model's context of %d",
                       train->path[0], T, c->T);
        die_usage("--max-seq-len: %" PRId64 " exceeds the model's context of %d", T, c->T);
    }
    return (int)T;
}

static void say_work(const Plan *p, uint64_t rows)
{
    char ranks[32] = "";
    if (opt.ranks > 1) snprintf(ranks, sizeof ranks, "%d ranks x ", opt.ranks);
    note(1, "%" PRId64 " tokens a step (%s%" PRId64 " x %d rows); %" PRIu64
         " rows of data; %.2g GB of memory%s", p->a.total_batch, ranks, p->accum, p->B, rows,
         p->mem_total / 1e9, opt.ranks > 1 ? " a rank" : "");
    if (p->open)
        note(1, "as many steps as fit into %g hours: planned from the speed of the first ones",
             opt.hours);
    else
        note(1, "%" PRId64 " steps, %.3g epochs, %.2g FLOPs in all", p->a.steps,
             (double)p->a.steps * (double)p->rows / (double)rows,
             p->a.flops_per_token * (double)p->a.total_tokens);
}

static void say_plan(const Run *r)
{
    const Plan *p = &r->plan;
    int64_t active = config_active_params(&p->cfg);
    char part[48] = "";
    if (active != p->params)
        snprintf(part, sizeof part, " (%.1f M active)", (double)active / 1e6);
    note(1, "depth %d, width %d, %.1f M parameters%s, T %d; %s, %s", p->cfg.L, p->cfg.C,
         (double)p->params / 1e6, part, p->T, r->ops->name, r->ops->dtype);
    if (p->lora_params)
        note(1, "an adapter of %.3g M parameters for %d linear maps; the model is frozen",
             (double)p->lora_params / 1e6, p->lora_maps);
    if (r->rl)
        note(1, "%" PRId64 " steps of %d prompts with %d answers each; %zu prompts; %.2g GB of "
             "memory", p->a.steps, opt.examples, opt.samples, r->rl->train.n, p->mem_total / 1e9);
    else
        say_work(p, r->train->head.rows);
    double ram = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (!strncmp(r->ops->name, "cpu", 3) && p->mem_total > ram)
        warn("needs %.1f GB of memory; this machine has %.1f", p->mem_total / 1e9, ram / 1e9);
    if (opt.val.n == 0 && opt_given("eval-every")) warn("--eval-every: no --val to evaluate");
    if (opt.keep_best && !r->val && !opt.val.n) warn("--keep-best: no --val to tell which is best");
}

static void print(const Buf *b)
{
    Out *out = out_open("-", 0);
    out_write(out, b->s, b->n);
    out_close(out);
}

static void dry_run_rl(void)
{
    Run r = { .rl = rl_new(), .ops = ops_open(ranks_device(), opt.dtype, opt.threads) };
    Buf b = {0};
    opt.dtype = r.ops->dtype;
    r.tok = open_tok();
    inherit_rates(&keep);
    Config c = choose_config(NULL, tok_vocab(r.tok));
    rl_prepare(&r, &c);
    if (opt.json) {
        buf_char(&b, '{');
        rl_plan_json(&r, &b);
        buf_str(&b, ", \"options\": ");
        options_json(&b);
        buf_str(&b, "}\n");
    } else {
        rl_plan_text(&r, &b);
    }
    print(&b);
    buf_free(&b);
    rl_free(&r);
    tok_free(r.tok);
}

static void dry_run(void)
{
    Plan p;
    Tok *tok = opt.tok || opt.init ? open_tok() : NULL;
    Data *train = opt.train.n ? data_open(&opt.train) : NULL;
    int V = opt_given("vocab-size") ? opt.vocab : 0;
    if (tok) V = tok_vocab(tok);
    else if (train && !V) V = (int)train->head.vocab;
    Config c = choose_config(train, V);
    int T = row_length(train, &c);
    if (tok) ends_check(opt.init, tok, &c);
    if (train && tok) data_require(train, tok_hash(tok), V, T);
    if (opt.sft) inherit_rates(&keep);
    if (opt.sft && train) sft_require(train);
    plan_make(&p, &c, T, train ? train->head.rows : 0);
    opt.dtype = ops_open(ranks_device(), opt.dtype, opt.threads)->dtype;
    plan_count(&p);
    Buf b = {0};
    if (opt.json) {
        buf_char(&b, '{');
        plan_json(&p, train ? train->head.rows : 0, &b);
        buf_str(&b, ", \"options\": ");
        options_json(&b);
        buf_str(&b, "}\n");
    } else {
        plan_text(&p, train ? train->head.rows : 0, &b);
    }
    print(&b);
    buf_free(&b);
    data_free(train);
    if (tok) tok_free(tok);
}

static void open_data(Run *r, const Json *state, const char *file, int T)
{
    int V = tok_vocab(r->tok);
    data_require(r->train, tok_hash(r->tok), V, T);
    if (state) state_data(r->train, state, file);
    uint64_t seed;
    if (options_shuffle(&seed)) data_shuffle(r->train, seed);
    if (opt.val.n && opt.eval_every) {
        r->val = data_open(&opt.val);
        data_require(r->val, tok_hash(r->tok), V, T);
    }
    if (opt.doc_mask && r->train->head.bos == UINT32_MAX)
        die("%s: its tokenizer has no <|bos|>, by which --doc-mask finds documents",
            r->train->path[0]);
    if (!is_first()) return;
    if (opt.verify) data_verify(r->train);
    else data_watch(r->train, 0);
}

/* Weights and optimizer: from the run, from --init, or new. */
static void open_model(Run *r, const Json *state, const char *file)
{
    const char *from = run_source();
    if (from) {
        r->m = ckpt_model(from, r->ops, plan_model());
    } else {
        r->m = model_new(r->ops, &r->plan.cfg, plan_model());
        model_init(r->m, (uint64_t)opt.seed);
    }
    r->m->cfg.llama = r->plan.cfg.llama;        /* --dropout */
    r->m->dropping = !opt.rl;
    r->m->drop_seed = (uint64_t)opt.seed;
    int frozen = plan_freeze(r->m);
    if (frozen) note(1, "%d of %d tensors are frozen", frozen, r->m->nparam);
    r->trained = r->m;
    lora_open(r, state, file);
    OptimSettings os = r->plan.os;
    os.comm = r->comm;
    r->o = optim_new(r->trained, &os);
    optim_pool(r->o, &r->tape);
    if (opt.sft && !opt.resume && !r->lora) sft_warm(r);
    if (!opt.resume) return;
    ckpt_optim(opt.out, r->o);
    int64_t updates = r->rl ? r->rl->updates : state_updates(&r->st);
    if (r->o->t - r->st.warm != updates)
        die("%s/optimizer-0.safetensors: of step %" PRId64 ", but state.json is of step %" PRId64,
            opt.out, (int64_t)r->o->t - r->st.warm, updates);
}

static void close_run(Run *r)
{
    if (r->gen) gen_free(r->gen);
    rl_free(r);
    if (r->val) bpb_eval_free(&r->eval);
    micro_free(&r->micro);
    tape_free(&r->tape);
    optim_free(r->o);
    lora_free(r->lora);
    model_free(r->m);
    free(r->doc);
    free(r->x);
    free(r->y);
    data_free(r->train);
    data_free(r->val);
    tok_free(r->tok);
    buf_free(&r->line);
    buf_free(&r->shown);
    arena_free(&keep);
}

static void open_rows(Run *r, const Json *state, const char *file, const Config *c)
{
    int T = row_length(r->train, c);
    open_data(r, state, file, T);
    if (opt.sft) sft_require(r->train);
    if (opt.sft && !opt.resume) inherit_rates(&keep);
    plan_make(&r->plan, c, T, r->train->head.rows);
    plan_count(&r->plan);
}

static void open_prompts(Run *r, const Json *state, const char *file, const Config *c)
{
    if (!r->rl) r->rl = rl_new();
    if (!opt.resume) inherit_rates(&keep);
    rl_prepare(r, c);
    if (state) rl_state_check(r, state, file);
}

static int train(void)
{
    Run r = { .st = { .val_bpb = NAN, .best_bpb = NAN, .val_step = -1 }, .has_tok = opt.resume,
              .saved = -1 };
    char *file = NULL;
    const Json *state = NULL;
    signals_begin();
    options_keepable();
    ranks_options();
    check_output();
    check_init();
    if (opt.resume) {
        lock_output();
        state = open_state(&file);
        if (opt.rl) r.rl = rl_new(), rl_state_restore(&r, state, file);
        else state_restore(&r, state, file);
        char *clock = xasprintf("%s/clock.json", opt.out);
        clock_restore(&r, ckpt_clock(opt.out, &keep), clock);
        free(clock);
        r.saved = r.st.step;
    }
    r.ops = ops_open(ranks_device(), opt.dtype, opt.threads);
    r.comm = comm_device(r.ops);
    opt.dtype = r.ops->dtype;
    r.tok = open_tok();
    if (!opt.rl) r.train = data_open(&opt.train);
    Config c = choose_config(r.train, tok_vocab(r.tok));
    ends_check(run_source(), r.tok, &c);
    if (opt.rl) open_prompts(&r, state, file, &c);
    else open_rows(&r, state, file, &c);
    say_plan(&r);
    if (!opt.resume) lock_output();
    r.over = opt.force;
    open_model(&r, state, file);
    ranks_equal(&r);
    if (opt.rl) rl_begin(&r);
    else run_buffers(&r);
    mlog_open(&r.log, is_first() ? opt.metrics : "-", opt.resume ? r.st.step : -1);
    metrics_config(&r);
    run_keep_again(&r);
    int sig = opt.rl ? rl_loop(&r) : run_loop(&r);
    mlog_close(&r.log);
    int bad = r.log.failed || r.failed_saves || (opt.rl && judge_failed(r.rl->judge));
    if (r.failed_saves && is_first())
        note(0, "%s: %d saves failed on the way; the checkpoint of step %" PRId64 " is whole",
             opt.out, r.failed_saves, r.saved);
    close_run(&r);
    ckpt_unlock();
    free(file);
    return sig ? 128 + sig : bad;
}

int main(int argc, char **argv)
{
    ops_begin(argv);
    ops_advice = "fewer rows at a time (--device-batch-size) or --recompute take less";
    comm_begin();
    options_parse(argc, argv);
    lora_option(&keep);
    if (opt.merge || opt.dry_run || opt.status || opt.export) {
        if (!is_first()) return 0;
    } else {
        ranks_begin();
    }
    if (opt.merge) {
        check_output();
        lora_merge_run();
        return 0;
    }
    if (opt.dry_run) {
        if (opt.rl) dry_run_rl();
        else dry_run();
        return 0;
    }
    if (opt.status) {
        status_show(opt.status, opt.json);
        return 0;
    }
    if (opt.export) {
        export_run();
        return 0;
    }
    return train();
}
