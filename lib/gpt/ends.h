/* ends.h -- where a text begins and ends for the model of a directory: by nanochat's special tokens,
 * by config.json and generation_config.json (eos_token_id) and tokenizer_config.json (bos_token,
 * add_bos_token), as Hugging Face's programs keep it; and writing the latter, so that they find it
 * in our directories. */
#ifndef GPT_ENDS_H
#define GPT_ENDS_H
#include "gpt/ckpt.h"

/* Dies if the tokenizer cannot be that of the model in dir. It may have fewer tokens than a model of
 * the Llama family has rows: tables of embeddings are often rounded up. */
void ends_check(const char *dir, const Tok *t, const Config *c);
/* Sets stop[id], [V], for the tokens that end a text, and for ids that stand for none. dir NULL: there are no files. Dies if one
 * names an id that is not below V. */
void ends_stops(const char *dir, const Tok *t, int V, unsigned char *stop);
/* The id that stands before a text, or -1. Where the files say nothing, only models of type llama
 * have their bos_token there. */
int ends_bos(const char *dir, const Tok *t, const Config *c);

/* tokenizer.json, tokenizer_config.json and generation_config.json of a model of the Llama family,
 * each replaced when it is complete; stop is of the tokenizer's ids. A failed write dies. */
void ends_write(const char *dir, const Config *c, const Tok *t, int bos, const unsigned char *stop);

#endif
