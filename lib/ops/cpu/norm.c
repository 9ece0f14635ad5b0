/* norm.c -- rmsnorm, gain, mix with and without the norm of it, and rope with the head norm. */
#include "ops/cpu/each.h"

/* sum of x[i] y[i]; partial sums of 1024 in the vector, those added in double */
INLINE double dot(const Act *x, const Act *y, int64_t n)
{
    double s = 0;
    for (int64_t at = 0; at < n; at += 1024) {
        Vec t = { 0 };
        for (int64_t i = at, end = min64(at + 1024, n); i < end; i += VL)
            t += aload(x + i, end - i) * aload(y + i, end - i);
        s += vsum(t);
    }
    return s;
}

/* y = r x; r, 1 / sqrt(mean(x^2) + eps) */
INLINE real norm_row(Act *y, const Act *x, int C, real eps)
{
    const real r = (real)(1 / sqrt(dot(x, x, C) / C + (double)eps));
    for (int c = 0; c < C; c += VL) astore(y + c, r * aload(x + c, C - c), C - c);
    return r;
}
/* dx += r (dy - y (y . dy) / C), elements [from, to) of a row */
INLINE void norm_row_bwd(Act *dx, const Act *dy, const Act *y, real r, int C, int64_t from,
                         int64_t to)
{
    const real b = (real)(dot(y, dy, C) * (double)r / C);
    for (int64_t c = from; c < to; c += VL)
        aadd(dx + c, r * aload(dy + c, to - c) - b * aload(y + c, to - c), to - c);
}
void CPU(rmsnorm)(Act *y, real *rstd, const Act *x, int N, int C, real eps)
{
    OMP(parallel for schedule(static) if((int64_t)N * C > WAKE))
    for (int n = 0; n < N; n++) {
        const real r = norm_row(y + (int64_t)n * C, x + (int64_t)n * C, C, eps);
        if (rstd) rstd[n] = r;
    }
}
void CPU(rmsnorm_bwd)(Act *dx, const Act *dy, const Act *y, const real *rstd, int N, int C)
{
    if (!dx) return;
    OMP(parallel for schedule(static) if((int64_t)N * C > WAKE))
    for (int n = 0; n < N; n++) {
        const int64_t o = (int64_t)n * C;
        norm_row_bwd(dx + o, dy + o, y + o, rstd[n], C, 0, C);
    }
}

/* ---- mix. Backward, a unit of work and of the partial sums is a chunk, wherever rows end; so with
 * the norm as well, each row's part of a chunk coming first. */

/* elements [i, end) */
INLINE void mix_some(Act *y, const Act *x, real p, const Act *z, real q, int64_t i, int64_t end)
{
    for (; i < end; i += VL)
        astore(y + i, p * aload(x + i, end - i) + q * aload(z + i, end - i), end - i);
}
void CPU(mix)(Act *y, const Act *x, const real *a, const Act *z, const real *b, real s, int64_t n)
{
    const real p = a ? *a : 1, q = s * (b ? *b : 1);
    EACH_CHUNK mix_some(y, x, p, z, q, at, min64(at + CHUNK, n));
}
void CPU(mix_norm)(Act *u, Act *y, real *rstd, const Act *x, const real *a, const Act *z,
                   const real *b, real s, int N, int C, real eps)
{
    const real p = a ? *a : 1, q = s * (b ? *b : 1);
    OMP(parallel for schedule(static) if((int64_t)N * C > WAKE))
    for (int n = 0; n < N; n++) {
        const int64_t o = (int64_t)n * C;
        mix_some(u, x, p, z, q, o, o + C);
        const real r = norm_row(y + o, u + o, C, eps);
        if (rstd) rstd[n] = r;
    }
}

