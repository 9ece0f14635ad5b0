/* enc_scan.c -- a piece that is no token, by the merges of a plain tokenizer: see enc_int.h. */
#include "text/enc_int.h"
#include "base/cpu.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include "text/enc_avx2.h"
#endif

struct EncModel {
    const Tok *t;               /* plain, or none of the rest is there */
    const uint32_t *ids;        /* of the tokenizer that t stands for; NULL: of itself */
    atomic_int users;
    PairTable pairs;
    bool simd, vbmi2;           /* AVX2, and a table of pairs; AVX-512 with VBMI2 as well */
    uint16_t *bytes;            /* [65536] merge of two bytes, or 0xffff; NULL: ids are too large */
    pthread_mutex_t lock;       /* of what is made when it is first needed */
    atomic_int chars_state;     /* 0: not tried, 1: can, 2: cannot */
    struct CharTables *chars;
};

const PairTable *encmodel_pairs(const EncModel *m)
{
    return &m->pairs;
}

const int32_t *encmodel_lengths(const EncModel *m)
{
    return tok_byte_lengths(m->t);
}

static bool has_avx2(void)
{
#ifdef __x86_64__
    return cpu_allows("avx2");
#else
    return false;
#endif
}

/* Two that follow each other in memory, as a number of 16 bits; little-endian, as simd is. */
static inline uint32_t two_bytes(uint32_t a, uint32_t b) { return a | b << 8; }

static uint16_t *bytes_new(const PairTable *m)
{
    const uint32_t (*pair)[2];
    size_t merges = tok_merges(m->t, &pair);
    uint16_t *bytes = xreallocarray(NULL, 65536, sizeof *bytes);
    memset(bytes, 0xff, 65536 * sizeof *bytes);
    for (size_t k = 0; k < merges; k++)
        if (pair[k][0] < 256 && pair[k][1] < 256)
            bytes[two_bytes(pair[k][0], pair[k][1])] = (uint16_t)(256 + k);
    return bytes;
}

EncModel *encmodel_new(const Tok *t)
{
    EncModel *m = xcalloc(1, sizeof *m);
    m->users = 1;
    pthread_mutex_init(&m->lock, NULL);
    const Tok *plain = tok_renumbered(t, &m->ids);
    m->t = t = plain ? plain : t;
    if (!tok_plain(t)) return m;
    pairs_make(&m->pairs, t);
    m->simd = (m->pairs.slot || m->pairs.wide) && has_avx2();
    m->vbmi2 = m->simd && cpu_allows_vbmi2();
    if (m->simd && m->pairs.slot) m->bytes = bytes_new(&m->pairs);
    return m;
}

bool encmodel_plain(const EncModel *m) { return tok_plain(m->t); }
const uint32_t *encmodel_ids(const EncModel *m) { return m->ids; }

EncModel *encmodel_share(EncModel *m)
{
    atomic_fetch_add(&m->users, 1);
    return m;
}

void encmodel_free(EncModel *m)
{
    if (atomic_fetch_sub(&m->users, 1) > 1) return;
    pthread_mutex_destroy(&m->lock);
    pairs_free(&m->pairs);
    free(m->bytes), free(m->chars);
    free(m);
}

static bool chars_can(EncModel *m)
{
    int state = atomic_load_explicit(&m->chars_state, memory_order_acquire);
    if (state) return state == 1;
    pthread_mutex_lock(&m->lock);
    if (!m->chars_state) {
        m->chars = char_tables_new(m, m->t);
        atomic_store_explicit(&m->chars_state, m->chars ? 1 : 2, memory_order_release);
    }
    pthread_mutex_unlock(&m->lock);
    return m->chars != NULL;
}

/* ---- merging ---------------------------------------------------------------------- */

/* Positions count from 1; 0 and n + 1 are the borders. */
typedef struct Links { uint16_t next[SCAN_MAX + 2], prev[SCAN_MAX + 2]; } Links;

static inline void links_init(Links *l, size_t n)
{
    for (size_t i = 0; i < n + 1; i++) l->next[i] = (uint16_t)(i + 1), l->prev[i + 1] = (uint16_t)i;
    l->next[n + 1] = (uint16_t)(n + 1);
}

static inline size_t links_out(const Links *l, const Symbols *w, uint32_t *out)
{
    size_t got = 0;
    for (size_t i = 1; i <= w->n; i = l->next[i]) out[got++] = w->id[i];
    return got;
}

