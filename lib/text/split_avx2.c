/* split_avx2.c -- the block scanner with AVX2: two registers to a window. */
#ifdef __x86_64__
#include "text/split_int.h"
#include <immintrin.h>

#define TIER_ATTR __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#define TIER_NAME split_ends_avx2

TIER_ATTR static inline uint64_t mask(__m256i lo, __m256i hi)
{
    return (uint32_t)_mm256_movemask_epi8(lo) | (uint64_t)(uint32_t)_mm256_movemask_epi8(hi) << 32;
}

/* Bytes lo .. lo + n - 1, as unsigned numbers: moved to the bottom of the signed range. */
TIER_ATTR static inline __m256i range(__m256i v, int lo, int n)
{
    return _mm256_cmpgt_epi8(_mm256_set1_epi8((char)(n - 128)),
                             _mm256_add_epi8(v, _mm256_set1_epi8((char)(128 - lo))));
}

TIER_ATTR static inline __m256i is(__m256i v, char c)
{
    return _mm256_cmpeq_epi8(v, _mm256_set1_epi8(c));
}

TIER_ATTR static inline void classify(const char *s, Block *b)
{
    __m256i v = _mm256_loadu_si256((const __m256i *)s),
            w = _mm256_loadu_si256((const __m256i *)(s + 32)), low = _mm256_set1_epi8(32);
    b->letter = mask(range(_mm256_or_si256(v, low), 'a', 26),
                     range(_mm256_or_si256(w, low), 'a', 26));
    b->number = mask(range(v, '0', 10), range(w, '0', 10));
    b->sp = mask(is(v, ' '), is(w, ' '));
    b->nl = mask(_mm256_or_si256(is(v, '\n'), is(v, '\r')),
                 _mm256_or_si256(is(w, '\n'), is(w, '\r')));
    b->space = b->sp | mask(range(v, 9, 5), range(w, 9, 5));
    b->ap = mask(is(v, '\''), is(w, '\''));
    b->high = mask(v, w);
}

TIER_ATTR static inline uint64_t continuations(const char *s)
{
    __m256i v = _mm256_loadu_si256((const __m256i *)s),
            w = _mm256_loadu_si256((const __m256i *)(s + 32));
    return mask(range(v, 0x80, 64), range(w, 0x80, 64));
}

TIER_ATTR static inline uint64_t letter_leads(const char *s)
{
    __m256i v = _mm256_loadu_si256((const __m256i *)s),
            w = _mm256_loadu_si256((const __m256i *)(s + 32));
    return mask(_mm256_or_si256(range(v, 0xe5, 5), range(v, 0xeb, 2)),
                _mm256_or_si256(range(w, 0xe5, 5), range(w, 0xeb, 2)));
}

#include "text/split_tier.h"
#else
typedef int no_avx2;        /* a file must hold something */
#endif
