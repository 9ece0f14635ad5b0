/* attn.c -- causal attention after FlashAttention (Dao 2022): queries in blocks of BQ against keys
 * in blocks of BK, softmax kept up to date block by block (forward) or recomputed from lse
 * (backward). Only blocks that some query of the block sees are visited; T x T is never stored.
 *
 * Blocks of q, k, v, dy are copied to rows of ld reals, zeros after what exists, so that the
 * micro-kernel meets no edges. ld is an odd number of cache lines: rows fall into different sets.
 */
#include "ops/cpu/kernel.h"

enum {
    BK = 64, BQ = MR * (128 / MR), BQB = MR * (64 / MR),     /* keys; queries forward, backward */
    BKP = (BK + MR - 1) / MR * MR,       /* rows of a block transposed */
    LDS = (BKP + NR - 1) / NR * NR + NR, /* row of a block of scores */
    FEW = 3                              /* fewer queries are not worth a block */
};
_Static_assert(BK % NR == 0, "a block of keys is whole panels");
#define NONE ((real)-1e30)      /* below any score; finite, so that NONE - NONE is 0 */

/* Padded head size, and the row of a copied block. */
static int64_t pad(int D) { return div_up(D, NR) * NR; }
static int64_t row_of(int D) { return pad(D) + NR; }

/* to[n][ld] = f * from[r][0:D], rows of from lf apart; rows past `rows` are 0 */
INLINE void copy_rows(real *to, int64_t ld, int n, const Act *from, int64_t lf, int rows, int D,
                      real f)
{
    for (int r = 0; r < n; r++)
        for (int c = 0; c < ld; c += VL)
            vstore(to + r * ld + c, r < rows ? f * aload(from + r * lf + c, D - c) : (Vec){ 0 },
                   ld - c);
}
/* to: BK / NR panels [D][NR] of BK transposed rows */
static void transpose_rows(real *to, const real *from, int64_t ld, int D)
{
    for (int j = 0; j < BK; j += NR, to += (int64_t)D * NR)
        pack_across(to, from + j * ld, ld, NR, D, NR);
}
/* s[bq][LDS] = a[bq][ld] times transposed rows */
INLINE void scores(real *s, const real *a, int64_t ld, const real *panels, int D, int bq)
{
    for (int j = 0; j < BK; j += NR, panels += (int64_t)D * NR)
        for (int i = 0; i < bq; i += MR) {
            Vec t[MR][2];
            mul(t, a + i * ld, ld, 1, panels, NR, D);
            UNROLL for (int r = 0; r < MR; r++) {
                *(VecU *)(s + (i + r) * LDS + j) = t[r][0];
                *(VecU *)(s + (i + r) * LDS + j + VL) = t[r][1];
            }
        }
}
/* The first key that the query at position p sees; start: of its document. */
INLINE int64_t first_key(int64_t p, int window, int64_t start)
{
    return window > 0 ? max64(start, p - window) : start;
}
/* Of the block of keys from j0, the query at position p sees [lo, hi). */
INLINE void sees(int64_t p, int window, int64_t start, int64_t j0, int *lo, int *hi)
{
    *lo = (int)min64(BK, max64(0, first_key(p, window, start) - j0));
    *hi = (int)max64(*lo, min64(BK, p + 1 - j0));
}
INLINE void blank(real *s, int lo, int hi, real with)
{
    for (int j = 0; j < lo; j++) s[j] = with;
    for (int j = hi; j < BK; j++) s[j] = with;
}

/* One head and a block of queries: q, y rows lq apart; k, v rows lk apart; lse ll apart (may be
 * NULL); the first query is at position p0; doc (or NULL): where the queries' documents start. */
typedef struct Head {
    const Act *q, *k, *v; Act *y; real *lse; const int *doc;
    int64_t lq, lk, ll, p0;
    int rows, D, window;
} Head;
INLINE int64_t start_of(const Head *h, int i) { return h->doc ? h->doc[i] : 0; }