static inline uint32_t key_of(const PairTable *m, const Symbols *w, size_t at, size_t after)
{
    uint32_t id = after > w->n || at == 0 ? NO_ID : pair_get(m, w->id[at], w->id[after]);
    return id == NO_ID ? NO_ID : id << 6 | (uint32_t)(at - 1);
}

/* key[i] = merge of the symbols at i and after it << 6 | i - 1, so that the least key is the lowest
 * merge and of equal ones the leftmost; NO_ID: none. Ids have at most 25 bits. */
enum { ANY_MAX = 64 };
static size_t merge_any(const PairTable *m, Symbols *w, uint32_t *out)
{
    uint32_t key[ANY_MAX + 1];
    Links l;
    links_init(&l, w->n);
    for (size_t i = 1; i <= w->n; i++) key[i] = key_of(m, w, i, i + 1);
    for (;;) {
        uint32_t k = NO_ID;
        for (size_t i = 1; i <= w->n; i++) k = key[i] < k ? key[i] : k;
        if (k == NO_ID) return links_out(&l, w, out);
        size_t at = (k & 63) + 1, gone = l.next[at], after = l.next[gone], before = l.prev[at];
        w->id[at] = k >> 6;
        key[gone] = NO_ID;
        l.next[at] = (uint16_t)after, l.prev[after] = (uint16_t)at;
        key[at] = key_of(m, w, at, after);
        if (before) key[before] = key_of(m, w, before, at);
    }
}

#ifdef __x86_64__
/* The same with keys of 16 bits, see enc_avx2.h. */

/* The keys of n symbols from id[1] on, n - 1 of them. */
AVX2 static inline void first_keys(const EncModel *m, const uint32_t *id, size_t n, bool bytes,
                                   uint16_t *first)
{
    const PairTable pairs = m->pairs;
    const uint16_t *two = m->bytes;
    for (size_t i = 1; i < n; i++)
        first[i - 1] = bytes ? two[two_bytes(id[i], id[i + 1])]
                             : (uint16_t)pair_quick(&pairs, id[i], id[i + 1]);
}

static const uint16_t lane[48] __attribute__((aligned(32))) = { [16] = NONE };

/* v with x at place i of 16. */
AVX2 static inline __m256i with16(__m256i v, size_t i, uint32_t x)
{
    __m256i at = _mm256_loadu_si256((const __m256i *)(lane + 16 - i));
    return _mm256_blendv_epi8(v, _mm256_set1_epi16((short)x), at);
}

/* first[i]: the key of the symbols i + 1 and i + 2; 16 keys, NONE from n - 1 on. */
AVX2 static size_t merge_16(const PairTable *table, Symbols *w, const uint16_t *first,
                            uint32_t *out)
{
    const PairTable m = *table;
    uint64_t alive = (4ull << w->n) - 1;
    __m256i key = _mm256_loadu_si256((const __m256i *)first);
    for (;;) {
        uint32_t x = minpos(_mm256_castsi256_si128(key));
        uint32_t y = minpos(_mm256_extracti128_si256(key, 1));
        uint32_t id = x & 0xffff;
        size_t i = x >> 16;
        if ((y & 0xffff) < id) id = y & 0xffff, i = (y >> 16) + 8;
        if (id == NONE) return alive_out(alive, w->n, w->id, out);
        size_t at = i + 1, gone = next_of(alive, at);
        size_t after = next_of(alive, gone), before = prev_of(alive, at);
        alive ^= 1ull << gone;
        uint32_t right = pair_quick(&m, id, w->id[after]), left = pair_quick(&m, w->id[before], id);
        w->id[at] = id;
        key = with16(with16(key, gone - 1, NONE), i, right);
        if (before) key = with16(key, before - 1, left);
    }
}

typedef struct Keys {
    __m128i block[8];
    __m128i least;              /* of each block */
} Keys;

AVX2 static inline __m128i with8(__m128i v, size_t i, uint32_t x)
{
    __m128i at = _mm_loadu_si128((const __m128i *)(lane + 16 - i));
    return _mm_blendv_epi8(v, _mm_set1_epi16((short)x), at);
}

AVX2 static inline void set_key(Keys *k, size_t i, uint32_t x)
{
    __m128i v = with8(k->block[i / 8], i % 8, x);
    k->block[i / 8] = v;
    k->least = with8(k->least, i / 8, minpos(v));
}

