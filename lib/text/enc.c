/* enc.c -- encoding text with a tokenizer; see tok.h and enc.h.
 *
 * Pieces are looked up in the tables of enc_cache.h. What is not there is encoded by enc_scan.c,
 * enc_chars.c or enc_heap.c, or for tokenizers that cannot be numbered as plain ones by
 * tok_piece(). Short ones wait until there are several, so that they are merged together: mostly
 * that is waiting for memory. What comes after them is put out meanwhile, and moved. */
#include "text/enc.h"
#include "base/cpu.h"
#include "text/enc_cache.h"
#include "text/nfc.h"
#include "text/split.h"
#include "text/utf8.h"
#include <assert.h>
#include <stdlib.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif
#define XXH_INLINE_ALL          /* of short pieces, many times */
#include <xxhash.h>

enum { ENDS = 512 };

/* A piece that is in no table: of up to KEY bytes with its key, or with hi 0; its ids go to
 * out[at]. */
typedef struct Miss { uint64_t lo, hi, hash; const char *s; size_t n, at; Few few; } Miss;
_Static_assert((int)KEY <= (int)FEW_SYMBOLS, "short pieces can be merged together");

typedef size_t Pieces(TokEnc *e, const char *s, ptrdiff_t safe, const uint32_t *end, size_t count,
                      void *out, size_t at);

struct TokEnc {
    EncModel *m;
    const Tok *t;
    bool plain;                 /* encmodel_plain() */
    SplitKind kind;
    size_t longest;             /* bytes of a token */
    int bits;                   /* entries of the table, log2 */
    EncCache c;
    Miss miss[FEW]; size_t misses;              /* they wait for each other */
    uint32_t tmp[SCAN_MAX];     /* ids of a piece */
    PieceRoom piece;
    Ids ids;                    /* of a long piece, and of tok_piece() */
    Buf fixed;                  /* a repaired text */
    Buf normal;                 /* a text in form NFC */
    Pieces *const *pieces;      /* [3]: see pieces_of() */
};

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

/* ---- an encoder ------------------------------------------------------------------------ */

TokEnc *tokenc_sized(const Tok *t, int bits)
{
    TokEnc *e = xcalloc(1, sizeof *e);
    e->m = encmodel_new(t);
    e->t = t;
    e->plain = encmodel_plain(e->m);
    e->kind = tok_split(t);
    e->longest = (size_t)tok_max_length(t);
    e->bits = bits;
    return e;
}

TokEnc *tokenc_new(const Tok *t)
{
    return tokenc_sized(t, 18);                         /* 8 MB */
}

TokEnc *tokenc_share(TokEnc *from)
{
    TokEnc *e = xcalloc(1, sizeof *e);
    e->m = encmodel_share(from->m);
    e->t = from->t, e->plain = from->plain, e->kind = from->kind, e->bits = from->bits;
    e->longest = from->longest;
    return e;
}

void tokenc_free(TokEnc *e)
{
    if (!e) return;
    encmodel_free(e->m);
    enccache_free(&e->c);
    piece_free(&e->piece), ids_free(&e->ids), buf_free(&e->fixed), buf_free(&e->normal);
    free(e);
}

/* ---- a piece --------------------------------------------------------------------------- */

static bool ends_wide(const char *s, size_t n)          /* in a character of three bytes */
{
    return n > 3 && (s[n - 3] & 0xf0) == 0xe0;
}

/* The token that it is, or -1. hash is that of enccache_token(). */
static inline int whole(const TokEnc *e, const char *s, size_t n, uint64_t hash)
{
    return n <= e->longest && enccache_token(&e->c, hash) ? tok_find(e->t, s, n) : -1;
}

