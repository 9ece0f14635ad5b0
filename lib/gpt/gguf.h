/* gguf.h -- writing GGUF files, version 3, as ggml and llama.cpp read them: keys with values, then
 * tensors, all little-endian, tensors at multiples of 32 bytes.
 *
 *     Gguf *g = gguf_new();
 *     gguf_str(g, "general.architecture", "llama");
 *     gguf_strs(g, "tokenizer.ggml.tokens", n);       // then gguf_item() n times
 *     gguf_tensor(g, "output_norm.weight", NARROW_F32, 1, &C);
 *     gguf_begin(g, out);
 *     gguf_data(g, x, C);                             // of the tensors in their order, any split
 *     gguf_end(g);                                    // frees g; out stays open
 *
 * Keys before the first tensor, tensors before gguf_begin(). Shapes are ours, [rows, columns]: the
 * file has them the other way round. A failed write dies. */
#ifndef GPT_GGUF_H
#define GPT_GGUF_H
#include "base/io.h"
#include "gpt/narrow.h"

enum { GGUF_ALIGN = 32, GGUF_DIMS = 4 };
typedef struct Gguf Gguf;

Gguf *gguf_new(void);
void gguf_str(Gguf *g, const char *key, const char *value);
void gguf_u32(Gguf *g, const char *key, uint32_t value);
void gguf_f32(Gguf *g, const char *key, double value);
void gguf_bool(Gguf *g, const char *key, bool value);
void gguf_strs(Gguf *g, const char *key, uint64_t n);           /* an array; then its items */
void gguf_item(Gguf *g, const char *s, size_t n);
void gguf_i32s(Gguf *g, const char *key, const int32_t *v, uint64_t n);

/* Columns are a multiple of narrow_block(type). */
void gguf_tensor(Gguf *g, const char *name, Narrow type, int ndim, const int64_t *dim);
void gguf_begin(Gguf *g, Out *o);
void gguf_data(Gguf *g, const real *x, int64_t n);      /* whole blocks */
void gguf_end(Gguf *g);                                 /* all data must have come */

#endif
