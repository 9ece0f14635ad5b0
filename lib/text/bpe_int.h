/* bpe_int.h -- the trainer's state, shared by bpe.c (the loop, pairs, long pieces) and bpe_words.h;
 * nobody else includes it. */
#ifndef TEXT_BPE_INT_H
#define TEXT_BPE_INT_H
#include "text/bpe.h"

/* A pair's places are a slice of Trainer.ref. A ref below Trainer.units is a word, the rest are
 * positions in the long pieces' cells. Words may be named twice, and need not hold the pair any
 * more; positions of one pair rise. */
typedef struct Pair { uint32_t a, b; int64_t count; size_t at, n; } Pair;
typedef struct Slot { uint32_t a, b, k; } Slot;             /* pair k - 1; k = 0 is free */
typedef struct Top { int64_t count; uint32_t a, b; } Top;
typedef struct Big { uint32_t ref; int64_t count; } Big;    /* a word's count of 2^32 - 1 or more */

/* One step's changes on one side of the new id z, by neighbour: (x, a) falls and (x, z) rises by
 * the same, but for what `lost` says. */
typedef struct Near { int64_t n; size_t seen; } Near;       /* seen: events; then where refs go */
typedef struct Event { uint32_t id, ref; } Event;
typedef struct Side {
    Near *near;                             /* [ids] */
    uint32_t *touched; size_t ntouched;     /* neighbours with anything in `near` */
    Event *event; size_t n, cap;
} Side;

typedef struct Trainer {
    /* words: pieces of 2 to MAX_WORD symbols, see bpe_words.h */
    uint32_t *unit; size_t units, max_word;
    Big *big; size_t nbig, big_cap;
    /* longer pieces: cells with END before, between and after, see bpe.c */
    uint32_t *cell; size_t cells;
    uint32_t *start, *block; int64_t *count; size_t nlong;
    int32_t *len; size_t bytes;             /* bytes per id, of all ids */
    uint32_t *ref; size_t nref, ref_cap, live;  /* live: in slices of pairs that still count */
    Pair *pair; size_t npair, pair_cap;
    Slot *slot; size_t mask;
    Top *heap; size_t nheap, heap_cap;
    Side left, right;
    int64_t lost;                           /* of what right.near[a] says, this did not rise */
    int64_t tau;                            /* pairs below it are not in the table */
    size_t counted;                         /* times that all pairs were counted */
} Trainer;

enum { MAX_WORD = 255 };
#define BIG_COUNT UINT32_MAX

static inline void touch(Side *s, uint32_t id, int64_t by, uint32_t ref)
{
    Near *x = &s->near[id];
    if (!x->seen++)
        s->touched[s->ntouched++] = id;
    x->n += by;
    s->event[s->n++] = (Event){ id, ref };      /* room was made for it */
}

#endif
