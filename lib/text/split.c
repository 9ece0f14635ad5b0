/* split.c -- the six rules, tried in order at each position; see split.h.
 *
 * Classes: L letter, N number, SP the space, NL \r and \n, WS other White_Space, AP the apostrophe,
 * OT the rest. NO stands for the end of the text. */
#include "text/split.h"

const char split_pattern[] =
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,2}"
    "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+";
_Static_assert(sizeof split_pattern == 109 + 1, "the pattern has 109 characters");

enum { OT = UC_OTHER, L = UC_LETTER, N = UC_NUMBER, WS = UC_SPACE, SP, NL, AP, NO };
enum { IN_OT = 1 << OT, IN_L = 1 << L, IN_N = 1 << N, IN_WS = 1 << WS, IN_SP = 1 << SP,
       IN_NL = 1 << NL, IN_AP = 1 << AP, IN_SPACE = IN_WS | IN_SP | IN_NL };

#define x8(c) c, c, c, c, c, c, c, c
static const unsigned char ascii[128] = {
    OT, OT, OT, OT, OT, OT, OT, OT, OT, WS, NL, WS, WS, NL, OT, OT,    x8(OT), x8(OT),
    SP, OT, OT, OT, OT, OT, OT, AP, x8(OT),    x8(N), N, N, OT, OT, OT, OT, OT, OT,
    OT, L, L, L, L, L, L, L, x8(L), x8(L), L, L, L, OT, OT, OT, OT, OT,
    OT, L, L, L, L, L, L, L, x8(L), x8(L), L, L, L, OT, OT, OT, OT, OT,
};

/* Class of the character at i; *k is its length. The text is valid: only its end is checked. */
static inline int class_at(const char *s, size_t n, size_t i, size_t *k)
{
    if (i >= n) {
        *k = 0;
        return NO;
    }
    const unsigned char *p = (const unsigned char *)s + i;
    *k = 1;
    if (p[0] < 0x80)
        return ascii[p[0]];
    size_t len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (len > n - i)
        return OT;
    *k = len;
    uint32_t cp = p[0] & (0x7fu >> len);
    for (size_t j = 1; j < len; j++)
        cp = cp << 6 | (p[j] & 0x3f);
    return unicode_class(cp);
}

/* End of the run of classes in set that begins at i. */
static inline size_t run(const char *s, size_t n, size_t i, int set)
{
    for (size_t k; set >> class_at(s, n, i, &k) & 1; i += k)
        ;
    return i;
}

/* Rule 1: length of a contraction at i, where an apostrophe stands; 0 if there is none. */
static size_t contraction(const char *s, size_t n, size_t i)
{
    size_t left = n - i;
    if (left < 2)
        return 0;
    unsigned char a = (unsigned char)s[i + 1], b = left > 2 ? (unsigned char)s[i + 2] : 0;
    if (a == 0xc5 && b == 0xbf)         /* U+017F, long s: the one exotic case variant of [sdmt] */
        return 3;
    a |= 0x20, b |= 0x20;               /* lower case */
    if (a == 's' || a == 'd' || a == 'm' || a == 't')
        return 2;
    if (left > 2 && ((a == 'l' && b == 'l') || ((a == 'v' || a == 'r') && b == 'e')))
        return 3;
    return 0;
}

/* Rule 6: a run of white space from i on. */
static size_t spaces(const char *s, size_t n, size_t i)
{
    size_t newline = 0, last = i, e = i, k;     /* after the last NL; the last character's start */
    for (int c; IN_SPACE >> (c = class_at(s, n, e, &k)) & 1; e += k) {
        last = e;
        if (c == NL)
            newline = e + k;
    }
    if (newline)
        return newline;
    return e == n || last == i ? e : last;
}

size_t split_next(const char *s, size_t n, size_t i)
{
    size_t k, k2;
    int c = class_at(s, n, i, &k);
    if (c == AP) {
        size_t len = contraction(s, n, i);
        if (len)
            return i + len;
    }
    if (c == L)
        return run(s, n, i + k, IN_L);
    int next = class_at(s, n, i + k, &k2);
    if (c != NL && c != N && next == L)
        return run(s, n, i + k + k2, IN_L);
    if (c == N)
        return next == N ? i + k + k2 : i + k;
    if (c == AP || c == OT || (c == SP && (next == AP || next == OT)))
        return run(s, n, run(s, n, i + k, IN_OT | IN_AP), IN_NL);
    return spaces(s, n, i);
}
