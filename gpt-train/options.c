#include "options.h"
#include "base/err.h"
#include "gpt/lora.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

Options opt = {
    .depth = 12, .aspect_ratio = 64, .head_dim = 128, .vocab = 32768, .window = "SSSL",
    .shuffle = "0", .ratio = 12, .save_every = 1000, .eval_every = 250,
    .embedding_lr = 0.3, .unembedding_lr = 0.008, .matrix_lr = 0.02, .scalar_lr = 0.5,
    .lr_scale = 1, .optimizer = "muon", .lr = 3e-4, .beta1 = 0.9, .beta2 = 0.999, .adam_eps = 1e-8,
    .schedule = "nanochat", .weight_decay = 0.28, .warmup = 40, .warmdown = 0.65, .final_lr = 0.05,
    .device = "auto", .dtype = "auto", .dropout = -1,
    .ranks = 1, .norm = "token", .reward_timeout = 60, .temperature = 1, .clip = 0.2, .advantage_eps = 1e-8,
    .examples = 16, .samples = 16, .max_tokens = 256, .top_k = 50, .grpo_epochs = 4,
    .eval_prompts = 400, .eval_samples = 1,
};

#define MAX_STEPS 1e15          /* products with tokens stay far inside 63 bits */

static const Opt table[] = {
    OPT_HEAD("Model"),
    OPT_STR(0, "model", &opt.model, "NAME|FILE",
            "a Llama-like model: tutorial, minimind, minimind-moe, or a config.json"),
    OPT_INT(0, "depth", &opt.depth, "N", 1, 4096,
            "layers; the one dial that sets width, heads, batch and steps"),
    OPT_INT(0, "aspect-ratio", &opt.aspect_ratio, "N", 1, 65536,
            "width per layer, before rounding up to whole heads"),
    OPT_INT(0, "head-dim", &opt.head_dim, "N", 2, 65536, "size of a head"),
    OPT_INT('T', "max-seq-len", &opt.T, "N", 0, 1 << 24,
            "context in tokens; 0: that of the shards"),
    OPT_STR(0, "window-pattern", &opt.window, "SL",
            "attention windows, tiled over the layers: S a quarter, L all"),
    OPT_STR('t', "tokenizer", &opt.tok, "FILE", "tokenizer that the shards were made with"),
    OPT_INT(0, "vocab-size", &opt.vocab, "N", 1, 1 << 24, "only for --dry-run without a tokenizer"),
    OPT_STR(0, "init", &opt.init, "DIR", "a new run from the weights of model directory DIR"),
    OPT_STR(0, "lora", &opt.lora, "SPEC",
            "train a low-rank adapter of --init DIR alone: r=8,alpha=16,targets=q,v (or all)"),
    OPT_STR(0, "adapter", &opt.adapter, "DIR", "go on with the adapter in DIR, of --init DIR"),
    OPT_FLAG(0, "merge", &opt.merge,
             "train nothing: write the model of --init with --adapter in its weights"),
    OPT_FLAG(0, "sft", &opt.sft,
             "fine-tune --init DIR on conversations: see the manual for what this sets"),
    OPT_STR(0, "rl", &opt.rl, "PROMPTS",
            "reinforce --init DIR: answers to the prompts of a JSON Lines file, scored by --reward"),
    OPT_FLAG(0, "fresh-optimizer", &opt.fresh_optimizer,
             "with --sft: do not go on with the optimizer's buffers of DIR"),
    OPT_HEAD("Data"),
    OPT_LIST(0, "train", &opt.train, "ROWS",
             "row shard, pattern or directory to train on; repeatable"),
    OPT_LIST(0, "val", &opt.val, "ROWS", "the same, to evaluate bits per byte on"),
    OPT_STR(0, "shuffle", &opt.shuffle, "SEED|none",
            "random order of the rows, another one each epoch; none: as they lie"),
    OPT_FLAG(0, "doc-mask", &opt.doc_mask,
             "documents in a row do not see each other, their positions start at 0"),
    OPT_FLAG(0, "rescan", &opt.rescan, "take shards that appear later in, at the next epoch"),
    OPT_FLAG(0, "verify", &opt.verify,
             "check the shards' hashes before the run, not in the background"),
    OPT_HEAD("Run"),
    OPT_STR('o', "output", &opt.out, "DIR", "model directory to write"),
    OPT_FLAG(0, "resume", &opt.resume, "go on with the run saved in the output directory"),
    OPT_FLAG(0, "force", &opt.force, "overwrite a model that is there"),
    OPT_LONG(0, "steps", &opt.steps, "N", 0, MAX_STEPS,
             "optimizer steps; 0: by another horizon, or --ratio"),
    OPT_FLOAT(0, "epochs", &opt.epochs, "X", 0, 1e9, "as many steps as take the data X times"),
    OPT_LONG(0, "tokens", &opt.tokens, "N", 0, 1e18, "as many steps as N tokens make"),
    OPT_FLOAT(0, "target-flops", &opt.target_flops, "X", 0, 1e40,
              "as many steps as X floating-point operations allow"),
    OPT_FLOAT(0, "hours", &opt.hours, "X", 0, 1e5,
              "as many steps as fit into X hours, planned from the speed of the first ones"),
    OPT_FLOAT(0, "ratio", &opt.ratio, "X", 1e-6, 1e6, "train on X tokens per scaling parameter"),
    OPT_INT('B', "device-batch-size", &opt.B, "ROWS", 0, 1 << 24,
            "rows per micro-batch; 0: about 8192 tokens"),
    OPT_LONG(0, "total-batch-size", &opt.total_batch, "TOKENS", 0, 1e12,
             "tokens per step; 0: from the depth"),
    OPT_LONG(0, "save-every", &opt.save_every, "N", 0, MAX_STEPS,
             "save every N steps besides at the end; 0: never"),
    OPT_INT(0, "keep", &opt.keep, "N", 0, 1000000,
            "keep the last N saves, as DIR/step-NNNNNN; 0: only the newest, DIR itself"),
    OPT_FLAG(0, "keep-best", &opt.keep_best, "keep the model of the best val_bpb, in DIR/best"),
    OPT_LONG(0, "stop-at", &opt.stop_at, "N", 0, MAX_STEPS,
             "stop and save after step N of the run; 0: do not"),
    OPT_FLAG(0, "dry-run", &opt.dry_run,
             "show parameters, memory, work and schedule; train nothing"),
    OPT_INT(0, "ranks", &opt.ranks, "N", 1, 65536,
            "with --dry-run: of one of N ranks; a run has as many as mpirun starts"),
    OPT_STR(0, "status", &opt.status, "DIR", "tell of the run in DIR, running or not"),
    OPT_STR(0, "export", &opt.export, "FORMAT",
            "write the model of --init DIR to -o as FORMAT, for other programs; see the manual"),
    OPT_FLAG(0, "json", &opt.json, "with --dry-run or --status: as one JSON object"),
    OPT_HEAD("Reinforcement learning (--rl)"),
    OPT_STR(0, "reward", &opt.reward, "CMD",
            "filter: for each answer a JSON object in, a number or null out, a line each"),
    OPT_FLOAT(0, "reward-timeout", &opt.reward_timeout, "S", 0.001, 1e6,
              "seconds that it may take for its next line"),
    OPT_INT(0, "examples", &opt.examples, "N", 1, 1 << 20, "prompts a step"),
    OPT_INT(0, "samples", &opt.samples, "N", 1, 1 << 16, "answers to each"),
    OPT_INT('n', "max-tokens", &opt.max_tokens, "N", 1, 1 << 24, "tokens of an answer, at most"),
    OPT_FLOAT(0, "temperature", &opt.temperature, "X", 1e-3, 1e6, "of the answers"),
    OPT_INT(0, "top-k", &opt.top_k, "N", 0, 1 << 24, "drawn from the N likeliest tokens; 0: all"),
    OPT_FLAG(0, "no-tools", &opt.no_tools, "no calculator answers the model's calls"),
    OPT_CHOICE(0, "norm", &opt.norm, "token|answer",
               "a group's loss: mean over its tokens, or over its answers of their tokens' means, "
               "which is --grpo's"),
    OPT_FLAG(0, "grpo", &opt.grpo,
             "advantages divided by the rewards' deviation, several clipped updates a step"),
    OPT_INT(0, "grpo-epochs", &opt.grpo_epochs, "N", 1, 1000, "updates a step of --grpo"),
    OPT_FLOAT(0, "clip", &opt.clip, "X", 0, 1e6, "--grpo: ratios beyond 1 - X, 1 + X; 0: none"),
    OPT_FLOAT(0, "kl", &opt.kl, "X", 0, 1e6,
              "weight of the divergence from the model of --init; 0: none"),
    OPT_FLOAT(0, "advantage-eps", &opt.advantage_eps, "X", 0, 1, "--grpo: added to the deviation"),
    OPT_LONG(0, "eval-prompts", &opt.eval_prompts, "N", 1, MAX_STEPS,
             "evaluate on the first N prompts of --val"),
    OPT_INT(0, "eval-samples", &opt.eval_samples, "N", 1, 1 << 16,
            "answers to each, for pass@1, 2, 4 ...; 1: the likeliest one"),
    OPT_STR(0, "log-rollouts", &opt.log_rollouts, "FILE", "every answer with its reward, to FILE"),
    OPT_HEAD("Optimizer"),
    OPT_CHOICE(0, "optimizer", &opt.optimizer, "muon|adamw",
               "Muon for matrices and AdamW for the rest, or AdamW for everything"),
    OPT_FLOAT(0, "lr", &opt.lr, "X", 0, 1e6, "adamw: the rate of everything"),
    OPT_FLOAT(0, "beta1", &opt.beta1, "X", 0, 0.9999999, "adamw: decay of the mean"),
    OPT_FLOAT(0, "beta2", &opt.beta2, "X", 0, 0.9999999, "adamw: decay of the mean square"),
    OPT_FLOAT(0, "adam-eps", &opt.adam_eps, "X", 0, 1, "adamw: added to the root"),
    OPT_FLOAT(0, "embedding-lr", &opt.embedding_lr, "X", 0, 1e6,
              "AdamW rate of token and value embeddings"),
    OPT_FLOAT(0, "unembedding-lr", &opt.unembedding_lr, "X", 0, 1e6, "AdamW rate of lm_head"),
    OPT_FLOAT(0, "matrix-lr", &opt.matrix_lr, "X", 0, 1e6, "Muon rate of the blocks' matrices"),
    OPT_FLOAT(0, "scalar-lr", &opt.scalar_lr, "X", 0, 1e6, "AdamW rate of the residual scalars"),
    OPT_FLOAT(0, "lr-scale", &opt.lr_scale, "X", 0, 1e6, "multiplies every rate"),
    OPT_FLOAT(0, "weight-decay", &opt.weight_decay, "X", 0, 1e6,
              "Muon's cautious decay, before scaling; adamw: that of everything, else 0.01"),
    OPT_CHOICE(0, "schedule", &opt.schedule, "nanochat|cosine|minimind|constant|sft",
               "how the rates go after the warm-up"),
    OPT_LONG(0, "warmup-steps", &opt.warmup, "N", 0, MAX_STEPS, "steps of linear warm-up"),
    OPT_FLOAT(0, "warmdown-ratio", &opt.warmdown, "X", 0, 1,
              "part of the run that nanochat's linear warm-down takes"),
    OPT_FLOAT(0, "final-lr-frac", &opt.final_lr, "X", 0, 1,
              "rate at the end, as a part of the full one"),
    OPT_FLOAT(0, "clip-norm", &opt.clip_norm, "X", 0, 1e6,
              "scale a gradient whose norm is larger down to X; 0: do not"),
    OPT_FLOAT(0, "dropout", &opt.dropout, "P", -1, 0.999,
              "drop embeddings and attention with probability P; -1: as the configuration has it"),
    OPT_FLOAT(0, "ema", &opt.ema, "X", 0, 0.9999999,
              "keep a running mean of the weights that decays by X per step; 0: do not"),
    OPT_LIST(0, "freeze", &opt.freeze, "PATTERN",
             "do not train tensors whose names match, e.g. '*.wte.*'; repeatable"),
    OPT_HEAD("Along the way"),
    OPT_LONG(0, "eval-every", &opt.eval_every, "N", 0, MAX_STEPS,
             "evaluate --val every N steps and at the end; 0: never"),
    OPT_LONG(0, "eval-tokens", &opt.eval_tokens, "N", 0, 1e15,
             "on N tokens of it; 0: on 8 steps' worth"),
    OPT_LONG(0, "sample-every", &opt.sample_every, "N", 0, MAX_STEPS,
             "show samples every N steps and at the end; 0: never"),
    OPT_LONG(0, "skip-nonfinite", &opt.skip_nonfinite, "N", 0, MAX_STEPS,
             "leave out up to N steps of the run whose loss or gradient is not finite"),
    OPT_LONG(0, "check-every", &opt.check_every, "N", 0, MAX_STEPS,
             "compute a micro-batch again in fp32 every N steps and compare; 0: never"),
    OPT_FLAG(0, "log-rows", &opt.log_rows, "which rows each step took, in its record"),
    OPT_LIST(0, "sample-prompt", &opt.prompts, "TEXT", "text that a sample continues; repeatable"),
    OPT_STR(0, "metrics", &opt.metrics, "FILE",
            "metrics to FILE instead of stdout; a resume goes on in it without gap or repeat"),
    OPT_HEAD("Machine"),
    OPT_INT('j', "threads", &opt.threads, "N", 0, 4096,
            "threads; 0: all there are. Results do not depend on it"),
    OPT_STR('d', "device", &opt.device, "NAME", "auto, cpu, cuda or cuda:N"),
    OPT_CHOICE(0, "dtype", &opt.dtype, "auto|fp32|bf16|fp8",
               "number type of activations; fp8: bf16, and linear maps in eight bits while training"),
    OPT_FLAG(0, "recompute", &opt.recompute,
             "keep the inputs of layers only: less memory, a third more work, the same bits"),
    OPT_FLOAT(0, "peak-flops", &opt.peak_flops, "X", 0, 1e30,
              "what the machine can do in a second, to report a share of"),
    OPT_LONG('s', "seed", &opt.seed, "N", 0, 9007199254740992.0, "seed of the initial weights"),
    OPT_END
};

