#include "options.h"
#include "base/err.h"
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

Options opt = {
    .depth = 12, .aspect_ratio = 64, .head_dim = 128, .vocab = 32768, .window = "SSSL",
    .ratio = 12, .save_every = 1000, .eval_every = 250,
    .embedding_lr = 0.3, .unembedding_lr = 0.008, .matrix_lr = 0.02, .scalar_lr = 0.5,
    .weight_decay = 0.28, .warmup = 40, .warmdown = 0.65, .final_lr = 0.05,
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
    OPT_HEAD("Data"),
    OPT_LIST(0, "train", &opt.train, "ROWS",
             "row shard, pattern or directory to train on; repeatable"),
    OPT_LIST(0, "val", &opt.val, "ROWS", "the same, to evaluate bits per byte on"),
    OPT_HEAD("Run"),
    OPT_STR('o', "output", &opt.out, "DIR", "model directory to write"),
    OPT_FLAG(0, "resume", &opt.resume, "go on with the run saved in the output directory"),
    OPT_FLAG(0, "force", &opt.force, "overwrite a model that is there"),
    OPT_LONG(0, "steps", &opt.steps, "N", 0, MAX_STEPS,
             "optimizer steps; 0: by --target-flops or --ratio"),
    OPT_FLOAT(0, "target-flops", &opt.target_flops, "X", 0, 1e40,
              "as many steps as X floating-point operations allow"),
    OPT_FLOAT(0, "ratio", &opt.ratio, "X", 1e-6, 1e6, "train on X tokens per scaling parameter"),
    OPT_INT('B', "device-batch-size", &opt.B, "ROWS", 0, 1 << 24,
            "rows per micro-batch; 0: about 8192 tokens"),
    OPT_LONG(0, "total-batch-size", &opt.total_batch, "TOKENS", 0, 1e12,
             "tokens per step; 0: from the depth"),
    OPT_LONG(0, "save-every", &opt.save_every, "N", 0, MAX_STEPS,
             "save every N steps besides at the end; 0: never"),
    OPT_LONG(0, "stop-at", &opt.stop_at, "N", 0, MAX_STEPS,
             "stop and save after step N of the run; 0: do not"),
    OPT_FLAG(0, "dry-run", &opt.dry_run,
             "show parameters, memory, work and schedule; train nothing"),
    OPT_FLAG(0, "json", &opt.json, "with --dry-run: the plan as one JSON object"),
    OPT_HEAD("Optimizer"),
    OPT_FLOAT(0, "embedding-lr", &opt.embedding_lr, "X", 0, 1e6,
              "AdamW rate of token and value embeddings"),
    OPT_FLOAT(0, "unembedding-lr", &opt.unembedding_lr, "X", 0, 1e6, "AdamW rate of lm_head"),
    OPT_FLOAT(0, "matrix-lr", &opt.matrix_lr, "X", 0, 1e6, "Muon rate of the blocks' matrices"),
    OPT_FLOAT(0, "scalar-lr", &opt.scalar_lr, "X", 0, 1e6, "AdamW rate of the residual scalars"),
    OPT_FLOAT(0, "weight-decay", &opt.weight_decay, "X", 0, 1e6,
              "Muon's cautious decay, before scaling"),
    OPT_LONG(0, "warmup-steps", &opt.warmup, "N", 0, MAX_STEPS, "steps of linear warm-up"),
    OPT_FLOAT(0, "warmdown-ratio", &opt.warmdown, "X", 0, 1,
              "part of the run that the linear warm-down takes"),
    OPT_FLOAT(0, "final-lr-frac", &opt.final_lr, "X", 0, 1,
              "rate at the end, as a part of the full one"),
    OPT_HEAD("Along the way"),
    OPT_LONG(0, "eval-every", &opt.eval_every, "N", 0, MAX_STEPS,
             "evaluate --val every N steps and at the end; 0: never"),
    OPT_LONG(0, "eval-tokens", &opt.eval_tokens, "N", 0, 1e15,
             "on N tokens of it; 0: on 8 steps' worth"),
    OPT_LONG(0, "sample-every", &opt.sample_every, "N", 0, MAX_STEPS,
             "show samples every N steps and at the end; 0: never"),
    OPT_LIST(0, "sample-prompt", &opt.prompts, "TEXT", "text that a sample continues; repeatable"),
    OPT_HEAD("Machine"),
    OPT_INT('j', "threads", &opt.threads, "N", 0, 4096,
            "threads; 0: all there are. Results do not depend on it"),
    OPT_STR('d', "device", &opt.device, "NAME", "auto, cpu, cuda or cuda:N"),
    OPT_CHOICE(0, "dtype", &opt.dtype, "auto|fp32", "number type of activations"),
    OPT_LONG('s', "seed", &opt.seed, "N", 0, 9007199254740992.0, "seed of the initial weights"),
    OPT_END
};

/* What state.json keeps. soft: a resume may say otherwise. */
typedef struct Kept { const char *name; int soft; } Kept;
static const Kept kept[] = {
    { "depth", 0 }, { "aspect-ratio", 0 }, { "head-dim", 0 }, { "max-seq-len", 0 },
    { "window-pattern", 0 }, { "steps", 0 }, { "target-flops", 0 }, { "ratio", 0 },
    { "device-batch-size", 0 }, { "total-batch-size", 0 }, { "embedding-lr", 0 },
    { "unembedding-lr", 0 }, { "matrix-lr", 0 }, { "scalar-lr", 0 }, { "weight-decay", 0 },
    { "warmup-steps", 0 }, { "warmdown-ratio", 0 }, { "final-lr-frac", 0 }, { "dtype", 0 },
    { "seed", 0 }, { "train", 1 }, { "val", 1 }, { "save-every", 1 }, { "eval-every", 1 },
    { "eval-tokens", 1 }, { "sample-every", 1 }, { "sample-prompt", 1 },
};
enum { NKEPT = sizeof kept / sizeof *kept };

