/* enc_piece.c -- a piece that is no token, by the merges of a plain tokenizer: see enc_int.h.
 *
 * Pairs are looked up in a table of 32-bit slots, id and a tag of the hash in what bits the id
 * leaves: 256 KB for 32,768 ids, which stays in the second-level cache. */
#include "text/enc_int.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

struct EncModel {
    const Tok *t;
    atomic_int users;
    uint32_t *bytes;            /* [65536] merge of two bytes, or NO_ID */
    PairTable pairs;
    bool scan_avx2;
    pthread_mutex_t lock;
    atomic_int walk_state;      /* 0: not tried, 1: can, 2: cannot */
    struct WalkTables *walk;
};

uint32_t encmodel_pair(const EncModel *m, uint32_t a, uint32_t b)
{
    return pair_get(&m->pairs, a, b);
}

const PairTable *encmodel_pairs(const EncModel *m)
{
    return &m->pairs;
}

static bool has_avx2(void)
{
#ifdef __x86_64__
    const char *want = getenv("PIPEGPT_CPU");
    return __builtin_cpu_supports("avx2") && !(want && !strcmp(want, "base"));
#else
    return false;
#endif
}

static void pairs_make(EncModel *model, size_t merges, const uint32_t (*pair)[2])
{
    PairTable *m = &model->pairs;
    int bits = 10;
    m->pair = pair;
    while ((size_t)1 << bits < 2 * merges) bits++;
    m->mask = ((size_t)1 << bits) - 1;
    m->shift = 64 - bits;
    while ((size_t)1 << m->id_bits < 256 + merges) m->id_bits++;
    m->slot = xcalloc(m->mask + 1, sizeof *m->slot);
    model->bytes = xreallocarray(NULL, 65536, sizeof *model->bytes);
    memset(model->bytes, 0xff, 65536 * sizeof *model->bytes);
    for (size_t k = 0; k < merges; k++) {
        uint32_t a = m->pair[k][0], b = m->pair[k][1], id = (uint32_t)(256 + k);
        uint64_t h = pair_hash(a, b);
        size_t i = (size_t)(h >> m->shift);
        while (m->slot[i]) i = (i + 1) & m->mask;
        m->slot[i] = pair_tag(m, h) | id;
        if (a < 256 && b < 256) model->bytes[a << 8 | b] = id;
    }
}

EncModel *encmodel_new(const Tok *t)
{
    EncModel *m = xcalloc(1, sizeof *m);
    m->t = t;
    m->users = 1;
    m->scan_avx2 = has_avx2();
    pthread_mutex_init(&m->lock, NULL);
    const uint32_t (*pair)[2];
    if (tok_plain(t)) {
        size_t merges = tok_merges(t, &pair);
        pairs_make(m, merges, pair);
    }
    return m;
}

EncModel *encmodel_share(EncModel *m)
{
    atomic_fetch_add(&m->users, 1);
    return m;
}

void encmodel_free(EncModel *m)
{
    if (atomic_fetch_sub(&m->users, 1) > 1) return;
    walk_tables_free(m->walk);
    pthread_mutex_destroy(&m->lock);
    free(m->bytes);
    free(m->pairs.slot);
    free(m);
}

const Tok *encmodel_tok(const EncModel *m)
{
    return m->t;
}

struct WalkTables *encmodel_walk(const EncModel *m)
{
    return m->walk;
}

bool walk_can(EncModel *m)
{
    int state = atomic_load_explicit(&m->walk_state, memory_order_acquire);
    if (state) return state == 1;
    pthread_mutex_lock(&m->lock);
    if (!m->walk_state) {
        m->walk = tok_plain(m->t) ? walk_tables_new(m, m->t) : NULL;
        atomic_store_explicit(&m->walk_state, m->walk ? 1 : 2, memory_order_release);
    }
    pthread_mutex_unlock(&m->lock);
    return m->walk != NULL;
}

/* ---- scan ------------------------------------------------------------------------- */

