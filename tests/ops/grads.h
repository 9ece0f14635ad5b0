/* grads.h -- part of cases.h: the naive gradients, in double, that operations' backwards are held
 * against: X_grad(g, dy, a, d) adds to g[k] (what has no gradient is NULL) from a[], the arrays as
 * the naive forward X_naive left them. They are themselves held against differences of it. */
#ifndef GRADS_H
#define GRADS_H

static void lin_grad(double **g, const double *dy, double **a, const int *d)
{
    for (int64_t n = 0; n < d[0]; n++)
        for (int64_t o = 0; o < d[2]; o++)
            for (int64_t c = 0; c < d[1]; c++) {
                g[1][n * d[1] + c] += dy[n * d[2] + o] * a[2][o * d[1] + c];
                g[2][o * d[1] + c] += dy[n * d[2] + o] * a[1][n * d[1] + c];
            }
}
static void emb_grad(double **g, const double *dy, double **a, const int *d)
{
    for (int n = 0; n < d[0]; n++)
        for (int c = 0; c < d[1]; c++) g[1][(int)a[2][n] * d[1] + c] += dy[n * d[1] + c];
}
/* y = r x: dx += r (dy - y mean(dy y)), of one row */
static void row_norm_grad(double *dx, const double *dy, const double *y, double r, int C)
{
    double dot = 0;
    for (int c = 0; c < C; c++) dot += dy[c] * y[c] / C;
    for (int c = 0; c < C; c++) dx[c] += r * (dy[c] - y[c] * dot);
}
static void rms_grad(double **g, const double *dy, double **a, const int *d)
{
    for (int n = 0, C = d[1]; n < d[0]; n++)
        row_norm_grad(g[2] + n * C, dy + n * C, a[0] + n * C, a[1][n], C);
}
static void smear_grad(double **g, const double *dy, double **a, const int *d)
{
    const int T = d[1], C = d[2];
    for (int n = 0; n < d[0] * T; n++) {
        const double *x = a[1] + n * C, *e = dy + n * C;
        for (int c = 0; c < C; c++) g[1][n * C + c] += e[c];
        if (n % T == 0 || (a[6] && (int)a[6][n] == n % T)) continue;
        double z = 0, dot = 0;
        for (int i = 0; i < d[3]; i++) z += x[i] * a[2][i];
        const double s = sigmoid(z), lam = a[3][0];
        for (int c = 0; c < C; c++) {
            g[1][(n - 1) * C + c] += lam * s * e[c];
            dot += e[c] * x[c - C];
        }
        g[3][0] += s * dot;
        for (int i = 0; i < d[3]; i++) {
            g[1][n * C + i] += lam * dot * s * (1 - s) * a[2][i];
            g[2][i] += lam * dot * s * (1 - s) * x[i];
        }
    }
}
/* y = p x + q s z: dx, dz, and those of p and q, which are 1 where they are absent */
static void mix_parts(double *dx, double *dp, double *dz, double *dq, double dy, double x, double p,
                      double z, double q)
{
    *dx += p * dy;
    if (dp) *dp += dy * x;
    *dz += (double)mix_s * q * dy;
    if (dq) *dq += (double)mix_s * dy * z;
}
static void mix_grad(double **g, const double *dy, double **a, const int *d)
{
    for (int i = 0; i < d[0]; i++)
        mix_parts(g[1] + i, g[2], g[3] + i, g[4], dy[i], a[1][i], a[2] ? *a[2] : 1, a[3][i],
                  a[4] ? *a[4] : 1);
}
static void mix1_grad(double **g, const double *dy, double **a, const int *d)
{
    for (int i = 0; i < d[0]; i++)
        mix_parts(g[1] + i, g[2], g[1] + i, g[3], dy[i], a[1][i], *a[2], a[1][i], *a[3]);
}
static void mn_grad(double **g, const double *dy, double **a, const int *d)
{
    const int N = d[0] * d[1], C = d[1];
    const double *x = a[2], *z = d[5] ? x : a[4];
    double *du = dup_bytes(dy, (size_t)N * sizeof *dy), *dz = d[5] ? g[2] : g[4];
    for (int n = 0; n < N; n += C)
        row_norm_grad(du + n, dy + N + n, a[0] + N + n, a[1][n / C], C);
    for (int i = 0; i < N; i++)
        mix_parts(g[2] + i, g[3], dz + i, g[5], du[i], x[i], a[3] ? *a[3] : 1, z[i],
                  a[5] ? *a[5] : 1);
    free(du);
}
static void vg_grad(double **g, const double *dy, double **a, const int *d)
{
    const int C = d[1], K = d[2], H = d[3], G = d[4];
    for (int n = 0; n < d[0] * K; n++) {
        const double *h = a[4] + n / K * C, *w = a[5] + n % K * G;
        double *dh = g[4] + n / K * C, *dw = g[5] + n % K * G, z = 0, dot = 0;
        const int e = ((int)a[3][n / K] * K + n % K) * H;
        for (int i = 0; i < G; i++) z += h[i] * w[i];
        const double s = sigmoid(z);
        for (int j = 0; j < H; j++) {
            g[1][n * H + j] += dy[n * H + j];
            g[2][e + j] += 3 * s * dy[n * H + j];
            dot += 3 * dy[n * H + j] * a[2][e + j];
        }
        for (int i = 0; i < G; i++) {
            dh[i] += s * (1 - s) * dot * w[i];
            dw[i] += s * (1 - s) * dot * h[i];
        }
    }
}
/* the norm's, y = scale r u, and then the rotation back */
static void rope_grad(double **g, const double *dy, double **a, const int *d)
{
    const int T = d[1], H = d[2], D = d[3], half = D / 2;
    double *du = must(calloc((size_t)D, sizeof *du)), *y = must(malloc((size_t)D * sizeof *y));
    for (int n = 0; n < d[0] * T * H; n++) {
        const double f = d[5] ? (double)rope_scale(d) : 1, *e = dy + (int64_t)n * D;
        const double *tab = a[3] + (n / H % T - (a[5] ? (int)a[5][n / H] : 0)) * D;
        double *dx = g[2] + (int64_t)n * D;
        for (int j = 0; j < D; j++) du[j] = d[5] ? 0 : e[j], y[j] = a[0][n * D + j] / f;
        if (d[5]) row_norm_grad(du, e, y, a[1][n], D);
        for (int j = 0; j < half; j++) {
            const double c = tab[2 * j], s = d[4] * tab[2 * j + 1];
            dx[j] += f * (du[j] * c - du[half + j] * s);
            dx[half + j] += f * (du[half + j] * c + du[j] * s);
        }
    }
    free(du); free(y);
}
static void at_grad(double **g, const double *dy, double **a, const int *d)
{
    const int T = d[1], H = d[2], K = d[3], Dh = d[4], step = K * Dh;
    const Drop drop = some_drop(d[8]);
    double *p = must(malloc(3 * (size_t)T * sizeof *p)), *dp = p + T, *by = dp + T;
    for (int n = 0; n < d[0] * T * H; n++) {
        const int b = n / H / T, t = n / H % T, h = n % H;
        const uint64_t row = ((drop.at + (uint64_t)b) * (uint64_t)H + (uint64_t)h) * (uint64_t)T;
        const int64_t kv = ((int64_t)b * T * K + h / (H / K)) * Dh;
        const double *q = a[2] + n * Dh, *k = a[3] + kv, *v = a[4] + kv, *e = dy + n * Dh;
        int lo = d[5] > 0 && t > d[5] ? t - d[5] : 0;
        if (a[6] && lo < a[6][b * T + t]) lo = (int)a[6][b * T + t];
        double mean = 0;
        for (int j = lo; j <= t; j++) {
            double s = 0, f = 0;
            for (int i = 0; i < Dh; i++) {
                s += q[i] * k[j * step + i] / sqrt(Dh);
                f += e[i] * v[j * step + i];
            }
            by[j] = drop_by(&drop, (row + (uint64_t)t) * (uint64_t)T + (uint64_t)j);
            p[j] = exp(s - a[1][n]);
            dp[j] = f * by[j];
            mean += p[j] * dp[j];
        }
        for (int j = lo; j <= t; j++)
            for (int i = 0; i < Dh; i++) {
                const double ds = p[j] * (dp[j] - mean) / sqrt(Dh);
                g[2][n * Dh + i] += ds * k[j * step + i];
                g[3][kv + j * step + i] += ds * q[i];
                g[4][kv + j * step + i] += p[j] * by[j] * e[i];
            }
    }
    free(p);
}
static void re_grad(double **g, const double *dy, double **a, const int *d)
{
    for (int i = 0; i < d[0]; i++) g[1][i] += a[1][i] > 0 ? 2 * a[1][i] * dy[i] : 0;
}
static void dr_grad(double **g, const double *dy, double **a, const int *d)
{
    const Drop p = some_drop(d[1]);
    (void)a;
    for (int i = 0; i < d[0]; i++) g[1][i] += dy[i] * drop_by(&p, p.at + (uint64_t)i);
}
static void gain_grad(double **g, const double *dy, double **a, const int *d)
{
    for (int i = 0, C = d[1]; i < d[0] * C; i++) {
        g[1][i] += dy[i] * a[2][i % C];
        g[2][i % C] += dy[i] * a[1][i];
    }
}
static void sw_grad(double **g, const double *dy, double **a, const int *d)
{
    for (int i = 0; i < d[0]; i++) {
        const double s = sigmoid(a[1][i]);
        g[1][i] += dy[i] * a[2][i] * s * (1 + a[1][i] * (1 - s));
        g[2][i] += dy[i] * a[1][i] * s;
    }
}
static void sa_grad(double **g, const double *dy, double **a, const int *d)
{
    const int *slot = some_slots(d[0] * d[1]), C = d[2];
    for (int i = 0; i < d[0] * d[1]; i++)
        for (int c = 0; c < C; c++) {
            g[1][slot[i] * C + c] += a[2][i] * dy[i / d[1] * C + c];
            g[2][i] += a[1][slot[i] * C + c] * dy[i / d[1] * C + c];
        }
}
static void ex_grad(double **g, const double *dy, double **a, const int *d)
{
    const int *off = some_rows(d), C = d[2], O = d[3];
    for (int n = 0, e = 0; n < d[0]; n++) {
        while (off[e + 1] <= n) e++;
        for (int i = 0; i < O * C; i++) {
            g[1][n * C + i % C] += dy[n * O + i / C] * a[2][e * O * C + i];
            g[2][e * O * C + i] += dy[n * O + i / C] * a[1][n * C + i % C];
        }
    }
}
/* wt are the k best of p, divided by their sum if d[4] */
static void ro_grad(double **g, const double *dy, double **a, const int *d)
{
    const int C = d[1], E = d[2], k = d[3];
    for (int n = 0; n < d[0]; n++) {
        const double *p = a[1] + n * E, *wt = a[0] + n * k, *e = dy + n * k;
        double dp[64] = { 0 }, dot = 0, sum = 0, mean = 0;
        int to[64];
        for (int j = 0; j < k; j++) {           /* the best of the rest */
            int best = -1;
            for (int i = 0; i < E; i++) {
                bool taken = false;
                for (int u = 0; u < j; u++) taken |= to[u] == i;
                if (!taken && (best < 0 || p[i] > p[best])) best = i;
            }
            to[j] = best;
            dot += e[j] * wt[j];
            sum += p[best];
        }
        for (int j = 0; j < k; j++) dp[to[j]] = d[4] ? (e[j] - dot) / sum : e[j];
        for (int i = 0; i < E; i++) mean += p[i] * dp[i];
        for (int i = 0; i < E; i++)
            for (int c = 0; c < C; c++) {
                const double dz = p[i] * (dp[i] - mean);
                g[2][n * C + c] += dz * a[3][i * C + c];
                g[3][i * C + c] += dz * a[2][n * C + c];
            }
    }
}
static void xe_grad(double **g, const double *dy, double **a, const int *d)
{
    for (int n = 0; n < d[0]; n++) {
        const double *z = a[1] + (int64_t)n * d[2], cap = d[3];
        double *dz = g[1] + (int64_t)n * d[2], top = -1e300, sum = 0;
        const int t = (int)a[2][n];
        for (int v = 0; v < d[1]; v++) top = fmax(top, soft(z[v], cap));
        for (int v = 0; v < d[1]; v++) sum += exp(soft(z[v], cap) - top);
        for (int v = 0; t >= 0 && v < d[1]; v++) {
            const double l = soft(z[v], cap), th = cap > 0 ? l / cap : 0;
            dz[v] += dy[n] * (exp(l - top) / sum - (v == t)) * (1 - th * th);
        }
    }
}
#endif
