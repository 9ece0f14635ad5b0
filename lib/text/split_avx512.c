/* split_avx512.c -- the block scanner with AVX-512: one register to a window, masks for nothing. */
#ifdef __x86_64__
#include "text/split_int.h"
#include <immintrin.h>

#define TIER_ATTR \
    __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512dq,avx512vl")))
#define TIER_NAME split_ends_avx512

TIER_ATTR static inline uint64_t range(__m512i v, int lo, int n)
{
    return _mm512_cmplt_epu8_mask(_mm512_sub_epi8(v, _mm512_set1_epi8((char)lo)),
                                  _mm512_set1_epi8((char)n));
}

TIER_ATTR static inline uint64_t is(__m512i v, char c)
{
    return _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8(c));
}

TIER_ATTR static inline void classify(const char *s, Block *b)
{
    __m512i v = _mm512_loadu_si512(s);
    b->letter = range(_mm512_or_si512(v, _mm512_set1_epi8(32)), 'a', 26);
    b->number = range(v, '0', 10);
    b->sp = is(v, ' ');
    b->nl = is(v, '\n') | is(v, '\r');
    b->space = b->sp | range(v, 9, 5);
    b->ap = is(v, '\'');
    b->high = _mm512_movepi8_mask(v);
}

TIER_ATTR static inline uint64_t continuations(const char *s)
{
    return range(_mm512_loadu_si512(s), 0x80, 64);
}

TIER_ATTR static inline uint64_t letter_leads(const char *s)
{
    __m512i v = _mm512_loadu_si512(s);
    return range(v, 0xe5, 5) | range(v, 0xeb, 2);
}

/* Sixteen bits at a time: no loop whose end is to be guessed. */
#define PUT_BITS
TIER_ATTR static inline void put_bits(uint32_t *e, uint32_t from, uint64_t m)
{
    const __m512i number = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    for (unsigned k = 0; k < 64; k += 16, m >>= 16) {
        const __mmask16 bits = (__mmask16)m;
        const __m512i at = _mm512_add_epi32(number, _mm512_set1_epi32((int)(from + k)));
        _mm512_storeu_si512(e, _mm512_maskz_compress_epi32(bits, at));
        e += _mm_popcnt_u32(bits);
    }
}

#include "text/split_tier.h"
#else
typedef int no_avx512;      /* a file must hold something */
#endif
