/* Attention of the CUDA back-end, its kernels run by the emulator, against double precision: head
 * sizes of the tensor cores and others, odd T, windows, documents, groups of heads; all four
 * schedules must agree to the bit. And a test of the test: kernels with a barrier too few or a wait
 * too weak are seen.
 *
 * Bounds: sums are fp32, but what enters a product on tensor cores is rounded to 8 bits, and so is
 * what comes out: a relative L2 distance of 3e-3, and at most 2^-8 of the largest y, 2^-7 of the
 * largest gradient of an array. A rounding of y is also one of dy . y, which few keys leave little of
 * in dy v^T - dy . y: gradients may be 4.5e-3 off where a query sees less than 64. fp32: 1e-5, and
 * 5e-6 of the largest.
 */
#define HARNESS_CUDA
#include "../ops/harness.h"

/* M 0: attn and its backward; else attn_kv, the queries of row b at position pos(b). drop: percent of
 * the weights that are left out, which solve() knows nothing of: only bits are compared then. */
typedef struct Shape { int B, T, H, K, D, window, doc, M, drop; } Shape;
enum { Q, KEY, VAL, DY, INPUTS };       /* arrays of a case */
enum { Y, DQ, DK, DV, OUTPUTS };
typedef struct Problem {
    Shape s;
    int64_t n[INPUTS];
    void *in[INPUTS], *g0;              /* g0: what gradients start from, as many as the largest */
    int *doc, *pos;
    double *want[OUTPUTS], *lse;
} Problem;
typedef struct Answer { void *out[OUTPUTS]; real *lse; } Answer;

static int64_t size_out(const Problem *p, int i) { return p->n[i == Y || i == DQ ? Q : KEY]; }
static double *doubles(const void *x, int64_t n)
{
    double *d = must(malloc((size_t)n * sizeof *d));
    for (int64_t i = 0; i < n; i++) d[i] = elem_get(x, true, i);
    return d;
}
static int position(const Problem *p, int b, int t) { return t + (p->pos ? p->pos[b] : 0); }
static int first_seen(const Problem *p, int b, int t)
{
    int at = position(p, b, t), lo = p->s.window && at > p->s.window ? at - p->s.window : 0;
    return p->doc && p->doc[b * p->s.T + t] > lo ? p->doc[b * p->s.T + t] : lo;
}

/* One query: y and lse, and what it adds to the gradients. q, dy: its own; k, v: of its row and
 * head, rows `step` apart. w: room for 2 at + 2 */
