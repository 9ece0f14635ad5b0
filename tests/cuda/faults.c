/* A test of the tests: a kernel whose tile is used before it is there, and one whose tile is replaced
 * while it is in use (experts.cu), must give other results in one of the emulator's schedules at least.
 * Those of attention are in attn.c. */
#define HARNESS_CUDA
#include "../ops/harness.h"
#include "ops/cuda/fp8.h"

#ifndef ON_DEVICE
void faulty_fp8(int fault, uint8_t *q, uint8_t *t, float *scale, const void *x, int N, int C, int e5m2);
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
/* fp8.cu: no barrier in the maximum, none before a tile is read transposed */
static void eight_bits(void)
{
    enum { M = 200, K = 144, P = 208 };
    uint16_t *x = random_elems(true, M * K, -1, 1);
    bool as_right[3] = { true, true, true };
    char *right = NULL;
    for (int fault = 0; fault <= 2; fault++)
        for (int i = 1; i <= VARIANTS; i++) {
            const Ops *o = tier_ops("cuda", i);
            uint8_t *t = dev(o, NULL, P * K + 2 * sizeof(float));
            float *scale = (float *)(void *)(t + P * K);
            const void *dx = dev(o, x, 2 * M * K);
            if (fault) faulty_fp8(fault, NULL, t, scale, dx, M, K, 0);
            else cuda_fp8(NULL, t, scale, dx, M, K, 0);
            char *got = dev_get(o, t, P * K + 2 * sizeof(float));
            dev_end(o);
            if (!right) right = got;
            else if (memcmp(got, right, P * K + 2 * sizeof(float)) != 0) as_right[fault] = false;
            if (got != right) free(got);
        }
    ok(as_right[0] && !as_right[1] && !as_right[2],
       "fp8: no fault, no barrier in the maximum, none before a tile is read: seen");
    free(right), free(x);
}
int main(void)
{
    bf16 = true;
    eight_bits();
    bf16 = false;
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
