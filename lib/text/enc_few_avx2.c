/* enc_few_avx2.c -- enc_scan_few() with AVX2. A piece's keys are in memory, written one by one and
 * read by registers: no loss, as the others' steps come in between. */
#ifdef __x86_64__
#include "text/enc_avx2.h"
#include "text/enc_int.h"
#include <string.h>

#define TIER_ATTR AVX2
#define TIER_NAME enc_few_avx2

typedef struct Turn {
    uint16_t key[16 + FEW_SYMBOLS];             /* [15]: of what is before the first symbol */
    uint64_t alive;
    uint32_t *id;
    size_t n;
} __attribute__((aligned(32))) Turn;
_Static_assert(FEW_SYMBOLS == 32, "two registers of keys");

/* 16 bytes as symbols, and their keys: as many as there can be, for loops that end at n would be
 * mispredicted. */
AVX2 static inline void begin_bytes(const uint16_t *two, Few *p, uint16_t *key, const int from)
{
    for (int i = from; i < from + 16; i++) {
        uint16_t pair;
        memcpy(&pair, p->s + i, 2);
        key[i] = two[pair];
    }
    for (int i = from; i < from + 16; i += 8) {
        __m256i x = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(p->s + i)));
        _mm256_storeu_si256((__m256i *)(p->id + 1 + i), x);
    }
}

AVX2 static inline void begin(const PairTable *m, const uint16_t *two, Few *p, Turn *w)
{
    uint16_t *key = w->key + 16;
    w->n = p->n, w->id = p->id, w->alive = (4ull << p->n) - 1;
    if (!p->bytes) {
        for (size_t i = 0; i + 1 < p->n; i++)
            key[i] = (uint16_t)pair_quick(m, p->id[i + 1], p->id[i + 2]);
        return;
    }
    begin_bytes(two, p, key, 0);
    if (p->n > 16) begin_bytes(two, p, key, 16);
    p->id[0] = p->id[p->n + 1] = NO_ID;
}

/* No keys from n - 1 on. */
AVX2 static inline void begin_end(const Few *p, Turn *w)
{
    static const uint16_t none_from[64] = { [FEW_SYMBOLS ... 63] = NONE };
    const __m256i *none = (const __m256i *)(none_from + FEW_SYMBOLS - (p->n - 1));
    __m256i *key = (__m256i *)(w->key + 16);
    key[0] = _mm256_or_si256(key[0], _mm256_loadu_si256(none));
    key[1] = _mm256_or_si256(key[1], _mm256_loadu_si256(none + 1));
}

AVX2 static inline uint32_t bytes_of(__m256i mask)
{
    return (uint32_t)_mm256_movemask_epi8(mask);
}

AVX2 static inline bool step(const PairTable *m, Turn *w)
{
    const __m256i *v = (const __m256i *)(w->key + 16), x = v[0], y = v[1];
    const __m256i z = _mm256_min_epu16(x, y);
    const __m128i low = _mm256_castsi256_si128(z), high = _mm256_extracti128_si256(z, 1);
    const uint32_t id = minpos(_mm_min_epu16(low, high)) & NONE;
    if (id == NONE) return false;
    const __m256i least = _mm256_set1_epi16((short)id);
    const uint64_t where = bytes_of(_mm256_cmpeq_epi16(x, least)) |
                           (uint64_t)bytes_of(_mm256_cmpeq_epi16(y, least)) << 32;
    const size_t at = (size_t)__builtin_ctzll(where) / 2 + 1, gone = next_of(w->alive, at),
                 after = next_of(w->alive, gone), before = prev_of(w->alive, at);
    w->alive ^= 1ull << gone;
    uint32_t right = pair_quick(m, id, w->id[after]), left = pair_quick(m, w->id[before], id);
    w->id[at] = id;
    w->key[15 + gone] = NONE;
    w->key[15 + at] = (uint16_t)right;
    w->key[15 + before] = (uint16_t)left;
    return true;
}

AVX2 static inline void end(const Turn *w, Few *p)
{
    p->n = alive_out(w->alive, w->n, w->id, w->id);
}

#include "text/enc_few_tier.h"
#else
typedef int no_few_avx2;        /* a file must hold something */
#endif