static void one_query(const Problem *p, int64_t n, int lo, int at, const double *q,
                      const double *dy, const double *k, const double *v, int64_t step, double *w,
                      int64_t ko)
{
    const int D = p->s.D;
    double *e = w, *de = w + at + 1, top = -1e300, sum = 0, dot = 0;
    for (int j = lo; j <= at; j++) {
        e[j] = de[j] = 0;
        for (int d = 0; d < D; d++) e[j] += q[d] * k[j * step + d] / sqrt(D);
        for (int d = 0; dy && d < D; d++) de[j] += dy[d] * v[j * step + d];
        top = fmax(top, e[j]);
    }
    for (int j = lo; j <= at; j++) sum += e[j] = exp(e[j] - top);
    p->lse[n] = top + log(sum);
    for (int j = lo; j <= at; j++) {
        e[j] /= sum;
        dot += e[j] * de[j];
        for (int d = 0; d < D; d++) p->want[Y][n * D + d] += e[j] * v[j * step + d];
    }
    for (int j = lo; dy && j <= at; j++)
        for (int d = 0; d < D; d++) {
            const double ds = e[j] * (de[j] - dot) / sqrt(D);
            p->want[DQ][n * D + d] += ds * k[j * step + d];
            p->want[DK][ko + j * step + d] += ds * q[d];
            p->want[DV][ko + j * step + d] += e[j] * dy[d];
        }
}
static void solve(Problem *p)
{
    const Shape s = p->s;
    const int M = s.M ? s.M : s.T;
    double *q = doubles(p->in[Q], p->n[Q]), *k = doubles(p->in[KEY], p->n[KEY]),
           *v = doubles(p->in[VAL], p->n[VAL]), *dy = doubles(p->in[DY], p->n[DY]),
           *w = must(malloc(2 * (size_t)(M + 1) * sizeof *w));
    for (int i = 0; i < OUTPUTS; i++)
        p->want[i] = must(calloc((size_t)size_out(p, i), sizeof(double)));
    p->lse = must(calloc((size_t)s.B * s.T * s.H, sizeof(double)));
    for (int64_t n = 0; n < (int64_t)s.B * s.T * s.H; n++) {
        const int h = (int)(n % s.H), t = (int)(n / s.H % s.T), b = (int)(n / s.H / s.T);
        const int64_t ko = ((int64_t)b * M * s.K + h / (s.H / s.K)) * s.D;
        one_query(p, n, first_seen(p, b, t), position(p, b, t), q + n * s.D,
                  s.M ? NULL : dy + n * s.D, k + ko, v + ko, (int64_t)s.K * s.D, w, ko);
    }
    free(q); free(k); free(v); free(dy); free(w);
}
static Problem problem(Shape s)
{
    const int M = s.M ? s.M : s.T;
    const int64_t nq = (int64_t)s.B * s.T * s.H * s.D, nk = (int64_t)s.B * M * s.K * s.D;
    Problem p = { .s = s, .n = { nq, nk, nk, nq } };
    for (int i = 0; i < INPUTS; i++)
        p.in[i] = random_elems(true, p.n[i], i < VAL ? -2 : -1, i < VAL ? 2 : 1);
    p.g0 = random_elems(true, nq > nk ? nq : nk, -1, 1);
    if (s.doc) {
        p.doc = must(malloc((size_t)(s.B * s.T) * sizeof *p.doc));
        document_starts(p.doc, s.B * s.T, s.T, s.doc);
    }
    if (s.M) { /* the first row at the start, the last at the end */
        p.pos = must(malloc((size_t)s.B * sizeof *p.pos));
        for (int b = 0; b < s.B; b++) {
            p.pos[b] = s.B == 1 ? M - s.T : (M - s.T) * b / (s.B - 1);
            const int64_t row = (int64_t)s.K * s.D, end = (int64_t)(b + 1) * M * row;
            for (int64_t i = ((int64_t)b * M + p.pos[b] + s.T) * row; i < end; i++) {
                elem_set(p.in[KEY], true, i, NAN);
                elem_set(p.in[VAL], true, i, NAN);
            }
        }
    }
    solve(&p);
    return p;
}
static void problem_free(Problem *p)
{
    for (int i = 0; i < INPUTS; i++) free(p->in[i]);
    for (int i = 0; i < OUTPUTS; i++) free(p->want[i]);
    free(p->g0); free(p->doc); free(p->pos); free(p->lse);
}

