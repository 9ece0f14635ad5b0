/* The Llama family against golden/llama: logits, losses, activations, every gradient, YaRN, cached
 * decoding, greedy text. */
#include "gpt/decode.h"
#include "tensors.h"

#ifndef STRIDE
#define STRIDE 1                                /* every so many of the models and texts */
#endif
static const Ops *ops;
static const char *file;                        /* for messages */

static StFile *open_set(const char *name)
{
    const char *path = golden("llama", name);
    file = name;
    return path ? st_open(path) : NULL;
}

/* ---- activations --------------------------------------------------------------- */

typedef struct Seen { char name[40]; real *v; int64_t n; } Seen;
static Seen seen[64];
static int nseen;

static void on_act(void *arg, const char *name, Var *x)
{
    (void)arg;
    Seen *s = &seen[nseen++];
    snprintf(s->name, sizeof s->name, "%s", name);
    s->v = act_host(ops, x->v, x->n);
    s->n = x->n;
}

static Seen *find(const char *name)
{
    for (int i = 0; i < nseen; i++)
        if (!strcmp(seen[i].name, name)) return &seen[i];
    die("activation %s was not seen", name);
}

static void forget(void)
{
    while (nseen > 0) free(seen[--nseen].v);
}

/* What attention adds exists only in the sum. */
static void check_acts(const StFile *f, int L)
{
    for (int i = 0; i <= L; i++) {
        char *name = i < L ? xasprintf("layers.%d", i) : xasprintf("norm");
        char *key = xasprintf("act.%s", name), *sum = xasprintf("act.layers.%d.attn", i);
        if (st_find(f, key)) {
            real *want = tensor(f, key, NULL);
            Seen *s = find(name);
            double d = max_diff(s->v, want, s->n);
            ok(d <= 1e-4, "%s %s: off by %.1e", file, name, d);
            free(want);
        }
        if (i < L && st_find(f, sum)) {
            real *want = tensor(f, sum, NULL);
            char *in = xasprintf("layers.%d.in", i), *mid = xasprintf("layers.%d.middle", i);
            Seen *a = find(in), *b = find(mid);
            double d = 0;
            for (int64_t k = 0; k < a->n; k++)
                d = fmax(d, fabs((double)b->v[k] - (double)a->v[k] - (double)want[k]));
            ok(d <= 1e-4, "%s %s: off by %.1e", file, sum, d);
            free(want), free(in), free(mid);
        }
        free(name), free(key), free(sum);
    }
}

/* ---- one batch: forward, backward ------------------------------------------------ */

typedef struct Batch { int B, T, N, valid; int *ids, *tgt; int *dids, *dtgt; } Batch;

static char *join(const char *a, const char *b) { return xasprintf("%s%s", a, b); }

static Batch batch(const StFile *f, const char *prefix)
{
    char *ids = join(prefix, "ids"), *tgt = join(prefix, "targets");
    const StTensor *t = st_find(f, ids);
    Batch b = { .B = (int)t->dim[0], .T = (int)t->dim[1], .N = (int)t->n };
    b.ids = tensor_i32(f, ids, NULL);
    size_t bytes = (size_t)b.N * sizeof(int);
    b.dids = ops->alloc(bytes), b.dtgt = ops->alloc(bytes);
    ops->put(b.dids, b.ids, bytes);
    if (st_find(f, tgt)) {
        b.tgt = tensor_i32(f, tgt, NULL);
        ops->put(b.dtgt, b.tgt, bytes);
        for (int i = 0; i < b.N; i++) b.valid += b.tgt[i] >= 0;
    }
    free(ids), free(tgt);
    return b;
}

static void batch_free(Batch *b)
{
    size_t bytes = (size_t)b->N * sizeof(int);
    ops->free(b->dids, bytes);
    ops->free(b->dtgt, bytes);
    free(b->ids), free(b->tgt);
}

static void check_logits(const StFile *f, const char *key, Model *m, Tape *t, Var *x, int N)
{
    int64_t n;
    real *want = tensor(f, key, &n), *l = model_logits(m, t, x, NULL, N);
    real *got = xreallocarray(NULL, (size_t)n, sizeof *got);
    ops->get(got, l, (size_t)n * sizeof *got);
    double d = max_diff(got, want, n);
    ok(n == (int64_t)N * m->cfg.V && d <= 1e-4, "%s %s: off by %.1e", file, key, d);
    free(want), free(got);
}

