/* attn.c -- causal attention after FlashAttention (Dao 2022), forward and cached: queries in blocks
 * of BQ against keys in blocks of BK, softmax kept up to date block by block. Only blocks that some
 * query of the block sees are visited, and of those on an edge only the columns that matter.
 */
#include "ops/cpu/attn.h"

enum {
    BQ = MR * (96 / MR),                /* queries of a block */
    FEW = 3                             /* fewer queries are not worth a block */
};

/* One head and a block of queries: q, y rows lq apart; k, v rows lk apart; lse ll apart (may be
 * NULL); the first query is at position p0; doc (or NULL): where the queries' documents start.
 * kv: packed blocks of k, as columns, and v, as rows, from the block of key k0. */
typedef struct Head {
    const Act *q, *k, *v; Act *y; real *lse; const int *doc;
    const real *kv;
    int64_t k0, lq, lk, ll, p0;
    int rows, D, window;
    const Drop *drop; uint64_t n0, T;       /* NULL: none; numbers: (n0 + query) T + key */
} Head;
INLINE Seen seen(const Head *h, int i, int64_t j0)
{
    return sees(h->p0 + i, h->window, h->doc ? h->doc[i] : 0, j0);
}
INLINE int64_t first_seen(const Head *h, int i)
{
    return first_key(h->p0 + i, h->window, h->doc ? h->doc[i] : 0);
}

/* m: running max of a query's scores, not scaled; l: its running sums by lane; c: what a new
 * max makes of what was summed so far */
typedef struct Fwd { real *q, *s, *o, *m, *l, *c; } Fwd;
static int64_t fwd_size(int D) { return 2 * BQ * pad(D) + BQ * (int64_t)(LDS + VL + 2) + 6 * 16; }
static Fwd fwd_place(real *w, int D)
{
    Fwd f;
    f.q = take(&w, cells(BQ, pad(D)));
    f.s = take(&w, BQ * (int64_t)LDS);
    f.o = take(&w, BQ * pad(D));
    f.m = take(&w, BQ); f.l = take(&w, BQ * VL); f.c = take(&w, BQ);
    return f;
}
/* New row maxima, the factor for what was summed so far, and s = 2^(scale (s - max)) with its sums; s as
 * a left operand in the end, over itself. (Not scale s - max, of which a fused multiply-add would make
 * the error of a rounding of max, large if that is.) */
static void soften(Fwd *f, const Head *h, int64_t j0)
{
    const real scale = (real)(LOG2E / sqrt(h->D));
    for (int i = 0; i < h->rows; i++) {
        real *s = f->s + i * LDS;
        Seen w = seen(h, i, j0);
        if (w.lo > 0 || w.hi < BK) blank(s, w, -INFINITY);
        Vec m = *(const VecU *)s;
        UNROLL for (int j = VL; j < BK; j += VL) m = vmax(*(const VecU *)(s + j), m);
        real top = vmax_of(m), c = 1;
        if (top > f->m[i]) {
            c = vexp2(vset(scale * (f->m[i] - top)))[0];
            f->m[i] = top;
        }
        f->c[i] = c;
        top = f->m[i];
        Vec sum = c * *(VecU *)(f->l + i * VL);
        UNROLL for (int j = 0; j < BK; j += VL) {
            Vec e = vexp2(scale * (*(const VecU *)(s + j) - top));
            *(VecU *)(s + j) = e;
            sum += e;
        }
        *(VecU *)(f->l + i * VL) = sum;
        if (h->drop) drop_row(s, w, h->drop, (h->n0 + (uint64_t)i) * h->T + (uint64_t)j0);
#ifdef ACT_DOT
        UNROLL for (int j = 0; j < BK; j += NR)
            *(VecU *)(s + j / 2) = pairs_of(*(const VecU *)(s + j), *(const VecU *)(s + j + VL));
#endif
    }
}
/* o = c o + s v */
static void gather_values(Fwd *f, const Head *h, const real *v, int64_t j0)
{
    const int64_t Dp = pad(h->D);
    for (int64_t c = 0; c < Dp; c += NR, v += cells(BK, NR))
        for (int i = 0; i < h->rows; i += MR) {
            Vec t[MR][2];
            const int lo = seen(h, i, j0).lo, hi = seen(h, last_of(i, h->rows), j0).hi;
            mul_part(t, f->s + i * LDS, LDS, 1, v, lo, hi);
            UNROLL for (int r = 0; r < MR; r++) {
                VecU *o = (VecU *)(f->o + (i + r) * Dp + c), *o1 = (VecU *)((real *)o + VL);
                *o = *o * f->c[i + r] + t[r][0];
                *o1 = *o1 * f->c[i + r] + t[r][1];
            }
        }
}
/* Query i alone: o = the sum of exp(score - max) v, in two passes over the keys; returns the sum of
 * exp(score - max). */