/* dx = beta dx + a dy, dz += s b dy, da += dy . x, db += s dy . z. dx may be dz, with beta 0 dy. */
typedef struct MixBack {
    Act *dx; const Act *x; real *da;
    Act *dz; const Act *z; real *db;
    const Act *dy;
    real p, q, s;                       /* a, s b, s */
    int beta;
    double *part;                       /* of each chunk, dy . x and dy . z */
} MixBack;
static void mix_back_begin(MixBack *m, const real *a, const real *b, int64_t n)
{
    m->p = a ? *a : 1, m->q = m->s * (b ? *b : 1);
    if (m->da || m->db)
        m->part = TIERED(scratch)(SLOT_OP, (size_t)div_up(n, CHUNK) * 2 * sizeof *m->part);
}
INLINE void mix_back(const MixBack m, int64_t at, int64_t end)
{
    Vec sx = { 0 }, sz = { 0 };
    for (int64_t i = at; i < end; i += VL) {
        Vec d = aload(m.dy + i, end - i);
        if (m.dx && m.beta) aadd(m.dx + i, m.p * d, end - i);
        else if (m.dx) astore(m.dx + i, m.p * d, end - i);
        if (m.dz) aadd(m.dz + i, m.q * d, end - i);
        if (m.da) sx += d * aload(m.x + i, end - i);
        if (m.db) sz += d * aload(m.z + i, end - i);
    }
    if (m.part) m.part[at / CHUNK * 2] = vsum(sx), m.part[at / CHUNK * 2 + 1] = vsum(sz);
}
static void mix_back_end(const MixBack *m, int64_t n)
{
    double sa = 0, sb = 0;
    for (int64_t i = 0; m->part && i < div_up(n, CHUNK); i++)
        sa += m->part[2 * i], sb += m->part[2 * i + 1];
    if (m->da) *m->da += (real)sa;
    if (m->db) *m->db += (real)(m->s * sb);
}
void CPU(mix_bwd)(Act *dx, real *da, Act *dz, real *db, const Act *dy, const Act *x, const real *a,
                  const Act *z, const real *b, real s, int64_t n)
{
    MixBack m = { dx, x, da, dz, z, db, dy, 0, 0, s, 1, NULL };
    mix_back_begin(&m, a, b, n);
    EACH_CHUNK mix_back(m, at, min64(at + CHUNK, n));
    mix_back_end(&m, n);
}
void CPU(mix_norm_bwd)(Act *dx, real *da, Act *dz, real *db, Act *g, const Act *dy, const Act *y,
                       const real *rstd, const Act *x, const real *a, const Act *z, const real *b,
                       real s, int N, int C, int beta)
{
    const int64_t n = (int64_t)N * C;
    MixBack m = { dx, x, da, dz, z, db, g, 0, 0, s, beta, NULL };
    mix_back_begin(&m, a, b, n);
    EACH_CHUNK {
        const int64_t end = min64(at + CHUNK, n);
        for (int64_t row = at / C, o = row * C; o < end; row++, o += C)
            norm_row_bwd(g + o, dy + o, y + o, rstd[row], C, max64(at - o, 0), min64(end - o, C));
        mix_back(m, at, end);
    }
    mix_back_end(&m, n);
}

void CPU(gain)(Act *y, const Act *x, const real *g, int N, int C)
{
    OMP(parallel for schedule(static) if((int64_t)N * C > WAKE))
    for (int n = 0; n < N; n++) {
        int64_t o = (int64_t)n * C;
        for (int c = 0; c < C; c += VL)
            astore(y + o + c, vload(g + c, C - c) * aload(x + o + c, C - c), C - c);
    }
}
/* Sums over chunks of 256 rows, 16 added at a time; the chunks are added in order. */
void CPU(gain_bwd)(Act *dx, real *dg, const Act *dy, const Act *x, const real *g, int N, int C)
{
    enum { ROWS = 256, FEW = 16 };
    int64_t chunks = div_up(N, ROWS), W = div_up(C, 16) * 16;
    double *part = dg ? TIERED(scratch)(SLOT_OP, (size_t)(chunks * W) * sizeof *part) : NULL;
    OMP(parallel for schedule(static) if((int64_t)N * C > WAKE))
    for (int64_t k = 0; k < chunks; k++) {
        int64_t end = min64(N, (k + 1) * ROWS);
        if (part) memset(part + k * W, 0, (size_t)W * sizeof *part);
        for (int64_t n0 = k * ROWS; n0 < end; n0 += FEW)
            for (int c = 0; c < C; c += VL) {
                Vec s = { 0 }, gc = vload(g + c, C - c);
                for (int64_t n = n0; n < min64(end, n0 + FEW); n++) {
                    Vec d = aload(dy + n * C + c, C - c);
                    if (part) s += d * aload(x + n * C + c, C - c);
                    if (dx) aadd(dx + n * C + c, gc * d, C - c);
                }
                for (int i = 0; part && i < VL && c + i < C; i++)
                    part[k * W + c + i] += (double)s[i];
            }
    }
    for (int c = 0; dg && c < C; c++) {
        double s = 0;
        for (int64_t k = 0; k < chunks; k++) s += part[k * W + c];
        dg[c] += (real)s;
    }
}