static void check_grad(const StFile *f, const char *prefix, const Param *p)
{
    char *key = xasprintf("%sgrad.%s", prefix, p->name);
    int64_t n;
    real *want = tensor(f, key, &n), *got = xreallocarray(NULL, (size_t)p->n, sizeof *got);
    ops->load(got, var_grad(&p->var), p->n);
    double d = 0, w = 0, tol = strstr(key, "mlp.gate.") && strstr(file, "c_moe_top1.") ? 1e-3 : 1e-4;
    for (int64_t i = 0; i < p->n; i++) {
        d += pow((double)got[i] - (double)want[i], 2);
        w += pow((double)want[i], 2);
    }
    ok(n == p->n && d <= tol * tol * w, "%s %s: off by %.1e of its norm %.1e", file, key,
       d > 0 ? sqrt(d / w) : 0, sqrt(w));
    free(key), free(want), free(got);
}

/* the auxiliary losses by layer; experts without tokens have gradient 0 to the bit */
static void check_aux(const StFile *f, const char *prefix, Model *m)
{
    char *key = join(prefix, "aux_loss.layers"), *count = join(prefix, "router.count");
    int L = m->cfg.L, E = m->cfg.llama.E;
    if (E && st_find(f, key)) {
        real *want = tensor(f, key, NULL), got[16];
        int32_t *n = tensor_i32(f, count, NULL);
        double worst = 0, left = 0;
        int idle = 0;
        ops->get(got, m->aux, (size_t)L * sizeof *got);
        for (int i = 0; i < L; i++)
            worst = fmax(worst, fabs(m->cfg.llama.aux * (double)got[i] - (double)want[i]));
        ok(worst <= 1e-5, "%s %s: off by %.1e", file, key, worst);
        for (int i = 0; i < m->nparam; i++) {
            int layer, e;
            const Param *p = &m->param[i];
            if (sscanf(p->name, "model.layers.%d.mlp.experts.%d.", &layer, &e) != 2 ||
                n[layer * E + e])
                continue;
            idle++;
            left = fmax(left, max_abs(m->g + p->off, p->n));
        }
        ok(left == 0, "%s %s: %d matrices of idle experts have gradient 0", file, prefix, idle);
        free(want), free(n);
    }
    free(key), free(count);
}

static void check_batch(const StFile *f, const char *prefix, Model *m, Tape *t)
{
    Batch b = batch(f, prefix);
    char *logits = join(prefix, "logits"), *key = join(prefix, "loss");
    real *dloss = ops->alloc((size_t)b.N * sizeof *dloss), *loss = xcalloc((size_t)b.N, sizeof *loss);
    int grads = m->g && st_find(f, "grad.model.norm.weight");
    tape_reset(t);
    t->on = m->g != NULL;
    if (m->g) model_zero_grad(m);
    m->on_act = *prefix || t->recompute ? NULL : on_act;
    Var *x = model_forward(m, t, b.dids, b.B, b.T, NULL);
    if (m->on_act) check_acts(f, m->cfg.L);
    forget();
    check_logits(f, logits, m, t, x, b.N);
    if (b.tgt && st_find(f, key)) {
        model_loss(m, t, x, b.dtgt, NULL, b.N, dloss, 1.0 / b.valid);
        ops->get(loss, dloss, (size_t)b.N * sizeof *loss);
        double sum = 0;
        for (int i = 0; i < b.N; i++) sum += (double)loss[i];
        real *want = tensor(f, key, NULL);
        ok(fabs(sum / b.valid - (double)want[0]) <= 1e-5, "%s %s: off by %.1e", file, key,
           sum / b.valid - (double)want[0]);
        free(want);
        if (t->on) tape_backward(t);
        for (int i = 0; grads && i < m->nparam; i++) check_grad(f, prefix, &m->param[i]);
        if (t->on) check_aux(f, prefix, m);
    }
    ops->free(dloss, (size_t)b.N * sizeof *dloss);
    free(loss), free(logits), free(key);
    batch_free(&b);
}

