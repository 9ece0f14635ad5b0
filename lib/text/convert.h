/* convert.h -- a tokenizer from one file format to another. The format of `in` is told by content,
 * that of `out` by its name: .tok, .tiktoken (ranks) or .json (Hugging Face). `pattern` is the
 * name of the way to split text that a rank file lacks, else NULL. Dies on what cannot be
 * converted. */
#ifndef TEXT_CONVERT_H
#define TEXT_CONVERT_H

void tok_convert(const char *in, const char *out, const char *pattern);

#endif
