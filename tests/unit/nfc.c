/* Form NFC: known cases; and equal texts come to one form, which stays as it is. */
#include "text/nfc.h"
#include "base/rng.h"
#include "tap.h"
#include "text/utf8.h"

static bool is(const char *s, const char *want)
{
    Buf b = {0};
    size_t m;
    const char *got = nfc(&b, s, strlen(s), &m);
    bool same = m == strlen(want) && !memcmp(got, want, m);
    if (!same) printf("# got %.*s\n", (int)m, got);
    buf_free(&b);
    return same;
}

static void put(Buf *b, uint32_t c)
{
    char s[4];
    buf_add(b, s, (size_t)utf8_put(s, c));
}

/* Each pair of the table, written apart, comes together. */
static void pairs(void)
{
    int wrong = 0;
    Buf b = {0}, c = {0}, n = {0};
    for (int i = 0; i < NFC_JOINS; i++) {
        const uint32_t *p = nfc_pair[nfc_join[i]];
        size_t m;
        buf_clear(&b), buf_clear(&c);
        put(&b, p[1]), put(&b, p[2]), put(&c, p[0]);
        const char *s = nfc(&n, b.s, b.n, &m);
        wrong += m != c.n || memcmp(s, c.s, m);
        s = nfc(&n, c.s, c.n, &m);
        wrong += s != c.s;                              /* is in the form: not touched */
    }
    ok(!wrong, "%d compositions (%d wrong)", NFC_JOINS, wrong);
    buf_free(&b), buf_free(&c), buf_free(&n);
}

/* A letter and marks of different classes, in any order and partly composed: one form. */
static void orders(void)
{
    static const uint32_t marks[] = { 0x327, 0x323, 0x302, 0x345, 0x5b0 };  /* 202 220 230 240 10 */
    Rng r;
    rng_init(&r, 1, 0);
    int wrong = 0;
    for (int k = 0; k < 20000; k++) {
        uint32_t m[5], letter = "aeocAEOC"[rng_below(&r, 8)];
        Buf b[2] = {{0}, {0}}, out[2] = {{0}, {0}}, again = {0};
        size_t n[2], x, count = 1 + rng_below(&r, 5);
        const char *s[2];
        memcpy(m, marks, sizeof m);
        for (size_t i = 4; i; i--) {
            size_t j = rng_below(&r, i + 1);
            uint32_t t = m[i]; m[i] = m[j], m[j] = t;
        }
        for (int w = 0; w < 2; w++) {
            for (size_t i = count - 1; i; i--) {
                size_t j = rng_below(&r, i + 1);
                uint32_t t = m[i]; m[i] = m[j], m[j] = t;
            }
            put(&b[w], 'x'), put(&b[w], letter);
            for (size_t i = 0; i < count; i++) put(&b[w], m[i]);
            put(&b[w], 'y');
            s[w] = nfc(&out[w], b[w].s, b[w].n, &n[w]);
        }
        wrong += n[0] != n[1] || memcmp(s[0], s[1], n[0]);
        const char *same = nfc(&again, s[0], n[0], &x);
        wrong += x != n[0] || memcmp(same, s[0], x);
        for (int w = 0; w < 2; w++) buf_free(&b[w]), buf_free(&out[w]);
        buf_free(&again);
    }
    ok(!wrong, "20000 orders of marks (%d wrong)", wrong);
}

int main(void)
{
    ok(is("", "") && is("abc", "abc") && is("caf\xc3\xa9", "caf\xc3\xa9"), "what is in the form");
    ok(is("cafe\xcc\x81", "caf\xc3\xa9") && is("e\xcc\x81", "\xc3\xa9"),
       "e, acute");
    ok(is("\xcc\x81", "\xcc\x81") && is("\xcc\x81" "e", "\xcc\x81" "e"), "a mark first");
    ok(is("\xe2\x84\xaa", "K") && is("\xe2\x84\xab", "\xc3\x85") && is("\xe2\x84\xa6", "\xce\xa9"),
       "Kelvin, Angstrom, Ohm");
    ok(is("\xe0\xa5\x98", "\xe0\xa4\x95\xe0\xa4\xbc"), "excluded: U+0958 comes apart");
    ok(is("\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", "\xed\x95\x9c"), "Hangul L V T");
    ok(is("\xed\x95\x98\xe1\x86\xab", "\xed\x95\x9c") && is("\xed\x95\x9c\xe1\x86\xab",
       "\xed\x95\x9c\xe1\x86\xab"), "Hangul LV T; LVT T");
    ok(is("a\xcc\xa3\xcc\x82", "\xe1\xba\xad") && is("a\xcc\x82\xcc\xa3", "\xe1\xba\xad"),
       "two marks");
    ok(is("a\xcd\x85\xcc\x81", "\xc3\xa1\xcd\x85") && is("a\xcc\x81\xcc\x81", "\xc3\xa1\xcc\x81"),
       "a mark that blocks");
    pairs();
    orders();
    Buf b = {0}, out = {0};
    for (int i = 0; i < 1000000; i++) buf_str(&b, i & 1 ? "\xcc\x81" : "\xcc\xa3");
    size_t m;
    nfc(&out, b.s, b.n, &m);
    ok(m == b.n && !memcmp(out.s + m - 2, "\xcc\x81", 2) && !memcmp(out.s, "\xcc\xa3", 2),
       "1,000,000 marks in a row");
    buf_free(&b), buf_free(&out);
    return done();
}
