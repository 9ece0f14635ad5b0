/* bpe_int.h -- the trainer's state, shared by bpe.c (the steps), bpe_places.c (the text, as words
 * and cells), bpe_pairs.c (the pairs that are followed) and bpe_tally.c (counting all pairs);
 * nobody else includes it. */
#ifndef TEXT_BPE_INT_H
#define TEXT_BPE_INT_H
#include "text/bpe.h"
#include "text/tok.h"

/* A pair's places are a slice of Trainer.ref. A ref below Trainer.units is a word, the rest are
 * positions in the long pieces' cells. Words may be named twice, one after the other, and need not
 * hold the pair any more; positions of one pair rise. at NOWHERE: there is no list. */
typedef struct Pair { uint32_t a, b; int64_t count; size_t at, n; } Pair;
typedef struct Slot { uint32_t a, b, k; } Slot;             /* pair k - 1; k = 0 is free */
typedef struct Top { int64_t count; uint32_t a, b; } Top;
typedef struct Big { uint32_t ref; int64_t count; } Big;    /* a word's count of 2^32 - 1 or more */
#define NOWHERE SIZE_MAX
#define HELD INT64_MAX          /* count of the pair whose step it is, if its list must stay */

/* One step's changes on one side of the new id z, by neighbour: (x, a) falls and (x, z) rises by
 * the same, but for what `lost` says. */
typedef struct Near { int64_t n; size_t seen; } Near;       /* seen: events; then where refs go */
typedef struct Event { uint32_t id, ref; } Event;
typedef struct Side {
    Near *near;                             /* [ids] */
    uint32_t *touched; size_t ntouched;     /* neighbours with anything in `near` */
    Event *event; size_t n, cap;            /* event NULL: they are only counted */
} Side;

/* Which of two pairs comes first is which has the larger key: highest count, smallest left id,
 * smallest right id. */
typedef unsigned __int128 Key;

typedef struct Trainer {
    /* words: pieces of 2 to MAX_WORD symbols, see bpe_words.h */
    uint32_t *unit; size_t units, max_word;
    bool wide;                              /* 4 bytes to a symbol in a word, not 2 */
    Big *big; size_t nbig, big_cap;
    /* longer pieces: cells with END before, between and after, see bpe_places.c */
    uint32_t *cell; size_t cells, filled;
    uint32_t *start, *block; int64_t *count; size_t nlong;
    int32_t *len; size_t bytes;             /* bytes per id, of all ids */
    size_t windows;                         /* that hold a pair, at the start */
    uint32_t *ref; size_t nref, ref_cap, ref_top;   /* ref_top: what was touched of it */
    size_t live;                            /* refs in slices of pairs that still count */
    Pair *pair; size_t npair, pair_cap;
    Slot *slot; size_t mask;
    Top *heap; size_t nheap, heap_cap;
    Side left, right;
    uint32_t a, b, z;                       /* the step's pair and what it becomes */
    int64_t lost;                           /* of what right.near[a] says, this did not rise */
    Key low; int64_t tau;                   /* pairs below low, whose count is tau, are forgotten */
    size_t limit;                           /* bytes for pairs, refs and events */
} Trainer;

enum { MAX_WORD = 255 };
#define BIG_COUNT UINT32_MAX

static inline Key key(int64_t count, uint32_t a, uint32_t b)
{
    return (Key)(uint64_t)count << 64 | ~((uint64_t)a << 32 | b);
}

static inline bool followed(const Trainer *t, int64_t count, uint32_t a, uint32_t b)
{
    return count > t->tau || (count == t->tau && key(count, a, b) >= t->low);
}

static inline size_t home(uint32_t a, uint32_t b)
{
    uint64_t x = ((uint64_t)a << 32 | b) * 0x9e3779b97f4a7c15u;
    return (size_t)(x ^ x >> 29);
}

static inline Slot *slot_of(const Trainer *t, uint32_t a, uint32_t b)
{
    size_t i = home(a, b) & t->mask;
    for (; t->slot[i].k && (t->slot[i].a != a || t->slot[i].b != b); i = (i + 1) & t->mask)
        ;
    return &t->slot[i];
}

static inline Pair *find(const Trainer *t, uint32_t a, uint32_t b)     /* NULL: not followed */
{
    Slot *s = slot_of(t, a, b);
    return s->k ? &t->pair[s->k - 1] : NULL;
}

