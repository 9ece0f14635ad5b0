/* cases.h -- the operations of a back-end and the naive versions they are held against; see
 * harness.h. A new operation is an entry in `tests`. */
#ifndef CASES_H
#define CASES_H
#include "harness.h"
#include "base/err.h"

#define D(...) { __VA_ARGS__ }
#define ARRAYS(...) do { const Arr t_[] = { __VA_ARGS__ }; memcpy(a, t_, sizeof t_); } while (0)
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* ---- linear: N C O beta */
static void lin_arrays(Arr *a, const int *d)
{
    ARRAYS({ "y", d[3] ? 'Y' : 'y', (int64_t)d[0] * d[2], 0, 0 },
           { "x", 'x', (int64_t)d[0] * d[1], 0, 0 }, { "w", 'p', (int64_t)d[2] * d[1], 0, 0 });
}
static void lin_call(const Ops *o, void **a, const int *d)
{
    o->linear(a[0], a[1], a[2], d[0], d[1], d[2], d[3]);
}
static void lin_back(const Ops *o, void **g, void *dy, void **a, const int *d)
{
    o->linear_dx(g[1], dy, a[2], d[0], d[1], d[2], 1);
    o->linear_dw(g[2], dy, a[1], d[0], d[1], d[2]);
}
static void lin_naive(double **a, double **mag, const int *d)
{
    for (int n = 0; n < d[0]; n++)
        for (int o = 0; o < d[2]; o++) {
            double *y = &a[0][(int64_t)n * d[2] + o], s = d[3] ? *y : 0, m = fabs(s);
            for (int c = 0; c < d[1]; c++) {
                double t = a[1][(int64_t)n * d[1] + c] * a[2][(int64_t)o * d[1] + c];
                s += t;
                m += fabs(t);
            }
            *y = s;
            mag[0][(int64_t)n * d[2] + o] = m;
        }
}
static double lin_terms(const int *d) { return fmax(d[1], fmax(d[0], d[2])); }
static const int lin_dims[][MAXDIM] = {
    D(1, 1, 1, 0),   D(1, 17, 3, 1),   D(2, 65, 7, 0),   D(3, 130, 31, 1),  D(4, 64, 33, 0),
    D(5, 3, 1, 0),   D(7, 17, 65, 1),  D(13, 7, 16, 0),  D(17, 130, 3, 0),  D(65, 17, 130, 1),
    D(31, 1, 50, 0), D(9, 300, 20, 0), D(20, 9, 600, 1), D(300, 11, 13, 0),
    D(1, 264, 21, 1), D(2, 1032, 9, 0), D(3, 520, 5, 1),       /* few rows of whole 16 bytes */
    D(130, 521, 143, 1),
};
static const int lin_deep[][MAXDIM] = {         /* sums in several parts, of all three products */
    D(0, 8, 40, 1),                             /* no rows, as an expert that nobody chose has */
    D(6, 2601, 9, 1), D(9, 5, 2100, 0), D(2600, 5, 7, 0),
    D(5, 1500, 810, 1), D(700, 90, 100, 1),     /* more than a packed operand, or a block of rows */
    D(6, 9, 8400, 1),                           /* and what is added up as reals before it is an Act */
    D(1100, 1030, 2, 1),
};

/* ---- embed: N C V */
static void emb_arrays(Arr *a, const int *d)
{
    ARRAYS({ "y", 'y', d[0] * d[1], 0, 0 }, { "w", 'p', d[2] * d[1], 0, 0 },
           { "idx", 'i', d[0], 0, d[2] });
}
static void emb_call(const Ops *o, void **a, const int *d)
{
    o->embed(a[0], a[1], a[2], d[0], d[1]);
}
static void emb_back(const Ops *o, void **g, void *dy, void **a, const int *d)
{
    if (g[1]) o->embed_bwd(store_real(g[1]), dy, a[2], d[0], d[1], d[2]);
}
static void emb_naive(double **a, double **mag, const int *d)
{
    for (int n = 0; n < d[0]; n++)
        for (int c = 0; c < d[1]; c++) {
            a[0][n * d[1] + c] = a[1][(int)a[2][n] * d[1] + c];
            mag[0][n * d[1] + c] = 0;           /* exact */
        }
}
static double n_terms(const int *d) { return d[0]; }
static const int emb_dims[][MAXDIM] = { D(1, 1, 1), D(7, 3, 2), D(17, 65, 5), D(130, 17, 40),
                                        D(700, 17, 3), D(30, 1032, 2), D(1100, 130, 7) };

/* ---- rmsnorm: N C */
static void rms_arrays(Arr *a, const int *d)
{
    ARRAYS({ "y", 'y', d[0] * d[1], 0, 0 }, { "rstd", 's', d[0], 0, 0 },
           { "x", 'x', d[0] * d[1], 0, 0 });
}
static const real rms_eps = (real)1e-3;
static void rms_call(const Ops *o, void **a, const int *d)
{
    o->rmsnorm(a[0], a[1], a[2], d[0], d[1], rms_eps);
}
static void rms_back(const Ops *o, void **g, void *dy, void **a, const int *d)
{
    o->rmsnorm_bwd(g[2], dy, a[0], a[1], d[0], d[1]);
}
static void rms_naive(double **a, double **mag, const int *d)
{
    for (int n = 0; n < d[0]; n++) {
        double s = 0;
        for (int c = 0; c < d[1]; c++) s += a[2][n * d[1] + c] * a[2][n * d[1] + c];
        double r = mag[1][n] = a[1][n] = 1 / sqrt(s / d[1] + (double)rms_eps);
        for (int c = 0; c < d[1]; c++)
            mag[0][n * d[1] + c] = fabs(a[0][n * d[1] + c] = r * a[2][n * d[1] + c]);
    }
}
static double c_terms(const int *d) { return d[1]; }
static const int rms_dims[][MAXDIM] = { D(1, 1),   D(3, 7),    D(2, 17),   D(7, 65),
                                        D(5, 130), D(1, 1030), D(37, 520),
                                        D(140, 130) };

