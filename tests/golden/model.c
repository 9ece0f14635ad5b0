/* Golden cases A and B: logits, losses, activations, their gradients, every parameter's gradient.
 * Built with real = float (tolerances of the float32 reference) and, as REAL_F64, with real =
 * double (against the float64 files, 1e-9). */
#include "tensors.h"

typedef struct Seen { char name[64]; Var *var; real *v, *g; } Seen;
static Seen seen[64];
static int nseen;
static const Ops *ops;

static void on_act(void *arg, const char *name, Var *x)
{
    (void)arg;
    Seen *s = &seen[nseen++];
    snprintf(s->name, sizeof s->name, "%s", name);
    s->var = x;
    s->v = act_host(ops, x->v, x->n);
}

static void on_grad(void *arg, Var *x)
{
    (void)arg;
    for (int i = 0; i < nseen; i++)
        if (seen[i].var == x)
            seen[i].g = act_host(ops, x->g, x->n);
}

static Seen *find(const char *name)
{
    for (int i = 0; i < nseen; i++)
        if (strcmp(seen[i].name, name) == 0)
            return &seen[i];
    return NULL;
}

/* x of max: |got - want| <= tol * max |want| */
static void close_to(const char *what, const char *name, const real *got, const real *want,
                     int64_t n, double tol)
{
    double d = max_diff(got, want, n), m = max_abs(want, n);
    ok(d <= tol * m, "%s %s: off by %.1e of max %.1e", what, name, d / m, m);
}

static Seen *in_layer(const char *name, const char *what)
{
    char s[64];
    snprintf(s, sizeof s, "%.*s%s", (int)(strrchr(name, '.') + 1 - name), name, what);
    return find(s);
}

/* What attention and mlp add to the stream exists only in the sum: the difference of the sums,
 * exact to their rounding; its gradient is that of the sum. */
static int check_branch(const char *name, int grad, const real *want, int64_t n, double tol)
{
    int attn = !!strstr(name, "attn_out");
    if (!attn && !strstr(name, "mlp_out"))
        return 0;
    Seen *from = in_layer(name, attn ? "block_in" : "middle"),
         *to = in_layer(name, attn ? "middle" : "block_out");
    if (!from || !to || to->var->n != n)
        return 0;
    if (grad) {
        close_to("gradient of", name, to->g, want, n, tol);
        return 1;
    }
    double d = 0, most = max_abs(to->v, n);
    for (int64_t i = 0; i < n; i++)
        d = fmax(d, fabs((double)to->v[i] - (double)from->v[i] - (double)want[i]));
    ok(d <= tol * most, "activation %s: off by %.1e of max %.1e", name, d / most, most);
    return 1;
}

static void check_acts(const StFile *f)
{
    double tol_v = f64 ? 1e-9 : 5e-6, tol_g = f64 ? 1e-9 : 1e-5;
    int missing = 0;
    for (int i = 0; i < st_count(f); i++) {
        const char *name = st_at(f, i)->name;
        int grad = strncmp(name, "gradact.", 8) == 0;
        Seen *s = find(name + (grad ? 8 : 4));
        int64_t n;
        real *want = tensor(f, name, &n);
        if (!s) {                   /* ve_gate_logit and lm_head_out have checks of their own */
            missing += !strstr(name, "ve_gate_logit") && !strstr(name, "lm_head_out") &&
                       !check_branch(name + (grad ? 8 : 4), grad, want, n, grad ? tol_g : tol_v);
            free(want);
            continue;
        }
        ok(s->var->n == n, "%s has %lld values", name, (long long)n);
        close_to(grad ? "gradient of" : "activation", name, grad ? s->g : s->v, want, n,
                 grad ? tol_g : tol_v);
        free(want);
    }
    ok(missing == 0 && st_count(f) >= 40, "%d activations and gradients, %d of them not seen",
       st_count(f), missing);
}

