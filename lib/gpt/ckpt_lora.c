/* ckpt_lora.c -- adapters on disk, in the layout of Hugging Face's PEFT: adapter_config.json and
 * adapter_model.safetensors with base_model.model.MODULE.lora_A.weight [r,C] and .lora_B.weight
 * [O,r]. The file's metadata have the hash of the weights that the adapter was trained on. */
#include "gpt/ckpt_lora.h"
#include "gpt/ckpt_dir.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing */

void lora_config_json(const Lora *l, const char *base, Buf *b)
{
    char *targets = lora_targets(l), *save = NULL;
    buf_str(b, "{\"peft_type\": \"LORA\", \"task_type\": \"CAUSAL_LM\", "
               "\"base_model_name_or_path\": ");
    json_str(b, base, strlen(base));
    buf_printf(b, ", \"r\": %d, \"lora_alpha\": ", l->r);
    json_num(b, l->alpha);
    buf_str(b, ", \"lora_dropout\": 0.0, \"bias\": \"none\", \"fan_in_fan_out\": false, "
               "\"init_lora_weights\": true, \"inference_mode\": true, \"modules_to_save\": null, "
               "\"target_modules\": [");
    const char *comma = "";
    for (char *t = strtok_r(targets, ",", &save); t; t = strtok_r(NULL, ",", &save)) {
        buf_str(b, comma);
        json_str(b, t, strlen(t));
        comma = ", ";
    }
    buf_str(b, "]}\n");
    free(targets);
}

/* ---- reading */

/* What changes what an adapter computes, and is not computed here. */
static const char *unknown_parts(const Json *j)
{
    static const char *const off[] = { "use_dora", "fan_in_fan_out", "lora_bias", "use_qalora" };
    static const char *const empty[] = { "rank_pattern", "alpha_pattern", "modules_to_save",
                                         "target_parameters", "trainable_token_indices" };
    const Json *bias = json_get(j, "bias");
    const char *bad = NULL;
    if (!json_is_str(json_get(j, "peft_type"), "LORA")) return "peft_type is not \"LORA\"";
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (config_bool(j, off[i], 0, &bad))
            return config_wrong("%s is true: not supported", off[i]);
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        const Json *v = json_get(j, empty[i]);
        if (v && v->kind != J_NULL && !((v->kind == J_ARR || v->kind == J_OBJ) && !v->n))
            return config_wrong("%s is not empty: not supported", empty[i]);
    }
    if (bias && bias->kind != J_NULL && !json_is_str(bias, "none"))
        return "bias is not \"none\": not supported";
    return bad;
}

/* The module of a tensor's name; malloced. NULL: not one of an adapter. */
static char *module_of(const char *name)
{
    static const char *const end[] = { ".lora_A.weight", ".lora_B.weight" };
    size_t n = strlen(name), pre = strlen(LORA_PREFIX), k = strlen(end[0]);
    if (n <= pre + k || strncmp(name, LORA_PREFIX, pre)) return NULL;
    if (strcmp(name + n - k, end[0]) && strcmp(name + n - k, end[1])) return NULL;
    char *s = xasprintf("%.*s", (int)(n - pre - k), name + pre);
    if (!strpbrk(s, ",=*?[\\")) return s;           /* what a list of targets would take amiss */
    free(s);
    return NULL;
}

/* The modules that the file has matrices for, each once: those with an A. r is believed only if
 * these have it, before memory is asked for. */
static char *modules_in(const StFile *f, const char *path, int r)
{
    Buf b = {0};
    for (int i = 0; i < st_count(f); i++) {
        const StTensor *t = st_at(f, i);
        const char *name = t->name;
        char *module = module_of(name);
        if (!module) die("%s: tensor %s: not of a LoRA adapter", path, name);
        if (strstr(name, ".lora_A.")) {
            if (t->ndim != 2 || t->dim[0] != r)
                die("%s: tensor %s: its rank is not the configuration's, %d", path, name, r);
            buf_printf(&b, "%s%s", b.n ? "," : "", module);
        }
        free(module);
    }
    if (!b.n) die("%s: no adapter: no lora_A", path);
    return b.s;
}

static void read_config(const char *path, const Json *j, LoraSpec *s)
{
    const char *bad = j ? unknown_parts(j) : "not a JSON object";
    if (!bad) s->r = config_int(j, "r", 1, 65536, -1, &bad);
    if (!bad && !json_get(j, "lora_alpha")) bad = "lora_alpha is missing";
    if (!bad) s->alpha = config_num(j, "lora_alpha", 1e-6, 1e6, 1, &bad);
    if (!bad && config_bool(j, "use_rslora", 0, &bad)) s->alpha *= sqrt(s->r); /* alpha / sqrt(r) */
    if (bad) die("%s: %s", path, bad);
}

typedef struct Files { char *config, *weights; StFile *f; LoraSpec spec; } Files;

static Files files_open(const char *dir)
{
    Arena a = {0};
    int s = snapshot_begin(dir);
    Files v = { .weights = ckpt_path(dir, ckpt_name[F_ADAPTER]) };
    v.config = xasprintf("%s/%s", dir, ckpt_name[F_ADAPTER_CONFIG]);
    const Json *j = ckpt_json(dir, ckpt_name[F_ADAPTER_CONFIG], &a);
    if (!j) die("%s: No such file or directory: not an adapter's directory", v.config);
    if (!v.weights) die("%s/%s: No such file or directory", dir, ckpt_name[F_ADAPTER]);
    v.f = st_open(v.weights);
    snapshot_end(s);
    read_config(v.config, j, &v.spec);
    v.spec.targets = modules_in(v.f, v.weights, v.spec.r);
    arena_free(&a);
    return v;
}

static void files_close(Files *v)
{
    st_close(v->f);
    free(v->config);
    free(v->weights);
}

LoraSpec ckpt_lora_spec(const char *dir)
{
    Files v = files_open(dir);
    files_close(&v);
    return v.spec;
}

static uint64_t hash_in(const StFile *f)
{
    const Json *h = json_get(st_meta(f), "base");
    if (!h || h->kind != J_STR || h->len != 16 || strspn(h->s, "0123456789abcdef") != 16) return 0;
    return strtoull(h->s, NULL, 16);
}

Lora *ckpt_lora(const char *dir, Model *m, int train, uint64_t *base_hash)
{
    const char *bad;
    Files v = files_open(dir);
    Lora *l = lora_new(m, &v.spec, train, &bad);
    if (!l) die("%s: %s", v.weights, bad);
    real *chunk = xreallocarray(NULL, CKPT_CHUNK, sizeof *chunk);
    for (int i = 0; i < l->p->nparam; i++) {
        const Param *p = &l->p->param[i];
        ckpt_read(v.f, v.weights, p, m->ops, var_weights(&p->var), chunk);
    }
    if (st_count(v.f) != l->p->nparam) die("%s: a lora_B without its lora_A", v.weights);
    free(chunk);
    *base_hash = hash_in(v.f);
    if (lora_merged(m, model_hash(l->p)))
        die("%s: merged into the model's weights already", dir);
    files_close(&v);
    lora_spec_free(&v.spec);
    return l;
}

Lora *ckpt_lora_for(const char *dir, Model *m, const char *model_dir)
{
    uint64_t was;
    Lora *l = ckpt_lora(dir, m, 0, &was);
    if (was && was != model_hash(m))
        warn("%s: was trained on other weights than those of %s", dir, model_dir);
    return l;
}