/* Encode it from nothing; the ids are in *id. */
static size_t by_merging(TokEnc *e, const char *s, size_t n, uint64_t hash, const uint32_t **id)
{
    e->ids.n = 0;
    if (!e->plain) {
        tok_piece(e->t, &e->piece, s, n, &e->ids);
        return *id = e->ids.id, e->ids.n;
    }
    const int token = whole(e, s, n, hash);
    uint32_t *v = e->tmp;
    size_t got = 0;
    *id = v;
    if (token >= 0) return v[0] = (uint32_t)token, 1;
    if (ends_wide(s, n)) got = enc_chars(e->m, s, n, v);
    else if (n <= scan_max(e->m)) got = enc_scan(e->m, s, n, v);
    if (!got) {
        enc_long(e->m, &e->piece, s, n, LONG_FIRST, &e->ids);
        v = e->ids.id, got = e->ids.n;
    }
    const uint32_t *ids = encmodel_ids(e->m);
    for (size_t i = 0; ids && i < got; i++) v[i] = ids[v[i]];
    return *id = v, got;
}

static size_t put_all(void *out, int width, size_t at, const uint32_t *id, size_t n)
{
    for (size_t i = 0; i < n; i++) put(out, width, at + i, id[i]);
    return n;
}

/* A piece that is in no table, and goes to that of long ones; the ids are in *id. */
static size_t new_ids(TokEnc *e, const char *s, size_t n, uint64_t hash, const uint32_t **id)
{
    size_t got = by_merging(e, s, n, hash, id);
    enccache_put_long(&e->c, s, n, hash, *id, got);
    return got;
}

/* A piece that is not in the table of short ones; the ids are in *id. */
static size_t long_ids(TokEnc *e, const char *s, size_t n, uint64_t hash, const uint32_t **id)
{
    size_t got;
    *id = n <= LONG ? enccache_long(&e->c, s, n, hash, &got) : NULL;
    return *id ? got : new_ids(e, s, n, hash, id);
}

/* Can it wait, being no token? */
static bool few(const TokEnc *e, Few *f, const char *s, size_t n, uint64_t hash)
{
    if (!e->plain || whole(e, s, n, hash) >= 0) return false;
    if (ends_wide(s, n) && few_chars(e->m, f, s, n)) return true;
    if (n > FEW_SYMBOLS) return false;
    few_bytes(f, s, n);
    return true;
}

/* The same, put out; or made to wait, 0. */
static __attribute__((noinline))
size_t encode_long(TokEnc *e, const char *s, size_t n, void *out, size_t at, int width)
{
    uint64_t hash = n <= LONG ? XXH3_64bits(s, n) : xxh3(s, n);
    size_t got = 0;
    const uint32_t *id = n <= LONG ? enccache_long(&e->c, s, n, hash, &got) : NULL;
    Miss *m = &e->miss[e->misses];
    if (!id && n > KEY && few(e, &m->few, s, n, hash)) {
        m->lo = m->hi = 0, m->hash = hash, m->at = at, m->s = s, m->n = n;
        e->misses++;
        return 0;
    }
    if (!id) got = new_ids(e, s, n, hash, &id);
    return put_all(out, width, at, id, got);
}

/* Does enc_scan_few() encode it? If not, it is done here. */
static bool in_turn(TokEnc *e, Miss *m)
{
    const uint32_t *id;
    if (!m->hi) return true;
    const Entry *x = enccache_find(&e->c, m->lo, m->hi);
    m->few.n = x ? entry_ids(&e->c, x, m->few.id) : 0;
    if (m->few.n) return false;
    m->hash = key_hash(m->lo, m->hi);
    if (!x && few(e, &m->few, m->s, m->n, m->hash)) return true;
    m->few.n = x ? long_ids(e, m->s, m->n, xxh3(m->s, m->n), &id)
                 : by_merging(e, m->s, m->n, m->hash, &id);
    assert(m->few.n <= m->n);
    memcpy(m->few.id, id, m->few.n * sizeof *id);
    return false;
}

static void encode_misses(TokEnc *e)
{
    const uint32_t *ids = encmodel_ids(e->m);
    Few *turn[FEW];
    size_t n = 0;
    for (size_t k = 0; k < e->misses; k++)
        if (in_turn(e, &e->miss[k])) turn[n++] = &e->miss[k].few;
    if (n) enc_scan_few(e->m, turn, n);
    for (size_t k = 0; k < n && ids; k++)
        for (size_t i = 0; i < turn[k]->n; i++) turn[k]->id[i] = ids[turn[k]->id[i]];
    for (size_t k = 0; k < e->misses; k++) {
        const Miss *m = &e->miss[k];
        if (!m->hi) enccache_put_long(&e->c, m->s, m->n, m->hash, m->few.id, m->few.n);
        else if (!enccache_find(&e->c, m->lo, m->hi))
            enccache_put(&e->c, m->lo, m->hi, m->few.id, m->few.n);
    }
}

