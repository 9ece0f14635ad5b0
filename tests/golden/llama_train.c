/* golden/llama l_*: AdamW, clipping, schedules, accumulation, six training steps. */
#include "gpt/optim.h"
#include "gpt/sched.h"
#include "tensors.h"

static const Ops *ops;

static const Json *parse_meta(const StFile *f, const char *key, Arena *a)
{
    const Json *text = json_get(st_meta(f), key);
    const char *err;
    size_t at;
    const Json *j = json_parse(a, text->s, text->len, &err, &at);
    if (!j) die("golden metadata %s: %s", key, err);
    return j;
}

static StFile *open_set(const char *name)
{
    const char *path = golden("llama", name);
    if (!path) skip("no golden file", "%s", name);
    return path ? st_open(path) : NULL;
}

/* ---- AdamW, clipping -------------------------------------------------------------- */

static real *part(const StFile *f, int64_t *n, const char *fmt, int a, int b, int c)
{
    char key[32];
    snprintf(key, sizeof key, fmt, a, b, c);
    return st_find(f, key) ? tensor(f, key, n) : NULL;
}

static void adamw_tensor(const StFile *f, const Json *k, int id, int i)
{
    const Json *betas = json_get(k, "betas");
    double b1 = betas->child->num, b2 = betas->child->next->num, worst = 0, w2 = 0;
    int64_t n;
    real *p = part(f, &n, "%d.p%d.%d", id, i, 0);
    real *m = xcalloc((size_t)n, sizeof *m), *v = xcalloc((size_t)n, sizeof *v);
    for (int s = 1; s <= 8; s++) {
        real *g = part(f, NULL, "%d.g%d.%d", id, i, s), *want = part(f, NULL, "%d.p%d.%d", id, i, s);
        ops->adamw(store_real(p), store_real(g), store_real(m), store_real(v), n,
                   num(k, "lr0") * (1 - (s - 1) / 16.0), b1, b2, num(k, "eps"), num(k, "weight_decay"),
                   1 - pow(b1, s), 1 - pow(b2, s));
        worst = fmax(worst, max_diff(p, want, n));
        free(g), free(want);
    }
    real *wm = part(f, NULL, "%d.m%d.8", id, i, 0), *wv = part(f, NULL, "%d.v%d.8", id, i, 0);
    for (int64_t j = 0; j < n; j++) {
        w2 = fmax(w2, fabs((double)m[j] - (double)wm[j]) / (fabs((double)wm[j]) + 1e-12));
        w2 = fmax(w2, fabs((double)v[j] - (double)wv[j]) / (fabs((double)wv[j]) + 1e-12));
    }
    ok(worst <= 2e-6 && w2 <= 3e-5, "adamw case %d, tensor %d: p off by %.1e, moments by %.1e", id,
       i, worst, w2);
    free(p), free(m), free(v), free(wm), free(wv);
}

static void check_adamw(void)
{
    Arena a = { 0 };
    StFile *f = open_set("l_adamw.safetensors");
    if (!f) return;
    for (const Json *k = parse_meta(f, "cases", &a)->child; k; k = k->next)
        for (int i = 0; i < 3; i++) adamw_tensor(f, k, (int)num(k, "index"), i);
    st_close(f);
    arena_free(&a);
}

static void check_clip(void)
{
    Arena a = { 0 };
    StFile *f = open_set("l_clip.safetensors");
    if (!f) return;
    for (const Json *k = parse_meta(f, "cases", &a)->child; k; k = k->next) {
        int id = (int)num(k, "index");
        double *sum = ops->alloc(sizeof *sum), got, worst = 0;
        int64_t n;
        real *g;
        for (int i = 0; (g = part(f, &n, "%d.g%d", id, i, 0)); i++, free(g))
            ops->sumsq(sum, store_real(g), n);
        ops->get(&got, sum, sizeof got);
        double by = clip_factor(sqrt(got), num(k, "max_norm"));
        for (int i = 0; (g = part(f, &n, "%d.g%d", id, i, 0)); i++, free(g)) {
            real *want = part(f, NULL, "%d.c%d", id, i, 0);
            ops->scale(store_real(g), by, n);
            for (int64_t j = 0; j < n; j++)
                if (want[j] != 0)
                    worst = fmax(worst, fabs((double)g[j] / (double)want[j] - 1));
            free(want);
        }
        ok(worst <= 1e-6, "clip case %d: off by %.1e", id, worst);
        ops->free(sum, sizeof *sum);
    }
    st_close(f);
    arena_free(&a);
}

