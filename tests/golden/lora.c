/* golden/llama k_*: a low-rank adapter's forward and backward pass, its steps, a whole model with
 * adapters, merging. */
#include "gpt/lora.h"
#include "gpt/nn.h"
#include "tensors.h"

static const Ops *ops;

static real *numbers(const Json *j, int64_t *n)
{
    real *x = xcalloc(4096, sizeof *x);
    *n = 0;
    for (const Json *r = j->child; r; r = r->next)
        if (r->kind == J_ARR)
            for (const Json *e = r->child; e; e = e->next) x[(*n)++] = (real)e->num;
        else x[(*n)++] = (real)r->num;
    return x;
}

static Act *act_of(const real *x, int64_t n)
{
    real *d = ops->alloc((size_t)n * sizeof *d);
    Act *a = ops->alloc((size_t)n * ops->act_size);
    ops->put(d, x, (size_t)n * sizeof *x);
    ops->cast(a, d, n);
    ops->free(d, (size_t)n * sizeof *d);
    return a;
}

/* One linear map with an adapter, alone. */
typedef struct Layer { int N, C, O, r; Var x, w, a, b; LowRank low; Tape t; Var *y; } Layer;

static Var param(const real *v, int64_t n, int learns)
{
    Var p = { .w = ops->alloc((size_t)n * sizeof *p.w), .n = n, .param = 1 };
    ops->put(p.w, v, (size_t)n * sizeof *v);
    p.v = act_of(v, n);
    p.dw = learns ? ops->alloc((size_t)n * sizeof *p.dw) : NULL;
    return p;
}

static void layer_init(Layer *l, const real *w, const real *a, const real *b, const real *x, int N,
                       int C, int O, int r, double scale)
{
    *l = (Layer){ .N = N, .C = C, .O = O, .r = r };
    l->w = param(w, (int64_t)O * C, 0);
    l->a = param(a, (int64_t)r * C, 1);
    l->b = param(b, (int64_t)O * r, 1);
    l->x = (Var){ .v = act_of(x, (int64_t)N * C), .n = (int64_t)N * C };
    l->low = (LowRank){ &l->a, &l->b, r, scale };
    l->w.low = &l->low;
    tape_init(&l->t, ops);
}

static void param_free(Var *p)
{
    ops->free(p->w, (size_t)p->n * sizeof *p->w);
    ops->free(p->v, (size_t)p->n * ops->act_size);
    if (p->dw) ops->free(p->dw, (size_t)p->n * sizeof *p->dw);
}

static void layer_free(Layer *l)
{
    param_free(&l->w), param_free(&l->a), param_free(&l->b);
    ops->free(l->x.v, (size_t)l->x.n * ops->act_size);
    tape_free(&l->t);
}

static void layer_forward(Layer *l)
{
    ops->cast(l->a.v, l->a.w, l->a.n);
    ops->cast(l->b.v, l->b.w, l->b.n);
    tape_reset(&l->t);
    l->t.on = 1;
    l->x.g = NULL;
    l->y = nn_linear(&l->t, &l->x, &l->w, l->N, l->C, l->O);
}

static void layer_backward(Layer *l, const real *dy)
{
    Act *from = act_of(dy, l->y->n);
    ops->zero(l->a.dw, (size_t)l->a.n * sizeof *l->a.dw);
    ops->zero(l->b.dw, (size_t)l->b.n * sizeof *l->b.dw);
    ops->copy(tape_grad(&l->t, l->y), from, (size_t)l->y->n * ops->act_size);
    tape_backward(&l->t);
    ops->free(from, (size_t)l->N * (size_t)l->O * ops->act_size);
}

/* Takes want. */
static void near_dev(const Act *a, const real *dev, real *want, int64_t n, double tol, const char *what)
{
    real *got = a ? act_host(ops, a, n) : xreallocarray(NULL, (size_t)n, sizeof *got);
    if (!a) ops->get(got, dev, (size_t)n * sizeof *got);
    double d = max_diff(got, want, n);
    ok(d <= tol, "%s: off by %.1e", what, d);
    free(got), free(want);
}

