/* The Llama family without golden files: gradients against differences of the loss, the cache
 * against the whole, documents, config.json there and back. Also as double (REAL_F64). */
#include "base/err.h"
#include "base/rng.h"
#include "gpt/decode.h"
#include "gpt/llama.h"
#include "tap.h"
#include <math.h>
#include <string.h>

static const Ops *ops;
enum { B = 2, T = 9, N = B * T, V = 23 };
static int ids[N], tgt[N];

static Config small(int experts, int qk_norm, int tied)
{
    Config c = { .family = &llama_family, .T = 16, .V = V, .Vp = V, .L = 2, .H = 4, .K = 2,
                 .C = 12, .D = 6 };
    c.llama = (LlamaConfig){ .F = 20, .E = experts, .top = experts ? 2 : 0,
                             .Fe = experts ? 8 : 0, .qk_norm = qk_norm, .tied = tied,
                             .norm_top = 1, .eps = 1e-5, .theta = 100, .aux = 0.5, .init = 0.3 };
    c.llama.rope = (struct Rope){ .original = 4, .factor = 3, .fast = 2, .slow = 0.5,
                                  .attention = 1.1 };
    return c;
}

static Model *make(const Config *c)
{
    Model *m = model_new(ops, c, 1);
    model_init(m, 5);
    for (int i = 0; i < m->nparam; i++) {
        Param *p = &m->param[i];
        if (p->group != PG_NORM) continue;
        real *x = xcalloc((size_t)p->n, sizeof *x);
        for (int64_t k = 0; k < p->n; k++) x[k] = (real)(1 + 0.3 * sin((double)(7 * i + k)));
        model_set(m, p, x);
        free(x);
    }
    m->dropping = 1;
    m->drop_row = 3;
    return m;
}

/* the objective: mean loss and, with experts, the auxiliary loss */
static double objective(Model *m, Tape *t, int backward)
{
    real loss[N];
    double sum = 0;
    tape_reset(t);
    t->on = 1;
    Var *x = model_forward(m, t, ids, B, T, NULL);
    model_loss(m, t, x, tgt, NULL, N, loss, backward ? 1.0 / N : 0);
    if (backward) tape_backward(t);
    for (int i = 0; i < N; i++) sum += (double)loss[i] / N;
    for (int i = 0; m->aux && i < m->cfg.L; i++) sum += m->cfg.llama.aux * (double)m->aux[i];
    return sum;
}

/* Two elements of every tensor, with doubles: the steps that floats need change the routing. */
static void check_gradients(const char *name, const Config *c)
{
    Model *m = make(c);
    Tape t;
    tape_init(&t, ops);
    const double h = 1e-5;
    double worst = 0;
    const char *at = "";
    model_zero_grad(m);
    objective(m, &t, 1);
    for (int i = 0; sizeof(real) == 8 && i < m->nparam; i++)
        for (int k = 0; k < 2; k++) {
            const Param *p = &m->param[i];
            real *w = m->w + p->off + (k ? p->n / 2 : 0), was = *w;
            double got = (double)m->g[p->off + (k ? p->n / 2 : 0)];
            *w = was + (real)h;
            double up = objective(m, &t, 0);
            *w = was - (real)h;
            double e = fabs((up - objective(m, &t, 0)) / (2 * h) - got);
            *w = was;
            if (!(e <= worst)) worst = e, at = p->name;
        }
    if (sizeof(real) == 8)
        ok(worst <= 1e-8, "%s: gradients off by at most %.1e, at %s", name, worst, at);

    real *g = xcalloc((size_t)m->n, sizeof *g);
    memcpy(g, m->g, (size_t)m->n * sizeof *g);
    model_zero_grad(m);
    t.recompute = 1;
    objective(m, &t, 1);
    ok(!memcmp(g, m->g, (size_t)m->n * sizeof *g), "%s: recomputed, the same bits", name);
    free(g);
    tape_free(&t);
    model_free(m);
}

static double far(const real *a, const real *b, int n)
{
    double d = 0;
    for (int i = 0; i < n; i++) d = fmax(d, fabs((double)a[i] - (double)b[i]));
    return d;
}