/* without: an output that is not wanted (0: all are). start: gradients start from p->g0, not 0. */
static Answer run(const Ops *o, const Problem *p, int without, bool start)
{
    const Shape s = p->s;
    const size_t e = elem_size(true), rows = (size_t)s.B * s.T;
    Answer r = { { 0 }, NULL };
    Act *in[INPUTS], *out[OUTPUTS] = { NULL };
    int *doc = p->doc ? dev(o, p->doc, rows * sizeof *doc) : NULL;
    int *pos = p->pos ? dev(o, p->pos, (size_t)s.B * sizeof *pos) : NULL;
    real *lse = dev(o, NULL, rows * (size_t)s.H * sizeof *lse);
    for (int i = 0; i < INPUTS; i++) in[i] = dev(o, p->in[i], (size_t)p->n[i] * e);
    for (int i = Y; i < (s.M ? DQ : OUTPUTS); i++)
        if (i == Y || i != without)
            out[i] = dev(o, start ? p->g0 : NULL, (size_t)size_out(p, i) * e);
    if (s.M) {
        o->attn_kv(out[Y], in[Q], in[KEY], in[VAL], pos, s.B, s.T, s.M, s.H, s.K, s.D, s.window);
    } else if (s.drop) {
        const Drop d = { .p = s.drop / 100., .key = 0x123456789abcdef };
        o->attn_drop(out[Y], lse, in[Q], in[KEY], in[VAL], doc, s.B, s.T, s.H, s.K, s.D, s.window, &d);
        o->attn_drop_bwd(out[DQ], out[DK], out[DV], in[DY], out[Y], lse, in[Q], in[KEY], in[VAL],
                         doc, s.B, s.T, s.H, s.K, s.D, s.window, &d);
    } else {
        o->attn(out[Y], lse, in[Q], in[KEY], in[VAL], doc, s.B, s.T, s.H, s.K, s.D, s.window);
        o->attn_bwd(out[DQ], out[DK], out[DV], in[DY], out[Y], lse, in[Q], in[KEY], in[VAL], doc,
                    s.B, s.T, s.H, s.K, s.D, s.window);
    }
    if (!s.M) r.lse = dev_get(o, lse, rows * (size_t)s.H * sizeof *lse);
    for (int i = 0; i < OUTPUTS; i++)
        if (out[i]) r.out[i] = dev_get(o, out[i], (size_t)size_out(p, i) * e);
    dev_end(o);
    return r;
}
static void answer_free(Answer *a)
{
    for (int i = 0; i < OUTPUTS; i++) free(a->out[i]);
    free(a->lse);
}
static bool same(const Problem *p, const Answer *a, const Answer *b)
{
    for (int i = 0; i < OUTPUTS; i++)
        if (a->out[i] && b->out[i] &&
            memcmp(a->out[i], b->out[i], (size_t)size_out(p, i) * elem_size(true)) != 0)
            return false;
    const size_t n = (size_t)p->s.B * (size_t)p->s.T * (size_t)p->s.H;
    return !a->lse || memcmp(a->lse, b->lse, n * sizeof *a->lse) == 0;
}

/* relative L2 distance; g0: the start is in the result. most: the largest error, if not NULL, in
 * units of the largest |want| */
static double away(const void *got, const double *want, const void *g0, int64_t n, double *most)
{
    double e2 = 0, n2 = 0, large = 0, worst = 0;
    for (int64_t i = 0; i < n; i++) {
        const double w = want[i] + (g0 ? elem_get(g0, true, i) : 0), e = elem_get(got, true, i) - w;
        e2 += e * e;
        n2 += w * w;
        large = fmax(large, fabs(w));
        if (!(fabs(e) <= worst)) worst = fabs(e);
    }
    if (most) *most = worst / (large > 0 ? large : 1);  /* one key: gradients of q and k are 0 */
    return sqrt(e2 / (n2 > 0 ? n2 : (double)n));        /* one key: gradients of q and k are 0 */
}
static const char *shape_text(const Shape *s)
{
    static char text[160];
    int n = snprintf(text, sizeof text, "%s B %d T %d H %d/%d D %d", bf16 ? "bf16" : "fp32", s->B,
                     s->T, s->H, s->K, s->D);
    if (s->window) n += snprintf(text + n, sizeof text - (size_t)n, " window %d", s->window);
    if (s->doc) n += snprintf(text + n, sizeof text - (size_t)n, " documents of %d", s->doc);
    if (s->M) snprintf(text + n, sizeof text - (size_t)n, " in a cache of %d", s->M);
    return text;
}
static double allowed(const Shape *s, int output)
{
    const bool few = s->T < 64 || (s->window && s->window < 64) || (s->doc && s->doc < 64);
    return !bf16 ? 1e-5 : few && output != Y ? 4.5e-3 : 3e-3;
}

