/* attn_bwd.c -- attention backward: p = exp(s - lse), ds = p (dy v^T - dy . y); dv += p^T dy,
 * dk += ds^T q / sqrt(D), dq += ds k / sqrt(D). T x T is never stored.
 *
 * One task is one k/v head of one row, or a part of its blocks of keys (every PARTS-th) where there
 * are few heads and rows: keys block by block, for each the query heads of the group and their
 * blocks of queries. Each part sums a dq of its own, in reals; they are added in order at the end.
 * How many parts there are depends on shapes only, so the order of every sum is fixed.
 */
#include "ops/cpu/attn.h"

enum {
    BQ = MR * (64 / MR), TASKS = 8,             /* queries of a block; tasks wanted at least */
    LDK = DEEP == 1 ? LDS : BK / DEEP           /* row of ds as a left operand */
};
_Static_assert(BQ % DEEP == 0, "pairs of queries");

typedef struct Grad {
    Act *dq, *dk, *dv; const Act *dy, *q, *k, *v; const real *lse; const int *doc;
    int B, T, H, K, D, window;
    int64_t parts, Tp, Dp;              /* padded: T to blocks of queries, D to panels */
    int64_t tasks, all;                 /* B K parts; reals of a task's dq */
    int64_t workers, room, dots;        /* how many share the tasks; reals of a worker's Bwd, of dot */
    real *dot;                          /* [B,T,H] dy . y */
    const Drop *drop;                   /* NULL: none. p is then dropped for dv, dy v^T for ds */
} Grad;

/* q, dy [H/K][Tp/BQ] packed blocks, on the left; qr, dyr the same on the right, k over queries; kr,
 * kt, vt: the block of keys on the right, k over keys and over channels; p, ds [BQ][LDS], then with k
 * over queries in every DEEP-th row; dsk [BQ][LDK] ds with k over keys; dk, dv [BKP][Dp]; dq
 * [H/K][Tp][Dp] */
typedef struct Bwd { real *q, *dy, *qr, *dyr, *kr, *kt, *vt, *p, *ds, *dsk, *dk, *dv, *dq; } Bwd;
static int64_t bwd_size(const Grad *a)
{
    return 2 * (a->H / a->K) * a->Tp * a->Dp + 3 * cells(BK, a->Dp) + 3 * BQ * (int64_t)LDS +
           2 * BKP * a->Dp + 12 * 16;
}
static Bwd bwd_place(const Grad *a, real *w, real *dq)
{
    const int64_t all = cells((a->H / a->K) * a->Tp, a->Dp), keys = cells(BK, a->Dp);
    Bwd f;
    f.q = take(&w, all); f.dy = take(&w, all);
    f.qr = DEEP == 1 ? f.q : take(&w, all);
    f.dyr = DEEP == 1 ? f.dy : take(&w, all);
    f.kr = take(&w, keys); f.kt = take(&w, keys); f.vt = take(&w, keys);
    f.p = take(&w, BQ * (int64_t)LDS); f.ds = take(&w, BQ * (int64_t)LDS);
    f.dsk = DEEP == 1 ? f.ds : take(&w, BQ * (int64_t)LDK);
    f.dk = take(&w, BKP * a->Dp); f.dv = take(&w, BKP * a->Dp);
    f.dq = dq;
    return f;
}
static void pack_queries(const Grad *a, Bwd *f, int64_t b, int64_t g)
{
    const int group = a->H / a->K;
    const int64_t lq = (int64_t)a->H * a->D;
    for (int64_t h = 0; h < group; h++)
        for (int64_t t = 0; t < a->T; t += BQ) {
            const int64_t from = ((b * a->T + t) * a->H + g * group + h) * a->D;
            const int64_t to = cells(h * a->Tp + t, a->Dp);
            const int rows = (int)min64(BQ, a->T - t);
            pack_left(f->q + to, BQ, a->q + from, lq, rows, a->D);
            pack_left(f->dy + to, BQ, a->dy + from, lq, rows, a->D);
            if (DEEP == 1) continue;
            pack_right(f->qr + to, BQ, a->q + from, lq, rows, a->D);
            pack_right(f->dyr + to, BQ, a->dy + from, lq, rows, a->D);
        }
}
static void load_keys(const Grad *a, Bwd *f, int64_t ko, int nk)
{
    const int64_t lk = (int64_t)a->K * a->D;
    pack_left(f->dk, BK, a->v + ko, lk, nk, a->D);              /* on its way to vt */
    turn(f->vt, f->dk, a->Dp);
    pack_left(f->dk, BK, a->k + ko, lk, nk, a->D);
    turn(f->kt, f->dk, a->Dp);
    pack_right(f->kr, BK, a->k + ko, lk, nk, a->D);
    memset(f->dk, 0, (size_t)(BKP * a->Dp) * sizeof *f->dk);
    memset(f->dv, 0, (size_t)(BKP * a->Dp) * sizeof *f->dv);
}

