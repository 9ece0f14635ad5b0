/* lora.c -- see lora.h. */
#include "gpt/lora.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"

enum { MAX_RANK = 65536 };

/* ---- "r=8,alpha=16,targets=q,v" ---------------------------------------------------- */

static const char *number(const char *s, size_t n, double lo, double *x)
{
    char t[64], *end;
    if (n == 0 || n >= sizeof t) return "not a number";
    memcpy(t, s, n);
    t[n] = 0;
    *x = strtod(t, &end);
    return *end || !isfinite(*x) || *x < lo || *x > 1e6 ? "not a number, or out of range" : NULL;
}

/* The item [s, s + n): a key and its value, or (in_list) one more target. */
static const char *item(LoraSpec *spec, const char *s, size_t n, int *in_list, Buf *targets)
{
    const char *eq = memchr(s, '=', n), *bad = NULL;
    double x = 0;
    if (!eq) {
        if (!*in_list) return config_wrong("'%.*s' is not of the form r=N,alpha=X,targets=...",
                                           (int)(n < 60 ? n : 60), s);
        buf_printf(targets, ",%.*s", (int)n, s);
        return n ? NULL : "an empty target";
    }
    size_t k = (size_t)(eq - s), v = n - k - 1;
    *in_list = 0;
    if (k == 1 && *s == 'r') {
        bad = number(eq + 1, v, 1, &x);
        spec->r = (int)x;
        if (!bad && (x > MAX_RANK || x != floor(x))) bad = "not a whole number up to 65536";
    } else if (k == 5 && !memcmp(s, "alpha", 5)) {
        bad = number(eq + 1, v, 1e-6, &spec->alpha);
    } else if (k == 7 && !memcmp(s, "targets", 7)) {
        *in_list = 1;
        buf_clear(targets);
        buf_printf(targets, "%.*s", (int)v, eq + 1);
        if (!v) bad = "an empty target";
    } else {
        return config_wrong("'%.*s': known are r, alpha and targets", (int)(k < 60 ? k : 60), s);
    }
    return bad ? config_wrong("%.*s: %s", (int)k, s, bad) : NULL;
}

const char *lora_parse(LoraSpec *spec, const char *text)
{
    Buf targets = {0};
    const char *bad = NULL;
    int in_list = 0;
    *spec = (LoraSpec){ .r = 8 };
    buf_str(&targets, "q,v");
    for (const char *s = text; !bad; s += 1) {
        size_t n = strcspn(s, ",");
        bad = item(spec, s, n, &in_list, &targets);
        s += n;
        if (!*s) break;
    }
    if (!spec->alpha) spec->alpha = 2 * spec->r;
    spec->targets = xstrdup(targets.s);
    buf_free(&targets);
    return bad;
}

char *lora_text(const LoraSpec *s)
{
    Buf b = {0};
    json_num(&b, s->alpha);
    char *t = xasprintf("r=%d,alpha=%.*s,targets=%s", s->r, (int)b.n, b.s, s->targets);
    buf_free(&b);
    return t;
}

void lora_spec_free(LoraSpec *s)
{
    free(s->targets);
    s->targets = NULL;
}

/* ---- which matrices ------------------------------------------------------------------ */

static int ends(const char *s, const char *with)
{
    size_t n = strlen(s), k = strlen(with);
    return n >= k && !strcmp(s + n - k, with);
}

/* Routers and the gates of value embeddings are matrices, but no linear maps of the tape. */
static int adaptable(const Param *p)
{
    return p->group == PG_MATRIX && !ends(p->name, ".mlp.gate.weight") &&
           !ends(p->name, ".ve_gate.weight");
}

char *lora_module(const Param *w)
{
    return xasprintf("%.*s", (int)(strlen(w->name) - strlen(".weight")), w->name);
}

static const char *last_part(const char *module) { return strrchr(module, '.') + 1; }

