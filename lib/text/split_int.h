/* split_int.h -- what the tiers of split_ends() share; nobody else includes it. */
#ifndef TEXT_SPLIT_INT_H
#define TEXT_SPLIT_INT_H
#include "text/split.h"
#include "text/split_other.h"

/* Classes of 64 bytes, bit k for byte k. */
typedef struct Block {
    uint64_t letter, number, sp, nl, space, ap;     /* ASCII only; space holds sp and nl too */
    uint64_t high;                                  /* not ASCII */
} Block;

#define FIRST(m) ((uint32_t)__builtin_ctzll((m) | (uint64_t)1 << 63))   /* 63 for 0 */
#define LOW(k) ((k) >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << (k)) - 1)    /* bits below k */

/* kind: any but SPLIT_WORDS. */
typedef size_t SplitEnds(SplitKind kind, const char *s, size_t n, size_t i, uint32_t *ends,
                         size_t max);
SplitEnds split_ends_base;
#ifdef __x86_64__
SplitEnds split_ends_avx2, split_ends_avx512;
#endif

#endif