/* ---- smear: B T C G pos; or, last, the mean length of documents */
static void smear_arrays(Arr *a, const int *d)
{
    int n = d[0] * d[1] * d[2];
    ARRAYS({ "y", 'y', n, 0, 0 }, { "x", 'x', n, 0, 0 }, { "w", 'r', d[3], 0, 0 },
           { "lam", 'r', 1, .3, .9 }, { "prev", 'c', d[4] ? d[0] * d[2] : 0, 0, 0 },
           { "pos", 'i', d[4] ? d[0] : 0, 0, 3 }, { "doc", 'd', d[5] ? d[0] * d[1] : 0, d[1], d[5] });
}
static void smear_call(const Ops *o, void **a, const int *d)
{
    o->smear(a[0], a[1], a[4], a[5], a[6], a[2], a[3], d[0], d[1], d[2], d[3]);
}
static void smear_back(const Ops *o, void **g, void *dy, void **a, const int *d)
{
    if (!d[4]) o->smear_bwd(g[1], g[2], g[3], dy, a[1], a[6], a[2], a[3], d[0], d[1], d[2], d[3]);
}
static void smear_naive(double **a, double **mag, const int *d)
{
    int T = d[1], C = d[2];
    for (int n = 0; n < d[0] * T; n++) {
        const double *x = a[1] + n * C, *q = NULL;
        if (n % T) q = a[6] && (int)a[6][n] == n % T ? NULL : x - C;
        else if (a[5] && a[5][n / T] > 0) q = a[4] + n / T * C;
        double s = 0, m = 0;
        for (int i = 0; i < d[3]; i++) s += x[i] * a[2][i], m += fabs(x[i] * a[2][i]);
        double g = q ? a[3][0] * sigmoid(s) : 0;
        for (int c = 0; c < C; c++) {
            a[0][n * C + c] = x[c] + (q ? g * q[c] : 0);
            mag[0][n * C + c] = fabs(x[c]) + (q ? fabs(g * q[c]) * (1 + m) : 0);
        }
    }
}
static double smear_terms(const int *d) { return fmax(d[2], d[0] * d[1]); }
static const int smear_dims[][MAXDIM] = {
    D(1, 1, 3, 2),         D(2, 3, 7, 7),           D(3, 7, 17, 5),     D(1, 65, 24, 24),
    D(3, 9, 10, 5, 0, 2), D(2, 65, 24, 24, 0, 5), D(2, 35, 264, 24),  D(2, 130, 65, 24),
};
static const int smear_pos_dims[][MAXDIM] = { D(3, 1, 30, 12, 1), D(5, 4, 17, 3, 1),
                                              D(6, 90, 65, 24, 1) };

/* ---- mix: n, a?, b? */
static const real mix_s = (real)-0.7;
static void mix_arrays(Arr *a, const int *d)
{
    ARRAYS({ "y", 'y', d[0], 0, 0 }, { "x", 'x', d[0], 0, 0 }, { "a", 'r', d[1], 0, 0 },
           { "z", 'x', d[0], 0, 0 }, { "b", 'r', d[2], 0, 0 });
}
static void mix_call(const Ops *o, void **a, const int *d)
{
    o->mix(a[0], a[1], a[2], a[3], a[4], mix_s, d[0]);
}
static void mix_back(const Ops *o, void **g, void *dy, void **a, const int *d)
{
    o->mix_bwd(g[1], g[2], g[3], g[4], dy, a[1], a[2], a[3], a[4], mix_s, d[0]);
}
static void mix_naive(double **a, double **mag, const int *d)
{
    double p = a[2] ? a[2][0] : 1, q = (double)mix_s * (a[4] ? a[4][0] : 1);
    for (int i = 0; i < d[0]; i++) {
        a[0][i] = p * a[1][i] + q * a[3][i];
        mag[0][i] = fabs(p * a[1][i]) + fabs(q * a[3][i]);
    }
}
static const int mix_dims[][MAXDIM] = {
    D(1, 1, 1),  D(3, 1, 0),   D(7, 0, 1),    D(17, 0, 0),
    D(65, 1, 1), D(130, 1, 1), D(9000, 0, 0), D(20000, 1, 1), D(40001, 1, 1),
};
/* the same with x = z: one array of gradients takes both parts, which do not cancel, and is rounded
 * when either has been added */