static void check_values(const Problem *p, const Answer *a)
{
    static const char *const names[] = { "y", "dq", "dk", "dv" };
    double most[OUTPUTS] = { 0 }, worst = 0, lse = 0;
    char text[200] = "";
    for (int i = 0, at = 0; i < OUTPUTS && a->out[i]; i++) {
        const double e = away(a->out[i], p->want[i], NULL, size_out(p, i), &most[i]);
        if (!(e / allowed(&p->s, i) <= worst)) worst = e / allowed(&p->s, i);
        at += snprintf(text + at, sizeof text - (size_t)at, " %s %.1e", names[i], e);
    }
    for (int64_t i = 0; a->lse && i < (int64_t)p->s.B * p->s.T * p->s.H; i++) {
        const double e = fabs((double)a->lse[i] - p->lse[i]);
        if (!(e <= lse)) lse = e;
    }
    ok(worst <= 1, "%s: off by%s", shape_text(&p->s), text);
    const double grads = fmax(most[DQ], fmax(most[DK], most[DV]));
    ok(most[Y] <= (bf16 ? 0x1.01p-8 : 5e-6) && grads <= (bf16 ? 0x1p-7 : 5e-6) && lse <= 1e-5,
       "%s: y within %.1e, gradients %.1e, of the largest; lse %.1e", shape_text(&p->s), most[Y],
       grads, lse);
}
static void check_gradients(const Problem *p, const Answer *a, const Ops *o)
{
    Answer b = run(o, p, 0, true);
    double worst = 0;
    for (int i = DQ; i < OUTPUTS; i++) {
        const double e = away(b.out[i], p->want[i], p->g0, size_out(p, i), NULL);
        if (!(e <= worst)) worst = e;
    }
    ok(worst <= allowed(&p->s, DQ), "%s: gradients are added, off by %.1e", shape_text(&p->s),
       worst);
    answer_free(&b);
    bool all = true;
    for (int i = DQ; i < OUTPUTS; i++) {
        b = run(o, p, i, false);
        all &= same(p, a, &b);
        answer_free(&b);
    }
    ok(all, "%s: gradients that are not wanted change no other", shape_text(&p->s));
}
static void check_shape(Shape s, bool more)
{
    Problem p = problem(s);
    const Ops *o = tier_ops("cuda", 1);
    Answer a = run(o, &p, 0, false);
    check_values(&p, &a);
    if (more) check_gradients(&p, &a, o);
    bool all = true;
    for (int schedule = 2; schedule <= VARIANTS; schedule++) {
        Answer b = run(tier_ops("cuda", schedule), &p, 0, false);
        all &= same(&p, &a, &b);
        answer_free(&b);
    }
    ok(all, "%s: the same in all schedules", shape_text(&s));
    answer_free(&a);
    problem_free(&p);
}

/* Pointers that are not aligned to 16 bytes: the numbers are those of aligned ones, to rounding. */
static void check_unaligned(void)
{
    const Shape s = { 1, 70, 2, 1, 64, 0, 0, 0, 0 };
    Problem p = problem(s);
    const Ops *o = tier_ops("cuda", 1);
    const size_t n[] = { (size_t)p.n[Q] * 2, (size_t)p.n[KEY] * 2, (size_t)p.n[VAL] * 2 };
    char *in[3], *y = dev(o, NULL, n[0] + 2);
    real *lse = dev(o, NULL, (size_t)(s.T * s.H) * sizeof *lse);
    for (int i = 0; i < 3; i++) {
        char *shifted = must(malloc(n[i] + 2));
        memcpy(shifted + 2, p.in[i], n[i]);
        in[i] = dev(o, shifted, n[i] + 2);
        free(shifted);
    }
    o->attn((Act *)(y + 2), lse, (Act *)(in[0] + 2), (Act *)(in[1] + 2), (Act *)(in[2] + 2), NULL,
            1, s.T, s.H, s.K, s.D, 0);
    void *got = dev_get(o, y + 2, n[0]);
    const double e = away(got, p.want[Y], NULL, p.n[Q], NULL);
    ok(e <= allowed(&s, Y), "unaligned arrays: off by %.1e", e);
    free(got);
    dev_end(o);
    problem_free(&p);
}

/* What one document holds changes no bit of another; a NaN stays where it is, and does not get
 * lost. */
