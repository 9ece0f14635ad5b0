/* drop.c -- dropout, element by element. */
#include "ops/cpu/vec.h"

enum { CHUNK = 8192 };

void CPU(dropout)(Act *y, const Act *x, int64_t n, const Drop *d, int beta)
{
    const uint32_t limit = drop_limit(d->p);
    const uint64_t first = drop_start(d->at, d->from, d->by);
    const real by = (real)(1 / (1 - d->p));
    OMP(parallel for schedule(static) if(n > WAKE))
    for (int64_t at = 0; at < n; at += CHUNK)
        for (int64_t i = at, end = min64(at + CHUNK, n); i < end; i += VL) {
            Vec f;
            for (int j = 0; j < VL; j++)
                f[j] = drop_number(d->key, first + (uint64_t)(i + j)) >= limit ? by : 0;
            Vec t = f * aload(x + i, end - i);
            if (beta) t += aload(y + i, end - i);
            astore(y + i, t, end - i);
        }
}
