/* A NaN in attention gets to what sees it, and nowhere else: the CPU's back-end, every tier, with real =
 * float and with REAL_F64. */
#include "nan.h"

int main(void)
{
    for (size_t t = 0; t < sizeof tiers / sizeof *tiers; t++)
        for (int h = 0; h < (sizeof(real) == 8 ? 1 : 2); h++) {
            bf16 = h;
            for (int i = (int)(t + (size_t)h) % 2; tier_runs(tiers[t]) && i < NAN_SHAPES; i += 2)
                check_nan(tiers[t], nan_shapes[i]);     /* in turns: half of them each */
        }
    return done();
}
