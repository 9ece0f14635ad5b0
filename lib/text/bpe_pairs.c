/* bpe_pairs.c -- the pairs that are followed, with their places, and which of them comes next.
 *
 * A pair that comes after Trainer.low in the order of merging is forgotten. As counts never rise, it
 * stays behind; so low may rise at any time, and the best pair that is known is the best there is
 * as long as it is not behind low. That is how all this keeps to Trainer.limit: when it would pass
 * it, low rises until two thirds of it are enough. Where too much was forgotten, bpe_tally.c counts
 * anew. */
#include "text/bpe_int.h"
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_SLOTS = 1 << 12,
    PAIR_BYTES = sizeof(Pair) + sizeof(Top) + 32,       /* at most 32 in slots, if there are many */
};

void *bpe_grow(void *p, size_t n, size_t *cap, size_t size)
{
    if (n <= *cap)
        return p;
    size_t more = *cap < 512 ? 1024 : size_add(*cap, *cap / 2);
    *cap = n > more ? n : more;
    return xreallocarray(p, *cap, size);
}

static void *shrink(void *p, size_t n, size_t *cap, size_t size)
{
    if (n >= *cap || *cap <= 1024)
        return p;
    *cap = n > 1024 ? n : 1024;
    return xreallocarray(p, *cap, size);
}

/* ---- the heap, eight children to a node ---------------------------------------- */

static int before(Top x, Top y)
{
    if (x.count != y.count)
        return x.count > y.count;
    return x.a != y.a ? x.a < y.a : x.b < y.b;
}

static void heap_push(Trainer *t, Top x)
{
    t->heap = bpe_grow(t->heap, t->nheap + 1, &t->heap_cap, sizeof *t->heap);
    size_t i = t->nheap++;
    for (; i && before(x, t->heap[(i - 1) / 8]); i = (i - 1) / 8)
        t->heap[i] = t->heap[(i - 1) / 8];
    t->heap[i] = x;
}

/* Put x in place of the top. */
static void heap_replace(Trainer *t, Top x)
{
    Top *h = t->heap;
    size_t i = 0;
    for (size_t k; (k = 8 * i + 1) < t->nheap; i = k) {
        size_t end = k + 8 < t->nheap ? k + 8 : t->nheap;
        for (size_t j = k + 1; j < end; j++)
            if (before(h[j], h[k]))
                k = j;
        if (!before(h[k], x))
            break;
        h[i] = h[k];
    }
    h[i] = x;
}

void pairs_pop(Trainer *t)
{
    if (--t->nheap)
        heap_replace(t, t->heap[t->nheap]);
}

bool pairs_best(Trainer *t, Top *top)
{
    while (t->nheap) {
        *top = t->heap[0];
        int64_t now = find(t, top->a, top->b)->count;
        if (!followed(t, now, top->a, top->b))
            pairs_pop(t);
        else if (now == top->count)
            return true;
        else
            heap_replace(t, (Top){ now, top->a, top->b });
    }
    return false;
}

/* ---- the table ------------------------------------------------------------------ */

static void make_slots(Trainer *t, size_t slots)
{
    free(t->slot);
    t->slot = xcalloc(slots, sizeof *t->slot);
    t->mask = slots - 1;
    for (size_t k = 0; k < t->npair; k++)
        *slot_of(t, t->pair[k].a, t->pair[k].b) =
            (Slot){ t->pair[k].a, t->pair[k].b, (uint32_t)k + 1 };
}

void pairs_reset(Trainer *t, int64_t tau)
{
    t->npair = t->nheap = t->nref = t->live = t->ref_top = t->ref_cap = 0;
    free(t->ref);
    t->ref = NULL;
    pairs_events_end(t);
    t->pair = shrink(t->pair, 0, &t->pair_cap, sizeof *t->pair);
    t->heap = shrink(t->heap, 0, &t->heap_cap, sizeof *t->heap);
    t->tau = tau;
    t->low = (Key)(uint64_t)tau << 64;
    make_slots(t, FIRST_SLOTS);
}

/* How many of n places are listed. */
static size_t listed(const Trainer *t, size_t n)
{
    return n > t->limit / 8 / sizeof *t->ref ? 0 : n;
}

Pair *pairs_add(Trainer *t, uint32_t a, uint32_t b, int64_t count, size_t n)
{
    if (t->npair >= t->mask / 4 * 3)
        make_slots(t, size_mul(t->mask + 1, 2));
    if (t->npair >= UINT32_MAX - 1)
        die("more than %zu different pairs: use less text", t->npair);
    t->pair = bpe_grow(t->pair, t->npair + 1, &t->pair_cap, sizeof *t->pair);
    Pair *p = &t->pair[t->npair++];
    *p = (Pair){ a, b, count, listed(t, n) ? t->nref : NOWHERE, listed(t, n) };
    n = p->n;
    t->nref += n;
    t->live += n;
    if (t->nref > t->ref_top)
        t->ref_top = t->nref;
    *slot_of(t, a, b) = (Slot){ a, b, (uint32_t)t->npair };
    heap_push(t, (Top){ count, a, b });
    return p;
}

void pairs_forget(Trainer *t, Pair *p)
{
    t->live -= p->n;
    p->n = 0;
}