static const Opt *find(const char *name)
{
    for (const Opt *o = table; o->kind != O_END; o++)
        if (o->kind != O_HEAD && !strcmp(o->name, name)) return o;
    abort();
}

static void str_json(Buf *b, const char *s)
{
    if (s) json_str(b, s, strlen(s));
    else buf_str(b, "null");
}

static void value_json(Buf *b, const Opt *o)
{
    const StrList *l = o->to;
    switch (o->kind) {
    case O_INT: buf_printf(b, "%d", *(int *)o->to); break;
    case O_LONG: buf_printf(b, "%" PRId64, *(int64_t *)o->to); break;
    case O_FLOAT: json_num(b, *(double *)o->to); break;
    case O_STR: case O_CHOICE: str_json(b, *(const char **)o->to); break;
    case O_LIST:
        for (int i = 0; i < l->n; i++) {
            buf_str(b, i ? ", " : "[");
            str_json(b, l->s[i]);
        }
        buf_str(b, l->n ? "]" : "[]");
        break;
    default: abort();
    }
}

void options_json(Buf *b)
{
    for (int i = 0; i < NKEPT; i++) {
        buf_printf(b, "%s\"%s\": ", i ? ", " : "{", kept[i].name);
        value_json(b, find(kept[i].name));
    }
    buf_char(b, '}');
}

static int list_from(StrList *l, const Json *j, Arena *keep)
{
    const char **s = arena_alloc(keep, ((size_t)j->n + 1) * sizeof *s);
    int n = 0;
    for (const Json *e = j->child; e; e = e->next) {
        if (e->kind != J_STR || memchr(e->s, 0, e->len)) return 0;
        s[n++] = arena_strndup(keep, e->s, e->len);
    }
    *l = (StrList){ s, n };
    return 1;
}

/* The saved value into the option's variable; 0 if it has the wrong kind or range. */
static int value_from(const Opt *o, const Json *j, Arena *keep)
{
    int64_t x;
    if (!j) return 0;
    switch (o->kind) {
    case O_INT: case O_LONG:
        if (!json_int(j, &x) || (double)x < o->lo || (double)x > o->hi) return 0;
        if (o->kind == O_INT) *(int *)o->to = (int)x;
        else *(int64_t *)o->to = x;
        return 1;
    case O_FLOAT:
        if (j->kind != J_NUM || !(j->num >= o->lo && j->num <= o->hi)) return 0;
        *(double *)o->to = j->num;
        return 1;
    case O_STR: case O_CHOICE:
        if (j->kind != J_STR || memchr(j->s, 0, j->len)) return 0;
        *(const char **)o->to = arena_strndup(keep, j->s, j->len);
        return 1;
    case O_LIST: return j->kind == J_ARR && list_from(o->to, j, keep);
    default: return 0;
    }
}

void options_restore(const Json *saved, const char *file, Arena *keep)
{
    Buf want = {0}, have = {0};
    for (int i = 0; i < NKEPT; i++) {
        const Opt *o = find(kept[i].name);
        int given = opt_given(o->name);
        if (given && kept[i].soft) continue;
        buf_clear(&want);
        value_json(&want, o);
        if (!value_from(o, json_get(saved, o->name), keep))
            die("%s: options: '%s' is missing or not what it must be", file, o->name);
        buf_clear(&have);
        value_json(&have, o);
        if (given && strcmp(want.s, have.s) && strcmp(want.s, "\"auto\""))
            die_usage(
                "--%s: %s, but the run in %s has %s; leave it out, or start a new run with --init",
                o->name, want.s, file, have.s);
    }
    buf_free(&want);
    buf_free(&have);
}

static void both(const char *a, const char *b, const char *why)
{
    if (opt_given(a) && opt_given(b)) die_usage("--%s and --%s: %s", a, b, why);
}

void options_parse(int argc, char **argv)
{
    int n = opt_parse(argc, argv,
                      "--depth N -t TOK --train ROWS [--val ROWS] -o DIR [options]\n"
                      "--resume -o DIR [options]\n"
                      "--dry-run --depth N [options]",
                      "Train a GPT on rows of tokens; one JSON object per step on stdout.", table);
    if (n) die_usage("unexpected operand '%s' (shards go to --train)", argv[1]);
    both("resume", "init", "give one: --init starts a new run");
    both("resume", "force", "give one: --force starts a new run");
    both("steps", "target-flops", "give one horizon");
    if (opt.json && !opt.dry_run) die_usage("--json: only with --dry-run");
    if (opt_given("vocab-size") && (opt.tok || !opt.dry_run))
        die_usage("--vocab-size: only with --dry-run and without a tokenizer");
    if (opt.dry_run && opt.resume)
        die_usage("--dry-run and --resume: a saved run has its plan already");
    if (opt.dry_run) return;
    if (!opt.out || !*opt.out) die_usage("no output: give -o DIR");
    if (opt.resume) return;
    if (!opt.train.n) die_usage("nothing to train on: give --train ROWS");
    if (!opt.tok && !opt.init)
        die_usage("no tokenizer: give -t FILE, the one that made the shards");
}
