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
 * as the merges left them, so nothing need be redone.
 *
 * Short pieces are words (bpe_words.h). Long ones stand in one array of cells, END before, between
 * and after them. A token that covers cells p..e has its id in cells p and e; what stands between
 * is never the id of a token that begins there. So the right neighbour of p is at p + len(cell[p]),
 * the left one at p - len(cell[p - 1]), and "the pair (a, b) is at p" is two comparisons, whatever
 * the piece's length. */
#include "text/bpe_int.h"
#include "text/tok.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define END UINT32_MAX
#define DEAD (UINT32_MAX - 1)
enum {
    BLOCK = 64,                 /* cells per entry of Trainer.block */
    PART = 1 << 20,             /* units and cells per part when pairs are counted */
};

static void *grow(void *p, size_t n, size_t *cap, size_t size)
{
    if (n <= *cap)
        return p;
    size_t more = *cap < 512 ? 1024 : size_add(*cap, *cap / 2);
    *cap = n > more ? n : more;
    return xreallocarray(p, *cap, size);
}

static size_t home(uint32_t a, uint32_t b)
{
    uint64_t x = ((uint64_t)a << 32 | b) * 0x9e3779b97f4a7c15u;
    return (size_t)(x ^ x >> 29);
}

/* ---- the heap, eight children to a node: highest count, smallest left, smallest right id ---- */

static int before(Top x, Top y)
{
    if (x.count != y.count)
        return x.count > y.count;
    return x.a != y.a ? x.a < y.a : x.b < y.b;
}

static void heap_push(Trainer *t, Top x)
{
    t->heap = grow(t->heap, t->nheap + 1, &t->heap_cap, sizeof *t->heap);
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

static void heap_pop(Trainer *t)
{
    if (--t->nheap)
        heap_replace(t, t->heap[t->nheap]);
}

/* ---- pairs that are followed ------------------------------------------------ */

static Slot *slot_of(const Trainer *t, uint32_t a, uint32_t b)
{
    size_t i = home(a, b) & t->mask;
    for (; t->slot[i].k && (t->slot[i].a != a || t->slot[i].b != b); i = (i + 1) & t->mask)
        ;
    return &t->slot[i];
}

static Pair *find(const Trainer *t, uint32_t a, uint32_t b)     /* NULL: not followed */
{
    Slot *s = slot_of(t, a, b);
    return s->k ? &t->pair[s->k - 1] : NULL;
}

static void rehash(Trainer *t)
{
    size_t slots = t->slot ? size_mul(t->mask + 1, 2) : 1 << 12;
    free(t->slot);
    t->slot = xcalloc(slots, sizeof *t->slot);
    t->mask = slots - 1;
    for (size_t k = 0; k < t->npair; k++)
        *slot_of(t, t->pair[k].a, t->pair[k].b) =
            (Slot){ t->pair[k].a, t->pair[k].b, (uint32_t)k + 1 };
}

/* A pair not yet known, with n places to come at the end of ref. */
static Pair *new_pair(Trainer *t, uint32_t a, uint32_t b, int64_t count, size_t n)
{
    if (t->npair >= t->mask / 4 * 3)
        rehash(t);
    if (t->npair >= UINT32_MAX - 1)
        die("more than %zu different pairs: use less text", t->npair);
    t->pair = grow(t->pair, t->npair + 1, &t->pair_cap, sizeof *t->pair);
    Pair *p = &t->pair[t->npair++];
    *p = (Pair){ a, b, count, t->nref, n };
    t->nref += n;
    t->live += n;
    *slot_of(t, a, b) = (Slot){ a, b, (uint32_t)t->npair };
    heap_push(t, (Top){ count, a, b });
    return p;
}

static void forget_refs(Trainer *t, Pair *p)
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
            memmove(t->ref + to, t->ref + p->at, p->n * sizeof *t->ref);
            p->at = to;
            to += p->n;
        }
        t->nref = to;
    }
    t->ref = grow(t->ref, size_add(t->nref, n), &t->ref_cap, sizeof *t->ref);
}

/* The best pair of count tau or more. */
static bool best(Trainer *t, Top *top)
{
    while (t->nheap) {
        *top = t->heap[0];
        int64_t now = find(t, top->a, top->b)->count;
        if (now == top->count)
            return true;
        if (now >= t->tau)
            heap_replace(t, (Top){ now, top->a, top->b });
        else
            heap_pop(t);
    }
    return false;
}

/* ---- counting all pairs: at the start, and when tau is lowered --------------- */

