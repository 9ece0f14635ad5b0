/* calc_big.c -- see calc_big.h. */
#include "text/calc_big.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static Big make(size_t n)
{
    return (Big){ .n = n, .d = xcalloc(n ? n : 1, sizeof(uint32_t)) };
}

static Big trim(Big a, bool neg)
{
    while (a.n > 0 && a.d[a.n - 1] == 0) a.n--;
    a.neg = neg && a.n > 0;
    return a;
}

void big_free(Big *a)
{
    free(a->d);
    *a = (Big){0};
}

Big big_copy(Big a)
{
    Big c = make(a.n);
    if (a.n) memcpy(c.d, a.d, a.n * sizeof *c.d);
    c.neg = a.neg;
    return c;
}

Big big_neg(Big a)
{
    return trim(big_copy(a), !a.neg);
}

size_t big_bits(Big a)
{
    return a.n ? 32 * a.n - (size_t)__builtin_clz(a.d[a.n - 1]) : 0;
}

/* d[0..n) = d * by + plus; the carry that is left. */
static uint32_t small_mul(uint32_t *d, size_t n, uint32_t by, uint32_t plus)
{
    uint64_t c = plus;
    for (size_t i = 0; i < n; i++, c >>= 32) d[i] = (uint32_t)(c += (uint64_t)d[i] * by);
    return (uint32_t)c;
}

/* d[0..n) = d / by; the remainder. */
static uint32_t small_div(uint32_t *d, size_t n, uint32_t by)
{
    uint64_t r = 0;
    for (size_t i = n; i-- > 0; r %= by) {
        r = r << 32 | d[i];
        d[i] = (uint32_t)(r / by);
    }
    return (uint32_t)r;
}

Big big_parse(const char *s, size_t n)
{
    Big a = make(n / 9 + 1);            /* 9 digits are less than 30 bits */
    size_t used = 0;
    for (size_t i = 0; i < n; ) {
        uint32_t part = 0, scale = 1;
        for (; i < n && scale < 1000000000; i++, scale *= 10)
            part = 10 * part + (uint32_t)(s[i] - '0');
        uint32_t carry = small_mul(a.d, used, scale, part);
        if (carry) a.d[used++] = carry;
    }
    a.n = used;
    return trim(a, false);
}

void big_print(Buf *out, Big a)
{
    Big r = big_copy(a);
    size_t n = r.n, parts = 0;
    uint32_t *part = xreallocarray(NULL, a.n * 32 / 29 + 2, sizeof *part);      /* of 9 digits */
    while (n > 0) {
        part[parts++] = small_div(r.d, n, 1000000000);
        while (n > 0 && r.d[n - 1] == 0) n--;
    }
    if (a.neg) buf_char(out, '-');
    buf_printf(out, "%u", parts ? (unsigned)part[parts - 1] : 0);
    for (size_t i = parts; i-- > 1; ) buf_printf(out, "%09u", (unsigned)part[i - 1]);
    free(part);
    big_free(&r);
}

/* ---- arithmetic ------------------------------------------------------------------------- */

static int compare(Big a, Big b)                /* of magnitudes */
{
    if (a.n != b.n) return a.n < b.n ? -1 : 1;
    for (size_t i = a.n; i-- > 0; )
        if (a.d[i] != b.d[i]) return a.d[i] < b.d[i] ? -1 : 1;
    return 0;
}

static Big plus(Big a, Big b)                   /* of magnitudes */
{
    if (a.n < b.n) { Big t = a; a = b; b = t; }
    Big c = make(a.n + 1);
    uint64_t carry = 0;
    for (size_t i = 0; i < a.n; i++, carry >>= 32)
        c.d[i] = (uint32_t)(carry += (uint64_t)a.d[i] + (i < b.n ? b.d[i] : 0));
    c.d[a.n] = (uint32_t)carry;
    return c;
}

static Big minus(Big a, Big b)                  /* of magnitudes, a >= b */
{
    Big c = make(a.n);
    uint64_t borrow = 0;
    for (size_t i = 0; i < a.n; i++) {
        uint64_t x = (uint64_t)a.d[i] - (i < b.n ? b.d[i] : 0) - borrow;
        c.d[i] = (uint32_t)x;
        borrow = x >> 63;
    }
    return c;
}

Big big_add(Big a, Big b)
{
    if (a.neg == b.neg) return trim(plus(a, b), a.neg);
    return compare(a, b) >= 0 ? trim(minus(a, b), a.neg) : trim(minus(b, a), b.neg);
}

Big big_mul(Big a, Big b)
{
    Big c = make(a.n + b.n);
    for (size_t i = 0; i < a.n; i++) {
        uint64_t carry = 0;
        for (size_t k = 0; k < b.n; k++, carry >>= 32)
            c.d[i + k] = (uint32_t)(carry += (uint64_t)a.d[i] * b.d[k] + c.d[i + k]);
        c.d[i + b.n] = (uint32_t)carry;
    }
    return trim(c, a.neg != b.neg);
}

