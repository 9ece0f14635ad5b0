/* optim.c -- what works on a Store: adamw, sums of squares, scaling, means, and in and out of it. */
#include "ops/cpu/each.h"

void TIERED(store)(Store to, const real *host, int64_t n)
{
    EACH_CHUNK
        EACH_VECTOR sstore(to, i, vload(host + i, end - i), end - i);
}
void TIERED(load)(real *host, Store from, int64_t n)
{
    EACH_CHUNK
        EACH_VECTOR vstore(host + i, sload(from, i, end - i), end - i);
}

void TIERED(adamw)(Store p, Store g, Store m, Store v, int64_t n, double lr, double b1, double b2,
                   double eps, double wd, double c1, double c2)
{
    const real keep = (real)(1 - lr * wd), f1 = (real)(1 - b1), f2 = (real)(1 - b2),
               step = (real)(lr / c1);
    const real inv2 = (real)(1 / c2), e = (real)eps;
    EACH_CHUNK
        EACH_VECTOR {
            const int64_t left = end - i;
            Vec d = sload(g, i, left), a = sload(m, i, left), b = sload(v, i, left);
            a += f1 * (d - a);
            b += f2 * (d * d - b);
            sstore(m, i, a, left);
            sstore(v, i, b, left);
            sstore(p, i, keep * sload(p, i, left) - step * a / (vsqrt(b * inv2) + e), left);
        }
}
void TIERED(scale)(Store x, double s, int64_t n)
{
    const real f = (real)s;
    EACH_CHUNK
        EACH_VECTOR sstore(x, i, f * sload(x, i, end - i), end - i);
}
void TIERED(lerp)(real *y, Store x, double a, int64_t n)
{
    const real f = (real)a;
    EACH_CHUNK
        EACH_VECTOR {
            Vec t = vload(y + i, end - i);
            vstore(y + i, t + f * (sload(x, i, end - i) - t), end - i);
        }
}
void TIERED(exchange)(Store p, real *x, int64_t n)
{
    EACH_CHUNK
        EACH_VECTOR {
            const int64_t left = end - i;
            Vec a = sload(p, i, left), b = vload(x + i, left);
#ifndef REAL_F64
            if (!p.w && !p.lo) {
                a = join(hload(p.hi + i, left), lower(b));
                hstore(p.hi + i, upper(b), left);
            } else
#endif
            sstore(p, i, b, left);
            vstore(x + i, a, left);
        }
}

void TIERED(sumsq)(double *out, Store x, int64_t n)
{
    int64_t chunks = div_up(n, CHUNK);
    double *part = TIERED(scratch)(SLOT_OP, (size_t)chunks * sizeof *part), s = 0;
    OMP(parallel for schedule(static) if(n > WAKE))
    for (int64_t c = 0; c < chunks; c++)
        part[c] = sum_squares(store_at(x, c * CHUNK), min64(CHUNK, n - c * CHUNK));
    for (int64_t c = 0; c < chunks; c++) s += part[c];
    *out += s;
}
/* one after the other: it is of losses, which are few */
void TIERED(sum)(double *out, const real *x, int64_t n)
{
    double s = *out;
    for (int64_t i = 0; i < n; i++) s += (double)x[i];
    *out = s;
}
