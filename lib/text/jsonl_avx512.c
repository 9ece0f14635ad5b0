/* jsonl_avx512.c -- JSON strings 64 bytes at a time, escapes and UTF-8 with them: backslashes are
 * squeezed out by an instruction, so that nothing is to be guessed at them. \u is left to jsonl.c,
 * and so is what is wrong. */
#ifdef __x86_64__
#include "text/jsonl_int.h"
#include <immintrin.h>
#include <stdint.h>

#define VBMI2 __attribute__((target( \
    "avx2,bmi,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2")))

static const char to[128] = { ['"'] = '"', ['\\'] = '\\', ['/'] = '/', ['b'] = '\b', ['f'] = '\f',
                              ['n'] = '\n', ['r'] = '\r', ['t'] = '\t' };

VBMI2 static inline uint64_t is(__m512i v, int c)
{
    return _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8((char)c));
}

VBMI2 static inline uint64_t from(__m512i v, int c)     /* bytes c and above */
{
    return _mm512_cmpge_epu8_mask(v, _mm512_set1_epi8((char)c));
}

/* Backslashes that begin an escape: each second one of a run, the first first. The addition carries
 * through the runs that begin at an even place. */
static inline uint64_t escapes(uint64_t back)
{
    const uint64_t even = 0x5555555555555555u;
    uint64_t odd = back & (back + (back & ~(back << 1) & even));
    return ((back ^ odd) & even) | (odd & ~even);
}

/* Where UTF-8 is wrong: a byte that no character has, one that does not go on where one should, or
 * goes on where none should, or makes the character too long, a surrogate, or past U+10FFFF. *cut
 * gets the beginning of a character of which v does not hold all. */
VBMI2 static inline uint64_t malformed(__m512i v, uint64_t high, uint64_t two, uint64_t *cut)
{
    uint64_t three = from(v, 0xe0), four = from(v, 0xf0), a0 = from(v, 0xa0), x90 = from(v, 0x90);
    uint64_t want = two << 1 | three << 2 | four << 3;
    *cut |= (two & 1ull << 63) | (three & 1ull << 62) | (four & 1ull << 61);
    return (want ^ (high & ~two)) | is(v, 0xc0) | is(v, 0xc1) | from(v, 0xf5) |
           (is(v, 0xe0) << 1 & ~a0) | (is(v, 0xed) << 1 & a0) |
           (is(v, 0xf0) << 1 & ~x90) | (is(v, 0xf4) << 1 & x90);
}

/* The beginning of the last character before the first bit of `bad`, which may belong to it. */
VBMI2 static inline uint64_t before(uint64_t bad, uint64_t lead)
{
    uint64_t first = bad & -bad, there = lead & (first - 1);
    return there ? 1ull << (63 - __builtin_clzll(there)) : first;
}

VBMI2 Copied jsonl_copy_avx512(char *o, const char *p, const char *end)
{
    const __m512i to_low = _mm512_loadu_si512(to), to_high = _mm512_loadu_si512(to + 64);
    while (p < end) {
        __m512i v = _mm512_loadu_si512(p);
        uint64_t back = escapes(is(v, '\\')), after = back << 1, cut = back & 1ull << 63;
        uint64_t high = _mm512_movepi8_mask(v), control = ~from(v, 32);
        v = _mm512_mask2_permutex2var_epi8(to_low, v, after, to_high);
        uint64_t unknown = _mm512_mask_testn_epi8_mask(after, v, v) | (after & high);
        uint64_t stop = (is(v, '"') & ~after) | unknown >> 1 | control;
        if (high) {
            uint64_t lead = from(v, 0xc0), bad = malformed(v, high, lead, &cut);
            bad &= stop ^ (stop - 1);           /* up to there, the byte itself with it */
            if (bad) stop |= before(bad, lead);
        }
        uint64_t first = (stop | cut) & -(stop | cut), keep = (first - 1) & ~back;
        _mm512_storeu_si512(o, _mm512_maskz_compress_epi8(keep, v));
        o += _mm_popcnt_u64(keep);
        p += _tzcnt_u64(first);                 /* 64 for 0 */
        if (stop & first) break;
    }
    return (Copied){ o, p };
}
#else
typedef int no_jsonl_avx512;    /* a file must hold something */
#endif