static Big shifted(Big a, size_t bits)          /* the magnitude, to the left */
{
    size_t limbs = bits / 32, k = bits % 32;
    Big c = make(a.n + limbs + 1);
    for (size_t i = 0; i < a.n; i++) {
        uint64_t x = (uint64_t)a.d[i] << k;
        c.d[i + limbs] |= (uint32_t)x;
        c.d[i + limbs + 1] = (uint32_t)(x >> 32);
    }
    return trim(c, false);
}

/* One digit of a long division: u[0 .. n] -= q * v[0 .. n), for the largest q that leaves it
 * positive. v's highest bit is set. Knuth, TAOCP 2, 4.3.1, algorithm D. */
static uint32_t digit(uint32_t *u, const uint32_t *v, size_t n)
{
    uint64_t top = (uint64_t)u[n] << 32 | u[n - 1], q = top / v[n - 1], r = top % v[n - 1];
    while (q >> 32 || (n > 1 && q * v[n - 2] > (r << 32 | u[n - 2]))) {
        q--;
        r += v[n - 1];
        if (r >> 32) break;
    }
    uint64_t borrow = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t p = q * v[i] + borrow;
        borrow = (p >> 32) + (u[i] < (uint32_t)p);
        u[i] -= (uint32_t)p;
    }
    bool over = u[n] < borrow;
    u[n] -= (uint32_t)borrow;
    if (!over) return (uint32_t)q;
    uint64_t carry = 0;                         /* q was one too large: add v back */
    for (size_t i = 0; i < n; i++, carry >>= 32) u[i] = (uint32_t)(carry += (uint64_t)u[i] + v[i]);
    u[n] += (uint32_t)carry;
    return (uint32_t)(q - 1);
}

/* Of magnitudes: a / b rounded down; *exact: nothing is left. */
static Big divide(Big a, Big b, bool *exact)
{
    if (compare(a, b) < 0) return *exact = a.n == 0, make(0);
    size_t k = (size_t)__builtin_clz(b.d[b.n - 1]);
    Big v = shifted(b, k), t = shifted(a, k), u = make(a.n + 1), q = make(a.n - b.n + 1);
    memcpy(u.d, t.d, t.n * sizeof *u.d);
    for (size_t i = q.n; i-- > 0; ) q.d[i] = digit(u.d + i, v.d, v.n);
    *exact = trim(u, false).n == 0;
    big_free(&u), big_free(&v), big_free(&t);
    return trim(q, false);
}

Big big_floordiv(Big a, Big b)
{
    bool exact, neg = a.neg != b.neg;
    Big q = divide(a, b, &exact);
    if (neg && !exact) {
        static uint32_t one[] = { 1 };
        Big p = plus(q, (Big){ .n = 1, .d = one });
        big_free(&q);
        q = p;
    }
    return trim(q, neg);
}

/* q * 2^e, q >= 2^63, and a little more if not exact: rounded to the nearest double. */
static double rounded(uint64_t q, bool exact, long e)
{
    long top = e + 63, keep = top < -1022 ? 53 + 1022 + top : 53, drop = 64 - keep;
    if (top > 1023) return INFINITY;
    if (drop > 64) return 0;
    uint64_t m = drop == 64 ? 0 : q >> drop, half = 1ull << (drop - 1);
    uint64_t rest = drop == 64 ? q : q & ((1ull << drop) - 1);
    m += rest > half || (rest == half && (!exact || (m & 1)));
    return ldexp((double)m, (int)(e + drop));
}

double big_ratio(Big a, Big b)
{
    bool exact, neg = a.neg != b.neg;
    if (a.n == 0) return neg ? -0.0 : 0.0;
    long up = 64 - ((long)big_bits(a) - (long)big_bits(b));     /* a 2^up / b has 64 or 65 bits */
    Big x = up > 0 ? shifted(a, (size_t)up) : big_copy(a);
    Big y = up < 0 ? shifted(b, (size_t)-up) : big_copy(b);
    Big q = divide(x, y, &exact);
    uint64_t m = q.d[0] | (uint64_t)q.d[1] << 32;
    if (q.n == 3) {
        exact = exact && !(m & 1);
        m = m >> 1 | (uint64_t)1 << 63;
        up--;
    }
    big_free(&x), big_free(&y), big_free(&q);
    double r = rounded(m, exact, -up);
    return neg ? -r : r;
}

double big_double(Big a)
{
    static uint32_t one[] = { 1 };
    return big_ratio(a, (Big){ .n = 1, .d = one });
}