/* The last position's logits: at once, and from a cache fed in chunks. */
static void check_cache(const char *name, const Config *c)
{
    Model *m = make(c);
    Tape t;
    tape_init(&t, ops);
    Cache *k = cache_new(m, B, T);
    static const int chunk[] = { 4, 1, 3, 1 };
    real got[B * V], want[B * V];
    int rows[B], from = 0;
    for (size_t i = 0; i < sizeof chunk / sizeof *chunk; from += chunk[i++]) {
        int part[N];
        for (int b = 0; b < B; b++)
            memcpy(part + b * chunk[i], ids + b * T + from, (size_t)chunk[i] * sizeof *part);
        cache_feed(k, &t, part, chunk[i], got);
    }
    tape_reset(&t);
    for (int b = 0; b < B; b++) rows[b] = b * T + T - 1;
    memcpy(want, model_logits(m, &t, model_forward(m, &t, ids, B, T, NULL), rows, B), sizeof want);
    ok(from == T && far(got, want, B * V) <= (sizeof(real) == 8 ? 1e-12 : 1e-5),
       "%s: cached logits off by %.1e", name, far(got, want, B * V));
    cache_free(k);
    tape_free(&t);
    model_free(m);
}

/* A document's logits are those of the document alone. */
static void check_documents(const char *name, const Config *c)
{
    enum { CUT = 4 };
    Model *m = make(c);
    Tape t;
    tape_init(&t, ops);
    int doc[T], last = T - 1, last_alone = T - CUT - 1;
    real got[V], want[V];
    for (int i = 0; i < T; i++) doc[i] = i < CUT ? 0 : CUT;
    memcpy(got, model_logits(m, &t, model_forward_docs(m, &t, ids, doc, 1, T), &last, 1),
           sizeof got);
    tape_reset(&t);
    memcpy(want, model_logits(m, &t, model_forward(m, &t, ids + CUT, 1, T - CUT, NULL),
                              &last_alone, 1), sizeof want);
    ok(far(got, want, V) <= (sizeof(real) == 8 ? 1e-12 : 1e-5), "%s: a document off by %.1e", name,
       far(got, want, V));
    tape_free(&t);
    model_free(m);
}

/* Hidden states of rows from `row` of the batch on, recorded (with dropout) or not. */
static void hidden(Model *m, int row, int rows, int on, real *to)
{
    Tape t;
    tape_init(&t, ops);
    t.on = on;
    m->drop_row = (uint64_t)(3 + row);
    Var *x = model_forward(m, &t, ids + row * T, rows, T, NULL);
    memcpy(to, x->v, (size_t)x->n * sizeof *to);            /* the CPU's memory is ours */
    tape_free(&t);
}

/* Dropout is of training only, by row of the run, whatever the micro-batch; on average it changes
 * nothing to first order. */
static void check_dropout(const Config *without)
{
    enum { C = 12, TIMES = 4000 };
    Config c = *without;
    real off[N * C], a[N * C], b[N * C], none[N * C];
    Model *plain = make(&c);
    hidden(plain, 0, B, 1, none);
    model_free(plain);
    c.llama.dropout = c.llama.attn_dropout = 0.4;
    Model *m = make(&c);
    hidden(m, 0, B, 0, off);
    ok(!memcmp(off, none, sizeof off), "dropout: none while nothing records");
    hidden(m, 0, B, 1, a);
    ok(far(a, off, N * C) > 0.1, "some while training");
    for (int i = 0; i < B; i++) hidden(m, i, 1, 1, b + i * T * C);
    ok(far(a, b, N * C) <= (sizeof(real) == 8 ? 1e-12 : 1e-5), "row by row the same, off by %.1e",
       far(a, b, N * C));
    m->drop_seed = 1;
    hidden(m, 0, B, 1, b);
    ok(far(a, b, N * C) > 0.1, "another seed drops others");
    m->dropping = 0;
    hidden(m, 0, B, 1, b);
    ok(!memcmp(off, b, sizeof off), "none if it is not to");
    model_free(m);
}

