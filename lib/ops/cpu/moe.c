/* moe.c -- mixtures of experts: routing, products by expert, the weighted sum. */
#include "ops/cpu/vec.h"

/* ---- routing ---- */

INLINE double dot_real(const Act *x, const real *w, int n)
{
    Vec s = { 0 };
    for (int i = 0; i < n; i += VL) s += aload(x + i, n - i) * vload(w + i, n - i);
    return vsum(s);
}

/* p[E] = softmax(h . gate^T), sums and exponentials in double */
static void scores(real *p, const Act *h, const real *gate, int C, int E)
{
    double most = -INFINITY, sum = 0;
    for (int e = 0; e < E; e++) {
        p[e] = (real)dot_real(h, gate + (int64_t)e * C, C);
        if (!((double)p[e] <= most)) most = (double)p[e];
    }
    for (int e = 0; e < E; e++) sum += exp((double)p[e] - most);
    for (int e = 0; e < E; e++) p[e] = (real)(exp((double)p[e] - most) / sum);
}
/* The k best of p, the lower number where two are equal; NaN is no hindrance. */
static void choose(int *pick, real *wt, const real *p, int E, int k, int norm)
{
    double sum = 1e-20;
    for (int j = 0; j < k; j++) {
        int best = -1;
        for (int e = 0; e < E; e++) {
            int taken = 0;
            for (int i = 0; i < j; i++) taken |= pick[i] == e;
            if (!taken && (best < 0 || p[e] > p[best])) best = e;
        }
        pick[j] = best;
        wt[j] = p[best];
        sum += (double)p[best];
    }
    for (int j = 0; norm && j < k; j++) wt[j] = (real)((double)wt[j] / sum);
}
/* Sorts the assignments by expert, in the order of the tokens within one. */
static void sort(int *slot, int *src, int *off, const int *pick, int N, int E, int k)
{
    int64_t n = (int64_t)N * k;
    memset(off, 0, (size_t)(E + 1) * sizeof *off);
    for (int64_t i = 0; i < n; i++) off[pick[i] + 1]++;
    for (int e = 0; e < E; e++) off[e + 1] += off[e];
    for (int64_t i = 0; i < n; i++) {
        slot[i] = off[pick[i]]++;
        src[slot[i]] = (int)(i / k);
    }
    memmove(off + 1, off, (size_t)E * sizeof *off);     /* they have moved on by one expert */
    off[0] = 0;
}
void CPU(route)(real *p, real *wt, int *pick, int *slot, int *src, int *off, real *aux,
                const Act *h, const real *gate, int N, int C, int E, int k, int norm)
{
    OMP(parallel for schedule(static) if((int64_t)N * E * C > WAKE))
    for (int n = 0; n < N; n++) {
        scores(p + (int64_t)n * E, h + (int64_t)n * C, gate, C, E);
        choose(pick + (int64_t)n * k, wt + (int64_t)n * k, p + (int64_t)n * E, E, k, norm);
    }
    sort(slot, src, off, pick, N, E, k);
    if (!aux) return;
    double sum = 0;
    for (int e = 0; e < E; e++) {
        double mean = 0;
        for (int n = 0; n < N; n++) mean += (double)p[(int64_t)n * E + e];
        sum += (double)(off[e + 1] - off[e]) / N * mean / N;
    }
    *aux = (real)(E * sum);
}