AVX2 static size_t merge_64(const PairTable *table, Symbols *w, const uint16_t *first,
                            uint32_t *out)
{
    const PairTable m = *table;
    uint64_t alive = (4ull << w->n) - 1;
    Keys k;
    k.least = _mm_set1_epi16((short)NONE);
    for (size_t b = 0; b < (w->n + 7) / 8; b++) {
        k.block[b] = _mm_loadu_si128((const __m128i *)(first + 8 * b));
        k.least = with8(k.least, b, minpos(k.block[b]));
    }
    for (;;) {
        uint32_t x = minpos(k.least), id = x & 0xffff;
        if (id == NONE) return alive_out(alive, w->n, w->id, out);
        size_t i = (x >> 16 << 3) + (minpos(k.block[x >> 16]) >> 16), at = i + 1,
               gone = next_of(alive, at);
        size_t after = next_of(alive, gone), before = prev_of(alive, at);
        alive ^= 1ull << gone;
        uint32_t right = pair_quick(&m, id, w->id[after]), left = pair_quick(&m, w->id[before], id);
        w->id[at] = id;
        set_key(&k, gone - 1, NONE);
        set_key(&k, i, right);
        if (before) set_key(&k, before - 1, left);
    }
}

/* The same, a level higher. */
typedef struct Keys3 {
    __m128i block[SCAN_MAX / 8], least[8];
    __m128i top;                /* of each of the eight `least` */
} Keys3;
_Static_assert(SCAN_MAX == 8 * 8 * 8, "three levels");

AVX2 static inline void set_key3(Keys3 *k, size_t i, uint32_t x)
{
    __m128i v = with8(k->block[i / 8], i % 8, x), u = with8(k->least[i / 64], i / 8 % 8, minpos(v));
    k->block[i / 8] = v;
    k->least[i / 64] = u;
    k->top = with8(k->top, i / 64, minpos(u));
}

AVX2 static size_t merge_512(const PairTable *table, Symbols *w, const uint16_t *first,
                             uint32_t *out)
{
    const PairTable m = *table;
    size_t n = w->n, blocks = (n + 7) / 8;
    Keys3 k;
    Links l;
    links_init(&l, n);
    k.top = _mm_set1_epi16((short)NONE);
    for (size_t b = 0; b < blocks; b++) {
        __m128i *u = &k.least[b / 8];
        if (b % 8 == 0) *u = _mm_set1_epi16((short)NONE);
        k.block[b] = _mm_loadu_si128((const __m128i *)(first + 8 * b));
        *u = with8(*u, b % 8, minpos(k.block[b]));
        k.top = with8(k.top, b / 8, minpos(*u));
    }
    for (;;) {
        uint32_t x = minpos(k.top), id = x & 0xffff;
        if (id == NONE) return links_out(&l, w, out);
        size_t i = x >> 16;
        i = i << 3 | minpos(k.least[i]) >> 16;
        i = i << 3 | minpos(k.block[i]) >> 16;
        size_t at = i + 1, gone = l.next[at], after = l.next[gone], before = l.prev[at];
        l.next[at] = (uint16_t)after, l.prev[after] = (uint16_t)at;
        uint32_t right = pair_quick(&m, id, w->id[after]), left = pair_quick(&m, w->id[before], id);
        w->id[at] = id;
        set_key3(&k, gone - 1, NONE);
        set_key3(&k, i, right);
        if (before) set_key3(&k, before - 1, left);
    }
}

/* ---- the same with ids of more than 16 bits */