static double attend_row(const Head *h, int i, real *o)
{
    const real scale = (real)(1 / sqrt(h->D));
    const int64_t lo = first_seen(h, i), at = h->p0 + i;
    const Act *q = h->q + i * h->lq;
    real top = NONE;
    double sum = 0;
    for (int64_t j = lo; j <= at; j++) {
        const real s = scale * dot_row(q, h->k + j * h->lk, h->D);
        top = s > top ? s : top;
    }
    memset(o, 0, (size_t)pad(h->D) * sizeof *o);
    for (int64_t j = lo; j <= at; j++) {
        real p = (real)exp((double)(scale * dot_row(q, h->k + j * h->lk, h->D) - top));
        sum += (double)p;
        if (h->drop)
            drop_row(&p, (Seen){ 0, 1 }, h->drop, (h->n0 + (uint64_t)i) * h->T + (uint64_t)j);
        add_row(o, p, h->v + j * h->lk, h->D);
    }
    return sum;
}
static void attend(const Head *h, real *work)
{
    const int D = h->D;
    const int64_t Dp = pad(D), last = h->p0 + h->rows - 1, size = cells(BK, Dp);
    const double scale = (double)(real)(LOG2E / sqrt(D));       /* as soften() has it */
    Fwd f = fwd_place(work, D);
    pack_left(f.q, BQ, h->q, h->lq, h->rows, D);
    memset(f.o, 0, (size_t)(BQ * Dp) * sizeof *f.o);
    memset(f.s, 0, (size_t)BQ * LDS * sizeof *f.s);
    memset(f.l, 0, (size_t)BQ * VL * sizeof *f.l);
    for (int i = 0; i < BQ; i++) f.m[i] = NONE, f.c[i] = 1;
    for (int64_t j0 = first_seen(h, 0) / BK * BK; j0 <= last; j0 += BK) {
        const real *kt = h->kv + (j0 - h->k0) / BK * 2 * size;
        for (int i = 0; i < h->rows; i += MR) {
            Seen w = { seen(h, i, j0).lo, seen(h, last_of(i, h->rows), j0).hi };
            scores(f.s + i * LDS, f.q + i * NW, BQ, kt, Dp, w);
        }
        soften(&f, h, j0);
        gather_values(&f, h, kt + size, j0);
    }
    for (int i = 0; i < h->rows; i++) {
        double l = vsum(*(const VecU *)(f.l + i * VL)), sum = l;
        if (isfinite(l) && odd_row(f.o + i * Dp, Dp)) sum = attend_row(h, i, f.o + i * Dp);
        const real by = (real)(1 / sum);
        for (int c = 0; c < D; c += VL)
            astore(h->y + i * h->lq + c, by * vload(f.o + i * Dp + c, D - c), D - c);
        if (h->lse) h->lse[i * h->ll] = (real)(((double)f.m[i] * scale + log2(l)) / LOG2E);
    }
}
/* A few queries, one after the other, reading k and v in place. p: room for a score per key. */
static void attend_few(const Head *h, real *p)
{
    const int D = h->D;
    const real scale = (real)(1 / sqrt(D));
    for (int i = 0; i < h->rows; i++) {
        int64_t at = h->p0 + i, lo = first_seen(h, i), n = at + 1 - lo;
        const Act *q = h->q + i * h->lq, *k = h->k + lo * h->lk, *v = h->v + lo * h->lk;
        Act *y = h->y + i * h->lq;
        real top = NONE;
        for (int64_t j = 0; j < n; j++) {
            p[j] = scale * dot_row(q, k + j * h->lk, D);
            top = p[j] > top ? p[j] : top;
        }
        double sum = 0;
        for (int64_t j = 0; j < n; j += VL) {
            Vec e = vexp(vload(p + j, n - j) - top);
            vstore(p + j, e, n - j);
            sum += vsum(vload(p + j, n - j));
        }
        if (h->drop)
            drop_row(p, (Seen){ 0, (int)n }, h->drop, (h->n0 + (uint64_t)i) * h->T + (uint64_t)lo);
        const real by = (real)(1 / sum);
        for (int d = 0; d < D; d += NR) {
            Vec a = { 0 }, b = { 0 };
            for (int64_t j = 0; j < n; j++) {
                a += p[j] * aload(v + j * h->lk + d, D - d);
                b += p[j] * aload(v + j * h->lk + d + VL, D - d - VL);
            }
            astore(y + d, by * a, D - d);
            astore(y + d + VL, by * b, D - d - VL);
        }
        if (h->lse) h->lse[i * h->ll] = top + (real)log(sum);
    }
}

