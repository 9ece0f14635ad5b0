/* bpe.c -- see bpe.h.
 *
 * Each pair has its count and the list of its places. Pairs arise only in the step that makes their
 * larger id, so the list is complete at the end of that step and only gets stale: what has been
 * merged since is passed over. Likewise counts only fall after that step, so one heap entry per
 * pair is enough: one that comes up with an old count goes back with the present one.
 *
 * In one step each falling pair holds a or b, each new one the new id: the changes are first added
 * up in arrays indexed by the neighbour, and each pair is looked up once.
 *
 * Counts never rise, so a pair that is below tau when it arises stays below, and is forgotten. When
 * nothing of tau or more is left, tau is lowered and all pairs are counted again: the pieces stand
 * as the merges left them, so nothing need be redone. Where memory is short, tau rises meanwhile
 * (bpe_pairs.c), and pairs with very many places have no list: these are looked for. */
#include "text/bpe_int.h"
#include <math.h>
#include <stdlib.h>

enum { LEAST = 4 << 20 };       /* bytes that pairs always get */

/* ---- one step ------------------------------------------------------------- */

static void fall(Trainer *t, uint32_t a, uint32_t b, int64_t by)
{
    Pair *p = find(t, a, b);
    if (!p)
        return;
    p->count -= by;
    if (p->count < t->tau)
        pairs_forget(t, p);
}

/* Changes of one side to the table. */
static void change(Trainer *t, Side *s)
{
    bool left = s == &t->left;
    for (size_t k = 0; k < s->ntouched; k++) {
        uint32_t o = s->touched[k], x = left ? o : t->z, y = left ? t->z : o;
        Near *near = &s->near[o];
        fall(t, left ? o : t->b, left ? t->a : o, near->n);
        int64_t rise = rise_of(t, s, o);
        size_t n = near->seen;
        near->seen = NOWHERE;
        if (rise > 0 && followed(t, rise, x, y))
            near->seen = pairs_add(t, x, y, rise, n)->at;
    }
}

/* The new pairs' refs: a counting sort of the events. */
static void put_events(Trainer *t, Side *s)
{
    for (size_t k = 0; k < s->n; k++)
        put_new(t, s, s->event[k].id, s->event[k].ref);
}

/* The new pairs have as many refs as were found. */
static void trim(Trainer *t, Side *s)
{
    bool left = s == &t->left;
    for (size_t k = 0; k < s->ntouched; k++) {
        uint32_t o = s->touched[k];
        if (s->near[o].seen == NOWHERE)
            continue;
        Pair *p = find(t, left ? o : t->z, left ? t->z : o);
        size_t n = s->near[o].seen - p->at;
        t->live -= p->n - n;
        p->n = n;
    }
}

static void clear(Side *s)
{
    for (size_t k = 0; k < s->ntouched; k++)
        s->near[s->touched[k]] = (Near){0};
    s->ntouched = s->n = 0;
}

static uint32_t *list_of(const Trainer *t, const Pair *p)
{
    return p->at == NOWHERE ? NULL : t->ref + p->at;
}

/* The step's pair is held until its places have been seen a second time. */
static void step_seeking(Trainer *t, Pair *pair)
{
    size_t kept = places_merge(t, list_of(t, pair), pair->n);
    t->live -= pair->n - kept;
    pair->n = kept;
    pair->count = HELD;
    pairs_room(t, kept);
    change(t, &t->left);
    change(t, &t->right);
    pair = find(t, t->a, t->b);
    places_find(t, list_of(t, pair), pair->n);
    trim(t, &t->left);
    trim(t, &t->right);
    pair->count = 0;
    pairs_forget(t, pair);
    pairs_events_end(t);
}

static void step(Trainer *t, uint32_t a, uint32_t b, uint32_t z)
{
    t->a = a, t->b = b, t->z = z;
    Pair *pair = find(t, a, b);
    if (!pairs_events(t, pair)) {
        step_seeking(t, pair);
    } else {
        places_merge(t, list_of(t, pair), pair->n);
        pair->count = 0;
        pairs_forget(t, pair);
        pairs_room(t, 0);
        change(t, &t->left);
        change(t, &t->right);
        put_events(t, &t->left);
        put_events(t, &t->right);
    }
    clear(&t->left);
    clear(&t->right);
    t->lost = 0;
}

/* ---- training --------------------------------------------------------------- */

static void side_init(Side *s, size_t ids)
{
    s->near = xcalloc(ids, sizeof *s->near);
    s->touched = xcalloc(ids, sizeof *s->touched);
}

/* A count that the last merge's will hardly be below. Of web text and of source code, the last of m
 * merges has a count of 1/14 to 1/8 of pieces / m for m = 32,503, and falls faster than 1 / m.
 * Their pieces hold 3.6 and 2.5 pairs each; for text with longer ones it is pairs that count. */
static int64_t guess_tau(const Pieces *v, size_t want)
{
    double windows = 0, m = (double)want + 1;
    for (size_t k = 0; k < v->n; k++)
        windows += (double)v->p[k].count * ((double)v->p[k].len - 1);
    double t = windows / 3.6 / m / 16;
    if (m > 16384)
        t /= sqrt(m / 16384);
    return t > 1 ? (int64_t)t : 1;
}

