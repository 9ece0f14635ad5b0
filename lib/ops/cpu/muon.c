/* muon.c -- the Muon step on stacks of matrices: a matrix is worked on by all threads; a stack of
 * small ones is shared out. Compiled once per tier, for reals, and where the processor multiplies
 * bfloat16 once more with that for its products, which are most of the work.
 */
#include "ops/cpu/vec.h"

static const double polar[5][3] = {         /* Amsel et al. 2025, arXiv 2505.16932 */
    { 8.156554524902461, -22.48329292557795, 15.878769915207462 },
    { 4.042929935166739, -2.808917465908714, 0.5000178451051316 },
    { 3.8916678022926607, -2.772484153217685, 0.5060648178503393 },
    { 3.285753657755655, -2.3681294933425376, 0.46449024233003106 },
    { 2.3465413258596377, -1.7097828382687081, 0.42323551169305323 },
};

typedef struct Muon {
    int R, K, mn, red; /* mn = min(R,K); red: 1 the axis reduced is columns (R >= K) */
    double mu, beta2, lr, wd;
    size_t bytes;                       /* workspace of one matrix */
    size_t x, a, b, sum;                /* offsets in it */
    void *work;                         /* gemm's, when one thread does the matrix; else NULL */
} Muon;

static size_t place(size_t *at, int64_t n, size_t size)
{
    size_t o = *at;
    *at += ((size_t)n * size + 63) / 64 * 64;
    return o;
}
static Muon muon_plan(int R, int K)
{
    Muon u = { .R = R, .K = K, .mn = R < K ? R : K, .red = R >= K };
    int64_t mm = (int64_t)u.mn * u.mn;
    u.x = place(&u.bytes, (int64_t)R * K, sizeof(real));
    u.a = place(&u.bytes, mm, sizeof(real));
    u.b = place(&u.bytes, mm, sizeof(real));
    u.sum = place(&u.bytes, R > K ? R : K, sizeof(double));         /* sums by row or column */
    return u;
}
static int is_small(int R, int K) { return (int64_t)R * K <= GEMM_SMALL; }
static void multiply(const Muon *u, Gemm g)
{
    if (u->work) CPU(gemm_one)(&g, u->work);
    else CPU(gemm)(&g);
}

/* sum[r] = sum of squares of row r; returns their sum */
static double row_squares(double *sum, real *x, int R, int K)
{
    OMP(parallel for schedule(static) if((int64_t)R * K > WAKE))
    for (int r = 0; r < R; r++) sum[r] = sum_squares(store_real(x + (int64_t)r * K), K);
    double s = 0;
    for (int r = 0; r < R; r++) s += sum[r];
    return s;
}
/* sum[c] = sum of squares of column c */
static void col_squares(double *sum, const real *x, int R, int K)
{
    enum { SLICE = 64 };
    OMP(parallel for schedule(static) if((int64_t)R * K > WAKE))
    for (int c0 = 0; c0 < K; c0 += SLICE) {
        int end = (int)min64(K, c0 + SLICE);
        for (int c = c0; c < end; c++) sum[c] = 0;
        for (int r = 0; r < R; r++)
            for (int c = c0; c < end; c++) {
                double t = x[(int64_t)r * K + c];
                sum[c] += t * t;
            }
    }
}
/* Steps 1 to 3: momentum, rows made equally long, the whole of norm below 1. g becomes X. */
static void muon_start(const Muon *u, real *g, real *m, double *sum)
{
    const int R = u->R, K = u->K;
    const real f = (real)(1 - u->mu), mu = (real)u->mu;
    OMP(parallel for schedule(static) if((int64_t)R * K > WAKE))
    for (int r = 0; r < R; r++)
        for (int64_t i = (int64_t)r * K; i < ((int64_t)r + 1) * K; i++) {
            m[i] += f * (g[i] - m[i]);
            g[i] += mu * (m[i] - g[i]);
        }
    double target = sqrt(row_squares(sum, g, R, K)) / sqrt(R), norm = 0;
    for (int r = 0; r < R; r++) {
        double len = sqrt(sum[r]), by = target / (len > 1e-6 ? len : 1e-6);
        sum[r] = by;
        norm += len * by * len * by;
    }
    norm = 1.01 * sqrt(norm) + 1e-6;
    OMP(parallel for schedule(static) if((int64_t)R * K > WAKE))
    for (int r = 0; r < R; r++) {
        real by = (real)(sum[r] / norm);
        for (int64_t i = (int64_t)r * K; i < ((int64_t)r + 1) * K; i++) g[i] *= by;
    }
}
/* a = x x^T, or x^T x where x is tall */
static Gemm square(const Muon *u, real *a, const Act *x)
{
    const int R = u->R, K = u->K, n = u->mn;
    if (R > K) return (Gemm){ a, a, n, 1, 0, x, 1, K, x, K, 1, n, n, R, 1, NULL };
    return (Gemm){ a, a, n, 1, 0, x, K, 1, x, 1, K, n, n, K, 1, NULL };
}
/* b = s a a + q d, n x n */
static Gemm again(const Muon *u, real *b, real s, real q, const real *d, const Act *a)
{
    const int n = u->mn;
    return (Gemm){ b, d, n, s, q, a, n, 1, a, n, 1, n, n, n, 1, NULL };
}
/* y = p d + b x, or x b; y may be d */
static Gemm apply(const Muon *u, real *y, const real *d, real p, const Act *x, const Act *b)
{
    const int R = u->R, K = u->K, n = u->mn;
    if (R > K) return (Gemm){ y, d, K, 1, p, x, K, 1, b, n, 1, R, K, n, 0, NULL };
    return (Gemm){ y, d, K, 1, p, b, n, 1, x, K, 1, R, K, n, 0, NULL };
}
/* Step 4: towards the nearest orthogonal matrix, x = p x + (q A + s A A) x with A = x x^T, or from
 * the right where x is tall. Factors are Acts: in bfloat16 they are copies, and what is added up
 * stays real. Returns where x ends. */
