/* Adapters on both families: gradients against differences of the loss, recomputation, the cache,
 * merging, targets, the text of --lora. Also as double (REAL_F64). */
#include "base/err.h"
#include "base/io.h"
#include "gpt/ckpt.h"
#include "gpt/decode.h"
#include "gpt/safetensors.h"
#include "tap.h"
#include <math.h>
#include <string.h>
#include <sys/stat.h>

static const Ops *ops;
enum { B = 2, T = 9, N = B * T, V = 23 };
static int ids[N], tgt[N];

static Config llama(int experts)
{
    Config c = { .family = &llama_family, .T = 16, .V = V, .Vp = V, .L = 2, .H = 4, .K = 2,
                 .C = 12, .D = 6 };
    c.llama = (LlamaConfig){ .F = 20, .E = experts, .top = experts ? 2 : 0,
                             .Fe = experts ? 8 : 0, .qk_norm = 1, .norm_top = 1, .eps = 1e-5,
                             .theta = 100, .aux = 0.5, .init = 0.3 };
    return c;
}

/* A model whose weights are all away from 0, with an adapter whose B is too. */
static Lora *make(const Config *c, const char *spec)
{
    LoraSpec s;
    const char *bad = lora_parse(&s, spec);
    Model *m = model_new(ops, c, 0);
    model_init(m, 5);
    for (int i = 0; i < m->nparam; i++) {
        Param *p = &m->param[i];
        for (int64_t k = 0; p->group == PG_MATRIX && k < p->n; k++)
            m->w[p->off + k] += (real)(0.1 * sin((double)(11 * i + k)));
    }
    Lora *l = bad ? NULL : lora_new(m, &s, 1, &bad);
    if (!l) die("%s", bad);
    lora_init(l, 7);
    for (int64_t k = 0; k < l->p->n; k++) l->p->w[k] += (real)(0.05 * cos((double)(3 * k)));
    lora_spec_free(&s);
    return l;
}

static void take_down(Lora *l)
{
    Model *m = l->m;
    lora_free(l);
    model_free(m);
}

