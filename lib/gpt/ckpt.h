/* ckpt.h -- the model directory: model.safetensors, config.json, tokenizer.tok, state.json,
 * clock.json, optimizer-RANK.safetensors (0 for one rank) and, if a running mean is kept,
 * model-ema.safetensors; or, in place of a model, an adapter: adapter_model.safetensors and
 * adapter_config.json. Format and commit protocol: pipegpt-model(5).
 *
 * A save writes every file as NAME.new, fsyncs them and the directory, and then renames a journal
 * (commit.json, listing the names) into place: from that instant the new checkpoint counts. Then
 * each NAME.new is renamed over NAME and the journal is removed. A kill at any instant leaves
 * either the old or the new checkpoint whole; readers look through the journal, the next writer
 * finishes it. Other files in the directory are never touched.
 *
 * One process writes a directory at a time. A trainer takes ckpt_lock() before it reads what it
 * resumes from; a save without it takes the lock for as long as it lasts. Readers need no lock:
 * ckpt_model() reads configuration and weights of one checkpoint even while a trainer saves.
 *
 * Directories that Hugging Face's programs wrote are read as well: weights in several files
 * (weights.h), of F16, BF16 and other types (safetensors.h), tokenizer.json. */
#ifndef GPT_CKPT_H
#define GPT_CKPT_H
#include "gpt/lora.h"
#include "gpt/optim.h"
#include "text/tok.h"

/* Makes the directory (and its parents) if need be, finishes an interrupted commit, and keeps
 * other writers out until ckpt_unlock() or the end of the process. Dies if another holds it. One
 * directory at a time. */
void ckpt_lock(const char *dir);
void ckpt_unlock(void);
int ckpt_locked(const char *dir);           /* does a program hold it now? */

/* Of a run of several ranks (o->comm) all call this, the first under the lock: it writes all but
 * the others' optimizer-RANK.safetensors, and commits when those are whole; all get its answer.
 * state_json, clock_json: one JSON object each, or NULL. o NULL: no optimizer file. What is not
 * given is removed with the old checkpoint, so that all files belong together; only the tokenizer
 * stays if tok (a tokenizer file's bytes) is NULL. Returns 0, or -1 with the reason told (disk full
 * ...) and the old checkpoint still whole. */
int ckpt_save(const char *dir, const Model *m, const Optim *o, const Buf *tok,
              const char *state_json, const char *clock_json);
/* The same of a run that trains an adapter: adapter_model.safetensors and adapter_config.json, as
 * PEFT has them, in place of a model. base: the adapted model's directory; base_hash: of its
 * weights, as they are without the adapter. o: of l->p. */
int ckpt_save_lora(const char *dir, const Lora *l, const char *base, uint64_t base_hash,
                   const Optim *o, const char *state_json, const char *clock_json);
/* The checkpoint in dir under a second name, dir/step-NNNNNN: a model directory of its own, of hard
 * links (copies where there are none). Only when it is whole, all but the last n up to this step
 * are removed. A folder that holds anything else is nobody's business here: it is neither counted,
 * removed nor replaced. 0, or -1 with the reason told. Under ckpt_lock(dir). */
int ckpt_keep(const char *dir, int64_t step, int n);
int ckpt_kept(const char *dir, int64_t step);   /* in dir, or is dir itself that? */
/* Removes all of these, and dir/best: what they were kept of is to be overwritten. 0 or -1. */
int ckpt_forget(const char *dir);
#define CKPT_BEST "best"
#define CKPT_STATUS "status.json"           /* what a run says of itself, beside its checkpoint */
/* Would a file of that name be a checkpoint's or a run's own in dir, which is there? */
int ckpt_owns(const char *dir, const char *path);

/* Path (malloced) of the committed version of dir/name, through an unfinished journal; NULL if the
 * checkpoint has no such file. */
char *ckpt_path(const char *dir, const char *name);
int ckpt_exists(const char *dir);           /* is there a model.safetensors? */
int ckpt_is_lora(const char *dir);          /* is there an adapter_model.safetensors? */
Config config_file(const char *path);      /* a config.json of any name; dies if it is not sound */
Config ckpt_config(const char *dir);        /* dies if missing or bad: names file and reason */
enum { CKPT_TRAIN = MODEL_TRAIN, CKPT_MASTERS = MODEL_MASTERS,
       CKPT_EMA = 4 };                      /* the weights' running mean instead */
Model *ckpt_model(const char *dir, const Ops *ops, int how);
/* Rank, alpha and targets of the adapter in dir, ours or PEFT's. Dies if it is none, or has parts
 * that are not known here. lora_spec_free() */
LoraSpec ckpt_lora_spec(const char *dir);
/* That adapter, attached to m. Dies if it does not fit, or was merged into m already. *base_hash: of
 * the weights it was trained on, 0 if it does not say. */
Lora *ckpt_lora(const char *dir, Model *m, int train, uint64_t *base_hash);
/* The same, not for training; warns if m, of model_dir, has other weights than those. */
Lora *ckpt_lora_for(const char *dir, Model *m, const char *model_dir);
/* moments, step count, o->ema; dies if there are none. They may be of another number of ranks. */
void ckpt_optim(const char *dir, Optim *o);
Json *ckpt_state(const char *dir, Arena *a);            /* NULL if there is no state.json */
Json *ckpt_clock(const char *dir, Arena *a);            /* the same of clock.json */
/* tokenizer.tok, or if there is none tokenizer.json */
Tok *ckpt_tok(const char *dir);
char *ckpt_tok_path(const char *dir);       /* malloced */
/* The object in dir/name, a file beside the checkpoint's; NULL if there is none. */
Json *ckpt_json(const char *dir, const char *name, Arena *a);

/* For tests: what happens at the n-th step of the protocol (writes, fsyncs, renames ...). */
extern struct CkptFault { int kill_at, fail_at, steps; } ckpt_fault;    /* 0: nothing */

#endif
