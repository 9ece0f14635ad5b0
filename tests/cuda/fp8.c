/* Eight-bit floats: every code against the definition, the conversion of tensors against double
 * precision in four schedules, products against double precision of what was multiplied and of what it
 * stands for, and that weights which are kept quantised are made again when they change. */
#define HARNESS_CUDA
#include "../ops/harness.h"
#include "emulator/fp8_twin.h"
#include "ops/cuda/fp8.h"
#include "ops/fp8.h"
#ifndef ON_DEVICE
#include "cuda_runtime_api.h"
#endif

int cuda_capability(void);
const Ops *cuda_ops_fp8(void);

static const char *const format[] = { "e4m3", "e5m2" };
static const double most[] = { 448, 57344 }, step[] = { 0x1p-4, 0x1p-3 }, least[] = { 0x1p-9, 0x1p-16 };
/* the half of the distance of numbers around x, for a number that is stored s times as large */
static double half_step(double x, int f, double s)
{
    return fmax(step[f] * fabs(x), least[f] / 2 / s);
}

/* ---- codes. From 0, in steps of the smallest number; the step doubles with each power of two but the
 * first. What is left at the top is NaN, or infinity and NaNs. */
static void codes(int f)
{
    const int per = f ? 4 : 8, last = f ? 0x7b : 0x7e;
    double x[128], by = least[f];
    int wrong = 0, far = 0;
    for (int i = 0; i <= last; i++) {
        x[i] = i ? x[i - 1] + by : 0;
        if (i >= 2 * per && i % per == 0) by *= 2;
    }
    for (int i = 0; i < 256; i++) {
        const double got = (double)fp8_decode((uint8_t)i, (Fp8)f), sign = i & 128 ? -1 : 1;
        const int k = i & 127;
        if (k <= last) wrong += got != sign * x[k] || !signbit(got) != !(i & 128);
        else if (f && k == 0x7c) wrong += !isinf(got) || !signbit(got) != !(i & 128);
        else wrong += !isnan(got);
    }
    ok(!wrong && x[last] == most[f], "%s: 256 codes are what the definition says", format[f]);
    /* every 997th float: the nearest of these, of two the one whose code is even */
    for (uint64_t u = 0; u < 0x100000000; u += 997) {
        const uint32_t bits = (uint32_t)u;
        float v;
        memcpy(&v, &bits, sizeof v);
        const int got = fp8_encode(v, (Fp8)f), k = got & 127;
        if (isnan(v)) {
            far += k != 127;
            continue;
        }
        const double a = fmin(fabs((double)v), most[f]);
        far += k > last || !(got & 128) != !(bits >> 31);
        if (k > last) continue;
        const double d = fabs(a - x[k]), up = k < last ? x[k + 1] - a : 1e9, down = k ? a - x[k - 1] : 1e9;
        far += d > up || d > down || (k % 2 && (d == up || d == down));
    }
    for (int i = 0; i <= last; i++) far += fp8_encode((float)x[i], (Fp8)f) != i;
    ok(!far, "%s: floats become the nearest, ties even, the largest beyond it, NaN stays", format[f]);
}

/* ---- tensors */

typedef struct Made { uint8_t *q, *t; float scale[2]; } Made;
static Made convert(const Ops *o, const void *x, int N, int C, int f, int want_q, int want_t)
{
    const size_t n = (size_t)N * (size_t)C, p = (size_t)fp8_padded(N) * (size_t)C;
    uint8_t *q = dev(o, NULL, n), *t = dev(o, NULL, p);
    float *s = dev(o, NULL, 2 * sizeof *s);
    cuda_fp8(want_q ? q : NULL, want_t ? t : NULL, s, dev(o, x, 2 * n), N, C, f);
    Made m = { dev_get(o, q, n), dev_get(o, t, p), { 0 } };
    o->get(m.scale, s, sizeof m.scale);
    dev_end(o);
    return m;
}
static void made_free(Made *m) { free(m->q), free(m->t); }
static bool same(const Made *a, const Made *b, int N, int C)
{
    return memcmp(a->q, b->q, (size_t)N * (size_t)C) == 0 &&
           memcmp(a->t, b->t, (size_t)fp8_padded(N) * (size_t)C) == 0 &&
           memcmp(a->scale, b->scale, sizeof a->scale) == 0;
}
/* How many of its elements are not the nearest to s x, or not where they should be. 1e-6: for s, a
 * float, and the product with it. */
