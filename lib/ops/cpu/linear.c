/* linear.c -- the linear maps. */
#include "ops/cpu/vec.h"

/* SOME numbers of a row, of which `left` exist, and s += their products, by lane */
#ifdef ACT_DOT
enum { SOME = 2 * VL };
INLINE Vec some(const Act *p, int64_t left)
{
    const __mmask32 which = left >= SOME ? ~(__mmask32)0 : ((__mmask32)1 << left) - 1;
    return (Vec)_mm512_maskz_loadu_epi16(which, p);
}
INLINE Vec times(Vec s, Vec a, Vec b) { return _mm512_dpbf16_ps(s, (__m512bh)a, (__m512bh)b); }
#else
enum { SOME = VL };
INLINE Vec some(const Act *p, int64_t left) { return aload(p, left); }
INLINE Vec times(Vec s, Vec a, Vec b) { return s + a * b; }
#endif

/* y[n][o] = x[n] . w[o] for so few rows that w is read once and packing would not pay (decoding): R
 * rows of w side by side, while the same part of the R after them is fetched */
enum { FEW = 4, SIDE = VBYTES == 64 ? 4 : 2 };
INLINE void few(int N, int R, Act *y, const Act *x, const Act *w, int C, int64_t O, int64_t o,
                int beta)
{
    Vec s[FEW][8] = { 0 };
    const int left = (int)min64(R, O - o);
    const Act *row[8];
    UNROLL for (int r = 0; r < R; r++) row[r] = w + (o + (r < left ? r : 0)) * C;
    for (int c = 0; c < C; c += SOME) {
        Vec a[8];
        UNROLL for (int r = 0; r < R; r++) {
            __builtin_prefetch(row[r] + (int64_t)R * C + c, 0, 2);
            a[r] = some(row[r] + c, C - c);
        }
        UNROLL for (int n = 0; n < N; n++) {
            Vec t = some(x + (int64_t)n * C + c, C - c);
            UNROLL for (int r = 0; r < R; r++) s[n][r] = times(s[n][r], t, a[r]);
        }
    }
    UNROLL for (int n = 0; n < N; n++)
        UNROLL for (int r = 0; r < R; r++) {
            Act *p = y + n * O + o + r;
            if (r < left) aput(p, (real)((double)(beta ? aget(p) : 0) + vsum(s[n][r])));
        }
}
static void linear_few(Act *y, const Act *x, const Act *w, int N, int C, int O, int beta)
{
    const int R = N == 1 ? 8 : SIDE;
    OMP(parallel for schedule(static) if((int64_t)C * O > WAKE))
    for (int o = 0; o < O; o += R)
        switch (N) {
        case 1: few(1, 8, y, x, w, C, O, o, beta); break;
        case 2: few(2, SIDE, y, x, w, C, O, o, beta); break;
        case 3: few(3, SIDE, y, x, w, C, O, o, beta); break;
        case 4: few(4, SIDE, y, x, w, C, O, o, beta); break;
        }
}

/* The three products; y, x, dw and the others NULL where only their shapes matter. */
static Gemm forward(Act *y, const Act *x, const Act *w, int N, int C, int O, int beta)
{
    return (Gemm){ .y = y, .ldc = O, .alpha = 1, .beta = (real)beta, .a = x, .rsa = C, .csa = 1,
                   .b = w, .rsb = 1, .csb = C, .m = N, .n = O, .k = C };
}
static Gemm to_input(Act *dx, const Act *dy, const Act *w, int N, int C, int O, int beta)
{
    return (Gemm){ .y = dx, .ldc = C, .alpha = 1, .beta = (real)beta, .a = dy, .rsa = O, .csa = 1,
                   .b = w, .rsb = C, .csb = 1, .m = N, .n = C, .k = O };
}
static Gemm to_weights(real *dw, const Act *dy, const Act *x, int N, int C, int O)
{
    return (Gemm){ .c = dw, .d = dw, .ldc = C, .alpha = 1, .beta = 1, .a = dy, .rsa = 1, .csa = O,
                   .b = x, .rsb = C, .csb = 1, .m = O, .n = C, .k = N };
}

void CPU(linear)(Act *y, const Act *x, const Act *w, int N, int C, int O, int beta)
{
    const Gemm g = forward(y, x, w, N, C, O, beta);
    if (N <= FEW) linear_few(y, x, w, N, C, O, beta);
    else CPU(gemm)(&g);
}
void CPU(linear_dx)(Act *dx, const Act *dy, const Act *w, int N, int C, int O, int beta)
{
    const Gemm g = to_input(dx, dy, w, N, C, O, beta);
    if (dx) CPU(gemm)(&g);
}
void CPU(linear_dw)(real *dw, const Act *dy, const Act *x, int N, int C, int O)
{
    const Gemm g = to_weights(dw, dy, x, N, C, O);
    if (dw) CPU(gemm)(&g);
}

static Act some_act;            /* stands for an output of Acts, which is not written */
void CPU(linear_room)(OpsKept *kept, int N, int C, int O)
{
    const Gemm g = forward(&some_act, NULL, NULL, N, C, O, 0);
    if (N > FEW) CPU(gemm_room)(kept, &g);
}
void CPU(linear_dx_room)(OpsKept *kept, int N, int C, int O)
{
    const Gemm g = to_input(&some_act, NULL, NULL, N, C, O, 0);
    CPU(gemm_room)(kept, &g);
}
void CPU(linear_dw_room)(OpsKept *kept, int N, int C, int O)
{
    const Gemm g = to_weights(NULL, NULL, NULL, N, C, O);
    CPU(gemm_room)(kept, &g);
}
