/* llama.c -- the Llama family: parameters and forward pass (training, evaluation and cached
 * decoding alike). Pre-norm blocks of grouped-query attention with rotary embedding and, by
 * variant, QK norm, and SwiGLU or a mixture of SwiGLU experts. Names are Hugging Face's. */
#include "gpt/llama.h"
#include "gpt/decode.h"
#include "gpt/nn.h"

#include "base/io.h"

#include <assert.h>
#include <stdlib.h>

typedef struct Layer {
    Var *norm1, *q, *k, *v, *o, *qn, *kn;       /* qn, kn NULL: no QK norm */
    Var *norm2, *gate, *up, *down;
    Var *router;                                /* NULL: dense */
    const Param *experts[3];                    /* the first expert's gate, up, down; see stack() */
} Layer;

typedef struct Llama {
    Var *embed, *norm;
    Layer h[];
} Llama;

/* ---- parameters ------------------------------------------------------------ */

static void normal(const Config *c, Param *p)
{
    p->init = INIT_NORMAL;
    p->a = c->llama.init;
}

static void gain(Param *p)
{
    p->init = INIT_CONST;
    p->a = 1;
}

static Param *matrix(Model *m, int rows, int cols, int layer, const char *what)
{
    Param *p = param_add(m, PG_MATRIX, 2, rows, cols, "model.layers.%d.%s.weight", layer, what);
    normal(&m->cfg, p);
    return p;
}

static void matrices(Model *m, int rows, int cols, const char *what)
{
    for (int i = 0; i < m->cfg.L; i++) matrix(m, rows, cols, i, what);
}

/* One after the other by layer and expert: a layer's are one array [E,rows,cols]. */
static void expert_matrices(Model *m, int rows, int cols, const char *what)
{
    for (int i = 0; i < m->cfg.L * m->cfg.llama.E; i++)
        normal(&m->cfg, param_add(m, PG_MATRIX, 2, rows, cols,
                                  "model.layers.%d.mlp.experts.%d.%s.weight", i / m->cfg.llama.E,
                                  i % m->cfg.llama.E, what));
}

static void gains(Model *m, int n, const char *what)
{
    for (int i = 0; i < m->cfg.L; i++)
        gain(param_add(m, PG_NORM, 1, n, 1, "model.layers.%d.%s.weight", i, what));
}

static void params(Model *m)
{
    const Config *c = &m->cfg;
    int C = c->C, q = c->H * c->D, kv = c->K * c->D, F = c->llama.F;
    normal(c, param_add(m, PG_WTE, 2, c->V, C, "model.embed_tokens.weight"));
    if (!c->llama.tied) normal(c, param_add(m, PG_LM_HEAD, 2, c->V, C, "lm_head.weight"));
    matrices(m, q, C, "self_attn.q_proj");
    matrices(m, kv, C, "self_attn.k_proj");
    matrices(m, kv, C, "self_attn.v_proj");
    matrices(m, C, q, "self_attn.o_proj");
    if (c->llama.E) {
        for (int i = 0; i < c->L; i++) matrix(m, c->llama.E, C, i, "mlp.gate")->keep = KEEP_REAL;
        expert_matrices(m, c->llama.Fe, C, "gate_proj");
        expert_matrices(m, c->llama.Fe, C, "up_proj");
        expert_matrices(m, C, c->llama.Fe, "down_proj");
    } else {
        matrices(m, F, C, "mlp.gate_proj");
        matrices(m, F, C, "mlp.up_proj");
        matrices(m, C, F, "mlp.down_proj");
    }
    gains(m, C, "input_layernorm");
    gains(m, C, "post_attention_layernorm");
    if (c->llama.qk_norm) {
        gains(m, c->D, "self_attn.q_norm");
        gains(m, c->D, "self_attn.k_norm");
    }
    gain(param_add(m, PG_NORM, 1, C, 1, "model.norm.weight"));
}

static Var *of_layer(Model *m, int i, const char *what)
{
    return model_var(m, "model.layers.%d.%s.weight", i, what);
}

static void bind_mlp(Model *m, int i, Layer *h)
{
    static const char *const what[] = { "gate_proj", "up_proj", "down_proj" };
    Var **dense[] = { &h->gate, &h->up, &h->down };
    if (m->cfg.llama.E) h->router = of_layer(m, i, "mlp.gate");
    for (int k = 0; k < 3; k++) {
        char *name = xasprintf(m->cfg.llama.E ? "mlp.experts.0.%s" : "mlp.%s", what[k]);
        if (m->cfg.llama.E) {
            char *whole = xasprintf("model.layers.%d.%s.weight", i, name);
            h->experts[k] = model_find(m, whole);
            free(whole);
        } else {
            *dense[k] = of_layer(m, i, name);
        }
        free(name);
    }
}

