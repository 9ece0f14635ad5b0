/* split_tier.h -- the block scanner, included once per tier (split_ends.c, split_avx2.c,
 * split_avx512.c), which defines before:
 *   TIER_ATTR                                attributes of its functions
 *   void classify(const char *s, Block *b)   masks of the 64 bytes at s
 *   uint64_t continuations(const char *s)    which of the 64 bytes at s are 80..BF
 *   uint64_t letter_leads(const char *s)     which are E5..E9, EB or EC: U+5000..9FFF and
 *                                            U+B000..CFFF, all of them letters
 *   void put_bits(uint32_t *e, uint32_t from, uint64_t m)    from + the number of each bit of m,
 *                                            which is not 0, to e; 64 may be written. PUT_BITS says
 *                                            that the tier has its own
 *   TIER_NAME                                the function to make: as split_kind_ends()
 *
 * The end of a piece depends only on the text from its beginning on. So each window of 64 bytes is
 * laid at the beginning of a piece, needs nothing from before it, and gives all beginnings inside
 * that what can be seen of the text decides; the next window is laid at the last of these. A window
 * without any (a long piece, a rare character, the end of the text) has its first piece cut by
 * split_kind_next(), so only what is common must be known here: a window ends before a number or
 * white space that is not ASCII, and before U+017F, which may make a contraction. White space at
 * the end of the text is never seen whole: so Llama 3's pattern and cl100k's are the same here. */
#include "text/split_int.h"
#include <string.h>

/* Classes of the characters that are not ASCII, up to *n, which is lowered to the first one that is
 * not for us. Letters go to b->letter, others are what is in no mask. s[0..*n) may be read. */
TIER_ATTR static inline uint64_t wide(const char *text, Block *b, unsigned *n)
{
    const unsigned char *s = (const unsigned char *)text;
    uint64_t cont = continuations(text), lead = b->high & ~cont & LOW(*n);
    uint64_t quick = letter_leads(text) & lead & LOW(*n) >> 2;    /* to their end */
    b->letter |= quick | quick << 1 | quick << 2;
    lead &= ~quick;
    for (; lead; lead &= lead - 1) {
        unsigned p = (unsigned)__builtin_ctzll(lead), c = s[p], k = 2 + (c >= 0xe0) + (c >= 0xf0);
        if (p + k > *n) {
            *n = p;
            break;
        }
        int class = UC_LETTER;
        if (c < 0xe0) {
            unsigned cp = (c & 31) << 6 | (s[p + 1] & 63);
            class = cp == 0x17f ? UC_NUMBER : unicode_bmp[cp / 32] >> (cp % 32 * 2) & 3;
        } else if (c < 0xf0) {
            unsigned cp = (c & 15) << 12 | (unsigned)(s[p + 1] & 63) << 6 | (s[p + 2] & 63);
            class = unicode_bmp[cp / 32] >> (cp % 32 * 2) & 3;
        } else {
            class = unicode_class((c & 7) << 18 | (unsigned)(s[p + 1] & 63) << 12 |
                                  (unsigned)(s[p + 2] & 63) << 6 | (s[p + 3] & 63));
        }
        if (class == UC_LETTER) {
            b->letter |= LOW(k) << p;
        } else if (class != UC_OTHER) {
            *n = p;
            break;
        }
    }
    return cont;
}

/* Where contractions end, of those that apostrophes in ap begin; *limit falls to the first whose
 * text cannot be seen. */
TIER_ATTR static inline uint64_t contractions(const char *s, uint64_t ap, unsigned n,
                                              unsigned *limit)
{
    uint64_t end = 0;
    for (; ap; ap &= ap - 1) {
        unsigned p = (unsigned)__builtin_ctzll(ap);
        if (p + 2 >= n) {
            *limit = p < *limit ? p : *limit;
            break;
        }
        unsigned a = (unsigned char)s[p + 1] | 32, c = (unsigned char)s[p + 2] | 32;
        if (a == 's' || a == 'd' || a == 'm' || a == 't')
            end |= (uint64_t)1 << (p + 2);
        else if (((a == 'l' && c == 'l') || ((a == 'v' || a == 'r') && c == 'e')) && p + 3 < 64)
            end |= (uint64_t)1 << (p + 3);
    }
    return end;
}

/* Beginnings of pieces of numbers: by ones, twos or threes from the beginning of their run. */
TIER_ATTR static inline __attribute__((always_inline))
uint64_t numbers(SplitKind kind, uint64_t d)
{
    uint64_t first = d & ~(d << 1), begin = first;
    if (kind == SPLIT_QWEN2) return d;
    if (kind == SPLIT_NANOCHAT) {       /* the addition carries through runs from an even place */
        uint64_t even = 0x5555555555555555u, odd = d & (d + (first & even));
        return ((d ^ odd) & even) | (odd & ~even);
    }
    while ((first = first << 3 & d & d << 1 & d << 2)) begin |= first;
    return begin;
}

/* Of beginnings, those that the text up to n decides. White space at the end of what is seen: only
 * where it begins is certain. */
TIER_ATTR static inline uint64_t certain(uint64_t begin, uint64_t space, unsigned n, unsigned limit)
{
    uint64_t rest = ~space & LOW(n);
    unsigned solid = rest ? 64 - (unsigned)__builtin_clzll(rest) : 0;
    if (solid < n && solid < limit)
        limit = solid;
    return begin & LOW(n) & LOW(limit + 1) & ~(uint64_t)1;
}

