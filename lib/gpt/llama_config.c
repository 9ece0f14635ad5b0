/* llama_config.c -- config.json of the Llama family, its presets. */
#include "gpt/llama.h"

#include <math.h>
#include <string.h>

/* ---- presets ---------------------------------------------------------------- */

static const Config tutorial = {
    .family = &llama_family, .T = 256, .V = 10000, .Vp = 10000, .L = 6, .H = 8, .K = 8, .C = 512,
    .D = 64, .llama = { .F = 1280, .norm_top = 1, .eps = 1e-6, .theta = 1e4, .init = 0.02 },
};
static const Config minimind = {
    .family = &llama_family, .T = 32768, .V = 6400, .Vp = 6400, .L = 8, .H = 8, .K = 4, .C = 768,
    .D = 96, .llama = { .F = 2432, .qk_norm = 1, .tied = 1, .norm_top = 1, .eps = 1e-6,
                        .theta = 1e6, .init = 0.02 },
};

int llama_preset(Config *c, const char *name)
{
    if (!strcmp(name, "tutorial")) {
        *c = tutorial;
        return 1;
    }
    if (strncmp(name, "minimind", 8)) return 0;
    *c = minimind;
    if (!name[8]) return 1;
    c->llama.E = 4;
    c->llama.top = 1;
    c->llama.Fe = c->llama.F;
    c->llama.aux = 5e-4;
    return !strcmp(name + 8, "-moe");
}

/* ---- checks ------------------------------------------------------------------ */

enum { MAX_EXPERTS = 1024 };
#define MAX_DROPOUT 0.999

const char *llama_check(const Config *c)
{
    const LlamaConfig *l = &c->llama;
    if (c->C < 1 || c->C > MAX_DIM / 4) return "hidden_size is not from 1 to 2^22";
    if (c->D < 2 || c->D > 65536 || c->D % 2) return "head_dim is not even, from 2 to 65536";
    if (c->H < 1 || (int64_t)c->H * c->D > MAX_DIM)
        return "num_attention_heads times head_dim is not from 2 to 2^24";
    if (c->K < 1 || c->K > c->H || c->H % c->K)
        return "num_attention_heads is not a multiple of num_key_value_heads";
    if (l->F < 1 || l->F > MAX_DIM) return "intermediate_size is not from 1 to 2^24";
    if (l->E < 0 || l->E > MAX_EXPERTS) return "num_experts is not from 0 to 1024";
    if (l->E && (l->top < 1 || l->top > l->E))
        return "num_experts_per_tok is not from 1 to num_experts";
    if (l->E && (l->Fe < 1 || l->Fe > MAX_DIM)) return "moe_intermediate_size is not from 1 to 2^24";
    return NULL;
}

/* ---- reading ----------------------------------------------------------------- */

/* What this version does not compute is refused by name, not ignored. */
static const char *unknown_parts(const Json *j)
{
    static const char *const off[] = { "attention_bias", "mlp_bias", "use_sliding_window" };
    const char *bad = NULL;
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (config_bool(j, off[i], 0, &bad)) return config_wrong("%s is true: not supported", off[i]);
    const Json *act = json_get(j, "hidden_act"), *only = json_get(j, "mlp_only_layers");
    const Json *quant = json_get(j, "quantization_config");
    if (!bad && quant && quant->kind != J_NULL)
        return "quantization_config is there: quantized weights are not supported";
    if (!bad && act && act->kind != J_NULL && !json_is_str(act, "silu"))
        return "hidden_act is not \"silu\"";
    if (!bad && only && only->kind != J_NULL && (only->kind != J_ARR || only->n))
        return "mlp_only_layers is not empty: not supported";
    if (!bad && config_int(j, "decoder_sparse_step", 0, MAX_LAYERS, 1, &bad) != 1)
        return "decoder_sparse_step is not 1: not supported";
    return bad;
}

/* The variant: QK norm, and whether there may be experts. */
static const char *variant(const Json *j, int *qk_norm, int *experts)
{
    const Json *type = json_get(j, "model_type");
    const char *bad = NULL;
    *qk_norm = !json_is_str(type, "llama");
    *experts = json_is_str(type, "qwen3_moe") ||
               (json_is_str(type, "minimind") && config_bool(j, "use_moe", 0, &bad));
    if (bad || !*qk_norm || *experts || json_is_str(type, "minimind") ||
        json_is_str(type, "qwen3"))
        return bad;
    if (type->kind != J_STR) return "model_type is not a text";
    return config_wrong("model_type is \"%.40s\": known are llama, qwen3, qwen3_moe and minimind",
                        type->s);
}