#ifdef ACT_DOT
static real *muon_polar(const Muon *u, real *x, real *y, real *a, real *b)
{
    const int R = u->R, K = u->K;
    const int64_t mm = (int64_t)u->mn * u->mn;
    Act *xh = (Act *)(void *)y, *ah = xh + (int64_t)R * K, *bh = (Act *)(void *)a;
    for (int i = 0; i < 5; i++) {
        const real p = (real)polar[i][0], q = (real)polar[i][1], s = (real)polar[i][2];
        CPU(cast)(xh, x, (int64_t)R * K);
        multiply(u, square(u, a, xh));
        CPU(cast)(ah, a, mm);
        multiply(u, again(u, b, s, q, a, ah));
        CPU(cast)(bh, b, mm);
        multiply(u, apply(u, x, x, p, xh, bh));
    }
    return x;
}
#else
static real *muon_polar(const Muon *u, real *x, real *y, real *a, real *b)
{
    for (int i = 0; i < 5; i++) {
        const real p = (real)polar[i][0], q = (real)polar[i][1], s = (real)polar[i][2];
        multiply(u, square(u, a, x));
        multiply(u, again(u, b, s, q, a, a));
        multiply(u, apply(u, y, x, p, x, b));
        real *t = x;
        x = y;
        y = t;
    }
    return x;
}
#endif
/* Steps 5 to 7: norm sqrt(min(R,K)), variance reduction over rows or columns, weight decay where
 * signs agree. The factors of steps 5 and 6 on x are taken together. */
static void muon_finish(const Muon *u, Store p, real *x, real *s, double *sum)
{
    const int R = u->R, K = u->K, kept = u->red ? R : K, n = u->red ? K : R;
    double norm = 0;
    if (u->red) row_squares(sum, x, R, K);
    else col_squares(sum, x, R, K);
    for (int i = 0; i < kept; i++) norm += sum[i];
    norm = sqrt(norm);
    double to = sqrt(u->mn) / (norm > 1e-6 ? norm : 1e-6), before = 0, after = 0;
    for (int i = 0; i < kept; i++) {
        double v = sum[i] * to * to / n;
        s[i] += (real)((1 - u->beta2) * (v - (double)s[i]));
        double f = 1 / sqrt(s[i] > (real)1e-10 ? (double)s[i] : 1e-10);
        before += v * n;
        after += v * n * f * f;
        sum[i] = f;
    }
    double by = to * sqrt(before) / (sqrt(after) > 1e-10 ? sqrt(after) : 1e-10);
    for (int i = 0; i < kept; i++) sum[i] *= by;
    const real lr = (real)u->lr, wd = (real)(u->lr * u->wd);
    OMP(parallel for schedule(static) if((int64_t)R * K > WAKE))
    for (int r = 0; r < R; r++)
        for (int c = 0; c < K; c += VL) {
            int64_t i = (int64_t)r * K + c, left = K - c;
            Vec w = sload(p, i, left), f = vset((real)sum[u->red ? r : 0]);
            for (int k = 0; !u->red && k < VL && k < left; k++) f[k] = (real)sum[c + k];
            Vec t = vload(x + i, left) * f;
            sstore(p, i, w - (lr * t + vsel(t * w >= 0, wd * w, vset(0))), left);
        }
}
static void muon_one(const Muon *u, Store p, real *g, real *m, real *s, char *tmp)
{
    double *sum = (double *)(void *)(tmp + u->sum);
    muon_start(u, g, m, sum);
    real *x = muon_polar(u, g, (real *)(void *)(tmp + u->x), (real *)(void *)(tmp + u->a),
                         (real *)(void *)(tmp + u->b));
    muon_finish(u, p, x, s, sum);
}

size_t MUON(muon_tmp)(int count, int R, int K)
{
    return muon_plan(R, K).bytes * (size_t)(is_small(R, K) ? count : 1);
}
static size_t small_room(void) { return (size_t)threads_here() * CPU(gemm_work)(); }
void MUON(muon_room)(OpsKept *kept, int R, int K)
{
    const Muon u = muon_plan(R, K);
    if (is_small(R, K)) { keep(&kept->packed, small_room()); return; }
    const Gemm g[3] = { square(&u, NULL, NULL), again(&u, NULL, 1, 1, NULL, NULL),
                        apply(&u, NULL, NULL, 1, NULL, NULL) };
    for (int i = 0; i < 3; i++) CPU(gemm_room)(kept, &g[i]);
}
void MUON(muon)(Store p, real *g, real *m, real *s, void *tmp, int count, int R, int K, double mu,
                double beta2, double lr, double wd)
{
    Muon u = muon_plan(R, K);
    u.mu = mu; u.beta2 = beta2; u.lr = lr; u.wd = wd;
    const int64_t n = (int64_t)R * K, ns = R >= K ? R : K;
    if (!is_small(R, K)) {
        for (int i = 0; i < count; i++)
            muon_one(&u, store_at(p, i * n), g + i * n, m + i * n, s + i * ns, tmp);
        return;
    }
    char *work = TIERED(scratch)(SLOT_GEMM, small_room());
    OMP(parallel for schedule(static) if(count * n > WAKE))
    for (int i = 0; i < count; i++) {
        Muon one = u;
        one.work = work + (size_t)thread_id() * CPU(gemm_work)();
        muon_one(&one, store_at(p, i * n), g + i * n, m + i * n, s + i * ns,
                 (char *)tmp + (size_t)i * u.bytes);
    }
}