/* The gate's logit and its gradient live inside one operation: follow them from its neighbours. */
static void check_gate(const StFile *f, const StFile *w, const int32_t *ids)
{
    int64_t n;
    real *logit = tensor(f, "act.h.0.ve_gate_logit", &n),
         *dlogit = tensor(f, "gradact.h.0.ve_gate_logit", NULL);
    real *gate = tensor(w, "transformer.h.0.attn.ve_gate.weight", NULL),
         *ve = tensor(w, "value_embeds.0.weight", NULL);
    Seen *h = find("h.0.attn_in"), *v = find("h.0.v");
    real *z = xcalloc((size_t)n, sizeof *z), *dz = xcalloc((size_t)n, sizeof *dz);
    for (int64_t i = 0; i < n; i++) {
        int64_t row = i / 2, k = i % 2;
        double s = 0, dot = 0;
        for (int c = 0; c < 12; c++)
            s += (double)gate[k * 12 + c] * h->v[row * 64 + c];
        for (int d = 0; d < 16; d++)
            dot += (double)v->g[i * 16 + d] * ve[ids[row] * 32 + k * 16 + d];
        double y = 1 / (1 + exp(-s));
        z[i] = (real)s;
        dz[i] = (real)(dot * 3 * y * (1 - y));
    }
    close_to("activation", "ve_gate_logit", z, logit, n, f64 ? 1e-9 : 5e-6);
    close_to("gradient of", "ve_gate_logit", dz, dlogit, n, f64 ? 1e-9 : 1e-5);
    free(z), free(dz), free(logit), free(dlogit), free(gate), free(ve);
}

/* lm_head_out, raw and padded, and its gradient: loss through the operations that nn_loss uses */
static void check_head(const StFile *f, Model *m, const int *tgt, int N, int valid)
{
    const Config *c = &m->cfg;
    Seen *x = find("lm_head_in");
    int64_t n;
    real *want = tensor(f, "act.lm_head_out", &n), *dwant = tensor(f, "gradact.lm_head_out", NULL);
    size_t bytes = (size_t)n * ops->act_size;
    Act *z = ops->alloc(bytes);
    real *loss = ops->alloc((size_t)N * sizeof *loss);
    ops->linear(z, x->var->v, model_find(m, "lm_head.weight")->var.v, N, c->C, c->Vp, 0);
    real *got = act_host(ops, z, n);
    close_to("activation", "lm_head_out", got, want, n, f64 ? 1e-9 : 5e-6);
    free(got);
    ops->xent(loss, z, tgt, NULL, N, c->V, c->Vp, 15, (real)(1.0 / valid));
    got = act_host(ops, z, n);
    close_to("gradient of", "lm_head_out", got, dwant, n, f64 ? 1e-9 : 1e-5);
    free(got), free(want), free(dwant);
    ops->free(z, bytes);
    ops->free(loss, (size_t)N * sizeof *loss);
}

static void check_logits(const StFile *f, Model *m, Tape *t, Var *x, int N)
{
    int V = m->cfg.V;
    int64_t n;
    real *want = tensor(f, "logits", &n),
         *got = xreallocarray(NULL, (size_t)N * (size_t)V, sizeof *got);
    ops->get(got, model_logits(m, t, x, NULL, N), (size_t)N * (size_t)V * sizeof *got);
    real *pick = got;
    if (st_find(f, "positions")) {          /* logits are given at some positions only */
        int64_t np;
        int32_t *pos = tensor_i32(f, "positions", &np);
        pick = xreallocarray(NULL, (size_t)n, sizeof *pick);
        for (int64_t i = 0; i < np; i++)
            memcpy(pick + i * V, got + (int64_t)pos[i] * V, (size_t)V * sizeof *pick);
        free(pos);
    }
    double d = max_diff(pick, want, n);
    ok(d <= (f64 ? 1e-9 : 1e-5), "logits: off by %.1e", d);
    if (pick != got)
        free(pick);
    free(got), free(want);
}

