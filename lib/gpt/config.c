/* config.c -- configurations: what families share, and counts. */
#include "gpt/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *config_wrong(const char *fmt, ...)
{
    static char why[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return why;
}

static int absent(const Json *v) { return !v || v->kind == J_NULL; }

int config_int(const Json *j, const char *key, int lo, int hi, int fallback, const char **bad)
{
    const Json *v = json_get(j, key);
    int64_t x;
    if (absent(v) && fallback >= 0) return fallback;
    if (json_int(v, &x) && x >= lo && x <= hi) return (int)x;
    if (!*bad) *bad = config_wrong("%s is missing or not an integer from %d to %d", key, lo, hi);
    return lo;
}

double config_num(const Json *j, const char *key, double lo, double hi, double fallback,
                  const char **bad)
{
    const Json *v = json_get(j, key);
    if (absent(v)) return fallback;
    if (v->kind == J_NUM && v->num >= lo && v->num <= hi) return v->num;
    if (!*bad) *bad = config_wrong("%s is not a number from %g to %g", key, lo, hi);
    return fallback;
}

int config_bool(const Json *j, const char *key, int fallback, const char **bad)
{
    const Json *v = json_get(j, key);
    if (absent(v)) return fallback;
    if (v->kind != J_BOOL && !*bad) *bad = config_wrong("%s is not true or false", key);
    return v->b;
}

const char *config_check(const Config *c)
{
    if (c->L < 1 || c->L > MAX_LAYERS) return "the number of layers is not from 1 to 4096";
    if (c->T < 1 || c->T > MAX_DIM) return "the context is not from 1 to 2^24";
    if (c->V < 1 || c->V > MAX_DIM) return "vocab_size is not from 1 to 2^24";
    return c->family->check(c);
}

int config_window(const Config *c, int layer) { return c->family->window(c, layer); }
void config_json(const Config *c, Buf *b) { c->family->json(c, b); }

const char *config_parse(Config *c, const Json *j)
{
    if (!j || j->kind != J_OBJ) return "not a JSON object";
    const Family *f = json_get(j, "model_type") ? &llama_family : &nanochat_family;
    *c = (Config){ .family = f };
    const char *bad = f->parse(c, j);
    return bad ? bad : config_check(c);
}

/* ---- counts -------------------------------------------------------------- */

/* f over the parameter table of c */
static int64_t count(const Config *c, int (*f)(const Param *p, int arg), int arg)
{
    Model m = { .cfg = *c };
    c->family->params(&m);
    int64_t n = 0;
    for (int i = 0; i < m.nparam; i++)
        if (f(&m.param[i], arg))
            n += m.param[i].n;
    params_free(&m);
    return n;
}

static int in_group(const Param *p, int g) { return g < 0 || (int)p->group == g; }
static int scaling(const Param *p, int x)
{
    (void)x;
    return p->group == PG_MATRIX || p->group == PG_LM_HEAD;
}
static int linear(const Param *p, int x)
{
    return scaling(p, x) || (p->group == PG_SMEAR && p->ndim == 2);
}

/* The parameters of experts that a token does not meet. */
static int64_t idle(const Config *c)
{
    const LlamaConfig *l = &c->llama;
    return l->E ? (int64_t)c->L * (l->E - l->top) * 3 * c->C * l->Fe : 0;
}

/* The logits' product, where its matrix is the embedding. */
static int64_t tied(const Config *c) { return c->llama.tied ? (int64_t)c->V * c->C : 0; }

int64_t config_params(const Config *c, int group) { return count(c, in_group, group); }
int64_t config_active_params(const Config *c) { return config_params(c, -1) - idle(c); }
int64_t config_scaling_params(const Config *c) { return count(c, scaling, 0) + tied(c) - idle(c); }
int64_t config_matmul_params(const Config *c) { return count(c, linear, 0) + tied(c) - idle(c); }

double config_cache_bytes(const Config *c, int64_t B, int64_t T, size_t size)
{
    return 2.0 * c->L * (double)B * (double)T * c->K * head_size(c) * (double)size;
}

/* multiply-adds of q k^T and p v over all layers, if `context` positions came before or are this
 * one */
static double attn_pairs(const Config *c, int64_t context)
{
    double n = 0;
    for (int i = 0; i < c->L; i++) {
        int w = config_window(c, i);
        n += (double)c->H * head_size(c) * (double)(w < context ? w : context);
    }
    return n;
}

double config_flops_per_token(const Config *c)
{
    return 6.0 * (double)config_matmul_params(c) + 12.0 * attn_pairs(c, c->T);
}

double config_decode_flops(const Config *c, int64_t context)
{
    return 2.0 * (double)config_matmul_params(c) + 4.0 * attn_pairs(c, context);
}

double config_prefill_flops(const Config *c, int64_t context)
{
    double n = 2.0 * (double)config_matmul_params(c) * (double)context;
    for (int i = 0; i < c->L; i++) {
        double w = config_window(c, i), T = (double)context; /* sum over t = 1..T of min(t, w) */
        n += 4.0 * c->H * head_size(c) * (T <= w ? T * (T + 1) / 2 : w * (w + 1) / 2 + (T - w) * w);
    }
    return n;
}