const Opt *options_find(const char *name)
{
    for (const Opt *o = table; o->kind != O_END; o++)
        if (o->kind != O_HEAD && !strcmp(o->name, name)) return o;
    abort();
}

static void one_horizon(void)
{
    static const char *const name[] = { "steps", "epochs", "tokens", "target-flops", "hours" };
    const char *first = NULL;
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        if (!opt_given(name[i])) continue;
        if (first) die_usage("--%s and --%s: give one horizon", first, name[i]);
        first = name[i];
    }
}

/* What fine-tuning is in nanochat, as far as the command line does not say otherwise. */
static void sft_defaults(void)
{
    if (!opt.init) die_usage("--sft: from which model? give --init DIR");
    if (!opt_given("schedule")) opt.schedule = "sft";
    if (!opt_given("lr-scale")) opt.lr_scale = 0.8;
    if (!opt_given("weight-decay")) opt.weight_decay = 0;
    if (!opt_given("warmup-steps")) opt.warmup = 0;
    if (!opt_given("warmdown-ratio")) opt.warmdown = 0.5;
    if (!opt_given("final-lr-frac")) opt.final_lr = 0;
    if (!opt_given("steps") && !opt_given("epochs") && !opt_given("tokens") &&
        !opt_given("target-flops") && !opt_given("hours"))
        opt.epochs = 1;
}