/* What attention adds, with nothing but its own dropout, has the mean that it has without. */
static void check_dropout_mean(void)
{
    enum { D = 4, TIMES = 3000 };
    real q[T * D], k[T * D], v[T * D], y[T * D], lse[T], want[T * D];
    double sum[T * D] = { 0 }, square[T * D] = { 0 }, worst = 0;
    for (int i = 0; i < T * D; i++)
        q[i] = (real)sin(i), k[i] = (real)cos(3 * i), v[i] = (real)sin(5 * i + 1);
    ops->attn((Act *)want, lse, (Act *)q, (Act *)k, (Act *)v, NULL, 1, T, 1, 1, D, 0);
    for (uint64_t n = 0; n < TIMES; n++) {
        const Drop d = { .p = 0.3, .key = 5, .at = n };
        ops->attn_drop((Act *)y, lse, (Act *)q, (Act *)k, (Act *)v, NULL, 1, T, 1, 1, D, 0, &d);
        for (int i = 0; i < T * D; i++) {
            sum[i] += (double)y[i] / TIMES;
            square[i] += (double)y[i] * (double)y[i] / TIMES;
        }
    }
    for (int i = 0; i < T * D; i++) {
        double s = sqrt((square[i] - sum[i] * sum[i]) / TIMES);
        worst = fmax(worst, fabs(sum[i] - (double)want[i]) / s);
    }
    ok(worst < 4.5, "dropout keeps the mean: off by at most %.1f standard errors", worst);
}

/* config.json there and back */
static void check_json(const char *name, const Config *c)
{
    Arena a = { 0 };
    Buf one = { 0 }, two = { 0 };
    const char *err = NULL;
    size_t at;
    Config d;
    config_json(c, &one);
    Json *j = json_parse(&a, one.s, one.n, &err, &at);
    const char *bad = j ? config_parse(&d, j) : err;
    if (!bad) config_json(&d, &two);
    ok(!bad && one.n == two.n && !memcmp(one.s, two.s, one.n) &&
           config_params(c, -1) == config_params(&d, -1),
       "%s: config.json there and back%s%s", name, bad ? ": " : "", bad ? bad : "");
    buf_free(&one), buf_free(&two);
    arena_free(&a);
}

/* rope_scaling by type: the frequencies that transformers 5.24 computes, in floats */
static const char *from_text(Config *c, const char *more)
{
    Arena a = { 0 };
    Buf b = { 0 };
    const char *err = NULL;
    size_t at;
    buf_printf(&b, "{\"model_type\": \"llama\", \"hidden_size\": 32, \"num_hidden_layers\": 1, "
               "\"num_attention_heads\": 2, \"head_dim\": 16, \"intermediate_size\": 8, "
               "\"vocab_size\": 8, \"max_position_embeddings\": 131072, %s}", more);
    Json *j = json_parse(&a, b.s, b.n, &err, &at);
    if (j) err = config_parse(c, j);
    arena_free(&a);
    buf_free(&b);
    return err;
}

static void check_rope(void)
{
    static const struct { const char *json; double by, f[8]; } want[] = {
        { "\"rope_theta\": 500000, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, "
          "\"low_freq_factor\": 1, \"high_freq_factor\": 4, "
          "\"original_max_position_embeddings\": 8192}", 1,
          { 1, 0.193922758, 0.0376060307, 0.00729266508, 0.000524846022, 3.42810235e-05,
            6.64786967e-06, 1.28917316e-06 } },
        { "\"rope_parameters\": {\"rope_theta\": 1e4, \"rope_type\": \"llama3\", \"factor\": 4, "
          "\"low_freq_factor\": 1, \"high_freq_factor\": 16, "
          "\"original_max_position_embeddings\": 1024}", 1,
          { 1, 0.316227764, 0.100000001, 0.0144732893, 0.00281487335, 0.000790569466,
            0.000250000012, 7.90569466e-05 } },
        { "\"rope_theta\": 10000, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.5}", 1,
          { 0.400000006, 0.1264911, 0.0399999991, 0.0126491114, 0.00399999972, 0.00126491114,
            0.000400000019, 0.000126491112 } },
        { "\"rope_theta\": 1e6, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4, "
          "\"original_max_position_embeddings\": 32768}", 1.13862944,
          { 1, 0.177827939, 0.0316227786, 0.00421755994, 0.000500000024, 4.44569851e-05,
            7.90569356e-06, 1.40585337e-06 } },
        { "\"rope_theta\": 1e4, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4}", 1.13862944,
          { 1, 0.316227764, 0.100000001, 0.0316227786, 0.00999999978, 0.00316227786, 0.000812500017,
            0.000197642366 } },
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        Config c;
        double f[8], worst = 0;
        const char *bad = from_text(&c, want[i].json);
        if (bad) printf("# %s\n", bad);
        double by = bad ? 0 : llama_rotary(&c, f);
        for (int k = 0; k < 8 && !bad; k++) worst = fmax(worst, fabs(f[k] / want[i].f[k] - 1));
        ok(!bad && worst < 3e-7 && fabs(by - want[i].by) < 1e-8,
           "rope_scaling %zu: frequencies off by %.1e", i, worst);
        if (!bad) check_json("its", &c);
    }
}