static int is_target(const char *t, const char *module)
{
    static const struct { const char *name, *end[2]; } known[] = {
        { "q", { ".q_proj", ".attn.c_q" } },        { "k", { ".k_proj", ".attn.c_k" } },
        { "v", { ".v_proj", ".attn.c_v" } },        { "o", { ".o_proj", ".attn.c_proj" } },
        { "up", { ".up_proj", ".mlp.c_fc" } },      { "gate", { ".gate_proj", ".gate_proj" } },
        { "down", { ".down_proj", ".mlp.c_proj" } },
    };
    if (!strcmp(t, "all") || !strcmp(t, last_part(module)) || !fnmatch(t, module, 0)) return 1;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(t, known[i].name))
            return ends(module, known[i].end[0]) || ends(module, known[i].end[1]);
    return 0;
}

/* on [m->nparam]: which are adapted. Returns how many; 0 if a target matches none. */
static int choose(const Model *m, const char *targets, unsigned char *on, const char **bad)
{
    char *list = xstrdup(targets), *save = NULL;
    int all = 0;
    *bad = NULL;
    for (char *t = strtok_r(list, ",", &save); t && !*bad; t = strtok_r(NULL, ",", &save)) {
        int hits = 0;
        for (int i = 0; i < m->nparam; i++) {
            if (!adaptable(&m->param[i])) continue;
            char *module = lora_module(&m->param[i]);
            int hit = is_target(t, module);
            hits += hit;
            all += hit && !on[i];
            on[i] |= (unsigned char)hit;
            free(module);
        }
        if (!hits) *bad = config_wrong("'%.80s' matches no linear map of the model", t);
    }
    free(list);
    if (!all && !*bad) *bad = "no target";
    return *bad ? 0 : all;
}

/* ---- the adapter --------------------------------------------------------------------- */

static void add_half(Lora *l, const Param *w, int b)
{
    char *module = lora_module(w);
    int rows = b ? w->rows : l->r, cols = b ? l->r : w->cols;
    Param *p = param_add(l->p, PG_MATRIX, 2, rows, cols, LORA_PREFIX "%s.lora_%c.weight", module,
                         "AB"[b]);
    p->init = b ? INIT_CONST : INIT_UNIFORM;
    p->b = b ? 0 : 1 / sqrt(w->cols);
    p->a = -p->b;
    free(module);
}

/* All A of a stack of matrices, then all B: so those of a layer's experts are one array each. */
static void add_stack(Lora *l, const Stack *s, const unsigned char *on)
{
    for (int b = 0; b < 2; b++)
        for (int i = s->first; i < s->first + s->count; i++) {
            if (!on[i]) continue;
            add_half(l, &l->m->param[i], b);
            if (!b) l->of[l->nlow++] = &l->m->param[i];
        }
}

Lora *lora_new(Model *m, const LoraSpec *s, int train, const char **bad)
{
    unsigned char *on = xcalloc((size_t)m->nparam, 1);
    int n = choose(m, s->targets, on, bad);
    if (!n) {
        free(on);
        return NULL;
    }
    Lora *l = xcalloc(1, sizeof *l);
    *l = (Lora){ .m = m, .p = xcalloc(1, sizeof *l->p), .r = s->r, .alpha = s->alpha };
    l->of = xcalloc((size_t)n, sizeof *l->of);
    l->low = xcalloc((size_t)n, sizeof *l->low);
    l->p->cfg = m->cfg;
    l->p->ops = m->ops;
    for (int i = 0; i < m->nstack; i++) add_stack(l, &m->stack[i], on);
    free(on);
    model_arrays(l->p, train);
    if (train) model_want_aux(m);
    for (int i = 0; i < n; i++) {
        char *module = lora_module(l->of[i]);
        l->low[i] = (LowRank){ model_var(l->p, LORA_PREFIX "%s.lora_A.weight", module),
                               model_var(l->p, LORA_PREFIX "%s.lora_B.weight", module), l->r,
                               l->alpha / l->r };
        free(module);
    }
    lora_attach(l, 1);
    return l;
}

