#include "tap.h"
#include "base/rng.h"
#include <math.h>

/* chi-squared with k - 1 degrees of freedom, as a deviation in standard units */
static double chi(const int *count, int k, double total)
{
    double x = 0, e = total / k;
    for (int i = 0; i < k; i++) x += (count[i] - e) * (count[i] - e) / e;
    return (x - (k - 1)) / sqrt(2.0 * (k - 1));
}

/* Every order of few elements is a bijection and every element may come anywhere; large n too. */
static void test_order(void)
{
    int once = 1;
    for (uint64_t n = 1; n <= 300; n++) {
        char seen[300] = {0};
        for (uint64_t i = 0; i < n; i++) {
            uint64_t k = rng_order(9, n, n, i);
            once &= k < n && !seen[k]++;
        }
    }
    ok(once, "rng_order: a bijection for every n to 300");
    int first[5] = {0}, pair[6] = {0}, total = 30000;
    for (int s = 0; s < total; s++) {
        uint64_t a = rng_order((uint64_t)s, 0, 5, 0);
        first[a]++;
        uint64_t x = rng_order((uint64_t)s, 1, 3, 0), y = rng_order((uint64_t)s, 1, 3, 1);
        pair[x * 2 + (y > x ? y - 1 : y)]++;
    }
    ok(fabs(chi(first, 5, total)) < 5 && fabs(chi(pair, 6, total)) < 5,
       "  uniform over seeds: %.2f, %.2f", chi(first, 5, total), chi(pair, 6, total));
    const uint64_t large[] = { 1u << 31, 5000000000u, (1ull << 40) + 1, UINT64_MAX };
    int in = 1;
    double ups = 0;
    for (int k = 0; k < 4; k++) {
        uint64_t last = 0;
        for (uint64_t i = 0; i < 4000; i++) {
            uint64_t x = rng_order(1, 2, large[k], large[k] / 4000 * i);
            in &= x < large[k];
            ups += x > last;
            last = x;
        }
    }
    ok(in && fabs(ups / 16000 - 0.5) < 0.02, "  beyond 32 bits, in no order (%.3f up)", ups / 16000);
    ok(rng_order(42, 7, 1000, 3) == 389, "  the order does not change (runs depend on it)");
}

int main(void)
{
    Rng r = { { 1, 2, 3, 4 } }, q;
    static const uint64_t want[] = { 11520u, 0u, 1509978240u, 1215971899390074240u,
        1216172134540287360u,
        607988272756665600u, 16172922978634559625u, 8476171486693032832u, 10595114339597558777u,
        2904607092377533576u };
    int good = 1;
    for (int i = 0; i < 10; i++) good &= rng_u64(&r) == want[i];
    ok(good, "xoshiro256** from the state 1 2 3 4");

    rng_init(&r, 42, 7); rng_init(&q, 42, 7);
    for (int i = 0; i < 100; i++) good &= rng_u64(&r) == rng_u64(&q);
    q = r;
    ok(good && rng_u64(&r) == rng_u64(&q), "same seed, same numbers; the state can be copied");
    rng_init(&r, 0, 0);
    ok(rng_u64(&r) == 13792580860495692599u && rng_u64(&r) == 1062376075926306025u,
        "the seeding does not change (files depend on it)");

    /* Neighbouring seeds and streams: the first numbers differ in half of their bits. */
    double bits = 0;
    for (uint64_t i = 0; i < 4096; i++) {
        Rng s;
        rng_init(&r, i, 5); rng_init(&q, i + 1, 5); rng_init(&s, i, 6);
        uint64_t x = rng_u64(&r);
        bits += __builtin_popcountll(x ^ rng_u64(&q)) + __builtin_popcountll(x ^ rng_u64(&s));
    }
    ok(fabs(bits / 8192 - 32) < 5 * 4 / sqrt(8192),
        "streams are independent (%.3f bits of 64 differ)", bits / 8192);

    int count[10] = {0};
    rng_init(&r, 1, 1);
    for (int i = 0; i < 1000000; i++) count[rng_below(&r, 10)]++;
    ok(fabs(chi(count, 10, 1e6)) < 5, "rng_below is uniform");
    int low = 0;        /* with n = 3 * 2^62, x mod n would hit the low third twice as often */
    for (int i = 0; i < 30000; i++) low += rng_below(&r, 3ull << 62) < 1ull << 62;
    ok(abs(low - 10000) < 5 * sqrt(30000 * 2 / 9.0),
        "rng_below has no bias (%d of 30000 in the low third)", low);
    ok(rng_below(&r, 1) == 0, "rng_below(1)");

    double u = 0, m = 0, v = 0, k = 0;
    int bins[64] = {0}, n = 1000000, tail = 0;
    good = 1;
    for (int i = 0; i < n; i++) {
        double x = rng_uniform(&r), z = rng_normal(&r);
        good &= x >= 0 && x < 1 && isfinite(z);
        u += x;
        bins[(int)(x * 64)]++;
        m += z; v += z * z; k += z * z * z * z;
        tail += fabs(z) > 3;
    }
    ok(good && fabs(u / n - 0.5) < 5 / sqrt(12.0 * n) && fabs(chi(bins, 64, n)) < 5,
        "uniform in [0, 1)");
    ok(fabs(m / n) < 5 / sqrt(n) && fabs(v / n - 1) < 5 * sqrt(2.0 / n)
        && fabs(k / n - 3) < 5 * sqrt(96.0 / n),
       "normal: mean %.4f, variance %.4f, kurtosis %.4f", m / n, v / n, k / n);
    ok(fabs(tail - 0.0026998 * n) < 5 * sqrt(0.0027 * n), "normal: %d beyond three deviations",
        tail);
    test_order();
    return done();
}