static void check_model(const char *name)
{
    StFile *f = open_set(name);
    if (!f) {
        skip("no golden file", "%s", name);
        return;
    }
    Config c = golden_config(f);
    Model *m = golden_weights(f, &c, ops, 1);
    Tape t;
    tape_init(&t, ops);
    for (int again = 0; again < 2; again++) {   /* nothing of the first pass may stay */
        t.recompute = again;
        check_batch(f, "", m, &t);
        if (st_find(f, "idle.ids")) check_batch(f, "idle.", m, &t);
    }
    tape_free(&t);
    model_free(m);
    st_close(f);
}

/* ---- YaRN ------------------------------------------------------------------------ */

static Json *parse_meta(const StFile *f, const char *key, Arena *a)
{
    const Json *text = json_get(st_meta(f), key);
    const char *err;
    size_t at;
    Json *j = json_parse(a, text->s, text->len, &err, &at);
    if (!j) die("golden metadata %s: %s", key, err);
    return j;
}

/* A model's configuration with another context and rope_scaling, through config.json's text. */
static Config scaled(int D, double theta, int T, const Json *yarn, int V)
{
    Arena a = { 0 };
    Buf b = { 0 };
    const char *err = "";
    size_t at;
    Config c;
    buf_printf(&b,
               "{\"model_type\": \"minimind\", \"hidden_size\": %d, \"num_attention_heads\": 1, "
               "\"head_dim\": %d, \"vocab_size\": %d, \"num_hidden_layers\": 1, "
               "\"max_position_embeddings\": %d, \"rope_theta\": %.17g, \"rope_scaling\": %.*s}",
               D, D, V, T, theta, (int)yarn->src_len, yarn->src);
    Json *j = json_parse(&a, b.s, b.n, &err, &at);
    if (!j || (err = config_parse(&c, j))) die("golden config: %s", err);
    arena_free(&a);
    buf_free(&b);
    return c;
}

static void check_table(const StFile *f, const Json *k, int i)
{
    Config c = scaled((int)num(k, "head_dim"), num(k, "theta"), (int)num(k, "length"),
                      json_get(k, "rope_scaling"), 8);
    Model *m = model_new(ops, &c, 0);
    int D = c.D, half = D / 2;
    char *key[4];
    static const char *const what[] = { "rows", "cos.exact", "sin.exact", "inv_freq.exact" };
    for (int j = 0; j < 4; j++) key[j] = xasprintf("%02d.%s", i, what[j]);
    int64_t n;
    int32_t *row = tensor_i32(f, key[0], &n);
    real *cs = tensor(f, key[1], NULL), *sn = tensor(f, key[2], NULL), *fr = tensor(f, key[3], NULL);
    double worst = 0, by = c.llama.rope.factor > 0 ? c.llama.rope.attention : 1;
    for (int64_t r = 0; r < n; r++)
        for (int d = 0; d < D; d++) {
            const real *tab = m->rope + ((int64_t)row[r] * half + d % half) * 2;
            double may = 4e-7 * by * (1 + row[r] * (double)fr[d % half]);
            worst = fmax(worst, fabs((double)tab[0] - (double)cs[r * D + d]) / may);
            worst = fmax(worst, fabs((double)tab[1] - (double)sn[r * D + d]) / may);
        }
    ok(worst <= 1, "%s case %d: %.2f of what is allowed", file, i, worst);
    for (int j = 0; j < 4; j++) free(key[j]);
    free(row), free(cs), free(sn), free(fr);
    model_free(m);
}

/* factor 1 is bit-equal to off */
static void check_factor_one(void)
{
    static const char one[] = "{\"type\": \"yarn\", \"factor\": 1, "
        "\"original_max_position_embeddings\": 64, \"attention_factor\": 1}";
    Json on = { .src = one, .src_len = strlen(one) }, off = { .src = "null", .src_len = 4 };
    Config a = scaled(64, 1e6, 4096, &on, 8), b = scaled(64, 1e6, 4096, &off, 8);
    Model *p = model_new(ops, &a, 0), *q = model_new(ops, &b, 0);
    ok(a.llama.rope.factor > 0 && !memcmp(p->rope, q->rope, 4096 * 64 * sizeof(real)),
       "YaRN with factor 1 is bit-equal to none");
    model_free(p), model_free(q);
}