static void check_apart(void)
{
    enum { T = 200, CUT = 77, D = 64, AT = 130 };
    Problem p = problem((Shape){ 1, T, 1, 1, D, 0, 1000, 0, 0 });
    const Ops *o = tier_ops("cuda", 1);
    for (int t = 0; t < T; t++) p.doc[t] = t < CUT ? 0 : CUT;
    Answer a = run(o, &p, 0, false);
    for (int i = 0; i < INPUTS; i++)
        for (int64_t n = 0; n < CUT * D; n++) elem_set(p.in[i], true, n, uniform(-9, 9));
    Answer b = run(o, &p, 0, false);
    bool all = true;
    for (int i = 0; i < OUTPUTS; i++)
        all &= memcmp((char *)a.out[i] + CUT * D * 2, (char *)b.out[i] + CUT * D * 2,
                      (T - CUT) * D * 2) == 0;
    ok(all, "a document's attention does not depend on the one before");
    elem_set(p.in[Q], true, AT * D + 5, NAN);
    Answer c = run(o, &p, 0, false);
    int lost = 0, more = 0;
    for (int n = 0; n < T * D; n++) {
        const bool nan = isnan(elem_get(c.out[Y], true, n));
        if (n / D == AT) lost += !nan;
        else more += nan;
    }
    ok(lost == 0 && more == 0, "a NaN in q is in y, and in no other query's");
    answer_free(&a); answer_free(&b); answer_free(&c);
    problem_free(&p);
}

static void check_put(int K, int D)
{
    enum { B = 2, T = 3, M = 11 };
    const Ops *o = tier_ops("cuda", 1);
    const int pos[B] = { 8, 1 }, row = K * D;
    const size_t e = elem_size(true);
    char *k = random_elems(true, B * T * row, -1, 1), *v = random_elems(true, B * T * row, -1, 1),
         *c = random_elems(true, B * M * row, -1, 1);
    Act *kc = dev(o, c, (size_t)(B * M * row) * e), *vc = dev(o, c, (size_t)(B * M * row) * e);
    o->kv_put(kc, vc, dev(o, k, (size_t)(B * T * row) * e), dev(o, v, (size_t)(B * T * row) * e),
              dev(o, pos, sizeof pos), B, T, M, K, D);
    char *got[2] = { dev_get(o, kc, (size_t)(B * M * row) * e),
                     dev_get(o, vc, (size_t)(B * M * row) * e) };
    bool all = true;
    for (int b = 0; b < B; b++)
        for (int m = 0; m < M; m++) {
            const size_t to = (size_t)((b * M + m) * row) * e, n = (size_t)row * e;
            const bool put = m >= pos[b] && m < pos[b] + T;
            const size_t from = (size_t)((b * T + m - (put ? pos[b] : m)) * row) * e;
            all &= memcmp(got[0] + to, put ? k + from : c + to, n) == 0;
            all &= memcmp(got[1] + to, put ? v + from : c + to, n) == 0;
        }
    ok(all, "%s: kv_put of %d x %d stores at its positions, and there only", bf16 ? "bf16" : "fp32",
       K, D);
    dev_end(o);
    free(k); free(v); free(c); free(got[0]); free(got[1]);
}

#ifndef ON_DEVICE
const Ops *cuda_ops_faulty(int fault);

/* Some schedule must show each fault: in the forward, in the gradient of q, in those of k and v, in
 * the cached forward. A gradient is judged with the right y and lse. */
static const char *const faults[] = { "no fault", "no barrier when a tile has come",
                                      "a wait that is too weak",
                                      "the next fetch before all are done" };
