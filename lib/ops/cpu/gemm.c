/* gemm.c -- the matrix product, packed and blocked after Goto and van de Geijn (2008) and Van Zee
 * and van de Geijn (2015), but that threads share nothing they pack.
 *
 * C is cut into cells, one or more for each thread. A cell's part of B is packed into panels of TN
 * columns (level 3 cache); a block of its rows of A after the other is packed into panels of TM
 * rows (level 2) and meets one panel of B after the other: the micro-kernel multiplies two panels
 * into TM x TN sums held in registers, and meanwhile fetches what comes next of B. Panels longer
 * than KC are worked through in pieces, whose sums wait in level 1. What adds up in C is done KS of
 * k at a time; an Act is rounded once, so its k is done in one go, or in reals rounded afterwards.
 *
 * A thread that has no cell left helps with the blocks of others. It packs their B for itself:
 * where two cores have no cache in common a line that the other has written costs more than to pack
 * it again.
 *
 * Edges are padded with zeros in the packed panels, so every element is the same chain of
 * multiply-adds everywhere: over a piece of k from 0, and these added in order. Which thread does a
 * block changes nothing in it.
 */
#include "ops/cpu/kernel.h"
#if defined ACT_DOT || defined ACT_TILE
#include "ops/cpu/dot.h"
#define pack_across pack_across_pairs
#define pack_along pack_along_pairs
#else
#define pack_across(p, x, ld, rows, k, W) pack_across_any(p, x, sizeof *(x), ld, rows, k, W)
#define pack_along(p, x, ld, cols, k, W) pack_along_any(p, x, sizeof *(x), ld, cols, k, W)
#endif
#ifdef ACT_TILE
#include "ops/cpu/tile.h"
#else
#define tile_config(c)
#define tile_release()
#endif

enum {
    KC = 1024,
    KS = 1536,
    SOME = CHUNK > 8 ? CHUNK : 8,               /* parts of k are multiples of so much */
    PIECE = (4 << 20) / sizeof(real),           /* elements of a cell's B, */
    BLOCK = (384 << 10) / sizeof(real),         /* of a block of A, as far as rows can be fewer */
    MC_MIN = 4 * TM,
    MC_MAX = TM * (192 / TM),
    SUMS = MC_MAX * TN,
    HELP = 2,                                   /* blocks that are worth packing their B for */
    ALONE = 100000,                             /* multiply-adds not worth waking others for */
    MUCH = 4 * KC,                              /* k of an Act that is not done in one go */
    STAGE = 1 << 20
};
_Static_assert(PIECE >= KS * TN, "a panel fits");

/* n in parts of at most `most`: as few as can be, as equal as can be, multiples of `unit` */
static int part(int64_t n, int64_t most, int unit)
{
    if (n <= most) return (int)max64(n, 1);
    return (int)(div_up(div_up(n, div_up(n, most)), unit) * unit);
}

static int depth_of(int k) { return (int)(div_up(k, DEEP * CHUNK) * CHUNK); }

/* A product and how it is shared out. k, depth and kc count elements of packed panels, DEEP of g->k
 * each. */
typedef struct Job {
    const Gemm *g;
    int depth, kc;
    int down, across, rows, cols;       /* down x across cells of rows x cols */
    int mc;                             /* rows of a block */
    int workers;                        /* threads that can find work */
    real *work;                         /* of each of them: B, A, sums */
    size_t size_b, size_a;
    int next, *taken;                   /* the next cell; of each cell the next block */
} Job;
typedef struct Cell { int i0, m, j0, n; } Cell; /* rows from i0 and columns from j0 of C, m x n */

/* n vectors x[i] = x + i*stride of k numbers, k_stride apart, into panels of W. Where they lie side
 * by side (stride 1), a few of k for all panels, since one panel would take little from many pages. */