static void check_yarn(void)
{
    Arena a = { 0 };
    StFile *f = open_set("f_yarn_tables.safetensors"), *w;
    int i = 0;
    check_factor_one();
    if (!f) {
        skip("no golden files", "YaRN");
        return;
    }
    for (const Json *k = parse_meta(f, "cases", &a)->child; k; k = k->next) check_table(f, k, i++);
    st_close(f);
    w = open_set("a_dense_tied.safetensors");
    f = open_set("f_yarn_logits.safetensors");
    i = 0;
    for (const Json *k = parse_meta(f, "cases", &a)->child; k; k = k->next, i++) {
        Config c = golden_config(w);
        c.T = (int)num(k, "max_position_embeddings");
        c.llama.rope = scaled(16, 1e6, c.T, json_get(k, "rope_scaling"), 8).llama.rope;
        Model *m = golden_weights(w, &c, ops, 0);
        Tape t;
        tape_init(&t, ops);
        char *prefix = xasprintf("%02d.", i);
        check_batch(f, prefix, m, &t);
        free(prefix);
        tape_free(&t);
        model_free(m);
    }
    st_close(f), st_close(w);
    arena_free(&a);
}

/* ---- the cache -------------------------------------------------------------------- */

typedef struct CacheCase { const StFile *f; const char *tag; Model *m; Cache *k; Tape t; int T; } CacheCase;

/* Columns [from, from + n) of the ids, the last one's logits against tensor `key` at column `at` of
 * `cols`. */
static void feed(CacheCase *c, int from, int n, const char *key, int at, int cols, double *worst)
{
    int V = c->m->cfg.V, B = c->k->B;
    char *name = xasprintf("%s.ids", c->tag), *want_name = xasprintf("%s.%s", c->tag, key);
    int32_t *ids = tensor_i32(c->f, name, NULL);
    real *want = tensor(c->f, want_name, NULL), *l = xcalloc((size_t)B * (size_t)V, sizeof *l);
    int *part = xcalloc((size_t)B * (size_t)n, sizeof *part);
    for (int b = 0; b < B; b++)
        memcpy(part + b * n, ids + b * c->T + from, (size_t)n * sizeof *part);
    cache_feed(c->k, &c->t, part, n, l);
    for (int b = 0; b < B; b++)
        *worst = fmax(*worst, max_diff(l + b * V, want + ((int64_t)b * cols + at) * V, V));
    free(name), free(want_name), free(ids), free(want), free(l), free(part);
}

static void check_caches(CacheCase *c)
{
    const Config *f = &c->m->cfg;
    double worst = 0;
    int64_t row = (int64_t)f->K * f->D;
    for (int i = 0; i < 2 * f->L; i++) {
        char *key = xasprintf("%s.cache.%d.%c", c->tag, i / 2, i % 2 ? 'v' : 'k');
        real *want = tensor(c->f, key, NULL);
        int64_t n = (int64_t)c->k->B * c->k->M * row;
        real *got = act_host(ops, i % 2 ? c->k->v[i / 2] : c->k->k[i / 2], n);
        for (int b = 0; b < c->k->B; b++)
            worst = fmax(worst, max_diff(got + b * c->k->M * row, want + b * c->T * row, c->T * row));
        free(key), free(want), free(got);
    }
    ok(worst <= 1e-4, "%s %s: the caches: off by %.1e", file, c->tag, worst);
}

static void check_cache(const StFile *f, const Json *k)
{
    Arena a = { 0 };
    const Json *wf = json_get(k, "weights_file"), *tag = json_get(k, "tag");
    StFile *w = open_set(wf->s);
    Config cfg = golden_config(w);
    CacheCase c = { .f = f, .tag = tag->s, .m = golden_weights(w, &cfg, ops, 0), .T = 24 };
    int pre = (int)num(k, "prefill"), chunk = (int)num(k, "chunk");
    double full = 0, steps = 0, d = 0;
    tape_init(&c.t, ops);
    c.k = cache_new(c.m, 2, 40);
    feed(&c, 0, pre, "prefill", pre - 1, pre, &d);
    ok(d <= 1e-4, "g_kv_cache %s: prefill off by %.1e", tag->s, d);
    for (int t = pre; t < c.T; t++) feed(&c, t, 1, "steps", t - pre, c.T - pre, &steps);
    ok(steps <= 1e-4, "g_kv_cache %s: one by one, off by %.1e", tag->s, steps);
    check_caches(&c);
    for (int b = 0; b < 2; b++) cache_reset(c.k, b);
    feed(&c, 0, pre, "full", pre - 1, c.T, &full);
    d = 0;
    feed(&c, pre, chunk, "chunk", chunk - 1, chunk, &d);
    ok(d <= 1e-4 && full <= 1e-4, "g_kv_cache %s: a chunk, off by %.1e", tag->s, d);
    cache_trim(c.k, &c.t, 0, pre, 0), cache_trim(c.k, &c.t, 1, pre, 0);
    feed(&c, pre, 1, "steps", 0, c.T - pre, &full);
    ok(full <= 1e-4, "g_kv_cache %s: after a trim, off by %.1e", tag->s, full);
    cache_free(c.k);
    tape_free(&c.t);
    model_free(c.m);
    st_close(w);
    arena_free(&a);
}

