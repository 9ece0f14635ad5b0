/* export_gguf.c -- a model of the Llama family as a GGUF file; see export.h. */
#include "gpt/export.h"
#include "gpt/gguf.h"
#include "gpt/llama.h"
#include "text/convert.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Export {
    const Model *m;
    const Tok *t;
    Gguf *g;
    Narrow type;
    const char *arch, *name;        /* name: of what is exported, in messages */
    int wide;                       /* matrices that q8_0 cannot hold */
} Export;

/* ---- keys -------------------------------------------------------------------- */

static char *of_arch(const Export *x, const char *key) { return xasprintf("%s.%s", x->arch, key); }

static void arch_u32(Export *x, const char *key, int64_t value)
{
    char *k = of_arch(x, key);
    gguf_u32(x->g, k, (uint32_t)value);
    free(k);
}

static void arch_f32(Export *x, const char *key, double value)
{
    char *k = of_arch(x, key);
    gguf_f32(x->g, k, value);
    free(k);
}

/* llama.cpp multiplies YaRN's cosines and sines by 1 + 0.1 ln factor, and by attn_factor. */
static void put_rope(Export *x)
{
    const struct Rope *r = &x->m->cfg.llama.rope;
    arch_u32(x, "rope.dimension_count", x->m->cfg.D);
    arch_f32(x, "rope.freq_base", x->m->cfg.llama.theta);
    char *k = of_arch(x, "rope.scaling.type");
    int yarn = r->factor > 0 && r->kind == ROPE_YARN;
    gguf_str(x->g, k, yarn ? "yarn" : r->factor > 0 && r->kind == ROPE_LINEAR ? "linear" : "none");
    free(k);
    if (!(r->factor > 0) || r->kind == ROPE_LLAMA3) return;
    arch_f32(x, "rope.scaling.factor", r->factor);
    if (!yarn) return;
    arch_u32(x, "rope.scaling.original_context_length", r->original);
    arch_f32(x, "rope.scaling.attn_factor", r->attention / (1 + 0.1 * log(r->factor)));
}

static void put_shape(Export *x)
{
    static const uint32_t file_type[] = { [NARROW_F32] = 0, [NARROW_F16] = 1, [NARROW_Q8_0] = 7,
                                          [NARROW_BF16] = 32 };
    const Config *c = &x->m->cfg;
    const LlamaConfig *l = &c->llama;
    gguf_str(x->g, "general.architecture", x->arch);
    gguf_u32(x->g, "general.file_type", file_type[x->type]);
    gguf_u32(x->g, "general.quantization_version", 2);
    arch_u32(x, "vocab_size", c->V);
    arch_u32(x, "context_length", c->T);
    arch_u32(x, "embedding_length", c->C);
    arch_u32(x, "block_count", c->L);
    arch_u32(x, "feed_forward_length", l->F);
    arch_u32(x, "attention.head_count", c->H);
    arch_u32(x, "attention.head_count_kv", c->K);
    arch_u32(x, "attention.key_length", c->D);
    arch_u32(x, "attention.value_length", c->D);
    arch_f32(x, "attention.layer_norm_rms_epsilon", l->eps);
    if (l->E) {
        arch_u32(x, "expert_count", l->E);
        arch_u32(x, "expert_used_count", l->top);
        arch_u32(x, "expert_feed_forward_length", l->Fe);
    }
    put_rope(x);
}

/* ---- the tokenizer ----------------------------------------------------------- */

/* llama.cpp knows ways to split text by name. Whether a piece that is a token is that token goes
 * with the name; it matters only where merging does not come to it. */
static const char *split_name(const Export *x)
{
    switch (tok_split(x->t)) {
    case SPLIT_GPT2: return "gpt-2";
    case SPLIT_QWEN2: return "qwen2";
    case SPLIT_NANOCHAT:
        warn("%s: llama.cpp does not know nanochat's pattern, the file names Llama 3's: numbers of "
             "three digits and more become other tokens there", x->name);
        break;
    case SPLIT_CL100K:
        warn("%s: llama.cpp does not know cl100k's pattern, the file names Llama 3's: white space "
             "that ends a text may become other tokens there", x->name);
        break;
    default: break;
    }
    return tok_whole(x->t) ? "llama-bpe" : "smaug-bpe";
}

static void put_tokens(Export *x)
{
    enum { NORMAL = 1, CONTROL = 3, UNUSED = 5 };
    int V = x->m->cfg.V, have = tok_vocab(x->t);
    int32_t *type = xcalloc((size_t)V, sizeof *type);
    Buf b = {0};
    gguf_strs(x->g, "tokenizer.ggml.tokens", (uint64_t)V);
    for (int id = 0; id < V; id++) {
        size_t n = 0;
        const char *s = id < have ? tok_bytes(x->t, id, &n) : NULL;
        buf_clear(&b);
        type[id] = !n ? UNUSED : tok_is_special(x->t, id) ? CONTROL : NORMAL;
        if (!n) buf_printf(&b, "[PAD%d]", id);
        else if (type[id] == CONTROL) buf_add(&b, s, n);
        else tok_spell(&b, s, n);
        gguf_item(x->g, b.s, b.n);
    }
    gguf_i32s(x->g, "tokenizer.ggml.token_type", type, (uint64_t)V);
    buf_free(&b);
    free(type);
}