static int64_t wrong(const Made *m, const void *x, int N, int C, int f)
{
    const int64_t P = fp8_padded(N);
    int64_t bad = 0;
    for (int64_t n = 0; n < P; n++)
        for (int64_t c = 0; c < C; c++) {
            const uint8_t t = m->t[c * P + n];
            if (n >= N) {
                bad += t != 0;
                continue;
            }
            const double s = (double)m->scale[0], v = elem_get(x, true, n * C + c) * s,
                         got = (double)fp8_decode(m->q[n * C + c], (Fp8)f);
            bad += t != m->q[n * C + c] || !(fabs(got - v) <= half_step(v, f, 1) * (1 + 1e-6));
        }
    return bad;
}
static void tensor(int N, int C, int f, double size)
{
    void *x = random_elems(true, (int64_t)N * C, -size, size);
    Made m[4];
    double amax = 0;
    for (int64_t i = 0; i < (int64_t)N * C; i++) amax = fmax(amax, fabs(elem_get(x, true, i)));
    bool agree = true;
    for (int i = 0; i < 4; i++) {
        m[i] = convert(tier_ops("cuda", i + 1), x, N, C, f, 1, 1);
        agree = agree && same(&m[0], &m[i], N, C);
    }
    const double s = most[f] / amax;
    ok(fabs((double)m->scale[0] / s - 1) < 1e-6 && fabs((double)m->scale[1] * s - 1) < 1e-6 &&
           wrong(m, x, N, C, f) == 0 && agree,
       "%s, %d x %d up to %g: scale, every element as it lies and transposed, in four schedules",
       format[f], N, C, size);
    const Ops *o = tier_ops("cuda", 1);
    Made q = convert(o, x, N, C, f, 1, 0), t = convert(o, x, N, C, f, 0, 1);
    ok(memcmp(q.q, m->q, (size_t)N * (size_t)C) == 0 &&
           memcmp(t.t, m->t, (size_t)fp8_padded(N) * (size_t)C) == 0,
       "  one of them alone is the same");
    for (int i = 0; i < 4; i++) made_free(&m[i]);
    made_free(&q), made_free(&t);
    free(x);
}
/* every bfloat16 that e4m3 or e5m2 has the range for, unscaled */
static void every(int f)
{
    uint16_t *x = calloc(65536, sizeof *x);
    int n = 0;
    for (int i = 0; i < 65536; i++)
        if (fabs(bf16_value((unsigned)i)) <= most[f]) x[n++] = (uint16_t)i;
    Made m = convert(tier_ops("cuda", 1), x, 65536 / 128, 128, f, 1, 1);
    int64_t bad = 0;
    for (int i = 0; i < n; i++) bad += m.q[i] != fp8_encode((float)bf16_value(x[i]), (Fp8)f);
    ok(m.scale[0] == 1 && bad == 0, "%s: %d bfloat16s one by one", format[f], n);
    made_free(&m);
    free(x);
}
static void unusual(int f)
{
    enum { N = 5, C = 48 };
    uint16_t x[N * C] = { 0 };
    const Ops *o = tier_ops("cuda", 1);
    Made m = convert(o, x, N, C, f, 1, 1);
    ok(m.scale[0] == 1 && m.scale[1] == 1 && wrong(&m, x, N, C, f) == 0, "%s: zeros have scale 1",
       format[f]);
    made_free(&m);
    x[77] = 1, x[99] = 0x8002;                  /* the smallest bfloat16, less than twice that */
    m = convert(o, x, N, C, f, 1, 1);
    ok(isfinite(m.scale[0]) && m.scale[1] > 0 && wrong(&m, x, N, C, f) == 0,
       "%s: nor is the scale of the smallest numbers infinite", format[f]);
    made_free(&m);
    for (int i = 0; i < 2; i++) {
        x[100] = i ? 0x7f80 : 0xffc1;
        m = convert(o, x, N, C, f, 1, 1);
        ok(isnan(fp8_decode(m.q[100], (Fp8)f)) && !isfinite(m.scale[1]), "%s: %s is seen", format[f],
           i ? "infinity" : "NaN");
        made_free(&m);
    }
}

