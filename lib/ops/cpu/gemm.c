/* gemm.c -- the matrix product, packed and blocked after Goto and van de Geijn (2008) and Van Zee
 * and van de Geijn (2015).
 *
 * KS of k at a time, all threads pack a piece of B into panels of TN columns (level 3 cache); each
 * thread packs a block of A into panels of TM rows (level 2), which then meets one panel of B after
 * the other: the panel is worked through KC of k at a time (level 1), and against that the
 * micro-kernel multiplies one panel of A after the other into TM x TN sums held in registers, and
 * meanwhile fetches what comes next of B. The sums of a piece of KC wait in a buffer that stays in
 * level 1 or 2; C is touched once per KS.
 *
 * Edges are padded with zeros in the packed panels, so every element is the same chain of
 * multiply-adds everywhere: over KC of k from 0, and these added in order. Threads take packing and
 * blocks of C as they come free: which thread does a block changes nothing in it.
 */
#include "ops/cpu/kernel.h"
#ifdef ACT_DOT
#include "ops/cpu/dot.h"
#define pack_across pack_across_pairs
#define pack_along pack_along_pairs
#else
#define pack_across(p, x, ld, rows, k, W) pack_across_any(p, x, sizeof *(x), ld, rows, k, W)
#define pack_along(p, x, ld, cols, k, W) pack_along_any(p, x, sizeof *(x), ld, cols, k, W)
#endif

enum {
    KC = 256,
    KS = 4 * KC,
    PIECE = (4 << 20) / sizeof(real),           /* elements of a packed piece of B, */
    BLOCK = (256 << 10) / sizeof(real),         /* of a block of A */
    STAGED = 1024,                              /* rows of C at most that are staged at once */
    MC_MAX = TM * (192 / TM),                   /* its rows at most */
    SUMS = MC_MAX * TN,
    PHASES = 4
};
_Static_assert(BLOCK >= KS * TM && PIECE >= KS * TN, "a panel fits");

/* Workspace: B; for each thread A and sums; a stage if need be */
static size_t work_size(int nt)
{
    return (PIECE + (size_t)nt * (BLOCK + SUMS)) * sizeof(real);
}
size_t CPU(gemm_work)(void) { return work_size(1); }

/* n in parts of at most `most`: as few as can be, as equal as can be, multiples of `unit` */
static int part(int64_t n, int64_t most, int unit)
{
    if (n <= most) return (int)max64(n, 1);
    return (int)(div_up(div_up(n, div_up(n, most)), unit) * unit);
}

/* What is done between barriers: rows i0 .. and columns j0 .. of C, m x n of them; k from k0. k, k0
 * and kc count elements of packed panels, which are DEEP of k each. */
typedef struct Piece {
    int i0, m, j0, n, k0, k, kc;
    int mc, mb, nc, nb;         /* blocks: mb of mc rows times nb of nc columns */
    real *c;                    /* (i0, j0) of: c = alpha a b + beta d, with rows ldc apart, */
    const real *d;
    int64_t ldc;
    real beta;
    Act *y;                     /* or y = that + keep y, with rows of the product */
    real keep;
} Piece;

/* n vectors x[i] = x + i*stride of k numbers, k_stride apart, into panels of W. Where they lie side
 * by side (stride 1), a few of k for all panels, since one panel would take little from many pages. */
INLINE void pack(real *p, const Act *x, int64_t stride, int64_t k_stride, int n, int k, int W)
{
    enum { ROWS = 8 * DEEP };
    const int64_t depth = div_up(k, DEEP);
    const int some = stride == 1 ? ROWS : k;
    for (int l = 0; l < k; l += some)
        for (int j = 0; j < n; j += W) {
            real *to = p + j * depth + (int64_t)(l / DEEP) * W;
            const Act *from = x + l * k_stride + j * stride;
            int left = (int)min64(W, n - j), now = (int)min64(some, k - l);
            if (stride == 1) pack_along(to, from, k_stride, left, now, W);
            else pack_across(to, from, stride, left, now, W);
        }
}
/* how many of k a piece has */
static int numbers(const Gemm *g, const Piece *s)
{
    return (int)min64((int64_t)s->k * DEEP, g->k - (int64_t)s->k0 * DEEP);
}
static void pack_a(real *p, const Gemm *g, const Piece *s, int i, int rows)
{
    const Act *a = g->a + (s->i0 + i) * g->rsa + s->k0 * g->csa * DEEP;
    pack(p, a, g->csa == 1 ? g->rsa : 1, g->csa, rows, numbers(g, s), TM);
}
/* A share of the packing of B, some panels; task = 0, 1 .. until it returns 0 */
static int pack_b(real *p, const Gemm *g, const Piece *s, int task)
{
    int some = g->csb == 1 ? 256 / TN : 1, j = task * some * TN;
    if (j >= s->n) return 0;
    const Act *b = g->b + s->k0 * g->rsb * DEEP + (s->j0 + j) * g->csb;
    pack(p + (int64_t)j * s->k, b, g->csb, g->rsb, (int)min64(some * TN, s->n - j), numbers(g, s),
         TN);
    return 1;
}