static void check_grads(const StFile *f, Model *m)
{
    for (int i = 0; i < m->nparam; i++) {
        const Param *p = &m->param[i];
        char name[96];
        snprintf(name, sizeof name, "grad.%s", p->name);
        real *want = tensor(f, name, NULL), *got = xreallocarray(NULL, (size_t)p->n, sizeof *got);
        ops->load(got, var_grad(&p->var), p->n);
        close_to("gradient of", p->name, got, want, p->n, f64 ? 1e-9 : p->group == PG_MATRIX || p->n > 24 ? 1e-5 : 1e-4);
        int zeros = 1;
        for (int64_t k = 0; k < p->n; k++)
            zeros &= want[k] != 0 || got[k] == 0;
        ok(zeros, "%s: what is zero in the reference is zero", p->name);
        free(want), free(got);
    }
}

static void run(char which)
{
    char file[64];
    const char *suffix = f64 ? "_f64" : "";
    snprintf(file, sizeof file, "%c_model.safetensors", which);
    char grads[64];
    snprintf(grads, sizeof grads, "%c_grads%s.safetensors", which, suffix);
    if (!golden("nanochat", file) || !golden("nanochat", grads)) {
        skip("the golden files are not here", "case %c%s", which, suffix);
        return;
    }
    StFile *w = st_open(golden("nanochat", file));
    Model *m = golden_model(w, ops, 1);
    int64_t n64;
    int32_t *ids = tensor_i32(w, "ids", &n64), *tgt = tensor_i32(w, "targets", NULL);
    int N = (int)n64, B = which == 'a' ? 2 : 1, valid = 0;
    for (int i = 0; i < N; i++)
        valid += tgt[i] >= 0;
    int *didx = ops->alloc((size_t)N * sizeof *didx), *dtgt = ops->alloc((size_t)N * sizeof *dtgt);
    real *dloss = ops->alloc((size_t)N * sizeof *dloss), *loss = xcalloc((size_t)N, sizeof *loss);
    ops->put(didx, ids, (size_t)N * sizeof *didx);
    ops->put(dtgt, tgt, (size_t)N * sizeof *dtgt);

    nseen = 0;
    m->on_act = on_act;
    Tape t;
    tape_init(&t, ops);
    t.on = 1;
    t.on_grad = on_grad;
    Var *x = model_forward(m, &t, didx, B, N / B, NULL);
    model_loss(m, &t, x, dtgt, NULL, N, dloss, 1.0 / valid);
    ops->get(loss, dloss, (size_t)N * sizeof *loss);

    snprintf(file, sizeof file, "%c_out%s.safetensors", which, suffix);
    StFile *out = st_open(golden("nanochat", file));
    check_logits(out, m, &t, x, N);
    real *want = tensor(out, "loss_per_pos", NULL), *mean = tensor(out, "loss", NULL);
    double d = max_diff(loss, want, N), sum = 0;
    ok(d <= (f64 ? 1e-9 : 1e-5), "loss per position: off by %.1e", d);
    for (int i = 0; i < N; i++)
        sum += loss[i];
    d = fabs(sum / valid - mean[0]);
    ok(d <= (f64 ? 1e-9 : 2e-6), "mean loss %.6f: off by %.1e", sum / valid, d);
    free(want), free(mean);
    st_close(out);

    StFile *acts = NULL;
    snprintf(file, sizeof file, "%c_acts%s.safetensors", which, suffix);
    if (golden("nanochat", file)) {
        acts = st_open(golden("nanochat", file));
        check_head(acts, m, dtgt, N, valid);
    } else if (which == 'a') {
        skip("the golden file is not here", "activations and their gradients, %s", file);
    }
    tape_backward(&t);
    StFile *g = st_open(golden("nanochat", grads));
    check_grads(g, m);
    st_close(g);
    if (acts) {
        check_acts(acts);
        check_gate(acts, w, ids);
        st_close(acts);
    }
    for (int i = 0; i < nseen; i++)
        free(seen[i].v), free(seen[i].g), seen[i].g = NULL;
    ops->free(didx, (size_t)N * sizeof *didx);
    ops->free(dtgt, (size_t)N * sizeof *dtgt);
    ops->free(dloss, (size_t)N * sizeof *dloss);
    free(loss), free(ids), free(tgt);
    tape_free(&t);
    model_free(m);
    st_close(w);
}

int main(void)
{
    ops = ops_open(GOLDEN_DEVICE, "fp32", 2);
    run('a');
    run('b');
    return done();
}