/* ---- products */

/* x as fp8 has it, and how far each may be from what it was */
static double *dequantised(const Ops *o, const void *x, int N, int C, int f, double *off)
{
    Made m = convert(o, x, N, C, f, 1, 1);
    const int64_t n = (int64_t)N * C;
    double *v = must(malloc((size_t)n * sizeof *v)), s = (double)m.scale[0];
    for (int64_t i = 0; i < n; i++) {
        v[i] = (double)fp8_decode(m.q[i], (Fp8)f) * (double)m.scale[1];
        off[i] = half_step(elem_get(x, true, i), f, s) * (1 + 1e-6);
    }
    made_free(&m);
    return v;
}
typedef struct Side { const void *x; double *q, *off; int by_row, by_sum; } Side; /* strides */
/* y[m,n] = beta y0 + sum over k: the worst of |got - that of the q| by `tight` of its magnitude, and
 * of |got - the true one| by what the formats' errors make possible; both with what y's type rounds */
static void compare(const char *what, const void *got, const void *y0, bool act, int beta, Side a,
                    Side b, int M, int N, int K, double tight)
{
    double near = 0, far = 0, e2 = 0, n2 = 0;
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            const int64_t at = (int64_t)m * N + n;
            double q = 0, is = 0, mag = 0, may = 0;
            for (int k = 0; k < K; k++) {
                const int64_t i = (int64_t)m * a.by_row + (int64_t)k * a.by_sum,
                              j = (int64_t)n * b.by_row + (int64_t)k * b.by_sum;
                const double u = elem_get(a.x, true, i), v = elem_get(b.x, true, j);
                q += a.q[i] * b.q[j];
                mag += fabs(a.q[i] * b.q[j]);
                is += u * v;
                may += a.off[i] * fabs(v) + fabs(u) * b.off[j] + a.off[i] * b.off[j];
            }
            const double y = beta ? elem_get(y0, act, at) : 0, g = elem_get(got, act, at),
                         round = (act ? 0x1p-8 : 0x1p-22) * (fabs(q + y) + fabs(y)) + 1e-30;
            near = fmax(near, fabs(g - y - q) / (tight * mag + round));
            far = fmax(far, fabs(g - y - is) / (may + tight * mag + round));
            e2 += (g - y - is) * (g - y - is), n2 += is * is;
        }
    ok(near <= 1 && far <= 1, "%s, beta %d: %.2f of what sums may be off, %.2f of what the formats may",
       what, beta, near, far);
    printf("# %.1f %% of the true product's norm\n", 100 * sqrt(e2 / n2));
}
/* a sum of K floats of any order, cautiously; where it is kept in fewer bits (cublasLt's fast
 * accumulation: about 14), that */
