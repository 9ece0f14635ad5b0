/* llama.h -- the Llama family's configuration: what llama_config.c and llama_rope.c give
 * to llama.c, and presets.
 *
 * Variants go by model_type: "llama" (no QK norm), "qwen3" and "minimind" (RMSNorm with gains on
 * every head of q and k), "qwen3_moe" (that with experts). Keys are those of Hugging Face's
 * config.json, and what is written loads there. */
#ifndef GPT_LLAMA_H
#define GPT_LLAMA_H
#include "gpt/model.h"

const char *llama_check(const Config *c);
const char *llama_parse(Config *c, const Json *j);
void llama_json(const Config *c, Buf *b);
/* llama_rope.c: rope_theta and rope_scaling, also as rope_parameters, which newer files have. */
const char *rope_parse(Config *c, const Json *j, int minimind);
void rope_json(const Config *c, Buf *b);
double llama_rotary(const Config *c, double *freq);
/* "tutorial", "minimind", "minimind-moe": 1 if there is one of that name. */
int llama_preset(Config *c, const char *name);

#endif