INLINE void pack(real *p, const Act *x, int64_t stride, int64_t k_stride, int n, int k, int W)
{
    enum { ROWS = 8 * DEEP };
    const int64_t depth = depth_of(k), filled = div_up(k, DEEP);
    const int some = stride == 1 ? ROWS : k;
    for (int l = 0; l < k; l += some)
        for (int j = 0; j < n; j += W) {
            real *to = p + j * depth + (int64_t)(l / DEEP) * W;
            const Act *from = x + l * k_stride + j * stride;
            int left = (int)min64(W, n - j), now = (int)min64(some, k - l);
            if (stride == 1) pack_along(to, from, k_stride, left, now, W);
            else pack_across(to, from, stride, left, now, W);
        }
    for (int j = 0; filled < depth && j < n; j += W)
        memset(p + j * depth + filled * W, 0, (size_t)((depth - filled) * W) * sizeof *p);
}
static void pack_a(real *p, const Gemm *g, int i, int rows)
{
#ifdef ACT_TILE
    const int k = g->k, depth = depth_of(k);
    for (int l = 0; l < k; l += DEEP * CHUNK)
        for (int r = 0; r < rows; r += TM) {
            real *to = p + (int64_t)r * depth + (int64_t)(l / DEEP) * TM;
            const Act *from = g->a + (i + r) * g->rsa + l * g->csa;
            int left = (int)min64(TM, rows - r), now = (int)min64(DEEP * CHUNK, k - l);
            if (g->csa == 1) pack_rows_across(to, from, g->rsa, left, now, TM);
            else pack_rows_along(to, from, g->csa, left, now, TM);
        }
#else
    pack(p, g->a + i * g->rsa, g->csa == 1 ? g->rsa : 1, g->csa, rows, g->k, TM);
#endif
}
static void pack_b(real *p, const Gemm *g, int j, int cols)
{
    pack(p, g->b + j * g->csb, g->csb, g->rsb, cols, g->k, TN);
}

/* s = the product of panels of depth k; fetches a line at `ahead`, further by `hop` every 8 of k */
#ifdef ACT_TILE
INLINE void mul_panels(Vec s[TM][TV], const real *a, const real *b, int k, const char *ahead,
                       int64_t hop)
{
    enum { LOWER = TILE_ROWS * CHUNK, RIGHT = TILE_PAIRS, ROW = TN * sizeof(real) };
    real *to = (real *)s;
    tile_zero(0);
    tile_zero(1);
    tile_zero(2);
    tile_zero(3);
    for (int l = 0; l < k; l += CHUNK, a += CHUNK * TM, b += CHUNK * TN, ahead += 2 * hop) {
        __builtin_prefetch(ahead, 0, 2);
        __builtin_prefetch(ahead + hop, 0, 2);
        tile_load(4, a, TILE_BYTES);
        tile_load(6, b, ROW);
        tile_load(7, b + RIGHT, ROW);
        tile_load(5, a + LOWER, TILE_BYTES);
        tile_dp(0, 4, 6);
        tile_dp(1, 4, 7);
        tile_dp(2, 5, 6);
        tile_dp(3, 5, 7);
    }
    tile_store(0, to, ROW);
    tile_store(1, to + RIGHT, ROW);
    tile_store(2, to + TILE_ROWS * TN, ROW);
    tile_store(3, to + TILE_ROWS * TN + RIGHT, ROW);
}
#elif VBYTES == 32 && defined __FMA__ && !defined REAL_F64
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

static Place place(const Gemm *g, const Cell *c, int i, int j)
{
    Place o = { (int)min64(TM, c->i0 + c->m - i), (int)min64(TN, c->j0 + c->n - j), 0, 0 };
    o.mirror = o.rows;
    if (g->symmetric) {         /* squares of TN on the diagonal as they come, those below twice */
        int64_t down = j / TN * TN - i;
        o.from = (int)min64(o.rows, max64(0, down));
        o.mirror = (int)min64(o.rows, max64(0, down + TN));
    }
    return o;
}

/* c or y = alpha s + beta d, rows [from, rows) of the tile. Constants: act, whether to y; add,
 * whether beta is not 0. */
