/* tokens.h -- the token stream between tok-encode and pack-rows. Format: pipegpt-tokens(5).
 *
 * A stream is a header, blocks of documents (ids, and mask bits if the stream has masks), each with
 * its XXH3, and a trailer with counts and a hash over all. `cat` of two streams with equal headers
 * is a stream. A stream that ends before its trailer, or in which any byte was changed, dies naming
 * file and byte offset: a stage that died upstream is noticed. Streams made with different
 * tokenizers or widths cannot be mixed. Counts are 64-bit; memory is in proportion to the longest
 * document. */
#ifndef TEXT_TOKENS_H
#define TEXT_TOKENS_H
#include "base/io.h"
#include "text/tok.h"

typedef struct TokenHead {
    uint32_t vocab;             /* 1 .. 2^31-1; ids are < vocab, of 2 bytes up to 65,536, else 4 */
    uint32_t bos;               /* id of <|bos|>, or UINT32_MAX */
    bool masks;                 /* a loss-mask bit per token follows the ids */
    uint64_t tok_hash;          /* tok_hash() of the tokenizer */
} TokenHead;

typedef struct TokenWriter TokenWriter;
TokenWriter *tokens_create(const char *path, const TokenHead *h);
/* One document. mask: a byte each, not 0 = counts for the loss; NULL in a stream without masks. */
void tokens_write(TokenWriter *w, const uint32_t *id, const uint8_t *mask, size_t n);
/* A document in parts, the first of which may be empty; ids are of token_width(vocab) bytes each, in
 * the order of this machine, and must be < vocab. Not in a stream with masks. */
void tokens_part(TokenWriter *w, const void *id, size_t n, bool first);
void tokens_close(TokenWriter *w);              /* writes the trailer */

typedef struct TokenReader TokenReader;
TokenReader *tokens_open(const char *path, TokenHead *h);
/* Next document: ids and masks (bytes 0 or 1; NULL if none) live until the next call. false at the
 * end. n may be 0. */
bool tokens_next(TokenReader *r, const uint32_t **id, const uint8_t **mask, size_t *n);
const char *tokens_name(const TokenReader *r);
uint64_t tokens_offset(const TokenReader *r);   /* bytes read so far (unpacked) */
void tokens_finish(TokenReader *r);             /* close */

/* Dies "FILE: why" unless h, found in `name`, goes with `want`, found in `first`. */
void tokens_same(const char *name, const TokenHead *h, const char *first, const TokenHead *want);

/* What the two formats share: ids of 2 or 4 bytes, mask bits (bit i is bit i%8 of byte i/8). */
int token_width(uint32_t vocab);
void token_put(uint8_t *to, const uint32_t *id, size_t n, int width);
uint32_t token_get(uint32_t *id, const uint8_t *from, size_t n, int width);     /* the largest id */
void mask_put(uint8_t *to, size_t bit, const uint8_t *mask, size_t n);  /* sets bits; `to` was 0 */
void mask_get(uint8_t *mask, const uint8_t *from, size_t bit, size_t n);

#endif
