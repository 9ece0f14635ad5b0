/* llama_rope.c -- the Llama family's rotary embedding: rope_theta and rope_scaling of config.json,
 * and the frequencies they make.
 *
 * Scalings, all of them tables only: "linear" (positions divided by factor), "llama3" and "yarn".
 * The latter two leave channel pairs alone that turn often within the original context and divide
 * the frequency of those that hardly turn by factor; YaRN (Peng et al. 2023) goes from one to the
 * other by the pair's number, Llama 3.1 by how often it turns. MiniMind scales only if the context
 * exceeds the original one, and limits the ramp to D/2 - 1 where transformers has D - 1. */
#include "gpt/llama.h"
#include <math.h>
#include <string.h>

/* ---- reading ----------------------------------------------------------------- */

static const char *const kind_name[] = { "yarn", "llama3", "linear" };

static const char *parse_kind(struct Rope *r, const Json *s)
{
    static const char *const off[] = { "mscale", "mscale_all_dim" };
    const Json *type = json_get(s, "rope_type"), *truncate = json_get(s, "truncate");
    int k = 0;
    if (!type) type = json_get(s, "type");
    if (!type || json_is_str(type, "default")) return NULL;
    if (type->kind != J_STR) return "the type of rope_scaling is not a text";
    while (k < 3 && !json_is_str(type, kind_name[k])) k++;
    if (k == 3)
        return config_wrong("rope_scaling has the type \"%.40s\": known are yarn, llama3, linear",
                            type->s);
    for (int i = 0; i < 2; i++)
        if (json_get(s, off[i]) && json_get(s, off[i])->kind != J_NULL)
            return config_wrong("rope_scaling has %s: not supported", off[i]);
    if (truncate && truncate->kind == J_BOOL && !truncate->b)
        return "rope_scaling has truncate false: not supported";
    r->kind = (enum RopeKind)k;
    r->factor = 1;
    return NULL;
}

static double positive(const Json *s, const char *key, double lo, double fallback, const char **bad)
{
    const Json *x = json_get(s, key);
    if (fallback > 0 || (x && x->kind != J_NULL)) return config_num(s, key, lo, 1e6, fallback, bad);
    if (!*bad) *bad = config_wrong("%s is missing from rope_scaling", key);
    return 1;
}

static const char *parse_scaling(Config *c, const Json *s, int minimind)
{
    struct Rope *r = &c->llama.rope;
    if (!s || s->kind == J_NULL) return NULL;
    const char *bad = parse_kind(r, s);
    if (bad || !(r->factor > 0)) return bad;
    int llama3 = r->kind == ROPE_LLAMA3;
    r->minimind = minimind;
    r->factor = positive(s, "factor", 1, minimind ? 16 : 0, &bad);
    r->original = config_int(s, "original_max_position_embeddings", 1, MAX_DIM,
                             minimind ? 2048 : c->T, &bad);
    r->fast = positive(s, llama3 ? "high_freq_factor" : "beta_fast", 1e-3, llama3 ? 0 : 32, &bad);
    r->slow = positive(s, llama3 ? "low_freq_factor" : "beta_slow", 1e-3, llama3 ? 0 : 1, &bad);
    double by = minimind ? 1 : 0.1 * log(r->factor) + 1;        /* the latter: transformers' */
    r->attention = config_num(s, "attention_factor", 1e-6, 1e6, by, &bad);
    if (!bad && llama3 && r->fast <= r->slow) bad = "high_freq_factor is not above low_freq_factor";
    if (minimind && c->T <= r->original) *r = (struct Rope){ .factor = 0 };
    return bad;
}

const char *rope_parse(Config *c, const Json *j, int minimind)
{
    const char *bad = NULL;
    const Json *in = json_get(j, "rope_parameters"), *scaling = json_get(j, "rope_scaling");
    const Json *theta = json_get(j, "rope_theta") ? j : in;
    c->llama.theta = config_num(theta, "rope_theta", 1, 1e12, minimind ? 1e6 : 1e4, &bad);
    const Json *part = json_get(j, "partial_rotary_factor");
    if (!part) part = json_get(in, "partial_rotary_factor");
    if (part && part->kind != J_NULL && !(part->kind == J_NUM && part->num == 1))
        return "partial_rotary_factor is not 1: not supported";
    if (bad) return bad;
    if (scaling && scaling->kind != J_NULL && scaling->kind != J_OBJ)
        return "rope_scaling is not an object";
    if (in && in->kind != J_NULL && in->kind != J_OBJ) return "rope_parameters is not an object";
    return parse_scaling(c, scaling && scaling->kind != J_NULL ? scaling : in, minimind);
}

/* ---- writing ------------------------------------------------------------------ */

static void key_num(Buf *b, const char *key, double x)
{
    buf_printf(b, ", \"%s\": ", key);
    json_num(b, x);
}

void rope_json(const Config *c, Buf *b)
{
    const struct Rope *r = &c->llama.rope;
    int llama3 = r->kind == ROPE_LLAMA3;
    key_num(b, "rope_theta", c->llama.theta);
    if (!(r->factor > 0)) return;
    buf_printf(b, ", \"rope_scaling\": {\"rope_type\": \"%s\"", kind_name[r->kind]);
    key_num(b, "factor", r->factor);
    if (r->kind != ROPE_LINEAR) {
        buf_printf(b, ", \"original_max_position_embeddings\": %d", r->original);
        key_num(b, llama3 ? "high_freq_factor" : "beta_fast", r->fast);
        key_num(b, llama3 ? "low_freq_factor" : "beta_slow", r->slow);
    }
    if (r->kind == ROPE_YARN) key_num(b, "attention_factor", r->attention);
    buf_char(b, '}');
}

/* ---- frequencies ---------------------------------------------------------------- */

/* The channel pair that turns b times within the original context. */
static double pair_of(const Config *c, double b)
{
    return c->D * log(c->llama.rope.original / (2 * M_PI * b)) / (2 * log(c->llama.theta));
}

static double clamp1(double x) { return fmin(fmax(x, 0), 1); }

/* What part of pair j's frequency f is divided by factor. */
static double divided(const Config *c, int j, double f)
{
    const struct Rope *r = &c->llama.rope;
    if (r->kind == ROPE_LINEAR) return 1;
    if (r->kind == ROPE_LLAMA3)
        return 1 - clamp1((r->original * f / (2 * M_PI) - r->slow) / (r->fast - r->slow));
    double low = fmax(floor(pair_of(c, r->fast)), 0);
    double high = fmin(ceil(pair_of(c, r->slow)), (r->minimind ? c->D / 2 : c->D) - 1);
    return clamp1((j - low) / fmax(high - low, 0.001));
}

double llama_rotary(const Config *c, double *freq)
{
    int half = c->D / 2;
    const struct Rope *r = &c->llama.rope;
    for (int j = 0; j < half; j++) freq[j] = pow(c->llama.theta, -(double)j / half);
    if (!(r->factor > 0)) return 1;
    for (int j = 0; j < half; j++)
        freq[j] *= 1 + divided(c, j, freq[j]) * (1 / r->factor - 1);    /* factor 1: the very same */
    return r->kind == ROPE_YARN ? r->attention : 1;
}