INLINE void put_as(int act, int add, const Gemm *g, Vec s[TM][TV], int i, int j, int from, int rows,
                   int cols)
{
    const int64_t ldc = g->ldc, at = i * ldc + j;
    const real alpha = g->alpha, beta = g->beta, *d = add && !act ? g->d + at : NULL;
    real *c = act ? NULL : g->c + at;
    Act *y = act ? g->y + at : NULL;
    UNROLL for (int r = 0; r < TM; r++)
        UNROLL for (int v = 0; v < TV; v++) {
            const int64_t o = r * ldc + v * VL, left = cols - v * VL;
            if (r < from || r >= rows || left <= 0) continue;
            Vec x = alpha * s[r][v];
            if (add) x += beta * (act ? aload(y + o, left) : vload(d + o, left));
            if (act) astore(y + o, x, left);
            else vstore(c + o, x, left);
        }
}
INLINE void put(const Gemm *g, Vec s[TM][TV], int i, int j, int from, int rows, int cols)
{
    const int act = g->y != NULL;
    if (act && g->beta != 0) put_as(1, 1, g, s, i, j, from, rows, cols);
    else if (act) put_as(1, 0, g, s, i, j, from, rows, cols);
    else if (g->beta != 0) put_as(0, 1, g, s, i, j, from, rows, cols);
    else put_as(0, 0, g, s, i, j, from, rows, cols);
}
/* The same values once more, from where they are */
static void put_across(const Gemm *g, int i, int j, const Place *o)
{
    const real *from = g->c + i * g->ldc + j;
    real *to = g->c + j * g->ldc + i;
    for (int v = 0; v < o->cols; v++)
        for (int r = o->mirror; r < o->rows; r++) to[v * g->ldc + r] = from[r * g->ldc + v];
}
/* Has the cache lines of the tile brought in. */
static void fetch(const Gemm *g, int i, int j, const Place *o)
{
    enum { LINE = 64 };
    const int64_t at = i * g->ldc + j, size = g->y ? sizeof(Act) : sizeof(real),
                  row = o->cols * size;
    const char *to = g->y ? (const char *)(g->y + at) : (const char *)(g->c + at);
    for (int r = 0; r < o->rows; r++, to += g->ldc * size) {
        for (int64_t b = 0; b < row; b += LINE) __builtin_prefetch(to + b, 1);
        __builtin_prefetch(to + row - 1, 1);
    }
}
/* The tile at (i, j) of C: panels of depth k, a piece that is the first, the last, or both */
static void tile(const Gemm *g, const Cell *c, const real *a, const real *b, int k, int first,
                 int last, const char *ahead, int64_t hop, real *sum, int i, int j)
{
    Vec s[TM][TV], *t = (Vec *)(void *)sum;
    Place o = place(g, c, i, j);
    if (last) fetch(g, i, j, &o);
    mul_panels(s, a, b, k, ahead, hop);
    if (!first)
        UNROLL for (int r = 0; r < TM; r++)
            UNROLL for (int v = 0; v < TV; v++) s[r][v] += t[r * TV + v];
    if (!last)
        UNROLL for (int r = 0; r < TM; r++)
            UNROLL for (int v = 0; v < TV; v++) t[r * TV + v] = s[r][v];
    else if (o.rows - o.from == TM && o.cols == TN) put(g, s, i, j, 0, TM, TN);
    else put(g, s, i, j, o.from, o.rows, o.cols);
    if (last && o.mirror < o.rows) put_across(g, i, j, &o);
}

/* Rows i0 .. i0 + rows of a cell */
static void block(const Job *job, const Cell *c, int i0, int rows, const real *pb, real *pa)
{
    const Gemm *g = job->g;
    real *sum = pa + job->size_a;
    const int64_t panels = div_up(rows, TM), depth = job->depth;
    pack_a(pa, g, i0, rows);
    for (int j = 0; j < c->n; j += TN)
        for (int l = 0; l == 0 || l < depth; l += job->kc) {
            const int k = (int)min64(job->kc, depth - l);
            const real *b = pb + j * depth + (int64_t)l * TN;
            const char *ahead = (const char *)(b + (int64_t)k * TN);
            const int64_t share = (int64_t)k * TN * (int64_t)sizeof *b / panels;
            int64_t i = 0;              /* of a symmetric one: the first to reach the diagonal */
            if (g->symmetric) i = max64(0, (c->j0 + j) / TN * TN - i0) / TM;
            for (; i < panels; i++)
                tile(g, c, pa + i * TM * depth + (int64_t)l * TM, b, k, l == 0, l + k >= depth,
                     ahead + i * share, share * 8 / max64(k, 1), sum + i * TM * TN,
                     i0 + (int)i * TM, c->j0 + j);
        }
}

