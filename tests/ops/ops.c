/* Every operation of the CPU back-end against a naive one, in float and (REAL_F64) in double. */
#include "cases.h"

/* Of the numbers of a key a part p is dropped, whatever the key and where it starts; neighbours and
 * equal counters of other keys are independent. */
static void check_share(void)
{
    enum { N = 1 << 20 };
    const uint64_t keys[] = { 0, 1, 2, 1ull << 63, ~0ull };
    for (int k = 0; k < 5; k++) {
        const uint32_t limit = drop_limit(0.3);
        int n = 0, pair = 0, both = 0, was = 0;
        for (uint64_t i = 0; i < N; i++) {
            int at = drop_number(keys[k], i << (k == 2 ? 20 : 0)) < limit;
            n += at;
            pair += at && was;
            both += at && drop_number(keys[k] + 1, i) < limit;
            was = at;
        }
        const double s = 4.5 * sqrt(0.3 * 0.7 / N), t = 4.5 * sqrt(0.09 * 0.91 / N);
        ok(fabs((double)n / N - 0.3) <= s && fabs((double)pair / N - 0.09) <= t &&
               fabs((double)both / N - 0.09) <= t,
           "key %d: %.5f dropped, %.5f with the one before, %.5f with the next key", k,
           (double)n / N, (double)pair / N, (double)both / N);
    }
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (argc < 2 || strcmp(argv[1], tests[i].name) == 0) check_op(&tests[i]);
    check_share();
    check_pairs();
    for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++)
        if (tier_runs(tiers[i])) check_aux(tier_ops(tiers[i], 1));
    return done();
}
