/* enc.c -- encoding text with a tokenizer; see tok.h and enc.h.
 *
 * Pieces of up to 15 bytes that became few tokens are looked up in a table of 32-byte entries, two
 * in a cache line: bytes and length as one 16-byte key, then the ids, which are stored all at once
 * whatever their number. It begins with the tokens themselves and takes in what is met, until 3/4
 * of it is full: then all but the tokens is forgotten. Other pieces of up to LONG_MAX bytes have a
 * second table. What neither knows is encoded by enc_piece.c or enc_walk.c, or for tokenizers that
 * are not plain by tok_piece(). */
#include "text/enc.h"
#include "text/enc_int.h"
#include "base/io.h"
#include "text/nfc.h"
#include "text/split.h"
#include "text/utf8.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { KEY = 15, ENDS = 512, SCAN_BEST = 16 };        /* bytes; longer pieces are walked */
enum { LONG_MAX_ = 256, LONG_BITS = 15, LONG_ROOM = 2 << 20 };
enum { TABLE_BITS = 17 };                               /* 4 MB */

typedef struct Entry {                                  /* hi is 0: empty */
    uint64_t lo, hi;                                    /* bytes 0..7, 8..14; the length on top */
    union {
        struct { uint16_t id[7], n; } w2;               /* up to 65,536 ids */
        struct { uint32_t id[3], n; } w4;
    };
} Entry;
_Static_assert(sizeof(Entry) == 32, "two to a cache line");

typedef struct Long { uint32_t hash, at, bytes, n; } Long;      /* n is 0: empty */

struct TokEnc {
    EncModel *m;
    const Tok *t;
    bool plain;
    SplitKind kind;
    int width;                  /* of ids in Entry */
    Entry *tab; size_t mask, used, seeds;
    bool all_seeded;            /* no token of up to KEY bytes is missing there */
    int shift;
    uint64_t *seed;             /* a bit per entry of tab: a token, not to be forgotten */
    Long *lng; size_t nlong;
    char *room; size_t roomy;   /* of lng: the bytes, and then the ids, from a multiple of 4 on */
    uint32_t *tmp; size_t ntmp; /* ids of a piece */
    WalkRoom walk;
    PieceRoom piece;
    Ids ids;                    /* of tok_piece() */
    Buf fixed;                  /* a repaired text */
    Buf normal;                 /* a text in form NFC */
};

void *huge_alloc(size_t n)
{
    const size_t big = 2 << 20, unit = n >= big ? big : 64;
    size_t round = (size_add(n, unit - 1)) & ~(unit - 1);
    void *p = aligned_alloc(unit, round);
    if (!p) die("out of memory (%zu bytes)", n);
    if (unit == big) madvise(p, round, MADV_HUGEPAGE);
    memset(p, 0, round);
    return p;
}

/* ---- growing outputs ---------------------------------------------------------------- */

static size_t grown(size_t cap, size_t n, size_t more)
{
    size_t want = size_add(n, more), twice = cap < 32 ? 64 : size_mul(cap, 2);
    return want > twice ? want : twice;
}

void ids_add(Ids *v, uint32_t id)
{
    if (v->n == v->cap) {
        v->cap = grown(v->cap, v->n, 1);
        v->id = xreallocarray(v->id, v->cap, sizeof *v->id);
    }
    v->id[v->n++] = id;
}

void ids_free(Ids *v)
{
    free(v->id);
    *v = (Ids){0};
}

static void reserve(TokOut *out, size_t more)
{
    if (more <= out->cap - out->n) return;
    out->cap = grown(out->cap, out->n, more);
    out->id = xreallocarray(out->id, out->cap, (size_t)out->width);
}

static inline void put(void *out, int width, size_t at, uint32_t id)
{
    if (width == 2) ((uint16_t *)out)[at] = (uint16_t)id;
    else ((uint32_t *)out)[at] = id;
}

void tokout_add(TokOut *out, uint32_t id)
{
    reserve(out, 1);
    put(out->id, out->width, out->n++, id);
}

void tokout_free(TokOut *out)
{
    free(out->id);
    out->id = NULL;
    out->n = out->cap = 0;
}

