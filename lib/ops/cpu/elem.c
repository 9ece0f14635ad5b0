/* elem.c -- operations element by element: relu2, swiglu, add, cast. */
#include "ops/cpu/each.h"

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