/* What reinforcement learning is in nanochat; rates fall linearly to 0. */
static void rl_defaults(void)
{
    static const char *const other[] = { "train", "tokens", "target-flops", "hours", "doc-mask",
        "rescan", "shuffle", "verify", "log-rows", "total-batch-size", "sft", "sample-every",
        "skip-nonfinite" };
    if (!opt.init) die_usage("--rl: which model? give --init DIR");
    if (!opt.reward) die_usage("--rl: who scores the answers? give --reward CMD");
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (opt_given(other[i])) die_usage("--%s: not with --rl", other[i]);
    if (!strcmp(opt.dtype, "fp8"))
        die_usage("--dtype fp8: not with --rl, whose answers are drawn in bf16");
    if (!opt_given("schedule")) opt.schedule = "nanochat";
    if (!opt_given("lr-scale")) opt.lr_scale = 0.05;
    if (!opt_given("weight-decay")) opt.weight_decay = 0;
    if (!opt_given("warmup-steps")) opt.warmup = 0;
    if (!opt_given("warmdown-ratio")) opt.warmdown = 1;
    if (!opt_given("final-lr-frac")) opt.final_lr = 0;
    if (!opt_given("eval-every")) opt.eval_every = 60;
    if (!opt_given("norm") && opt.grpo) opt.norm = "answer";
    if (!opt_given("save-every")) opt.save_every = 60;
    if (!opt_given("steps") && !opt_given("epochs")) opt.epochs = 1;
}

