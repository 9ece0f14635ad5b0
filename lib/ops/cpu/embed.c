/* embed.c -- what reads a table by token, and the gates: embed, vgate, smear. */
#include "ops/cpu/vec.h"

enum { SLICE = 64 };        /* channels per unit of work where threads share a table's gradient */
enum { ROWS = 64 };         /* rows per unit of work, and of the partial sums of gate gradients */

void CPU(embed)(Act *y, const Act *w, const int *idx, int N, int C)
{
    OMP(parallel for schedule(static) if((int64_t)N * C > WAKE))
    for (int n = 0; n < N; n++)
        memcpy(y + (int64_t)n * C, w + (int64_t)idx[n] * C, (size_t)C * sizeof *y);
}

static size_t same_room(int N, int V) { return ((size_t)V + (size_t)N) * sizeof(int) + (size_t)N; }
/* next[n]: the row after n with the same token, N if it is the last. Returns [N]: is n a token's
 * first row? */
static const unsigned char *same_rows(int **next, const int *idx, int N, int V)
{
    int *last = TIERED(scratch)(SLOT_ROWS, same_room(N, V));
    unsigned char *first = (unsigned char *)(last + V + N);
    *next = last + V;
    memset(last, -1, (size_t)V * sizeof *last);
    for (int n = 0; n < N; n++) {
        int before = last[idx[n]];
        first[n] = before < 0;
        if (before >= 0) (*next)[before] = n;
        last[idx[n]] = n;
        (*next)[n] = N;
    }
    return first;
}
/* dw[idx[n]] += (g ? g[n][c / D] : 1) dy[n], for channels [c, stop) of one gate and n, next[n] ... */
static void add_rows(Store dw, const Act *dy, const real *g, const int *next, int n, int N, int C,
                     int D, int c, int stop)
{
    for (; c < stop; c += VL) {
        Vec sum = sload(dw, c, stop - c);
        for (int i = n; i < N; i = next[i]) {
            real s = g ? g[(int64_t)i * (C / D) + c / D] : 1;
            sum += s * aload(dy + (int64_t)i * C + c, stop - c);
        }
        sstore(dw, c, sum, stop - c);
    }
}
/* The same for all rows. Each thread has its own channels. dw [V,C], g [N,C/D]. */
static void scatter(Store dw, const Act *dy, const real *g, const int *idx, int N, int C, int D,
                    int V)
{
    int *next;
    const unsigned char *first = same_rows(&next, idx, N, V);
    OMP(parallel for schedule(static) if((int64_t)N * C > WAKE))
    for (int c0 = 0; c0 < C; c0 += SLICE)
        for (int n = 0; n < N; n++) {
            int end = (int)min64(C, c0 + SLICE);
            for (int c = c0, stop; first[n] && c < end; c = stop) { /* up to the next head's gate */
                stop = g ? (int)min64(end, (c / D + 1) * (int64_t)D) : end;
                add_rows(store_at(dw, (int64_t)idx[n] * C), dy, g, next, n, N, C, D, c, stop);
            }
        }
}
void CPU(embed_bwd)(Store dw, const Act *dy, const int *idx, int N, int C, int V)
{
    if (store_some(dw)) scatter(dw, dy, NULL, idx, N, C, C, V);
}

void CPU(embed_bwd_room)(OpsKept *kept, int N, int V) { keep(&kept->rows, same_room(N, V)); }

/* sigmoid(w . x), G terms */
static real gate(const Act *x, const real *w, int G)
{
    double s = 0;
    for (int i = 0; i < G; i++) s += (double)aget(x + i) * (double)w[i];
    return (real)(1 / (1 + exp(-s)));
}
INLINE double dot_row(const Act *x, const Act *y, int n)
{
    Vec s = { 0 };
    for (int i = 0; i < n; i += VL) s += aload(x + i, n - i) * aload(y + i, n - i);
    return vsum(s);
}
/* out[i] += sum over chunks of part[chunk][i], chunks in order */
static void add_parts(real *out, const double *part, int64_t chunks, int64_t n, int64_t stride)
{
    for (int64_t i = 0; i < n; i++) {
        double s = 0;
        for (int64_t c = 0; c < chunks; c++) s += part[c * stride + i];
        out[i] += (real)s;
    }
}

void CPU(vgate)(Act *y, const Act *v, const Act *ve, const int *idx, const Act *h, const real *w,
                int N, int C, int K, int D, int G)
{
    OMP(parallel for schedule(static) if((int64_t)N * K * D > WAKE))
    for (int n = 0; n < N; n++)
        for (int k = 0; k < K; k++) {
            real g = 3 * gate(h + (int64_t)n * C, w + k * G, G);
            const Act *e = ve + ((int64_t)idx[n] * K + k) * D;
            int64_t o = ((int64_t)n * K + k) * D;
            for (int d = 0; d < D; d += VL)
                astore(y + o + d, aload(v + o + d, D - d) + g * aload(e + d, D - d), D - d);
        }
}
/* s = sigmoid(w . h), y = v + 3 s ve; da = d(w . h) = 3 s (1-s) dy . ve; dh += da w, dw += da h,
 * dve += 3 s dy */