static double of_sums(int K, int fast)
{
#ifdef ON_DEVICE
    if (fast) return 0x1p-9;
#else
    (void)fast;
#endif
    return K * 0x1p-24 + 0x1p-22;
}
static void products(int N, int C, int O, int beta)
{
    const Ops *o = cuda_ops_fp8();
    const size_t nx = (size_t)N * (size_t)C, nw = (size_t)O * (size_t)C, ny = (size_t)N * (size_t)O;
    void *x = random_elems(true, (int64_t)nx, -3, 3), *w = random_elems(true, (int64_t)nw, -0.1, 0.1),
         *dy = random_elems(true, (int64_t)ny, -1e-4, 1e-4),
         *y = random_elems(true, (int64_t)ny, -1, 1), *dx = random_elems(true, (int64_t)nx, -1e-4, 1e-4);
    real *dw = random_reals((int64_t)nw, -1, 1);
    double *off_x = must(malloc(nx * sizeof *off_x)), *off_w = must(malloc(nw * sizeof *off_w)),
           *off_dy = must(malloc(ny * sizeof *off_dy));
    double *qx = dequantised(o, x, N, C, 0, off_x), *qw = dequantised(o, w, O, C, 0, off_w),
           *qdy = dequantised(o, dy, N, O, 1, off_dy);
    void *first[3] = { 0 };
    for (int i = 1; i <= 4; i++) {
        tier_ops("cuda", i);
        Act *px = dev(o, x, 2 * nx), *pw = dev(o, w, 2 * nw), *pdy = dev(o, dy, 2 * ny),
            *py = dev(o, y, 2 * ny), *pdx = dev(o, dx, 2 * nx);
        real *pdw = dev(o, dw, nw * sizeof *dw);
        o->linear8(py, px, pw, N, C, O, beta);
        o->linear8_bwd(pdx, pdw, pdy, px, pw, N, C, O, beta);
        void *r[3] = { dev_get(o, py, 2 * ny), dev_get(o, pdx, 2 * nx), dev_get(o, pdw, nw * sizeof *dw) };
        if (i > 1) {
            ok(memcmp(r[0], first[0], 2 * ny) == 0 && memcmp(r[1], first[1], 2 * nx) == 0 &&
                   memcmp(r[2], first[2], nw * sizeof *dw) == 0, "  the same bits in schedule %d", i);
            for (int k = 0; k < 3; k++) free(r[k]);
        } else {
            memcpy(first, r, sizeof first);
            o->put(pdw, dw, nw * sizeof *dw);
            o->linear8_bwd(NULL, pdw, pdy, px, pw, N, C, O, beta);
            o->put(pdx, dx, 2 * nx);
            o->linear8_bwd(pdx, NULL, pdy, px, pw, N, C, O, beta);
            void *ax = dev_get(o, pdx, 2 * nx), *aw = dev_get(o, pdw, nw * sizeof *dw);
            ok(memcmp(ax, r[1], 2 * nx) == 0 && memcmp(aw, r[2], nw * sizeof *dw) == 0,
               "  one gradient alone is the same");
            free(ax), free(aw);
        }
        dev_end(o);
    }
    char name[64];
    snprintf(name, sizeof name, "%d tokens, %d to %d", N, C, O);
    printf("# %s\n", name);
    compare("y", first[0], y, true, beta, (Side){ x, qx, off_x, C, 1 }, (Side){ w, qw, off_w, C, 1 }, N,
            O, C, of_sums(C, 1));
    compare("dx", first[1], dx, true, beta, (Side){ dy, qdy, off_dy, O, 1 },
            (Side){ w, qw, off_w, 1, C }, N, C, O, of_sums(O, 0));
    compare("dw", first[2], dw, false, 1, (Side){ dy, qdy, off_dy, 1, O },
            (Side){ x, qx, off_x, 1, C }, O, C, N, of_sums(N, 0));
    void *all[] = { x, w, dy, y, dx, dw, off_x, off_w, off_dy, qx, qw, qdy, first[0], first[1], first[2] };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}
/* what is not finite in any operand is in every sum that it belongs to */
static void not_finite(void)
{
    enum { N = 17, C = 128, O = 144 };
    const Ops *o = cuda_ops_fp8();
    for (int which = 0; which < 2; which++) {
        uint16_t *x = random_elems(true, N * C, -1, 1), *w = random_elems(true, O * C, -1, 1);
        (which ? w : x)[C + 3] = which ? 0xff80 : 0x7fc0;
        Act *y = dev(o, NULL, 2 * N * O);
        o->linear8(y, dev(o, x, 2 * N * C), dev(o, w, 2 * O * C), N, C, O, 0);
        void *got = dev_get(o, y, 2 * N * O);
        int seen = 0;
        for (int i = 0; i < (which ? N : O); i++)
            seen += !isfinite(elem_get(got, true, which ? i * O + 1 : O + i));
        ok(seen == (which ? N : O), "%s in %s is in every sum of it", which ? "infinity" : "NaN",
           which ? "w" : "x");
        dev_end(o);
        free(got), free(x), free(w);
    }
}

/* ---- weights that change */