/* s = the product of panels of depth k; fetches a line at `ahead`, further by `hop` every 8 of k */
#if VBYTES == 32 && defined __FMA__ && !defined REAL_F64
/* In asm, since all 16 registers are in use and compilers spill some of them to memory. */
#define ROW(u, i, s0, s1, s2) \
    "vbroadcastss 16*" #u "+4*" #i "(%[a]), %[t]\n\t" \
    "vfmadd231ps %[x], %[t], %[" #s0 "]\n\t" \
    "vfmadd231ps %[y], %[t], %[" #s1 "]\n\t" \
    "vfmadd231ps %[z], %[t], %[" #s2 "]\n\t"
#define STEP(u) \
    "vmovaps 96*" #u "(%[b]), %[x]\n\t" \
    "vmovaps 96*" #u "+32(%[b]), %[y]\n\t" \
    "vmovaps 96*" #u "+64(%[b]), %[z]\n\t" \
    ROW(u, 0, s0, s1, s2) ROW(u, 1, s3, s4, s5) ROW(u, 2, s6, s7, s8) ROW(u, 3, s9, s10, s11)
#define ZERO(s) "vxorps %[" #s "], %[" #s "], %[" #s "]\n\t"
INLINE void mul_panels(Vec s[TM][TV], const real *a, const real *b, int k, const char *ahead,
                       int64_t hop)
{
    Vec x, y, z, t;
    int64_t eights = k / 8;
    __asm__(ZERO(s0) ZERO(s1) ZERO(s2) ZERO(s3) ZERO(s4) ZERO(s5) ZERO(s6) ZERO(s7) ZERO(s8)
            ZERO(s9) ZERO(s10) ZERO(s11)
            "test %[n], %[n]\n\t"
            "jz 2f\n\t"
            "1: prefetcht1 (%[f])\n\t"
            STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7)
            "add $8*16, %[a]\n\t"
            "add $8*96, %[b]\n\t"
            "add %[hop], %[f]\n\t"
            "dec %[n]\n\t"
            "jnz 1b\n\t"
            "2:"
            : [s0] "=&x"(s[0][0]), [s1] "=&x"(s[0][1]), [s2] "=&x"(s[0][2]), [s3] "=&x"(s[1][0]),
              [s4] "=&x"(s[1][1]), [s5] "=&x"(s[1][2]), [s6] "=&x"(s[2][0]), [s7] "=&x"(s[2][1]),
              [s8] "=&x"(s[2][2]), [s9] "=&x"(s[3][0]), [s10] "=&x"(s[3][1]), [s11] "=&x"(s[3][2]),
              [x] "=&x"(x), [y] "=&x"(y), [z] "=&x"(z), [t] "=&x"(t), [a] "+r"(a), [b] "+r"(b),
              [f] "+r"(ahead), [n] "+r"(eights)
            : [hop] "r"(hop)
            : "memory", "cc");
    for (int l = k % 8; l; l--, a += TM, b += TN) step(TM, TV, s[0], a, 1, b);
}
#else
INLINE void mul_panels(Vec s[TM][TV], const real *a, const real *b, int k, const char *ahead,
                       int64_t hop)
{
    UNROLL for (int i = 0; i < TM; i++)
        UNROLL for (int j = 0; j < TV; j++) s[i][j] = (Vec){ 0 };
    int l = 0;
    for (; l + 8 <= k; l += 8, ahead += hop) {
        __builtin_prefetch(ahead, 0, 2);
        UNROLL for (int u = 0; u < 8; u++, a += TM, b += TN) step(TM, TV, s[0], a, 1, b);
    }
    for (; l < k; l++, a += TM, b += TN) step(TM, TV, s[0], a, 1, b);
}
#endif

/* Which rows of a tile of C are written: [from, rows) where they are, [mirror, rows) across the
 * diagonal. */
typedef struct Place { int rows, cols, from, mirror; } Place;

static Place place(const Gemm *g, const Piece *p, int i, int j)
{
    Place o = { (int)min64(TM, p->m - i), (int)min64(TN, p->n - j), 0, 0 };
    o.mirror = o.rows;
    if (g->symmetric) {         /* squares of TN on the diagonal as they come, those below twice */
        int64_t down = (p->j0 + j) / TN * TN - (p->i0 + i);
        o.from = (int)min64(o.rows, max64(0, down));
        o.mirror = (int)min64(o.rows, max64(0, down + TN));
    }
    return o;
}