static int take(int *next) { return __atomic_fetch_add(next, 1, __ATOMIC_RELAXED); }
static Cell cell(const Job *job, int at)
{
    const Gemm *g = job->g;
    Cell c = { .i0 = at % job->down * job->rows, .j0 = at / job->down * job->cols };
    if (g->symmetric) c.i0 = c.j0;
    c.m = (int)min64(g->symmetric ? g->m : job->rows, g->m - c.i0);
    c.n = (int)min64(job->cols, g->n - c.j0);
    return c;
}
/* Does what nobody has taken of a cell, if that is at least `some` blocks. */
static void work_on(Job *job, int at, int some, real *own)
{
    const Cell c = cell(job, at);
    const int blocks = (int)div_up(c.m, job->mc);
    int *taken = &job->taken[at];
    if (blocks - __atomic_load_n(taken, __ATOMIC_RELAXED) < some) return;
    pack_b(own, job->g, c.j0, c.n);
    for (int i; (i = take(taken)) < blocks;)
        block(job, &c, c.i0 + i * job->mc, (int)min64(job->mc, c.m - i * job->mc), own,
              own + job->size_b);
}
static size_t own_size(const Job *job) { return job->size_b + job->size_a + SUMS; }
static void work(Job *job, int tid)
{
    const int cells = job->down * job->across;
    real *own = job->work + (size_t)tid * own_size(job);
    if (tid >= job->workers) return;
    tile_config(&tile_whole);
    for (int i; (i = take(&job->next)) < cells;) work_on(job, i, 1, own);
    for (int i = 0; i < cells; i++) work_on(job, i, HELP, own);
    tile_release();
}

/* The next number of parts by which those of n become smaller: with more of the same size nothing is
 * gained. */
static int more(int parts, int n)
{
    const int64_t each = div_up(n, parts);
    return each > 1 ? (int)div_up(n, each - 1) : n + 1;
}

/* Cells: what a cell takes is its area and the packing of its rows and columns; the least for the
 * thread that has most of them. A symmetric product's are columns from the diagonal down, the
 * longest first. */
static void plan_cells(Job *job, int nt)
{
    enum { PACKING = 12 };      /* of a row or column: multiply-adds it takes as long as */
    const Gemm *g = job->g;
    const int panels = (int)div_up(g->m, TM), cols = (int)div_up(g->n, TN),
              most = (int)max64(1, PIECE / max64(job->depth, 1) / TN),
              least = (int)div_up(cols, most);
    int64_t best = INT64_MAX;
    for (int down = 1; down <= min64(nt, panels) && !(g->symmetric && down > 1);
         down = more(down, panels))
        for (int across = least; across <= min64(cols, least + 2 * nt); across = more(across, cols)) {
            const int64_t m = div_up(panels, down) * TM, n = div_up(cols, across) * TN,
                          cost = div_up((int64_t)down * across, nt) * (m * n + PACKING * (m + n));
            if (cost >= best) continue;
            best = cost;
            job->down = down;
            job->rows = (int)m;
            job->cols = (int)n;
        }
    if (g->symmetric && nt > 1) job->cols = (int)min64(job->cols, div_up(cols, 2 * nt) * TN);
    job->across = (int)div_up(g->n, job->cols);
    job->down = (int)div_up(g->m, job->rows);
    const int64_t fit = BLOCK / max64(job->depth, 1);
    job->mc = part(div_up(job->rows, TM), min64(MC_MAX, max64(MC_MIN, fit)) / TM, 1) * TM;
}
static size_t room(int64_t n) { return (size_t)div_up(n + VL, 64) * 64; }
static Job plan(const Gemm *g, int nt)
{
    Job job = { .g = g, .depth = depth_of(g->k) };
    job.kc = part(job.depth, KC, SOME);
    plan_cells(&job, nt);
    job.size_b = room((int64_t)job.cols * job.depth);
    job.size_a = room((int64_t)job.mc * job.depth);
    job.workers = (int)min64(nt, job.down * job.across * div_up(job.rows, job.mc));
    return job;
}