enum { KN = 20, KC = 128, KO = 144 };
static uint16_t *through(const Ops *o, Act *y, const Act *x, const Act *w)
{
    o->linear8(y, x, w, KN, KC, KO, 0);
    return dev_get(o, y, 2 * KN * KO);
}
static void kept(void)
{
    const Ops *o = cuda_ops_fp8();
    uint16_t *x = random_elems(true, KN * KC, -1, 1), *w1 = random_elems(true, KO * KC, -1, 1),
             *w2 = random_elems(true, KO * KC, -1, 1);
    real *w3 = random_reals(KO * KC, -1, 1);
    Act *px = dev(o, x, 2 * KN * KC), *pw = dev(o, w1, 2 * KO * KC), *other = dev(o, w2, 2 * KO * KC),
        *py = dev(o, NULL, 2 * KN * KO);
    real *master = dev(o, w3, sizeof(real) * KO * KC);
    uint16_t *y1 = through(o, py, px, pw), *y2 = through(o, py, px, other), *y[5];
#ifndef ON_DEVICE
    const long before = cuemu_launches();
    y[0] = through(o, py, px, pw);
    const long warm = cuemu_launches() - before;
    o->put(pw, w1, 2 * KO * KC);
    free(through(o, py, px, pw));
    ok(warm == 3 && cuemu_launches() - before == 9, "weights are made once, and again after a change");
    free(y[0]);
#endif
    y[0] = through(o, py, px, pw);
    o->put(pw, w2, 2 * KO * KC);
    y[1] = through(o, py, px, pw);
    o->copy(pw, dev(o, w1, 2 * KO * KC), 2 * KO * KC);
    y[2] = through(o, py, px, pw);
    o->cast(pw, master, KO * KC);
    y[3] = through(o, py, px, pw);
    ok(memcmp(y[0], y1, 2 * KN * KO) == 0 && memcmp(y[1], y2, 2 * KN * KO) == 0 &&
           memcmp(y[2], y1, 2 * KN * KO) == 0 && memcmp(y[3], y1, 2 * KN * KO) != 0 &&
           memcmp(y[3], y2, 2 * KN * KO) != 0,
       "put, copy and cast change them");
    Act *again = o->alloc(2 * KO * KC);
    o->cast(again, master, KO * KC);
    y[4] = through(o, py, px, again);
    o->free(again, 2 * KO * KC);
    ok(memcmp(y[3], y[4], 2 * KN * KO) == 0, "to what they would have been from the start");
    if (o->graph_begin) {
        o->graph_begin();
        o->linear8(py, px, pw, KN, KC, KO, 0);
        void *g = o->graph_end();
        o->put(pw, w1, 2 * KO * KC);
        free(through(o, py, px, pw));
        o->put(pw, w2, 2 * KO * KC);
        if (g && o->graph_run(g)) {
            uint16_t *r = dev_get(o, py, 2 * KN * KO);
            ok(memcmp(r, y2, 2 * KN * KO) == 0, "a graph takes the weights of now");
            free(r);
        } else {
            ok(false, "a graph takes the weights of now");
        }
        o->graph_free(g);
        o->graph_begin();
        o->copy(pw, other, 2 * KO * KC);
        g = o->graph_end();
        o->put(pw, w1, 2 * KO * KC);
        free(through(o, py, px, pw));
        const int went = g && o->graph_run(g);
        uint16_t *r = through(o, py, px, pw);
        ok(went && memcmp(r, y2, 2 * KN * KO) == 0, "weights that a graph wrote are made anew");
        free(r);
        o->graph_free(g);
    }
    dev_end(o);
    for (int i = 0; i < 5; i++) free(y[i]);
    free(x), free(w1), free(w2), free(w3), free(y1), free(y2);
}

int main(void)
{
    bf16 = true;
    for (int f = 0; f < 2; f++) codes(f);
    for (int f = 0; f < 2; f++) {
        static const int dims[][2] = { { 1, 16 }, { 3, 48 }, { 17, 144 }, { 64, 64 }, { 65, 208 },
                                       { 130, 128 }, { 1023, 272 } };
        for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
            tensor(dims[i][0], dims[i][1], f, i % 2 ? 1e-5 : 700);
        every(f);
        unusual(f);
    }
#ifdef ON_DEVICE
    if (cuda_capability() < 89) {
        skip("products in eight bits", "compute capability is below 8.9");
        return done();
    }
#endif
    products(33, 128, 144, 0);
    products(16, 272, 128, 1);
    products(150, 128, 320, 1);
    not_finite();
    kept();
    ok(cuemu_damaged() == 0, "nothing was written past the end of a block");
    return done();
}