/* ---- schedules, accumulation --------------------------------------------------------- */

static void check_cosine(const Json *k)
{
    int64_t n = (int64_t)num(k, "T_max");
    double top = num(k, "lr_max"), worst = 0;
    Sched s = { .kind = SCHED_COSINE, .n = n, .final_frac = num(k, "lr_min") / top };
    const Json *at = json_get(k, "steps")->child, *want = json_get(k, "formula")->child;
    for (; at; at = at->next, want = want->next)
        if (at->num <= (double)n)
            worst = fmax(worst, fabs(top * sched_at(&s, (int64_t)at->num).lr / want->num - 1));
    ok(worst <= 1e-12, "cosine over %d steps: off by %.1e", (int)n, worst);
    ok(near(top * sched_at(&s, n + 100).lr, num(k, "lr_min"), 1e-12), "and after them");
}

static void check_minimind(const Json *k)
{
    Sched s = { .kind = SCHED_MINIMIND, .n = (int64_t)num(k, "total_steps"), .final_frac = 0.1 };
    double lr = num(k, "lr"), worst = 0;
    const Json *at = json_get(k, "steps")->child, *want = json_get(k, "lr_at")->child;
    for (; at; at = at->next, want = want->next)
        worst = fmax(worst, fabs(lr * sched_at(&s, (int64_t)at->num - 1).lr / want->num - 1));
    ok(worst <= 1e-12, "MiniMind's cosine over %d steps: off by %.1e", (int)s.n, worst);
}

static real *numbers(const Json *rows, int *n, int *m)
{
    *n = rows->n, *m = rows->child->n;
    real *x = xcalloc((size_t)(*n * *m), sizeof *x), *p = x;
    for (const Json *r = rows->child; r; r = r->next)
        for (const Json *e = r->child; e; e = e->next) *p++ = (real)e->num;
    return x;
}

/* Each micro-batch's losses count 1 / (targets of all). */
static void check_accumulation(const Json *k)
{
    int V, C, N, C2, n = 0, valid = 0;
    real *w = numbers(json_get(k, "W"), &V, &C), *x = numbers(json_get(k, "X"), &N, &C2);
    int V2, C3, tgt[64];
    real *want = numbers(json_get(k, "grad"), &V2, &C3), loss[64];
    real *dw = xcalloc((size_t)(V * C), sizeof *dw), *z = xcalloc((size_t)(N * V), sizeof *z);
    for (const Json *t = json_get(k, "targets")->child; t; t = t->next) tgt[n++] = (int)t->num;
    for (int i = 0; i < n; i++) valid += tgt[i] >= 0;
    double sum = 0, d = 0, norm = 0;
    for (const Json *m = json_get(k, "micro_batches")->child; m; m = m->next) {
        int from = (int)m->child->num, rows = (int)m->child->next->num - from;
        ops->linear((Act *)z, (Act *)(x + from * C), (Act *)w, rows, C, V, 0);
        ops->xent(loss, (Act *)z, tgt + from, NULL, rows, V, V, 0, (real)(1.0 / valid));
        ops->linear_dw(dw, (Act *)z, (Act *)(x + from * C), rows, C, V);
        for (int i = 0; i < rows; i++) sum += (double)loss[i] / valid;
    }
    for (int i = 0; i < V * C; i++) {
        d += pow((double)dw[i] - (double)want[i], 2);
        norm += pow((double)want[i], 2);
    }
    ok(n == N && near(sum, num(k, "loss"), 2e-6) && d <= 1e-12 * norm,
       "accumulation: loss %.6f, gradient off by %.1e of its norm", sum, sqrt(d / norm));
    free(w), free(x), free(want), free(dw), free(z);
}

