/* config.c -- configurations: the depth dial, checks, config.json, counts. */
#include "gpt/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t round_up(int64_t x, int64_t to)
{
    return (x + to - 1) / to * to;
}

Config config_depth(int depth, int aspect, int head_dim, int T, int V, const char *window)
{
    Config c = { .family = "nanochat", .T = T, .V = V, .Vp = (int)round_up(V, 64), .L = depth };
    c.C = (int)round_up((int64_t)depth * aspect, head_dim);
    c.H = c.K = c.C / head_dim;
    if (strlen(window) >= sizeof c.window)
        die_usage("--window-pattern: '%s' is longer than %zu letters", window, sizeof c.window - 1);
    strcpy(c.window, window);
    return c;
}

enum { MAX_DIM = 1 << 24, MAX_LAYERS = 4096 };

const char *config_check(const Config *c)
{
    if (c->L < 1 || c->L > MAX_LAYERS) return "n_layer is not from 1 to 4096";
    if (c->T < 1 || c->T > MAX_DIM) return "sequence_len is not from 1 to 2^24";
    if (c->V < 1 || c->V > MAX_DIM) return "vocab_size is not from 1 to 2^24";
    if (c->C < 24 || c->C > MAX_DIM / 4)
        return "n_embd is not from 24 to 2^22"; /* the gates read 24 and 12 */
    if (c->H < 1 || c->H > c->C || c->C % c->H) return "n_embd is not a multiple of n_head";
    if (c->K < 1 || c->K > c->H || c->H % c->K) return "n_head is not a multiple of n_kv_head";
    if (c->C / c->H % 2) return "the head size n_embd / n_head is odd";
    if (!c->window[0] || c->window[strspn(c->window, "SLsl")])
        return "window_pattern is not made of S and L";
    return NULL;
}

int config_window(const Config *c, int layer)
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

void config_json(const Config *c, Buf *b)
{
    buf_printf(b,
               "{\"family\": \"%s\", \"sequence_len\": %d, \"vocab_size\": %d, \"n_layer\": %d, "
               "\"n_head\": %d, "
               "\"n_kv_head\": %d, \"n_embd\": %d, \"window_pattern\": \"%s\"}\n",
               c->family, c->T, c->V, c->L, c->H, c->K, c->C, c->window);
}

const char *config_parse(Config *c, const Json *j)
{
    if (!j || j->kind != J_OBJ) return "not a JSON object";
    const Json *f = json_get(j, "family");
    if (f && !json_is_str(f, "nanochat"))
        return "family is not \"nanochat\", the one this version knows";
    *c = (Config){ .family = "nanochat" };
    const struct { const char *key; int *to;
    } field[] = {
        { "sequence_len", &c->T }, { "vocab_size", &c->V }, { "n_layer", &c->L },
        { "n_head", &c->H },       { "n_kv_head", &c->K },  { "n_embd", &c->C },
    };
    static char why[96];
    for (size_t i = 0; i < sizeof field / sizeof *field; i++) {
        int64_t x;
        if (!json_int(json_get(j, field[i].key), &x) || x < 1 || x > MAX_DIM) {
            snprintf(why, sizeof why, "%s is missing or not an integer from 1 to %d", field[i].key,
                     MAX_DIM);
            return why;
        }
        *field[i].to = (int)x;
    }
    const Json *w = json_get(j, "window_pattern");
    if (!w || w->kind != J_STR || w->len == 0 || w->len >= sizeof c->window ||
        memchr(w->s, 0, w->len))
        return "window_pattern is missing, empty or longer than 32 letters";
    memcpy(c->window, w->s, w->len);
    c->Vp = (int)round_up(c->V, 64);
    return config_check(c);
}

/* ---- counts -------------------------------------------------------------- */

/* f over the parameter table of c */
static int64_t count(const Config *c, int (*f)(const Param *p, int arg), int arg)
{
    Model m = { .cfg = *c };
    nanochat_params(&m);
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

int64_t config_params(const Config *c, int group) { return count(c, in_group, group); }
int64_t config_scaling_params(const Config *c) { return count(c, scaling, 0); }
int64_t config_matmul_params(const Config *c) { return count(c, linear, 0); }

/* multiply-adds of q k^T and p v over all layers, if `context` positions came before or are this
 * one */
static double attn_pairs(const Config *c, int64_t context)
{
    double n = 0;
    for (int i = 0; i < c->L; i++) {
        int w = config_window(c, i);
        n += (double)c->C * (double)(w < context ? w : context);
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
        n += 4.0 * c->C * (T <= w ? T * (T + 1) / 2 : w * (w + 1) / 2 + (T - w) * w);
    }
    return n;
}
