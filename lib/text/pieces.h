/* pieces.h -- counting the distinct pieces of a corpus: what a tokenizer is trained on.
 *
 * {0} is empty. Pieces are kept in the order of first appearance. Memory follows the number and
 * length of distinct pieces: about 40 bytes each, and their bytes. Dies when memory runs out. */
#ifndef TEXT_PIECES_H
#define TEXT_PIECES_H
#include "base/buf.h"

typedef struct Piece { size_t at; int64_t count; uint32_t len, hash; } Piece;  /* bytes.s[at..] */

typedef struct Pieces {
    Piece *p; size_t n, cap;
    Buf bytes;
    uint32_t *slot; size_t mask;        /* index + 1 by hash, 0 is empty; slots - 1 */
    uint64_t total;                     /* pieces counted, repeated ones included */
} Pieces;

void pieces_add(Pieces *v, const char *s, size_t n, int64_t count);
void pieces_text(Pieces *v, const char *s, size_t n);   /* split valid UTF-8, count the pieces */
void pieces_free(Pieces *v);

#endif