/* ---- the table of short pieces --------------------------------------------------------- */

static inline uint64_t mix(uint64_t lo, uint64_t hi)
{
    return lo * 0x9e3779b97f4a7c15u ^ hi * 0xd6e8feb86659fd93u;
}

/* The entry of the key, or the empty one where it would go. The line of its home comes first. */
static Entry *entry_of(const TokEnc *e, uint64_t lo, uint64_t hi)
{
    for (size_t i = (size_t)(mix(lo, hi) >> e->shift); ; i = (i + 2) & e->mask) {
        Entry *p = &e->tab[i], *q = &e->tab[i ^ 1];
        if (p->lo == lo && p->hi == hi) return p;
        if (q->lo == lo && q->hi == hi) return q;
        if (!p->hi) return p;
        if (!q->hi) return q;
    }
}

static inline void key_of(const char *s, size_t n, uint64_t *lo, uint64_t *hi)
{
    uint64_t k[2] = {0};
    memcpy(k, s, n);
    *lo = k[0];
    *hi = k[1] | (uint64_t)n << 56;
}

static void entry_fill(const TokEnc *e, Entry *p, uint64_t lo, uint64_t hi, const uint32_t *id,
                       size_t n)
{
    p->lo = lo, p->hi = hi;
    for (size_t i = 0; i < n; i++)
        if (e->width == 2) p->w2.id[i] = (uint16_t)id[i];
        else p->w4.id[i] = id[i];
    if (e->width == 2) p->w2.n = (uint16_t)n;
    else p->w4.n = (uint32_t)n;
}

/* The tokens of up to 15 bytes, in the order of ids, which is about that of their frequency. With a
 * tokenizer that is not plain, a piece that is a token need not become that token. */
static void table_seed(TokEnc *e)
{
    size_t most = (e->mask + 1) / 8 * 3;
    if (!e->plain) return;
    e->all_seeded = true;
    for (int id = 0; id < tok_vocab(e->t); id++) {
        uint64_t lo, hi;
        size_t n;
        const char *s = tok_bytes(e->t, id, &n);
        if (tok_is_special(e->t, id) || n > KEY) continue;
        if (e->seeds == most) {
            e->all_seeded = false;
            break;
        }
        key_of(s, n, &lo, &hi);
        Entry *p = entry_of(e, lo, hi);
        entry_fill(e, p, lo, hi, &(uint32_t){ (uint32_t)id }, 1);
        size_t i = (size_t)(p - e->tab);
        e->seed[i / 64] |= (uint64_t)1 << (i % 64);
        e->seeds++;
    }
    e->used = e->seeds;
}

/* Tokens came first, so no path to one leads over what is removed here. */
static void table_wipe(TokEnc *e)
{
    for (size_t i = 0; i <= e->mask; i++)
        if (!(e->seed[i / 64] >> (i % 64) & 1)) e->tab[i].hi = 0;
    e->used = e->seeds;
}

TokEnc *tokenc_sized(const Tok *t, int bits)
{
    TokEnc *e = xcalloc(1, sizeof *e);
    e->m = encmodel_new(t);
    e->t = t;
    e->plain = tok_plain(t);
    e->kind = tok_split(t);
    e->width = tok_vocab(t) <= 65536 ? 2 : 4;
    e->mask = ((size_t)1 << bits) - 1;
    e->shift = 64 - bits;
    return e;
}

/* The tables, when the first text comes. */
static void tables(TokEnc *e)
{
    e->tab = huge_alloc((e->mask + 1) * sizeof *e->tab);
    e->seed = xcalloc(e->mask / 64 + 1, sizeof *e->seed);
    e->lng = huge_alloc(sizeof *e->lng << LONG_BITS);
    e->room = huge_alloc(LONG_ROOM);
    table_seed(e);
}

TokEnc *tokenc_new(const Tok *t)
{
    return tokenc_sized(t, TABLE_BITS);
}

TokEnc *tokenc_share(TokEnc *from)
{
    TokEnc *e = xcalloc(1, sizeof *e);
    e->m = encmodel_share(from->m);
    e->t = from->t, e->plain = from->plain, e->kind = from->kind, e->width = from->width;
    e->mask = from->mask, e->shift = from->shift;
    return e;
}

