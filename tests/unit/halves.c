/* A nanochat model of bfloat16 Acts: its tables by token are bfloat16s with their gradients and
 * moments, the other weights exact in two halves. Checkpoints between such runs, fp32 ones and models
 * that do not train; the running mean; the sections' places. */
#include "gpt/ckpt.h"
#include "gpt/safetensors.h"
#include "base/rng.h"
#include "tap.h"
#include <math.h>
#include <sys/stat.h>

static const Config config = { .family = &nanochat_family, .T = 16, .V = 70, .Vp = 128, .L = 3, .H = 2,
                               .K = 1, .C = 40, .window = "SL" };
static const OptimSettings settings = { .embedding_lr = 0.3, .unembedding_lr = 0.008, .matrix_lr = 0.02,
    .scalar_lr = 0.5, .batch_scale = 1, .lr_scale = 1, .weight_decay = 0.28, .ema = 0.5 };
static char dir[] = "/tmp/halves-test-XXXXXX";
static const Ops *bf16, *fp32;

static int is_table(const Param *p) { return p->group == PG_WTE || p->group == PG_VALUE_EMBEDS; }

static real *weights(const Model *m, const Param *p)
{
    real *x = xreallocarray(NULL, (size_t)p->n, sizeof *x);
    model_get(m, p, x);
    return x;
}
static real *moment(const Optim *o, const Param *p, int k, int64_t *n)
{
    int64_t from;
    Store s = optim_moment(o, p, k, &from, n);
    real *x = xreallocarray(NULL, (size_t)*n, sizeof *x);
    o->m->ops->load(x, s, *n);
    return x;
}
/* x, or with round the nearest bfloat16s (one of two as near), are y. Frees both. */
static int equal(real *x, real *y, int64_t n, int round)
{
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = (uint32_t)bf16_of((float)x[i]) << 16;
        float near;
        memcpy(&near, &u, 4);
        bad += round ? fabs((double)x[i] - (double)y[i]) != fabs((double)x[i] - (double)near) : x[i] != y[i];
    }
    free(x), free(y);
    return !bad;
}
/* a's weights, in b those that are bfloat16s there rounded */
static int same_weights(const Model *a, const Model *b)
{
    int same = 1;
    for (int i = 0; i < a->nparam; i++)
        same &= equal(weights(a, &a->param[i]), weights(b, &b->param[i]), a->param[i].n,
                      b->param[i].keep == KEEP_HALF);
    return same;
}
static int same_moments(const Optim *a, const Optim *b)
{
    int same = a->t == b->t;
    for (int i = 0; i < 2 * a->m->nparam; i++) {
        const Param *p = &a->m->param[i / 2], *q = &b->m->param[i / 2];
        int64_t n;
        real *x = moment(a, p, i % 2, &n), *y = moment(b, q, i % 2, &n);
        same &= equal(x, y, n, q->keep == KEEP_HALF);
    }
    return same;
}

static void steps(Model *m, Optim *o, int from, int to)
{
    for (int t = from; t < to; t++) {
        for (int i = 0; i < m->nparam; i++) {
            const Param *p = &m->param[i];
            Rng r;
            rng_init(&r, (uint64_t)t, (uint64_t)i);
            real *g = xreallocarray(NULL, (size_t)p->n, sizeof *g);
            for (int64_t k = 0; k < p->n; k++) g[k] = (real)(0.01 * rng_normal(&r));
            m->ops->store(var_grad(&p->var), g, p->n);
            free(g);
        }
        optim_step(o, 1, 0.9, 0.1);
    }
}

