/* elem.c -- operations element by element: mix, relu2, swiglu, add, cast. */
#include "ops/cpu/vec.h"

enum { CHUNK = 8192 };      /* a unit of work, and of the partial sums of mix_bwd */

#define EACH_CHUNK OMP(parallel for schedule(static) if(n > WAKE)) \
    for (int64_t at = 0; at < n; at += CHUNK)
#define EACH_VECTOR for (int64_t i = at, end = min64(at + CHUNK, n); i < end; i += VL)

void CPU(mix)(Act *y, const Act *x, const real *a, const Act *z, const real *b, real s, int64_t n)
{
    const real p = a ? *a : 1, q = s * (b ? *b : 1);
    EACH_CHUNK
        EACH_VECTOR astore(y + i, p * aload(x + i, end - i) + q * aload(z + i, end - i), end - i);
}

/* dx += a dy, dz += s b dy, da += dy . x, db += s dy . z. dx may be dz. */
void CPU(mix_bwd)(Act *dx, real *da, Act *dz, real *db, const Act *dy, const Act *x, const real *a,
                  const Act *z, const real *b, real s, int64_t n)
{
    const real p = a ? *a : 1, q = s * (b ? *b : 1);
    int64_t chunks = div_up(n, CHUNK);
    double *part = da || db ? TIERED(scratch)(SLOT_OP, (size_t)chunks * 2 * sizeof *part) : NULL;
    EACH_CHUNK {
        Vec sx = { 0 }, sz = { 0 };
        EACH_VECTOR {
            Vec d = aload(dy + i, end - i);
            if (dx) aadd(dx + i, p * d, end - i);
            if (dz) aadd(dz + i, q * d, end - i);
            if (da) sx += d * aload(x + i, end - i);
            if (db) sz += d * aload(z + i, end - i);
        }
        if (part) part[at / CHUNK * 2] = vsum(sx), part[at / CHUNK * 2 + 1] = vsum(sz);
    }
    double sa = 0, sb = 0;
    for (int64_t i = 0; part && i < chunks; i++) sa += part[2 * i], sb += part[2 * i + 1];
    if (da) *da += (real)sa;
    if (db) *db += (real)(s * sb);
}

/* max(x, 0), but NaN stays NaN */
INLINE Vec relu(Vec x) { return vsel(x < 0, vset(0), x); }

void CPU(relu2)(Act *y, const Act *x, int64_t n)
{
    EACH_CHUNK
        EACH_VECTOR {
            Vec r = relu(aload(x + i, end - i));
            astore(y + i, r * r, end - i);
        }
}
/* max(x, 0) is sqrt(y), to half a rounding */
void CPU(relu2_bwd)(Act *dx, const Act *dy, const Act *y, int64_t n, int beta)
{
    if (!dx) return;
    EACH_CHUNK
        EACH_VECTOR {
            Vec d = 2 * vsqrt(aload(y + i, end - i)) * aload(dy + i, end - i);
            if (beta) d += aload(dx + i, end - i);
            astore(dx + i, d, end - i);
        }
}
INLINE Vec sigmoid(Vec x) { return 1 / (1 + vexp(-x)); }

void CPU(swiglu)(Act *y, const Act *a, const Act *b, int64_t n)
{
    EACH_CHUNK
        EACH_VECTOR {
            Vec p = aload(a + i, end - i);
            astore(y + i, p * sigmoid(p) * aload(b + i, end - i), end - i);
        }
}
/* with s = sigmoid(a): da = dy b s (1 + a (1 - s)), db = dy a s */
void CPU(swiglu_bwd)(Act *da, Act *db, const Act *dy, const Act *a, const Act *b, int64_t n,
                     int beta)
{
    EACH_CHUNK
        EACH_VECTOR {
            Vec p = aload(a + i, end - i), d = aload(dy + i, end - i), s = sigmoid(p);
            Vec u = d * aload(b + i, end - i) * s * (1 + p * (1 - s)), v = d * p * s;
            if (beta && da) u += aload(da + i, end - i);
            if (beta && db) v += aload(db + i, end - i);
            if (da) astore(da + i, u, end - i);
            if (db) astore(db + i, v, end - i);
        }
}
void CPU(add)(Act *y, const Act *x, int64_t n)
{
    EACH_CHUNK
        EACH_VECTOR aadd(y + i, aload(x + i, end - i), end - i);
}
void CPU(cast)(Act *y, const real *x, int64_t n)
{
    EACH_CHUNK
        EACH_VECTOR astore(y + i, vload(x + i, end - i), end - i);
}
void CPU(uncast)(real *y, const Act *x, int64_t n)
{
    EACH_CHUNK
        EACH_VECTOR vstore(y + i, aload(x + i, end - i), end - i);
}
