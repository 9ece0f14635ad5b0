/* tok.h -- a trained tokenizer: its file, and encoding.
 *
 * Ids 0..255 are the bytes, then the merges in order, then the special tokens. A Tok is read-only
 * once made and may be shared by threads; each thread encodes with its own TokEnc.
 * tok_load() dies on a file that is not a whole, valid tokenizer: "FILE: why".
 * Format: pipegpt-tok(5). Encoding equals tiktoken's encode_ordinary for a vocabulary made by
 * merges (lowest rank first, leftmost on ties); n log n in the length of a piece. */
#ifndef TEXT_TOK_H
#define TEXT_TOK_H
#include "base/buf.h"
#include <stdbool.h>

typedef struct Tok Tok;

/* nanochat's nine, in id order */
enum { SP_BOS, SP_USER_START, SP_USER_END, SP_ASSISTANT_START, SP_ASSISTANT_END, SP_PYTHON_START,
       SP_PYTHON_END, SP_OUTPUT_START, SP_OUTPUT_END, SP_COUNT };
extern const char *const special_names[SP_COUNT];       /* "<|bos|>", ... */

/* What a file may ask for: expanded, merges can double n times. A trainer stops before these. */
#define TOK_MAX_MERGES (1 << 24)
#define TOK_MAX_LEN    (1 << 20)        /* bytes of one token */
#define TOK_MAX_BYTES  (1 << 28)        /* bytes of all tokens */

Tok *tok_load(const char *path);
/* Merge k makes id 256 + k of two smaller ids. Adds the nine specials; impossible merges die. */
Tok *tok_from_merges(const uint32_t (*pair)[2], size_t n);
void tok_save(const Tok *t, const char *path);                  /* atomic */
struct Out;
void tok_write(const Tok *t, struct Out *o);                    /* to an output that is open */
void tok_free(Tok *t);

int tok_vocab(const Tok *t);                    /* all ids, special ones included */
uint64_t tok_hash(const Tok *t);                /* XXH3 of the file's content: names it in data */
int tok_special(const Tok *t, int which);       /* id of SP_...; -1 if this tokenizer has none */
bool tok_is_special(const Tok *t, int id);
/* The bytes of id: raw bytes of an ordinary token, the name of a special one. id in range. */
const char *tok_bytes(const Tok *t, int id, size_t *len);
/* Bytes per id for bits-per-byte: raw length, 0 for special tokens. [tok_vocab] */
const int32_t *tok_byte_lengths(const Tok *t);
int tok_max_length(const Tok *t);               /* of an ordinary token, bytes */

size_t tok_merges(const Tok *t, const uint32_t (**pair)[2]);    /* how many; the pairs */
/* Merge of a and b: its id, or -1. Ordinary token with these bytes: its id, or -1. */
int tok_pair(const Tok *t, uint32_t a, uint32_t b);
int tok_find(const Tok *t, const char *s, size_t n);

typedef struct Ids { uint32_t *id; size_t n, cap; } Ids;        /* {0} is empty */
void ids_add(Ids *v, uint32_t id);
void ids_free(Ids *v);

typedef struct TokEnc TokEnc;
TokEnc *tokenc_new(const Tok *t);
void tokenc_free(TokEnc *e);
/* Append the ids of text s[0..n) to out: ordinary tokens only, whatever s says. Invalid UTF-8 is
 * repaired first (utf8.h); returns how many replacements that took. */
uint64_t tok_encode(TokEnc *e, const char *s, size_t n, Ids *out);

#endif
