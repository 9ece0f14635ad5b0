/* GGUF files read back: keys, vocabulary, merges, the place and numbers of every tensor; and models
 * that the format cannot hold. */
#include "base/rng.h"
#include "gpt/export.h"
#include "gpt/llama.h"
#include "tap.h"
#include "text/tok.h"
#include <math.h>

static const Ops *ops;
static char path[] = "/tmp/gguf.XXXXXX";

/* ---- a reader that believes nothing ------------------------------------------- */

typedef struct Value { char key[80]; uint32_t type, of; uint64_t n; const char *at; } Value;
typedef struct Tensor { char name[80]; int ndim; uint64_t dim[4]; uint32_t type; uint64_t off; } Tensor;
typedef struct File { Buf b; size_t i; Value v[80]; int nv; Tensor t[80]; int nt; size_t data; int bad; } File;

static const char *take(File *f, size_t n)
{
    static const char nothing[64];
    if (n > f->b.n - f->i) { f->bad = 1; return nothing; }
    f->i += n;
    return f->b.s + f->i - n;
}
static uint32_t u32(File *f) { return get_u32(take(f, 4)); }
static uint64_t u64(File *f) { return get_u64(take(f, 8)); }

static void name(File *f, char *to, size_t room)
{
    uint64_t n = u64(f);
    if (n >= room) { f->bad = 1; n = 0; }
    memcpy(to, take(f, n), n);
    to[n] = 0;
}

static void skip_value(File *f, uint32_t type)
{
    if (type == 8) { uint64_t n = u64(f); take(f, n); }
    else take(f, type == 7 ? 1 : 4);            /* a bool; u32, i32, f32 */
}

static void read_it(File *f)
{
    read_file(path, &f->b, 1 << 26);
    f->bad |= memcmp(take(f, 4), "GGUF", 4) != 0 || u32(f) != 3;
    f->nt = (int)u64(f), f->nv = (int)u64(f);
    for (int i = 0; i < f->nv && !f->bad; i++) {
        Value *v = &f->v[i];
        name(f, v->key, sizeof v->key);
        v->type = u32(f);
        v->n = 1;
        if (v->type == 9) v->of = u32(f), v->n = u64(f);
        v->at = f->b.s + f->i;
        for (uint64_t k = 0; k < v->n && !f->bad; k++) skip_value(f, v->type == 9 ? v->of : v->type);
    }
    for (int i = 0; i < f->nt && !f->bad; i++) {
        Tensor *t = &f->t[i];
        name(f, t->name, sizeof t->name);
        t->ndim = (int)u32(f);
        for (int k = 0; k < t->ndim; k++) t->dim[k] = u64(f);
        t->type = u32(f), t->off = u64(f);
    }
    f->data = (f->i + 31) / 32 * 32;
}

static const Value *find(const File *f, const char *key)
{
    for (int i = 0; i < f->nv; i++)
        if (!strcmp(f->v[i].key, key)) return &f->v[i];
    static const Value none = { .at = "\0\0\0\0\0\0\0" };
    return &none;
}

static uint32_t number(const File *f, const char *key)
{
    const Value *v = find(f, key);
    return v->type == 4 ? get_u32(v->at) : UINT32_MAX;
}

static double real_of(const File *f, const char *key)
{
    float x;
    memcpy(&x, find(f, key)->at, 4);
    return find(f, key)->type == 6 ? (double)x : NAN;
}

static int text_is(const File *f, const char *key, const char *want)
{
    const Value *v = find(f, key);
    return v->type == 8 && get_u64(v->at) == strlen(want) && !memcmp(v->at + 8, want, strlen(want));
}

static int item_is(const File *f, const char *key, uint64_t k, const char *want)
{
    const Value *v = find(f, key);
    const char *p = v->at;
    if (k >= v->n || v->of != 8) return 0;
    for (; k; k--) p += 8 + get_u64(p);
    return get_u64(p) == strlen(want) && !memcmp(p + 8, want, strlen(want));
}

