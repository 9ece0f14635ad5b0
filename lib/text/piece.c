/* piece.c -- encoding one piece by the rule, whatever the tokenizer; see tok.h and heap.h. */
#include "text/heap.h"
#include "text/tok_int.h"

void piece_free(PieceRoom *r)
{
    free(r->id), free(r->heap);
    *r = (PieceRoom){0};
}

static inline Merge find(const void *tok, uint32_t a, uint32_t b)
{
    const PairSlot *p = tok_slot(tok, a, b);
    return (Merge){ p->rank, p->id1 - 1 };
}

void tok_merge_piece(const Tok *t, PieceRoom *r, const char *s, size_t n, Ids *out)
{
    uint32_t *id = heap_cells(r, n);
    for (size_t i = 0; i < n; i++)
        id[i] = (uint32_t)t->byte_id[(unsigned char)s[i]];
    size_t got = heap_merge(r, n, find, t);
    for (size_t i = 0; i < got; i++)
        ids_add(out, id[i]);
}

void tok_piece(const Tok *t, PieceRoom *r, const char *s, size_t n, Ids *out)
{
    int id = t->whole ? tok_find(t, s, n) : -1;
    if (id < 0 && t->words)
        id = 1;                                 /* <unk> */
    if (id >= 0)
        ids_add(out, (uint32_t)id);
    else
        tok_merge_piece(t, r, s, n, out);
}
