/* The calculator: what it refuses, its numbers against 128-bit arithmetic and the C library. */
#include "base/rng.h"
#include "tap.h"
#include "text/calc.h"
#include <math.h>

static Buf got;

static const char *of(const char *s)
{
    return calc(s, strlen(s), &got) ? got.s : "nothing";
}

static int is(const char *s, const char *want)
{
    return strcmp(of(s), want) == 0;
}

/* before * n, middle, after * n */
static int nested(const char *before, int n, const char *middle, const char *after,
                  const char *want)
{
    Buf b = {0};
    for (int i = 0; i < n; i++) buf_str(&b, before);
    buf_str(&b, middle);
    for (int i = 0; i < n; i++) buf_str(&b, after);
    int good = is(b.s, want);
    buf_free(&b);
    return good;
}

static void hostile(void)
{
    /* F59: what a model writes is never code */
    ok(is("1/0", "nothing") && is("1//0.0", "nothing"), "division by zero");
    ok(is("9**9**9", "nothing"), "no powers");
    ok(is("system('id')", "nothing") && is("__import__('os').system('id')", "nothing"), "no code");
    ok(is("'import'.count('i')", "nothing") && is("'reOpened'.count('e')", "nothing"),
       "the words that nanochat forbids");
    ok(is("", "nothing") && is(",", "nothing") && is(" ", "nothing"), "nothing at all");
    ok(!calc("1+\0002", 4, &got), "a NUL");
    ok(nested("(", 200, "7", ")", "7") && nested("(", 201, "7", ")", "nothing"), "200 brackets");
    ok(nested("(", 10000, "", "", "nothing") && nested("(", 10000, "7", ")", "nothing"), "10,000");
    ok(nested("-", 200, "7", "", "7") && nested("-", 201, "7", "", "nothing"), "200 signs");
    ok(nested("-(", 200, "7", ")", "7"), "both");
    ok(nested("1", 1000000, "", "", "nothing"), "1 MB of digits");
    ok(nested("1", 4300, "", "", "nothing") == 0 && nested("1", 4301, "", "", "nothing"),
       "4300 digits are read");
    ok(nested("1", 4300, "*10", "", "nothing"), "and not more are printed");
    ok(nested("9*", 32000, "9", "", "nothing") && nested("9*", 4000, "1//9", "", "nothing") == 0,
       "a long product");
}

static void appendix(Buf *b, __int128 x)
{
    char t[48];
    int n = 48;
    unsigned __int128 u = x < 0 ? -(unsigned __int128)x : (unsigned __int128)x;
    do t[--n] = (char)('0' + (int)(u % 10)); while ((u /= 10) > 0);
    if (x < 0) t[--n] = '-';
    buf_add(b, t + n, (size_t)(48 - n));
}

/* a op b for numbers of up to 62 and 63 bits; their products have 125. */
static void integers(void)
{
    static const char *const op[] = { "+", "-", "*", "//" };
    Rng r;
    rng_init(&r, 3, 4);
    int bad = 0;
    for (int k = 0; k < 40000; k++) {
        __int128 a = (__int128)(rng_u64(&r) >> (2 + rng_below(&r, 60)));
        __int128 b = (__int128)(rng_u64(&r) >> (1 + rng_below(&r, 60))), x = 0;
        if (k & 1) a = a * b + (k & 2 ? 1 : -1);
        if (k & 4) a = -a;
        if (k & 8) b = -b;
        int o = (int)rng_below(&r, b ? 4 : 3);
        if (o == 2) a %= (__int128)1 << 63;
        if (o == 0) x = a + b;
        if (o == 1) x = a - b;
        if (o == 2) x = a * b;
        if (o == 3) x = a / b - (a % b != 0 && (a < 0) != (b < 0));
        Buf s = {0}, want = {0};
        appendix(&s, a);
        buf_str(&s, op[o]);
        appendix(&s, b);
        appendix(&want, x);
        bad += !is(s.s, want.s);
        buf_free(&s);
        buf_free(&want);
    }
    ok(bad == 0, "40000 sums, products and quotients of whole numbers");
}

/* (a // b) * b + rest = a with 0 <= rest < b, for long numbers: checked by the calculator's own
 * signs, of which the multiplication was checked above. */
static void long_division(void)
{
    Rng r;
    rng_init(&r, 5, 6);
    int bad = 0;
    for (int k = 0; k < 300; k++) {
        Buf a = {0}, b = {0}, s = {0};
        for (int i = 1 + (int)rng_below(&r, 900); i >= 0; i--)
            buf_char(&a, (char)('1' + (k % 3 ? rng_below(&r, 9) : 8)));
        for (int i = 1 + (int)rng_below(&r, 400); i >= 0; i--)
            buf_char(&b, (char)('1' + (k % 5 ? rng_below(&r, 9) : 0)));
        buf_printf(&s, "%s-%s//%s*%s", a.s, a.s, b.s, b.s);
        if (!calc(s.s, s.n, &got) || got.s[0] == '-') bad++;
        buf_printf(&s, "-%s", b.s);
        if (!calc(s.s, s.n, &got) || got.s[0] != '-') bad++;
        buf_free(&a), buf_free(&b), buf_free(&s);
    }
    ok(bad == 0, "300 long divisions leave a rest of the right size");
}

/* Floats read back equal, and with one digit less they do not. */
static void floats(void)
{
    Rng r;
    rng_init(&r, 7, 8);
    int bad = 0, longer = 0;
    for (int k = 0; k < 20000; k++) {
        uint64_t bits = rng_u64(&r) >> 1;
        double x = k < 2098 ? ldexp(1, k - 1074) : 0;
        if (k >= 2098) memcpy(&x, &bits, 8);
        if (isnan(x) || isinf(x)) continue;
        Buf b = {0};
        char t[40];
        calc_float(&b, x);
        bad += strtod(b.s, NULL) != x;
        int digits = 0, lead = 1;
        for (const char *p = b.s; *p && *p != 'e'; p++) {
            if (*p >= '1' && *p <= '9') lead = 0;
            digits += *p >= '0' && *p <= '9' && !lead;
        }
        if (strchr(b.s, 'e') && digits > 1) {           /* elsewhere zeros may follow */
            snprintf(t, sizeof t, "%.*e", digits - 2, x);
            longer += strtod(t, NULL) == x;
        }
        buf_free(&b);
    }
    ok(bad == 0 && longer == 0, "20000 floats: %d do not read back, %d could be shorter", bad,
       longer);
    ok(is("1/10000000000000000", "1e-16") && is("1/17592186044416", "5.684341886080802e-14"),
       "the shortest above a power of two");
    ok(is("36028797018963969/1", "3.602879701896397e+16"), "whole numbers to floats: ties to even");
    ok(is("-0.0", "-0.0") && is("0/-5", "-0.0") && is("-7.5//2", "-4.0"), "signs of zero, floors");
}

int main(void)
{
    hostile();
    integers();
    long_division();
    floats();
    ok(is("'aaa'.count('aa')", "1") && is("'a b'.count(' ')", "1") && is("''.count('')", "1"),
       "counting");
    ok(is("'a'.count('b'", "nothing") && is("'a'.count('b')x", "nothing") &&
       is("'a'.find('a.count(')", "nothing") && is("'a''b'.count('b')", "nothing"),
       "and nothing else with texts");
    buf_free(&got);
    return done();
}
