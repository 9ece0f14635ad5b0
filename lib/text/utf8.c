/* utf8.c -- see utf8.h. Well-formed sequences are those of table 3-7 of the Unicode standard. */
#include "text/utf8.h"
#include <string.h>

/* Bytes in a character by its lead byte (0: cannot lead), and the range of its second byte. */
static int lead(unsigned char c, unsigned char *lo, unsigned char *hi)
{
    *lo = 0x80, *hi = 0xbf;
    if (c < 0x80) return 1;
    if (c < 0xc2) return 0;
    if (c < 0xe0) return 2;
    if (c < 0xf0) {
        if (c == 0xe0) *lo = 0xa0;          /* no overlong forms */
        if (c == 0xed) *hi = 0x9f;          /* no surrogates */
        return 3;
    }
    if (c > 0xf4) return 0;
    if (c == 0xf0) *lo = 0x90;
    if (c == 0xf4) *hi = 0x8f;              /* nothing past U+10FFFF */
    return 4;
}

int utf8_next(const char *s, size_t n, uint32_t *cp)
{
    const unsigned char *p = (const unsigned char *)s;
    unsigned char lo, hi;
    int k = lead(p[0], &lo, &hi);
    if (k == 1) {
        *cp = p[0];
        return 1;
    }
    if (k == 0)
        return -1;
    uint32_t x = p[0] & (0x7f >> k);
    for (int i = 1; i < k; i++) {
        if ((size_t)i >= n || p[i] < lo || p[i] > hi)
            return -i;
        x = x << 6 | (p[i] & 0x3f);
        lo = 0x80, hi = 0xbf;
    }
    *cp = x;
    return k;
}

int utf8_put(char *s, uint32_t cp)
{
    if (cp < 0x80) {
        s[0] = (char)cp;
        return 1;
    }
    int k = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (int i = k - 1; i > 0; i--, cp >>= 6)
        s[i] = (char)(0x80 | (cp & 0x3f));
    s[0] = (char)((0xf00 >> k & 0xff) | cp);    /* 0xc0, 0xe0, 0xf0 */
    return k;
}

/* How many bytes of s are well-formed characters of two and three bytes, as far as four bytes at once
 * show: most of what is not English. */
static size_t twos_and_threes(const char *s, size_t n)
{
    size_t i = 0;
    uint32_t w, odd;
    while (n - i >= 4) {
        memcpy(&w, s + i, 4);                           /* the first byte is the lowest */
        if ((w & 0xc0c0f0) == 0x8080e0) {
            odd = w & 0x200f;
            if (odd == 0 || odd == 0x200d) break;       /* overlong; a surrogate */
            i += 3;
        } else if ((w & 0xc0e0) == 0x80c0 && (w & 0x1e)) {
            i += 2;
        } else {
            break;
        }
    }
    return i;
}

size_t utf8_valid(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n) {
        uint64_t w;
        if (i + 8 <= n && (memcpy(&w, s + i, 8), !(w & 0x8080808080808080u))) {
            i += 8;
            continue;
        }
        if ((unsigned char)s[i] >= 0xc0 && (i += twos_and_threes(s + i, n - i)) == n) break;
        uint32_t cp;
        int k = utf8_next(s + i, n - i, &cp);
        if (k < 0)
            break;
        i += (size_t)k;
    }
    return i;
}

uint64_t utf8_repair(Buf *out, const char *s, size_t n)
{
    uint64_t bad = 0;
    for (size_t i = 0; i < n; bad++) {
        size_t good = utf8_valid(s + i, n - i);
        buf_add(out, s + i, good);
        i += good;
        if (i == n)
            break;
        uint32_t cp;
        i += (size_t)-utf8_next(s + i, n - i, &cp);
        buf_add(out, "\xef\xbf\xbd", 3);
    }
    return bad;
}

size_t utf8_unrepaired(const char *s, size_t n, size_t at)
{
    size_t i = 0;
    for (size_t o = 0; i < n; ) {
        size_t good = utf8_valid(s + i, n - i);
        if (at < o + good + 3) return at < o + good ? i + at - o : i + good;
        o += good + 3;
        i += good;
        uint32_t cp;
        if (i < n) i += (size_t)-utf8_next(s + i, n - i, &cp);
    }
    return i;
}

size_t utf8_count(const char *s, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)s[i] & 0xc0) != 0x80;
    return count;
}

size_t utf8_complete(const char *s, size_t n)
{
    for (size_t k = 1; k <= 3 && k <= n; k++) {
        unsigned char c = (unsigned char)s[n - k], lo, hi;
        if ((c & 0xc0) == 0x80)
            continue;
        uint32_t cp;
        /* incomplete: the lead wants more than there is, and what there is fits */
        if (lead(c, &lo, &hi) > (int)k && utf8_next(s + n - k, k, &cp) == -(int)k)
            return n - k;
        break;
    }
    return n;
}