void tokenc_free(TokEnc *e)
{
    if (!e) return;
    encmodel_free(e->m);
    free(e->tab), free(e->seed), free(e->lng), free(e->room), free(e->tmp);
    free(e->walk.dead), free(e->walk.seen);
    piece_free(&e->piece), ids_free(&e->ids), buf_free(&e->fixed), buf_free(&e->normal);
    free(e);
}

/* ---- a piece -------------------------------------------------------------------------- */

/* Encode it from nothing; the ids are in *id. */
static size_t by_merging(TokEnc *e, const char *s, size_t n, const uint32_t **id)
{
    if (e->plain) {
        int whole = n <= KEY && e->all_seeded ? -1 : tok_find(e->t, s, n);
        if (n > e->ntmp) {
            e->ntmp = grown(e->ntmp, 0, n);
            free(e->tmp);
            e->tmp = xreallocarray(NULL, e->ntmp, sizeof *e->tmp);
        }
        *id = e->tmp;
        if (whole >= 0) return e->tmp[0] = (uint32_t)whole, 1;
        if (n <= SCAN_BEST) return enc_scan(e->m, s, n, e->tmp);
        if (walk_can(e->m)) return enc_walk(e->m, &e->walk, s, n, e->tmp);
    }
    if (n >= UINT32_MAX)
        die("a stretch of %zu bytes without a place to split it: less than 2^32 are possible", n);
    e->ids.n = 0;
    tok_piece(e->t, &e->piece, s, n, &e->ids);
    *id = e->ids.id;
    return e->ids.n;
}

static Long *long_slot(const TokEnc *e, const char *s, size_t n, uint32_t hash)
{
    size_t mask = ((size_t)1 << LONG_BITS) - 1;
    for (size_t i = hash & mask; ; i = (i + 1) & mask) {
        Long *p = &e->lng[i];
        if (!p->n || (p->hash == hash && p->bytes == n && !memcmp(e->room + p->at, s, n))) return p;
    }
}

static void long_put(TokEnc *e, Long *p, const char *s, size_t n, uint32_t hash, const uint32_t *id,
                     size_t ids)
{
    size_t at = (e->roomy + 3) & ~(size_t)3, to = at + ((n + 3) & ~(size_t)3), end = to + 4 * ids;
    if (end > LONG_ROOM || e->nlong == ((size_t)3 << LONG_BITS) / 4) {
        memset(e->lng, 0, sizeof *e->lng << LONG_BITS);
        e->nlong = e->roomy = 0;
        p = long_slot(e, s, n, hash);
        end -= at, to -= at, at = 0;
    }
    memcpy(e->room + at, s, n);
    memcpy(e->room + to, id, 4 * ids);
    *p = (Long){ hash, (uint32_t)at, (uint32_t)n, (uint32_t)ids };
    e->roomy = end;
    e->nlong++;
}

/* A piece that is not in the table of short ones; returns how many ids. */
static size_t encode_piece(TokEnc *e, const char *s, size_t n, void *out, size_t at, int width)
{
    const uint32_t *id;
    size_t got;
    if (n <= LONG_MAX_) {
        uint32_t hash = (uint32_t)xxh3(s, n);
        Long *p = long_slot(e, s, n, hash);
        if (p->n) {
            got = p->n;
            id = (const uint32_t *)(const void *)(e->room + p->at + ((n + 3) & ~(size_t)3));
        } else {
            got = by_merging(e, s, n, &id);
            long_put(e, p, s, n, hash, id, got);
        }
    } else {
        got = by_merging(e, s, n, &id);
    }
    for (size_t i = 0; i < got; i++) put(out, width, at + i, id[i]);
    return got;
}

/* A short piece that is not in the line of its home, or that has 0 ids there. Returns how many
 * ids. */