/* dz[E] of one token */
static void route_grad(real *dz, const real *dwt, const real *p, const real *wt, const int *pick,
                       const int *off, int N, int E, int k, int norm, double aux)
{
    double dot = 0, sum = 1e-20, all = 0;
    for (int j = 0; j < k; j++) {
        dot += (double)dwt[j] * (double)wt[j];
        sum += (double)p[pick[j]];
    }
    for (int e = 0; e < E; e++) {
        double dp = aux * E * (double)(off[e + 1] - off[e]) / N / N;
        for (int j = 0; j < k; j++)
            if (pick[j] == e) dp += norm ? ((double)dwt[j] - dot) / sum : (double)dwt[j];
        dz[e] = (real)dp;
        all += (double)p[e] * dp;
    }
    for (int e = 0; e < E; e++) dz[e] = (real)((double)p[e] * ((double)dz[e] - all));
}
/* dgate += dz^T h; a thread has its own channels, so that tokens are added in order. */
static void gate_grad(real *dgate, const real *dz, const Act *h, int N, int C, int E)
{
    enum { FEW = 16 };
    OMP(parallel for schedule(static) if((int64_t)N * E * C > WAKE))
    for (int c = 0; c < C; c += VL)
        for (int e = 0; e < E; e++) {
            double sum[VL] = { 0 };
            for (int n0 = 0; n0 < N; n0 += FEW) {
                Vec s = { 0 };
                for (int n = n0; n < N && n < n0 + FEW; n++)
                    s += dz[(int64_t)n * E + e] * aload(h + (int64_t)n * C + c, C - c);
                for (int i = 0; i < VL; i++) sum[i] += (double)s[i];
            }
            for (int i = 0; i < VL && c + i < C; i++)
                dgate[(int64_t)e * C + c + i] += (real)sum[i];
        }
}
static size_t route_room(int N, int E) { return (size_t)N * (size_t)E * sizeof(real); }
void CPU(route_bwd_room)(OpsKept *kept, int N, int E) { keep(&kept->scratch, route_room(N, E)); }
void CPU(route_bwd)(Act *dh, real *dgate, const real *dwt, const real *p, const real *wt,
                    const int *pick, const int *off, const Act *h, const real *gate, int N, int C,
                    int E, int k, int norm, double aux)
{
    real *dz = TIERED(scratch)(SLOT_OP, route_room(N, E));
    OMP(parallel for schedule(static) if((int64_t)N * E * C > WAKE))
    for (int n = 0; n < N; n++) {
        real *z = dz + (int64_t)n * E;
        Act *d = dh + (int64_t)n * C;
        route_grad(z, dwt + (int64_t)n * k, p + (int64_t)n * E, wt + (int64_t)n * k,
                   pick + (int64_t)n * k, off, N, E, k, norm, aux);
        for (int c = 0; dh && c < C; c += VL) {
            Vec s = { 0 };
            for (int e = 0; e < E; e++) s += z[e] * vload(gate + (int64_t)e * C + c, C - c);
            aadd(d + c, s, C - c);
        }
    }
    if (dgate) gate_grad(dgate, dz, h, N, C, E);
}

/* ---- products by expert ---- */

#define EACH_EXPERT for (int e = 0; e < E; e++) if (off[e + 1] > off[e])
#define ROW(x, width) (x) + off[e] * (int64_t)(width)
#define ROWS off[e + 1] - off[e]

void CPU(experts)(Act *y, const Act *x, const Act *w, const int *off, int n, int E, int C, int O)
{
    (void)n;
    EACH_EXPERT CPU(linear)(ROW(y, O), ROW(x, C), w + (int64_t)e * O * C, ROWS, C, O, 0);
}
void CPU(experts_dx)(Act *dx, const Act *dy, const Act *w, const int *off, int n, int E, int C,
                     int O, int beta)
{
    (void)n;
    if (!dx) return;
    EACH_EXPERT CPU(linear_dx)(ROW(dx, C), ROW(dy, O), w + (int64_t)e * O * C, ROWS, C, O, beta);
}
void CPU(experts_dw)(real *dw, const Act *dy, const Act *x, const int *off, int n, int E, int C,
                     int O)
{
    (void)n;
    if (!dw) return;
    EACH_EXPERT CPU(linear_dw)(dw + (int64_t)e * O * C, ROW(dy, O), ROW(x, C), ROWS, C, O);
}

/* ---- the sum ---- */

void CPU(slots_add)(Act *y, const Act *x, const real *wt, const int *slot, int N, int k, int C)
{
    OMP(parallel for schedule(static) if((int64_t)N * C > WAKE))
    for (int n = 0; n < N; n++)
        for (int c = 0; c < C; c += VL) {
            Vec s = { 0 };
            for (int j = 0; j < k; j++) {
                int64_t i = (int64_t)n * k + j;
                s += (wt ? wt[i] : 1) * aload(x + slot[i] * (int64_t)C + c, C - c);
            }
            aadd(y + (int64_t)n * C + c, s, C - c);
        }
}
void CPU(slots_add_bwd)(Act *dx, real *dwt, const Act *dy, const Act *x, const real *wt,
                        const int *slot, int N, int k, int C, int beta)
{
    OMP(parallel for schedule(static) if((int64_t)N * C > WAKE))
    for (int64_t i = 0; i < (int64_t)N * k; i++) {
        const Act *d = dy + i / k * C, *u = x + slot[i] * (int64_t)C;
        Vec s = { 0 };
        for (int c = 0; c < C; c += VL) {
            Vec t = aload(d + c, C - c);
            if (dwt) s += t * aload(u + c, C - c);
            if (!dx) continue;
            Act *g = dx + slot[i] * (int64_t)C + c;
            t *= wt[i];
            if (beta) t += aload(g, C - c);
            astore(g, t, C - c);
        }
        if (dwt) dwt[i] += (real)vsum(s);
    }
}
