/* pack.c -- see pack.h. Documents lie in slots that are used again. Those that fit into a row
 * (n <= T+1) stand in one queue per length, over which a tree of 64-bit words tells which lengths
 * there are: the longest that fits and the shortest of all are a few word operations away. Longer
 * ones are only ever asked for the shortest, and stand in a heap. */
#include "text/pack.h"
#include "base/err.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { LEVELS = 5 };            /* 64^5 lengths: T+2 of at most 2^24 fit */

/* ---- a set of numbers below `size` -------------------------------------------- */

/* Bit i of a level says that word i of the level below is not 0. */
typedef struct Bits { uint64_t *word[LEVELS]; } Bits;

static void bits_init(Bits *b, size_t size)
{
    for (int k = 0; k < LEVELS; k++) {
        size = size / 64 + 1;
        b->word[k] = xcalloc(size, sizeof *b->word[k]);
    }
}

static void bits_free(Bits *b)
{
    for (int k = 0; k < LEVELS; k++) free(b->word[k]);
}

static void bits_add(Bits *b, size_t i)
{
    for (int k = 0; k < LEVELS; k++, i /= 64) b->word[k][i / 64] |= 1ull << i % 64;
}

static void bits_remove(Bits *b, size_t i)
{
    for (int k = 0; k < LEVELS; k++, i /= 64) {
        b->word[k][i / 64] &= ~(1ull << i % 64);
        if (b->word[k][i / 64] != 0) return;
    }
}

/* The largest member <= i, or SIZE_MAX. */
static size_t bits_last(const Bits *b, size_t i)
{
    for (int k = 0; k < LEVELS; k++) {
        uint64_t w = b->word[k][i / 64] & (~0ull >> (63 - i % 64));
        if (w != 0) {
            i = i / 64 * 64 + 63 - (size_t)__builtin_clzll(w);
            while (k-- > 0) i = i * 64 + 63 - (size_t)__builtin_clzll(b->word[k][i]);
            return i;
        }
        if (i / 64 == 0) break;
        i = i / 64 - 1;
    }
    return SIZE_MAX;
}

/* The smallest member, or SIZE_MAX. */
static size_t bits_first(const Bits *b)
{
    size_t i = 0;
    for (int k = LEVELS; k-- > 0; ) {
        uint64_t w = b->word[k][i];
        if (w == 0) return SIZE_MAX;
        i = i * 64 + (size_t)__builtin_ctzll(w);
    }
    return i;
}

/* ---- the buffer ---------------------------------------------------------------- */

typedef struct Slot {
    uint32_t *id;
    uint8_t *mask;
    uint64_t n;                 /* tokens of the document; only the first T+1 are kept */
    uint64_t seq;               /* order of arrival */
    size_t cap;
    uint32_t next;              /* in its queue, or in the list of free slots; slot + 1, 0 = none */
} Slot;

typedef struct Queue { uint32_t first, last; } Queue;   /* slot + 1 */

struct Pack {
    PackOpt o;
    PackRow *row;
    void *arg;
    PackStat stat;
    size_t len;                 /* T+1 */
    Slot *slot; uint32_t nslot, free_slot;
    Queue *queue;               /* [T+2], by length */
    Bits lengths;               /* those with a queue that is not empty */
    uint32_t *heap; uint32_t nheap, heap_cap;   /* slots of documents longer than a row */
    uint32_t count;             /* documents in the buffer */
    uint32_t *id; uint8_t *mask; size_t at;     /* the row being filled */
    uint64_t row_masks;         /* tokens with mask 1 in it */
};

Pack *pack_new(const PackOpt *o, PackRow *row, void *arg)
{
    Pack *p = xcalloc(1, sizeof *p);
    assert(o->T >= 1 && o->T < 1u << 29 && o->buffer >= 1);
    p->o = *o;
    p->row = row;
    p->arg = arg;
    p->len = (size_t)o->T + 1;
    p->queue = xcalloc(p->len + 1, sizeof *p->queue);
    bits_init(&p->lengths, p->len + 1);
    p->id = xreallocarray(NULL, p->len, sizeof *p->id);
    if (o->masks) p->mask = xmalloc(p->len);
    return p;
}

static bool before(const Pack *p, uint32_t a, uint32_t b)
{
    const Slot *s = &p->slot[a], *t = &p->slot[b];
    return s->n != t->n ? s->n < t->n : s->seq < t->seq;
}

