/* split_other.h -- the pre-tokenizers of other families, as exact scanners like split.h's, and the
 * patterns by which files name them. Unicode 16.0; text must be valid UTF-8. Linear time, constant
 * stack. A pattern that is not one of those known here has no kind: nothing is guessed. */
#ifndef TEXT_SPLIT_OTHER_H
#define TEXT_SPLIT_OTHER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    SPLIT_NANOCHAT,         /* split.h */
    SPLIT_GPT2,             /* words, numbers, signs, each with the space before it */
    SPLIT_LLAMA3,           /* as nanochat's, but up to three digits */
    SPLIT_CL100K,           /* as Llama 3's, but white space that ends the text is one piece */
    SPLIT_QWEN2,            /* as Llama 3's, but digits one by one */
    SPLIT_WORDS,            /* runs of white space and of all else; see tok_words() */
    SPLIT_KINDS
} SplitKind;

/* End of the piece that begins at i, i < n; see split_next(). */
size_t split_kind_next(SplitKind kind, const char *s, size_t n, size_t i);
/* Many pieces at once; see split_ends(). Quick for all but words. */
size_t split_kind_ends(SplitKind kind, const char *s, size_t n, size_t i, uint32_t *ends,
                       size_t max);

/* The kind with this name ("gpt2", "qwen3", ...; words have none to be asked for) or of this
 * pattern; -1 if there is none. Of patterns with `portable`, only those that Oniguruma (Hugging
 * Face) reads the same way. */
int split_kind_named(const char *name);
int split_kind_of(const char *pattern, size_t n, bool portable);
const char *split_kind_name(SplitKind kind);
const char *split_kind_pattern(SplitKind kind);     /* a portable spelling, the one to write */
const char *split_kind_names(void);                 /* all names, for messages */

#endif