static void mix1_arrays(Arr *a, const int *d)
{
    ARRAYS({ "y", 'y', d[0], 0, 0 }, { "x", 'x', d[0], 0, 0 }, { "a", 'r', 1, 0.1, 1 },
           { "b", 'r', 1, -1, -0.1 });
}
static void mix1_call(const Ops *o, void **a, const int *d)
{
    o->mix(a[0], a[1], a[2], a[1], a[3], mix_s, d[0]);
}
static void mix1_back(const Ops *o, void **g, void *dy, void **a, const int *d)
{
    o->mix_bwd(g[1], g[2], g[1], g[3], dy, a[1], a[2], a[1], a[3], mix_s, d[0]);
}
static void mix1_naive(double **a, double **mag, const int *d)
{
    for (int i = 0; i < d[0]; i++) {
        a[0][i] = (a[2][0] + (double)mix_s * a[3][0]) * a[1][i];
        mag[0][i] = (fabs(a[2][0]) + fabs((double)mix_s * a[3][0])) * fabs(a[1][i]);
    }
}
static const int mix1_dims[][MAXDIM] = { D(1), D(31), D(130), D(40001) };

/* ---- mix_norm: N C a? b? beta, x = z?; y holds both results, their gradient those of both. What is
 * a real and comes of bfloat16s that are rounded on the way, rstd and the gradients of a and b, is
 * none of the naive version's: check_pair() is for those. With x = z: see mix1. */
static void mn_arrays(Arr *a, const int *d)
{
    const int n = d[0] * d[1];
    const char r = bf16 ? 't' : 'r';
    ARRAYS({ "u, y", 'y', 2 * n, 0, 0 }, { "rstd", bf16 ? 't' : 's', d[0], 0, 0 },
           { "x", 'x', n, 0, 0 }, { "a", r, d[2], d[5] ? 0.1 : 0, d[5] },
           { "z", 'x', d[5] ? 0 : n, 0, 0 }, { "b", r, d[3], d[5] ? -1 : 0, d[5] ? -0.1 : 0 });
}
static void *act_after(void *p, int64_t n) { return (char *)p + (size_t)n * elem_size(true); }
static void mn_call(const Ops *o, void **a, const int *d)
{
    o->mix_norm(a[0], act_after(a[0], d[0] * d[1]), a[1], a[2], a[3], d[5] ? a[2] : a[4], a[5],
                mix_s, d[0], d[1], rms_eps);
}
static void mn_back(const Ops *o, void **g, void *dy, void **a, const int *d)
{
    const int n = d[0] * d[1];
    const size_t size = (size_t)n * elem_size(true);
    void *du = dev(o, NULL, size), *dx = d[4] ? g[2] : g[2] ? du : NULL;
    o->copy(du, dy, size);
    o->mix_norm_bwd(dx, g[3], d[5] ? dx : g[4], g[5], du, act_after(dy, n), act_after(a[0], n),
                    a[1], a[2], a[3], d[5] ? a[2] : a[4], a[5], mix_s, d[0], d[1], d[4]);
    if (g[2] && !d[4]) o->add(g[2], dx, n);
}
static void mn_naive(double **a, double **mag, const int *d)
{
    const double p = a[3] ? a[3][0] : 1, q = (double)mix_s * (a[5] ? a[5][0] : 1);
    const double *x = a[2], *z = d[5] ? x : a[4], round_u = bf16 ? 4 : 1;      /* and in r, too */
    double *u = a[0], *y = u + d[0] * d[1], *mu = mag[0], *my = mu + d[0] * d[1];
    for (int n = 0; n < d[0]; n++) {
        double s = 0, r;
        for (int i = n * d[1]; i < (n + 1) * d[1]; i++) {
            u[i] = p * x[i] + q * z[i];
            mu[i] = fabs(p * x[i]) + fabs(q * z[i]);
            s += u[i] * u[i];
        }
        r = mag[1][n] = a[1][n] = 1 / sqrt(s / d[1] + (double)rms_eps);
        for (int i = n * d[1]; i < (n + 1) * d[1]; i++) {
            y[i] = r * u[i];
            my[i] = round_u * r * mu[i];
        }
    }
}
static double mn_terms(const int *d) { return d[0] * d[1]; }
static const int mn_dims[][MAXDIM] = {
    D(1, 2, 1, 1, 1, 0),    D(3, 7, 1, 1, 0, 0),     D(2, 17, 0, 1, 0, 0),   D(7, 65, 1, 0, 1, 0),
    D(5, 130, 0, 0, 0, 0),  D(1, 1030, 1, 1, 1, 0),  D(9, 1000, 1, 1, 0, 0), D(6, 24, 1, 1, 0, 1),
    D(5, 31, 1, 1, 1, 1),   D(2, 9000, 0, 1, 1, 0),  D(37, 520, 1, 1, 1, 0),
    D(140, 130, 1, 1, 1, 0),
};

