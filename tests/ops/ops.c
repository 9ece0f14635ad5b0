/* Every operation of the CPU back-end against a naive one, in float and (REAL_F64) in double. */
#include "cases.h"

/* ---- dropout: n, thousandths, beta. Not in the shared list: a back-end may lack it. */
static void dr_arrays(Arr *a, const int *d)
{
    ARRAYS({ "y", d[2] ? 'Y' : 'y', d[0], 0, 0 }, { "x", 'x', d[0], 0, 0 });
}
static void dr_call(const Ops *o, void **a, const int *d)
{
    const Drop p = some_drop(d[1]);
    o->dropout(a[0], a[1], d[0], &p, d[2]);
}
static void dr_back(const Ops *o, void **g, void *dy, void **a, const int *d)
{
    const Drop p = some_drop(d[1]);
    (void)a;
    if (g[1]) o->dropout(g[1], dy, d[0], &p, 1);
}
static void dr_naive(double **a, double **mag, const int *d)
{
    const Drop p = some_drop(d[1]);
    for (int i = 0; i < d[0]; i++) {
        double x = a[1][i] * drop_by(&p, p.at + (uint64_t)i), y = d[2] ? a[0][i] : 0;
        mag[0][i] = fabs(x) + fabs(y);
        a[0][i] = x + y;
    }
}
static const int dr_dims[][MAXDIM] = {
    D(1, 500, 0), D(7, 100, 1), D(33, 900, 0), D(100, 1, 0), D(20000, 300, 1),
};
/* Not above 0.5: a bfloat16 y is off by a rounding of what dropout has multiplied by 1 / (1 - p), and a
 * query that sees few keys has a gradient which is the difference from that. */
static const int at_drop_dims[][MAXDIM] = {
    D(1, 1, 1, 1, 1, 0, 0, 0, 500),    D(1, 3, 2, 1, 6, 0, 0, 0, 300),
    D(2, 4, 1, 1, 7, 1, 0, 0, 200),    D(3, 17, 2, 2, 8, 16, 0, 0, 100),
    D(1, 65, 4, 2, 33, 0, 0, 0, 500),  D(2, 67, 1, 1, 3, 5, 0, 0, 500),
    D(1, 140, 2, 2, 17, 0, 0, 2, 250), D(2, 130, 6, 3, 65, 70, 0, 40, 100),
};
static const OpTest drop_tests[] = {
    { "dropout", dr_arrays, dr_call, dr_naive, dr_back, NULL, DIMS(dr_dims) },
    { "attn_drop", at_arrays, at_call, at_naive, at_back, at_terms, DIMS(at_drop_dims) },
};

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
    for (size_t i = 0; i < sizeof drop_tests / sizeof *drop_tests; i++)
        if (argc < 2 || strcmp(argv[1], drop_tests[i].name) == 0) check_op(&drop_tests[i]);
    check_share();
    for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++)
        if (tier_runs(tiers[i])) check_aux(tier_ops(tiers[i], 1));
    return done();
}
