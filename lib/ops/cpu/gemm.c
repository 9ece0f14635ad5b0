/* gemm.c -- the matrix product of reals, packed and blocked after Goto and van de Geijn (2008).
 *
 * B is packed KC x NC at a time into panels of NR columns, shared by all threads (level 3 cache);
 * each thread packs a block of MC rows of A into panels of MR rows (level 2); the micro-kernel
 * multiplies one panel of each (level 1) into MR x NR sums held in registers. Threads take blocks
 * of C as they come free: which thread does a block changes nothing in it. Edges are padded with
 * zeros in the packed panels, so every element is the same chain of multiply-adds everywhere.
 */
#include "ops/cpu/kernel.h"

enum { KC = 384, MC = MR * (144 / MR), NC = 3072, GROUP = 8 };
_Static_assert(NC % NR == 0, "whole panels");

static real *buf_a(char *work, int tid)
{
    return (real *)work + (int64_t)KC * NC + (int64_t)tid * KC * MC;
}
static size_t work_size(int nt) { return ((size_t)KC * NC + (size_t)nt * KC * MC) * sizeof(real); }
size_t TIERED(gemm_work)(void) { return work_size(1); }

/* Blocks of k: as few as KC allows, as equal as can be. */
static int k_block(int k) { return k <= KC ? k : (int)div_up(div_up(k, div_up(k, KC)), 8) * 8; }

static void pack_a(real *p, const Gemm *g, int i, int rows, int k0, int k)
{
    for (int r = 0; r < rows; r += MR, p += (int64_t)k * MR) {
        const real *a = g->a + (i + r) * g->rsa + k0 * g->csa;
        int left = (int)min64(MR, rows - r);
        if (g->csa == 1) pack_across(p, a, g->rsa, left, k, MR);
        else pack_along(p, a, g->csa, left, k, MR);
    }
}
static void pack_b(real *p, const Gemm *g, int j, int k0, int k)
{
    const real *b = g->b + k0 * g->rsb + j * g->csb;
    int left = (int)min64(NR, g->n - j);
    if (g->csb == 1) pack_along(p, b, g->rsb, left, k, NR);
    else pack_across(p, b, g->csb, left, k, NR);
}

/* One tile: rows x cols (<= MR x NR) of c = alpha a b + beta d, from packed panels of depth k */
static void tile(const Gemm *g, const real *a, const real *b, int k, int64_t at, int rows, int cols,
                 int first)
{
    Vec s[MR][2];
    real *c = g->c + at;
    for (int i = 0; i < rows; i++) __builtin_prefetch(c + i * g->ldc, 1);
    mul(s, a, 1, MR, b, NR, k);
    const real *d = first ? g->d + at : c;
    real beta = first ? g->beta : 1, alpha = g->alpha;
    if (rows == MR && cols == NR && beta == 0)
        UNROLL for (int i = 0; i < MR; i++, c += g->ldc) {
            vstore(c, alpha * s[i][0], VL);
            vstore(c + VL, alpha * s[i][1], VL);
        }
    else if (rows == MR && cols == NR)
        UNROLL for (int i = 0; i < MR; i++, c += g->ldc, d += g->ldc) {
            vstore(c, alpha * s[i][0] + beta * vload(d, VL), VL);
            vstore(c + VL, alpha * s[i][1] + beta * vload(d + VL, VL), VL);
        }
    else
        UNROLL for (int i = 0; i < MR; i++)
            if (i < rows)
                for (int j = 0; j < 2; j++) {
                    int64_t o = i * g->ldc + j * VL, left = cols - j * VL;
                    Vec x = alpha * s[i][j];
                    if (beta != 0) x += beta * vload(d + o, left);
                    vstore(c + o, x, left);
                }
}

/* Blocks of C within one KC x NC step: mb blocks of mc rows times nb groups of nc columns. */
typedef struct Grid { int mc, mb, nc, nb; } Grid;
static Grid grid(int m, int n, int nt)
{
    int panels = (int)div_up(m, MR), cols = (int)div_up(n, NR);
    int64_t mb = div_up(m, MC);
    if (nt > 1) mb = min64(div_up(mb, nt) * nt, panels);        /* equal shares */
    int mp = (int)div_up(panels, mb);
    Grid g = { mp * MR, (int)div_up(panels, mp), cols * NR, 1 };
    if (g.mb < 2 * nt && nt > 1) {
        int64_t nb = min64(div_up(2 * nt, g.mb), div_up(cols, GROUP)), np = div_up(cols, nb);
        g.nc = (int)np * NR;
        g.nb = (int)div_up(cols, np);
    }
    return g;
}

typedef struct Team { real *b; int nt; int next[2]; } Team;

static void barrier(const Team *t)
{
    if (t->nt > 1) { OMP(barrier) }
}
static void block(const Gemm *g, const Grid *r, int task, const real *pb, real *pa, int j0, int n,
                  int k0, int k)
{
    int i0 = task / r->nb * r->mc, rows = (int)min64(r->mc, g->m - i0);
    int jb = task % r->nb * r->nc, je = (int)min64(n, jb + r->nc);
    pack_a(pa, g, i0, rows, k0, k);
    for (int j = jb; j < je; j += NR)
        for (int i = 0; i < rows; i += MR)
            tile(g, pa + (int64_t)i * k, pb + (int64_t)j * k, k, (i0 + i) * g->ldc + j0 + j,
                 (int)min64(MR, rows - i), (int)min64(NR, n - j), k0 == 0);
}
static void work_on(const Gemm *g, Team *t, int tid, real *pa)
{
    int kc = k_block(g->k), step = 0;
    for (int j0 = 0; j0 < g->n; j0 += NC) {
        int n = (int)min64(NC, g->n - j0);
        Grid r = grid(g->m, n, t->nt);
        for (int k0 = 0; k0 == 0 || k0 < g->k; k0 += kc, step++) {
            int k = (int)min64(kc, g->k - k0);
            for (int j = tid * NR; j < n; j += t->nt * NR)
                pack_b(t->b + (int64_t)j * k, g, j0 + j, k0, k);
            barrier(t);
            if (tid == 0) __atomic_store_n(&t->next[~step & 1], 0, __ATOMIC_RELAXED);
            for (int i;
                 (i = __atomic_fetch_add(&t->next[step & 1], 1, __ATOMIC_RELAXED)) < r.mb * r.nb;)
                block(g, &r, i, t->b, pa, j0, n, k0, k);
            barrier(t);
        }
    }
}
void TIERED(gemm_one)(const Gemm *g, void *work)
{
    Team t = { work, 1, { 0, 0 } };
    work_on(g, &t, 0, buf_a(work, 0));
}
void TIERED(gemm)(const Gemm *g)
{
    int nt = (double)g->m * g->n * g->k < 1e5 ? 1 : threads_here();
    char *work = TIERED(scratch)(SLOT_GEMM, work_size(nt));
    if (nt == 1) { TIERED(gemm_one)(g, work); return; }
    Team t = { (real *)work, 1, { 0, 0 } };
    OMP(parallel num_threads(nt))
    {
        OMP(single)
        t.nt = team_size();             /* may be fewer than asked for */
        work_on(g, &t, thread_id(), buf_a(work, thread_id()));
    }
}