/* A block of queries of one head against the block of keys: n = its first query in lse and dot, at
 * position t; doc (or NULL): where the queries' documents start. */
typedef struct Tile { int64_t n, t, j0; const int *doc; int rows; } Tile;
INLINE Seen seen(const Grad *a, const Tile *x, int i)
{
    return sees(x->t + i, a->window, x->doc ? x->doc[i] : 0, x->j0);
}
/* keys that some query of the tile of rows from i sees */
INLINE Seen seen_by(const Grad *a, const Tile *x, int i)
{
    return (Seen){ seen(a, x, i).lo, seen(a, x, last_of(i, x->rows)).hi };
}
/* What dropout counts: key j for query t of row b, head h, where n is (b T + any t) H + h. */
INLINE uint64_t number_of(const Grad *a, int64_t n, int64_t t, int64_t j)
{
    const uint64_t H = (uint64_t)a->H, T = (uint64_t)a->T, b = (uint64_t)n / H / T;
    const Drop *d = a->drop;
    return (((drop_start(d->at, d->from, d->by) + b) * H + (uint64_t)n % H) * T + (uint64_t)t) * T +
           (uint64_t)j;
}
/* p and ds, row i and the one before, as left operands: see Bwd */
INLINE void pair_up(Bwd *f, int i)
{
#ifdef ACT_DOT
    real *p = f->p + (i - 1) * LDS, *ds = f->ds + (i - 1) * LDS, *k = f->dsk + (i - 1) * LDK;
    UNROLL for (int j = 0; j < BK; j += NR)
        UNROLL for (int r = 0; r < 2; r++) {
            const VecU *d = (const VecU *)(ds + r * LDS + j);
            *(VecU *)(k + r * LDK + j / 2) = pairs_of(d[0], d[1]);
        }
    UNROLL for (int j = 0; j < BK; j += VL) {
        VecU *s = (VecU *)(p + j), *d = (VecU *)(ds + j);
        *s = pairs_across(*s, *(const VecU *)(p + LDS + j));
        *d = pairs_across(*d, *(const VecU *)(ds + LDS + j));
    }
#else
    (void)f; (void)i;
#endif
}
/* p and ds of the tile's i-th query, which sees keys w */
INLINE void grad_row(const Grad *a, const Tile *x, int i, Seen w, real *p, real *ds, real scale)
{
    const int64_t n = x->n + i * a->H;
    if (w.lo > 0 || w.hi < BK) blank(p, w, -INFINITY), blank(ds, w, 0);
    if (a->drop) drop_row(ds, w, a->drop, number_of(a, x->n, x->t + i, x->j0));
    const real l = (real)(LOG2E * (double)a->lse[n]), d = a->dot[n];
    UNROLL for (int j = 0; j < BK; j += VL) {
        Vec e = vexp2(*(const VecU *)(p + j) * scale - l);
        *(VecU *)(p + j) = e;
        *(VecU *)(ds + j) = e * (*(const VecU *)(ds + j) - d);
    }
    if (a->drop) drop_row(p, w, a->drop, number_of(a, x->n, x->t + i, x->j0));
}
/* p and ds of the tile; 0 where a query does not see, or is none */
static void grad_scores(const Grad *a, Bwd *f, const Tile *x, const real *q, const real *dy)
{
    for (int i = 0; i < BQ; i += MR) {
        if (i >= x->rows) break;
        Seen w = seen_by(a, x, i);
        scores(f->p + i * LDS, q + i * NW, BQ, f->kt, a->Dp, w);
        scores(f->ds + i * LDS, dy + i * NW, BQ, f->vt, a->Dp, w);
    }
    const real scale = (real)(LOG2E / sqrt(a->D));
    for (int i = 0; i < BQ; i++) {
        real *p = f->p + i * LDS, *ds = f->ds + i * LDS;
        Seen w = { 0, 0 };
        if (i < x->rows) w = seen(a, x, i);
        if (w.lo < w.hi) grad_row(a, x, i, w, p, ds, scale);
        else memset(p, 0, BK * sizeof *p), memset(ds, 0, BK * sizeof *ds);
        if (i % 2) pair_up(f, i);
    }
}
/* d[BKP][Dp] += p^T x, x the tile's queries packed on the right */
static void add_transposed(const Grad *a, const Tile *x, real *d, const real *p, const real *rows)
{
    for (int64_t c = 0; c < a->Dp; c += NR, rows += cells(BQ, NR))
        for (int i = 0; i < BKP; i += MR) {
            Vec t[MR][2];
            /* the queries from the first one that sees key i to the last that sees key i + MR - 1 */
            const int64_t lo = min64(BQ, max64(0, x->j0 + i - x->t)),
                          hi = a->window > 0 ? x->j0 + i + MR + a->window - x->t : BQ;
            mul_part(t, p + i, 1, DEEP * LDS, rows, lo, min64(BQ, hi));
            UNROLL for (int r = 0; r < MR; r++) {
                *(VecU *)(d + (i + r) * a->Dp + c) += t[r][0];
                *(VecU *)(d + (i + r) * a->Dp + c + VL) += t[r][1];
            }
        }
}
/* dq[BQ][Dp] += ds k */
static void add_queries(const Grad *a, const Tile *x, real *dq, const Bwd *f)
{
    for (int64_t c = 0; c < a->Dp; c += NR)
        for (int i = 0; i < x->rows; i += MR) {
            Vec t[MR][2];
            Seen w = seen_by(a, x, i);
            mul_part(t, f->dsk + i * LDK, LDK, 1, f->kr + cells(BK, c), w.lo, w.hi);
            UNROLL for (int r = 0; r < MR; r++) {
                real *q = dq + (i + r) * a->Dp + c;
                *(VecU *)q += t[r][0];
                *(VecU *)(q + VL) += t[r][1];
            }
        }
}
/* dx[rows][lx] += f * the sum of n arrays d[rows][Dp], each `next` after the one before */
static void add_rows(Act *dx, int64_t lx, int64_t rows, const real *d, int64_t Dp, int64_t next,
                     int64_t n, int D, real f)
{
    for (int64_t r = 0; r < rows; r++)
        for (int c = 0; c < D; c += VL) {
            Vec s = vload(d + r * Dp + c, D - c);
            for (int64_t i = 1; i < n; i++) s += vload(d + i * next + r * Dp + c, D - c);
            aadd(dx + r * lx + c, f * s, D - c);
        }
}
/* One past the last query of a row that sees a key of [j0, j0 + nk). */
static int64_t last_query(const int *doc, int64_t j0, int nk, int T, int window)
{
    int64_t lo = j0, hi = window > 0 ? min64(T, j0 + nk + window) : T;
    while (doc && lo < hi) {                    /* doc does not decrease */
        int64_t mid = (lo + hi) / 2;
        if (doc[mid] < j0 + nk) lo = mid + 1;
        else hi = mid;
    }
    return hi;
}

