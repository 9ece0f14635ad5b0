/* export.h -- models in the formats of other programs. What those cannot hold is refused by name:
 * dies "NAME: why". */
#ifndef GPT_EXPORT_H
#define GPT_EXPORT_H
#include "base/io.h"
#include "gpt/model.h"
#include "gpt/narrow.h"
#include "text/tok.h"

/* GGUF for llama.cpp, as llama, qwen3 or qwen3moe, with the tokenizer. Matrices are of the type
 * given (q8_0: fp16 where columns are not a multiple of 32), vectors and routers fp32. bos (-1:
 * none) and stop [tok_vocab] are as ends.h finds them. */
void export_gguf(const Model *m, const Tok *t, Narrow type, int bos, const unsigned char *stop,
                 const char *name, Out *o);

#endif
