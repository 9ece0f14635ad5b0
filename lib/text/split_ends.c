/* split_ends.c -- the tier for any processor, eight bytes at a time in ordinary registers; and the
 * choice of a tier. */
#include "base/buf.h"
#include "base/cpu.h"
#include "text/split_int.h"
#include <stdatomic.h>
#include <string.h>

#define ALL(byte) ((byte) * (uint64_t)0x0101010101010101u)

/* Bit k = the high bit of byte k. */
static inline uint64_t gather(uint64_t m)
{
    return ((m >> 7 & ALL(1)) * 0x0102040810204080u) >> 56;
}

/* High bits of the bytes of w, all < 80, that are lo .. hi. */
static inline uint64_t range(uint64_t w, uint64_t lo, uint64_t hi)
{
    return (w + ALL(0x80 - lo)) & ~(w + ALL(0x7f - hi));
}

static inline void classify(const char *s, Block *b)
{
    memset(b, 0, sizeof *b);
    for (int k = 0; k < 64; k += 8) {
        uint64_t w = get_u64(s + k), ascii = ~w & ALL(0x80), a = w & ALL(0x7f);
        b->letter |= gather(range(a | ALL(0x20), 'a', 'z') & ascii) << k;
        b->number |= gather(range(a, '0', '9') & ascii) << k;
        b->sp |= gather(range(a, ' ', ' ') & ascii) << k;
        b->nl |= gather((range(a, '\n', '\n') | range(a, '\r', '\r')) & ascii) << k;
        b->space |= gather((range(a, 9, 13) | range(a, ' ', ' ')) & ascii) << k;
        b->ap |= gather(range(a, '\'', '\'') & ascii) << k;
        b->high |= gather(w) << k;
    }
}

static inline uint64_t continuations(const char *s)
{
    uint64_t m = 0;
    for (int k = 0; k < 64; k += 8) {
        uint64_t w = get_u64(s + k);
        m |= gather(w & ~(w << 1)) << k;
    }
    return m;
}

static inline uint64_t letter_leads(const char *s)
{
    uint64_t m = 0;
    for (int k = 0; k < 64; k += 8) {
        uint64_t w = get_u64(s + k), a = w & ALL(0x7f);
        m |= gather((range(a, 0x65, 0x69) | range(a, 0x6b, 0x6c)) & w & ALL(0x80)) << k;
    }
    return m;
}

#define TIER_ATTR
#define TIER_NAME split_ends_base
#include "text/split_tier.h"

/* ---- the choice ------------------------------------------------------------- */

static SplitEnds *pick(void)
{
#ifdef __x86_64__
    static const char *const tier[] = { "avx512", "avx2", "base" };
    SplitEnds *const f[] = { split_ends_avx512, split_ends_avx2, split_ends_base };
#else
    static const char *const tier[] = { "base" };
    SplitEnds *const f[] = { split_ends_base };
#endif
    return f[cpu_pick(tier, sizeof tier / sizeof *tier)];
}

/* As many pieces as there are, one by one. */
static size_t ends_of_words(const char *s, size_t n, size_t i, uint32_t *ends, size_t max)
{
    size_t count = 0;
    for (size_t at = i; at < n && count < max; count++) {
        at = split_kind_next(SPLIT_WORDS, s, n, at);
        if (at - i > UINT32_MAX) break;
        ends[count] = (uint32_t)(at - i);
    }
    return count;
}

size_t split_kind_ends(SplitKind kind, const char *s, size_t n, size_t i, uint32_t *ends,
                       size_t max)
{
    static _Atomic(SplitEnds *) chosen;     /* every thread would choose the same */
    if (kind == SPLIT_WORDS) return ends_of_words(s, n, i, ends, max);
    SplitEnds *f = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (!f)
        atomic_store_explicit(&chosen, f = pick(), memory_order_relaxed);
    return f(kind, s, n, i, ends, max);
}

size_t split_ends(const char *s, size_t n, size_t i, uint32_t *ends, size_t max)
{
    return split_kind_ends(SPLIT_NANOCHAT, s, n, i, ends, max);
}