static void count_merge(void *n, uint32_t a, uint32_t b)
{
    (void)a, (void)b;
    ++*(uint64_t *)n;
}

static void put_merge(void *arg, uint32_t a, uint32_t b)
{
    Export *x = arg;
    const uint32_t id[2] = { a, b };
    Buf text = {0};
    for (int i = 0; i < 2; i++) {
        size_t n;
        const char *s = tok_bytes(x->t, (int)id[i], &n);
        if (i) buf_char(&text, ' ');
        tok_spell(&text, s, n);
    }
    gguf_item(x->g, text.s, text.n);
    buf_free(&text);
}

static void put_tokenizer(Export *x, int bos, const unsigned char *stop)
{
    uint64_t merges = 0;
    int turn = tok_special(x->t, SP_ASSISTANT_END), end = bos >= 0 && stop[bos] ? bos : -1;
    gguf_str(x->g, "tokenizer.ggml.model", "gpt2");
    gguf_str(x->g, "tokenizer.ggml.pre", split_name(x));
    put_tokens(x);
    tok_each_merge(x->t, count_merge, &merges);
    gguf_strs(x->g, "tokenizer.ggml.merges", merges);
    tok_each_merge(x->t, put_merge, x);
    for (int id = 0; end < 0 && id < tok_vocab(x->t); id++)
        if (stop[id]) end = id;
    gguf_bool(x->g, "tokenizer.ggml.add_bos_token", bos >= 0);
    if (bos >= 0) gguf_u32(x->g, "tokenizer.ggml.bos_token_id", (uint32_t)bos);
    if (end >= 0) gguf_u32(x->g, "tokenizer.ggml.eos_token_id", (uint32_t)end);
    if (turn >= 0) gguf_u32(x->g, "tokenizer.ggml.eot_token_id", (uint32_t)turn);
}

/* ---- tensors ----------------------------------------------------------------- */

enum { OF_MODEL, OF_LAYER, OF_EXPERTS };
static const struct Name { const char *to, *from; int of; } names[] = {
    { "token_embd", "model.embed_tokens", OF_MODEL },
    { "attn_norm", "input_layernorm", OF_LAYER },
    { "attn_q", "self_attn.q_proj", OF_LAYER },
    { "attn_k", "self_attn.k_proj", OF_LAYER },
    { "attn_v", "self_attn.v_proj", OF_LAYER },
    { "attn_output", "self_attn.o_proj", OF_LAYER },
    { "attn_q_norm", "self_attn.q_norm", OF_LAYER },
    { "attn_k_norm", "self_attn.k_norm", OF_LAYER },
    { "ffn_norm", "post_attention_layernorm", OF_LAYER },
    { "ffn_gate_inp", "mlp.gate", OF_LAYER },
    { "ffn_gate", "mlp.gate_proj", OF_LAYER },
    { "ffn_up", "mlp.up_proj", OF_LAYER },
    { "ffn_down", "mlp.down_proj", OF_LAYER },
    { "ffn_gate_exps", "gate_proj", OF_EXPERTS },
    { "ffn_up_exps", "up_proj", OF_EXPERTS },
    { "ffn_down_exps", "down_proj", OF_EXPERTS },
    { "output_norm", "model.norm", OF_MODEL },
    { "output", "lm_head", OF_MODEL },
};

/* The parameter of a name, in a layer (and as an expert); NULL: this model has none. */
static const Param *find(const Export *x, const struct Name *n, int layer, int expert)
{
    char *s = n->of == OF_MODEL ? xasprintf("%s.weight", n->from)
            : n->of == OF_LAYER ? xasprintf("model.layers.%d.%s.weight", layer, n->from)
            : xasprintf("model.layers.%d.mlp.experts.%d.%s.weight", layer, expert, n->from);
    const Param *p = model_find(x->m, s);
    free(s);
    return p;
}

/* Vectors and routers stay fp32. */
static Narrow type_of(const Export *x, const struct Name *n, const Param *p)
{
    if (p->ndim == 1 || !strcmp(n->to, "ffn_gate_inp")) return NARROW_F32;
    return x->type == NARROW_Q8_0 && p->cols % Q8_BLOCK ? NARROW_F16 : x->type;
}

static void declare(Export *x, const struct Name *n, int layer)
{
    const Param *p = find(x, n, layer, 0);
    if (!p) return;
    char *to = n->of == OF_MODEL ? xasprintf("%s.weight", n->to)
                                 : xasprintf("blk.%d.%s.weight", layer, n->to);
    int64_t dim[3] = { x->m->cfg.llama.E, p->rows, p->cols };
    Narrow type = type_of(x, n, p);
    x->wide += type == NARROW_F16 && x->type == NARROW_Q8_0;
    if (n->of == OF_EXPERTS) gguf_tensor(x->g, to, type, 3, dim);
    else gguf_tensor(x->g, to, type, p->ndim, dim + 1);
    free(to);
}

