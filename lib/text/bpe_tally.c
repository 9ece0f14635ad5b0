/* bpe_tally.c -- counting all pairs: at the start, and when none that is followed is left. Counted
 * is by ranges of the pairs' hashes, as many at a time as a sixth of the limit has room for. */
#include "text/bpe_int.h"
#include <stdlib.h>

enum { FIRST_SLOTS = 1 << 12, FEWEST = 16 };

void tally_grow(Tally *v)
{
    Tally old = *v;
    size_t slots = size_mul(v->mask + 1, 2);
    v->p = xcalloc(slots, sizeof *v->p);
    v->mask = slots - 1;
    for (size_t i = 0; i <= old.mask; i++)
        if (old.p[i].n)
            *tally_slot(v, old.p[i].a, old.p[i].b) = old.p[i];
    free(old.p);
}

/* How much of the range to count when all of it holds `all` pairs; tables are half full on
 * average. */
static uint64_t width_for(const Trainer *t, size_t all)
{
    size_t most = t->limit / 6 / (3 * sizeof(TallyPair));
    if (most < FEWEST)
        most = FEWEST;
    if (most >= all)
        return TALLY_RANGE;
    uint64_t width = (uint64_t)((double)TALLY_RANGE * (double)most / (double)all);
    return width ? width : 1;
}

/* The pairs of one range to the table; those that would be too much are forgotten again. */
static void take(Trainer *t, const Tally *v, Top *best)
{
    for (size_t i = 0; i <= v->mask; i++) {
        const TallyPair *p = &v->p[i];
        if (!p->n)
            continue;
        if (key(p->count, p->a, p->b) > key(best->count, best->a, best->b))
            *best = (Top){ p->count, p->a, p->b };
        if (!followed(t, p->count, p->a, p->b))
            continue;
        pairs_add(t, p->a, p->b, p->count, p->n);
        if (pairs_bytes(t) > t->limit / 4 * 3)
            pairs_thin(t, t->limit / 8 * 5);
    }
}

static Top count(Trainer *t, int64_t tau, size_t most)
{
    Top best = { 0, UINT32_MAX, UINT32_MAX };
    pairs_reset(t, tau);
    for (uint64_t from = 0, width = width_for(t, most); from < TALLY_RANGE; from += width) {
        if (from)
            width = width_for(t, most);
        Tally v = { xcalloc(FIRST_SLOTS, sizeof *v.p), 0, FIRST_SLOTS - 1, from, width };
        places_scan(t, &v);
        take(t, &v, &best);
        free(v.p);
        most = (size_t)((double)(v.n + 1) * (double)TALLY_RANGE / (double)width);
    }
    return best;
}

void pairs_count(Trainer *t, int64_t tau, size_t ids)
{
    size_t most = ids < 65536 && ids * ids < t->windows ? ids * ids : t->windows;
    Top best = count(t, tau, most);
    if (!t->npair && best.count && best.count < tau)    /* tau was much too high */
        best = count(t, best.count < 8 ? 1 : best.count / 8, most);
    if (!t->npair && best.count) {                      /* not even one fits: without its places */
        t->low = key(best.count, best.a, best.b);
        t->tau = best.count;
        pairs_add(t, best.a, best.b, best.count, 0);
    }
    if (!best.count)
        pairs_reset(t, 1);
    t->ref = bpe_grow(t->ref, t->nref, &t->ref_cap, sizeof *t->ref);
    for (size_t k = 0; k < t->npair; k++)
        t->pair[k].n = 0;
    places_scan(t, NULL);
}