/* s = alpha s + beta d + keep y, and to c or y */
INLINE void put(const Gemm *g, const Piece *p, Vec s[TM][TV], int i, int j, int from, int rows,
                int cols)
{
    UNROLL for (int r = 0; r < TM; r++)
        UNROLL for (int v = 0; v < TV; v++) {
            int64_t at = (i + r) * p->ldc + j + v * VL, left = cols - v * VL;
            if (r < from || r >= rows || left <= 0) continue;
            Vec x = g->alpha * s[r][v];
            if (p->beta != 0) x += p->beta * vload(p->d + at, left);
            if (p->y) {
                Act *y = p->y + (i + r) * g->ldc + j + v * VL;
                if (p->keep != 0) x += p->keep * aload(y, left);
                astore(y, x, left);
            } else {
                vstore(p->c + at, x, left);
            }
            s[r][v] = x;
        }
}
static void put_across(const Gemm *g, const Piece *p, Vec s[TM][TV], int i, int j, const Place *o)
{
    real *c = g->c + (int64_t)(p->j0 + j) * g->ldc + p->i0 + i;
    for (int v = 0; v < o->cols; v++)
        for (int r = o->mirror; r < o->rows; r++) c[v * g->ldc + r] = ((real *)s)[r * TN + v];
}
/* Has the first and last cache line of each row of the tile brought in. */
static void fetch(const Gemm *g, const Piece *p, int i, int j, const Place *o)
{
    const char *to = p->y ? (const char *)(p->y + i * g->ldc + j)
                          : (const char *)(p->c + i * p->ldc + j);
    int64_t size = p->y ? sizeof(Act) : sizeof(real), row = (p->y ? g->ldc : p->ldc) * size;
    for (int r = 0; r < o->rows; r++, to += row) {
        __builtin_prefetch(to, 1);
        __builtin_prefetch(to + (o->cols - 1) * size, 1);
    }
}
static void tile(const Gemm *g, const Piece *p, const real *a, const real *b, int k0, int k,
                 const char *ahead, int64_t hop, real *sum, int i, int j)
{
    Vec s[TM][TV], *t = (Vec *)(void *)sum;
    Place o = place(g, p, i, j);
    int last = k0 + k == p->k;
    if (last) fetch(g, p, i, j, &o);
    mul_panels(s, a, b, k, ahead, hop);
    if (k0)
        UNROLL for (int r = 0; r < TM; r++)
            UNROLL for (int v = 0; v < TV; v++) s[r][v] += t[r * TV + v];
    if (!last)
        UNROLL for (int r = 0; r < TM; r++)
            UNROLL for (int v = 0; v < TV; v++) t[r * TV + v] = s[r][v];
    else if (o.rows - o.from == TM && o.cols == TN) put(g, p, s, i, j, 0, TM, TN);
    else put(g, p, s, i, j, o.from, o.rows, o.cols);
    if (last && o.mirror < o.rows) put_across(g, p, s, i, j, &o);
}

/* Of a symmetric product: the first panel of rows that reaches the diagonal */
static int64_t first_panel(const Gemm *g, int64_t col, int64_t row)
{
    return g->symmetric ? max64(0, col / TN * TN - row) / TM : 0;
}
static void block(const Gemm *g, const Piece *p, int task, real *pa, const real *pb)
{
    real *sum = pa + BLOCK;
    int i0 = task / p->nb * p->mc, rows = (int)min64(p->mc, p->m - i0);
    int jb = task % p->nb * p->nc, je = (int)min64(p->n, jb + p->nc);
    int64_t panels = div_up(rows, TM);
    pack_a(pa, g, p, i0, rows);
    for (int j = jb; j < je; j += TN)
        for (int l = 0; l == 0 || l < p->k; l += p->kc) {
            int k = (int)min64(p->kc, p->k - l);
            const real *b = pb + (int64_t)j * p->k + (int64_t)l * TN;
            const char *ahead = (const char *)(b + (int64_t)k * TN);
            int64_t share = (int64_t)k * TN * (int64_t)sizeof *b / panels;
            for (int64_t i = first_panel(g, p->j0 + j, p->i0 + i0); i < panels; i++)
                tile(g, p, pa + i * TM * p->k + (int64_t)l * TM, b, l, k, ahead + i * share,
                     share * 8 / max64(k, 1), sum + i * TM * TN, i0 + (int)i * TM, j);
        }
}