AVX2 static inline uint32_t least_of(const uint32_t *key, size_t n)     /* n: a multiple of 8 */
{
    __m256i v = _mm256_load_si256((const __m256i *)key);
    for (size_t i = 8; i < n; i += 8)
        v = _mm256_min_epu32(v, _mm256_load_si256((const __m256i *)(key + i)));
    __m128i x = _mm_min_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    x = _mm_min_epu32(x, _mm_shuffle_epi32(x, 0x4e));
    x = _mm_min_epu32(x, _mm_shuffle_epi32(x, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(x);
}

/* Keys are id << 9 | place, in blocks of 64; of several the least ones are kept. */
typedef struct Wide {
    uint32_t key[SCAN_MAX] __attribute__((aligned(32)));
    uint32_t least[8] __attribute__((aligned(32)));
} Wide;
_Static_assert(SCAN_MAX == 1 << 9, "places have 9 bits");

static inline void set_wide(Wide *k, size_t i, uint32_t id)
{
    k->key[i] = id == NO_ID ? NO_ID : id << 9 | (uint32_t)i;
}

AVX2 static size_t merge_wide(const PairTable *table, Symbols *w, uint32_t *out)
{
    const PairTable m = *table;
    const size_t n = w->n, all = (n + 7) & ~(size_t)7;
    const size_t full = all > 64 ? (n + 63) & ~(size_t)63 : all;
    Wide k;
    Links l;
    links_init(&l, n);
    for (size_t i = 0; i < n; i++) set_wide(&k, i, pair_wide(&m, w->id[i + 1], w->id[i + 2]));
    for (size_t i = n; i < full; i++) k.key[i] = NO_ID;
    memset(k.least, 0xff, sizeof k.least);
    for (size_t i = 0; all > 64 && i < full; i += 64) k.least[i / 64] = least_of(k.key + i, 64);
    for (;;) {
        uint32_t x = all > 64 ? least_of(k.least, 8) : least_of(k.key, all), id = x >> 9;
        if (x == NO_ID) return links_out(&l, w, out);
        size_t at = (x & (SCAN_MAX - 1)) + 1, gone = l.next[at], after = l.next[gone];
        size_t before = l.prev[at];
        l.next[at] = (uint16_t)after, l.prev[after] = (uint16_t)at;
        uint32_t right = pair_wide(&m, id, w->id[after]), left = pair_wide(&m, w->id[before], id);
        w->id[at] = id;
        k.key[gone - 1] = NO_ID;
        set_wide(&k, at - 1, right);
        if (before) set_wide(&k, before - 1, left);
        if (all <= 64) continue;
        for (size_t b = (before ? before - 1 : 0) / 64; b <= (gone - 1) / 64; b++)
            k.least[b] = least_of(k.key + 64 * b, 64);
    }
}

AVX2 static size_t merge_avx2(const EncModel *model, Symbols *w, uint32_t *out)
{
    const PairTable m = model->pairs;
    uint16_t first[SCAN_MAX + 16];
    if (m.wide) return merge_wide(&m, w, out);
    size_t n = w->n;
    first_keys(model, w->id, n, w->bytes, first);
    _mm256_storeu_si256((__m256i *)(first + n - 1), _mm256_set1_epi8(-1));
    return (n <= 16 ? merge_16 : n <= 62 ? merge_64 : merge_512)(&m, w, first, out);
}
#endif

static size_t merge(const EncModel *m, Symbols *w, uint32_t *out)
{
#ifdef __x86_64__
    if (m->simd) return merge_avx2(m, w, out);
#endif
    return merge_any(&m->pairs, w, out);
}

size_t scan_max(const EncModel *m)
{
    return m->simd ? SCAN_MAX : ANY_MAX;
}

size_t enc_scan(const EncModel *m, const char *s, size_t n, uint32_t *out)
{
    Symbols w;
    w.n = n, w.bytes = true;
    w.id[0] = w.id[n + 1] = NO_ID;
    for (size_t i = 0; i < n; i++) w.id[i + 1] = (unsigned char)s[i];
    return merge(m, &w, out);
}

size_t enc_chars(EncModel *m, const char *s, size_t n, uint32_t *out)
{
    Symbols w;
    if (!chars_can(m)) return n <= scan_max(m) ? enc_scan(m, s, n, out) : 0;
    w.bytes = false;
    return chars_start(m->chars, s, n, w.id, scan_max(m), &w.n) ? merge(m, &w, out) : 0;
}

/* ---- several pieces ----------------------------------------------------------------- */

void few_bytes(Few *f, const char *s, size_t n)
{
    f->n = n, f->bytes = true;
    memset(f->s, 0, sizeof f->s);
    memcpy(f->s, s, n);
}

bool few_chars(EncModel *m, Few *f, const char *s, size_t n)
{
    f->bytes = false;
    return chars_can(m) && chars_start(m->chars, s, n, f->id, FEW_SYMBOLS + 3, &f->n) &&
           f->n <= FEW_SYMBOLS;
}

void enc_scan_few(const EncModel *m, Few *const *piece, size_t count)
{
#ifdef __x86_64__
    if (m->simd && !m->pairs.wide) {
        (m->vbmi2 ? enc_few_avx512 : enc_few_avx2)(&m->pairs, m->bytes, piece, count);
        return;
    }
#endif
    for (size_t k = 0; k < count; k++) {
        Few *p = piece[k];
        Symbols w;
        if (p->bytes) {
            p->n = enc_scan(m, (const char *)p->s, p->n, p->id);
            continue;
        }
        memcpy(w.id, p->id, (p->n + 2) * sizeof *w.id);
        w.n = p->n, w.bytes = false;
        p->n = merge(m, &w, p->id);
    }
}