static void bind(Model *m)
{
    int L = m->cfg.L;
    Llama *n = xcalloc(1, sizeof *n + (size_t)L * sizeof n->h[0]);
    n->embed = model_var(m, "model.embed_tokens.weight");
    n->norm = model_var(m, "model.norm.weight");
    m->lm_head = m->cfg.llama.tied ? n->embed : model_var(m, "lm_head.weight");
    for (int i = 0; i < L; i++) {
        Layer *h = &n->h[i];
        h->norm1 = of_layer(m, i, "input_layernorm");
        h->q = of_layer(m, i, "self_attn.q_proj");
        h->k = of_layer(m, i, "self_attn.k_proj");
        h->v = of_layer(m, i, "self_attn.v_proj");
        h->o = of_layer(m, i, "self_attn.o_proj");
        if (m->cfg.llama.qk_norm) {
            h->qn = of_layer(m, i, "self_attn.q_norm");
            h->kn = of_layer(m, i, "self_attn.k_norm");
        }
        h->norm2 = of_layer(m, i, "post_attention_layernorm");
        bind_mlp(m, i, h);
    }
    m->fam = n;
}

/* ---- forward --------------------------------------------------------------- */

/* What one call of the forward pass works on. */
typedef struct Pass {
    Model *m;
    Tape *t;
    const int *doc;                             /* NULL: a row is one document */
    int B, T, N;
    Cache *cache;
    const int *pos;
} Pass;

static void seen(Pass *p, int layer, const char *what, Var *x)
{
    if (!p->m->on_act) return;
    char *name = xasprintf("layers.%d%s", layer, what);
    model_seen(p->m, name, x);
    free(name);
}

/* g rms(x) of rows of n. Only x / rms(x) is kept; the rest is made again, at little cost. */
static Var *norm(Pass *p, Var *x, Var *g, int rows, int n)
{
    Var *h = nn_norm(p->t, x, rows, n, p->m->cfg.llama.eps), *y = nn_gain(p->t, h, g, rows, n);
    tape_done(p->t, h);
    return y;
}

/* Queries or keys, turned; with QK norm the norm is kept and what follows it made again. */
static Var *heads(Pass *p, Var *x, Var *g, int n)
{
    int D = p->m->cfg.D;
    if (g) {
        Var *raw = x;
        x = norm(p, raw, g, p->N * n, D);
        tape_drop(p->t, raw);
    }
    return nn_rope(p->t, x, p->m->rope, p->pos, p->doc, p->B, p->T, n, D, -1, 0, 0);
}

/* Where something may be dropped: a stream of numbers for each, elements counted by rows of n. */
enum { DROP_EMBED, DROP_ATTN, DROP_OUT, DROP_SITES };
static Drop drop(Pass *p, int layer, int site, double share, uint64_t n)
{
    const Model *m = p->m;
    uint64_t key[2] = { m->drop_seed, (uint64_t)(layer * DROP_SITES + site) };
    if (!m->dropping || !p->t->on) share = 0;
    return (Drop){ share, share > 0 ? xxh3(key, sizeof key) : 0, m->drop_row * n,
                   m->drop_from, n };
}

/* x [N,C] with dropout, over x */
static Var *dropped(Pass *p, int layer, int site, Var *x)
{
    Drop d = drop(p, layer, site, p->m->cfg.llama.dropout, (uint64_t)p->T * (uint64_t)p->m->cfg.C);
    return d.p > 0 ? nn_dropout(p->t, x, d) : x;
}

/* x + y W^T, with dropout of what is added; over x */
static Var *add_output(Pass *p, int layer, Var *x, Var *y, Var *w)
{
    const Config *c = &p->m->cfg;
    Tape *t = p->t;
    int n = c->H * c->D;
    if (!(drop(p, layer, DROP_OUT, c->llama.dropout, 0).p > 0))
        return nn_linear_add(t, x, y, w, p->N, n, c->C);
    Var *d = dropped(p, layer, DROP_OUT, nn_linear(t, y, w, p->N, n, c->C));
    Var *sum = nn_mix(t, x, NULL, d, NULL, 1);
    tape_drop(t, d);
    return sum;
}

static Var *attend(Pass *p, int layer, Var *q, Var *k, Var *v)
{
    const Config *c = &p->m->cfg;
    Cache *a = p->cache;
    Drop d = drop(p, layer, DROP_ATTN, c->llama.attn_dropout, 1);
    if (d.p > 0) return nn_attn_drop(p->t, q, k, v, p->doc, p->B, p->T, c->H, c->K, c->D, 0, d);
    if (!a) return nn_attn(p->t, q, k, v, p->doc, p->B, p->T, c->H, c->K, c->D, 0);
    return nn_attn_kv(p->t, q, k, v, a->k[layer], a->v[layer], p->pos, p->B, p->T, a->M, c->H, c->K,
                      c->D, 0);
}