/* A key or a query alone (see attn.h): dk and dv, dq [Dp], as they come out of the blocks. */
typedef struct Weight { real p, ds; } Weight;           /* of query n = (b T + t) H + h and key m */
INLINE Weight weight_of(const Grad *a, int64_t n, int64_t m, int64_t j)
{
    const int64_t D = a->D;
    const double s = (double)dot_row(a->q + n * D, a->k + m * D, a->D) / sqrt(a->D);
    Weight x = { (real)exp(s - (double)a->lse[n]), dot_row(a->dy + n * D, a->v + m * D, a->D) };
    real kept = x.p;
    if (a->drop) {
        const uint64_t first = number_of(a, n, n / a->H % a->T, j);
        drop_row(&kept, (Seen){ 0, 1 }, a->drop, first);
        drop_row(&x.ds, (Seen){ 0, 1 }, a->drop, first);
    }
    x.ds = x.p * (x.ds - a->dot[n]);
    x.p = kept;
    return x;
}
static void grad_key(const Grad *a, int64_t b, int64_t g, int64_t j, real *dk, real *dv)
{
    const int64_t group = a->H / a->K, m = (b * a->T + j) * a->K + g;
    const int64_t end = last_query(a->doc ? a->doc + b * a->T : NULL, j, 1, a->T, a->window);
    memset(dk, 0, (size_t)a->Dp * sizeof *dk);
    memset(dv, 0, (size_t)a->Dp * sizeof *dv);
    for (int64_t h = g * group; h < (g + 1) * group; h++)
        for (int64_t t = j; t < end; t++) {
            const int64_t n = (b * a->T + t) * a->H + h;
            const Weight x = weight_of(a, n, m, j);
            add_row(dk, x.ds, a->q + n * a->D, a->D);
            add_row(dv, x.p, a->dy + n * a->D, a->D);
        }
}
static void grad_query(const Grad *a, int64_t b, int64_t h, int64_t t, real *dq)
{
    const int64_t n = (b * a->T + t) * a->H + h, g = h / (a->H / a->K);
    memset(dq, 0, (size_t)a->Dp * sizeof *dq);
    for (int64_t j = first_key(t, a->window, a->doc ? a->doc[b * a->T + t] : 0); j <= t; j++) {
        const int64_t m = (b * a->T + j) * a->K + g;
        add_row(dq, weight_of(a, n, m, j).ds, a->k + m * a->D, a->D);
    }
}

