/* drop.c -- dropout, element by element. */
#include "ops/cpu/each.h"

void CPU(dropout)(Act *y, const Act *x, int64_t n, const Drop *d, int beta)
{
    const uint32_t limit = drop_limit(d->p);
    const uint64_t first = drop_start(d->at, d->from, d->by);
    const real by = (real)(1 / (1 - d->p));
    EACH_CHUNK
        EACH_VECTOR {
            Vec f;
            for (int j = 0; j < VL; j++)
                f[j] = drop_number(d->key, first + (uint64_t)(i + j)) >= limit ? by : 0;
            Vec t = f * aload(x + i, end - i);
            if (beta) t += aload(y + i, end - i);
            astore(y + i, t, end - i);
        }
}