/* What all heads of rows [b0, b0 + nb) work on: k and v are packed first, by all threads, then each
 * takes blocks of queries as they come free. */
typedef struct Job {
    Act *y; real *lse; const Act *q, *k, *v; const int *pos, *doc;
    int T, M, H, K, D, window, few;
    const Drop *drop;
    int64_t blocks, room;               /* blocks of keys packed for a row and head; a thread's work */
    int64_t row, at_once;               /* reals packed for a row; rows at a time */
    real *packed, *work;
} Job;

/* How B rows of T queries and M keys, which for cached ones are those of a window, are shared out:
 * sets few, blocks, room, row, at_once; returns the bytes of `packed` and of every thread's `work`. */
static size_t attn_plan(Job *a, int B)
{
    enum { AT_ONCE = 1 << 21 };         /* reals packed at a time, if that holds a row */
    const int64_t size = cells(BK, pad(a->D)), keys = a->pos && a->window > 0 ?
                         min64(a->M, (int64_t)a->window + a->T + BK) : a->M;
    a->few = a->T <= FEW;
    a->blocks = a->few ? 0 : div_up(keys, BK) + (a->pos != NULL);
    a->room = div_up(a->few ? a->M : max64(fwd_size(a->D), size), 16) * 16;
    a->row = a->blocks * 2 * size * a->K;
    a->at_once = a->row ? max64(1, min64(B, AT_ONCE / a->row)) : B;
    return (size_t)(a->at_once * a->row + threads_here() * a->room) * sizeof *a->work;
}
void CPU(attn_room)(OpsKept *kept, int B, int T, int K, int D)
{
    Job a = { .T = T, .M = T, .K = K, .D = D };
    keep(&kept->scratch, attn_plan(&a, B));
}

