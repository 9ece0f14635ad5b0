#include "options.h"
#include "base/err.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

Options opt = {
    .depth = 12, .aspect_ratio = 64, .head_dim = 128, .vocab = 32768, .window = "SSSL",
    .shuffle = "0", .ratio = 12, .save_every = 1000, .eval_every = 250,
    .embedding_lr = 0.3, .unembedding_lr = 0.008, .matrix_lr = 0.02, .scalar_lr = 0.5,
    .lr_scale = 1, .schedule = "nanochat", .weight_decay = 0.28, .warmup = 40, .warmdown = 0.65, .final_lr = 0.05,
    .device = "auto", .dtype = "auto",
};

#define MAX_STEPS 1e15          /* products with tokens stay far inside 63 bits */

static const Opt table[] = {
    OPT_HEAD("Model"),
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
    OPT_FLAG(0, "sft", &opt.sft,
             "fine-tune --init DIR on conversations: see the manual for what this sets"),
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
    OPT_STR(0, "status", &opt.status, "DIR", "tell of the run in DIR, running or not"),
    OPT_FLAG(0, "json", &opt.json, "with --dry-run or --status: as one JSON object"),
    OPT_HEAD("Optimizer"),
    OPT_FLOAT(0, "embedding-lr", &opt.embedding_lr, "X", 0, 1e6,
              "AdamW rate of token and value embeddings"),
    OPT_FLOAT(0, "unembedding-lr", &opt.unembedding_lr, "X", 0, 1e6, "AdamW rate of lm_head"),
    OPT_FLOAT(0, "matrix-lr", &opt.matrix_lr, "X", 0, 1e6, "Muon rate of the blocks' matrices"),
    OPT_FLOAT(0, "scalar-lr", &opt.scalar_lr, "X", 0, 1e6, "AdamW rate of the residual scalars"),
    OPT_FLOAT(0, "lr-scale", &opt.lr_scale, "X", 0, 1e6, "multiplies every rate"),
    OPT_FLOAT(0, "weight-decay", &opt.weight_decay, "X", 0, 1e6,
              "Muon's cautious decay, before scaling"),
    OPT_CHOICE(0, "schedule", &opt.schedule, "nanochat|cosine|constant|sft",
               "how the rates go after the warm-up"),
    OPT_LONG(0, "warmup-steps", &opt.warmup, "N", 0, MAX_STEPS, "steps of linear warm-up"),
    OPT_FLOAT(0, "warmdown-ratio", &opt.warmdown, "X", 0, 1,
              "part of the run that nanochat's linear warm-down takes"),
    OPT_FLOAT(0, "final-lr-frac", &opt.final_lr, "X", 0, 1,
              "rate at the end, as a part of the full one"),
    OPT_FLOAT(0, "clip-norm", &opt.clip_norm, "X", 0, 1e6,
              "scale a gradient whose norm is larger down to X; 0: do not"),
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
    OPT_CHOICE(0, "dtype", &opt.dtype, "auto|fp32|bf16", "number type of activations"),
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

void options_parse(int argc, char **argv)
{
    int n = opt_parse(argc, argv,
                      "--depth N -t TOK --train ROWS [--val ROWS] -o DIR [options]\n"
                      "--sft --init DIR --train ROWS [--val ROWS] -o DIR [options]\n"
                      "--resume -o DIR [options]\n"
                      "--dry-run --depth N [options]\n"
                      "--status DIR",
                      "Train a GPT on rows of tokens; one JSON object per step on stdout.", table);
    if (n) die_usage("unexpected operand '%s' (shards go to --train)", argv[1]);
    uint64_t seed;
    options_shuffle(&seed);
    both("resume", "init", "give one: --init starts a new run");
    both("resume", "force", "give one: --force starts a new run");
    one_horizon();
    if (opt.json && !opt.dry_run && !opt.status)
        die_usage("--json: only with --dry-run or --status");
    if (opt.sft && !opt.resume) sft_defaults();
    if (opt.fresh_optimizer && !opt.sft) die_usage("--fresh-optimizer: only with --sft");
    options_agree();
    if (opt.metrics && !*opt.metrics) die_usage("--metrics: an empty name");
    if (opt_given("vocab-size") && (opt.tok || !opt.dry_run))
        die_usage("--vocab-size: only with --dry-run and without a tokenizer");
    if (opt.dry_run && opt.resume)
        die_usage("--dry-run and --resume: a saved run has its plan already");
    if (opt.dry_run || opt.status) return;
    if (!opt.out || !*opt.out) die_usage("no output: give -o DIR");
    if (opt.resume) return;
    if (!opt.train.n) die_usage("nothing to train on: give --train ROWS");
    if (!opt.tok && !opt.init)
        die_usage("no tokenizer: give -t FILE, the one that made the shards");
}
