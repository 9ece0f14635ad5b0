#include "text/utf8.h"
#include "tap.h"
#include <stdbool.h>

/* Every proper prefix and every whole of a well-formed character, listed by encoding all scalar
 * values: what is in none of these is ill-formed, and the longest prefix is the maximal subpart. */
static unsigned char p1[256], p2[65536], *p3;           /* 1: a prefix, 2: a whole character */

static void list(void)
{
    p3 = xcalloc(1 << 24, 1);
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (c >= 0xd800 && c < 0xe000)
            continue;
        if (c < 0x80) {
            p1[c] = 2;
        } else if (c < 0x800) {
            uint32_t a = 0xc0 + c / 64, b = 0x80 + c % 64;
            p1[a] = 1, p2[a * 256 + b] = 2;
        } else if (c < 0x10000) {
            uint32_t a = 0xe0 + c / 4096, b = 0x80 + c / 64 % 64, d = 0x80 + c % 64;
            p1[a] = 1, p2[a * 256 + b] = 1, p3[a * 65536 + b * 256 + d] = 2;
        } else {
            uint32_t a = 0xf0 + c / 262144, b = 0x80 + c / 4096 % 64, d = 0x80 + c / 64 % 64;
            p1[a] = 1, p2[a * 256 + b] = 1, p3[a * 65536 + b * 256 + d] = 1;
        }
    }
}

/* What utf8_next should say of 3 bytes; 0: a prefix of four bytes. */
static int naive3(uint32_t x)
{
    uint32_t a = x >> 16, ab = x >> 8;
    if (p1[a] == 2) return 1;
    if (!p1[a]) return -1;
    if (p2[ab] == 2) return 2;
    if (!p2[ab]) return -1;
    if (p3[x] == 2) return 3;
    return p3[x] ? 0 : -2;
}

static void exhaustive(void)
{
    uint32_t cp, wrong = 0;
    char s[4];
    for (uint32_t x = 0; x < 1 << 24; x++) {
        s[0] = (char)(x >> 16), s[1] = (char)(x >> 8), s[2] = (char)x;
        int want = naive3(x), got = utf8_next(s, 3, &cp);
        wrong += got != (want ? want : -3);
        if (!want) {                                    /* a fourth byte: any of 80..BF, no other */
            s[3] = (char)0x80, wrong += utf8_next(s, 4, &cp) != 4;
            s[3] = (char)0xbf, wrong += utf8_next(s, 4, &cp) != 4;
            s[3] = (char)0x7f, wrong += utf8_next(s, 4, &cp) != -3;
            s[3] = (char)0xc0, wrong += utf8_next(s, 4, &cp) != -3;
        }
    }
    ok(!wrong, "all strings of three bytes, and their fourth (%u wrong)", wrong);
    wrong = 0;
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (c >= 0xd800 && c < 0xe000)
            continue;
        int k = utf8_put(s, c);
        wrong +=
            utf8_next(s, (size_t)k, &cp) != k || cp != c || utf8_valid(s, (size_t)k) != (size_t)k;
        for (int j = 1; j < k; j++) {                   /* cut short */
            wrong += utf8_next(s, (size_t)j, &cp) != -j || utf8_valid(s, (size_t)j) != 0;
            wrong += utf8_complete(s, (size_t)j) != 0;
        }
        wrong += utf8_complete(s, (size_t)k) != (size_t)k;
    }
    ok(!wrong, "every scalar value, there and back (%u wrong)", wrong);
}

/* utf8_valid() as it is defined, a character at a time. */
static size_t plain_valid(const char *s, size_t n)
{
    uint32_t cp;
    size_t i = 0;
    for (int k; i < n && (k = utf8_next(s + i, n - i, &cp)) > 0; ) i += (size_t)k;
    return i;
}

static void fast_path(void)
{
    unsigned wrong = 0;
    char s[8] = "???\xc3\xa9" "ab";
    for (uint32_t x = 0xc00000; x < 0x1000000; x++) {
        s[0] = (char)(x >> 16), s[1] = (char)(x >> 8), s[2] = (char)x;
        wrong += utf8_valid(s, 7) != plain_valid(s, 7) || utf8_valid(s, 4) != plain_valid(s, 4);
    }
    ok(!wrong, "strings of three bytes, a character after them (%u wrong)", wrong);
    char t[64];
    uint64_t x = 1;
    static const char *const part[] = { "a", "\xc3\xa9", "\xe6\x97\xa5", "\xf0\x9f\x98\x80", "\xed\x9f\xbf",
                                        "\xed\xa0\x80", "\xe0\xa0\x80", "\xc2", "\xe6\x97", "\x80" };
    wrong = 0;
    for (int i = 0; i < 300000; i++) {
        size_t n = 0;
        while (n < 50) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            uint64_t k = (x >> 40) % 64;
            const char *c = part[k < 60 ? k % 5 : 5 + k % 5];
            memcpy(t + n, c, strlen(c));
            n += strlen(c);
        }
        n -= x >> 60;
        wrong += utf8_valid(t, n) != plain_valid(t, n);
    }
    ok(!wrong, "300,000 mixed strings (%u wrong)", wrong);
}

static void repairs(const char *name, const char *s, size_t n, const char *want, uint64_t bad)
{
    Buf b = {0};
    buf_str(&b, "<");
    uint64_t k = utf8_repair(&b, s, n);
    ok(k == bad && b.n == strlen(want) + 1 && !memcmp(b.s + 1, want, b.n - 1) &&
       utf8_valid(b.s, b.n) == b.n, "repair: %s", name);
    buf_free(&b);
}
#define R "\xef\xbf\xbd"

int main(void)
{
    list();
    exhaustive();
    fast_path();
    repairs("bad bytes, a cut character", "hi\xff\xfe \xe6\xad\n", 8, "hi" R R " " R "\n", 3);
    repairs("overlong", "\xc0\x80", 2, R R, 2);
    repairs("a surrogate", "\xed\xa0\x80", 3, R R R, 3);
    repairs("past the last", "\xf4\x90\x80\x80", 4, R R R R, 4);
    repairs("a cut end", "ab\xf0\x9f", 4, "ab" R, 1);
    repairs("cut characters one after the other", "\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", 9,
            R R R R "A", 4);
    repairs("good text", "na\xc3\xafve \xf0\x9f\x90\x95", 11, "na\xc3\xafve \xf0\x9f\x90\x95", 0);
    repairs("nothing", "", 0, "", 0);

    char nul[] = "a\0b\0\xc3\xa9";
    ok(utf8_valid(nul, 6) == 6 && utf8_count(nul, 6) == 5, "NUL is a character");
    ok(utf8_complete("ab\xf0\x9f\x90", 5) == 2, "incomplete at the end");
    ok(utf8_complete("ab\x90\x90", 4) == 4, "ill-formed, not incomplete");
    ok(utf8_complete("ab\xc0", 3) == 3, "what can never lead is not incomplete");
    ok(utf8_complete("\xe0\x9f", 2) == 2, "a second byte that does not fit is not incomplete");
    ok(utf8_complete("", 0) == 0, "empty");

    /* The fast path over 8 bytes finds a bad byte at every offset. */
    bool good = true;
    char s[40];
    for (size_t at = 0; at < 40; at++) {
        memset(s, 'x', sizeof s);
        s[at] = (char)0x80;
        good = good && utf8_valid(s, 40) == at;
    }
    ok(good, "a bad byte at every offset");
    return done();
}