typedef struct Trained { Model *m; Optim *o; char *dir; } Trained;
static Trained trained(const Ops *ops, int how, int n)
{
    Trained t = { .m = model_new(ops, &config, MODEL_TRAIN | how) };
    t.dir = xasprintf("%s/%s-%d", dir, ops->dtype, how);
    model_init(t.m, 5);
    t.o = optim_new(t.m, &settings);
    steps(t.m, t.o, 0, n);
    if (ckpt_save(t.dir, t.m, t.o, NULL, NULL, NULL)) die("%s: not saved", t.dir);
    return t;
}
static Trained loaded(const char *from, const Ops *ops, int how)
{
    Trained t = { .m = ckpt_model(from, ops, MODEL_TRAIN | how) };
    t.o = optim_new(t.m, &settings);
    ckpt_optim(from, t.o);
    return t;
}
static void trained_free(Trained *t)
{
    optim_free(t->o);
    model_free(t->m);
    free(t->dir);
}

static void sections(const Model *m)
{
    int good = 1;
    int64_t at = 0, n = 0;
    for (int i = 0; i < m->nparam; i++) {
        const Param *p = &m->param[i];
        Keep want = is_table(p) ? KEEP_HALF : strstr(p->name, "_gate") || p->ndim == 1 ? KEEP_REAL : KEEP_SPLIT;
        int64_t from = model_section(m, p->keep, &n);
        Store g = var_grad(&p->var), w = var_weights(&p->var);
        good &= p->keep == want && p->off >= from && p->off + p->n <= from + n;
        good &= p->group == PG_MATRIX || p->off % 16 == 0;
        good &= !w.w == (want != KEEP_REAL) && !w.lo == (want != KEEP_SPLIT) && !g.hi == (want != KEEP_HALF);
    }
    for (Keep k = 0; k < KEEP_COUNT; k++, at += n) good &= model_section(m, k, &n) == at && n > 0;
    ok(good && at == m->n, "sections: what is a table, a matrix, a vector");
    double tables = 0, other = 0;
    for (int i = 0; i < m->nparam; i++) *(is_table(&m->param[i]) ? &tables : &other) += (double)m->param[i].n;
    ok(fabs(model_bytes(m) - 2 * tables - 4 * other) < 0.01 * model_bytes(m) &&
           fabs(model_grad_bytes(m) - 2 * tables - 4 * other) < 0.01 * model_bytes(m),
       "2 bytes a number of a table, 4 of the others, weights and gradients");
}

static void file_types(const char *from)
{
    char *path = xasprintf("%s/model.safetensors", from), *opt = xasprintf("%s/optimizer-0.safetensors", from);
    char *ema = xasprintf("%s/model-ema.safetensors", from);
    const char *const file[] = { path, opt, ema };
    int good = 1, n = 0;
    for (int k = 0; k < 3; k++) {
        StFile *f = st_open(file[k]);
        for (int i = 0; i < st_count(f); i++) {
            const StTensor *t = st_at(f, i);
            int table = k < 2 && (strstr(t->name, "wte") || strstr(t->name, "value_embeds"));
            good &= t->dtype == (table ? ST_BF16 : ST_F32);
            n += table;
        }
        st_close(f);
    }
    ok(good && n == 3 * 3, "files: BF16 for tables and their moments, F32 for all else and the mean");
    free(path), free(opt), free(ema);
}

static void between(const Trained *b, const Trained *f)
{
    static const struct { int to_bf16, how; const char *what; } to[] = {
        { 1, 0, "bf16" }, { 1, MODEL_MASTERS, "bf16 with masters" }, { 0, 0, "fp32" } };
    for (int k = 0; k < 6; k++) {
        const Trained *from = k < 3 ? b : f;
        Trained t = loaded(from->dir, to[k % 3].to_bf16 ? bf16 : fp32, to[k % 3].how);
        ok(same_weights(from->m, t.m) && same_moments(from->o, t.o), "%s into %s: weights and moments",
           from->m->ops->dtype, to[k % 3].what);
        real *x = xreallocarray(NULL, (size_t)from->m->n, sizeof *x);
        int same = 1;
        for (int i = 0; i < from->m->nparam; i++) {
            const Param *p = &from->m->param[i], *q = &t.m->param[i];
            bf16->get(x, from->o->ema + p->off, (size_t)p->n * sizeof *x);
            same &= !memcmp(x, t.o->ema + q->off, (size_t)p->n * sizeof *x);
        }
        ok(same, "%s into %s: the running mean", from->m->ops->dtype, to[k % 3].what);
        free(x);
        trained_free(&t);
        Model *m = ckpt_model(from->dir, to[k % 3].to_bf16 ? bf16 : fp32, 0);
        if (k % 3 != 1)
            ok(model_hash(m) == model_hash(from->m), "%s into %s, not to train: the same hash",
               from->m->ops->dtype, to[k % 3].what);
        model_free(m);
    }
}

