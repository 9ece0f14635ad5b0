/* A test of the tests: a kernel whose tile is used before it is there, and one whose tile is replaced
 * while it is in use (experts.cu), must give other results in one of the emulator's schedules at least.
 * Those of attention are in attn.c. */
#define HARNESS_CUDA
#include "../ops/harness.h"

#ifndef ON_DEVICE
void faulty_experts(int fault, Act *y, const Act *x, const Act *w, const int *off, int n, int E, int C,
                    int O);

enum { N = 100, E = 2, C = 100, O = 70 };
static void *product(const Ops *o, int fault, const real *x, const real *w, const int *off)
{
    const size_t R = sizeof(real);
    Act *dx = dev(o, x, N * C * R), *dw = dev(o, w, E * O * C * R), *y = dev(o, NULL, N * O * R);
    const int *at = dev(o, off, (E + 1) * sizeof *off);
    if (fault) faulty_experts(fault, y, dx, dw, at, N, E, C, O);
    else o->experts(y, dx, dw, at, N, E, C, O);
    void *host = dev_get(o, y, N * O * R);
    dev_end(o);
    return host;
}
int main(void)
{
    static const char *const names[] = { "no fault", "no barrier once a slice is there",
                                         "no barrier before the next slice" };
    const int off[E + 1] = { 0, 30, N };
    real *x = random_reals(N * C, -1, 1), *w = random_reals(E * O * C, -1, 1);
    void *right = product(tier_ops("cuda", 1), 0, x, w, off);
    for (int fault = 0; fault <= 2; fault++) {
        unsigned seen = 0;
        for (int i = 1; i <= VARIANTS; i++) {
            void *y = product(tier_ops("cuda", i), fault, x, w, off);
            seen |= (unsigned)(memcmp(y, right, N * O * sizeof(real)) != 0) << (i - 1);
            free(y);
        }
        ok(fault ? seen : !seen, "experts, %s: seen by schedules %x", names[fault], seen);
    }
    free(x); free(w); free(right);
    return done();
}
#else
int main(void)
{
    skip("faults are for the emulator", "experts with faults");
    return done();
}
#endif
