/* enc_few_avx512.c -- enc_scan_few() with AVX-512 and VBMI2. A piece's symbols are a register, and
 * the merges of each with the next are another. A merge squeezes out the symbol that goes, so that
 * neighbours stay side by side. */
#ifdef __x86_64__
#include "text/enc_int.h"
#include <immintrin.h>
#include <string.h>

#define TIER_ATTR __attribute__((target( \
    "avx2,bmi,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2")))
#define TIER_NAME enc_few_avx512
enum { NONE = 0xffff };
_Static_assert(FEW_SYMBOLS == 32, "a register of symbols");

/* id: what is after the n symbols, and beside all, is NONE. key[i]: the merge of id[i] and the
 * next. */
typedef struct Turn {
    uint16_t before[32], id[FEW_SYMBOLS], after[32], key[FEW_SYMBOLS];
} __attribute__((aligned(64))) Turn;

TIER_ATTR static inline __m512i nones(void) { return _mm512_set1_epi8(-1); }
TIER_ATTR static inline uint32_t first(size_t n) { return _bzhi_u32(~0u, (unsigned)n); }

TIER_ATTR static inline __m512i narrow(const uint32_t *id)
{
    const __m256i lo = _mm512_cvtepi32_epi16(_mm512_loadu_si512(id));
    const __m256i hi = _mm512_cvtepi32_epi16(_mm512_loadu_si512(id + 16));
    return _mm512_inserti64x4(_mm512_castsi256_si512(lo), hi, 1);
}

TIER_ATTR static inline void begin(const PairTable *m, const uint16_t *two, const Few *p, Turn *w)
{
    __m512i id;
    w->before[31] = w->after[0] = NONE;
    if (p->bytes) {
        id = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)p->s));
        /* as many keys as there can be: loops that end at n would be mispredicted */
        for (int half = 0; half < (p->n > 16 ? 2 : 1); half++)
            for (int i = 16 * half; i < 16 * half + 16; i++) {
                uint16_t pair;
                memcpy(&pair, p->s + i, 2);
                w->key[i] = two[pair];
            }
    } else {
        id = narrow(p->id + 1);
        for (size_t i = 0; i + 1 < p->n; i++)
            w->key[i] = (uint16_t)pair_quick(m, p->id[i + 1], p->id[i + 2]);
    }
    _mm512_store_si512(w->id, _mm512_mask_mov_epi16(nones(), first(p->n), id));
}

TIER_ATTR static inline void begin_end(const Few *p, Turn *w)
{
    const __m512i key = _mm512_load_si512(w->key);
    _mm512_store_si512(w->key, _mm512_mask_mov_epi16(nones(), first(p->n - 1), key));
}

TIER_ATTR static inline bool step(const PairTable *m, Turn *w)
{
    const __m512i key = _mm512_load_si512(w->key), id = _mm512_load_si512(w->id);
    const __m256i x = _mm256_min_epu16(_mm512_castsi512_si256(key),
                                       _mm512_extracti64x4_epi64(key, 1));
    const __m128i least = _mm_minpos_epu16(_mm_min_epu16(_mm256_castsi256_si128(x),
                                                         _mm256_extracti128_si256(x, 1)));
    const uint32_t to = (uint32_t)_mm_cvtsi128_si32(least) & NONE;
    if (to == NONE) return false;
    const __m512i merged = _mm512_broadcastw_epi16(least);
    const uint32_t at = _blsi_u32(_mm512_cmpeq_epi16_mask(key, merged)), stay = ~(at << 1);
    const uint16_t *s = w->id + _tzcnt_u32(at);
    const uint32_t left = pair_quick(m, s[-1], to), right = pair_quick(m, to, s[2]);
    const __m512i ids = _mm512_mask_compress_epi16(nones(), stay, id);
    __m512i keys = _mm512_mask_compress_epi16(nones(), stay, key);
    keys = _mm512_mask_set1_epi16(keys, at, (short)right);
    keys = _mm512_mask_set1_epi16(keys, at >> 1, (short)left);
    _mm512_store_si512(w->id, _mm512_mask_mov_epi16(ids, at, merged));
    _mm512_store_si512(w->key, keys);
    return true;
}

TIER_ATTR static inline void end(const Turn *w, Few *p)
{
    const __m512i id = _mm512_load_si512(w->id);
    const __m256i lo = _mm512_castsi512_si256(id), hi = _mm512_extracti64x4_epi64(id, 1);
    _mm512_storeu_si512(p->id, _mm512_cvtepu16_epi32(lo));
    _mm512_storeu_si512(p->id + 16, _mm512_cvtepu16_epi32(hi));
    p->n = (size_t)_mm_popcnt_u32(_mm512_cmpneq_epi16_mask(id, nones()));
}

#include "text/enc_few_tier.h"
#else
typedef int no_few_avx512;      /* a file must hold something */
#endif