/* Number i of a tensor, and how far from the exact one it may be. */
static double at(const File *f, const Tensor *t, int64_t i, double *may)
{
    const char *p = f->b.s + f->data + t->off;
    *may = 0;
    if (t->type == 0) {
        float x;
        memcpy(&x, p + 4 * i, 4);
        return (double)x;
    }
    const unsigned char *u = (const unsigned char *)p + (t->type == 8 ? i / 32 * 34 : 2 * i);
    uint16_t h = (uint16_t)(u[0] | u[1] << 8);
    double x = (double)fp16_value(h);
    if (t->type == 30) {
        uint32_t w = (uint32_t)h << 16;
        float y;
        memcpy(&y, &w, 4);
        x = (double)y;
    }
    *may = fmax(fabs(x) * (t->type == 30 ? 0x1p-8 : 0x1p-11), 0x1p-25);
    if (t->type != 8) return x;
    *may = fabs(x) * 0.5 * (1 + 127 * 0x1p-10);         /* half a step, and the scale's rounding */
    return x * (double)(signed char)u[2 + i % 32];
}

static size_t size_of(const Tensor *t, int64_t n)
{
    return (size_t)(t->type == 0 ? 4 * n : t->type == 8 ? n / 32 * 34 : 2 * n);
}

/* ---- models --------------------------------------------------------------------- */

static Tok *tokenizer(void)
{
    static const uint32_t pair[3][2] = { { ' ', 'a' }, { 'b', 'c' }, { 256, 257 } };
    return tok_from_merges(pair, 3);
}

static Config small(int experts, int qk_norm, int tied)
{
    Config c = { .family = &llama_family, .T = 64, .V = 300, .Vp = 300, .L = 2, .H = 4, .K = 2,
                 .C = 32, .D = 16 };
    c.llama = (LlamaConfig){ .F = 40, .E = experts, .top = experts ? 2 : 0, .Fe = experts ? 64 : 0,
                             .qk_norm = qk_norm, .tied = tied, .norm_top = 1, .eps = 1e-5,
                             .theta = 1e4, .init = 0.3 };
    return c;
}

static Model *make(const Config *c)
{
    Model *m = model_new(ops, c, 0);
    Rng r;
    rng_init(&r, 1, 2);
    for (int i = 0; i < m->nparam; i++) {
        real *x = xreallocarray(NULL, (size_t)m->param[i].n, sizeof *x);
        for (int64_t k = 0; k < m->param[i].n; k++) x[k] = (real)(2 * rng_uniform(&r) - 1);
        model_set(m, &m->param[i], x);
        free(x);
    }
    return m;
}

static void export_it(const Model *m, Narrow type)
{
    Tok *t = tokenizer();
    unsigned char stop[300] = {0};
    int bos = tok_special(t, SP_BOS);
    stop[bos] = 1;
    Out *o = out_open(path, OUT_BINARY);
    export_gguf(m, t, type, bos, stop, "it", o);
    out_close(o);
    tok_free(t);
}