static void heap_push(Pack *p, uint32_t s)
{
    if (p->nheap == p->heap_cap) {
        p->heap_cap = p->heap_cap ? 2 * p->heap_cap : 64;
        p->heap = xreallocarray(p->heap, p->heap_cap, sizeof *p->heap);
    }
    uint32_t i = p->nheap++;
    for (; i > 0 && before(p, s, p->heap[(i - 1) / 2]); i = (i - 1) / 2)
        p->heap[i] = p->heap[(i - 1) / 2];
    p->heap[i] = s;
}

static uint32_t heap_pop(Pack *p)
{
    uint32_t top = p->heap[0], s = p->heap[--p->nheap], i = 0;
    for (uint32_t c; (c = 2 * i + 1) < p->nheap; i = c) {
        if (c + 1 < p->nheap && before(p, p->heap[c + 1], p->heap[c])) c++;
        if (!before(p, p->heap[c], s)) break;
        p->heap[i] = p->heap[c];
    }
    p->heap[i] = s;             /* writes heap[0] once when the heap is empty now: there is room */
    return top;
}

static void queue_push(Pack *p, uint32_t s)
{
    Queue *q = &p->queue[p->slot[s].n];
    p->slot[s].next = 0;
    if (q->first) p->slot[q->last - 1].next = s + 1;
    else {
        q->first = s + 1;
        bits_add(&p->lengths, p->slot[s].n);
    }
    q->last = s + 1;
}

static uint32_t queue_pop(Pack *p, size_t length)
{
    Queue *q = &p->queue[length];
    uint32_t s = q->first - 1;
    q->first = p->slot[s].next;
    if (!q->first) bits_remove(&p->lengths, length);
    return s;
}

static uint32_t slot_take(Pack *p)
{
    if (p->free_slot) {
        uint32_t s = p->free_slot - 1;
        p->free_slot = p->slot[s].next;
        return s;
    }
    if (p->nslot >= UINT32_MAX / 2) die("too many documents buffered");
    if ((p->nslot & (p->nslot - 1)) == 0)       /* full at each power of two, and at 0 */
        p->slot = xreallocarray(p->slot, p->nslot ? 2 * (size_t)p->nslot : 1, sizeof *p->slot);
    memset(&p->slot[p->nslot], 0, sizeof *p->slot);
    return p->nslot++;
}

static void slot_give(Pack *p, uint32_t s)
{
    p->slot[s].next = p->free_slot;
    p->free_slot = s + 1;
}

static void slot_fill(Pack *p, uint32_t s, const uint32_t *id, const uint8_t *mask, size_t n)
{
    Slot *d = &p->slot[s];
    size_t keep = n < p->len ? n : p->len;
    d->n = n;
    d->seq = p->stat.docs;
    if (keep > d->cap) {
        d->id = xreallocarray(d->id, keep, sizeof *d->id);
        if (p->o.masks) d->mask = xrealloc(d->mask, keep);
        d->cap = keep;
    }
    memcpy(d->id, id, keep * sizeof *id);
    if (p->o.masks) memcpy(d->mask, mask, keep);
}

/* ---- packing ------------------------------------------------------------------- */

static uint64_t ones(const uint8_t *mask, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += mask[i] != 0;
    return sum;
}

static void buffer_put(Pack *p, uint32_t s)
{
    if (p->slot[s].n > p->len) heap_push(p, s);
    else queue_push(p, s);
    p->count++;
}

static void add(Pack *p, const uint32_t *id, const uint8_t *mask, size_t n)
{
    uint32_t s = slot_take(p);
    slot_fill(p, s, id, mask, n);
    buffer_put(p, s);
}

/* The first n tokens of slot s are in a row: the rest, after a bos, is a document of its own. */
static void keep_tail(Pack *p, uint32_t s, size_t n)
{
    Slot *d = &p->slot[s];
    size_t rest = (size_t)d->n - n;
    memmove(d->id + 1, d->id + n, rest * sizeof *d->id);
    d->id[0] = p->o.bos;
    if (p->o.masks) {
        memmove(d->mask + 1, d->mask + n, rest);
        d->mask[0] = 0;
    }
    d->n = rest + 1;
    p->stat.added++;
    buffer_put(p, s);
}