/* ---- vgate: N C K D G V */
static void vg_arrays(Arr *a, const int *d)
{
    ARRAYS({ "y", 'y', d[0] * d[2] * d[3], 0, 0 }, { "v", 'x', d[0] * d[2] * d[3], 0, 0 },
           { "ve", 'p', d[5] * d[2] * d[3], 0, 0 }, { "idx", 'i', d[0], 0, d[5] },
           { "h", 'x', d[0] * d[1], 0, 0 }, { "w", 'r', d[2] * d[4], 0, 0 });
}
static void vg_call(const Ops *o, void **a, const int *d)
{
    o->vgate(a[0], a[1], a[2], a[3], a[4], a[5], d[0], d[1], d[2], d[3], d[4]);
}
static void vg_back(const Ops *o, void **g, void *dy, void **a, const int *d)
{
    o->vgate_bwd(g[1], store_real(g[2]), g[4], g[5], dy, a[2], a[3], a[4], a[5], d[0], d[1], d[2], d[3], d[4],
                 d[5]);
}
static void vg_naive(double **a, double **mag, const int *d)
{
    int C = d[1], K = d[2], H = d[3], G = d[4];
    for (int n = 0; n < d[0]; n++)
        for (int k = 0; k < K; k++) {
            double s = 0, m = 0;
            for (int i = 0; i < G; i++)
                s += a[4][n * C + i] * a[5][k * G + i],
                    m += fabs(a[4][n * C + i] * a[5][k * G + i]);
            double g = 3 * sigmoid(s);
            for (int j = 0; j < H; j++) {
                int o = (n * K + k) * H + j;
                double e = g * a[2][((int)a[3][n] * K + k) * H + j];
                a[0][o] = a[1][o] + e;
                mag[0][o] = fabs(a[1][o]) + fabs(e) * (1 + m);
            }
        }
}
static double vg_terms(const int *d) { return fmax(d[0], d[3]); }
static const int vg_dims[][MAXDIM] = {
    D(1, 1, 1, 1, 1, 1),   D(3, 7, 2, 3, 5, 2),      D(17, 12, 1, 17, 12, 4),
    D(65, 9, 3, 6, 4, 17), D(70, 40, 2, 264, 12, 3),
    D(130, 33, 2, 65, 12, 5),
};

/* ---- rope: B T H D sign norm pos; or, last, the mean length of documents */
enum { ROPE_T = 140 };
static const real rope_eps = (real)1e-4;
static real rope_scale(const int *d) { return d[5] ? (real)1.2 : 0; }
static void rope_arrays(Arr *a, const int *d)
{
    int n = d[0] * d[1] * d[2] * d[3];
    ARRAYS({ "y", 'y', n, 0, 0 }, { "rstd", 's', d[5] ? d[0] * d[1] * d[2] : 0, 0, 0 },
           { "x", 'x', n, 0, 0 }, { "tab", 't', ROPE_T * d[3], 0, 0 },
           { "pos", 'i', d[6] ? d[0] : 0, 0, 9 }, { "doc", 'd', d[7] ? d[0] * d[1] : 0, d[1], d[7] });
}
static void rope_call(const Ops *o, void **a, const int *d)
{
    o->rope(a[0], a[1], a[2], a[3], a[4], a[5], d[0], d[1], d[2], d[3], d[4], rope_scale(d),
            rope_eps);
}
static void rope_back(const Ops *o, void **g, void *dy, void **a, const int *d)
{
    if (!d[6])
        o->rope_bwd(g[2], dy, a[0], a[1], a[3], a[5], d[0], d[1], d[2], d[3], d[4], rope_scale(d),
                    1);
}
static void rope_naive(double **a, double **mag, const int *d)
{
    int T = d[1], H = d[2], Dh = d[3], half = Dh / 2;
    for (int n = 0; n < d[0] * T * H; n++) {
        int p = n / H % T + (a[4] ? (int)a[4][n / H / T] : 0) - (a[5] ? (int)a[5][n / H] : 0);
        double *x = a[2] + n * Dh, *y = a[0] + n * Dh, *m = mag[0] + n * Dh, s2 = 0;
        for (int j = 0; j < half; j++) {
            double c = a[3][p * Dh + 2 * j], s = d[4] * a[3][p * Dh + 2 * j + 1];
            y[j] = x[j] * c + x[half + j] * s;
            y[half + j] = x[half + j] * c - x[j] * s;
            m[j] = fabs(x[j] * c) + fabs(x[half + j] * s);
            m[half + j] = fabs(x[half + j] * c) + fabs(x[j] * s);
            s2 += y[j] * y[j] + y[half + j] * y[half + j];
        }
        if (!d[5]) continue;
        double r = 1 / sqrt(s2 / Dh + (double)rope_eps), f = r * (double)rope_scale(d);
        a[1][n] = r;
        mag[1][n] = 2 * r;
        for (int j = 0; j < Dh; j++) y[j] *= f, m[j] *= 2 * f;
    }
}
static double rope_terms(const int *d) { return d[3]; }
static const int rope_dims[][MAXDIM] = {
    D(1, 1, 1, 2, 1, 0),  D(2, 3, 1, 6, -1, 0),    D(1, 7, 3, 34, 1, 1),
    D(2, 5, 2, 16, 1, 1), D(1, 17, 1, 128, -1, 1), D(1, 40, 2, 6, 1, 1, 0, 9),
    D(2, 13, 1, 34, -1, 0, 0, 3), D(2, 65, 3, 66, 1, 1),
};
static const int rope_pos_dims[][MAXDIM] = { D(3, 1, 2, 10, 1, 1, 1), D(2, 5, 1, 34, -1, 0, 1),
                                             D(3, 65, 2, 66, 1, 1, 1) };

/* ---- attn: B T H K D window, 0, the mean length of documents, and thousandths that are dropped;
 * attn_kv: B T H K D window M (k, v are the cache, pos in M - T) */
