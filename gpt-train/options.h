/* options.h -- gpt-train's command line, and its record in state.json.
 *
 * Options that define a run (its geometry, schedule, data) are kept in state.json once the plan has
 * put numbers where "automatic" stood; a resumed run takes them from there, and refuses one on the
 * command line that says something else. */
#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H
#include "base/json.h"
#include "base/opt.h"

typedef struct Options {
    /* model */
    const char *model;                  /* preset or config.json; NULL: by the dial */
    int depth, aspect_ratio, head_dim;
    int T;                              /* 0: that of the shards */
    int vocab;                          /* only without a tokenizer */
    const char *window;
    const char *tok;
    /* data */
    StrList train, val;
    const char *shuffle;                /* a seed, or "none" */
    int rescan, verify, log_rows, doc_mask;
    /* run */
    const char *out, *init, *status, *export;
    const char *lora, *adapter;         /* NULL: all of the model is trained */
    int merge;
    int sft, fresh_optimizer;
    double epochs;                      /* 0: another horizon */
    int resume, force, dry_run, json;
    int64_t steps, tokens, stop_at, save_every;
    double target_flops, ratio, hours;
    int keep, keep_best;                /* checkpoints; flag */
    int B;                              /* 0: automatic */
    int ranks;                          /* 1, or as many as mpirun has started */
    int64_t total_batch;                /* tokens; 0: automatic */
    /* reinforcement learning */
    const char *rl, *reward, *norm, *log_rollouts;      /* rl NULL: training on rows */
    double reward_timeout, temperature, clip, kl, advantage_eps;
    int examples, samples, max_tokens, top_k, no_tools;
    int grpo, grpo_epochs, eval_samples;
    int64_t eval_prompts;
    /* optimizer */
    const char *optimizer;              /* muon, adamw */
    double lr, beta1, beta2, adam_eps;  /* adamw's */
    double embedding_lr, unembedding_lr, matrix_lr, scalar_lr, lr_scale;
    double weight_decay, warmdown, final_lr;
    const char *schedule;
    int64_t warmup;
    double clip_norm, ema;              /* 0: none */
    double dropout;                     /* -1: as the configuration has it */
    StrList freeze;
    /* along the way */
    int64_t eval_every, eval_tokens, sample_every;
    StrList prompts;
    int64_t skip_nonfinite, check_every;
    const char *metrics;                /* NULL: standard output */
    /* machine */
    int threads;
    const char *device, *dtype;
    double peak_flops;                  /* 0: not known */
    int recompute;
    int64_t seed;
} Options;

extern Options opt;

void options_parse(int argc, char **argv);      /* exit 2 if wrong, whatever the files hold */
void options_agree(void);       /* with each other, the restored ones too; exit 2 if not */
const Opt *options_find(const char *name);      /* the table's entry; name must be there */
int options_shuffle(uint64_t *seed);            /* 0: --shuffle none */

/* options_kept.c */
void options_keepable(void);                     /* dies if one could not be read back from there */
void options_json(Buf *b);                      /* those that define the run, as an object */
/* Rates and batch of another run, unless given here: saved is its object of options. */
void options_inherit(const Json *saved, const char *file, Arena *keep);
/* From state.json's object; those on the command line are checked against it (exit 2). file is for
 * messages. */
void options_restore(const Json *saved, const char *file, Arena *keep);

#endif