/* How to share out a piece */
static void plan_blocks(Piece *p, int nt)
{
    enum { GROUP = 6 };         /* panels of B that are worth packing A for */
    int panels = (int)div_up(p->m, TM), cols = (int)div_up(p->n, TN);
    int mp = (int)min64(MC_MAX, BLOCK / max64(p->k, 1)) / TM;
    int64_t mb = div_up(panels, mp), nb = 1;
    if (nt > 1) mb = min64(div_up(mb, nt) * nt, panels);        /* equal shares */
    if (nt > 1 && mb < 2 * nt) nb = min64(div_up(2 * nt, mb), div_up(cols, GROUP));
    mp = (int)div_up(panels, mb);
    p->mc = mp * TM;
    p->mb = (int)div_up(panels, mp);
    p->nc = (int)div_up(cols, nb) * TN;
    p->nb = (int)div_up(p->n, p->nc);
}

/* Phases, each ended by a barrier, count what was taken in next[phase % PHASES]. */
typedef struct Team {
    real *b, *own, *stage;
    int nt, depth, ks, mc, nc, next[PHASES];      /* depth, ks: as k in a Piece */
} Team;

static int take(Team *t, int phase)
{
    return __atomic_fetch_add(&t->next[phase % PHASES], 1, __ATOMIC_RELAXED);
}
static void end_phase(Team *t, int phase, int tid)
{
    if (t->nt > 1) { OMP(barrier) }
    if (tid == 0)               /* nobody has been there since the barrier before this one */
        __atomic_store_n(&t->next[(phase + PHASES - 1) % PHASES], 0, __ATOMIC_RELAXED);
}
/* Where the sums of a piece go. An Act would round them: they wait in t->stage until k is done. */
static void target(const Gemm *g, const Team *t, Piece *p)
{
    int last = p->k0 + p->k >= t->depth;
    int64_t at = p->i0 * g->ldc + p->j0;
    p->beta = p->k0 ? 1 : g->y ? 0 : g->beta;
    p->ldc = g->y ? p->n : g->ldc;
    p->c = g->y ? t->stage : g->c + at;
    p->d = g->y || p->k0 ? p->c : g->d + at;
    p->y = g->y && last ? g->y + at : NULL;
    p->keep = g->beta;
}
static void work_on(const Gemm *g, Team *t, int tid)
{
    int phase = 0;
    Piece p = { .kc = part(t->ks, KC, 8) };
    for (p.j0 = 0; p.j0 < g->n; p.j0 += t->nc)
        for (p.i0 = 0; p.i0 < g->m; p.i0 += t->mc)
            for (p.k0 = 0; p.k0 == 0 || p.k0 < t->depth; p.k0 += t->ks) {
                p.n = (int)min64(t->nc, g->n - p.j0);
                p.m = (int)min64(t->mc, g->m - p.i0);
                p.k = (int)min64(t->ks, t->depth - p.k0);
                target(g, t, &p);
                plan_blocks(&p, t->nt);
                int kept = p.i0 && p.k == t->depth;         /* B is still there from the rows before */
                while (!kept && pack_b(t->b, g, &p, take(t, phase))) {}
                end_phase(t, phase++, tid);
                for (int i; (i = take(t, phase)) < p.mb * p.nb;)
                    block(g, &p, i, t->own + (int64_t)tid * (BLOCK + SUMS), t->b);
                end_phase(t, phase++, tid);
            }
}
static int staged(const Gemm *g) { return g->y && div_up(g->k, DEEP) > KS; }
static Team team(const Gemm *g)
{
    int depth = (int)div_up(g->k, DEEP), ks = part(depth, KS, 8);
    return (Team){ .nt = 1, .depth = depth, .ks = ks, .nc = part(g->n, PIECE / ks / TN * TN, TN),
                   .mc = staged(g) ? part(g->m, STAGED, TM) : g->m };
}
static void give_work(Team *t, void *work, int nt)
{
    t->b = work;
    t->own = t->b + PIECE;
    t->stage = t->own + (int64_t)nt * (BLOCK + SUMS);
}
void CPU(gemm_one)(const Gemm *g, void *work)
{
    Team t = team(g);
    give_work(&t, work, 1);
    work_on(g, &t, 0);
}
void CPU(gemm)(const Gemm *given)
{
    Gemm whole = *given, *g = &whole;
#ifndef ACT_BF16
    if (g->y) { g->c = g->y; g->d = g->y; g->y = NULL; }
#endif
    int nt = (double)g->m * g->n * g->k < 1e5 ? 1 : threads_here();
    Team t = team(g);
    size_t stage = staged(g) ? (size_t)t.mc * (size_t)t.nc * sizeof(real) : 0;
    give_work(&t, TIERED(scratch)(SLOT_GEMM, work_size(nt) + stage), nt);
    if (nt == 1) { work_on(g, &t, 0); return; }
    OMP(parallel num_threads(nt))
    {
        OMP(single)
        t.nt = team_size();             /* may be fewer than asked for */
        work_on(g, &t, thread_id());
    }
}