/* Beginnings of pieces in s[1..n), n <= 64, where a piece begins at s. More may follow. */
TIER_ATTR static inline __attribute__((always_inline))
uint64_t begins(SplitKind kind, const char *s, unsigned n, Block *b)
{
    uint64_t cont = 0;
    if (b->high & LOW(n))
        cont = wide(s, b, &n);
    uint64_t seen = LOW(n), l = b->letter & seen, d = b->number & seen, w = b->space & seen, w0 = w,
             sp = b->sp & seen, nl = b->nl & seen, blank = w & ~nl, x = seen & ~(l | d | w);
    unsigned limit = n;

    /* An x (apostrophe, other) that begins a piece, rules 1, 3, 5: not after another, nor after the
     * space that takes it. A letter directly after one is in its piece, as after a blank. */
    uint64_t x1 = x & ~(x << 1) & ~(sp << 1) & ~cont, after = x1 << 1;
    if (cont)
        after = (after & ~cont) | ((cont + (after & cont)) & ~cont);
    uint64_t begin = x1 | (l & ~(l << 1) & ~(blank << 1) & ~after);
    uint64_t ap = b->ap & x1;
    if (ap)
        begin |= contractions(s, ap, n, &limit);

    begin |= numbers(kind, d);

    /* Newlines directly after x belong to it; the other white space w is rule 6's. */
    uint64_t taken = nl & ~(nl + (nl & (x << 1)));
    w &= ~taken;
    begin |= w & ~(w << 1);
    uint64_t last = blank & ~(blank >> 1), before_nl = last & (nl >> 1);    /* of its stretches */
    uint64_t after_nl = blank & ((nl & ~taken) << 1);
    if (after_nl) {
        /* Blanks between newlines of one run begin nothing. */
        for (uint64_t m = before_nl; m; m &= m - 1) {
            uint64_t outside = ~blank & ((m & -m) - 1);
            after_nl &= outside ? ~((uint64_t)2 << (63 - __builtin_clzll(outside))) : ~(uint64_t)0;
        }
        begin |= after_nl;
    }
    begin |= last & ~before_nl;
    return certain(begin, w0, n, limit);
}

/* The same for GPT-2's pattern: runs of one class, each with the space before it, and small
 * contractions. */
TIER_ATTR static inline uint64_t begins_gpt2(const char *s, unsigned n, Block *b)
{
    if (b->high & LOW(n))
        wide(s, b, &n);
    uint64_t seen = LOW(n), l = b->letter & seen, d = b->number & seen, w = b->space & seen,
             sp = b->sp & seen, x = seen & ~(l | d | w);
    uint64_t x1 = x & ~(x << 1) & ~(sp << 1);
    uint64_t begin = x1 | (((l & ~(l << 1)) | (d & ~(d << 1))) & ~(sp << 1));
    unsigned limit = n;
    for (uint64_t ap = b->ap & x1; ap; ap &= ap - 1) {
        unsigned p = (unsigned)__builtin_ctzll(ap);
        if (p + 2 >= n) {
            limit = p;
            break;
        }
        char a = s[p + 1], c = s[p + 2];
        bool one = a == 's' || a == 't' || a == 'm' || a == 'd';
        bool two = (a == 'l' && c == 'l') || ((a == 'v' || a == 'r') && c == 'e');
        if (one || two) begin &= ~((uint64_t)2 << p);
        if (one) begin |= (uint64_t)4 << p;
        if (two && p + 3 < 64) begin |= (uint64_t)8 << p;
    }
    begin |= w & (~(w << 1) | ~(w >> 1));               /* the first and the last of white space */
    return certain(begin, w, n, limit);
}

#ifndef PUT_BITS
TIER_ATTR static inline void put_bits(uint32_t *e, uint32_t from, uint64_t m)
{
    for (; m; e += 4) {                         /* up to 3 too many */
        e[0] = from + FIRST(m), m &= m - 1;
        e[1] = from + FIRST(m), m &= m - 1;
        e[2] = from + FIRST(m), m &= m - 1;
        e[3] = from + FIRST(m), m &= m - 1;
    }
}
#endif

TIER_ATTR static inline __attribute__((always_inline))
size_t scan(SplitKind kind, const char *s, size_t n, size_t i, uint32_t *ends, size_t max)
{
    size_t count = 0, at = i;
    while (at < n && max - count >= 64) {
        if (at - i > UINT32_MAX - 64)
            return count;
        const char *w = s + at;
        char pad[64];
        unsigned len = 64;
        if (n - at < 64) {
            len = (unsigned)(n - at);
            memset(pad, 0, sizeof pad);
            w = memcpy(pad, w, len);
        }
        Block b;
        classify(w, &b);
        uint64_t begin = kind == SPLIT_GPT2 ? begins_gpt2(w, len, &b) : begins(kind, w, len, &b);
        if (begin) {                            /* of pieces, after the one at `at` */
            put_bits(ends + count, (uint32_t)(at - i), begin);
            count += (unsigned)__builtin_popcountll(begin);
            at += 63 - (unsigned)__builtin_clzll(begin);
        } else {
            at = split_kind_next(kind, s, n, at);
            if (at - i > UINT32_MAX)
                return count;
            ends[count++] = (uint32_t)(at - i);
        }
    }
    return count;
}

TIER_ATTR size_t TIER_NAME(SplitKind kind, const char *s, size_t n, size_t i, uint32_t *ends,
                           size_t max)
{
    switch (kind) {
    case SPLIT_GPT2: return scan(SPLIT_GPT2, s, n, i, ends, max);
    case SPLIT_LLAMA3: return scan(SPLIT_LLAMA3, s, n, i, ends, max);
    case SPLIT_CL100K: return scan(SPLIT_CL100K, s, n, i, ends, max);
    case SPLIT_QWEN2: return scan(SPLIT_QWEN2, s, n, i, ends, max);
    default: return scan(SPLIT_NANOCHAT, s, n, i, ends, max);
    }
}