/* llama.cpp turns neighbouring channels of a model of type llama: row j of the first half of a head
 * becomes row 2j, row j of the second half 2j + 1. */
static void pair_rows(real *x, const Param *p, int D)
{
    size_t C = (size_t)p->cols;
    real *head = xreallocarray(NULL, size_mul((size_t)D, C), sizeof *head);
    for (int h = 0; h < p->rows / D; h++) {
        real *at = x + (size_t)h * (size_t)D * C;
        memcpy(head, at, (size_t)D * C * sizeof *head);
        for (int r = 0; r < D; r++)
            memcpy(at + (size_t)r * C, head + (size_t)(r % 2 * (D / 2) + r / 2) * C, C * sizeof *x);
    }
    free(head);
}

static void write_param(Export *x, const struct Name *n, const Param *p)
{
    real *v = xreallocarray(NULL, (size_t)p->n, sizeof *v);
    model_get(x->m, p, v);
    const char *bad = narrow_fits(type_of(x, n, p), v, p->n);
    if (bad) die("%s: tensor %s %s", x->name, p->name, bad);
    int turned = !strcmp(n->to, "attn_q") || !strcmp(n->to, "attn_k");
    if (turned && !x->m->cfg.llama.qk_norm) pair_rows(v, p, x->m->cfg.D);
    gguf_data(x->g, v, p->n);
    free(v);
}

static void write_data(Export *x, const struct Name *n, int layer)
{
    int parts = n->of == OF_EXPERTS ? x->m->cfg.llama.E : 1;
    for (int e = 0; e < parts; e++) {
        const Param *p = find(x, n, layer, e);
        if (p) write_param(x, n, p);
    }
}

static void each(Export *x, void (*f)(Export *, const struct Name *, int layer))
{
    size_t k = 0, count = sizeof names / sizeof *names;
    for (; names[k].of == OF_MODEL; k++) f(x, &names[k], 0);
    for (int i = 0; i < x->m->cfg.L; i++)
        for (size_t j = k; names[j].of != OF_MODEL; j++) f(x, &names[j], i);
    while (names[k].of != OF_MODEL) k++;
    for (; k < count; k++) f(x, &names[k], 0);
}

/* What llama3's scaling divides each frequency by, [D/2]. */
static void divisors(const Config *c, real *by)
{
    double *f = xcalloc((size_t)c->D, sizeof *f);
    llama_rotary(c, f);
    for (int j = 0; j < c->D / 2; j++)
        by[j] = (real)(pow(c->llama.theta, -2.0 * j / c->D) / f[j]);
    free(f);
}

/* ---- the whole --------------------------------------------------------------- */

static void check(const Export *x)
{
    const Config *c = &x->m->cfg;
    const struct Rope *r = &c->llama.rope;
    if (c->family != &llama_family)
        die("%s: llama.cpp does not know the %s family", x->name, c->family->name);
    if (tok_words(x->t)) die("%s: llama.cpp has no tokenizers of words", x->name);
    if (c->llama.E && !c->llama.norm_top)
        die("%s: norm_topk_prob is false: llama.cpp always divides an expert's weight by their sum",
            x->name);
    if (c->llama.E && !c->llama.qk_norm)
        die("%s: llama.cpp knows no experts without QK norm", x->name);
    if (r->factor > 0 && r->kind == ROPE_YARN && (r->fast != 32 || r->slow != 1))
        die("%s: llama.cpp knows YaRN only with beta_fast 32 and beta_slow 1", x->name);
    if (r->factor > 0 && r->kind == ROPE_LLAMA3 && c->llama.qk_norm)
        die("%s: llama.cpp knows rope_scaling of type llama3 only in models of type llama", x->name);
    if (tok_vocab(x->t) > c->V)
        die("%s: the tokenizer has %d tokens, but vocab_size is %d", x->name, tok_vocab(x->t), c->V);
}

void export_gguf(const Model *m, const Tok *t, Narrow type, int bos, const unsigned char *stop,
                 const char *name, Out *o)
{
    const Config *c = &m->cfg;
    Export x = { .m = m, .t = t, .type = type, .name = name,
                 .arch = c->llama.E ? "qwen3moe" : c->llama.qk_norm ? "qwen3" : "llama" };
    check(&x);
    x.g = gguf_new();
    int llama3 = c->llama.rope.factor > 0 && c->llama.rope.kind == ROPE_LLAMA3;
    int64_t half = c->D / 2;
    put_shape(&x);
    put_tokenizer(&x, bos, stop);
    if (llama3) gguf_tensor(x.g, "rope_freqs.weight", NARROW_F32, 1, &half);
    each(&x, declare);
    gguf_begin(x.g, o);
    if (llama3) {
        real *by = xcalloc((size_t)half, sizeof *by);
        divisors(c, by);
        gguf_data(x.g, by, half);
        free(by);
    }
    each(&x, write_data);
    gguf_end(x.g);
    if (x.wide)
        note(1, "%d matrices stay fp16: their columns are not a multiple of %d", x.wide, Q8_BLOCK);
}
