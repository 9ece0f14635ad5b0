/* piece.c -- encoding one piece by the rule, whatever the tokenizer; see tok.h and heap.h. */
#include "text/heap.h"
#include "text/tok_int.h"
#include "text/windows.h"

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

typedef struct Merger { const Tok *t; PieceRoom *r; } Merger;

static const uint32_t *window(void *arg, const char *s, size_t n, size_t *got)
{
    const Merger *p = arg;
    uint32_t *id = heap_cells(p->r, n);
    for (size_t i = 0; i < n; i++)
        id[i] = (uint32_t)p->t->byte_id[(unsigned char)s[i]];
    *got = heap_merge(p->r, n, find, p->t);
    return id;
}

void tok_merge_piece(const Tok *t, PieceRoom *r, const char *s, size_t n, Ids *out)
{
    Merger p = { t, r };
    windows_encode(&(Windows){ window, &p, t->len, 2048 }, s, n, out);
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
