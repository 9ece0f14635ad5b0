/* torchfile.h -- what nanochat's own programs read: files as torch.save() writes them, and its
 * tokenizer, a pickled tiktoken Encoding.
 *
 * A file of torch.save() is a ZIP archive without compression: data.pkl, a pickle (protocol 2) of
 * the tensors' names, types and shapes, and data/0, data/1, ... with their numbers, little-endian.
 * A failed write dies. */
#ifndef GPT_TORCHFILE_H
#define GPT_TORCHFILE_H
#include "base/io.h"
#include "gpt/model.h"
#include "text/tok.h"

void torch_model(const Model *m, Out *o);       /* all parameters by name, fp32 */
void torch_i32(const int32_t *x, int n, Out *o);        /* one tensor [n] */
/* Dies "NAME: why" if tiktoken cannot merge as t does. */
void torch_tokenizer(const Tok *t, const char *name, Out *o);

#endif