/* m, l: running max and sum of a query; c: what a new max makes of what was summed so far */
typedef struct Fwd { real *q, *kt, *v, *s, *o, *m, *l, *c; } Fwd;
static int64_t fwd_size(int D)
{
    return BQ * row_of(D) + BK * (int64_t)D + BK * row_of(D) + BQ * (int64_t)LDS + BQ * pad(D) +
           3 * (BQ + 16) + 256;
}
static real *take(real **at, int64_t n)
{
    real *p = *at;
    *at += div_up(n, 16) * 16;
    return p;
}
static Fwd fwd_place(real *w, int D)
{
    Fwd f;
    f.q = take(&w, BQ * row_of(D));
    f.kt = take(&w, BK * (int64_t)D);
    f.v = take(&w, BK * row_of(D));
    f.s = take(&w, BQ * (int64_t)LDS); f.o = take(&w, BQ * pad(D));
    f.m = take(&w, BQ + 16); f.l = take(&w, BQ + 16); f.c = take(&w, BQ + 16);
    return f;
}
/* New row maxima, the factor for what was summed so far, and s = exp(s - max) with its sum. */
static void soften(Fwd *f, const Head *h, int64_t j0)
{
    for (int i = 0; i < h->rows; i++) {
        real *s = f->s + i * LDS;
        int lo, hi;
        sees(h->p0 + i, h->window, start_of(h, i), j0, &lo, &hi);
        if (lo > 0 || hi < BK) blank(s, lo, hi, -INFINITY);
        Vec m = *(const VecU *)s;
        for (int j = VL; j < BK; j += VL) m = vmax(*(const VecU *)(s + j), m);
        real top = vmax_of(m);
        top = top > f->m[i] ? top : f->m[i];
        f->c[i] = f->m[i] - top;
        f->m[i] = top;
    }
    for (int i = 0; i < h->rows; i += VL) vstore(f->c + i, vexp(vload(f->c + i, VL)), h->rows - i);
    for (int i = 0; i < h->rows; i++) {
        real *s = f->s + i * LDS;
        Vec sum = { 0 };
        for (int j = 0; j < BK; j += VL) {
            Vec e = vexp(*(const VecU *)(s + j) - f->m[i]);
            *(VecU *)(s + j) = e;
            sum += e;
        }
        f->l[i] = f->l[i] * f->c[i] + (real)vsum(sum);
    }
}
/* o = c o + s v */
static void gather_values(Fwd *f, int D, int64_t ld, int nk)
{
    const int64_t lo = pad(D);
    for (int c = 0; c < lo; c += NR)
        for (int i = 0; i < BQ; i += MR) {
            Vec t[MR][2];
            mul(t, f->s + i * LDS, LDS, 1, f->v + c, ld, nk);
            UNROLL for (int r = 0; r < MR; r++) {
                real *p = f->o + (i + r) * lo + c;
                VecU *o = (VecU *)p, *o1 = (VecU *)(p + VL);
                *o = *o * f->c[i + r] + t[r][0];
                *o1 = *o1 * f->c[i + r] + t[r][1];
            }
        }
}
static void attend(const Head *h, real *work)
{
    const int D = h->D;
    const int64_t ld = row_of(D), lo = pad(D), last = h->p0 + h->rows - 1;
    Fwd f = fwd_place(work, D);
    copy_rows(f.q, ld, BQ, h->q, h->lq, h->rows, D, (real)(1 / sqrt(D)));
    memset(f.o, 0, (size_t)(BQ * lo) * sizeof *f.o);
    memset(f.s, 0, (size_t)BQ * LDS * sizeof *f.s);
    for (int i = 0; i < BQ + 16; i++) f.m[i] = NONE, f.l[i] = f.c[i] = 0;
    for (int64_t j0 = first_key(h->p0, h->window, start_of(h, 0)); j0 <= last; j0 += BK) {
        int nk = (int)min64(BK, last + 1 - j0);
        copy_rows(f.v, ld, BK, h->k + j0 * h->lk, h->lk, nk, D, 1);     /* on its way to kt */
        transpose_rows(f.kt, f.v, ld, D);
        copy_rows(f.v, ld, nk, h->v + j0 * h->lk, h->lk, nk, D, 1);
        scores(f.s, f.q, ld, f.kt, D, BQ);
        soften(&f, h, j0);
        gather_values(&f, D, ld, nk);
    }
    for (int i = 0; i < h->rows; i++) {
        real by = 1 / f.l[i];
        for (int c = 0; c < D; c += VL)
            astore(h->y + i * h->lq + c, by * vload(f.o + i * lo + c, D - c), D - c);
        if (h->lse) h->lse[i * h->ll] = f.m[i] + (real)log((double)f.l[i]);
    }
}
/* A few queries, one after the other, reading k and v in place. p: room for a score per key. */
static void attend_few(const Head *h, real *p)
{
    const int D = h->D;
    const real scale = (real)(1 / sqrt(D));
    for (int i = 0; i < h->rows; i++) {
        int64_t at = h->p0 + i, lo = first_key(at, h->window, start_of(h, i)), n = at + 1 - lo;
        const Act *q = h->q + i * h->lq, *k = h->k + lo * h->lk, *v = h->v + lo * h->lk;
        Act *y = h->y + i * h->lq;
        real top = NONE;
        for (int64_t j = 0; j < n; j++) {
            Vec s = { 0 };
            for (int d = 0; d < D; d += VL)
                s += aload(q + d, D - d) * aload(k + j * h->lk + d, D - d);
            p[j] = scale * (real)vsum(s);
            top = p[j] > top ? p[j] : top;
        }
        double sum = 0;
        for (int64_t j = 0; j < n; j += VL) {
            Vec e = vexp(vload(p + j, n - j) - top);
            vstore(p + j, e, n - j);
            sum += vsum(vload(p + j, n - j));
        }
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

/* Queries q [B,T,H,D] against k, v [B,M,K,D]; row b's first is at position pos[b] (NULL: 0) */
static void attn_all(Act *y, real *lse, const Act *q, const Act *k, const Act *v, const int *pos,
                     const int *doc, int B, int T, int M, int H, int K, int D, int window)
{
    const int few = T <= FEW, step = few ? T : BQ;
    const int64_t blocks = div_up(T, step), size = div_up(few ? M : fwd_size(D), 16) * 16;
    real *work = TIERED(scratch)(SLOT_OP, (size_t)threads_here() * (size_t)size * sizeof *work);
    OMP(parallel for schedule(dynamic) if((double)B * T * M * H * D > 4 * WAKE))
    for (int64_t task = 0; task < blocks * B * H; task++) {
        int64_t b = task / H % B, head = task % H;
        int64_t t = (blocks - 1 - task / H / B) * step;         /* longest first */
        int64_t qo = ((b * T + t) * H + head) * D, ko = (b * M * K + head / (H / K)) * D;
        Head h = {
            q + qo, k + ko, v + ko, y + qo, lse ? lse + (b * T + t) * H + head : NULL,
            doc ? doc + b * T + t : NULL,
            (int64_t)H * D, (int64_t)K * D, H, (pos ? pos[b] : 0) + t, (int)min64(step, T - t),
            D, window,
        };
        (few ? attend_few : attend)(&h, work + thread_id() * size);
    }
}
void CPU(attn)(Act *y, real *lse, const Act *q, const Act *k, const Act *v, const int *doc, int B,
               int T, int H, int K, int D, int window)
{
    attn_all(y, lse, q, k, v, NULL, doc, B, T, T, H, K, D, window);
}
void CPU(attn_kv)(Act *y, const Act *q, const Act *kc, const Act *vc, const int *pos, int B, int T,
                  int M, int H, int K, int D, int window)
{
    attn_all(y, NULL, q, kc, vc, pos, NULL, B, T, M, H, K, D, window);
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

/* ---- backward: p = exp(s - lse), ds = p (dy v^T - dy . y) / sqrt(D); dv += p^T dy, dk += ds^T q,
 * dq += ds k. One task is one k/v head of one row: keys block by block, for each the query heads of
 * the group and their blocks of queries, so that all three gradients are summed in a fixed
 * order. dq [H/K][T + BQB][pad(D)] of the whole task is summed in reals. */
typedef struct Bwd { real *q, *dy, *k, *kt, *vt, *p, *ds, *dk, *dv, *dq; } Bwd;
static int64_t dq_size(int T, int D) { return (T + BQB) * pad(D); }
static int64_t bwd_size(int T, int heads, int D)
{
    return 2 * BQB * row_of(D) + BK * row_of(D) + 2 * BK * (int64_t)D + 2 * BQB * (int64_t)LDS +
           2 * BKP * row_of(D) + heads * dq_size(T, D) + 10 * 16;
}
static Bwd bwd_place(real *w, int T, int heads, int D)
{
    Bwd f;
    f.q = take(&w, BQB * row_of(D));
    f.dy = take(&w, BQB * row_of(D));
    f.k = take(&w, BK * row_of(D));
    f.kt = take(&w, BK * (int64_t)D); f.vt = take(&w, BK * (int64_t)D);
    f.p = take(&w, BQB * (int64_t)LDS); f.ds = take(&w, BQB * (int64_t)LDS);
    f.dk = take(&w, BKP * row_of(D)); f.dv = take(&w, BKP * row_of(D));
    f.dq = take(&w, heads * dq_size(T, D));
    return f;
}
/* d[BKP][ld] += p[BQB][LDS]^T x[BQB][ld] */
static void add_transposed(real *d, const real *p, const real *x, int64_t ld, int D)
{
    for (int c = 0; c < D; c += NR)
        for (int i = 0; i < BKP; i += MR) {
            Vec t[MR][2];
            mul(t, p + i, 1, LDS, x + c, ld, BQB);
            UNROLL for (int r = 0; r < MR; r++) {
                *(VecU *)(d + (i + r) * ld + c) += t[r][0];
                *(VecU *)(d + (i + r) * ld + c + VL) += t[r][1];
            }
        }
}
/* dq[BQB][pad(D)] += ds[BQB][LDS] k[BK][ld] */
static void add_queries(real *dq, const real *ds, const real *k, int64_t ld, int D)
{
    for (int c = 0; c < D; c += NR)
        for (int i = 0; i < BQB; i += MR) {
            Vec t[MR][2];
            mul(t, ds + i * LDS, LDS, 1, k + c, ld, BK);
            UNROLL for (int r = 0; r < MR; r++) {
                real *q = dq + (i + r) * pad(D) + c;
                *(VecU *)q += t[r][0];
                *(VecU *)(q + VL) += t[r][1];
            }
        }
}
/* In place: f->p from scores to p, f->ds from dy v^T to ds. lse, dot: H apart. Query i is
 * at t + i, its document starts at doc[i] (NULL: 0). */
static void grad_scores(Bwd *f, const real *lse, const real *dot, int64_t H, const int *doc,
                        int64_t t, int rows, int64_t j0, int D, int window)
{
    const real scale = (real)(1 / sqrt(D));
    for (int i = 0; i < BQB; i++) {
        real *p = f->p + i * LDS, *ds = f->ds + i * LDS;
        int lo = 0, hi = 0;
        if (i < rows) sees(t + i, window, doc ? doc[i] : 0, j0, &lo, &hi);
        if (lo == hi) { memset(p, 0, BK * sizeof *p); memset(ds, 0, BK * sizeof *ds); continue; }
        const real l = lse[i * H], d = dot[i * H];
        if (lo > 0 || hi < BK) blank(p, lo, hi, -INFINITY), blank(ds, lo, hi, 0);
        for (int j = 0; j < BK; j += VL) {
            Vec e = vexp(scale * *(const VecU *)(p + j) - l);
            *(VecU *)(p + j) = e;
            *(VecU *)(ds + j) = e * (*(const VecU *)(ds + j) - d) * scale;
        }
    }
}
/* dx[rows][lk] += d[rows][ld] */
static void add_rows(Act *dx, int64_t lk, int64_t rows, const real *d, int64_t ld, int D)
{
    for (int64_t r = 0; r < rows; r++)
        for (int c = 0; c < D; c += VL) aadd(dx + r * lk + c, vload(d + r * ld + c, D - c), D - c);
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

void CPU(attn_bwd)(Act *dq, Act *dk, Act *dv, const Act *dy, const Act *y, const real *lse,
                   const Act *q, const Act *k, const Act *v, const int *doc, int B, int T, int H,
                   int K, int D, int window)
{
    const int64_t ld = row_of(D), lq = (int64_t)H * D, lk = (int64_t)K * D, N = (int64_t)B * T * H;
    const int64_t size = div_up(bwd_size(T, H / K, D), 16) * 16;
    real *dot = TIERED(scratch)(SLOT_OP,
                             (size_t)(div_up(N, 16) * 16 + threads_here() * size) * sizeof *dot);
    real *work = dot + div_up(N, 16) * 16;
    OMP(parallel for schedule(static) if(N * D > WAKE))
    for (int64_t n = 0; n < N; n++) {
        Vec s = { 0 };
        for (int c = 0; c < D; c += VL)
            s += aload(dy + n * D + c, D - c) * aload(y + n * D + c, D - c);
        dot[n] = (real)vsum(s);
    }
    OMP(parallel for schedule(dynamic) if((double)N * T * D > 4 * WAKE))
    for (int64_t task = 0; task < (int64_t)B * K; task++) {
        const int64_t b = task / K, g = task % K;
        const int *start = doc ? doc + b * T : NULL;
        Bwd f = bwd_place(work + thread_id() * size, T, H / K, D);
        memset(f.dq, 0, (size_t)(H / K) * (size_t)dq_size(T, D) * sizeof *f.dq);
        memset(f.p, 0, (size_t)BQB * LDS * sizeof *f.p);        /* the columns past BK stay 0 */
        memset(f.ds, 0, (size_t)BQB * LDS * sizeof *f.ds);
        for (int64_t j0 = 0; j0 < T; j0 += BK) {
            const int nk = (int)min64(BK, T - j0);
            const int64_t ko = ((b * T + j0) * K + g) * D;
            const int64_t end = last_query(start, j0, nk, T, window);
            copy_rows(f.k, ld, BK, k + ko, lk, nk, D, 1);
            copy_rows(f.dk, ld, BK, v + ko, lk, nk, D, 1);              /* on its way to vt */
            transpose_rows(f.kt, f.k, ld, D);
            transpose_rows(f.vt, f.dk, ld, D);
            memset(f.dk, 0, (size_t)(BKP * ld) * sizeof *f.dk);
            memset(f.dv, 0, (size_t)(BKP * ld) * sizeof *f.dv);
            for (int64_t h = g * (H / K); h < (g + 1) * (H / K); h++)
                for (int64_t t = j0; t < end; t += BQB) {
                    const int rows = (int)min64(BQB, end - t);
                    const int64_t n = (b * T + t) * H + h;
                    copy_rows(f.q, ld, BQB, q + n * D, lq, rows, D, 1);
                    copy_rows(f.dy, ld, BQB, dy + n * D, lq, rows, D, 1);
                    scores(f.p, f.q, ld, f.kt, D, BQB);
                    scores(f.ds, f.dy, ld, f.vt, D, BQB);
                    grad_scores(&f, lse + n, dot + n, H, start ? start + t : NULL, t, rows, j0, D,
                                window);
                    add_transposed(f.dv, f.p, f.dy, ld, D);
                    add_transposed(f.dk, f.ds, f.q, ld, D);
                    add_queries(f.dq + (h - g * (H / K)) * dq_size(T, D) + t * pad(D), f.ds, f.k, ld,
                                D);
                }
            if (dk) add_rows(dk + ko, lk, nk, f.dk, ld, D);
            if (dv) add_rows(dv + ko, lk, nk, f.dv, ld, D);
        }
        for (int h = 0; dq && h < H / K; h++)
            add_rows(dq + (b * T * H + g * (H / K) + h) * D, lq, T, f.dq + h * dq_size(T, D),
                     pad(D), D);
    }
}