static void grad_keys(const Grad *a, Bwd *f, int64_t b, int64_t g, int64_t j0)
{
    const int nk = (int)min64(BK, a->T - j0), group = a->H / a->K;
    const int *doc = a->doc ? a->doc + b * a->T : NULL;
    const int64_t ko = ((b * a->T + j0) * a->K + g) * a->D, lk = (int64_t)a->K * a->D;
    const int64_t end = last_query(doc, j0, nk, a->T, a->window);
    load_keys(a, f, ko, nk);
    for (int64_t h = 0; h < group; h++)
        for (int64_t t = j0 / BQ * BQ; t < end; t += BQ) {
            const Tile x = { (b * a->T + t) * a->H + g * group + h, t, j0, doc ? doc + t : NULL,
                             (int)min64(BQ, end - t) };
            const int64_t at = cells(h * a->Tp + t, a->Dp);
            grad_scores(a, f, &x, f->q + at, f->dy + at);
            add_transposed(a, &x, f->dv, f->p, f->dyr + at);
            add_transposed(a, &x, f->dk, f->ds, f->qr + at);
            add_queries(a, &x, f->dq + (h * a->Tp + t) * a->Dp, f);
        }
    for (int64_t r = 0; r < nk; r++) {
        real *dk = f->dk + r * a->Dp, *dv = f->dv + r * a->Dp;
        const Act *k = a->k + ko + r * lk;
        if ((odd_row(dk, a->Dp) || odd_row(dv, a->Dp)) && isfinite(0 * dot_row(k, k, a->D)))
            grad_key(a, b, g, j0 + r, dk, dv);          /* a NaN in k: all of them are */
    }
    if (a->dk) add_rows(a->dk + ko, lk, nk, f->dk, a->Dp, 0, 1, a->D,
                        (real)(1 / sqrt(a->D)));
    if (a->dv) add_rows(a->dv + ko, lk, nk, f->dv, a->Dp, 0, 1, a->D, 1);
}
/* rows [t, t + rows) of dq of the group: the sum of its parts */
static void finish_queries(const Grad *a, int64_t b, int64_t g, int64_t t, int64_t rows, real *dq)
{
    const int group = a->H / a->K;
    const int64_t all = group * a->Tp * a->Dp;
    for (int64_t h = 0; a->dq && h < group; h++) {
        for (int64_t r = t; r < t + rows; r++) {
            const int64_t n = (b * a->T + r) * a->H + g * group + h;
            real *row = dq + (h * a->Tp + r) * a->Dp;
            int odd = 0;
            for (int64_t i = 0; i < a->parts; i++) odd |= odd_row(row + i * all, a->Dp);
            if (!odd || !isfinite(a->lse[n]) || !isfinite(a->dot[n])) continue;
            for (int64_t i = 1; i < a->parts; i++)
                memset(row + i * all, 0, (size_t)a->Dp * sizeof *row);
            grad_query(a, b, g * group + h, r, row);
        }
        add_rows(a->dq + ((b * a->T + t) * a->H + g * group + h) * a->D, (int64_t)a->H * a->D, rows,
                 dq + (h * a->Tp + t) * a->Dp, a->Dp, all, a->parts, a->D, (real)(1 / sqrt(a->D)));
    }
}
static void grad_part(const Grad *a, int64_t task, real *work, real *dq)
{
    const int64_t part = task % a->parts, g = task / a->parts % a->K, b = task / a->parts / a->K;
    Bwd f = bwd_place(a, work, dq);
    memset(f.p, 0, (size_t)BQ * LDS * sizeof *f.p);             /* the columns past BK stay 0 */
    memset(f.ds, 0, (size_t)BQ * LDS * sizeof *f.ds);
    memset(dq, 0, (size_t)(a->H / a->K) * (size_t)(a->Tp * a->Dp) * sizeof *dq);
    pack_queries(a, &f, b, g);
    for (int64_t j0 = part * BK; j0 < a->T; j0 += a->parts * BK) grad_keys(a, &f, b, g, j0);
    if (a->parts == 1) finish_queries(a, b, g, 0, a->T, dq);
}
static void dots(real *dot, const Act *x, const Act *y, int64_t N, int D)
{
    OMP(parallel for schedule(static) if(N * D > WAKE))
    for (int64_t n = 0; n < N; n++) {
        Vec s = { 0 };
        for (int c = 0; c < D; c += VL)
            s += aload(x + n * D + c, D - c) * aload(y + n * D + c, D - c);
        dot[n] = (real)vsum(s);
    }
}

