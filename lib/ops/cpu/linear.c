/* linear.c -- the linear maps. */
#include "ops/cpu/vec.h"

/* y[n][o] = x[n] . w[o] for so few rows that w is read once and packing would not pay (decoding) */
enum { FEW = 4 };
INLINE void few(Act *y, const Act *x, const Act *w, int N, int C, int64_t O, int64_t o, int beta)
{
    Vec s[FEW][2] = { 0 };
    const Act *w1 = o + 1 < O ? w + C : w;
    for (int c = 0; c < C; c += VL) {
        Vec a = aload(w + c, C - c), b = aload(w1 + c, C - c);
        for (int n = 0; n < N; n++) {
            Vec t = aload(x + (int64_t)n * C + c, C - c);
            s[n][0] += t * a;
            s[n][1] += t * b;
        }
    }
    for (int n = 0; n < N; n++)
        for (int j = 0; j < 2 && o + j < O; j++) {
            Act *p = y + n * O + o + j;
            aput(p, (real)((double)(beta ? aget(p) : 0) + vsum(s[n][j])));
        }
}
static void linear_few(Act *y, const Act *x, const Act *w, int N, int C, int O, int beta)
{
    OMP(parallel for schedule(static) if((int64_t)C * O > WAKE))
    for (int o = 0; o < O; o += 2) {
        const Act *r = w + (int64_t)o * C;
        switch (N) {
        case 1: few(y, x, r, 1, C, O, o, beta); break;
        case 2: few(y, x, r, 2, C, O, o, beta); break;
        case 3: few(y, x, r, 3, C, O, o, beta); break;
        case 4: few(y, x, r, 4, C, O, o, beta); break;
        }
    }
}

void CPU(linear)(Act *y, const Act *x, const Act *w, int N, int C, int O, int beta)
{
    if (N <= FEW) linear_few(y, x, w, N, C, O, beta);
    else CPU(gemm)(&(Gemm){ .y = y, .ldc = O, .alpha = 1, .beta = (real)beta, .a = x, .rsa = C,
                            .csa = 1, .b = w, .rsb = 1, .csb = C, .m = N, .n = O, .k = C });
}
void CPU(linear_dx)(Act *dx, const Act *dy, const Act *w, int N, int C, int O, int beta)
{
    if (dx) CPU(gemm)(&(Gemm){ .y = dx, .ldc = C, .alpha = 1, .beta = (real)beta, .a = dy,
                               .rsa = O, .csa = 1, .b = w, .rsb = C, .csb = 1, .m = N, .n = C,
                               .k = O });
}
void CPU(linear_dw)(real *dw, const Act *dy, const Act *x, int N, int C, int O)
{
    if (dw) CPU(gemm)(&(Gemm){ .c = dw, .d = dw, .ldc = C, .alpha = 1, .beta = 1, .a = dy,
                               .rsa = 1, .csa = O, .b = x, .rsb = C, .csb = 1, .m = O, .n = C,
                               .k = N });
}