static void check_fault(int fault, const Problem *p, const Answer *right, const Problem *cached,
                        const Answer *right_cached)
{
    static const char *const where[] = { "attn", "dq", "dk", "dv" };
    unsigned seen[OUTPUTS] = { 0 }, seen_cached = 0;
    for (int schedule = 1; schedule <= VARIANTS; schedule++) {
        Ops whole = *tier_ops("cuda", schedule), back = whole;
        const Ops *o = cuda_ops_faulty(fault);
        whole.attn = o->attn, whole.attn_drop = o->attn_drop;
        back.attn_bwd = o->attn_bwd, back.attn_drop_bwd = o->attn_drop_bwd;
        Answer a = run(&whole, p, 0, false), b = run(&back, p, 0, false),
               c = p->s.drop ? (Answer){ 0 } : run(o, cached, 0, false);
        for (int i = 0; i < OUTPUTS; i++)
            if (memcmp((i == Y ? &a : &b)->out[i], right->out[i], (size_t)size_out(p, i) * 2) != 0)
                seen[i] |= 1u << (schedule - 1);
        if (!p->s.drop && !same(cached, right_cached, &c)) seen_cached |= 1u << (schedule - 1);
        answer_free(&a); answer_free(&b); answer_free(&c);
    }
    for (int i = 0; i < OUTPUTS; i++)
        ok(fault ? seen[i] : !seen[i], "D %d%s: %s in %s: seen by schedules %x", p->s.D,
           p->s.drop ? " with dropout" : "", faults[fault], where[i], seen[i]);
    if (!p->s.drop)
        ok(fault ? seen_cached : !seen_cached, "D %d: %s in attn_kv: seen by schedules %x", p->s.D,
           faults[fault], seen_cached);
}
static void check_faults(int D, int drop)
{
    /* long enough that each buffer is used again, by a split of the cache too */
    Problem p = problem((Shape){ .B = 1, .T = D > 64 ? 150 : 200, .H = 1, .K = 1, .D = D, .drop = drop }),
            c = problem((Shape){ .B = 1, .T = 1, .H = 140, .K = 140, .D = D, .M = 400 });
    Answer right = run(tier_ops("cuda", 1), &p, 0, false),
           right_c = run(tier_ops("cuda", 1), &c, 0, false);
    for (int fault = 0; fault <= 3; fault++) check_fault(fault, &p, &right, &c, &right_c);
    answer_free(&right); answer_free(&right_c);
    problem_free(&p); problem_free(&c);
}
#endif

/* B T H K D window doc M */
static const Shape shapes[] = {
    { 1, 1, 1, 1, 32, 0, 0, 0, 0 },
    { 2, 65, 2, 1, 32, 0, 0, 0, 0 },
    { 1, 200, 2, 2, 64, 0, 0, 0, 0 },
    { 1, 131, 4, 2, 64, 70, 0, 0, 0 },
    { 1, 190, 1, 1, 96, 33, 0, 0, 0 },
    { 1, 129, 2, 1, 128, 0, 0, 0, 0 },
    { 1, 210, 2, 1, 128, 64, 0, 0, 0 },
    { 2, 150, 3, 1, 64, 0, 40, 0, 0 },
    { 1, 259, 1, 1, 128, 80, 90, 0, 0 },
    { 1, 300, 1, 1, 32, 1, 0, 0, 0 },
    { 1, 140, 2, 2, 96, 0, 5, 0, 0 },
    /* plain */
    { 2, 70, 2, 1, 40, 33, 20, 0, 0 },
    { 1, 66, 3, 3, 7, 0, 0, 0, 0 },
    { 1, 9, 2, 1, 2000, 0, 0, 0, 0 },      /* fewer warps in a block */
    /* cached: few queries, and many */
    { 1, 1, 1, 1, 32, 0, 0, 1, 0 },
    { 3, 1, 4, 4, 128, 0, 0, 600, 0 },
    { 2, 1, 8, 2, 64, 0, 0, 300, 0 },
    { 3, 2, 4, 2, 96, 100, 0, 400, 0 },
    { 2, 7, 6, 2, 32, 0, 0, 260, 0 },
    { 2, 16, 2, 2, 64, 200, 0, 300, 0 },
    { 2, 40, 2, 1, 64, 0, 0, 170, 0 },
    { 3, 70, 2, 2, 128, 60, 0, 250, 0 },
    { 2, 3, 2, 1, 40, 50, 0, 130, 0 },
};

int main(void)
{
    for (int h = 0; h < 2; h++) {
        bf16 = h;
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            check_shape(shapes[i], shapes[i].M == 0 && i % 2);
        check_put(2, 32);
        check_put(1, 7);
    }
    check_unaligned();
    check_apart();
#ifdef ON_DEVICE        /* what cuDNN takes, where it was built in */
    check_shape((Shape){ 2, 512, 4, 2, 128, 0, 0, 0, 0 }, false);
    check_shape((Shape){ 2, 512, 4, 2, 128, 100, 0, 0, 0 }, false);
    check_shape((Shape){ 1, 384, 2, 2, 64, 0, 0, 0, 0 }, false);
#else
    check_faults(32, 0);
    check_faults(32, 30);
    check_faults(128, 0);
#endif
    return done();
}