/* The parameter that element i of a tensor comes from, by llama.cpp's names, and which element. */
static const Param *origin(const Model *m, const Tensor *t, int64_t i, int64_t *k)
{
    static const char *const of_layer[][2] = {
        { "attn_norm", "input_layernorm" }, { "attn_q", "self_attn.q_proj" },
        { "attn_k", "self_attn.k_proj" }, { "attn_v", "self_attn.v_proj" },
        { "attn_output", "self_attn.o_proj" }, { "attn_q_norm", "self_attn.q_norm" },
        { "attn_k_norm", "self_attn.k_norm" }, { "ffn_norm", "post_attention_layernorm" },
        { "ffn_gate_inp", "mlp.gate" }, { "ffn_gate", "mlp.gate_proj" },
        { "ffn_up", "mlp.up_proj" }, { "ffn_down", "mlp.down_proj" },
        { "ffn_gate_exps", "mlp.experts.%d.gate_proj" }, { "ffn_up_exps", "mlp.experts.%d.up_proj" },
        { "ffn_down_exps", "mlp.experts.%d.down_proj" },
    };
    int layer, end = 0;
    char what[80], want[200];
    *k = i;
    if (!strcmp(t->name, "token_embd.weight")) return model_find(m, "model.embed_tokens.weight");
    if (!strcmp(t->name, "output_norm.weight")) return model_find(m, "model.norm.weight");
    if (!strcmp(t->name, "output.weight")) return model_find(m, "lm_head.weight");
    if (sscanf(t->name, "blk.%d.%79[a-z_].weight%n", &layer, what, &end) != 2 || t->name[end]) return NULL;
    size_t row = 0;
    while (row < sizeof of_layer / sizeof *of_layer && strcmp(of_layer[row][0], what)) row++;
    if (row == sizeof of_layer / sizeof *of_layer) return NULL;
    int64_t one = t->ndim == 3 ? (int64_t)(t->dim[0] * t->dim[1]) : INT64_MAX;
    int n = snprintf(want, sizeof want, "model.layers.%d.", layer);
    snprintf(want + n, sizeof want - (size_t)n, of_layer[row][1], (int)(i / one));
    strcat(want, ".weight");
    *k = i % one;
    if (!m->cfg.llama.qk_norm && (!strcmp(what, "attn_q") || !strcmp(what, "attn_k"))) {
        int64_t C = (int64_t)t->dim[0], r = i / C, D = m->cfg.D, in = r % D;
        *k = (r - in + in % 2 * D / 2 + in / 2) * C + i % C;
    }
    return model_find(m, want);
}

/* Every number of every tensor is one of the model's; all of the model is there. */
static void check_tensors(const File *f, const Model *m, const char *what)
{
    int64_t n = 0, all = 0;
    size_t next = 0;
    int bad = 0;
    for (int i = 0; i < f->nt; i++) {
        const Tensor *t = &f->t[i];
        int64_t count = 1, k;
        for (int d = 0; d < t->ndim; d++) count *= (int64_t)t->dim[d];
        bad += t->off != next || f->data + t->off + size_of(t, count) > f->b.n;
        next = (t->off + size_of(t, count) + 31) / 32 * 32;
        if (!strcmp(t->name, "rope_freqs.weight")) continue;
        for (int64_t e = 0; e < count && !bad; e++) {
            const Param *p = origin(m, t, e, &k);
            double may, x = at(f, t, e, &may);
            bad += !p || (int64_t)t->dim[0] != (p->ndim == 1 ? p->n : p->cols) ||
                   !(fabs(x - (double)m->w[p->off + k]) <= may);
        }
        if (bad) printf("# %s: tensor %s\n", what, t->name);
        n += count;
        if (bad) break;
    }
    for (int i = 0; i < m->nparam; i++) all += m->param[i].n;
    ok(!bad && n == all && f->data + next == f->b.n, "%s: tensors hold the model's %lld numbers",
       what, (long long)all);
}

static const Tensor *tensor(const File *f, const char *want)
{
    for (int i = 0; i < f->nt; i++)
        if (!strcmp(f->t[i].name, want)) return &f->t[i];
    static const Tensor none = { .type = UINT32_MAX };
    return &none;
}