/* Cosine and sine of one position, taken apart: tab [D/2][2] -> c[D/2], s[D/2] */
static void angles(real *c, real *s, const real *tab, int half, int sign)
{
    for (int j = 0; j < half; j++)
        c[j] = tab[2 * j], s[j] = sign < 0 ? -tab[2 * j + 1] : tab[2 * j + 1];
}

/* the position that token n, t-th of its row b, is turned by */
INLINE int64_t position(const int *pos, const int *doc, int64_t n, int T)
{
    return n % T + (pos ? pos[n / T] : 0) - (doc ? doc[n] : 0);
}

void CPU(rope)(Act *y, real *rstd, const Act *x, const real *tab, const int *pos, const int *doc,
               int B, int T, int H, int D, int sign, real scale, real eps)
{
    const int half = D / 2;
    const int64_t room = div_up(2 * D, 16) * 16;
    real *work = TIERED(scratch)(SLOT_OP, (size_t)threads_here() * (size_t)room * sizeof *work);
    OMP(parallel for schedule(static) if((int64_t)B * T * H * D > WAKE))
    for (int64_t n = 0; n < (int64_t)B * T; n++) {
        real *c = work + thread_id() * room, *s = c + half, *r1 = s + half, *r2 = r1 + half;
        angles(c, s, tab + position(pos, doc, n, T) * D, half, sign);
        for (int64_t h = n * H; h < (n + 1) * H; h++) {
            const Act *u = x + h * D;
            Act *v = y + h * D;
            Vec sum = { 0 };
            for (int j = 0; j < half; j += VL) {
                int left = half - j;
                Vec x1 = aload(u + j, left), x2 = aload(u + half + j, left);
                Vec cj = vload(c + j, left), sj = vload(s + j, left);
                Vec y1 = x1 * cj + x2 * sj, y2 = x2 * cj - x1 * sj;
                vstore(r1 + j, y1, left);
                vstore(r2 + j, y2, left);
                sum += y1 * y1 + y2 * y2;
            }
            real f = 1;
            if (scale > 0) {
                real r = (real)(1 / sqrt(vsum(sum) / D + (double)eps));
                if (rstd) rstd[h] = r;
                f = scale * r;
            }
            for (int j = 0; j < D; j += VL) astore(v + j, f * vload(r1 + j, D - j), D - j);
        }
    }
}

/* With u = the rotated x, r = rstd and y = scale r u: du = scale r dy - y (y . dy) r / (scale D),
 * dx = beta dx + rotation back of du. */
void CPU(rope_bwd)(Act *dx, const Act *dy, const Act *y, const real *rstd, const real *tab,
                   const int *doc, int B, int T, int H, int D, int sign, real scale, int beta)
{
    if (!dx) return;
    const int half = D / 2, norm = scale > 0;
    real *cs = TIERED(scratch)(SLOT_OP, (size_t)threads_here() * (size_t)D * sizeof *cs);
    OMP(parallel for schedule(static) if((int64_t)B * T * H * D > WAKE))
    for (int64_t n = 0; n < (int64_t)B * T; n++) {
        real *c = cs + (int64_t)thread_id() * D, *s = c + half;
        angles(c, s, tab + position(NULL, doc, n, T) * D, half, sign);
        for (int64_t h = n * H; h < (n + 1) * H; h++) {
            const Act *u = y + h * D, *g = dy + h * D;
            Act *d = dx + h * D;
            Vec a = vset(1), b = { 0 };
            if (norm) {
                a = vset(scale * rstd[h]);
                b = vset((real)(dot(u, g, D) * (double)rstd[h] / ((double)scale * D)));
            }
            for (int j = 0; j < half; j += VL) {
                int left = half - j;
                Vec cj = vload(c + j, left), sj = vload(s + j, left);
                Vec d1 = a * aload(g + j, left), d2 = a * aload(g + half + j, left);
                if (norm) {
                    d1 -= b * aload(u + j, left);
                    d2 -= b * aload(u + half + j, left);
                }
                Vec e1 = d1 * cj - d2 * sj, e2 = d2 * cj + d1 * sj;
                if (beta) {
                    e1 += aload(d + j, left);
                    e2 += aload(d + half + j, left);
                }
                astore(d + j, e1, left);
                astore(d + half + j, e2, left);
            }
        }
    }
}