static double objective(Lora *l, Tape *t, int backward)
{
    Model *m = l->m;
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

static void check_gradients(const char *name, const Config *c)
{
    Lora *l = make(c, "r=3,alpha=5,targets=all");
    Tape t;
    tape_init(&t, ops);
    const double h = 1e-5;
    double worst = 0;
    model_zero_grad(l->p);
    objective(l, &t, 1);
    for (int i = 0; sizeof(real) == 8 && i < l->p->nparam; i++)
        for (int k = 0; k < 2; k++) {
            const Param *p = &l->p->param[i];
            int64_t at = p->off + (k ? p->n / 2 : 0);
            real was = l->p->w[at];
            l->p->w[at] = was + (real)h;
            double up = objective(l, &t, 0);
            l->p->w[at] = was - (real)h;
            worst = fmax(worst, fabs((up - objective(l, &t, 0)) / (2 * h) - (double)l->p->g[at]));
            l->p->w[at] = was;
        }
    if (sizeof(real) == 8) ok(worst <= 1e-8, "%s: gradients off by at most %.1e", name, worst);
    real *g = xcalloc((size_t)l->p->n, sizeof *g);
    memcpy(g, l->p->g, (size_t)l->p->n * sizeof *g);
    model_zero_grad(l->p);
    t.recompute = 1;
    objective(l, &t, 1);
    ok(!memcmp(g, l->p->g, (size_t)l->p->n * sizeof *g), "%s: recomputed, the same bits", name);
    free(g);
    tape_free(&t);
    take_down(l);
}

static void logits(Model *m, real *to)
{
    Tape t;
    tape_init(&t, ops);
    memcpy(to, model_logits(m, &t, model_forward(m, &t, ids, B, T, NULL), NULL, N),
           sizeof(real[N * V]));
    tape_free(&t);
}

static double far(const real *a, const real *b, int n)
{
    double d = 0;
    for (int i = 0; i < n; i++) d = fmax(d, fabs((double)a[i] - (double)b[i]));
    return d;
}

/* Off and on, cached, merged. */
static void check_uses(const char *name, const Config *c)
{
    const double tol = sizeof(real) == 8 ? 1e-11 : 2e-5;
    static real with[N * V], off[N * V], merged[N * V], cached[B * V];
    Lora *l = make(c, "targets=all");
    Model *m = l->m;
    Tape t;
    tape_init(&t, ops);
    uint64_t hash = model_hash(l->p), base = model_hash(m);
    logits(m, with);
    lora_attach(l, 0);
    logits(m, off);
    lora_attach(l, 1);
    ok(far(with, off, N * V) > 1e-3, "%s: it makes a difference, %.2g", name, far(with, off, N * V));
    Cache *k = cache_new(m, B, T);
    int part[N], cut = 4;
    double d = 0;
    for (int from = 0, n = cut; from < T; from += n, n = 1) {
        for (int b = 0; b < B; b++) memcpy(part + b * n, ids + b * T + from, (size_t)n * sizeof *part);
        cache_feed(k, &t, part, n, cached);
    }
    for (int b = 0; b < B; b++)
        d = fmax(d, far(cached + b * V, with + (b * T + T - 1) * V, V));
    ok(d <= tol, "%s: cached logits off by %.1e", name, d);
    ok(!lora_merged(m, hash), "%s: not merged yet", name);
    lora_merge(l);
    logits(m, merged);
    ok(far(merged, with, N * V) <= tol, "%s: merged, off by %.1e", name, far(merged, with, N * V));
    ok(lora_merged(m, hash) && !lora_merged(m, base), "%s: and it knows", name);
    cache_free(k);
    tape_free(&t);
    take_down(l);
}

static int maps(const Config *c, const char *targets)
{
    char *s = xasprintf("targets=%s", targets);
    Lora *l = make(c, s);
    int n = l->nlow;
    take_down(l);
    free(s);
    return n;
}

static int shortest(const Config *c, const char *targets, const char *want)
{
    char *s = xasprintf("targets=%s", targets);
    Lora *l = make(c, s);
    char *got = lora_targets(l);
    int same = !strcmp(got, want);
    if (!same) printf("# %s\n", got);
    take_down(l);
    free(s);
    free(got);
    return same;
}

static void check_targets(const Config *dense, const Config *moe, const Config *nano)
{
    ok(maps(dense, "all") == 14 && maps(nano, "all") == 18, "all");
    ok(maps(moe, "all") == 2 * (4 + 3 * 4), "all, with experts; no router");
    ok(maps(dense, "q,v") == 4 && maps(nano, "q,v") == 6, "q and v of both families");
    ok(maps(dense, "q_proj,q") == 2, "one map twice is one");
    ok(maps(nano, "c_proj") == 6 && maps(nano, "o") == 3 && maps(nano, "down") == 3,
       "c_proj is o and down");
    ok(maps(dense, "model.layers.0.*") == 7, "a pattern");
    ok(shortest(dense, "all", "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"),
       "whole kinds by their last part");
    ok(shortest(nano, "o", "transformer.h.0.attn.c_proj,transformer.h.1.attn.c_proj,"
                           "transformer.h.2.attn.c_proj"), "others by their whole name");
}

static int parsed(const char *text, int r, double alpha, const char *targets)
{
    LoraSpec s, again;
    const char *bad = lora_parse(&s, text);
    char *back = lora_text(&s);
    int good = !bad && s.r == r && s.alpha == alpha && !strcmp(s.targets, targets) &&
               !lora_parse(&again, back) && again.r == r && again.alpha == alpha &&
               !strcmp(again.targets, targets);
    free(back);
    lora_spec_free(&s);
    lora_spec_free(&again);
    return good;
}

static int wrong(const char *text)
{
    LoraSpec s;
    const char *bad = lora_parse(&s, text);
    lora_spec_free(&s);
    return bad != NULL;
}

static void check_text(void)
{
    ok(parsed("r=4,alpha=0.1,targets=q,k,*.mlp.*", 4, 0.1, "q,k,*.mlp.*"), "all three");
    ok(parsed("targets=q,v,r=3", 3, 6, "q,v"), "a list ends where a key comes; alpha is 2 r");
    ok(parsed("alpha=1", 8, 1, "q,v"), "what is left out");
    ok(wrong("") && wrong("r") && wrong("r=") && wrong("r=-1") && wrong("r=1e9") && wrong("r=4,") &&
           wrong("alpha=nan") && wrong("alpha=0") && wrong("targets=") && wrong("targets=q,,v") &&
           wrong("rank=4"), "what is refused");
}

/* ---- files that are not what they should be */

static char dir[] = "/tmp/lora-test-XXXXXX";
static Config one;
typedef struct T2 { const char *name; int rows, cols; } T2;

static void write_adapter(const char *config, const T2 *t, int n)
{
    char *path = xasprintf("%s/adapter_config.json", dir);
    Out *o = out_open(path, 0);
    out_write(o, config, strlen(config));
    out_close(o);
    free(path);
    path = xasprintf("%s/adapter_model.safetensors", dir);
    o = out_open(path, OUT_BINARY);
    StWriter *w = stw_new();
    real x[64] = { 0 };
    for (int i = 0; i < n; i++) stw_add(w, t[i].name, 2, (int64_t[]){ t[i].rows, t[i].cols });
    stw_begin(w, o);
    for (int i = 0; i < n; i++) stw_data(w, x, t[i].rows * t[i].cols);
    stw_end(w);
    out_close(o);
    free(path);
}

static void load(void *arg)
{
    uint64_t h;
    (void)arg;
    Model *m = model_new(ops, &one, 0);
    Lora *l = ckpt_lora(dir, m, 1, &h);
    _exit(l->nlow == 1 && h == 0 ? 7 : 8);
}

static void check_files(void)
{
#define Q "base_model.model.model.layers.0.self_attn.q_proj."
    static const char good[] = "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4}";
    static const struct { const char *says; const char *config; T2 t[3]; int n; } bad[] = {
        { "no adapter: no lora_A", good, { { Q "lora_B.weight", 24, 2 } }, 1 },
        { "no tensor " Q "lora_B.weight", good, { { Q "lora_A.weight", 2, 12 } }, 1 },
        { "its shape is [20,2], the configuration asks for [24,2]", good,
          { { Q "lora_A.weight", 2, 12 }, { Q "lora_B.weight", 20, 2 } }, 2 },
        { "its rank is not the configuration's, 2", good,
          { { Q "lora_A.weight", 3, 12 }, { Q "lora_B.weight", 8, 3 } }, 2 },
        { "not of a LoRA adapter", good,
          { { Q "lora_A.weight", 2, 12 }, { Q "lora_B.weight", 24, 2 }, { Q "bias", 2, 2 } }, 3 },
        { "not of a LoRA adapter", good, { { "base_model.model.*.lora_A.weight", 2, 12 } }, 1 },
        { "matches no linear map", good,
          { { "base_model.model.lm_head.lora_A.weight", 2, 12 },
            { "base_model.model.lm_head.lora_B.weight", 23, 2 } }, 2 },
        { "a lora_B without its lora_A", good,
          { { Q "lora_A.weight", 2, 12 }, { Q "lora_B.weight", 24, 2 },
            { "base_model.model.model.layers.0.self_attn.k_proj.lora_B.weight", 12, 2 } }, 3 },
        { "modules_to_save is not empty",
          "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4, \"modules_to_save\": [\"lm_head\"]}",
          { { Q "lora_A.weight", 2, 12 }, { Q "lora_B.weight", 24, 2 } }, 2 },
        { "r is missing or not an integer", "{\"peft_type\": \"LORA\", \"r\": 1e9, \"lora_alpha\": 4}",
          { { Q "lora_A.weight", 2, 12 }, { Q "lora_B.weight", 24, 2 } }, 2 },
        { "not a JSON object", "[1]", { { Q "lora_A.weight", 2, 12 } }, 1 },
    };
    if (!mkdtemp(dir)) abort();
    one = llama(0);
    write_adapter(good, (T2[]){ { Q "lora_A.weight", 2, 12 }, { Q "lora_B.weight", 24, 2 } }, 2);
    ok(dies(7, "", load, NULL), "an adapter of one map");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_adapter(bad[i].config, bad[i].t, bad[i].n);
        ok(dies(1, bad[i].says, load, NULL), "refused: %s", bad[i].says);
    }
    char *rm = xasprintf("rm -r %s", dir);
    if (system(rm)) abort();
    free(rm);
}

int main(void)
{
    ops = ops_cpu(2);
    for (int i = 0; i < N; i++) ids[i] = (i * i * 5 + i) % V, tgt[i] = i % 7 == 3 ? -1 : (i * 11 + 2) % V;
    Config dense = llama(0), moe = llama(4), nano = config_depth(3, 8, 12, 16, V, "SL");
    check_gradients("llama", &dense);
    check_gradients("mixture of experts", &moe);
    check_gradients("nanochat", &nano);
    check_uses("llama", &dense);
    check_uses("mixture of experts", &moe);
    check_uses("nanochat", &nano);
    check_targets(&dense, &moe, &nano);
    check_text();
    check_files();
    return done();
}
