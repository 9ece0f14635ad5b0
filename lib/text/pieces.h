/* pieces.h -- distinct pieces of a corpus and how often they occur: what a tokenizer is trained on.
 *
 * {0} is empty. Dies when memory runs out. Memory: 24 bytes a piece, and its bytes. */
#ifndef TEXT_PIECES_H
#define TEXT_PIECES_H
#include "base/buf.h"

typedef struct Piece { size_t at; int64_t count; uint32_t len; } Piece;     /* bytes.s[at..] */

typedef struct Pieces {
    Piece *p; size_t n, cap;
    Buf bytes;
    uint64_t total;                     /* the sum of the counts */
} Pieces;

/* Append a piece. Nothing looks for an equal one: count.h counts. (Training on a list with repeated
 * pieces gives what training on their sums gives.) */
void pieces_add(Pieces *v, const char *s, size_t n, int64_t count);
void pieces_text(Pieces *v, const char *s, size_t n);   /* split valid UTF-8, append each piece */
/* By bytes, a prefix before what it begins; equal ones become one. */
void pieces_sort(Pieces *v);
void pieces_prune(Pieces *v, int64_t min_count);        /* without those that occur less often */
void pieces_by_place(Pieces *v);        /* by `at`, as they were before sorting */
/* The first n of pieces by place only, the memory of the others given back. */
void pieces_cut(Pieces *v, size_t n);
void pieces_free(Pieces *v);

#endif