static Drop some_drop(int thousandths)
{
    return (Drop){ .p = thousandths / 1e3, .key = 0x123456789abcdef, .at = ((uint64_t)1 << 33) + 5 };
}
/* what an element is multiplied by */
static double drop_by(const Drop *d, uint64_t i)
{
    if (d->p == 0) return 1;
    return drop_number(d->key, i) < drop_limit(d->p) ? 0 : 1 / (1 - d->p);
}
static void at_arrays(Arr *a, const int *d)
{
    int64_t M = d[6] ? d[6] : d[1], q = (int64_t)d[0] * d[1] * d[2] * d[4],
            k = d[0] * M * d[3] * d[4];
    ARRAYS({ "y", 'y', q, 0, 0 }, { "lse", 's', d[6] ? 0 : d[0] * d[1] * d[2], 0, 0 },
           { "q", 'x', q, -2, 2 }, { "k", 'x', k, -2, 2 }, { "v", 'x', k, 0, 0 },
           { "pos", 'i', d[6] ? d[0] : 0, 0, d[6] - d[1] + 1 },
           { "doc", 'd', d[7] ? d[0] * d[1] : 0, d[1], d[7] });
}
static void at_call(const Ops *o, void **a, const int *d)
{
    const Drop p = some_drop(d[8]);
    if (d[6]) o->attn_kv(a[0], a[2], a[3], a[4], a[5], d[0], d[1], d[6], d[2], d[3], d[4], d[5]);
    else if (d[8])
        o->attn_drop(a[0], a[1], a[2], a[3], a[4], a[6], d[0], d[1], d[2], d[3], d[4], d[5], &p);
    else o->attn(a[0], a[1], a[2], a[3], a[4], a[6], d[0], d[1], d[2], d[3], d[4], d[5]);
}
static void at_back(const Ops *o, void **g, void *dy, void **a, const int *d)
{
    const Drop p = some_drop(d[8]);
    if (d[8])
        o->attn_drop_bwd(g[2], g[3], g[4], dy, a[0], a[1], a[2], a[3], a[4], a[6], d[0], d[1], d[2],
                         d[3], d[4], d[5], &p);
    else o->attn_bwd(g[2], g[3], g[4], dy, a[0], a[1], a[2], a[3], a[4], a[6], d[0], d[1], d[2], d[3], d[4],
                d[5]);
}
static void at_naive(double **a, double **mag, const int *d)
{
    int T = d[1], H = d[2], K = d[3], Dh = d[4], M = d[6] ? d[6] : T;
    double *p = must(malloc((size_t)M * sizeof *p));
    const Drop drop = some_drop(d[8]);
    for (int b = 0; b < d[0]; b++) for (int t = 0; t < T; t++) for (int h = 0; h < H; h++) {
        const uint64_t row = ((drop.at + (uint64_t)b) * (uint64_t)H + (uint64_t)h) * (uint64_t)T;
        int64_t n = ((int64_t)b * T + t) * H + h;
        int at = t + (a[5] ? (int)a[5][b] : 0), lo = d[5] > 0 && at > d[5] ? at - d[5] : 0;
        if (a[6] && lo < a[6][b * T + t]) lo = (int)a[6][b * T + t];
        const double *k = a[3] + ((int64_t)b * M * K + h / (H / K)) * Dh, *v = a[4] + (k - a[3]);
        double top = -1e300, big = 0, sum = 0;
        for (int j = lo; j <= at; j++) {
            double s = 0, m = 0;
            for (int i = 0; i < Dh; i++) {
                double x = a[2][n * Dh + i] * k[(int64_t)j * K * Dh + i] / sqrt(Dh);
                s += x;
                m += fabs(x);
            }
            p[j] = s;
            top = fmax(top, s);
            big = fmax(big, m);
        }
        for (int j = lo; j <= at; j++) sum += exp(p[j] - top);
        double lse = top + log(sum);
        if (a[1]) a[1][n] = lse, mag[1][n] = fabs(top) + log(sum) + 1 + big;
        for (int i = 0; i < Dh; i++) a[0][n * Dh + i] = mag[0][n * Dh + i] = 0;
        for (int j = lo; j <= at; j++)
            for (int i = 0; i < Dh; i++) {
                double x = exp(p[j] - lse) * v[(int64_t)j * K * Dh + i] *
                           drop_by(&drop, (row + (uint64_t)t) * (uint64_t)T + (uint64_t)j);
                a[0][n * Dh + i] += x;
                mag[0][n * Dh + i] += fabs(x) * (1 + big);
            }
    }
    free(p);
}
static double at_terms(const int *d) { return fmax(d[4], d[1]); }
static const int at_dims[][MAXDIM] = {
    D(1, 1, 1, 1, 1, 0),     D(1, 3, 2, 1, 6, 0),     D(2, 4, 1, 1, 7, 1),
    D(1, 7, 4, 2, 17, 3),    D(3, 17, 2, 2, 8, 16),   D(1, 65, 2, 1, 33, 0),
    D(1, 66, 1, 1, 16, 64),  D(2, 67, 1, 1, 3, 5),    D(1, 130, 3, 3, 17, 65),
    D(1, 150, 1, 1, 4, 149), D(1, 129, 1, 1, 128, 1), D(1, 200, 2, 1, 5, 130),
    D(1, 300, 2, 1, 5, 0, 0, 90), D(2, 200, 1, 1, 8, 60, 0, 20), D(1, 140, 2, 2, 17, 0, 0, 2),
    D(1, 260, 2, 1, 9, 0, 0, 150), D(2, 130, 6, 3, 65, 70, 0, 40), D(2, 130, 6, 3, 65, 70),
};
static const int kv_dims[][MAXDIM] = {
    D(1, 1, 1, 1, 1, 0, 1),       D(3, 1, 4, 2, 17, 0, 33),  D(2, 2, 2, 2, 40, 5, 20),
    D(2, 3, 1, 1, 128, 64, 200),  D(3, 4, 2, 1, 7, 3, 9),    D(2, 17, 2, 2, 16, 0, 150),
    D(2, 130, 2, 1, 33, 65, 210), D(3, 5, 3, 1, 65, 0, 300), D(2, 130, 4, 2, 65, 100, 300),
};

