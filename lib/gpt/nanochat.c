/* nanochat.c -- the nanochat GPT: its parameters and its forward pass (training, evaluation and
 * cached decoding alike). Definition: nanochat 92d63d4, nanochat/gpt.py: untied embeddings, smear,
 * x0 and residual mixing, value embeddings with gates, rotary embedding, QK norm, sliding windows,
 * relu^2, backout. */
#include "gpt/decode.h"
#include "gpt/nn.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SMEAR_GATE = 24, VE_GATE = 12 };         /* channels that the gates read */
static const double eps = 1.1920928955078125e-07;       /* 2^-23 */
static const double qk_scale = 1.2;

typedef struct Layer {
    Var *wq, *wk, *wv, *wo, *fc, *proj;
    Var *ve, *ve_gate;                          /* NULL in layers without value embedding */
} Layer;

typedef struct Nanochat {
    Var *wte, *smear_gate, *smear_lambda, *backout, *resid, *x0;
    Layer h[];
} Nanochat;

/* ---- configuration -------------------------------------------------------- */

static int64_t round_up(int64_t x, int64_t to)
{
    return (x + to - 1) / to * to;
}

Config config_depth(int depth, int aspect, int head_dim, int T, int V, const char *window)
{
    Config c = { .family = &nanochat_family, .T = T, .V = V, .Vp = (int)round_up(V, 64), .L = depth };
    c.C = (int)round_up((int64_t)depth * aspect, head_dim);
    c.H = c.K = c.C / head_dim;
    if (strlen(window) >= sizeof c.window)
        die_usage("--window-pattern: '%s' is longer than %zu letters", window, sizeof c.window - 1);
    strcpy(c.window, window);
    return c;
}

static const char *check(const Config *c)
{
    if (c->C < 24 || c->C > MAX_DIM / 4)
        return "n_embd is not from 24 to 2^22"; /* the gates read 24 and 12 */
    if (c->H < 1 || c->H > c->C || c->C % c->H) return "n_embd is not a multiple of n_head";
    if (c->K < 1 || c->K > c->H || c->H % c->K) return "n_head is not a multiple of n_kv_head";
    if (c->C / c->H % 2) return "the head size n_embd / n_head is odd";
    if (!c->window[0] || c->window[strspn(c->window, "SLsl")])
        return "window_pattern is not made of S and L";
    return NULL;
}

static int window(const Config *c, int layer)
{
    char w = c->window[(size_t)layer % strlen(c->window)];
    if (layer == c->L - 1 || w == 'L' || w == 'l')
        return c->T;
    return (int)round_up(((int64_t)c->T + 3) / 4, 128);
}

int config_has_ve(const Config *c, int layer)
{
    return layer % 2 == (c->L - 1) % 2;
}

static void json(const Config *c, Buf *b)
{
    buf_printf(b,
               "{\"family\": \"%s\", \"sequence_len\": %d, \"vocab_size\": %d, \"n_layer\": %d, "
               "\"n_head\": %d, "
               "\"n_kv_head\": %d, \"n_embd\": %d, \"window_pattern\": \"%s\"}\n",
               c->family->name, c->T, c->V, c->L, c->H, c->K, c->C, c->window);
}

static const char *parse(Config *c, const Json *j)
{
    const Json *f = json_get(j, "family"), *w = json_get(j, "window_pattern");
    if (f && !json_is_str(f, "nanochat"))
        return "family is not \"nanochat\"; others are told by model_type";
    const char *bad = NULL;
    c->T = config_int(j, "sequence_len", 1, MAX_DIM, -1, &bad);
    c->V = config_int(j, "vocab_size", 1, MAX_DIM, -1, &bad);
    c->L = config_int(j, "n_layer", 1, MAX_LAYERS, -1, &bad);
    c->H = config_int(j, "n_head", 1, MAX_DIM, -1, &bad);
    c->K = config_int(j, "n_kv_head", 1, MAX_DIM, -1, &bad);
    c->C = config_int(j, "n_embd", 1, MAX_DIM, -1, &bad);
    if (bad) return bad;
    if (!w || w->kind != J_STR || w->len == 0 || w->len >= sizeof c->window ||
        memchr(w->s, 0, w->len))
        return "window_pattern is missing, empty or longer than 32 letters";
    memcpy(c->window, w->s, w->len);
    c->Vp = (int)round_up(c->V, 64);
    return NULL;
}

/* Base 100000, halves convention. */
static double rotary(const Config *c, double *freq)
{
    int half = head_size(c) / 2;
    for (int j = 0; j < half; j++) freq[j] = pow(100000, -(double)j / half);
    return 1;
}

/* ---- parameters ----------------------------------------------------------- */

static void init(Param *p, enum ParamInit kind, double a, double b)
{
    p->init = kind;
    p->a = a;
    p->b = b;
}

static Param *kept(Param *p, Keep k)
{
    p->keep = k;
    return p;
}