/* key[i] = merge of the tokens at i and after it << 6 | i, so that the least key is the lowest
 * merge and of equal ones the leftmost; UINT32_MAX: none. Ids have at most 25 bits. A token stands
 * where its first byte is; n is rounded up to 8. */
typedef struct Scan {
    uint32_t key[SCAN_MAX], id[SCAN_MAX];
    uint8_t next[SCAN_MAX + 1], prev[SCAN_MAX + 1];
} Scan;

static inline uint32_t least_base(const uint32_t *key, size_t n)
{
    uint32_t x = UINT32_MAX;
    for (size_t i = 0; i < n; i++) x = key[i] < x ? key[i] : x;
    return x;
}

#ifdef __x86_64__
__attribute__((target("avx2")))
static inline uint32_t least_avx2(const uint32_t *key, size_t n)
{
    __m256i x = _mm256_loadu_si256((const __m256i *)key);
    for (size_t i = 8; i < n; i += 8)
        x = _mm256_min_epu32(x, _mm256_loadu_si256((const __m256i *)(key + i)));
    __m128i y = _mm_min_epu32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    y = _mm_min_epu32(y, _mm_shuffle_epi32(y, 0x4e));
    y = _mm_min_epu32(y, _mm_shuffle_epi32(y, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(y);
}
#endif

static inline uint32_t key_of(const EncModel *m, uint32_t a, uint32_t b, size_t at)
{
    uint32_t id = pair_get(&m->pairs, a, b);
    return id == NO_ID ? NO_ID : id << 6 | (uint32_t)at;
}

#define SCAN_BODY(LEAST)                                                                          \
    Scan w;                                                                                       \
    size_t wide = (n + 7) & ~(size_t)7, count = n;                                                \
    const uint8_t *p = (const uint8_t *)s;                                                        \
    for (size_t i = 0; i < n; i++) {                                                              \
        w.id[i] = p[i];                                                                           \
        w.next[i] = (uint8_t)(i + 1), w.prev[i + 1] = (uint8_t)i;                                 \
    }                                                                                             \
    for (size_t i = 0; i + 1 < n; i++) {                                                          \
        uint32_t id = m->bytes[p[i] << 8 | p[i + 1]];                                             \
        w.key[i] = id == NO_ID ? NO_ID : id << 6 | (uint32_t)i;                                   \
    }                                                                                             \
    for (size_t i = n - 1; i < wide; i++) w.key[i] = NO_ID;                                       \
    for (uint32_t k; (k = LEAST(w.key, wide)) != NO_ID; count--) {                                \
        size_t at = k & 63, gone = w.next[at], after = w.next[gone];                              \
        uint32_t id = k >> 6;                                                                     \
        w.id[at] = id;                                                                            \
        w.key[gone] = w.key[at] = NO_ID;                                                          \
        w.next[at] = (uint8_t)after, w.prev[after] = (uint8_t)at;                                 \
        if (after < n) w.key[at] = key_of(m, id, w.id[after], at);                                \
        if (at) w.key[w.prev[at]] = key_of(m, w.id[w.prev[at]], id, w.prev[at]);                  \
    }                                                                                             \
    size_t got = 0;                                                                               \
    for (size_t i = 0; i < n; i = w.next[i]) out[got++] = w.id[i];                                \
    return count;

static size_t scan_base(const EncModel *m, const char *s, size_t n, uint32_t *out)
{
    SCAN_BODY(least_base)
}

#ifdef __x86_64__
__attribute__((target("avx2")))
static size_t scan_avx2(const EncModel *m, const char *s, size_t n, uint32_t *out)
{
    SCAN_BODY(least_avx2)
}
#endif

size_t enc_scan(const EncModel *m, const char *s, size_t n, uint32_t *out)
{
#ifdef __x86_64__
    if (m->scan_avx2) return scan_avx2(m, s, n, out);
#endif
    return scan_base(m, s, n, out);
}
