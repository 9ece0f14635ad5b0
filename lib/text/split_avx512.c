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

#include "text/split_tier.h"
#else
typedef int no_avx512;      /* a file must hold something */
#endif