/* ---- greedy text ------------------------------------------------------------------- */

static int best(real *l, int V, const int *seen_ids, int n, double penalty)
{
    char *done_ids = xcalloc((size_t)V, 1);
    for (int i = 0; i < n; i++) {
        int id = seen_ids[i];
        if (done_ids[id]++) continue;
        l[id] = (real)((double)l[id] * (l[id] > 0 ? 1 / penalty : penalty));
    }
    free(done_ids);
    int k = 0;
    for (int i = 1; i < V; i++) if (l[i] > l[k]) k = i;
    return k;
}

static int equal_ids(const Json *want, const int *ids, int n)
{
    const Json *e = want->child;
    int i = 0;
    for (; e && i < n; e = e->next, i++)
        if ((int)e->num != ids[i]) return 0;
    return !e;
}

static void check_greedy_case(const Json *k, int at)
{
    StFile *w = open_set(json_get(k, "weights_file")->s);
    Config cfg = golden_config(w);
    Model *m = golden_weights(w, &cfg, ops, 0);
    Tape t;
    tape_init(&t, ops);
    const Json *eos = json_get(k, "eos"), *p = json_get(k, "prompt"), *out = json_get(k, "output");
    int most = (int)num(k, "max_new_tokens"), row = 0;
    real *l = xcalloc((size_t)cfg.V, sizeof *l);
    for (const Json *o = out->child, *q = p->child; o; o = o->next, q = q->next, row++) {
        int n = 0, end = 0, *ids = xcalloc((size_t)(q->n + most), sizeof *ids);
        for (const Json *e = q->child; e; e = e->next) ids[n++] = (int)e->num;
        Cache *c = cache_new(m, 1, q->n + most);
        cache_feed(c, &t, ids, n, l);
        while (n < o->n) {
            int id = best(l, cfg.V, ids, n, num(k, "repetition_penalty"));
            if (end) id = (int)eos->num;
            ids[n++] = id;
            end |= eos->kind == J_NUM && id == (int)eos->num;
            if (n < o->n) cache_feed(c, &t, ids + n - 1, 1, l);
        }
        ok(equal_ids(o, ids, n), "h_greedy case %d, row %d: %d tokens", at, row, n);
        cache_free(c);
        free(ids);
    }
    free(l);
    tape_free(&t);
    model_free(m);
    st_close(w);
}

static void check_decoding(void)
{
    Arena a = { 0 };
    StFile *f = open_set("g_kv_cache.safetensors");
    if (!f) {
        skip("no golden files", "cached decoding, greedy text");
        return;
    }
    for (const Json *k = parse_meta(f, "cases", &a)->child; k; k = k->next) check_cache(f, k);
    st_close(f);
    int i = 0;
    const Json *j = golden_json(&a, golden("llama", "h_greedy.json"));
    for (const Json *k = json_get(j, "cases")->child; k; k = k->next, i++)
        if (i % STRIDE == 0) check_greedy_case(k, i);
    arena_free(&a);
}

int main(void)
{
    static const char *const set[] = {
        "a_dense_tied", "b_dense_untied", "c_moe_top1", "c_moe_top1_raw", "d_moe_top2_norm",
        "d_moe_top2_raw", "e_llama", "e_llama_mha", "e_llama_mqa",
    };
    ops = ops_open(GOLDEN_DEVICE, "fp32", 1);
    for (size_t i = 0; i < sizeof set / sizeof *set; i += STRIDE) {
        char *name = xasprintf("%s.safetensors", set[i]);
        check_model(name);
        free(name);
    }
    check_yarn();
    check_decoding();
    return done();
}