/* The ids of the pieces that wait go to their places in out, which has `at` others; returns how
 * many there are then. */
static __attribute__((noinline))
size_t put_misses(TokEnc *e, void *out, size_t at, int width)
{
    size_t end = at, shift = 0, w = (size_t)width;
    encode_misses(e);
    for (size_t k = 0; k < e->misses; k++) shift += e->miss[k].few.n;
    at += shift;
    while (e->misses) {
        const Miss *m = &e->miss[--e->misses];
        char *from = (char *)out + m->at * w;
        memmove(from + shift * w, from, (end - m->at) * w);
        end = m->at, shift -= m->few.n;
        put_all(out, width, end + shift, m->few.id, m->few.n);
    }
    return at;
}

static inline void add_miss(TokEnc *e, const char *s, size_t n, const uint64_t key[2],
                            const Entry *home, size_t at)
{
    Miss *m = &e->miss[e->misses++];
    m->lo = key[0], m->hi = key[1], m->at = at, m->s = s, m->n = n;
    __builtin_prefetch(enccache_beside(&e->c, home));
    __builtin_prefetch(enccache_bits(&e->c, key_hash(key[0], key[1])));
}

/* ---- a text ---------------------------------------------------------------------------- */

static const uint64_t low_mask[16][2] __attribute__((aligned(16))) = {
#define FF(n) (n >= 8 ? ~0ull : (1ull << (8 * (n) & 63)) - 1)
#define ROW(n) { FF(n), (n > 8 ? FF((n > 8 ? n - 8 : 0)) : 0) }
    ROW(0), ROW(1), ROW(2), ROW(3), ROW(4), ROW(5), ROW(6), ROW(7),
    ROW(8), ROW(9), ROW(10), ROW(11), ROW(12), ROW(13), ROW(14), ROW(15)
};

typedef uint16_t Half8 __attribute__((vector_size(16)));
typedef uint32_t Word8 __attribute__((vector_size(32)));

enum { AHEAD = 64 };            /* pieces whose entries are asked for before they are looked at */
/* Home of a piece longer than KEY: its key is 0, as these are, so that it is known, with 0 ids. */
static const Entry no_key[2] __attribute__((aligned(64)));

/* n ids of 8 (4, if cw is 4) that were stored together go to out[at], all of them: as whole
 * registers. */
static inline __attribute__((always_inline))
void put_ids(const void *ids, void *out, size_t at, const int cw, const int ow)
{
    if (cw == 2 && ow == 2) {
        memcpy((uint16_t *)out + at, ids, 16);
    } else if (cw == 2) {
        Half8 h;
        memcpy(&h, ids, 16);
        Word8 w = __builtin_convertvector(h, Word8);
        memcpy((uint32_t *)out + at, &w, 32);
    } else if (ow == 4) {
        memcpy((uint32_t *)out + at, ids, 16);
    }
}

/* A piece that is not in its line, or in the second table. Returns how many ids are in out. */
static inline __attribute__((always_inline))
size_t encode_other(TokEnc *e, const char *s, size_t n, bool known, const void *key,
                    const Entry *home, void *out, size_t at, int ow)
{
    uint64_t both[2];
    memcpy(both, key, sizeof both);
    if (!known) add_miss(e, s, n, both, home, at);
    else at += encode_long(e, s, n, out, at, ow);
    return e->misses == FEW ? put_misses(e, out, at, ow) : at;
}

/* ---- on any processor */

typedef struct Key_any { uint64_t lo, hi; } Key_any;

static inline Key_any key_any(const char *p, size_t n, bool near)
{
    Key_any k;
    if (near) {
        key_of(p, n, &k.lo, &k.hi);
    } else {
        k.lo = get_u64(p) & low_mask[n][0];
        k.hi = (get_u64(p + 8) & low_mask[n][1]) | (uint64_t)n << 56;
    }
    return k;
}