static void check_no_rope(void)
{
    static const char *const no[][2] = {
        { "\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}", "has the type \"dynamic\"" },
        { "\"rope_scaling\": {\"type\": \"longrope\"}", "has the type \"longrope\"" },
        { "\"rope_scaling\": {\"type\": 3}", "not a text" },
        { "\"rope_scaling\": 3", "rope_scaling is not an object" },
        { "\"rope_parameters\": 3", "rope_parameters is not an object" },
        { "\"quantization_config\": {\"bits\": 4}", "quantization_config is there" },
        { "\"rope_scaling\": {\"type\": \"linear\"}", "factor is missing" },
        { "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0.5}", "factor is not" },
        { "\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1}",
          "high_freq_factor is missing" },
        { "\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, "
          "\"high_freq_factor\": 4}", "high_freq_factor is not above" },
        { "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 8, \"mscale\": 1}", "mscale" },
        { "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 8, \"truncate\": false}", "truncate" },
        { "\"partial_rotary_factor\": 0.5", "partial_rotary_factor" },
    };
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
        Config c;
        const char *bad = from_text(&c, no[i][0]);
        ok(bad && strstr(bad, no[i][1]), "refused: %s", bad ? bad : no[i][0]);
    }
}

static void freeze_one(void *m)
{
    Tape t;
    tape_init(&t, ops);
    model_freeze(m, "*.0.mlp.experts.1.up_proj.*");
    objective(m, &t, 0);
    _exit(0);
}

int main(void)
{
    ops = ops_cpu(1);
    Rng r;
    rng_init(&r, 1, 2);
    for (int i = 0; i < N; i++) ids[i] = (int)(rng_uniform(&r) * V);
    for (int i = 0; i < N; i++) tgt[i] = (int)(rng_uniform(&r) * V);
    static const char *const name[] = { "dense", "dense, QK norm, tied", "experts", "experts, tied" };
    for (int i = 0; i < 4; i++) {
        Config c = small(i < 2 ? 0 : 4, i > 0, i % 2);
        check_gradients(name[i], &c);
        check_cache(name[i], &c);
        check_documents(name[i], &c);
        check_json(name[i], &c);
        c.llama.dropout = 0.3;
        c.llama.attn_dropout = 0.2;
        check_gradients("dropout", &c);
        check_json("dropout", &c);
    }
    Config c = small(0, 1, 0);
    check_dropout(&c);
    check_dropout_mean();
    ok(llama_preset(&c, "tutorial") && config_params(&c, -1) == 28334592, "tutorial");
    check_json("tutorial", &c);
    ok(llama_preset(&c, "minimind") && config_params(&c, -1) == 63912192, "minimind");
    check_json("minimind", &c);
    ok(llama_preset(&c, "minimind-moe") && config_params(&c, -1) == 198416640 &&
           config_active_params(&c) == 63936768, "minimind-moe");
    check_json("minimind-moe", &c);
    ok(!llama_preset(&c, "minimind-x") && !llama_preset(&c, "mini"), "others are none");
    check_rope();
    check_no_rope();
    c = small(4, 1, 0);
    Model *m = make(&c);
    ok(dies(1, "a part of its layer's experts", freeze_one, m), "a part of a layer's experts frozen");
    model_free(m);
    return done();
}