/* A document longer than a row: its first T+1 tokens, then bos and T more, and so on. */
static void add_pieces(Pack *p, const uint32_t *id, const uint8_t *mask, size_t n)
{
    uint32_t *piece = xreallocarray(NULL, p->len, sizeof *piece);
    uint8_t *piece_mask = p->o.masks ? xcalloc(p->len, 1) : NULL;
    add(p, id, mask, p->len);
    for (size_t at = p->len, k; at < n; at += k) {
        pack_run(p);
        k = n - at < p->o.T ? n - at : p->o.T;
        piece[0] = p->o.bos;
        memcpy(piece + 1, id + at, k * sizeof *id);
        if (piece_mask) memcpy(piece_mask + 1, mask + at, k);
        p->stat.added++;
        add(p, piece, piece_mask, k + 1);
    }
    free(piece);
    free(piece_mask);
}

void pack_add(Pack *p, const uint32_t *id, const uint8_t *mask, size_t n)
{
    assert((mask != NULL) == p->o.masks || n == 0);
    p->stat.docs++;
    p->stat.in += n;
    if (p->o.masks) p->stat.mask_in += ones(mask, n);
    if (n == 0) return;
    if (p->o.sft && n > p->len) {
        if (p->o.drop_long) {
            p->stat.dropped += n;
            p->stat.dropped_docs++;
            return;
        }
        p->stat.cropped += n - p->len;
        p->stat.cut_docs++;
        n = p->len;
    }
    if (p->o.keep_tails && n > p->len) add_pieces(p, id, mask, n);
    else add(p, id, mask, n);
}

static void row_done(Pack *p)
{
    p->row(p->arg, p->id, p->mask);
    p->stat.rows++;
    p->stat.mask_out += p->row_masks;
    p->stat.idle_rows += p->o.masks && p->row_masks == (p->mask[0] != 0);
    p->row_masks = 0;
    p->at = 0;
}

/* The first n tokens of slot s go into the row. */
static void row_put(Pack *p, uint32_t s, size_t n)
{
    Slot *d = &p->slot[s];
    memcpy(p->id + p->at, d->id, n * sizeof *d->id);
    if (p->o.masks) {
        memcpy(p->mask + p->at, d->mask, n);
        p->row_masks += ones(d->mask, n);
    }
    p->at += n;
    p->stat.out += n;
    p->count--;
    if (p->o.keep_tails && d->n > n) {
        keep_tail(p, s, n);
    } else {
        p->stat.cropped += d->n - n;
        p->stat.cut_docs += d->n > n;
        slot_give(p, s);
    }
    if (p->at == p->len) row_done(p);
}

static void row_pad(Pack *p)
{
    p->stat.padding += p->len - p->at;
    for (size_t i = p->at; i < p->len; i++) p->id[i] = p->o.bos;
    if (p->o.masks) memset(p->mask + p->at, 0, p->len - p->at);
    row_done(p);
}

static void place(Pack *p)
{
    size_t left = p->len - p->at, fit = bits_last(&p->lengths, left);
    if (fit != SIZE_MAX) {
        row_put(p, queue_pop(p, fit), fit);
    } else if (p->o.sft) {
        row_pad(p);             /* never of an empty row: every conversation fits into that */
    } else {
        size_t shortest = bits_first(&p->lengths);
        row_put(p, shortest != SIZE_MAX ? queue_pop(p, shortest) : heap_pop(p), left);
    }
}

void pack_run(Pack *p)
{
    while (p->count >= p->o.buffer) place(p);
}

static void pack_free(Pack *p)
{
    for (uint32_t i = 0; i < p->nslot; i++) {
        free(p->slot[i].id);
        free(p->slot[i].mask);
    }
    free(p->slot);
    free(p->queue);
    free(p->heap);
    bits_free(&p->lengths);
    free(p->id);
    free(p->mask);
    free(p);
}

PackStat pack_end(Pack *p)
{
    while (p->count > 0) place(p);
    if (p->at > 0 && p->o.sft) row_pad(p);
    p->stat.dropped += p->at;   /* of pretraining: a last row that is not full */
    p->stat.out -= p->at;
    PackStat s = p->stat;
    assert(s.in + s.added == s.out + s.cropped + s.dropped);
    assert(s.out + s.padding == s.rows * p->len);
    pack_free(p);
    return s;
}
