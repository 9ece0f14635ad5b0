/* enc_avx2.h -- what enc_scan.c and enc_few_avx2.c share. Keys there are 16 bits, the merges alone:
 * there is an instruction for the least of eight and the first place where it stands. */
#ifndef TEXT_ENC_AVX2_H
#define TEXT_ENC_AVX2_H
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt")))
enum { NONE = 0xffff };

/* Bit i: a symbol, or a border, stands at i. */
AVX2 static inline size_t next_of(uint64_t alive, size_t i)
{
    return (size_t)__builtin_ctzll(alive & -2ull << i);
}

AVX2 static inline size_t prev_of(uint64_t alive, size_t i)
{
    return 63 - (size_t)__builtin_clzll(alive & ((1ull << i) - 1));
}

/* Of n symbols those that are left; out may be id. */
AVX2 static inline size_t alive_out(uint64_t alive, size_t n, const uint32_t *id, uint32_t *out)
{
    size_t got = 0;
    for (alive &= ~(1ull << (n + 1)) & ~1ull; alive; alive &= alive - 1)
        out[got++] = id[__builtin_ctzll(alive)];
    return got;
}

AVX2 static inline uint32_t minpos(__m128i v)           /* place << 16 | the least */
{
    return (uint32_t)_mm_cvtsi128_si32(_mm_minpos_epu16(v));
}

#endif