static void check_worked(void)
{
    Arena a = { 0 };
    const char *path = golden("llama", "k_lora_worked.json");
    if (!path) {
        skip("no golden file", "the worked example");
        return;
    }
    const Json *j = json_get(golden_json(&a, path), "example");
    int64_t n;
    real eye[16] = { 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1 };
    real *x = numbers(json_get(j, "x"), &n), *A = numbers(json_get(j, "A"), &n),
         *B = numbers(json_get(j, "B"), &n), *dy = numbers(json_get(j, "grad_y"), &n);
    Layer l;
    layer_init(&l, eye, A, B, x, 1, 4, 4, 1, num(j, "scale"));
    double lr = num(j, "sgd_lr");
    const double tol = f64 ? 1e-9 : 2e-6;
    layer_forward(&l);
    near_dev(l.y->v, NULL, numbers(json_get(j, "y"), &n), 4, tol, "worked example: y");
    layer_backward(&l, dy);
    near_dev(NULL, l.a.dw, numbers(json_get(j, "A_grad"), &n), 4, tol, "gradient of A");
    near_dev(NULL, l.b.dw, numbers(json_get(j, "B_grad"), &n), 4, tol, "gradient of B");
    for (int i = 0; i < 4; i++) {               /* the CPU's memory is ours */
        l.a.w[i] -= (real)(lr * (double)l.a.dw[i]);
        l.b.w[i] -= (real)(lr * (double)l.b.dw[i]);
    }
    layer_forward(&l);
    near_dev(l.y->v, NULL, numbers(json_get(j, "y_new"), &n), 4, tol, "y after a step");
    layer_free(&l);
    free(x), free(A), free(B), free(dy);
    arena_free(&a);
}

/* ---- a layer, five steps of AdamW ------------------------------------------------------ */

static real *step_tensor(const StFile *f, int s, const char *what)
{
    char *key = xasprintf("train.%d.%s", s, what);
    real *x = tensor(f, key, NULL);
    free(key);
    return x;
}

static void check_layer_steps(const StFile *f, Layer *l)
{
    real *target = tensor(f, "train.target", NULL), *loss = tensor(f, "train.loss", NULL);
    int64_t n = (int64_t)l->N * l->O;
    real *dy = xcalloc((size_t)n, sizeof *dy), *m[4];
    for (int i = 0; i < 4; i++) m[i] = ops->alloc(4096 * sizeof **m);
    for (int s = 1; s <= 6; s++) {
        double sum = 0;
        layer_forward(l);
        real *y = act_host(ops, l->y->v, n);
        for (int64_t i = 0; i < n; i++) {
            double d = (double)y[i] - (double)target[i];
            sum += d * d / (double)n;
            dy[i] = (real)(2 * d / (double)n);
        }
        free(y);
        ok(fabs(sum - (double)loss[s - 1]) <= 5e-6, "k_lora_layer: loss before step %d: %.6f", s, sum);
        if (s == 6) break;
        layer_backward(l, dy);
        near_dev(NULL, l->a.dw, step_tensor(f, s, "grad.A"), l->a.n, 5e-6, "its gradient of A");
        near_dev(NULL, l->b.dw, step_tensor(f, s, "grad.B"), l->b.n, 5e-6, "of B");
        double c1 = 1 - pow(0.9, s), c2 = 1 - pow(0.999, s);
        ops->adamw(store_real(l->a.w), store_real(l->a.dw), store_real(m[0]), store_real(m[1]), l->a.n,
                   0.02, 0.9, 0.999, 1e-8, 0.01, c1, c2);
        ops->adamw(store_real(l->b.w), store_real(l->b.dw), store_real(m[2]), store_real(m[3]), l->b.n,
                   0.02, 0.9, 0.999, 1e-8, 0.01, c1, c2);
        near_dev(NULL, l->a.w, step_tensor(f, s, "A"), l->a.n, 5e-6, "A after it");
        near_dev(NULL, l->b.w, step_tensor(f, s, "B"), l->b.n, 5e-6, "B after it");
    }
    for (int i = 0; i < 4; i++) ops->free(m[i], 4096 * sizeof **m);
    free(target), free(loss), free(dy);
}

static void check_layer(void)
{
    const char *path = golden("llama", "k_lora_layer.safetensors");
    if (!path) {
        skip("no golden file", "a layer");
        return;
    }
    StFile *f = st_open(path);
    real *w = tensor(f, "W", NULL), *x = tensor(f, "x", NULL), zero[80] = { 0 };
    real *a = tensor(f, "A", NULL), *b = tensor(f, "B", NULL), *a0 = tensor(f, "train.A0", NULL);
    real *dy = tensor(f, "grad.y", NULL);
    Layer l;
    layer_init(&l, w, a, b, x, 6, 24, 20, 4, 2);
    layer_forward(&l);
    near_dev(l.y->v, NULL, tensor(f, "y", NULL), 120, 5e-6, "k_lora_layer: y");
    layer_backward(&l, dy);
    near_dev(l.x.g, NULL, tensor(f, "grad.x", NULL), 144, 5e-6, "gradient of x");
    near_dev(NULL, l.a.dw, tensor(f, "grad.A", NULL), 96, 5e-6, "of A");
    near_dev(NULL, l.b.dw, tensor(f, "grad.B", NULL), 80, 5e-6, "of B");
    layer_free(&l);
    layer_init(&l, w, a0, zero, x, 6, 24, 20, 4, 2);
    check_layer_steps(f, &l);
    layer_free(&l);
    free(w), free(x), free(a), free(b), free(a0), free(dy);
    st_close(f);
}