/* Not above 0.5: a bfloat16 y is off by a rounding of what dropout has multiplied by 1 / (1 - p), and a
 * query that sees few keys has a gradient which is the difference from that. */
static const int at_drop_dims[][MAXDIM] = {
    D(1, 1, 1, 1, 1, 0, 0, 0, 500),    D(1, 3, 2, 1, 6, 0, 0, 0, 300),
    D(2, 4, 1, 1, 7, 1, 0, 0, 200),    D(3, 17, 2, 2, 8, 16, 0, 0, 100),
    D(1, 65, 4, 2, 33, 0, 0, 0, 500),  D(2, 67, 1, 1, 3, 5, 0, 0, 500),
    D(1, 140, 2, 2, 17, 0, 0, 2, 250), D(2, 130, 6, 3, 65, 70, 0, 40, 100),
};
static const int at_drop_wide_dims[][MAXDIM] = {        /* head sizes of tensor cores */
    D(2, 70, 4, 2, 32, 0, 0, 0, 300),  D(1, 140, 2, 1, 64, 66, 0, 50, 200),
    D(1, 131, 1, 1, 96, 0, 0, 0, 500), D(1, 133, 2, 1, 128, 70, 0, 0, 100),
};

/* ---- dropout: n, thousandths, beta. */
static void dr_arrays(Arr *a, const int *d)
{
    ARRAYS({ "y", d[2] ? 'Y' : 'y', d[0], 0, 0 }, { "x", 'x', d[0], 0, 0 });
}
static void dr_call(const Ops *o, void **a, const int *d)
{
    const Drop p = some_drop(d[1]);
    o->dropout(a[0], a[1], d[0], &p, d[2]);
}
static void dr_back(const Ops *o, void **g, void *dy, void **a, const int *d)
{
    const Drop p = some_drop(d[1]);
    (void)a;
    if (g[1]) o->dropout(g[1], dy, d[0], &p, 1);
}
static void dr_naive(double **a, double **mag, const int *d)
{
    const Drop p = some_drop(d[1]);
    for (int i = 0; i < d[0]; i++) {
        double x = a[1][i] * drop_by(&p, p.at + (uint64_t)i), y = d[2] ? a[0][i] : 0;
        mag[0][i] = fabs(x) + fabs(y);
        a[0][i] = x + y;
    }
}
static const int dr_dims[][MAXDIM] = {
    D(1, 500, 0), D(7, 100, 1), D(33, 900, 0), D(100, 1, 0), D(20000, 300, 1),
};

#include "cases_llama.h"

/* ---- relu2, add: n */
static void el_arrays(Arr *a, const int *d)
{
    ARRAYS({ "y", 'y', d[0], 0, 0 }, { "x", 'x', d[0], 0, 0 });
}
static void re_call(const Ops *o, void **a, const int *d) { o->relu2(a[0], a[1], d[0]); }
static void re_back(const Ops *o, void **g, void *dy, void **a, const int *d)
{
    o->relu2_bwd(g[1], dy, a[0], d[0], 1);
}
static void re_naive(double **a, double **mag, const int *d)
{
    for (int i = 0; i < d[0]; i++) mag[0][i] = a[0][i] = a[1][i] > 0 ? a[1][i] * a[1][i] : 0;
}
static void add_arrays(Arr *a, const int *d)
{
    ARRAYS({ "y", 'Y', d[0], 0, 0 }, { "x", 'c', d[0], 0, 0 });
}
static void add_call(const Ops *o, void **a, const int *d) { o->add(a[0], a[1], d[0]); }
static void add_naive(double **a, double **mag, const int *d)
{
    for (int i = 0; i < d[0]; i++) mag[0][i] = fabs(a[0][i]) + fabs(a[1][i]), a[0][i] += a[1][i];
}
static const int el_dims[][MAXDIM] = { D(1), D(3), D(7), D(17), D(65), D(130), D(8193), D(20000),
                                      D(40001) };

