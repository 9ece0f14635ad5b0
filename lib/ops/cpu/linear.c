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

/* Arrays of Act as reals: themselves where an Act is one, otherwise copies in scratch. */
typedef struct Wide { real *at; } Wide;
#ifdef ACT_BF16
static Wide wide_room(int64_t n)
{
    return (Wide){ TIERED(scratch)(SLOT_WIDE, (size_t)n * sizeof(real)) };
}
static const real *wide_in(Wide *w, const Act *x, int64_t n)
{
    real *p = w->at;
    w->at += n;
    CPU(uncast)(p, x, n);
    return p;
}
static real *wide_out(Wide *w, Act *y, int64_t n, int add)
{
    if (add) return (real *)wide_in(w, y, n);
    (void)n;
    return w->at;
}
static void wide_done(Act *y, const real *p, int64_t n) { CPU(cast)(y, p, n); }
#else
static Wide wide_room(int64_t n) { (void)n; return (Wide){ NULL }; }
static const real *wide_in(Wide *w, const Act *x, int64_t n) { (void)w; (void)n; return x; }
static real *wide_out(Wide *w, Act *y, int64_t n, int add)
{
    (void)w; (void)n; (void)add;
    return y;
}
static void wide_done(Act *y, const real *p, int64_t n) { (void)y; (void)p; (void)n; }
#endif

void CPU(linear)(Act *y, const Act *x, const Act *w, int N, int C, int O, int beta)
{
    if (N <= FEW) { linear_few(y, x, w, N, C, O, beta); return; }
    int64_t nx = (int64_t)N * C, nw = (int64_t)O * C, ny = (int64_t)N * O;
    Wide s = wide_room(nx + nw + ny);
    const real *a = wide_in(&s, x, nx), *b = wide_in(&s, w, nw);
    real *c = wide_out(&s, y, ny, beta);
    TIERED(gemm)(&(Gemm){ c, c, O, 1, (real)beta, a, C, 1, b, 1, C, N, O, C });
    wide_done(y, c, ny);
}
void CPU(linear_dx)(Act *dx, const Act *dy, const Act *w, int N, int C, int O, int beta)
{
    if (!dx) return;
    int64_t nx = (int64_t)N * C, nw = (int64_t)O * C, ny = (int64_t)N * O;
    Wide s = wide_room(nx + nw + ny);
    const real *a = wide_in(&s, dy, ny), *b = wide_in(&s, w, nw);
    real *c = wide_out(&s, dx, nx, beta);
    TIERED(gemm)(&(Gemm){ c, c, C, 1, (real)beta, a, O, 1, b, C, 1, N, C, O });
    wide_done(dx, c, nx);
}
void CPU(linear_dw)(real *dw, const Act *dy, const Act *x, int N, int C, int O)
{
    if (!dw) return;
    int64_t nx = (int64_t)N * C, ny = (int64_t)N * O;
    Wide s = wide_room(nx + ny);
    const real *a = wide_in(&s, dy, ny), *b = wide_in(&s, x, nx);
    TIERED(gemm)(&(Gemm){ dw, dw, C, 1, 1, a, 1, O, b, C, 1, O, C, N });
}