/* ---- a model ----------------------------------------------------------------------------- */

/* PEFT's name of a parameter is the file's: base_model.model.MODULE.lora_A.weight for
 * MODULE.lora.A.weight. */
static char *file_name(const char *prefix, const Param *p)
{
    const char *s = p->name + strlen(LORA_PREFIX), *e = strstr(s, ".lora_");
    return xasprintf("%s%.*s.lora.%c.weight", prefix, (int)(e - s), s, e[strlen(".lora_")]);
}

static void check_grad(const StFile *f, const Lora *l, const Param *p)
{
    char *key = file_name("grad.", p);
    int64_t n;
    real *want = tensor(f, key, &n), *got = xreallocarray(NULL, (size_t)n, sizeof *got);
    ops->get(got, l->p->g + p->off, (size_t)n * sizeof *got);
    double d = 0, w = 0;
    for (int64_t i = 0; i < n; i++) {
        d += pow((double)got[i] - (double)want[i], 2);
        w += pow((double)want[i], 2);
    }
    ok(n == p->n && d <= 1e-8 * w, "%s: off by %.1e of its norm", key, sqrt(d / w));
    free(key), free(want), free(got);
}

static void check_logits(const StFile *f, Model *m, Tape *t, Var *x, int N, const char *what)
{
    int64_t n;
    real *want = tensor(f, "logits", &n), *l = model_logits(m, t, x, NULL, N);
    near_dev(NULL, l, want, n, 1e-4, what);
}

static void check_merged(const StFile *f, Lora *l)
{
    lora_merge(l);
    for (int i = 0; i < l->nlow; i++) {
        char *key = xasprintf("merged.%s", l->of[i]->name);
        near_dev(NULL, l->m->w + l->of[i]->off, tensor(f, key, NULL), l->of[i]->n, 2e-6, key);
        free(key);
    }
}

static void check_pass(const StFile *f, Lora *l, Tape *t, int recompute)
{
    Model *m = l->m;
    int64_t n;
    int *ids = tensor_i32(f, "ids", &n), *tgt = tensor_i32(f, "targets", NULL), valid = 0;
    int N = (int)n, T = 16, B = N / T;
    real *loss = ops->alloc((size_t)N * sizeof *loss), *want = tensor(f, "loss", NULL);
    double sum = 0;
    for (int i = 0; i < N; i++) valid += tgt[i] >= 0;
    tape_reset(t);
    t->on = 1;
    t->recompute = recompute;
    model_zero_grad(l->p);
    Var *x = model_forward(m, t, ids, B, T, NULL);
    check_logits(f, m, t, x, N, "k_lora_model: logits");
    model_loss(m, t, x, tgt, NULL, N, loss, 1.0 / valid);
    for (int i = 0; i < N; i++) sum += (double)loss[i] / valid;
    ok(fabs(sum - (double)want[0]) <= 1e-5, "loss %.6f", sum);
    tape_backward(t);
    for (int i = 0; i < l->p->nparam; i++) check_grad(f, l, &l->p->param[i]);
    if (recompute) {
        check_merged(f, l);
        tape_reset(t);
        t->on = 0;
        check_logits(f, m, t, model_forward(m, t, ids, B, T, NULL), N, "logits of the merged model");
    }
    ops->free(loss, (size_t)N * sizeof *loss);
    free(ids), free(tgt), free(want);
}

static void check_model(void)
{
    const char *path = golden("llama", "k_lora_model.safetensors"), *bad;
    if (!path) {
        skip("no golden file", "a model");
        return;
    }
    StFile *f = st_open(path);
    Config c = golden_config(f);
    Model *m = golden_weights(f, &c, ops, 0);
    LoraSpec s;
    Lora *l = lora_parse(&s, "r=4,alpha=4,targets=q,o") ? NULL : lora_new(m, &s, 1, &bad);
    for (int i = 0; i < l->p->nparam; i++) {
        char *key = file_name("", &l->p->param[i]);
        real *x = tensor(f, key, NULL);
        model_set(l->p, &l->p->param[i], x);
        free(x), free(key);
    }
    ok(l->p->nparam == 8 && !m->g, "two adapters a layer; the model has no gradients");
    Tape t;
    tape_init(&t, ops);
    check_pass(f, l, &t, 0);
    check_pass(f, l, &t, 1);
    tape_free(&t);
    lora_free(l);
    lora_spec_free(&s);
    model_free(m);
    st_close(f);
}

int main(void)                  /* REAL_F64: in doubles as well */
{
    ops = ops_cpu(1);
    check_worked();
    check_layer();
    check_model();
    return done();
}