/* The same matrix of every layer. */
static void matrices(Model *m, int rows, int cols, const char *what, double a, double b)
{
    for (int i = 0; i < m->cfg.L; i++)
        init(param_add(m, PG_MATRIX, 2, rows, cols, "transformer.h.%d.%s.weight", i, what),
             INIT_UNIFORM, a, b);
}

static void params(Model *m)
{
    const Config *c = &m->cfg;
    int kv = c->K * (c->C / c->H);
    double s = sqrt(3.0 / c->C);
    init(kept(param_add(m, PG_WTE, 2, c->Vp, c->C, "transformer.wte.weight"), KEEP_HALF),
         INIT_NORMAL, 0.8, 0);
    init(param_add(m, PG_LM_HEAD, 2, c->Vp, c->C, "lm_head.weight"), INIT_NORMAL, 0.001, 0);
    for (int i = 0; i < c->L; i++)
        if (config_has_ve(c, i))
            init(kept(param_add(m, PG_VALUE_EMBEDS, 2, c->Vp, kv, "value_embeds.%d.weight", i),
                      KEEP_HALF), INIT_UNIFORM, -s, s);
    matrices(m, c->C, c->C, "attn.c_q", -s, s);
    matrices(m, c->C, c->C, "attn.c_proj", 0, 0);
    matrices(m, kv, c->C, "attn.c_k", -s, s);
    matrices(m, kv, c->C, "attn.c_v", -s, s);
    matrices(m, 4 * c->C, c->C, "mlp.c_fc", -0.4 * s, 0.4 * s);
    matrices(m, c->C, 4 * c->C, "mlp.c_proj", 0, 0);
    for (int i = 0; i < c->L; i++)
        if (config_has_ve(c, i))
            init(kept(param_add(m, PG_MATRIX, 2, c->K, VE_GATE,
                                "transformer.h.%d.attn.ve_gate.weight", i), KEEP_REAL),
                 INIT_UNIFORM, 0, 0.02);
    init(param_add(m, PG_RESID, 1, c->L, 1, "resid_lambdas"), INIT_LINEAR, 1.15, 1.05);
    init(param_add(m, PG_X0, 1, c->L, 1, "x0_lambdas"), INIT_LINEAR, 0.20, 0.05);
    init(kept(param_add(m, PG_SMEAR, 2, 1, SMEAR_GATE, "smear_gate.weight"), KEEP_REAL),
         INIT_UNIFORM, 0, 0.02);
    init(param_add(m, PG_SMEAR, 1, 1, 1, "smear_lambda"), INIT_CONST, 0, 0);
    init(param_add(m, PG_SMEAR, 1, 1, 1, "backout_lambda"), INIT_CONST, 0.2, 0);
}

static void bind(Model *m)
{
    int L = m->cfg.L;
    Nanochat *n = xcalloc(1, sizeof *n + (size_t)L * sizeof n->h[0]);
    m->lm_head = model_var(m, "lm_head.weight");
    n->wte = model_var(m, "transformer.wte.weight");
    n->smear_gate = model_var(m, "smear_gate.weight");
    n->smear_lambda = model_var(m, "smear_lambda");
    n->backout = model_var(m, "backout_lambda");
    n->resid = model_var(m, "resid_lambdas");
    n->x0 = model_var(m, "x0_lambdas");
    for (int i = 0; i < L; i++) {
        Layer *h = &n->h[i];
        h->wq = model_var(m, "transformer.h.%d.attn.c_q.weight", i);
        h->wk = model_var(m, "transformer.h.%d.attn.c_k.weight", i);
        h->wv = model_var(m, "transformer.h.%d.attn.c_v.weight", i);
        h->wo = model_var(m, "transformer.h.%d.attn.c_proj.weight", i);
        h->fc = model_var(m, "transformer.h.%d.mlp.c_fc.weight", i);
        h->proj = model_var(m, "transformer.h.%d.mlp.c_proj.weight", i);
        if (config_has_ve(&m->cfg, i)) {
            h->ve = model_var(m, "value_embeds.%d.weight", i);
            h->ve_gate = model_var(m, "transformer.h.%d.attn.ve_gate.weight", i);
        }
    }
    m->fam = n;
}

/* What one call of the forward pass works on. */
typedef struct Pass {
    Model *m;
    Tape *t;
    const int *idx, *doc;                       /* doc NULL: a row is one document */
    int B, T, N;
    Cache *cache;
    const int *pos;
} Pass;

static void seen(Pass *p, int layer, const char *what, Var *x)
{
    if (!p->m->on_act)
        return;
    char *name = xasprintf("h.%d.%s", layer, what);
    model_seen(p->m, name, x);
    free(name);
}