static void only_rl(void)
{
    static const char *const name[] = { "reward", "reward-timeout", "examples", "samples",
        "max-tokens", "temperature", "top-k", "no-tools", "norm", "grpo", "grpo-epochs", "clip",
        "kl", "advantage-eps", "eval-prompts", "eval-samples", "log-rollouts" };
    static const char *const grpo[] = { "grpo-epochs", "clip", "advantage-eps" };
    for (size_t i = 0; !opt.rl && i < sizeof name / sizeof *name; i++)
        if (opt_given(name[i])) die_usage("--%s: only with --rl", name[i]);
    for (size_t i = 0; !opt.grpo && i < sizeof grpo / sizeof *grpo; i++)
        if (opt_given(grpo[i])) die_usage("--%s: only with --grpo", grpo[i]);
    if (opt.log_rollouts && !*opt.log_rollouts) die_usage("--log-rollouts: an empty name");
}

/* Rates of the one optimizer are nothing to the other. */
static void optimizer_defaults(void)
{
    static const char *const muon[] = { "embedding-lr", "unembedding-lr", "matrix-lr",
                                        "scalar-lr" };
    static const char *const adamw[] = { "lr", "beta1", "beta2", "adam-eps" };
    int is_adamw = !strcmp(opt.optimizer, "adamw");
    for (size_t i = 0; i < 4; i++) {
        const char *name = is_adamw ? muon[i] : adamw[i];
        if (opt_given(name) && !opt.resume)
            die_usage("--%s: not with --optimizer %s", name, opt.optimizer);
    }
    if (is_adamw && !opt_given("weight-decay")) opt.weight_decay = 0.01;
}