static int64_t next_task(int64_t *next) { return __atomic_fetch_add(next, 1, __ATOMIC_RELAXED); }
/* How it is shared out: parts, what is padded, sizes; returns the bytes of all that is not given. */
static size_t grad_plan(Grad *a)
{
    const int64_t heads = (int64_t)a->B * a->K;
    a->Tp = div_up(a->T, BQ) * BQ;
    a->Dp = pad(a->D);
    a->parts = heads < TASKS ? min64(div_up(a->T, BK), div_up(TASKS, heads)) : 1;
    a->tasks = heads * a->parts;
    a->all = (a->H / a->K) * a->Tp * a->Dp;
    a->workers = min64(threads_here(), a->tasks);
    a->room = div_up(bwd_size(a), 16) * 16;
    a->dots = div_up((int64_t)a->B * a->T * a->H, 16) * 16;
    return (size_t)(a->dots + a->workers * a->room +
                    (a->parts > 1 ? a->tasks : a->workers) * a->all) * sizeof(real);
}
void CPU(attn_bwd_room)(OpsKept *kept, int B, int T, int H, int K, int D)
{
    Grad a = { .B = B, .T = T, .H = H, .K = K, .D = D };
    keep(&kept->scratch, grad_plan(&a));
}
void CPU(attn_drop_bwd)(Act *dq, Act *dk, Act *dv, const Act *dy, const Act *y, const real *lse,
                        const Act *q, const Act *k, const Act *v, const int *doc, int B, int T, int H,
                        int K, int D, int window, const Drop *drop)
{
    Grad a = { .dq = dq, .dk = dk, .dv = dv, .dy = dy, .q = q, .k = k, .v = v, .lse = lse, .doc = doc,
               .B = B, .T = T, .H = H, .K = K, .D = D, .window = window, .drop = drop };
    real *work = TIERED(scratch)(SLOT_OP, grad_plan(&a));
    a.dot = work + a.workers * a.room;
    real *sums = a.dot + a.dots;
    const int64_t heads = (int64_t)B * K, N = (int64_t)B * T * H, blocks = div_up(T, BQ);
    int64_t next = 0;
    dots(a.dot, dy, y, N, D);
    OMP(parallel if((double)N * T * D > 4 * WAKE))
    {
        const int64_t own = thread_id();
        for (int64_t task; own < a.workers && (task = next_task(&next)) < a.tasks;)
            grad_part(&a, task, work + own * a.room, sums + (a.parts > 1 ? task : own) * a.all);
    }
    if (a.parts == 1) return;
    OMP(parallel for schedule(static) if(N * D > WAKE))
    for (int64_t i = 0; i < heads * blocks; i++) {
        const int64_t h = i / blocks, t = i % blocks * BQ;
        finish_queries(&a, h / K, h % K, t, min64(BQ, T - t), sums + h * a.parts * a.all);
    }
}
void CPU(attn_bwd)(Act *dq, Act *dk, Act *dv, const Act *dy, const Act *y, const real *lse,
                   const Act *q, const Act *k, const Act *v, const int *doc, int B, int T, int H,
                   int K, int D, int window)
{
    CPU(attn_drop_bwd)(dq, dk, dv, dy, y, lse, q, k, v, doc, B, T, H, K, D, window, NULL);
}