/* ---- xent, logits: N V Vp cap */
static void xe_arrays(Arr *a, const int *d)
{
    ARRAYS({ "loss", 'l', d[0], 0, 0 }, { "z", 'x', d[0] * d[2], -20, 20 },
           { "tgt", 'i', d[0], -1, d[1] });
}
static void xe_call(const Ops *o, void **a, const int *d)
{
    o->xent(a[0], a[1], a[2], NULL, d[0], d[1], d[2], (real)d[3], 0);
}
/* the gradient replaces z: a copy, then added. dy, the weight of each loss, is wt times scale. */
static void xe_back(const Ops *o, void **g, void *dy, void **a, const int *d)
{
    const int64_t n = (int64_t)d[0] * d[2];
    const size_t zs = (size_t)n * elem_size(true), rows = (size_t)d[0] * sizeof(real);
    real *wt = dev_get(o, dy, rows), *was = dev_get(o, a[0], rows);
    void *z = dev(o, NULL, zs);
    real *loss = dev(o, NULL, rows);
    for (int i = 0; i < d[0]; i++) wt[i] *= 2;
    o->copy(z, a[1], zs);
    o->xent(loss, z, a[2], dev(o, wt, rows), d[0], d[1], d[2], (real)d[3], (real)0.5);
    void *hz = dev_get(o, z, zs), *hg = g[1] ? dev_get(o, g[1], zs) : NULL;
    real *hloss = dev_get(o, loss, rows);
    if (memcmp(hloss, was, rows) != 0)          /* the same loss with and without gradient */
        elem_set(hz, true, 0, INFINITY);
    for (int64_t i = 0; hg && i < n; i++)
        elem_set(hg, true, i, elem_get(hg, true, i) + elem_get(hz, true, i));
    if (hg) o->put(g[1], hg, zs);
    free(wt); free(was); free(hz); free(hg); free(hloss);
}
static double soft(double z, double cap) { return cap > 0 ? cap * tanh(z / cap) : z; }
static void xe_naive(double **a, double **mag, const int *d)
{
    for (int n = 0; n < d[0]; n++) {
        const double *z = a[1] + (int64_t)n * d[2];
        double top = -1e300, sum = 0;
        for (int v = 0; v < d[1]; v++) top = fmax(top, soft(z[v], d[3]));
        for (int v = 0; v < d[1]; v++) sum += exp(soft(z[v], d[3]) - top);
        int t = (int)a[2][n];
        a[0][n] = t < 0 ? 0 : top + log(sum) - soft(z[t], d[3]);
        mag[0][n] = t < 0 ? 0 : fabs(top) + log(sum) + fabs(soft(z[t], d[3])) + 1;
    }
}
static double v_terms(const int *d) { return d[1] < 1024 ? d[1] : 1024; }
static const int xe_dims[][MAXDIM] = {
    D(1, 1, 1, 0),      D(3, 7, 64, 15),      D(4, 17, 17, 0),       D(7, 65, 128, 3),
    D(2, 130, 192, 15), D(3, 1100, 1152, 15), D(40, 1100, 1152, 15),
};
static void lo_arrays(Arr *a, const int *d)
{
    ARRAYS({ "l", 'l', d[0] * d[1], 0, 0 }, { "z", 'c', d[0] * d[2], -20, 20 });
}
static void lo_call(const Ops *o, void **a, const int *d)
{
    o->logits(a[0], a[1], d[0], d[1], d[2], (real)d[3]);
}
static void lo_naive(double **a, double **mag, const int *d)
{
    for (int n = 0; n < d[0]; n++)
        for (int v = 0; v < d[1]; v++)
            mag[0][n * d[1] + v] = fabs(a[0][n * d[1] + v] = soft(a[1][n * d[2] + v], d[3]));
}

/* mix_norm is mix and rmsnorm, forward and backward, one after the other: on the CPU to the bit,
 * whatever rows and vectors have in common; elsewhere, where the sums of da and db are of another order,
 * but for roundings. All numbers start alike. */
typedef struct Pair { void *dx, *dz, *g, *u, *y, *rstd, *dab; } Pair;
static Pair pair_run(const Ops *o, void **in, int N, int C, bool fused)
{
    const int n = N * C;
    const size_t size = (size_t)n * elem_size(true);
    const real ab[] = { (real)0.9, (real)0.3 }, one[] = { 1, 1 };
    Act *x = dev(o, in[0], size), *z = dev(o, in[1], size), *dy = dev(o, in[2], size),
        *dx = dev(o, in[3], size), *dz = dev(o, in[4], size), *g = dev(o, in[5], size),
        *u = dev(o, NULL, size), *y = dev(o, NULL, size);
    real *a = dev(o, ab, sizeof *ab), *b = dev(o, ab + 1, sizeof *ab),
         *dab = dev(o, one, sizeof one), *rstd = dev(o, NULL, (size_t)N * sizeof *rstd);
    if (fused) {
        o->mix_norm(u, y, rstd, x, a, z, b, mix_s, N, C, rms_eps);
        o->mix_norm_bwd(dx, dab, dz, dab + 1, g, dy, y, rstd, x, a, z, b, mix_s, N, C, 1);
    } else {
        o->mix(u, x, a, z, b, mix_s, n);
        o->rmsnorm(y, rstd, u, N, C, rms_eps);
        o->rmsnorm_bwd(g, dy, y, rstd, N, C);
        o->mix_bwd(dx, dab, dz, dab + 1, g, x, a, z, b, mix_s, n);
    }
    Pair p = { dev_get(o, dx, size), dev_get(o, dz, size), dev_get(o, g, size), dev_get(o, u, size),
               dev_get(o, y, size), dev_get(o, rstd, (size_t)N * sizeof *rstd),
               dev_get(o, dab, sizeof one) };
    dev_end(o);
    return p;
}
/* Distance of p from q, of the norm of q. */
static double apart(const void *p, const void *q, bool act, int n)
{
    double e2 = 0, n2 = 0;
    for (int i = 0; i < n; i++) {
        const double v = elem_get(q, act, i), e = elem_get(p, act, i) - v;
        e2 += e * e, n2 += v * v;
    }
    return sqrt(e2 / n2);
}
static void check_pair(const char *tier, int N, int C)
{
    const int n = N * C;
    const size_t size = (size_t)n * elem_size(true);
    const bool cpu = strcmp(tier, "cuda") != 0;
    const double near = cpu ? 0 : bf16 ? bf16_error(n) : 8 * unit;
    void *in[6];
    for (int i = 0; i < 6; i++) in[i] = random_elems(true, n, -1, 1);
    Pair p = pair_run(tier_ops(tier, 1), in, N, C, true),
         q = pair_run(tier_ops(tier, 1), in, N, C, false);
    void *const one[] = { p.dx, p.dz, p.g, p.u, p.y }, *const two[] = { q.dx, q.dz, q.g, q.u, q.y };
    int bad = 0;
    for (int i = 0; i < 5; i++)
        bad += cpu ? memcmp(one[i], two[i], size) != 0 : !(apart(one[i], two[i], true, n) <= near);
    bad += !(apart(p.rstd, q.rstd, false, N) <= near);
    for (int k = 0; k < 2; k++) {
        double sum = 1;
        for (int i = 0; i < n; i++) sum += fabs(elem_get(q.g, true, i) * elem_get(in[k], true, i));
        bad += !(fabs(elem_get(p.dab, false, k) - elem_get(q.dab, false, k)) <=
                 (cpu ? 0 : unit * (4 + 2 * sqrt(n))) * sum);
    }
    ok(bad == 0, "%s %s: mix_norm(%d %d) is mix and rmsnorm", tier, bf16 ? "bf16" : "reals", N, C);
    for (int i = 0; i < 6; i++) free(in[i]);
    for (int i = 0; i < 5; i++) free(one[i]), free(two[i]);
    free(p.rstd), free(q.rstd), free(p.dab), free(q.dab);
}
__attribute__((unused)) static void check_pairs(void)
{
    for (int h = 0; h <= (sizeof(real) == sizeof(float)); h++) {
        bf16 = h;
        for (size_t i = 0; i < sizeof tiers / sizeof *tiers; i++) {
            if (!tier_runs(tiers[i])) continue;
            check_pair(tiers[i], 1, 2);
            check_pair(tiers[i], 3, 7);
            check_pair(tiers[i], 300, 65);
            check_pair(tiers[i], 7, 1280);
            check_pair(tiers[i], 2, 20000);
            check_pair(tiers[i], 70, 1000);
        }
    }
    bf16 = false;
}