static __attribute__((noinline))
size_t encode_rare(TokEnc *e, const char *s, size_t n, void *out, size_t at, int width)
{
    uint64_t lo, hi;
    key_of(s, n, &lo, &hi);
    Entry *p = entry_of(e, lo, hi);
    size_t most = e->width == 2 ? 7 : 3;
    size_t got = !p->hi ? 0 : e->width == 2 ? p->w2.n : p->w4.n;
    const uint32_t *id;
    if (got) {
        for (size_t i = 0; i < got; i++)
            put(out, width, at + i, e->width == 2 ? p->w2.id[i] : p->w4.id[i]);
        return got;
    }
    if (p->hi) return encode_piece(e, s, n, out, at, width);
    got = by_merging(e, s, n, &id);
    for (size_t i = 0; i < got; i++) put(out, width, at + i, id[i]);
    if (4 * e->used >= 3 * e->mask) {
        table_wipe(e);
        p = entry_of(e, lo, hi);
    }
    if (got > most) {
        long_put(e, long_slot(e, s, n, (uint32_t)xxh3(s, n)), s, n, (uint32_t)xxh3(s, n), id, got);
        entry_fill(e, p, lo, hi, id, 0);        /* 0 ids: it is in the other table, or was */
    } else {
        entry_fill(e, p, lo, hi, id, got);
    }
    e->used++;
    return got;
}

/* ---- a text ---------------------------------------------------------------------------- */

static const uint64_t low_mask[16][2] = {
#define FF(n) (n >= 8 ? ~0ull : (1ull << (8 * (n) & 63)) - 1)
#define ROW(n) { FF(n), (n > 8 ? FF((n > 8 ? n - 8 : 0)) : 0) }
    ROW(0), ROW(1), ROW(2), ROW(3), ROW(4), ROW(5), ROW(6), ROW(7),
    ROW(8), ROW(9), ROW(10), ROW(11), ROW(12), ROW(13), ROW(14), ROW(15)
};

typedef uint16_t Half8 __attribute__((vector_size(16)));
typedef uint32_t Word8 __attribute__((vector_size(32)));

typedef struct Ahead { uint64_t lo, hi; const Entry *home; } Ahead;
enum { AHEAD = 32 };            /* pieces whose entries are asked for before they are looked at */
static const Entry no_key[2] __attribute__((aligned(64)));
                                /* home of what is no key: 0 ids */

/* Keys of pieces from `from` on, and their entries on the way to the cache; `near`: 16 bytes cannot
 * be read from each of them. A longer piece has the key 0, as no_key has. */
static inline __attribute__((always_inline))
void look_ahead(const TokEnc *e, Ahead *a, const char *s, size_t from, const uint32_t *end,
                size_t count, const bool near)
{
    const Entry *const tab = e->tab;
    const int shift = e->shift;
    for (size_t k = 0; k < count; k++, a++) {
        const char *p = s + from;
        size_t n = end[k] - from;
        from = end[k];
        if (__builtin_expect(n > KEY, 0)) {
            *a = (Ahead){ 0, 0, no_key };
            continue;
        }
        uint64_t lo, hi;
        if (near) {
            key_of(p, n, &lo, &hi);
        } else {
            memcpy(&lo, p, 8), memcpy(&hi, p + 8, 8);
            lo &= low_mask[n][0], hi &= low_mask[n][1];
            hi |= (uint64_t)n << 56;
        }
        a->lo = lo, a->hi = hi;
        a->home = tab + (mix(lo, hi) >> shift);
        __builtin_prefetch(a->home);
    }
}

static __attribute__((noinline))
void look_ahead_near(const TokEnc *e, Ahead *a, const char *s, size_t from, const uint32_t *end,
                     size_t count)
{
    look_ahead(e, a, s, from, end, count, true);
}

/* Pieces s + (k ? end[k - 1] : 0) .. s + end[k]; out has room for 8 ids more than they become.
 * Returns how many ids are in out. 16 bytes may be read from s + safe and before. cw is the width
 * of ids in the table, ow that in out. */