/* The base's rates are nothing to an adapter: AdamW's default is. */
static void lora_defaults(void)
{
    static const char *const not[] = { "freeze", "ema", "fresh-optimizer" };
    if (opt.lora && opt.adapter) die_usage("--lora and --adapter: give one");
    if (!opt.init && !opt.dry_run)
        die_usage("--%s: of which model? give --init DIR", opt.lora ? "lora" : "adapter");
    for (size_t i = 0; i < sizeof not / sizeof *not; i++)
        if (opt_given(not[i])) die_usage("--%s: not with an adapter", not[i]);
    if (!opt_given("optimizer")) opt.optimizer = "adamw";
    if (!opt.lora) return;
    LoraSpec s;
    const char *bad = lora_parse(&s, opt.lora);
    if (bad) die_usage("--lora: %s", bad);
    lora_spec_free(&s);
}

static void merge_alone(void)
{
    static const char *const not[] = { "train", "val", "sft", "rl", "resume", "lora", "dry-run" };
    if (!opt.init || !opt.adapter) die_usage("--merge: give --init DIR and --adapter DIR");
    for (size_t i = 0; i < sizeof not / sizeof *not; i++)
        if (opt_given(not[i])) die_usage("--merge: not with --%s", not[i]);
}

/* The dial and its options are nanochat's. */
static void model_alone(void)
{
    static const char *const dial[] = { "depth", "aspect-ratio", "head-dim", "window-pattern",
                                        "init", "resume" };
    for (size_t i = 0; opt.model && i < sizeof dial / sizeof *dial; i++)
        if (opt_given(dial[i])) die_usage("--model and --%s: give one", dial[i]);
}