/* Room for n more refs: if a quarter are of pairs that are done, by moving the others together. */
static void ref_room(Trainer *t, size_t n)
{
    if (t->nref + n <= t->ref_cap)
        return;
    if (t->live < t->nref - t->nref / 4) {
        size_t to = 0;
        for (size_t k = 0; k < t->npair; k++) {     /* slices stand in the order of pairs */
            Pair *p = &t->pair[k];
            if (p->at == NOWHERE)
                continue;
            memmove(t->ref + to, t->ref + p->at, p->n * sizeof *t->ref);
            p->at = to;
            to += p->n;
        }
        t->nref = to;
    }
    t->ref = bpe_grow(t->ref, size_add(t->nref, n), &t->ref_cap, sizeof *t->ref);
}

/* ---- keeping to the limit --------------------------------------------------------- */

static size_t event_bytes(const Trainer *t)
{
    return (t->left.event ? t->left.cap * sizeof(Event) : 0) +
           (t->right.event ? t->right.cap * sizeof(Event) : 0);
}

size_t pairs_bytes(const Trainer *t)
{
    return t->npair * PAIR_BYTES + t->ref_top * sizeof *t->ref + event_bytes(t);
}

/* Bytes of the pairs whose keys begin as prefix does, by the eight bits from `shift` on; those of
 * the step that is under way are about to come. */
typedef struct Weights { Key low, prefix; int shift; size_t sum[256]; } Weights;

static void weigh_one(Weights *w, int64_t count, uint32_t a, uint32_t b, size_t n)
{
    Key k = key(count, a, b);
    if (k >= w->low && (w->shift == 120 || (k ^ w->prefix) >> w->shift >> 8 == 0))
        w->sum[(unsigned)(k >> w->shift) & 255] += PAIR_BYTES + n * sizeof(uint32_t);
}

static void weigh(const Trainer *t, Weights *w)
{
    memset(w->sum, 0, sizeof w->sum);
    for (size_t k = 0; k < t->npair; k++) {
        const Pair *p = &t->pair[k];
        if (p->count > 0 && p->count < HELD)
            weigh_one(w, p->count, p->a, p->b, p->n);
    }
    for (int i = 0; i < 2; i++) {
        const Side *s = i ? &t->right : &t->left;
        for (size_t k = 0; k < s->ntouched; k++) {
            uint32_t x = s->touched[k];
            int64_t rise = rise_of(t, s, x);
            if (rise > 0)
                weigh_one(w, rise, i ? t->z : x, i ? x : t->z, listed(t, s->near[x].seen));
        }
    }
}

/* The lowest key so that all pairs from it on take about `room` bytes and no more. */
static Key choose(const Trainer *t, size_t room)
{
    Weights w = { .low = t->low, .shift = 120 };
    for (size_t kept = 0; ; w.shift -= 8) {
        int d = 255;
        for (weigh(t, &w); d >= 0 && kept + w.sum[d] <= room; d--)
            kept += w.sum[d];
        if (d < 0)                      /* at the first digit only: all of them fit */
            return t->low;
        if (w.shift == 0 || kept > room - room / 8)
            return w.prefix + ((Key)(d + 1) << w.shift);
        w.prefix |= (Key)d << w.shift;
    }
}

void pairs_thin(Trainer *t, size_t room)
{
    t->low = choose(t, room);
    t->tau = (int64_t)(t->low >> 64);
    size_t n = 0, to = 0, slots = FIRST_SLOTS;
    for (size_t k = 0; k < t->npair; k++) {
        Pair p = t->pair[k];
        if (!followed(t, p.count, p.a, p.b))
            continue;
        if (p.at != NOWHERE) {
            if (t->ref)                 /* not while pairs are counted */
                memmove(t->ref + to, t->ref + p.at, p.n * sizeof *t->ref);
            p.at = to;
            to += p.n;
        }
        t->pair[n++] = p;
    }
    t->npair = n;
    t->nref = t->live = t->ref_top = to;
    t->pair = shrink(t->pair, n, &t->pair_cap, sizeof *t->pair);
    if (t->ref)
        t->ref = shrink(t->ref, to, &t->ref_cap, sizeof *t->ref);
    while (slots / 4 * 3 <= n)
        slots = size_mul(slots, 2);
    make_slots(t, slots);
    t->nheap = 0;
    t->heap = shrink(t->heap, n, &t->heap_cap, sizeof *t->heap);
    for (size_t k = 0; k < n; k++)
        heap_push(t, (Top){ t->pair[k].count, t->pair[k].a, t->pair[k].b });
}

void pairs_room(Trainer *t, size_t held)
{
    size_t refs = t->left.n + t->right.n, pairs = t->left.ntouched + t->right.ntouched;
    size_t top = t->nref + refs > t->ref_top ? t->nref + refs - t->ref_top : 0;
    if (pairs_bytes(t) + pairs * PAIR_BYTES + top * sizeof *t->ref > t->limit) {
        size_t fixed = event_bytes(t) + held * sizeof *t->ref;
        pairs_thin(t, t->limit > fixed ? (t->limit - fixed) / 3 * 2 : 0);
    }
    ref_room(t, refs);
}

bool pairs_events(Trainer *t, const Pair *p)
{
    size_t have = event_bytes(t), need = 2 * p->n * sizeof(Event);
    bool keep = p->at != NOWHERE && need <= t->limit / 4 &&
                (need <= have || pairs_bytes(t) - have + need <= t->limit);
    if (!keep || have > t->limit / 2)
        pairs_events_end(t);
    if (!keep)
        t->left.cap = t->right.cap = SIZE_MAX;
    return keep;
}

void pairs_events_end(Trainer *t)
{
    free(t->left.event), free(t->right.event);
    t->left.event = t->right.event = NULL;
    t->left.cap = t->right.cap = 0;
}
