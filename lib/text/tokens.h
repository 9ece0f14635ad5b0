/* tokens.h -- the token stream between tok-encode and pack-rows. Format: pipegpt-tokens(5).
 *
 * A stream is a header, records (one per document: count, ids, mask bits if the stream has masks)
 * and a trailer with counts and XXH3. `cat` of two streams with equal headers' contents is a stream.
 * A stream that ends before its trailer, or whose trailer disagrees, dies naming file and byte
 * offset: a stage that died upstream is noticed. Streams made with different tokenizers or
 * widths cannot be mixed. Counts are 64-bit. */
#ifndef TEXT_TOKENS_H
#define TEXT_TOKENS_H
#include "base/io.h"
#include "text/tok.h"

typedef struct TokenHead {
    uint32_t vocab;             /* ids are < vocab; width is 2 bytes up to 65,536, else 4 */
    uint32_t bos;               /* id of <|bos|>, or UINT32_MAX */
    bool masks;                 /* a loss-mask bit per token follows the ids */
    uint64_t tok_hash;          /* tok_hash() of the tokenizer */
} TokenHead;

typedef struct TokenWriter TokenWriter;
TokenWriter *tokens_create(const char *path, const TokenHead *h);
void tokens_write(TokenWriter *w, const uint32_t *id, const uint8_t *mask, size_t n);   /* mask: a byte each, or NULL */
void tokens_close(TokenWriter *w);              /* writes the trailer */

typedef struct TokenReader TokenReader;
TokenReader *tokens_open(const char *path, TokenHead *h);
/* Next document: ids and masks (bytes; NULL if none) live until the next call. false at the end. */
bool tokens_next(TokenReader *r, const uint32_t **id, const uint8_t **mask, size_t *n);
void tokens_finish(TokenReader *r);             /* close */

#endif