static void resumed(Trained *b)
{
    Trained t = loaded(b->dir, bf16, 0);
    steps(b->m, b->o, 3, 5);
    steps(t.m, t.o, 3, 5);
    ok(same_weights(b->m, t.m) && same_moments(b->o, t.o) && model_hash(b->m) == model_hash(t.m),
       "resumed: the same bits as straight on");
    trained_free(&t);
}

/* With the mean in its place the model computes with that, rounded; then all is as it was. */
static void mean(Trained *b)
{
    uint64_t hash = model_hash(b->m);
    size_t bytes = (size_t)b->m->n * sizeof(real);
    real *was = xmalloc(bytes), *x;
    memcpy(was, b->o->ema, bytes);
    model_exchange(b->m, b->o->ema);
    int is = 1;
    for (int i = 0; i < b->m->nparam; i++) {
        const Param *p = &b->m->param[i];
        x = xmalloc((size_t)p->n * sizeof *x);
        memcpy(x, was + p->off, (size_t)p->n * sizeof *x);
        is &= equal(x, weights(b->m, p), p->n, p->keep == KEEP_HALF);
    }
    ok(is && model_hash(b->m) != hash, "the mean in place of the weights");
    model_exchange(b->m, b->o->ema);
    ok(model_hash(b->m) == hash && !memcmp(was, b->o->ema, bytes), "and back, to the bit");
    free(was);
}

static void norms(Trained *b)
{
    double sum = 0, sum_w = 0;
    steps(b->m, b->o, 9, 9);
    for (int i = 0; i < b->m->nparam; i++) {
        const Param *p = &b->m->param[i];
        real *g = xmalloc((size_t)p->n * sizeof *g), *w = weights(b->m, p);
        for (int64_t k = 0; k < p->n; k++) g[k] = (real)((double)(k % 7 - 3) / 8);      /* exact */
        bf16->store(var_grad(&p->var), g, p->n);
        for (int64_t k = 0; k < p->n; k++) sum += (double)g[k] * (double)g[k], sum_w += (double)w[k] * (double)w[k];
        free(g), free(w);
    }
    ok(fabs(grad_norm(b->m) / sqrt(sum) - 1) < 1e-6, "norm of the gradients");
    ok(fabs(weight_norm(b->m) / sqrt(sum_w) - 1) < 1e-6, "norm of the weights");
    grad_scale(b->m, 0.5);
    ok(fabs(grad_norm(b->m) / sqrt(sum) - 0.5) < 1e-6, "gradients scaled");
    model_zero_grad(b->m);
    ok(grad_norm(b->m) == 0, "and zeroed");
}

int main(void)
{
    if (!mkdtemp(dir)) return 1;
    bf16 = ops_open("cpu", "bf16", 2);
    fp32 = ops_cpu(2);
    Trained b = trained(bf16, 0, 3), f = trained(fp32, 0, 3);
    sections(b.m);
    file_types(b.dir);
    between(&b, &f);
    resumed(&b);
    mean(&b);
    norms(&b);
    trained_free(&b);
    trained_free(&f);
    char *rm = xasprintf("rm -rf %s", dir);
    if (system(rm)) return 1;
    free(rm);
    return done();
}
