/* enc.h -- encoding in bulk; what tok.h has is enough for a text now and then.
 *
 * An encoder belongs to one thread. It remembers what pieces were encoded as, in tables of fixed
 * size (about 11 MB): memory does not grow with the text. */
#ifndef TEXT_ENC_H
#define TEXT_ENC_H
#include "text/tok.h"

typedef struct TokOut { void *id; size_t n, cap; int width; } TokOut;   /* width: 2 or 4 bytes */

/* Another encoder for the same tokenizer, for another thread; shares what is read-only. */
TokEnc *tokenc_share(TokEnc *e);
/* Append the ids of s[0..n), which must be valid UTF-8. out->width is set by the caller, 2 only if
 * all ids fit. Uses up to n more ids of room in out than it fills. */
void tok_encode_valid(TokEnc *e, const char *s, size_t n, TokOut *out);
void tokout_add(TokOut *out, uint32_t id);
void tokout_free(TokOut *out);

#endif