/* One of `parts` of all pairs, by hash: what is counted at once stays small. */
typedef struct TallyPair { uint32_t a, b; int64_t count; size_t n; } TallyPair;
typedef struct Tally { TallyPair *p; size_t n, mask, part, parts; } Tally;

static TallyPair *tally_slot(Tally *v, uint32_t a, uint32_t b)
{
    size_t i = home(a, b) & v->mask;
    for (; v->p[i].n && (v->p[i].a != a || v->p[i].b != b); i = (i + 1) & v->mask)
        ;
    return &v->p[i];
}

static void tally_grow(Tally *v)
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

static inline void tally_add(Tally *v, uint32_t a, uint32_t b, int64_t count)
{
    if (v->parts > 1 && (home(a, b) >> 40) % v->parts != v->part)
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

/* Pair.n counts up to the slice's length again as it is filled. */
static inline void put_ref(Trainer *t, uint32_t a, uint32_t b, uint32_t ref)
{
    Pair *p = find(t, a, b);
    if (p)
        t->ref[p->at + p->n++] = ref;
}

static int64_t word_big(const Trainer *t, uint32_t r)
{
    size_t lo = 0, hi = t->nbig;
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (t->big[mid].ref <= r) lo = mid;
        else hi = mid;
    }
    return t->big[lo].count;
}

static inline int64_t word_count(const Trainer *t, uint32_t r)
{
    return t->unit[r] != BIG_COUNT ? t->unit[r] : word_big(t, r);
}

static inline void room(Side *s, size_t n)
{
    if (s->cap - s->n < n)
        s->event = grow(s->event, s->n + n, &s->cap, sizeof *s->event);
}

#define SYM uint16_t
#define W(name) name##_16
#include "text/bpe_words.h"
#undef SYM
#undef W
#define SYM uint32_t
#define W(name) name##_32
#include "text/bpe_words.h"

static void cells_scan(Trainer *t, Tally *tally)
{
    const uint32_t *c = t->cell;
    size_t w = 0;
    for (size_t p = 1, q; p + 1 < t->cells; p = q) {
        if (c[p] == END) {
            q = p + 1;
            w++;
            continue;
        }
        q = p + (size_t)t->len[c[p]];
        if (c[q] == END)
            continue;
        if (tally)
            tally_add(tally, c[p], c[q], t->count[w]);
        else
            put_ref(t, c[p], c[q], (uint32_t)(t->units + p));
    }
}

static void scan(Trainer *t, Tally *tally, bool wide)
{
    if (wide)
        words_scan_32(t, tally);
    else
        words_scan_16(t, tally);
    cells_scan(t, tally);
}

/* Begin anew with all pairs of tau or more. */
static void count_pairs(Trainer *t, bool wide)
{
    t->npair = t->nheap = t->nref = t->live = 0;
    free(t->slot);
    t->slot = NULL;
    rehash(t);
    size_t parts = t->counted++ ? (t->units + t->cells) / PART + 1 : 1;     /* at first, of bytes */
    for (size_t part = 0; part < parts; part++) {
        Tally v = { xcalloc(1 << 12, sizeof *v.p), 0, (1 << 12) - 1, part, parts };
        scan(t, &v, wide);
        for (size_t i = 0; i <= v.mask; i++)
            if (v.p[i].n && v.p[i].count >= t->tau)
                new_pair(t, v.p[i].a, v.p[i].b, v.p[i].count, v.p[i].n);
        free(v.p);
    }
    ref_room(t, 0);
    for (size_t k = 0; k < t->npair; k++)
        t->pair[k].n = 0;
    scan(t, NULL, wide);
}

/* ---- the start: pieces to words and cells ------------------------------------- */

/* The ids that a piece has before the first step: its bytes, or what earlier merges make of it. */
static size_t symbols(const Tok *old, PieceRoom *room, const char *s, size_t n, Ids *out)
{
    out->n = 0;
    if (old)
        tok_piece(old, room, s, n, out);
    else
        for (size_t i = 0; i < n; i++)
            ids_add(out, (unsigned char)s[i]);
    return out->n;
}

static void long_add(Trainer *t, const Ids *v, int64_t count, size_t *at)
{
    uint32_t *c = t->cell, w = (uint32_t)t->nlong++;
    size_t first = *at, p = first;
    for (size_t i = 0; i < v->n; i++) {
        size_t len = (size_t)t->len[v->id[i]];
        for (size_t j = 1; j + 1 < len; j++)
            c[p + j] = DEAD;
        c[p] = c[p + len - 1] = v->id[i];
        p += len;
    }
    t->start[w] = (uint32_t)first, t->count[w] = count;
    for (size_t b = (first + BLOCK - 1) / BLOCK; b <= p / BLOCK; b++)
        t->block[b] = w;
    c[p] = END;
    *at = p + 1;
}

