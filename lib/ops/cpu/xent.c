/* xent.c -- softcap, softmax, loss and its gradient over rows of logits. */
#include "ops/cpu/vec.h"

enum { PIECE = 1024 };      /* exponentials added as reals before they go into a double */

/* l = cap tanh(z / cap), or z; returns the largest */
static real capped(real *l, const Act *z, int V, real cap)
{
    Vec m = vset(-INFINITY);
    const real inv = cap > 0 ? 1 / cap : 0;
    for (int i = 0; i < V; i += VL) {
        int left = V - i;
        Vec x = aload(z + i, left);
        if (cap > 0) x = cap * vtanh(x * inv);
        vstore(l + i, x, left);
        if (left >= VL) m = vmax(x, m);
        else for (int j = 0; j < left; j++) m[j] = x[j] > m[j] ? x[j] : m[j];
    }
    return vmax_of(m);
}
/* e = exp(l - m); returns the sum */
static double exps(real *e, const real *l, int V, real m)
{
    double sum = 0;
    for (int at = 0; at < V; at += PIECE) {
        Vec s = { 0 };
        int end = (int)min64(V, at + PIECE);
        for (int i = at; i < end; i += VL) {
            Vec x = vexp(vload(l + i, end - i) - m);
            vstore(e + i, x, end - i);
            if (end - i < VL) x = vload(e + i, end - i);        /* lanes past the end are 0 again */
            s += x;
        }
        sum += vsum(s);
    }
    return sum;
}
/* z = f (e / sum - [i == t]) (1 - (l / cap)^2); the padding columns get 0 */
static void gradient(Act *z, real *e, const real *l, int t, int V, int Vp, real cap, double sum,
                     real f)
{
    const real norm = (real)(1 / sum), inv = cap > 0 ? 1 / cap : 0;
    for (int i = 0; i < V; i += VL) {
        int left = V - i;
        Vec th = vload(l + i, left) * inv, p = vload(e + i, left) * norm;
        if (t - i >= 0 && t - i < VL) p[t - i] -= 1;
        astore(z + i, f * p * (1 - th * th), left);
    }
    memset(z + V, 0, (size_t)(Vp - V) * sizeof *z);
}

static int64_t row_room(int V) { return 2 * div_up(V, 16) * 16; }       /* of a thread: l, e */
static size_t work_size(int V) { return (size_t)threads_here() * (size_t)row_room(V) * sizeof(real); }
void CPU(xent_room)(OpsKept *kept, int V) { keep(&kept->scratch, work_size(V)); }
void CPU(xent)(real *loss, Act *z, const int *tgt, const real *wt, int N, int V, int Vp, real cap,
               real scale)
{
    const int64_t row = row_room(V);
    real *work = TIERED(scratch)(SLOT_OP, work_size(V));
    OMP(parallel for schedule(static) if((int64_t)N * V > WAKE))
    for (int n = 0; n < N; n++) {
        real *l = work + thread_id() * row, *e = l + row / 2;
        Act *p = z + (int64_t)n * Vp;
        if (tgt[n] < 0) {
            loss[n] = 0;
            if (scale != 0) memset(p, 0, (size_t)Vp * sizeof *p);
            continue;
        }
        real m = capped(l, p, V, cap);
        double sum = exps(e, l, V, m);
        loss[n] = (real)(log(sum) + (double)m - (double)l[tgt[n]]);
        if (scale != 0) gradient(p, e, l, tgt[n], V, Vp, cap, sum, scale * (wt ? wt[n] : 1));
    }
}
void CPU(logits)(real *l, const Act *z, int N, int V, int Vp, real cap)
{
    OMP(parallel for schedule(static) if((int64_t)N * V > WAKE))
    for (int n = 0; n < N; n++) capped(l + (int64_t)n * V, z + (int64_t)n * Vp, V, cap);
}