void CPU(vgate_bwd)(Act *dv, Store dve, Act *dh, real *dw, const Act *dy, const Act *ve,
                    const int *idx, const Act *h, const real *w, int N, int C, int K, int D, int G,
                    int V)
{
    int64_t chunks = div_up(N, ROWS), KG = (int64_t)K * G;
    double *part = TIERED(scratch)(SLOT_OP, (size_t)(chunks * KG) * sizeof(double) +
                                             2 * (size_t)N * (size_t)K * sizeof(real));
    real *g = (real *)(part + chunks * KG), *da = g + (int64_t)N * K;   /* [N,K]: 3 s; da */
    if (dv) CPU(add)(dv, dy, (int64_t)N * K * D);
    OMP(parallel for schedule(static) if((int64_t)N * K * D > WAKE))
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        double *dwc = part + chunk * KG;
        memset(dwc, 0, (size_t)KG * sizeof *dwc);
        for (int64_t n = chunk * ROWS; n < min64(N, (chunk + 1) * ROWS); n++) {
            for (int k = 0; k < K; k++) {
                real s = gate(h + n * C, w + k * G, G);
                g[n * K + k] = 3 * s;
                if (!dh && !dw) continue;
                double a = 3 * s * (1 - s) *
                           dot_row(dy + (n * K + k) * D, ve + ((int64_t)idx[n] * K + k) * D, D);
                da[n * K + k] = (real)a;
                for (int i = 0; i < G; i++) dwc[k * G + i] += a * (double)aget(h + n * C + i);
            }
            for (int i = 0; dh && i < G; i += VL) {
                Vec sum = { 0 };
                for (int k = 0; k < K; k++) sum += da[n * K + k] * vload(w + k * G + i, G - i);
                aadd(dh + n * C + i, sum, G - i);
            }
        }
    }
    if (dw) add_parts(dw, part, chunks, KG, KG);
    if (store_some(dve)) scatter(dve, dy, g, idx, N, K * D, D, V);
}

/* has position t of its row, token n, none before it in its document? */
INLINE int is_first(const int *doc, int64_t n, int64_t t) { return t == 0 || (doc && doc[n] == t); }

/* the vector before position t of row b, NULL if there is none */
static const Act *before(const Act *x, const Act *prev, const int *pos, const int *doc, int b,
                         int t, int T, int C)
{
    if (t > 0 && is_first(doc, (int64_t)b * T + t, t)) return NULL;
    if (t > 0) return x + ((int64_t)b * T + t - 1) * C;
    return pos && pos[b] > 0 ? prev + (int64_t)b * C : NULL;
}
void CPU(smear)(Act *y, const Act *x, const Act *prev, const int *pos, const int *doc,
                const real *w, const real *lam, int B, int T, int C, int G)
{
    OMP(parallel for schedule(static) if((int64_t)B * T * C > WAKE))
    for (int64_t n = 0; n < (int64_t)B * T; n++) {
        const Act *p = x + n * C, *q = before(x, prev, pos, doc, (int)(n / T), (int)(n % T), T, C);
        if (!q) { memcpy(y + n * C, p, (size_t)C * sizeof *y); continue; }
        real g = *lam * gate(p, w, G);
        for (int c = 0; c < C; c += VL)
            astore(y + n * C + c, aload(p + c, C - c) + g * aload(q + c, C - c), C - c);
    }
}
/* s = sigmoid(w . x[t]); e = dy[t] . x[t-1]; da = lam s (1-s) e:
 * dx[t] += dy[t] + da w + lam s[t+1] dy[t+1]; dlam += s e; dw += da x[t]. All but dx[t] += dy[t]
 * only where there is a predecessor. */
void CPU(smear_bwd)(Act *dx, real *dw, real *dlam, const Act *dy, const Act *x, const int *doc,
                    const real *w, const real *lam, int B, int T, int C, int G)
{
    int64_t N = (int64_t)B * T, chunks = div_up(N, ROWS), P = G + 1;
    double *part = TIERED(scratch)(SLOT_OP, (size_t)(chunks * P) * sizeof(double) +
                                             (size_t)(2 * N) * sizeof(real));
    real *s = (real *)(part + chunks * P), *da = s + N; /* both 0 where there is no predecessor */
    OMP(parallel for schedule(static) if(N * C > WAKE))
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        double *sum = part + chunk * P;
        memset(sum, 0, (size_t)P * sizeof *sum);
        for (int64_t n = chunk * ROWS; n < min64(N, (chunk + 1) * ROWS); n++) {
            s[n] = da[n] = 0;
            if (is_first(doc, n, n % T)) continue;
            double g = gate(x + n * C, w, G), e = dot_row(dy + n * C, x + (n - 1) * C, C),
                   a = *lam * g * (1 - g) * e;
            s[n] = (real)g;
            da[n] = (real)a;
            for (int i = 0; i < G; i++) sum[i] += a * (double)aget(x + n * C + i);
            sum[G] += g * e;
        }
    }
    if (dw) add_parts(dw, part, chunks, G, P);
    if (dlam) add_parts(dlam, part + G, chunks, 1, P);
    if (!dx) return;
    OMP(parallel for schedule(static) if(N * C > WAKE))
    for (int64_t n = 0; n < N; n++) {
        Act *p = dx + n * C;
        const Act *d = dy + n * C;
        const int next = n + 1 < N && !is_first(doc, n + 1, (n + 1) % T);
        real g = next ? *lam * s[n + 1] : 0;
        for (int c = 0; c < C; c += VL) {
            Vec t = aload(d + c, C - c);
            if (next) t += g * aload(d + C + c, C - c);
            if (c < G) t += da[n] * vload(w + c, G - c);
            aadd(p + c, t, C - c);
        }
    }
}