static inline void touch(Side *s, uint32_t id, int64_t by, uint32_t ref)
{
    Near *x = &s->near[id];
    if (!x->seen++)
        s->touched[s->ntouched++] = id;
    x->n += by;
    if (s->event)
        s->event[s->n] = (Event){ id, ref };    /* room was made for it */
    s->n++;
}

/* What (x, z), or on the right side (z, x), has risen by. */
static inline int64_t rise_of(const Trainer *t, const Side *s, uint32_t id)
{
    return s->near[id].n - (s == &t->right && id == t->a ? t->lost : 0);
}

/* The ref goes to z's pair with id, if that is followed and has a list. */
static inline void put_new(Trainer *t, Side *s, uint32_t id, uint32_t ref)
{
    Near *x = &s->near[id];
    if (x->seen != NOWHERE)
        t->ref[x->seen++] = ref;
}

void *bpe_grow(void *p, size_t n, size_t *cap, size_t size);    /* room for n, growing by halves */

/* ---- bpe_pairs.c ---- */
void pairs_reset(Trainer *t, int64_t tau);      /* forget all */
/* A pair not yet known, with n places to come at the end of ref; or without a list, if that would
 * be very long. */
Pair *pairs_add(Trainer *t, uint32_t a, uint32_t b, int64_t count, size_t n);
void pairs_forget(Trainer *t, Pair *p);         /* its places */
bool pairs_best(Trainer *t, Top *top);          /* false: the best one is not followed */
void pairs_pop(Trainer *t);                     /* that one is done */
size_t pairs_bytes(const Trainer *t);           /* what they take now; limit is for this */
void pairs_thin(Trainer *t, size_t room);       /* follow the best that fit into `room` bytes */
/* Room for the new pairs of a step, if need be by following fewer; `held` refs stay. */
void pairs_room(Trainer *t, size_t held);
/* Are the events of the step that merges p to be kept? If not, its new places are looked for. */
bool pairs_events(Trainer *t, const Pair *p);
void pairs_events_end(Trainer *t);

/* ---- bpe_tally.c ---- */

/* Counts of the pairs with hashes from `from` on, `width` of them: what is counted at once stays
 * small. */
typedef struct TallyPair { uint32_t a, b; int64_t count; size_t n; } TallyPair;
typedef struct Tally { TallyPair *p; size_t n, mask; uint64_t from, width; } Tally;
#define TALLY_RANGE ((uint64_t)1 << 24)

void tally_grow(Tally *v);
/* Begin anew with all pairs of tau or more, or the best ones, if these are too many; there are
 * `ids` different symbols. */
void pairs_count(Trainer *t, int64_t tau, size_t ids);

static inline TallyPair *tally_slot(const Tally *v, uint32_t a, uint32_t b)
{
    size_t i = home(a, b) & v->mask;
    for (; v->p[i].n && (v->p[i].a != a || v->p[i].b != b); i = (i + 1) & v->mask)
        ;
    return &v->p[i];
}

static inline void tally_add(Tally *v, uint32_t a, uint32_t b, int64_t count)
{
    if ((home(a, b) >> 40) - v->from >= v->width)
        return;
    TallyPair *p = tally_slot(v, a, b);
    if (!p->n) {
        if (v->n >= v->mask / 4 * 3) {
            tally_grow(v);
            p = tally_slot(v, a, b);
        }
        p->a = a, p->b = b;
        v->n++;
    }
    p->count += count;
    p->n++;
}

/* ---- bpe_places.c ---- */
enum { LAY_OUT = 1 << 15 };                     /* pieces after which `consume` shrinks */
void places_lay_out(Trainer *t, const Pieces *v, const Tok *old, Pieces *consume);
/* All pairs, to the table of counts; or their refs to the pairs that are followed. */
void places_scan(Trainer *t, Tally *tally);
/* Merge the pair at the n places of ref, which come to be those where something was merged: how
 * many these are. ref NULL: everywhere. */
size_t places_merge(Trainer *t, uint32_t *ref, size_t n);
/* Where z stands there now: refs for its pairs. */
void places_find(Trainer *t, const uint32_t *ref, size_t n);
/* What a piece of n bytes takes; of t only max_word and wide count. */
size_t places_bytes(const Trainer *t, size_t n);

#endif