static void check_vocabulary(const File *f)
{
    const Value *t = find(f, "tokenizer.ggml.tokens"), *type = find(f, "tokenizer.ggml.token_type");
    ok(t->n == 300 && type->n == 300 && type->of == 5, "300 tokens");
    ok(item_is(f, t->key, 'a', "a") && item_is(f, t->key, ' ', "\u0120") &&
       item_is(f, t->key, 0, "\u0100") && item_is(f, t->key, 173, "\u0143") &&
       item_is(f, t->key, 200, "\u00c8") && item_is(f, t->key, 256, "\u0120a") &&
       item_is(f, t->key, 258, "\u0120abc") && item_is(f, t->key, 259, "<|bos|>") &&
       item_is(f, t->key, 268, "[PAD268]"), "spelled");
    ok(get_u32(type->at + 4 * 258) == 1 && get_u32(type->at + 4 * 259) == 3 &&
       get_u32(type->at + 4 * 299) == 5, "kinds of tokens");
    ok(find(f, "tokenizer.ggml.merges")->n == 3 &&
       item_is(f, "tokenizer.ggml.merges", 0, "\u0120 a") &&
       item_is(f, "tokenizer.ggml.merges", 2, "\u0120a bc"), "merges");
    ok(text_is(f, "tokenizer.ggml.model", "gpt2") && text_is(f, "tokenizer.ggml.pre", "llama-bpe") &&
       number(f, "tokenizer.ggml.bos_token_id") == 259 &&
       number(f, "tokenizer.ggml.eos_token_id") == 259 &&
       number(f, "tokenizer.ggml.eot_token_id") == 263 &&
       *find(f, "tokenizer.ggml.add_bos_token")->at == 1, "its ends");
}

static void check_llama(void)
{
    Config c = small(0, 0, 0);
    c.llama.rope = (struct Rope){ .kind = ROPE_LLAMA3, .original = 64, .factor = 4, .fast = 4,
                                  .slow = 1, .attention = 1 };
    Model *m = make(&c);
    File f = {0};
    export_it(m, NARROW_F32);
    read_it(&f);
    ok(!f.bad, "llama: a GGUF file");
    ok(text_is(&f, "general.architecture", "llama") && number(&f, "general.file_type") == 0 &&
       number(&f, "llama.block_count") == 2 && number(&f, "llama.context_length") == 64 &&
       number(&f, "llama.embedding_length") == 32 && number(&f, "llama.feed_forward_length") == 40 &&
       number(&f, "llama.attention.head_count") == 4 &&
       number(&f, "llama.attention.head_count_kv") == 2 &&
       number(&f, "llama.attention.key_length") == 16 &&
       number(&f, "llama.attention.value_length") == 16 &&
       number(&f, "llama.rope.dimension_count") == 16 && number(&f, "llama.vocab_size") == 300 &&
       fabs(real_of(&f, "llama.rope.freq_base") - 1e4) < 1e-3 &&
       fabs(real_of(&f, "llama.attention.layer_norm_rms_epsilon") / 1e-5 - 1) < 1e-6 &&
       text_is(&f, "llama.rope.scaling.type", "none"), "llama: its shape");
    check_vocabulary(&f);
    check_tensors(&f, m, "llama");
    const Tensor *t = tensor(&f, "rope_freqs.weight");
    double freq[16], may, worst = 0;
    llama_rotary(&c, freq);
    for (int j = 0; j < 8; j++)
        worst = fmax(worst, fabs(at(&f, t, j, &may) * freq[j] * pow(1e4, j / 8.0) - 1));
    ok(t->type == 0 && t->dim[0] == 8 && worst < 1e-6 && fabs(at(&f, t, 7, &may) - 4) < 1e-5,
       "llama3's scaling as divisors, off by %.1e", worst);
    buf_free(&f.b);
    model_free(m);
}

