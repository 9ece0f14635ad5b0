/* nan.h -- a NaN or an infinity in attention's q, k, v or dy gets to what sees it, and nowhere else: 0
 * times NaN is NaN, so that a product of tiles would carry it from one row to others. For each place
 * of a set that tells what must be NaN, by who sees whom alone; all else must be finite, and what it
 * is without the NaN. */
#ifndef NAN_H
#define NAN_H
#include "harness.h"

/* M 0: attn, with its backward; else attn_kv with the queries of row b from position M / 2 + b on;
 * doc: mean length of documents or 0; drop: dropout of a quarter */
typedef struct NanShape { int B, T, H, K, D, window, doc, drop, M; } NanShape;
enum { NQ, NK, NV, NDY, NAN_INPUTS };
enum { OY, OLSE, ODQ, ODK, ODV, NAN_OUTPUTS };
typedef struct NanCase {
    NanShape s;
    int64_t n[NAN_INPUTS];
    void *in[NAN_INPUTS];
    int *doc, *pos;
} NanCase;

static bool nan_is_real(int output) { return output == OLSE; }
static int64_t nan_size(const NanCase *c, int output)
{
    return output == OLSE ? c->n[NQ] / c->s.D : output == OY || output == ODQ ? c->n[NQ] : c->n[NK];
}
static int nan_keys(const NanCase *c) { return c->s.M ? c->s.M : c->s.T; }
static bool nan_sees(const NanCase *c, int b, int t, int j)
{
    const int p = t + (c->pos ? c->pos[b] : 0);
    return j <= p && (!c->s.window || j >= p - c->s.window) &&
           (!c->doc || j >= c->doc[b * c->s.T + t]);
}
static NanCase nan_case(NanShape s)
{
    const int64_t nq = (int64_t)s.B * s.T * s.H * s.D, nk = (int64_t)s.B * (s.M ? s.M : s.T) * s.K * s.D;
    NanCase c = { .s = s, .n = { nq, nk, nk, nq } };
    for (int i = 0; i < NAN_INPUTS; i++) c.in[i] = random_elems(true, c.n[i], -2, 2);
    if (s.doc) {
        c.doc = must(malloc((size_t)(s.B * s.T) * sizeof *c.doc));
        document_starts(c.doc, s.B * s.T, s.T, s.doc);
    }
    if (s.M) {
        c.pos = must(malloc((size_t)s.B * sizeof *c.pos));
        for (int b = 0; b < s.B; b++) c.pos[b] = s.M / 2 + b;
    }
    return c;
}
static void nan_free(NanCase *c)
{
    for (int i = 0; i < NAN_INPUTS; i++) free(c->in[i]);
    free(c->doc); free(c->pos);
}
static void nan_run(const Ops *o, const NanCase *c, void **out)
{
    const NanShape s = c->s;
    const uint64_t row = 5;
    const Drop d = { .p = 0.25, .key = 77, .at = 3, .from = dev(o, &row, sizeof row), .by = 2 };
    Act *in[NAN_INPUTS];
    void *to[NAN_OUTPUTS];
    const int *doc = c->doc ? dev(o, c->doc, (size_t)(s.B * s.T) * sizeof *doc) : NULL;
    for (int i = 0; i < NAN_INPUTS; i++) in[i] = dev(o, c->in[i], (size_t)c->n[i] * elem_size(true));
    for (int i = 0; i < NAN_OUTPUTS; i++)
        to[i] = dev(o, NULL, (size_t)nan_size(c, i) * elem_size(!nan_is_real(i)));
    if (s.M)
        o->attn_kv(to[OY], in[NQ], in[NK], in[NV], dev(o, c->pos, (size_t)s.B * sizeof(int)), s.B,
                   s.T, s.M, s.H, s.K, s.D, s.window);
    else if (s.drop) {
        o->attn_drop(to[OY], to[OLSE], in[NQ], in[NK], in[NV], doc, s.B, s.T, s.H, s.K, s.D,
                     s.window, &d);
        o->attn_drop_bwd(to[ODQ], to[ODK], to[ODV], in[NDY], to[OY], to[OLSE], in[NQ], in[NK],
                         in[NV], doc, s.B, s.T, s.H, s.K, s.D, s.window, &d);
    } else {
        o->attn(to[OY], to[OLSE], in[NQ], in[NK], in[NV], doc, s.B, s.T, s.H, s.K, s.D, s.window);
        o->attn_bwd(to[ODQ], to[ODK], to[ODV], in[NDY], to[OY], to[OLSE], in[NQ], in[NK], in[NV],
                    doc, s.B, s.T, s.H, s.K, s.D, s.window);
    }
    for (int i = 0; i < NAN_OUTPUTS; i++)
        out[i] = dev_get(o, to[i], (size_t)nan_size(c, i) * elem_size(!nan_is_real(i)));
    dev_end(o);
}

/* What a NaN at channel d of position t, head h of row b of an input makes NaN: hit[output][element].
 * Through a score: the query's softmax; through v: y's channel, and by dy . y the gradient of all its
 * scores; through dy: the same gradient, and a channel of dv. */