#include "grads.h"

#define DIMS(d) d, sizeof d / sizeof *d
static const OpTest tests[] = {
    { "linear", lin_arrays, lin_call, lin_naive, lin_back, lin_grad, lin_terms, DIMS(lin_dims) },
    { "embed", emb_arrays, emb_call, emb_naive, emb_back, emb_grad, n_terms, DIMS(emb_dims) },
    { "rmsnorm", rms_arrays, rms_call, rms_naive, rms_back, rms_grad, c_terms, DIMS(rms_dims) },
    { "smear", smear_arrays, smear_call, smear_naive, smear_back, smear_grad, smear_terms,
      DIMS(smear_dims) },
    { "smear at pos", smear_arrays, smear_call, smear_naive, NULL, NULL, smear_terms,
      DIMS(smear_pos_dims) },
    { "mix", mix_arrays, mix_call, mix_naive, mix_back, mix_grad, n_terms, DIMS(mix_dims) },
    { "mix, x = z", mix1_arrays, mix1_call, mix1_naive, mix1_back, mix1_grad, n_terms,
      DIMS(mix1_dims) },
    { "mix_norm", mn_arrays, mn_call, mn_naive, mn_back, mn_grad, mn_terms, DIMS(mn_dims) },
    { "vgate", vg_arrays, vg_call, vg_naive, vg_back, vg_grad, vg_terms, DIMS(vg_dims) },
    { "rope", rope_arrays, rope_call, rope_naive, rope_back, rope_grad, rope_terms,
      DIMS(rope_dims) },
    { "rope at pos", rope_arrays, rope_call, rope_naive, NULL, NULL, rope_terms,
      DIMS(rope_pos_dims) },
    { "attn", at_arrays, at_call, at_naive, at_back, at_grad, at_terms, DIMS(at_dims) },
    { "attn_kv", at_arrays, at_call, at_naive, NULL, NULL, at_terms, DIMS(kv_dims) },
    { "relu2", el_arrays, re_call, re_naive, re_back, re_grad, NULL, DIMS(el_dims) },
    { "gain", gain_arrays, gain_call, gain_naive, gain_back, gain_grad, n_terms, DIMS(gain_dims) },
    { "swiglu", sw_arrays, sw_call, sw_naive, sw_back, sw_grad, sw_terms, DIMS(el_dims) },
    { "slots_add", sa_arrays, sa_call, sa_naive, sa_back, sa_grad, sa_terms, DIMS(sa_dims) },
    { "experts", ex_arrays, ex_call, ex_naive, ex_back, ex_grad, ex_terms, DIMS(ex_dims) },
    { "route", ro_arrays, ro_call, ro_naive, ro_back, ro_grad, ro_terms, DIMS(ro_dims) },
    { "add", add_arrays, add_call, add_naive, NULL, NULL, NULL, DIMS(el_dims) },
    { "xent", xe_arrays, xe_call, xe_naive, xe_back, xe_grad, v_terms, DIMS(xe_dims) },
    { "logits", lo_arrays, lo_call, lo_naive, NULL, NULL, NULL, DIMS(xe_dims) },
    { "linear", lin_arrays, lin_call, lin_naive, lin_back, lin_grad, lin_terms, DIMS(lin_deep) },
    { "dropout", dr_arrays, dr_call, dr_naive, dr_back, dr_grad, NULL, DIMS(dr_dims) },
    { "attn_drop", at_arrays, at_call, at_naive, at_back, at_grad, at_terms, DIMS(at_drop_dims) },
    { "attn_drop", at_arrays, at_call, at_naive, at_back, at_grad, at_terms,
      DIMS(at_drop_wide_dims) },
};
#endif