/* x [N,C] -> smeared rms(x); the cache keeps each row's last vector before the smear */
static Var *embed(Pass *p)
{
    Nanochat *n = p->m->fam;
    int C = p->m->cfg.C;
    Var *e = nn_embed(p->t, n->wte, p->idx, p->N, C), *x = nn_norm(p->t, e, p->N, C, eps);
    tape_drop(p->t, e);
    model_seen(p->m, "embed_norm", x);
    Var *y = nn_smear(p->t, x, n->smear_gate, n->smear_lambda, p->cache ? p->cache->prev : NULL,
                      p->pos, p->doc, p->B, p->T, C, SMEAR_GATE);
    model_seen(p->m, "smear", y);
    if (p->cache) {
        const Ops *o = p->t->ops;
        for (int b = 0; b < p->B; b++)
            o->copy(act_at(o, p->cache->prev, (int64_t)b * C),
                    act_at(o, x->v, ((int64_t)b * p->T + p->T - 1) * C), (size_t)C * o->act_size);
    }
    tape_drop(p->t, x);
    return y;
}

static Var *attend(Pass *p, int layer, Var *q, Var *k, Var *v)
{
    const Config *c = &p->m->cfg;
    int D = c->C / c->H, seen_back = config_window(c, layer);
    if (!p->cache)
        return nn_attn(p->t, q, k, v, p->doc, p->B, p->T, c->H, c->K, D, seen_back);
    Cache *a = p->cache;
    return nn_attn_kv(p->t, q, k, v, a->k[layer], a->v[layer], p->pos, p->B, p->T, a->M, c->H, c->K,
                      D, seen_back);
}

static Var *rope(Pass *p, Var *x, int heads)
{
    const Config *c = &p->m->cfg;
    return nn_rope(p->t, x, p->m->rope, p->pos, p->doc, p->B, p->T, heads, c->C / c->H, 1,
                   qk_scale, eps);
}

/* x + attention of h, the norm of x, which is made again in the backward pass: that costs little */
static Var *attention(Pass *p, int layer, Var *x, Var *h)
{
    const Config *c = &p->m->cfg;
    Layer *w = &((Nanochat *)p->m->fam)->h[layer];
    Tape *t = p->t;
    int N = p->N, C = c->C, H = c->H, K = c->K, D = C / H;
    seen(p, layer, "attn_in", h);
    Var *v = nn_linear(t, h, w->wv, N, C, K * D);
    if (w->ve)
        v = nn_vgate(t, v, w->ve, p->idx, h, w->ve_gate, N, C, K, D, VE_GATE);
    Var *q = rope(p, nn_linear(t, h, w->wq, N, C, H * D), H);
    Var *k = rope(p, nn_linear(t, h, w->wk, N, C, K * D), K);
    tape_drop(t, h);
    seen(p, layer, "q", q);
    seen(p, layer, "k", k);
    seen(p, layer, "v", v);
    Var *y = attend(p, layer, q, k, v);
    seen(p, layer, "attn_y", y);
    x = nn_linear_add(t, x, y, w->wo, N, H * D, C);
    seen(p, layer, "middle", x);
    tape_done(t, q);
    tape_done(t, k);
    tape_done(t, v);
    tape_done(t, y);
    return x;
}

/* x + mlp */
static Var *mlp(Pass *p, int layer, Var *x)
{
    Layer *w = &((Nanochat *)p->m->fam)->h[layer];
    int N = p->N, C = p->m->cfg.C;
    Tape *t = p->t;
    Var *h = nn_norm(t, x, N, C, eps);
    seen(p, layer, "mlp_in", h);
    Var *a = nn_relu2(t, nn_linear(t, h, w->fc, N, C, 4 * C));
    tape_done(t, h);
    x = nn_linear_add(t, x, a, w->proj, N, 4 * C, C);
    tape_done(t, a);
    return x;
}

static Var *forward(Model *m, Tape *t, const int *idx, const int *doc, int B, int T, Cache *cache)
{
    Nanochat *n = m->fam;
    int L = m->cfg.L, C = m->cfg.C;
    assert(!cache || (B == cache->B && !t->on && !doc));
    Pass pass = { m, t, idx, doc, B, T, B * T, cache, cache ? cache->pos : NULL }, *p = &pass;
    model_positions(m, cache ? cache->M : T);

    Var *x0 = embed(p), *x = x0, *middle = NULL;
    for (int i = 0; i < L; i++) {
        Var *before = x, *h;
        int start = t->nrec;
        x = nn_mix_norm(t, &h, x, n->resid, x0, n->x0, i, 1, p->N, C, eps);
        seen(p, i, "block_in", x);
        if (before != x0 && before != middle)
            tape_done(t, before);
        x = attention(p, i, x, h);
        x = mlp(p, i, x);
        seen(p, i, "block_out", x);
        if (i == L / 2)
            middle = x;
        if (t->recompute && i < L - 1)          /* the last block's are needed at once */
            tape_drop_since(t, start, x);
    }
    Var *norm, *y = nn_mix_norm(t, &norm, x, NULL, middle, n->backout, 0, -1, p->N, C, eps);
    tape_done(t, x);
    tape_done(t, y);
    model_seen(m, "lm_head_in", norm);
    return norm;
}

const Family nanochat_family = {
    .name = "nanochat", .softcap = 15, .prev = 1, .check = check, .parse = parse, .json = json,
    .window = window, .rotary = rotary, .params = params, .bind = bind, .forward = forward,
};
