/* enc_few_avx512.c -- enc_scan_few() with AVX-512: a piece's symbols and the merges of each with the next
 * are a register each. A merge squeezes out the symbol that goes, so that neighbours stay side by side. */
#ifdef __x86_64__
#include "text/enc_int.h"
#include <immintrin.h>
#include <string.h>

#define VBMI2 __attribute__((target( \
    "avx2,bmi,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2")))
enum { NONE = 0xffff };
_Static_assert(FEW_SYMBOLS == 32, "a register of symbols");

/* id: what is after the n symbols, and beside all, is NONE; key[i]: the merge of id[i] and id[i + 1]. */
typedef struct Turn {
    uint16_t before[32], id[FEW_SYMBOLS], after[32], key[FEW_SYMBOLS];
} __attribute__((aligned(64))) Turn;

VBMI2 static inline __m512i nones(void) { return _mm512_set1_epi8(-1); }
VBMI2 static inline uint32_t first(size_t n) { return _bzhi_u32(~0u, (unsigned)n); }

VBMI2 static inline void begin(const PairTable *m, const uint16_t *two, const Few *p, Turn *w)
{
    w->before[31] = w->after[0] = NONE;
    const __m512i lo = _mm512_loadu_si512(p->id + 1), hi = _mm512_loadu_si512(p->id + 17),
                  id = p->bytes ? _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)p->s))
                                : _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(lo)),
                                                     _mm512_cvtepi32_epi16(hi), 1);
    _mm512_store_si512(w->id, _mm512_mask_mov_epi16(nones(), first(p->n), id));
    if (!p->bytes) {
        for (size_t i = 0; i + 1 < p->n; i++) w->key[i] = (uint16_t)pair_quick(m, p->id[i + 1], p->id[i + 2]);
    } else {
        /* as many as there can be: loops that end at n would be mispredicted */
        for (int half = 0; half < (p->n > 16 ? 2 : 1); half++)
            for (int i = 16 * half; i < 16 * half + 16; i++) {
                uint16_t pair;
                memcpy(&pair, p->s + i, 2);
                w->key[i] = two[pair];
            }
    }
}
/* When what begin() stored piecemeal has reached the cache. */
VBMI2 static inline void begin_end(const Few *p, Turn *w)
{
    _mm512_store_si512(w->key, _mm512_mask_mov_epi16(nones(), first(p->n - 1), _mm512_load_si512(w->key)));
}

/* The lowest merge, the leftmost of equal ones; false if there is none. */
VBMI2 static inline bool step(const PairTable *m, Turn *w)
{
    const __m512i key = _mm512_load_si512(w->key), id = _mm512_load_si512(w->id);
    const __m256i x = _mm256_min_epu16(_mm512_castsi512_si256(key), _mm512_extracti64x4_epi64(key, 1));
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

VBMI2 void enc_few_avx512(const PairTable *pairs, const uint16_t *two, Few *const *piece, size_t count)
{
    const PairTable m = *pairs;
    Turn w[FEW];
    for (size_t k = 0; k < count; k++) begin(&m, two, piece[k], &w[k]);
    for (size_t k = 0; k < count; k++) begin_end(piece[k], &w[k]);
    for (unsigned going = (1u << count) - 1; going; )
        for (unsigned g = going; g; g &= g - 1) {
            const unsigned k = (unsigned)__builtin_ctz(g);
            if (!step(&m, &w[k])) going ^= 1u << k;
        }
    for (size_t k = 0; k < count; k++) {
        const __m512i id = _mm512_load_si512(w[k].id);
        _mm512_storeu_si512(piece[k]->id, _mm512_cvtepu16_epi32(_mm512_castsi512_si256(id)));
        _mm512_storeu_si512(piece[k]->id + 16, _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(id, 1)));
        piece[k]->n = (size_t)_mm_popcnt_u32(_mm512_cmpneq_epi16_mask(id, nones()));
    }
}
#else
typedef int no_few_avx512;      /* a file must hold something */
#endif