/* Words take whatever has few symbols: by bytes, as the symbols of earlier merges are not yet
 * known, so a long piece stays in cells. */
static void lay_out(Trainer *t, const Pieces *v, const Tok *old, bool wide)
{
    size_t units = 0, cells = 1, nlong = 0;
    for (size_t k = 0; k < v->n; k++) {
        size_t n = v->p[k].len;
        if (n > t->max_word)
            cells = size_add(cells, n + 1), nlong++;
        else if (n > 1)
            units += wide ? word_units_32(n) : word_units_16(n);
    }
    if (size_add(units, cells) >= DEAD)
        die("the distinct pieces, %zu bytes, are too many: use less text", v->bytes.n);
    t->unit = xreallocarray(NULL, units + 1, sizeof *t->unit);
    t->cells = cells;
    t->cell = xreallocarray(NULL, cells, sizeof *t->cell);
    t->start = xreallocarray(NULL, nlong + 1, sizeof *t->start);
    t->count = xreallocarray(NULL, nlong + 1, sizeof *t->count);
    t->block = xcalloc(cells / BLOCK + 1, sizeof *t->block);
    t->cell[0] = END;
    Ids ids = {0};
    PieceRoom pr = {0};
    size_t at = 1;
    for (size_t k = 0; k < v->n; k++) {
        const Piece *p = &v->p[k];
        if (p->len < 2)
            continue;
        size_t n = symbols(old, &pr, v->bytes.s + p->at, p->len, &ids);
        if (p->len > t->max_word)
            long_add(t, &ids, p->count, &at);
        else if (n > 1)
            (wide ? word_add_32 : word_add_16)(t, ids.id, n, p->count);
    }
    ids_free(&ids);
    piece_free(&pr);
}

/* How often the long piece that holds cell p occurs. */
static int64_t weight(const Trainer *t, size_t p)
{
    size_t k = t->block[p / BLOCK];
    while (k + 1 < t->nlong && t->start[k + 1] <= p)
        k++;
    return t->count[k];
}

/* ---- one step ------------------------------------------------------------- */

/* Merge the pair at cell p, whose right half is at q. */
static void cell_merge(Trainer *t, uint32_t b, uint32_t z, size_t p, size_t q)
{
    uint32_t *cell = t->cell;
    size_t end = q + (size_t)t->len[b];
    uint32_t x = cell[p - 1], y = cell[end];
    int64_t by = weight(t, p);
    room(&t->left, 1);
    room(&t->right, 1);
    if (x != END) {
        if (x == z)             /* as in bpe_words.h */
            t->lost += by;
        touch(&t->left, x, by, (uint32_t)(t->units + p - (size_t)t->len[x]));
    }
    if (y != END)
        touch(&t->right, y, by, (uint32_t)(t->units + p));
    cell[q - 1] = cell[q] = DEAD;
    cell[p] = cell[end - 1] = z;
}

static void fall(Trainer *t, uint32_t a, uint32_t b, int64_t by)
{
    Pair *p = find(t, a, b);
    if (!p)
        return;
    p->count -= by;
    if (p->count < t->tau)
        forget_refs(t, p);
}

/* Changes of one side to the table; the new pairs' refs: a counting sort of the events. */
static void apply(Trainer *t, Side *s, bool left, uint32_t a, uint32_t b, uint32_t z)
{
    ref_room(t, s->n);
    for (size_t k = 0; k < s->ntouched; k++) {
        uint32_t o = s->touched[k];
        Near *x = &s->near[o];
        fall(t, left ? o : b, left ? a : o, x->n);
        int64_t rise = x->n - (!left && o == a ? t->lost : 0);
        size_t n = x->seen;
        x->seen = SIZE_MAX;
        if (rise >= t->tau)
            x->seen = new_pair(t, left ? o : z, left ? z : o, rise, n)->at;
    }
    for (size_t k = 0; k < s->n; k++) {
        Near *x = &s->near[s->event[k].id];
        if (x->seen != SIZE_MAX)
            t->ref[x->seen++] = s->event[k].ref;
    }
    for (size_t k = 0; k < s->ntouched; k++)
        s->near[s->touched[k]] = (Near){0};
    s->ntouched = s->n = 0;
}

