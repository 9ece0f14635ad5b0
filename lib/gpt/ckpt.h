/* ckpt.h -- the model directory: model.safetensors, config.json, tokenizer.tok, state.json,
 * optimizer-0.safetensors. Format and commit protocol: pipegpt-model(5).
 *
 * A save writes every file as NAME.new, fsyncs them and the directory, and then renames a journal
 * (commit.json, listing the names) into place: from that instant the new checkpoint counts. Then
 * each NAME.new is renamed over NAME and the journal is removed. A kill at any instant leaves
 * either the old or the new checkpoint whole; readers look through the journal, the next writer
 * finishes it. Other files in the directory are never touched. */
#ifndef GPT_CKPT_H
#define GPT_CKPT_H
#include "gpt/optim.h"
#include "text/tok.h"

/* What a run needs to go on, besides tensors. Written to state.json as is. */
typedef struct CkptState { Buf json; } CkptState;

/* state_json: one JSON object, or NULL (no state.json, e.g. weights only). o NULL: no optimizer file.
 * tok_path: the tokenizer file whose bytes are copied. Returns 0, or -1 with the reason warned
 * (disk full ...) and the old checkpoint still whole. */
int ckpt_save(const char *dir, const Model *m, const Optim *o, const char *tok_path, const char *state_json);

/* Path (malloced) of the committed version of dir/name, through an unfinished journal. */
char *ckpt_path(const char *dir, const char *name);
int ckpt_exists(const char *dir);                       /* is there a model.safetensors? */
Config ckpt_config(const char *dir);                    /* dies if missing or bad: names file and reason */
Model *ckpt_model(const char *dir, const Ops *ops, int train);
void ckpt_optim(const char *dir, Optim *o);             /* loads the optimizer state; dies if there is none */
Json *ckpt_state(const char *dir, Arena *a);            /* NULL if there is no state.json */
Tok *ckpt_tok(const char *dir);

#endif