static void check_schedules(void)
{
    Arena a = { 0 };
    const char *path = golden("llama", "l_schedule_accumulation.json");
    if (!path) {
        skip("no golden file", "schedules, accumulation");
        return;
    }
    const Json *j = golden_json(&a, path);
    for (const Json *k = json_get(j, "cosine")->child; k; k = k->next) check_cosine(k);
    const Json *mm = json_get(json_get(j, "minimind_cosine"), "cases");
    for (const Json *k = mm->child; k; k = k->next) check_minimind(k);
    check_accumulation(json_get(json_get(j, "accumulation"), "linear"));
    arena_free(&a);
}

/* ---- training --------------------------------------------------------------------- */

/* targets from labels: the loss shifts them */
static int fill(const Json *rows, int *to, int labels)
{
    int n = 0, valid = 0;
    for (const Json *r = rows->child; r; r = r->next)
        for (const Json *e = r->child; e; e = e->next) {
            const Json *from = labels ? e->next : e;
            to[n] = from && from->num >= 0 ? (int)from->num : -1;
            valid += to[n++] >= 0;
        }
    return valid;
}

static void check_run(const Json *run)
{
    StFile *f = open_set(json_get(run, "weights_file")->s);
    Config c = golden_config(f);
    Model *m = golden_weights(f, &c, ops, 1);
    const Json *b = json_get(run, "betas"), *rows = json_get(run, "ids");
    int B = rows->n, T = rows->child->n, N = B * T, step = 0;
    int *ids = xcalloc((size_t)N, sizeof *ids), *tgt = xcalloc((size_t)N, sizeof *tgt);
    real *loss = ops->alloc((size_t)N * sizeof *loss);
    fill(rows, ids, 0);
    int valid = fill(json_get(run, "labels"), tgt, 1);
    OptimSettings s = { .adamw = 1, .lr = num(run, "lr0"), .lr_scale = 1, .beta1 = b->child->num,
                        .beta2 = b->child->next->num, .eps = num(run, "eps"),
                        .weight_decay = num(run, "weight_decay") };
    Optim *o = optim_new(m, &s);
    Sched sched = { .kind = SCHED_MINIMIND, .n = 10, .final_frac = 0.1 };
    Tape t;
    tape_init(&t, ops);
    for (const Json *k = json_get(run, "steps")->child; k; k = k->next, step++) {
        double sum = 0, aux = 0, mult = sched_at(&sched, step).lr;
        tape_reset(&t);
        t.on = 1;
        model_zero_grad(m);
        Var *x = model_forward(m, &t, ids, B, T, NULL);
        model_loss(m, &t, x, tgt, NULL, N, loss, 1.0 / valid);
        tape_backward(&t);
        for (int i = 0; i < N; i++) sum += (double)loss[i] / valid;
        for (int i = 0; m->aux && i < c.L; i++) aux += c.llama.aux * (double)m->aux[i];
        double norm = grad_norm(m);
        ok(near(s.lr * mult, num(k, "lr"), 1e-12) && fabs(sum - num(k, "loss")) <= 1e-3 &&
               fabs(aux - num(k, "aux_loss")) <= 1e-4 && near(norm, num(k, "grad_norm"), 1e-3),
           "%s, step %d: loss %.5f (%.5f), aux %.5f, norm %.4f", json_get(run, "model")->s,
           step + 1, sum, num(k, "loss"), aux, norm);
        grad_scale(m, clip_factor(norm, num(run, "max_norm")));
        optim_step(o, mult, 0, 0);
    }
    tape_free(&t);
    optim_free(o);
    ops->free(loss, (size_t)N * sizeof *loss);
    free(ids), free(tgt);
    model_free(m);
    st_close(f);
}

int main(void)
{
    Arena a = { 0 };
    ops = ops_cpu(1);
    check_adamw();
    check_clip();
    check_schedules();
    const char *path = golden("llama", "l_train.json");
    if (path)
        for (const Json *k = json_get(golden_json(&a, path), "runs")->child; k; k = k->next)
            check_run(k);
    else
        skip("no golden file", "training");
    arena_free(&a);
    return done();
}
