/* optim.c -- adamw, and sums of squares. */
#include "ops/cpu/vec.h"

enum { CHUNK = 8192 };      /* a unit of work and of partial sums */

void TIERED(adamw)(real *p, const real *g, real *m, real *v, int64_t n, double lr, double b1,
                double b2, double eps, double wd, double c1, double c2)
{
    const real keep = (real)(1 - lr * wd), f1 = (real)(1 - b1), f2 = (real)(1 - b2),
               step = (real)(lr / c1);
    const real inv2 = (real)(1 / c2), e = (real)eps;
    OMP(parallel for schedule(static) if(n > WAKE))
    for (int64_t at = 0; at < n; at += CHUNK)
        for (int64_t i = at; i < min64(n, at + CHUNK); i++) {
            m[i] += f1 * (g[i] - m[i]);
            v[i] += f2 * (g[i] * g[i] - v[i]);
            p[i] = keep * p[i] - step * m[i] / (MATH(sqrt)(v[i] * inv2) + e);
        }
}
void TIERED(scale)(real *x, double s, int64_t n)
{
    const real f = (real)s;
    OMP(parallel for schedule(static) if(n > WAKE))
    for (int64_t at = 0; at < n; at += CHUNK)
        for (int64_t i = at; i < min64(n, at + CHUNK); i += VL)
            vstore(x + i, f * vload(x + i, n - i), n - i);
}
void TIERED(lerp)(real *y, const real *x, double a, int64_t n)
{
    const real f = (real)a;
    OMP(parallel for schedule(static) if(n > WAKE))
    for (int64_t at = 0; at < n; at += CHUNK)
        for (int64_t i = at; i < min64(n, at + CHUNK); i++) y[i] += f * (x[i] - y[i]);
}

void TIERED(sumsq)(double *out, const real *x, int64_t n)
{
    int64_t chunks = div_up(n, CHUNK);
    double *part = TIERED(scratch)(SLOT_OP, (size_t)chunks * sizeof *part), s = 0;
    OMP(parallel for schedule(static) if(n > WAKE))
    for (int64_t c = 0; c < chunks; c++)
        part[c] = sum_squares(x + c * CHUNK, min64(CHUNK, n - c * CHUNK));
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