void lora_attach(Lora *l, int on)
{
    for (int i = 0; i < l->nlow; i++)
        ((Param *)l->of[i])->var.low = on ? &l->low[i] : NULL;
}

void lora_free(Lora *l)
{
    if (!l) return;
    lora_attach(l, 0);
    model_free(l->p);
    free(l->of);
    free(l->low);
    free(l);
}

void lora_init(Lora *l, uint64_t seed) { model_init(l->p, seed); }

/* ---- into the weights ---------------------------------------------------------------- */

static const Param *param_of(const Model *p, const Var *v)
{
    int i = 0;
    while (&p->param[i].var != v) i++;
    return &p->param[i];
}

static void merge_one(const Lora *l, int i)
{
    const Param *w = l->of[i], *a = param_of(l->p, l->low[i].a), *b = param_of(l->p, l->low[i].b);
    real *W = xreallocarray(NULL, (size_t)w->n, sizeof *W);
    real *A = xreallocarray(NULL, (size_t)a->n, sizeof *A);
    real *B = xreallocarray(NULL, (size_t)b->n, sizeof *B);
    double *row = xcalloc((size_t)w->cols, sizeof *row);
    model_get(l->m, w, W);
    model_get(l->p, a, A);
    model_get(l->p, b, B);
    for (int64_t o = 0; o < w->rows; o++) {
        memset(row, 0, (size_t)w->cols * sizeof *row);
        for (int64_t k = 0; k < l->r; k++) {
            double s = l->low[i].scale * (double)B[o * l->r + k];
            for (int64_t c = 0; c < w->cols; c++) row[c] += s * (double)A[k * w->cols + c];
        }
        for (int64_t c = 0; c < w->cols; c++)
            W[o * w->cols + c] = (real)((double)W[o * w->cols + c] + row[c]);
    }
    model_set(l->m, w, W);
    free(W);
    free(A);
    free(B);
    free(row);
}

static char *hash_text(uint64_t h) { return xasprintf("%016" PRIx64, h); }

int lora_merged(const Model *m, uint64_t hash)
{
    char *h = hash_text(hash);
    int in = m->merged && strstr(m->merged, h);
    free(h);
    return in;
}

void lora_merge(Lora *l)
{
    char *h = hash_text(model_hash(l->p)), *was = l->m->merged;
    for (int i = 0; i < l->nlow; i++) merge_one(l, i);
    l->m->merged = was ? xasprintf("%s %s", was, h) : xstrdup(h);
    free(was);
    free(h);
    lora_attach(l, 0);
}

/* ---- target_modules ------------------------------------------------------------------ */

static int is_adapted(const Lora *l, const Param *p)
{
    for (int i = 0; i < l->nlow; i++)
        if (l->of[i] == p) return 1;
    return 0;
}

/* Are all maps whose names end so adapted? */
static int all_on(const Lora *l, const char *end)
{
    for (int i = 0; i < l->m->nparam; i++) {
        const Param *p = &l->m->param[i];
        if (!adaptable(p)) continue;
        char *module = lora_module(p);
        int off = !strcmp(last_part(module), end) && !is_adapted(l, p);
        free(module);
        if (off) return 0;
    }
    return 1;
}

static int listed(const Buf *b, const char *name)
{
    size_t n = strlen(name);
    for (const char *s = b->s; s && *s; s += strcspn(s, ","), s += *s == ',')
        if (strcspn(s, ",") == n && !memcmp(s, name, n)) return 1;
    return 0;
}

char *lora_targets(const Lora *l)
{
    Buf b = {0};
    for (int i = 0; i < l->nlow; i++) {
        char *module = lora_module(l->of[i]);
        const char *name = all_on(l, last_part(module)) ? last_part(module) : module;
        if (!listed(&b, name)) buf_printf(&b, "%s%s", b.n ? "," : "", name);
        free(module);
    }
    char *s = xstrdup(b.s);
    buf_free(&b);
    return s;
}