static void step(Trainer *t, uint32_t a, uint32_t b, uint32_t z, bool wide)
{
    Pair *pair = find(t, a, b);
    const uint32_t *ref = t->ref + pair->at;
    size_t n = pair->n, k = (wide ? words_merge_32 : words_merge_16)(t, ref, n, a, b, z);
    for (; k < n; k++) {
        size_t p = ref[k] - t->units, q = p + (size_t)t->len[a];
        if (t->cell[p] == a && t->cell[q] == b)
            cell_merge(t, b, z, p, q);
    }
    pair->count = 0;
    forget_refs(t, pair);
    apply(t, &t->left, true, a, b, z);
    apply(t, &t->right, false, a, b, z);
    t->lost = 0;
}

static void side_init(Side *s, size_t ids)
{
    s->near = xcalloc(ids, sizeof *s->near);
    s->touched = xcalloc(ids, sizeof *s->touched);
}

/* A count that the last merge's will hardly be below. Of web text and of source code, the last of m
 * merges has a count of 1/14 to 1/8 of pieces / m for m = 32,503, and falls faster than 1 / m. */
static int64_t guess_tau(const Pieces *v, size_t want)
{
    double m = (double)want + 1, t = (double)v->total / m / 16;
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

static BpeEnd train(Trainer *t, Bpe *r, const BpeOptions *o, bool wide)
{
    for (Top top; r->n < o->want; r->n++) {
        uint32_t z = 256 + (uint32_t)r->n;
        while (!best(t, &top)) {
            if (t->tau == 1)
                return BPE_NO_PAIRS;
            t->tau = t->tau < 8 ? 1 : t->tau / 8;
            count_pairs(t, wide);
        }
        int32_t len = t->len[top.a] + t->len[top.b];
        t->bytes += (size_t)len;
        if (len > TOK_MAX_LEN || t->bytes > TOK_MAX_BYTES)
            return BPE_TOO_LONG;
        t->len[z] = len;
        heap_pop(t);
        r->pair[r->n][0] = top.a, r->pair[r->n][1] = top.b, r->count[r->n] = top.count;
        step(t, top.a, top.b, z, wide);
        if (o->line)
            progress(o->line, r->n + 1);
    }
    return BPE_ALL;
}

static void trainer_free(Trainer *t)
{
    free(t->unit), free(t->big), free(t->cell), free(t->start), free(t->count), free(t->block);
    free(t->len), free(t->ref), free(t->pair), free(t->slot), free(t->heap);
    Side *side[] = { &t->left, &t->right };
    for (int k = 0; k < 2; k++)
        free(side[k]->near), free(side[k]->touched), free(side[k]->event);
}

Bpe bpe_train_with(const Pieces *pieces, const BpeOptions *o)
{
    Trainer t = {0};
    Bpe r = {0};
    if (o->want > TOK_MAX_MERGES)
        die("%zu merges: at most %d are possible", o->want, TOK_MAX_MERGES);
    size_t ids = 256 + o->want;
    bool wide = o->wide || ids > 65536;
    t.max_word = o->max_word ? (size_t)o->max_word : MAX_WORD;
    t.len = xcalloc(ids, sizeof *t.len);
    for (int i = 0; i < 256; i++)
        t.len[i] = 1;
    t.bytes = 256;
    side_init(&t.left, ids);
    side_init(&t.right, ids);
    r.pair = xcalloc(o->want + 1, sizeof *r.pair);
    r.count = xcalloc(o->want + 1, sizeof *r.count);
    first_merges(&t, &r, o);

    Tok *old = o->nfirst ? tok_from_merges(o->first, o->nfirst) : NULL;
    lay_out(&t, pieces, old, wide);
    tok_free(old);
    t.counted = o->nfirst ? 1 : 0;
    t.tau = o->tau ? o->tau : guess_tau(pieces, o->want);
    if (o->consume)
        pieces_free(o->consume);
    count_pairs(&t, wide);
    r.end = train(&t, &r, o, wide);
    trainer_free(&t);
    return r;
}

Bpe bpe_train(const Pieces *pieces, size_t want, Progress *line)
{
    return bpe_train_with(pieces, &(BpeOptions){ .want = want, .line = line });
}

/* First pieces and words, then words and refs; refs and their pairs grow by up to a half. */
size_t bpe_memory(const Pieces *v, size_t want)
{
    size_t symbol = want > 65536 - 256 ? 4 : 2, bytes = v->bytes.n;
    size_t words = v->n * 8 + bytes * symbol, refs = (bytes > v->n ? bytes - v->n : 0) * 6;
    size_t before = v->n * sizeof(Piece) + bytes;
    return words + (before > refs ? before : refs) + (256 + want) * 64 + (8 << 20);
}

void bpe_free(Bpe *b)
{
    free(b->pair), free(b->count);
    *b = (Bpe){0};
}