static void first_merges(Trainer *t, Bpe *r, const BpeOptions *o)
{
    for (; r->n < o->nfirst; r->n++) {
        uint32_t a = o->first[r->n][0], b = o->first[r->n][1];
        t->len[256 + r->n] = t->len[a] + t->len[b];
        t->bytes += (size_t)t->len[256 + r->n];
        r->pair[r->n][0] = a, r->pair[r->n][1] = b, r->count[r->n] = -1;
    }
}

static BpeEnd train(Trainer *t, Bpe *r, const BpeOptions *o)
{
    int64_t last = INT64_MAX;
    for (Top top; r->n < o->want; r->n++) {
        uint32_t z = 256 + (uint32_t)r->n;
        while (!pairs_best(t, &top)) {
            if (t->low <= key(1, UINT32_MAX, UINT32_MAX))
                return BPE_NO_PAIRS;
            int64_t tau = t->tau < last ? t->tau : last;
            pairs_count(t, tau < 8 ? 1 : tau / 8, z);
        }
        int32_t len = t->len[top.a] + t->len[top.b];
        t->bytes += (size_t)len;
        if (len > TOK_MAX_LEN || t->bytes > TOK_MAX_BYTES)
            return BPE_TOO_LONG;
        t->len[z] = len;
        pairs_pop(t);
        r->pair[r->n][0] = top.a, r->pair[r->n][1] = top.b, r->count[r->n] = last = top.count;
        step(t, top.a, top.b, z);
        if (o->line)
            progress(o->line, r->n + 1);
    }
    return BPE_ALL;
}

static void trainer_free(Trainer *t)
{
    free(t->unit), free(t->big), free(t->cell), free(t->start), free(t->count), free(t->block);
    free(t->len), free(t->ref), free(t->pair), free(t->slot), free(t->heap);
    pairs_events_end(t);
    free(t->left.near), free(t->left.touched);
    free(t->right.near), free(t->right.touched);
}

static Trainer trainer(size_t want, const BpeOptions *o)
{
    return (Trainer){ .wide = (o && o->wide) || want > 65536 - 256,
                      .max_word = o && o->max_word ? (size_t)o->max_word : MAX_WORD };
}

/* Of arrays by id: Side.near and touched, twice, Trainer.len, Bpe.pair and count. */
static size_t ids_bytes(size_t want)
{
    return (256 + want) * (2 * (sizeof(Near) + 4) + 4 + 16);
}

/* What is left for pairs. */
static size_t limit(const Trainer *t, const BpeOptions *o)
{
    size_t fixed = 4 * (t->units + t->cells + t->cells / 64) + 12 * t->nlong +
                   t->nbig * sizeof *t->big + ids_bytes(o->want);
    return o->room ? o->room : !o->mem ? SIZE_MAX / 8 :
           o->mem > fixed + LEAST ? o->mem - fixed : LEAST;
}

Bpe bpe_train_with(const Pieces *pieces, const BpeOptions *o)
{
    Trainer t = trainer(o->want, o);
    Bpe r = {0};
    if (o->want > TOK_MAX_MERGES)
        die("%zu merges: at most %d are possible", o->want, TOK_MAX_MERGES);
    size_t ids = 256 + o->want;
    t.len = xcalloc(ids, sizeof *t.len);
    for (int i = 0; i < 256; i++)
        t.len[i] = 1;
    t.bytes = 256;
    side_init(&t.left, ids);
    side_init(&t.right, ids);
    r.pair = xcalloc(o->want + 1, sizeof *r.pair);
    r.count = xcalloc(o->want + 1, sizeof *r.count);
    first_merges(&t, &r, o);

    int64_t tau = o->tau ? o->tau : guess_tau(pieces, o->want);
    Tok *old = o->nfirst ? tok_from_merges(o->first, o->nfirst) : NULL;
    places_lay_out(&t, pieces, old, o->consume);
    tok_free(old);
    t.limit = limit(&t, o);
    pairs_count(&t, tau, 256 + r.n);
    r.end = train(&t, &r, o);
    trainer_free(&t);
    return r;
}

Bpe bpe_train(const Pieces *pieces, size_t want, Progress *line)
{
    return bpe_train_with(pieces, &(BpeOptions){ .want = want, .line = line });
}

/* Pieces become words and cells, LAY_OUT at a time; then these and the least that pairs need. */
size_t bpe_memory(const Pieces *v, size_t want)
{
    Trainer t = trainer(want, NULL);
    size_t left = v->n * sizeof(Piece) + v->bytes.n, places = 0, most = 0, given = 0;
    for (size_t k = v->n; k-- > 0; ) {
        places += places_bytes(&t, v->p[k].len);
        given += sizeof(Piece) + v->p[k].len;
        if (left + places > most)
            most = left + places;
        if (k % LAY_OUT == 0)
            left -= given, given = 0;
    }
    return (most > places + LEAST ? most : places + LEAST) + ids_bytes(want);
}

void bpe_free(Bpe *b)
{
    free(b->pair), free(b->count);
    *b = (Bpe){0};
}