static inline uint64_t hash_any(Key_any k) { return key_hash(k.lo, k.hi); }

static inline const Entry *find_any(const Entry *home, Key_any k, bool *known)
{
    const uint64_t first = (home[0].lo ^ k.lo) | (home[0].hi ^ k.hi);
    const uint64_t second = (home[1].lo ^ k.lo) | (home[1].hi ^ k.hi);
    *known = !first || !second;
    return first ? home + 1 : home;
}

#define TIER(name) name##_any
#define TIER_ATTR
#include "text/enc_tier.h"

#ifdef __x86_64__
/* ---- with AVX-512: a key and a line are a register each */

#define TIER(name) name##_512
#define TIER_ATTR __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,bmi,bmi2")))

typedef __m128i Key_512;

static const uint64_t length[16][2] __attribute__((aligned(16))) = {
#define LENGTH(n) { 0, (uint64_t)(n) << 56 }
    LENGTH(0), LENGTH(1), LENGTH(2), LENGTH(3), LENGTH(4), LENGTH(5), LENGTH(6), LENGTH(7),
    LENGTH(8), LENGTH(9), LENGTH(10), LENGTH(11), LENGTH(12), LENGTH(13), LENGTH(14), LENGTH(15)
};

TIER_ATTR static inline __m128i key_512(const char *p, size_t n, bool near)
{
    const __m128i bytes = near ? _mm_maskz_loadu_epi8((__mmask16)((1u << n) - 1), p)
                               : _mm_loadu_si128((const __m128i *)p);
    return _mm_or_si128(_mm_and_si128(bytes, *(const __m128i *)low_mask[n]),
                        *(const __m128i *)length[n]);
}

TIER_ATTR static inline uint64_t hash_512(__m128i key)
{
    const __m128i by = _mm_set_epi64x((int64_t)KEY_HI, (int64_t)KEY_LO);
    const __m128i hash = _mm_mullo_epi64(key, by);
    return (uint64_t)_mm_cvtsi128_si64(_mm_xor_si128(hash, _mm_unpackhi_epi64(hash, hash)));
}

TIER_ATTR static inline const Entry *find_512(const Entry *home, __m128i key, bool *known)
{
    /* the line's first and third quarters are keys; 3 + 1 sets the next bit */
    const __m512i line = _mm512_load_si512(home), twice = _mm512_broadcast_i64x2(key);
    const unsigned is = 0x11u + _mm512_mask_cmpeq_epi64_mask(0x33, line, twice), first = is & 4;
    *known = is & 0x44;
    return home + (first ^ 4) / 4;
}

#include "text/enc_tier.h"
#endif

/* By the widths of ids in the table and out: 2 and 2, 2 and 4, 4 and 4. */
static Pieces *const *pieces_of(void)
{
#ifdef __x86_64__
    if (cpu_allows("avx512")) return pieces_512;
#endif
    return pieces_any;
}

void tok_encode_valid(TokEnc *e, const char *s, size_t n, TokOut *out)
{
    uint32_t ends[ENDS];
    if (!e->c.tab) enccache_make(&e->c, e->t, e->bits), e->pieces = pieces_of();
    if (tok_nfc(e->t)) s = nfc(&e->normal, s, n, &n);
    reserve(out, size_add(n, 8));
    for (size_t i = 0; i < n; ) {
        size_t count = split_kind_ends(e->kind, s, n, i, ends, ENDS);
        ptrdiff_t safe = (ptrdiff_t)(n - i) - 16;
        if (count == 0) {                       /* 4 GB or more */
            size_t end = split_kind_next(e->kind, s, n, i);
            out->n += encode_long(e, s + i, end - i, out->id, out->n, out->width);
            out->n = put_misses(e, out->id, out->n, out->width);
            i = end;
            continue;
        }
        Pieces *f = e->pieces[e->c.width == 4 ? 2 : out->width == 4];
        out->n = f(e, s + i, safe, ends, count, out->id, out->n);
        i += ends[count - 1];
    }
    out->n = put_misses(e, out->id, out->n, out->width);
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