/* the block of keys that a row's first query sees first */
static int64_t first_block(const Job *a, int64_t b)
{
    return a->pos ? first_key(a->pos[b], a->window, 0) / BK : 0;
}
static void pack_keys(const Job *a, int64_t b, int64_t g, int64_t at, real *to, real *temp)
{
    const int64_t size = cells(BK, pad(a->D)), j0 = (first_block(a, b) + at) * BK, lk = (int64_t)a->K * a->D;
    const int64_t end = (a->pos ? a->pos[b] : 0) + a->T, o = ((b * a->M + j0) * a->K + g) * a->D;
    if (j0 >= end) return;
    const int n = (int)min64(BK, end - j0);
    pack_left(temp, BK, a->k + o, lk, n, a->D);
    turn(to, temp, pad(a->D));
    pack_right(to + size, BK, a->v + o, lk, n, a->D);
}
static void do_queries(const Job *a, int64_t b, int64_t head, int64_t t, const real *packed)
{
    const int H = a->H, K = a->K, D = a->D;
    const Drop *d = a->drop;
    const uint64_t row = d ? drop_start(d->at, d->from, d->by) + (uint64_t)b : 0,
                   n0 = row * (uint64_t)H + (uint64_t)head;
    const int64_t step = a->few ? a->T : BQ, qo = ((b * a->T + t) * H + head) * D,
                  ko = (b * a->M * K + head / (H / K)) * D;
    Head h = {
        a->q + qo, a->k + ko, a->v + ko, a->y + qo, a->lse ? a->lse + (b * a->T + t) * H + head : NULL,
        a->doc ? a->doc + b * a->T + t : NULL, packed, first_block(a, b) * BK,
        (int64_t)H * D, (int64_t)K * D, H, (a->pos ? a->pos[b] : 0) + t, (int)min64(step, a->T - t),
        D, a->window, a->drop,
        n0 * (uint64_t)a->T + (uint64_t)t, (uint64_t)a->T,
    };
    if (a->few) attend_few(&h, a->work + thread_id() * a->room);
    else attend(&h, a->work + thread_id() * a->room);
}
/* Queries q [B,T,H,D] against k, v [B,M,K,D]; row b's first is at position pos[b] (NULL: 0) */
static void attn_all(Act *y, real *lse, const Act *q, const Act *k, const Act *v, const int *pos,
                     const int *doc, int B, int T, int M, int H, int K, int D, int window,
                     const Drop *drop)
{
    Job a = { .y = y, .lse = lse, .q = q, .k = k, .v = v, .pos = pos, .doc = doc, .T = T, .M = M,
              .H = H, .K = K, .D = D, .window = window, .drop = drop };
    a.packed = TIERED(scratch)(SLOT_OP, attn_plan(&a, B));
    const int64_t size = cells(BK, pad(D)), step = a.few ? T : BQ, qb = div_up(T, step),
                  at_once = a.at_once;
    a.work = a.packed + at_once * a.row;
    OMP(parallel if((double)B * T * M * H * D > 4 * WAKE))
    for (int64_t b0 = 0; b0 < B; b0 += at_once) {
        const int64_t nb = min64(at_once, B - b0);
        OMP(for schedule(static))
        for (int64_t i = 0; i < nb * K * a.blocks; i++)
            pack_keys(&a, b0 + i / a.blocks / K, i / a.blocks % K, i % a.blocks,
                      a.packed + i * 2 * size, a.work + thread_id() * a.room);
        OMP(for schedule(dynamic))
        for (int64_t task = 0; task < qb * nb * H; task++) {
            const int64_t b = task / H % nb, head = task % H;
            const int64_t t = (qb - 1 - task / H / nb) * step;      /* longest first */
            do_queries(&a, b0 + b, head, t, a.packed + (b * K + head / (H / K)) * a.blocks * 2 * size);
        }
    }
}
void CPU(attn)(Act *y, real *lse, const Act *q, const Act *k, const Act *v, const int *doc, int B,
               int T, int H, int K, int D, int window)
{
    attn_all(y, lse, q, k, v, NULL, doc, B, T, T, H, K, D, window, NULL);
}
void CPU(attn_drop)(Act *y, real *lse, const Act *q, const Act *k, const Act *v, const int *doc, int B,
                    int T, int H, int K, int D, int window, const Drop *d)
{
    attn_all(y, lse, q, k, v, NULL, doc, B, T, T, H, K, D, window, d);
}
void CPU(attn_kv)(Act *y, const Act *q, const Act *kc, const Act *vc, const int *pos, int B, int T,
                  int M, int H, int K, int D, int window)
{
    attn_all(y, NULL, q, kc, vc, pos, NULL, B, T, M, H, K, D, window, NULL);
}
void CPU(kv_put)(Act *kc, Act *vc, const Act *k, const Act *v, const int *pos, int B, int T, int M,
                 int K, int D)
{
    const int64_t row = (int64_t)K * D;
    OMP(parallel for schedule(static) if((int64_t)B * T * row > WAKE))
    for (int b = 0; b < B; b++) {
        int64_t to = ((int64_t)b * M + pos[b]) * row, from = (int64_t)b * T * row;
        memcpy(kc + to, k + from, (size_t)(T * row) * sizeof *kc);
        memcpy(vc + to, v + from, (size_t)(T * row) * sizeof *vc);
    }
}