static void both(const char *a, const char *b, const char *why)
{
    if (opt_given(a) && opt_given(b)) die_usage("--%s and --%s: %s", a, b, why);
}

int options_shuffle(uint64_t *seed)
{
    char *end;
    if (!strcmp(opt.shuffle, "none")) return 0;
    errno = 0;
    *seed = strtoull(opt.shuffle, &end, 10);
    if (errno || *end || opt.shuffle[0] < '0' || opt.shuffle[0] > '9')
        die_usage("--shuffle: '%s' is neither a number nor none", opt.shuffle);
    return 1;
}

void options_agree(void)
{
    if (opt.epochs > 0 && opt.rescan)
        die_usage("--rescan: not with a horizon in epochs, which new shards would move");
}

static void export_options(void)
{
    static const char *const no[] = { "train", "val", "sft", "rl", "tokenizer", "dtype", "device" };
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (opt_given(no[i])) die_usage("--%s: not with --export", no[i]);
    if (!opt.init) die_usage("--export: which model? give --init DIR");
    if (!opt.out || !*opt.out) die_usage("--export: no output: give -o");
}

void options_parse(int argc, char **argv)
{
    int n = opt_parse(argc, argv,
                      "--depth N -t TOK --train ROWS [--val ROWS] -o DIR [options]\n"
                      "--model NAME|FILE -t TOK --train ROWS [--val ROWS] -o DIR [options]\n"
                      "--sft --init DIR --train ROWS [--val ROWS] -o DIR [options]\n"
                      "--lora SPEC --init DIR --train ROWS -o DIR [options]\n"
                      "--merge --init DIR --adapter DIR -o DIR\n"
                      "--rl PROMPTS --reward CMD --init DIR [--val PROMPTS] -o DIR [options]\n"
                      "--resume -o DIR [options]\n"
                      "--dry-run --depth N [options]\n"
                      "--status DIR\n"
                      "--export FORMAT --init DIR -o DIR|FILE",
                      "Train a GPT on rows of tokens; one JSON object per step on stdout.", table);
    if (n) die_usage("unexpected operand '%s' (shards go to --train)", argv[1]);
    uint64_t seed;
    options_shuffle(&seed);
    both("resume", "init", "give one: --init starts a new run");
    both("resume", "force", "give one: --force starts a new run");
    one_horizon();
    if (opt.merge) merge_alone();
    if ((opt.lora || opt.adapter) && !opt.resume) lora_defaults();
    if (opt.resume && opt.adapter) die_usage("--resume and --adapter: give one");
    optimizer_defaults();
    model_alone();
    if (opt.json && !opt.dry_run && !opt.status)
        die_usage("--json: only with --dry-run or --status");
    if (opt.sft && !opt.resume) sft_defaults();
    if (opt.rl && !opt.resume) rl_defaults();
    if (!opt.resume) only_rl();
    if (opt.fresh_optimizer && !opt.sft) die_usage("--fresh-optimizer: only with --sft");
    options_agree();
    if (opt.metrics && !*opt.metrics) die_usage("--metrics: an empty name");
    if (opt_given("vocab-size") && (opt.tok || !opt.dry_run))
        die_usage("--vocab-size: only with --dry-run and without a tokenizer");
    if (opt_given("ranks") && !opt.dry_run)
        die_usage("--ranks: only with --dry-run; a run has as many as mpirun or srun starts");
    if (opt.dry_run && opt.resume)
        die_usage("--dry-run and --resume: a saved run has its plan already");
    if (opt.dry_run || opt.status) return;
    if (opt.export) {
        export_options();
        return;
    }
    if (!opt.out || !*opt.out) die_usage("no output: give -o DIR");
    if (opt.resume) return;
    if (!opt.train.n && !opt.rl && !opt.merge) die_usage("nothing to train on: give --train ROWS");
    if (!opt.tok && !opt.init)
        die_usage("no tokenizer: give -t FILE, the one that made the shards");
}
