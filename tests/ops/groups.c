/* What the CPU back-end does a group after the other because it is much: rows of attention, whose keys and
 * values are packed 8 MB at a time, and rows of a deep product of bfloat16s, which are added up as reals
 * 4 MB at a time. Shapes of more than one group; also as double (REAL_F64). */
#include "cases.h"

/* Short rows are cheap to check and packed as blocks of 64 keys: 64 KB of bfloat16 pairs or 128 KB of
 * floats for each key head here. */
static const int many_rows[][MAXDIM] = { D(150, 4, 4, 2, 128, 2, 0, 3) };
static const OpTest rows_test = { "attn", at_arrays, at_call, at_naive, at_back, at_grad, at_terms,
                                  DIMS(many_rows) };

#ifndef REAL_F64
/* Some elements of the product y of a and b^T, beta of what y was, against double. The rows of y are
 * more than one group by a few, of k just enough to be deep. */
typedef struct Deep { int rows, cols, k; } Deep;
static int element_bad(const Deep *d, int back, const void *y, const void *was, const void *a,
                       const void *b, int64_t i, int64_t j)
{
    const double start = elem_get(was, true, i * d->cols + j);
    double sum = start, mag = fabs(start);
    for (int64_t k = 0; k < d->k; k++) {
        const double t = elem_get(a, true, i * d->k + k) *
                         elem_get(b, true, back ? k * d->cols + j : j * d->k + k);
        sum += t;
        mag += fabs(t);
    }
    return !(fabs(elem_get(y, true, i * d->cols + j) - sum) <=
             unit * (4 + 2 * sqrt(d->k)) * mag + 0x1p-8 * fabs(sum));
}
static void check_deep(const char *tier, int back)
{
    const int pair = strstr(tier, "_bf16") ? 2 : 1;
    const Deep d = { 1024 + 40, 1024, 4096 * pair + 8 };
    const int64_t n = (int64_t)d.rows * d.cols;
    const Ops *o = tier_ops(tier, 2);
    void *y = random_elems(true, n, -1, 1), *was = dup_bytes(y, (size_t)n * 2),
         *a = random_elems(true, (int64_t)d.rows * d.k, -1, 1),
         *b = random_elems(true, (int64_t)d.cols * d.k, -1, 1);
    if (back) o->linear_dx(y, a, b, d.rows, d.cols, d.k, 1);
    else o->linear(y, a, b, d.rows, d.k, d.cols, 1);
    int bad = 0;
    for (int i = 0; i < 300; i++)       /* the last group, of 40 rows, is a third of them */
        bad += element_bad(&d, back, y, was, a, b, i % 3 ? (int64_t)uniform(0, d.rows)
                                                         : (int64_t)uniform(1024, d.rows),
                           (int64_t)uniform(0, d.cols));
    ok(bad == 0, "%s: %s of %d rows, %d deep: %d elements of 300 are wrong", tier,
       back ? "linear_dx" : "linear", d.rows, d.k, bad);
    free(y), free(was), free(a), free(b);
}
#endif

int main(void)
{
    check_op(&rows_test);
#ifndef REAL_F64
    bf16 = true;
    for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++)
        for (int back = 0; back < 2; back++)
            if (tier_runs(tiers[i])) check_deep(tiers[i], back);
    bf16 = false;
#endif
    return done();
}