static void nan_reach(const NanCase *c, int input, int b, int t, int h, int d, bool **hit)
{
    const NanShape s = c->s;
    const int group = s.H / s.K, J = nan_keys(c);
    const bool key = input == NK || input == NV;
    for (int g = 0; g < s.H; g++)
        for (int i = 0; i < s.T; i++) {
            if (key ? g / group != h || !nan_sees(c, b, i, t) : g != h || i != t) continue;
            const int64_t n = ((int64_t)b * s.T + i) * s.H + g;
            for (int e = 0; e < s.D; e++) {
                hit[OY][n * s.D + e] |= input == NQ || input == NK || (input == NV && e == d);
                hit[ODQ][n * s.D + e] = true;
            }
            hit[OLSE][n] |= input == NQ || input == NK;
            for (int j = 0; j < J; j++)
                for (int e = 0; nan_sees(c, b, i, j) && e < s.D; e++) {
                    const int64_t m = (((int64_t)b * J + j) * s.K + g / group) * s.D + e;
                    hit[ODK][m] = true;
                    hit[ODV][m] |= input == NQ || input == NK || (input == NDY && e == d);
                }
        }
}
/* Elements that are NaN or not against `hit`; what is not, against `clean`: the relative distance. An
 * infinity may turn to something finite on its way (exp(-inf)): then only what is not hit counts. */
static int64_t nan_wrong(const NanCase *c, int output, const void *got, const void *clean,
                         const bool *hit, bool infinity, double *off)
{
    const bool act = !nan_is_real(output);
    double e2 = 0, n2 = 0;
    int64_t wrong = 0;
    for (int64_t i = 0; i < nan_size(c, output); i++) {
        const double x = elem_get(got, act, i), y = elem_get(clean, act, i);
        if (hit[i]) wrong += !infinity && isfinite(x);
        else if (!isfinite(x)) wrong++;
        else e2 += (x - y) * (x - y), n2 += y * y;
    }
    if (n2 > 0 && sqrt(e2 / n2) > *off) *off = sqrt(e2 / n2);
    return wrong;
}

/* Places in turn in each variant (threads or schedules). Two ways to compute a row differ by the error
 * of both; bfloat16: 4.5e-3 each (tests/cuda/attn.c). */
typedef struct NanPlace { int input, b, t, h, d; bool infinity; } NanPlace;
static int64_t nan_place(const Ops *o, NanCase *c, NanPlace x, void *const *clean, double *off)
{
    const bool key = x.input == NK || x.input == NV;
    const int64_t T = key ? nan_keys(c) : c->s.T, heads = key ? c->s.K : c->s.H,
                  at = ((x.b * T + x.t) * heads + x.h) * c->s.D + x.d;
    const double old = elem_get(c->in[x.input], true, at);
    void *out[NAN_OUTPUTS];
    bool *hit[NAN_OUTPUTS];
    int64_t wrong = 0;
    for (int k = 0; k < NAN_OUTPUTS; k++) hit[k] = must(calloc((size_t)nan_size(c, k), sizeof(bool)));
    elem_set(c->in[x.input], true, at, x.infinity ? INFINITY : NAN);
    nan_run(o, c, out);
    elem_set(c->in[x.input], true, at, old);
    nan_reach(c, x.input, x.b, x.t, x.h, x.d, hit);
    for (int k = 0; k < (c->s.M ? OLSE : NAN_OUTPUTS); k++)
        wrong += nan_wrong(c, k, out[k], clean[k], hit[k], x.infinity, off);
    for (int k = 0; k < NAN_OUTPUTS; k++) free(out[k]), free(hit[k]);
    return wrong;
}
static void check_nan(const char *tier, NanShape s)
{
    static const char *const names[] = { "q", "k", "v", "dy" };
    const double may = bf16 ? 9e-3 : unit * 400;
    NanCase c = nan_case(s);
    const int J = nan_keys(&c), keys[] = { 0, J / 3, J / 2 - 1, J - 1 }, queries[] = { 0, s.T / 2, s.T - 1 };
    void *clean[NAN_OUTPUTS];
    int turn = 0;
    nan_run(tier_ops(tier, 1), &c, clean);
    for (int input = 0; input < (s.M ? NDY : NAN_INPUTS); input++) {
        const bool key = input == NK || input == NV;
        int64_t wrong = 0;
        double off = 0;
        for (int i = 0; i < (key ? 4 : 3); i++) {
            const NanPlace x = { input, s.B - 1, key ? keys[i] : queries[i], (i + 1) % (key ? s.K : s.H),
                                 (7 * i + 3) % s.D, key && i == 1 };
            wrong += nan_place(tier_ops(tier, turn++ % VARIANTS + 1), &c, x, clean, &off);
        }
        ok(wrong == 0 && off <= may,
           "%s %s B %d T %d H %d/%d D %d window %d documents %d%s cache %d: a NaN in %s: %lld wrong, "
           "others within %.1e", tier, bf16 ? "bf16" : "fp32", s.B, s.T, s.H, s.K, s.D, s.window, s.doc,
           s.drop ? " dropout" : "", s.M, names[input], (long long)wrong, off);
    }
    for (int k = 0; k < NAN_OUTPUTS; k++) free(clean[k]);
    nan_free(&c);
}

/* B T H K D window doc drop M */
static const NanShape nan_shapes[] = {
    { 2, 90, 2, 1, 32, 0, 0, 0, 0 },
    { 1, 150, 2, 2, 64, 40, 0, 0, 0 },
    { 1, 100, 2, 1, 96, 0, 30, 0, 0 },
    { 1, 80, 2, 1, 128, 0, 25, 1, 0 },
    { 1, 70, 4, 2, 64, 33, 0, 1, 0 },
    { 1, 50, 2, 1, 40, 20, 20, 1, 0 },          /* not for tensor cores */
    { 2, 1, 2, 1, 64, 0, 0, 0, 200 },           /* a step of decoding */
    { 2, 5, 4, 2, 32, 60, 0, 0, 300 },
    { 2, 40, 2, 1, 128, 60, 0, 0, 150 },        /* more queries than the split kernel takes */
};
enum { NAN_SHAPES = sizeof nan_shapes / sizeof *nan_shapes };
#endif