static void check_others(void)
{
    static const struct { const char *name, *arch; int E, tied; Narrow type; uint32_t want, down; } k[] = {
        { "qwen3, bf16", "qwen3", 0, 1, NARROW_BF16, 30, 30 },
        { "qwen3, fp16", "qwen3", 0, 0, NARROW_F16, 1, 1 },
        { "qwen3, q8_0", "qwen3", 0, 1, NARROW_Q8_0, 8, 1 },       /* 40 columns are no blocks */
        { "qwen3moe, q8_0", "qwen3moe", 4, 1, NARROW_Q8_0, 8, 8 },
        { "qwen3moe, fp32", "qwen3moe", 4, 0, NARROW_F32, 0, 0 },
    };
    for (size_t i = 0; i < sizeof k / sizeof *k; i++) {
        Config c = small(k[i].E, 1, k[i].tied);
        c.llama.rope = (struct Rope){ .kind = ROPE_YARN, .original = 32, .factor = 2, .fast = 32,
                                      .slow = 1, .attention = 2 };
        Model *m = make(&c);
        File f = {0};
        export_it(m, k[i].type);
        read_it(&f);
        check_tensors(&f, m, k[i].name);
        char *key[4];
        static const char *const suffix[4] = { "rope.scaling.type", "rope.scaling.attn_factor",
                                               "rope.scaling.original_context_length",
                                               "expert_used_count" };
        for (int s = 0; s < 4; s++) key[s] = xasprintf("%s.%s", k[i].arch, suffix[s]);
        ok(!f.bad && text_is(&f, "general.architecture", k[i].arch) && text_is(&f, key[0], "yarn") &&
           fabs(real_of(&f, key[1]) - 2 / (1 + 0.1 * log(2))) < 1e-6 && number(&f, key[2]) == 32 &&
           number(&f, key[3]) == (k[i].E ? 2 : UINT32_MAX), "%s: keys", k[i].name);
        ok(tensor(&f, "blk.1.attn_q.weight")->type == k[i].want &&
           tensor(&f, k[i].E ? "blk.0.ffn_down_exps.weight" : "blk.0.ffn_down.weight")->type == k[i].down &&
           tensor(&f, "blk.0.attn_norm.weight")->type == 0 &&
           (!k[i].E || tensor(&f, "blk.0.ffn_gate_inp.weight")->type == 0) &&
           (tensor(&f, "output.weight")->type == UINT32_MAX) == k[i].tied, "%s: types", k[i].name);
        for (int s = 0; s < 4; s++) free(key[s]);
        buf_free(&f.b);
        model_free(m);
    }
}

/* ---- what the format cannot hold -------------------------------------------------- */

static Config wrong;
static Narrow wrong_type;
static double wrong_number;

static void try_it(void *arg)
{
    (void)arg;
    Model *m = make(&wrong);
    if (wrong_number != 0) m->w[m->param[3].off + 5] = (real)wrong_number;
    export_it(m, wrong_type);
}

static void refused(const char *text, const char *what)
{
    ok(dies(1, text, try_it, NULL), "refused: %s", what);
}

static void check_refusals(void)
{
    wrong = config_depth(2, 16, 16, 64, 300, "L");
    refused("does not know the nanochat family", "another family");
    wrong = small(4, 1, 1);
    wrong.llama.norm_top = 0;
    refused("norm_topk_prob", "weights of experts that are not normalised");
    wrong = small(4, 0, 1);
    refused("no experts without QK norm", "experts without QK norm");
    wrong = small(0, 1, 1);
    wrong.llama.rope = (struct Rope){ .kind = ROPE_LLAMA3, .original = 64, .factor = 4, .fast = 4,
                                      .slow = 1 };
    refused("only in models of type llama", "llama3's scaling in qwen3");
    wrong.llama.rope = (struct Rope){ .kind = ROPE_YARN, .original = 32, .factor = 4, .fast = 16,
                                      .slow = 1, .attention = 1 };
    refused("beta_fast 32", "YaRN with other limits");
    wrong = small(0, 1, 1);
    wrong.V = wrong.Vp = 260;
    refused("268 tokens, but vocab_size is 260", "more tokens than the model has");
    wrong = small(0, 1, 1);
    wrong_type = NARROW_F16;
    wrong_number = 70000;
    refused("too large for fp16", "a number beyond fp16");
    wrong_type = NARROW_Q8_0;
    wrong_number = INFINITY;
    refused("not finite", "one that is not finite");
}

int main(void)
{
    ops = ops_open("cpu", "fp32", 1);
    int fd = mkstemp(path);
    if (fd < 0 || close(fd)) return 1;
    check_llama();
    check_others();
    check_refusals();
    unlink(path);
    return done();
}