/* x + attention */
static Var *attention(Pass *p, int layer, Var *x)
{
    const Config *c = &p->m->cfg;
    Layer *w = &((Llama *)p->m->fam)->h[layer];
    Tape *t = p->t;
    int N = p->N, C = c->C, H = c->H, K = c->K, D = c->D;
    Var *h = norm(p, x, w->norm1, N, C);
    Var *v = nn_linear(t, h, w->v, N, C, K * D);
    Var *q = heads(p, nn_linear(t, h, w->q, N, C, H * D), w->qn, H);
    Var *k = heads(p, nn_linear(t, h, w->k, N, C, K * D), w->kn, K);
    tape_drop(t, h);
    Var *y = attend(p, layer, q, k, v);
    x = add_output(p, layer, x, y, w->o);
    if (w->qn) tape_drop(t, q), tape_drop(t, k);
    tape_done(t, q);
    tape_done(t, k);
    tape_done(t, v);
    tape_done(t, y);
    return x;
}

/* x + mlp */
static Var *mlp(Pass *p, int layer, Var *x)
{
    Layer *w = &((Llama *)p->m->fam)->h[layer];
    int N = p->N, C = p->m->cfg.C, F = p->m->cfg.llama.F;
    Tape *t = p->t;
    Var *h = norm(p, x, w->norm2, N, C);
    Var *a = nn_linear(t, h, w->gate, N, C, F), *b = nn_linear(t, h, w->up, N, C, F);
    tape_drop(t, h);
    Var *y = nn_swiglu(t, a, b);
    x = nn_linear_add(t, x, y, w->down, N, F, C);
    tape_drop(t, y);
    tape_done(t, a);
    tape_done(t, b);
    return x;
}

/* A layer's experts as one parameter. Frozen or adapted they are together: their gradients are one
 * array. */
static Var *stack(Pass *p, const Param *first)
{
    int E = p->m->cfg.llama.E;
    Var *v = arena_alloc(&p->t->host, sizeof *v);
    for (int e = 1; e < E; e++)
        if (first[e].frozen != first->frozen || !first[e].var.low != !first->var.low)
            die("tensor %s: frozen or adapted with a part of its layer's experts only",
                first->name);
    *v = first->var;
    v->n *= E;
    return v;
}

/* x + mixture of experts */
static Var *moe(Pass *p, int layer, Var *x)
{
    Layer *w = &((Llama *)p->m->fam)->h[layer];
    const LlamaConfig *l = &p->m->cfg.llama;
    int N = p->N, C = p->m->cfg.C, F = l->Fe;
    Tape *t = p->t;
    Moe *e = nn_moe(t, N, C, l->E, l->top, l->norm_top);
    if (t->on) {
        e->aux = p->m->aux ? p->m->aux + layer : NULL;
        e->aux_scale = l->aux * p->m->aux_scale;
    }
    Var *h = norm(p, x, w->norm2, N, C), *s = nn_route(t, e, h, w->router);
    tape_drop(t, h);
    Var *a = nn_experts(t, e, s, stack(p, w->experts[0]), C, F);
    Var *b = nn_experts(t, e, s, stack(p, w->experts[1]), C, F);
    tape_done(t, s);
    Var *g = nn_swiglu(t, a, b), *y = nn_experts(t, e, g, stack(p, w->experts[2]), F, C);
    tape_drop(t, g);
    x = nn_slots_add(t, e, x, y);
    tape_done(t, y);
    tape_done(t, a);
    tape_done(t, b);
    return x;
}

static Var *forward(Model *m, Tape *t, const int *idx, const int *doc, int B, int T, Cache *cache)
{
    Llama *n = m->fam;
    int L = m->cfg.L, C = m->cfg.C;
    assert(!cache || (B == cache->B && !t->on && !doc));
    Pass pass = { m, t, doc, B, T, B * T, cache, cache ? cache->pos : NULL }, *p = &pass;
    model_positions(m, cache ? cache->M : T);

    Var *x = dropped(p, 0, DROP_EMBED, nn_embed(t, n->embed, idx, p->N, C));
    for (int i = 0; i < L; i++) {
        int start = t->nrec;
        if (t->recompute) x = nn_mix(t, x, NULL, x, NULL, 0);   /* the block works on a copy */
        seen(p, i, ".in", x);
        x = attention(p, i, x);
        seen(p, i, ".middle", x);
        x = n->h[i].router ? moe(p, i, x) : mlp(p, i, x);
        seen(p, i, "", x);
        if (t->recompute && i < L - 1)          /* the last block's are needed at once */
            tape_drop_since(t, start, x);
    }
    Var *y = norm(p, x, n->norm, p->N, C);
    tape_done(t, x);
    model_seen(m, "norm", y);
    return y;
}

static int window(const Config *c, int layer)
{
    (void)layer;
    return c->T;
}

const Family llama_family = {
    .name = "llama", .shorter = 1, .check = llama_check, .parse = llama_parse, .json = llama_json,
    .window = window, .rotary = llama_rotary, .params = params, .bind = bind, .forward = forward,
};
