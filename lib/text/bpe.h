/* bpe.h -- training a byte-pair encoding on counted pieces.
 *
 * Each step merges the pair of adjacent ids with the highest count (over all pieces: the piece's
 * count times the windows that hold the pair, overlapping ones included); of equal counts the one
 * with the smallest left id, then the smallest right id. In a piece, merging goes from left to
 * right. Step k makes id first + k. The result depends on pieces and counts only. Time is about
 * linear in the bytes of distinct pieces, whatever their lengths, if there is enough memory; with
 * little of it text is gone through again and again. */
#ifndef TEXT_BPE_H
#define TEXT_BPE_H
#include "base/progress.h"
#include "text/pieces.h"
#include <stdbool.h>

typedef enum {
    BPE_ALL,                    /* as many merges as were wanted */
    BPE_NO_PAIRS,               /* every piece is one token */
    BPE_TOO_LONG                /* the next token would pass TOK_MAX_LEN or TOK_MAX_BYTES (tok.h) */
} BpeEnd;

typedef struct BpeOptions {
    size_t want;                /* merges, those of `first` included */
    const uint32_t (*first)[2]; size_t nfirst;  /* merges made earlier: they come first */
    Progress *line;             /* if not NULL, told the merges done */
    Pieces *consume;            /* the pieces once more, by place, to be freed as soon as can be */
    int64_t tau;                /* pairs rarer than this are not followed until nothing else is
                                   left; 0: guessed */
    int max_word;               /* pieces of more bytes are treated as long; 0: the best value */
    bool wide;                  /* 4 bytes to a symbol even where 2 would do */
    size_t mem;                 /* bytes that all this may take, bpe_memory() or more; 0: any */
    size_t room;                /* bytes for pairs and their places; 0: what `mem` leaves */
} BpeOptions;                   /* from tau on: speed and memory, not the merges */

typedef struct Bpe {
    uint32_t (*pair)[2];        /* [n] left and right id of merge k */
    int64_t *count;             /* [n] how often the pair stood there when it was merged; -1 for
                                   those of `first` */
    size_t n;
    BpeEnd end;
} Bpe;

Bpe bpe_train(const Pieces *pieces, size_t want, Progress *line);
Bpe bpe_train_with(const Pieces *pieces, const BpeOptions *o);
void bpe_free(Bpe *b);

/* The least memory that training on these pieces, which it consumes, can do with. */
size_t bpe_memory(const Pieces *pieces, size_t want);

#endif
