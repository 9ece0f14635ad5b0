/* bpe.h -- training a byte-pair encoding on counted pieces.
 *
 * Each step merges the pair of adjacent ids with the highest count (over all pieces: the piece's
 * count times the windows that hold the pair, overlapping ones included); of equal counts the one
 * with the smallest left id, then the smallest right id. In a piece, merging goes from left to
 * right. Step k makes id 256 + k. The result depends on pieces and counts only. Time is about
 * linear in the bytes of distinct pieces, whatever their lengths; memory is up to 30 bytes for
 * each. */
#ifndef TEXT_BPE_H
#define TEXT_BPE_H
#include "base/progress.h"
#include "text/pieces.h"

typedef enum {
    BPE_ALL,                    /* as many merges as were wanted */
    BPE_NO_PAIRS,               /* every piece is one token */
    BPE_TOO_LONG                /* the next token would pass TOK_MAX_LEN or TOK_MAX_BYTES (tok.h) */
} BpeEnd;

typedef struct Bpe {
    uint32_t (*pair)[2];        /* [n] left and right id of merge k */
    int64_t *count;             /* [n] how often the pair stood there when it was merged */
    size_t n;
    BpeEnd end;
} Bpe;

/* p, if not NULL, is told the merges done. Freed with bpe_free(). */
Bpe bpe_train(const Pieces *pieces, size_t want, Progress *p);
void bpe_free(Bpe *b);

#endif
