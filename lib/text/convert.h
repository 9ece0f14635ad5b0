/* convert.h -- a tokenizer from one file format to another. */
#ifndef TEXT_CONVERT_H
#define TEXT_CONVERT_H
#include "text/tok.h"

/* The format of `in` is told by content, that of `out` by its name: .tok, .tiktoken (ranks) or
 * .json (Hugging Face). `pattern` is the name of the way to split text that a rank file lacks, else
 * NULL. Dies on what cannot be converted. */
void tok_convert(const char *in, const char *out, const char *pattern);

/* The text of a tokenizer.json, which puts the token bos before a text (-1: nothing); dies
 * "NAME: why" if this tokenizer cannot be said in it. */
void hf_print(const Tok *t, const char *name, int bos, Buf *b);

/* A rank file; dies likewise, if merging by rank is not how t merges. */
void tiktoken_print(const Tok *t, const char *name, Buf *b);

/* What byte-level formats of other programs have in common. Bytes are spelled as characters: those
 * printable in Latin-1 as themselves, the others, in their order, as U+0100 and up. */
void tok_spell(Buf *b, const char *s, size_t n);
/* The merges in their order; where they go by rank, every two tokens that make a third, in the
 * order of the third. */
void tok_each_merge(const Tok *t, void (*f)(void *arg, uint32_t a, uint32_t b), void *arg);

#endif
