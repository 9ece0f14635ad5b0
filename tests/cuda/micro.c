/* Micro-batches (gpt/micro.h) with the emulated CUDA back-end: as graphs they give bit for bit what
 * single operations give, in both families, with experts, dropout, documents, recomputation, and when
 * other shapes and another tape come between; the host waits for the device once a step; and arrays of
 * the host may change as soon as a call is back, though the device has yet to copy them. */
#include "base/err.h"
#include "cuda_runtime_api.h"
#include "gpt/micro.h"
#include "gpt/optim.h"
#include "models.h"
#include "tap.h"
#include <math.h>

const Ops *cuda_ops_fp32(void), *cuda_ops_bf16(void);

enum { B = 2, T = 20, N = B * T, V = 101, STEPS = 2, ACCUM = 4 };

static Config nanochat(void) { return config_depth(2, 16, 32, T, V, "SL"); }
static Config llama(int experts, double dropout)
{
    Config c = small_llama(T, V, experts, dropout);
    c.H = 2, c.K = 1, c.C = 32;
    c.llama.F = 50, c.llama.Fe = experts ? 24 : 0;
    return c;
}
typedef struct Case { const char *name; Config cfg; int docs, recompute; } Case;
typedef struct Run { double sum[STEPS][MICRO_SUMS]; real *w; size_t bytes; long waits; } Run;

/* ids of a micro-batch, some targets without a loss; documents of 9 tokens */
static uint64_t tokens(int32_t *x, int32_t *y, int32_t *doc, int n)
{
    uint64_t valid = 0;
    for (int i = 0; i < N; i++) {
        x[i] = (i * 37 + n * 11 + i * i % 7) % V;
        y[i] = i % (5 + n % 3) == 4 ? -1 : (x[i] * 3 + 1) % V;
        doc[i] = i % T / 9 * 9;
        valid += y[i] >= 0;
    }
    return valid;
}
/* between: a micro-batch of fewer rows, and another pass on the tape, come between */
static Run run(const Ops *o, const Case *c, int between)
{
    int32_t x[N], y[N], doc[N];
    Run r = { .waits = 0 };
    OptimSettings s = { .adamw = 1, .lr = 1e-2, .lr_scale = 1, .beta1 = 0.9, .beta2 = 0.95,
                        .eps = 1e-8, .weight_decay = 0.1 };
    Model *m = model_new(o, &c->cfg, 1);
    model_init(m, 3);
    m->dropping = 1;
    m->drop_seed = 7;
    Optim *opt = optim_new(m, &s);
    Micro u;
    Tape t;
    micro_init(&u, o, B, T, c->docs);
    tape_init(&t, o);
    t.recompute = c->recompute;
    for (int i = 0; i < STEPS; i++) {
        const long before = cuemu_waits();
        model_zero_grad(m);
        micro_begin(&u);
        for (int k = 0; k < ACCUM; k++) {
            uint64_t valid = tokens(x, y, doc, i * ACCUM + k);
            int rows = between && i == 1 && k == 2 ? 1 : B;
            micro_step(&u, m, &t, rows, x, y, doc, (uint64_t)(i * ACCUM + k) * B, i ? valid : N);
            memset(x, 0, sizeof x);
            memset(y, 0, sizeof y);
            memset(doc, 0, sizeof doc);
        }
        grad_squares(m, u.sum + SUM_SQUARES);
        o->get(r.sum[i], u.sum, sizeof r.sum[i]);
        optim_step(opt, 1, 0.9, 0.1);
        r.waits = cuemu_waits() - before;           /* of the last step, which is a usual one */
        if (between && i == 1) {                    /* arrays of other sizes join the tape */
            tape_reset(&t);
            t.on = 0;
            model_forward(m, &t, u.x, 1, 17, NULL);
        }
    }
    r.bytes = (size_t)m->n * sizeof *r.w;
    r.w = xcalloc((size_t)m->n, sizeof *r.w);
    for (int i = 0; i < m->nparam; i++) model_get(m, &m->param[i], r.w + m->param[i].off);
    micro_free(&u);
    tape_free(&t);
    optim_free(opt);
    model_free(m);
    return r;
}
static int same(const Run *a, const Run *b)
{
    return !memcmp(a->sum, b->sum, sizeof a->sum) && !memcmp(a->w, b->w, a->bytes);
}
static void check(const Ops *o, const Case *c)
{
    Ops plain = *o;
    plain.graph_begin = NULL;
    Run want = run(&plain, c, 0);
    const long before = cuemu_graphs();
    Run got = run(o, c, 0);
    const long graphs = cuemu_graphs() - before;
    ok(isfinite(want.sum[STEPS - 1][0]) && want.sum[STEPS - 1][2] > 0 && same(&want, &got),
       "%s %s: graphs give the same bits", c->name, o->dtype);
#ifdef ON_DEVICE
    (void)graphs;                               /* nobody counts there */
#else
    ok(graphs >= STEPS * ACCUM - 2, "%s %s: of %d micro-batches %ld are graphs", c->name, o->dtype,
       STEPS * ACCUM, graphs);
    ok(want.waits == 1 && got.waits == 1, "%s %s: a step waits once for the device (%ld, %ld)", c->name,
       o->dtype, want.waits, got.waits);
#endif
    free(want.w); free(got.w);
    want = run(&plain, c, 1);
    cuemu_lazy(1);
    cuemu_protect(1);
    got = run(o, c, 1);
    cuemu_protect(0);
    cuemu_lazy(0);
    ok(same(&want, &got), "%s %s: also when the device comes late, and with other shapes between",
       c->name, o->dtype);
    free(want.w); free(got.w);
}

/* Dropout draws by the row's number, whether the host or the device has it. */
static void check_row(const Ops *o)
{
    Config c = llama(0, 0.1);
    int32_t x[N], y[N], doc[N];
    real loss[2][N];
    Model *m = model_new(o, &c, 1);
    model_init(m, 3);
    m->dropping = 1;
    Micro u;
    Tape t;
    micro_init(&u, o, B, T, 0);
    tape_init(&t, o);
    uint64_t valid = tokens(x, y, doc, 0);
    for (int k = 0; k < 4; k++)                     /* to the graph, with other numbers */
        micro_step(&u, m, &t, B, x, y, NULL, (uint64_t)(5 * k), valid);
    o->get(loss[0], u.loss, sizeof loss[0]);
    tape_reset(&t);
    t.on = 1;
    m->drop_row = 15;
    model_loss(m, &t, model_forward(m, &t, u.x, B, T, NULL), u.y, NULL, N, u.loss, 1.0 / N);
    o->get(loss[1], u.loss, sizeof loss[1]);
    ok(!memcmp(loss[0], loss[1], sizeof loss[0]), "%s: dropout goes by the row's number", o->dtype);
    micro_free(&u);
    tape_free(&t);
    model_free(m);
}

int main(void)
{
    const Ops *ops[] = { cuda_ops_fp32(), cuda_ops_bf16() };
    const Case cases[] = {
        { "nanochat", nanochat(), 0, 0 },         { "nanochat, documents", nanochat(), 1, 0 },
        { "nanochat, recomputed", nanochat(), 0, 1 }, { "llama", llama(0, 0), 0, 0 },
        { "llama, experts", llama(4, 0), 0, 0 },  { "llama, dropout", llama(0, 0.1), 0, 1 },
    };
    for (int d = 0; d < 2; d++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            if (d == 0 || i % 2 == 0) check(ops[d], &cases[i]);
        check_row(ops[d]);
    }
    ok(cuemu_damaged() == 0, "nothing was written past the end of a block");
    return done();
}