/* mm: MiniMind's defaults. qwen3_moe must say how many; its weights are normalised if it says so. */
static void parse_experts(LlamaConfig *l, const Json *j, int mm, const char **bad)
{
    l->E = config_int(j, "num_experts", 1, MAX_EXPERTS, mm ? 0 : -1, bad);
    if (mm && !l->E) l->E = config_int(j, "n_routed_experts", 1, MAX_EXPERTS, 4, bad);
    l->top = config_int(j, "num_experts_per_tok", 1, MAX_EXPERTS, mm ? 1 : -1, bad);
    l->Fe = config_int(j, "moe_intermediate_size", 1, MAX_DIM, mm ? l->F : -1, bad);
    l->norm_top = config_bool(j, "norm_topk_prob", mm, bad);
    l->aux = config_num(j, "router_aux_loss_coef", 0, 1e6, 0.001, bad);
}

const char *llama_parse(Config *c, const Json *j)
{
    LlamaConfig *l = &c->llama;
    int experts;
    const char *bad = variant(j, &l->qk_norm, &experts);
    if (!bad) bad = unknown_parts(j);
    if (bad) return bad;
    int mm = json_is_str(json_get(j, "model_type"), "minimind");
    c->T = config_int(j, "max_position_embeddings", 1, MAX_DIM, mm ? 32768 : -1, &bad);
    c->V = c->Vp = config_int(j, "vocab_size", 1, MAX_DIM, -1, &bad);
    c->L = config_int(j, "num_hidden_layers", 1, MAX_LAYERS, -1, &bad);
    c->C = config_int(j, "hidden_size", 1, MAX_DIM, -1, &bad);
    c->H = config_int(j, "num_attention_heads", 1, MAX_DIM, -1, &bad);
    c->K = config_int(j, "num_key_value_heads", 1, MAX_DIM, c->H, &bad);
    c->D = config_int(j, "head_dim", 2, MAX_DIM, 0, &bad);
    if (!bad && !c->D && c->C % c->H)
        bad = "head_dim is missing and hidden_size is not a multiple of num_attention_heads";
    if (!bad && !c->D) c->D = c->C / c->H;
    int F = (int)ceil(c->C * M_PI / 64) * 64;
    l->F = config_int(j, "intermediate_size", 1, MAX_DIM, mm ? F : -1, &bad);
    l->tied = config_bool(j, "tie_word_embeddings", mm, &bad);
    l->eps = config_num(j, "rms_norm_eps", 0, 1, 1e-6, &bad);
    l->init = config_num(j, "initializer_range", 0, 1, 0.02, &bad);
    l->dropout = config_num(j, "dropout", 0, MAX_DROPOUT, 0, &bad);
    l->attn_dropout = config_num(j, "attention_dropout", 0, MAX_DROPOUT, l->dropout, &bad);
    if (experts) parse_experts(l, j, mm, &bad);
    if (bad) return bad;
    return rope_parse(c, j, mm);
}

/* ---- writing ------------------------------------------------------------------ */

static void key_num(Buf *b, const char *key, double x)
{
    buf_printf(b, ", \"%s\": ", key);
    json_num(b, x);
}

static const char *yes(int b) { return b ? "true" : "false"; }

void llama_json(const Config *c, Buf *b)
{
    const LlamaConfig *l = &c->llama;
    const char *type = l->E ? "qwen3_moe" : l->qk_norm ? "qwen3" : "llama";
    static const char *const dtype[] = { [NARROW_F32] = "float32", [NARROW_F16] = "float16",
                                         [NARROW_BF16] = "bfloat16" };
    const char *arch = l->E ? "Qwen3Moe" : l->qk_norm ? "Qwen3" : "Llama";
    buf_printf(b,
               "{\"model_type\": \"%s\", \"architectures\": [\"%sForCausalLM\"], "
               "\"torch_dtype\": \"%s\", \"max_position_embeddings\": %d, \"vocab_size\": %d, "
               "\"num_hidden_layers\": %d, \"num_attention_heads\": %d, "
               "\"num_key_value_heads\": %d, \"hidden_size\": %d, \"head_dim\": %d, "
               "\"intermediate_size\": %d, \"hidden_act\": \"silu\", \"attention_bias\": false, "
               "\"tie_word_embeddings\": %s",
               type, arch, dtype[c->stored], c->T, c->V, c->L, c->H, c->K, c->C, c->D, l->F, yes(l->tied));
    key_num(b, "rms_norm_eps", l->eps);
    key_num(b, "initializer_range", l->init);
    if (l->dropout > 0) key_num(b, "dropout", l->dropout);
    if (l->dropout > 0 || l->attn_dropout > 0) key_num(b, "attention_dropout", l->attn_dropout);
    if (l->E) {
        buf_printf(b,
                   ", \"num_experts\": %d, \"num_experts_per_tok\": %d, "
                   "\"moe_intermediate_size\": %d, \"norm_topk_prob\": %s, "
                   "\"decoder_sparse_step\": 1, \"mlp_only_layers\": []",
                   l->E, l->top, l->Fe, yes(l->norm_top));
        key_num(b, "router_aux_loss_coef", l->aux);
    }
    rope_json(c, b);
    buf_str(b, "}\n");
}