static inline __attribute__((always_inline))
size_t encode_pieces(TokEnc *e, const char *s, ptrdiff_t safe, const uint32_t *end, size_t count,
                     void *out, size_t at, const int cw, const int ow)
{
    Ahead ahead[AHEAD];
    for (size_t from = 0, k = 0, some; count; count -= some, end += some) {
        some = count < AHEAD ? count : AHEAD;
        if ((ptrdiff_t)end[some - 1] <= safe) look_ahead(e, ahead, s, from, end, some, false);
        else look_ahead_near(e, ahead, s, from, end, some);
        for (k = 0; k < some; k++) {
            const Ahead *a = &ahead[k];
            const Entry *x = a->home, *y = (const Entry *)((uintptr_t)x ^ sizeof *x);
            uint64_t first = (x->lo ^ a->lo) | (x->hi ^ a->hi);
            uint64_t second = (y->lo ^ a->lo) | (y->hi ^ a->hi);
            x = first ? y : x;
            size_t got = cw == 2 ? x->w2.n : x->w4.n;
            if (__builtin_expect((first && second) || !got, 0)) {
                size_t start = k ? end[k - 1] : from, n = end[k] - start;
                if (a->hi) at += encode_rare(e, s + start, n, out, at, ow);
                else at += encode_piece(e, s + start, n, out, at, ow);
                continue;
            }
            if (cw == 2 && ow == 2) {
                memcpy((uint16_t *)out + at, &x->w2, 16);
            } else if (cw == 2) {
                Half8 h;
                memcpy(&h, &x->w2, 16);
                Word8 w = __builtin_convertvector(h, Word8);
                memcpy((uint32_t *)out + at, &w, 32);
            } else if (ow == 4) {
                memcpy((uint32_t *)out + at, &x->w4, 16);
            }
            at += got;
        }
        from = end[some - 1];
    }
    return at;
}

#define PIECES(cw, ow)                                                                          \
    static size_t pieces_##cw##_##ow(TokEnc *e, const char *s, ptrdiff_t safe,                   \
                                     const uint32_t *end, size_t count, void *out, size_t at)    \
    {                                                                                            \
        return encode_pieces(e, s, safe, end, count, out, at, cw, ow);                           \
    }
PIECES(2, 2)
PIECES(2, 4)
PIECES(4, 4)

/* split_ends() for any kind of pattern. */
static size_t ends_of(const TokEnc *e, const char *s, size_t n, size_t from, uint32_t *ends)
{
    if (e->kind == SPLIT_NANOCHAT) return split_ends(s, n, from, ends, ENDS);
    size_t count = 0;
    for (size_t i = from; i < n && count < ENDS; count++) {
        i = split_kind_next(e->kind, s, n, i);
        if (i - from > UINT32_MAX) break;
        ends[count] = (uint32_t)(i - from);
    }
    return count;
}

void tok_encode_valid(TokEnc *e, const char *s, size_t n, TokOut *out)
{
    uint32_t ends[ENDS];
    if (!e->tab) tables(e);
    if (tok_nfc(e->t)) s = nfc(&e->normal, s, n, &n);
    reserve(out, size_add(n, 8));
    for (size_t i = 0; i < n; ) {
        size_t count = ends_of(e, s, n, i, ends);
        ptrdiff_t safe = (ptrdiff_t)(n - i) - 16;
        if (count == 0) {                       /* 4 GB or more */
            size_t end = split_kind_next(e->kind, s, n, i);
            out->n += encode_piece(e, s + i, end - i, out->id, out->n, out->width);
            i = end;
            continue;
        }
        out->n = (e->width == 4 ? pieces_4_4 : out->width == 2 ? pieces_2_2 : pieces_2_4)
                     (e, s + i, safe, ends, count, out->id, out->n);
        i += ends[count - 1];
    }
}

uint64_t tok_encode(TokEnc *e, const char *s, size_t n, Ids *ids)
{
    uint64_t bad = 0;
    if (utf8_valid(s, n) < n) {
        buf_clear(&e->fixed);
        bad = utf8_repair(&e->fixed, s, n);
        s = e->fixed.s, n = e->fixed.n;
    }
    TokOut out = { ids->id, ids->n, ids->cap, 4 };
    tok_encode_valid(e, s, n, &out);
    ids->id = out.id, ids->n = out.n, ids->cap = out.cap;
    return bad;
}