static size_t work_size(const Job *job)
{
    return (size_t)job->workers * own_size(job) * sizeof(real) +
           (size_t)job->down * (size_t)job->across * sizeof *job->taken;
}
static void begin(Job *job, void *mem)
{
    job->work = mem;
    job->taken = (int *)(job->work + (size_t)job->workers * own_size(job));
    memset(job->taken, 0, (size_t)job->down * (size_t)job->across * sizeof *job->taken);
}
/* A pass over C, on this thread in `mem` or on all. With kept, here and below: nothing is done but to
 * see what it would need. */
static void pass(const Gemm *g, void *mem, OpsKept *kept)
{
    int nt = mem || (double)g->m * g->n * g->k < ALONE ? 1 : threads_here();
    Job job = plan(g, nt);
    if (kept) { keep(&kept->packed, work_size(&job)); return; }
    if (!mem) mem = TIERED(scratch)(SLOT_GEMM, work_size(&job));
    begin(&job, mem);
    if (nt == 1) { work(&job, 0); return; }
    OMP(parallel num_threads(nt))
    work(&job, thread_id());
}
/* k in parts of KS; that of an Act, which is rounded once, in one go */
static void passes(const Gemm *g, void *mem, OpsKept *kept)
{
    const int depth = (int)div_up(g->k, DEEP),
              ks = g->y ? (int)max64(depth, 1) : part(depth, KS, SOME);
    Gemm now = *g;
    if (g->m <= 0 || g->n <= 0) return;
    for (int l = 0; l == 0 || l < depth; l += ks) {
        const int64_t k0 = (int64_t)l * DEEP;
        now.k = (int)min64((int64_t)ks * DEEP, g->k - k0);
        if (!kept) {
            now.a = g->a + k0 * g->csa;
            now.b = g->b + k0 * g->rsb;
        }
        pass(&now, mem, kept);
        now.d = now.c;
        now.beta = 1;
    }
}
#ifdef ACT_BF16
/* Acts with so many k that a cell would be narrow: rows of y are added up as reals first. */
static void staged(const Gemm *g, OpsKept *kept)
{
    const int most = (int)max64(TM, STAGE / g->n);
    const size_t size = (size_t)min64(most, max64(g->m, 0)) * (size_t)g->n * sizeof(real);
    real *c = NULL;
    if (kept) keep(&kept->stage, size);
    else c = TIERED(scratch)(SLOT_STAGE, size);
    for (int i = 0; i < g->m; i += most) {
        Gemm some = *g;
        some.m = (int)min64(most, g->m - i);
        if (!kept) some.a = g->a + i * g->rsa;
        some.y = NULL;
        some.c = c;
        some.d = c;
        some.ldc = g->n;
        some.beta = 0;
        passes(&some, NULL, kept);
        if (kept) continue;
        OMP(parallel for schedule(static) if((int64_t)some.m * g->n > WAKE))
        for (int r = 0; r < some.m; r++)
            for (int j = 0; j < g->n; j += VL) {
                Act *y = g->y + (i + r) * g->ldc + j;
                Vec x = vload(c + (int64_t)r * g->n + j, g->n - j);
                if (g->beta != 0) x += g->beta * aload(y, g->n - j);
                astore(y, x, g->n - j);
            }
    }
}
#endif
void CPU(gemm_one)(const Gemm *g, void *mem) { passes(g, mem, NULL); }
size_t CPU(gemm_work)(void)
{
    return (3 * GEMM_SMALL + KS * TN + MC_MIN * KS + SUMS + 64) * sizeof(real);
}
static void multiply(const Gemm *given, OpsKept *kept)
{
    Gemm g = *given;
#ifdef ACT_BF16
    if (g.y && g.n > 0 && g.k > DEEP * MUCH) { staged(&g, kept); return; }
#else
    if (g.y) { g.c = g.y; g.d = g.y; g.y = NULL; }
#endif
    passes(&g, NULL, kept);
}
void CPU(gemm)(const Gemm *g) { multiply(g, NULL); }
void CPU(gemm_room)(OpsKept *kept, const Gemm *g) { multiply(g, kept); }
