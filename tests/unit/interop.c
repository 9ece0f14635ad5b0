/* Hugging Face directories, made here: several files of fp32, fp16 or bf16 tensors with an index,
 * config.json as its programs write it, tokenizer.json. gpt-sample, gpt-eval and gpt-train --init
 * (from PATH) must see the very model; directories that are wrong are refused by name. */
#include "base/io.h"
#include "base/rng.h"
#include "gpt/ckpt.h"
#include "gpt/llama.h"
#include "gpt/weights.h"
#include "tap.h"
#include "text/convert.h"
#include "text/enc.h"
#include "text/rows.h"
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>

enum { V = 272, T = 24 };
static const char text[] = "abcab cab 12, abc bca";
static char dir[] = "/tmp/interop.XXXXXX";
static const Ops *ops;

#define SIZES "\"hidden_size\": 32, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "          \
    "\"intermediate_size\": 48, \"vocab_size\": 272, \"max_position_embeddings\": 64, "              \
    "\"transformers_version\": \"5.0\", \"use_cache\": true, \"attention_dropout\": 0.0, "          \
    "\"eos_token_id\": 258, \"hidden_act\": \"silu\", \"pretraining_tp\": 1"
static const struct Kind { const char *name, *config; Narrow type; int files; } kinds[] = {
    { "llama", "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], "
      "\"num_key_value_heads\": 4, \"rms_norm_eps\": 1e-5, \"rope_theta\": 500000.0, "
      "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, "
      "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 32}, "
      "\"tie_word_embeddings\": false, \"mlp_bias\": false, " SIZES "}", NARROW_BF16, 3 },
    { "qwen3", "{\"model_type\": \"qwen3\", \"num_key_value_heads\": 2, \"head_dim\": 16, "
      "\"rope_parameters\": {\"rope_theta\": 1000000, \"rope_type\": \"default\"}, "
      "\"sliding_window\": null, \"use_sliding_window\": false, \"layer_types\": "
      "[\"full_attention\", \"full_attention\"], \"tie_word_embeddings\": true, " SIZES "}",
      NARROW_F16, 2 },
    { "qwen3_moe", "{\"model_type\": \"qwen3_moe\", \"num_key_value_heads\": 1, \"head_dim\": 8, "
      "\"num_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 16, "
      "\"norm_topk_prob\": true, \"decoder_sparse_step\": 1, \"mlp_only_layers\": [], "
      "\"router_aux_loss_coef\": 0.01, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2.0, "
      "\"original_max_position_embeddings\": 32}, \"tie_word_embeddings\": false, " SIZES "}",
      NARROW_BF16, 1 },
    { "minimind", "{\"model_type\": \"minimind\", \"num_key_value_heads\": 2, \"use_moe\": false, "
      "\"num_experts\": 4, " SIZES "}", NARROW_F32, 2 },
};

static char *at(const struct Kind *k, const char *name) { return xasprintf("%s/%s/%s", dir, k->name, name); }

static void put(const struct Kind *k, const char *name, const char *s)
{
    char *path = at(k, name);
    FILE *f = fopen(path, "w");
    if (!f || fputs(s, f) < 0 || fclose(f)) die("%s:", path);
    free(path);
}

static Config config_of(const struct Kind *k)
{
    Arena a = {0};
    Config c;
    size_t i;
    const char *bad = NULL;
    Json *j = json_parse(&a, k->config, strlen(k->config), &bad, &i);
    if (j) bad = config_parse(&c, j);
    if (bad) die("%s: %s", k->name, bad);
    arena_free(&a);
    return c;
}

/* x as a file of this type has it */
static void rounded(Narrow type, real *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float y = (float)x[i];
        uint32_t u = (uint32_t)bf16_of(y) << 16;
        if (type == NARROW_F16) y = fp16_value(fp16_of(y));
        if (type == NARROW_BF16) memcpy(&y, &u, 4);
        x[i] = (real)y;
    }
}

static Model *random_model(const struct Kind *k)
{
    Config c = config_of(k);
    Model *m = model_new(ops, &c, 0);
    Rng r;
    rng_init(&r, 7, 8);
    for (int i = 0; i < m->nparam; i++) {
        Param *p = &m->param[i];
        real *x = xreallocarray(NULL, (size_t)p->n, sizeof *x);
        for (int64_t e = 0; e < p->n; e++)
            x[e] = (real)((p->group == PG_NORM ? 1 : 0) + 0.4 * (2 * rng_uniform(&r) - 1));
        rounded(k->type, x, p->n);
        model_set(m, p, x);
        free(x);
    }
    return m;
}

static void write_file(const struct Kind *k, const Model *m, int file)
{
    char name[64];
    snprintf(name, sizeof name, k->files > 1 ? "model-%d.safetensors" : "model.safetensors", file);
    char *path = at(k, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    StWriter *w = stw_new();
    stw_meta(w, "format", "pt");
    stw_narrow(w, k->type);
    for (int i = file; i < m->nparam; i += k->files)
        stw_add(w, m->param[i].name, m->param[i].ndim,
                (int64_t[]){ m->param[i].rows, m->param[i].cols });
    stw_begin_fd(w, fd);
    for (int i = file; i < m->nparam; i += k->files)
        stw_data(w, m->w + m->param[i].off, m->param[i].n);
    if (stw_end(w) || close(fd)) die("%s:", path);
    free(path);
}

static void write_model(const struct Kind *k, const Model *m)
{
    Buf b = {0};
    for (int i = 0; i < k->files; i++) write_file(k, m, i);
    buf_str(&b, "{\"metadata\": {}, \"weight_map\": {");
    for (int i = 0; i < m->nparam; i++)
        buf_printf(&b, "%s\"%s\": \"model-%d.safetensors\"", i ? ", " : "", m->param[i].name,
                   i % k->files);
    buf_str(&b, "}}");
    if (k->files > 1) put(k, WEIGHTS_INDEX, b.s);
    buf_free(&b);
}

/* ---- what the programs say ---------------------------------------------------- */

static double sum_of(Model *m, const int *id, int n)    /* of the log-probabilities of id[1..n) */
{
    Tape t;
    double sum = 0;
    tape_init(&t, ops);
    const real *lg = model_logits(m, &t, model_forward(m, &t, id, 1, n, NULL), NULL, n);
    for (int i = 0; i + 1 < n; i++) {
        double most = -INFINITY, z = 0;
        for (int v = 0; v < V; v++) most = fmax(most, (double)lg[i * V + v]);
        for (int v = 0; v < V; v++) z += exp((double)lg[i * V + v] - most);
        sum += (double)lg[i * V + id[i + 1]] - most - log(z);
    }
    tape_free(&t);
    return sum;
}

static double output(const char *cmd)       /* its first number; NAN: none */
{
    char *s = xasprintf("cd %s && %s", dir, cmd), line[256];
    FILE *f = popen(s, "r");
    double x = NAN;
    if (!f || !fgets(line, sizeof line, f) || sscanf(line, "%lf", &x) != 1) x = NAN;
    if (f && pclose(f)) x = NAN;
    free(s);
    return x;
}

static int runs(const char *cmd)
{
    char *s = xasprintf("cd %s && %s", dir, cmd);
    int r = system(s);
    free(s);
    return r == 0;
}

static void rows_of(const Tok *t, const int *id)
{
    RowHead h = { .vocab = (uint32_t)tok_vocab(t), .bos = (uint32_t)tok_special(t, SP_BOS), .T = T,
                  .tok_hash = tok_hash(t) };
    char *path = xasprintf("%s/x.rows", dir);
    RowWriter *w = rows_create(path, &h);
    uint32_t row[T + 1];
    for (int i = 0; i <= T; i++) row[i] = (uint32_t)id[i];
    rows_write(w, row, NULL);
    rows_close(w);
    free(path);
}

static int same_weights(const Model *a, const char *path)
{
    Model *b = ckpt_model(path, ops, 0);
    int same = a->n == b->n && !memcmp(a->w, b->w, (size_t)a->n * sizeof *a->w);
    model_free(b);
    return same;
}

static void check(const struct Kind *k, const Tok *t)
{
    Model *m = random_model(k);
    TokEnc *e = tokenc_new(t);
    Ids v = {0};
    int id[64], row[T + 1];
    char *path = xasprintf("%s/%s", dir, k->name), *out = xasprintf("%s/%s-out", dir, k->name);
    write_model(k, m);
    ok(same_weights(m, path), "%s: %d files, the same numbers", k->name, k->files);

    ids_add(&v, (uint32_t)tok_special(t, SP_BOS));
    tok_encode(e, text, strlen(text), &v);
    for (size_t i = 0; i < v.n; i++) id[i] = (int)v.id[i];
    double want = sum_of(m, id, (int)v.n);
    char *cmd = xasprintf("gpt-sample -q --dtype fp32 -m %s --score -p '%s'", k->name, text);
    double got = output(cmd);
    ok(fabs(got - want) <= 2e-6 * fabs(want), "%s: gpt-sample scores %.6f, %.6f", k->name, got, want);
    free(cmd);

    double bytes = 0;
    for (int i = 0; i <= T; i++) row[i] = i ? 97 + i * i % 26 : id[0];
    for (int i = 1; i <= T; i++) bytes += tok_byte_lengths(t)[row[i]];
    rows_of(t, row);
    cmd = xasprintf("gpt-eval -q --dtype fp32 -m %s bpb x.rows | jq .bpb", k->name);
    want = -sum_of(m, row, T + 1) / (bytes * log(2)), got = output(cmd);
    ok(fabs(got - want) <= 2e-6 * want, "%s: gpt-eval has %.6f, %.6f bits per byte", k->name, got, want);
    free(cmd);

    cmd = xasprintf("gpt-train -q -j 1 --init %s --train x.rows --optimizer adamw --lr 0 --weight-decay 0"
                    " --steps 1 --total-batch-size %d -o %s-out >/dev/null", k->name, T, k->name);
    ok(runs(cmd) && same_weights(m, out), "%s: gpt-train --init has the same weights", k->name);
    free(cmd);
    cmd = xasprintf("jq -e '.eos_token_id | index(258)' %s-out/generation_config.json >/dev/null && "
                    "gpt-sample -q --dtype fp32 -m %s -n 8 --temperature 0 -p abc >a && "
                    "gpt-sample -q --dtype fp32 -m %s-out -n 8 --temperature 0 -p abc | cmp a -",
                    k->name, k->name, k->name);
    ok(runs(cmd), "%s: what it saves ends texts and talks as before", k->name);
    free(cmd), free(path), free(out);
    tokenc_free(e), ids_free(&v);
    model_free(m);
}

/* ---- what must be refused -------------------------------------------------------- */

static const struct Kind *broken;

static void load(void *arg)
{
    (void)arg;
    char *path = xasprintf("%s/%s", dir, broken->name);
    model_free(ckpt_model(path, ops, 0));
}

/* One text in a file for another of the same length. */
static void replace(const char *name, const char *from, const char *to)
{
    char *path = at(broken, name);
    Buf b = {0};
    read_file(path, &b, 1 << 26);
    char *p = memmem(b.s, b.n, from, strlen(from));
    if (!p) die("%s: no %s", path, from);
    memcpy(p, to, strlen(to));
    FILE *f = fopen(path, "w");
    if (!f || fwrite(b.s, 1, b.n, f) != b.n || fclose(f)) die("%s:", path);
    buf_free(&b);
    free(path);
}

static void check_broken(void)
{
    broken = &kinds[0];
    Model *m = random_model(broken);
    static const char first[] = "model.embed_tokens.weight\":{\"dtype\":\"BF16\",\"shape\":[272,32]";
    replace("model-0.safetensors", first, "model.embed_tokens.weight\":{\"dtype\":\"BF16\",\"shape\":[136,64]");
    ok(dies(1, "model-0.safetensors: tensor model.embed_tokens.weight: its shape is [136,64], "
               "the configuration asks for [272,32]", load, NULL), "another shape");
    write_model(broken, m);
    replace("model-0.safetensors", first, "model.embed_tokens.weight\":{\"dtype\":\"U16\" ,\"shape\":[272,32]");
    ok(dies(1, "tensor model.embed_tokens.weight: numbers of type U16", load, NULL), "another type");
    write_model(broken, m);
    replace("model-2.safetensors", "self_attn.q_proj", "self_attn.Q_proj");
    ok(dies(1, "no tensor model.layers.0.self_attn.q_proj.weight", load, NULL), "another name");
    write_model(broken, m);
    char *path = at(broken, "model-2.safetensors");
    if (truncate(path, 5000)) die("%s:", path);
    ok(dies(1, "model-2.safetensors: not a valid safetensors file: ", load, NULL), "a file cut short");
    write_model(broken, m);
    replace("config.json", "\"hidden_size\": 32", "\"hidden_size\": 64");
    ok(dies(1, "asks for", load, NULL), "a larger model than its files");
    free(path);
    model_free(m);
}

/* Integers as long as floats: what a quantized model has packed. */
static void check_integers(void)
{
    broken = &kinds[3];
    Model *m = random_model(broken);
    write_model(broken, m);
    replace("model-0.safetensors", "embed_tokens.weight\":{\"dtype\":\"F32", "embed_tokens.weight\":{\"dtype\":\"I32");
    ok(dies(1, "tensor model.embed_tokens.weight: numbers of type I32", load, NULL), "whole numbers");
    model_free(m);
}

int main(void)
{
    static const uint32_t pair[3][2] = { { 'a', 'b' }, { 256, 'c' }, { ' ', 'c' } };
    if (!mkdtemp(dir)) return 1;
    ops = ops_open("cpu", "fp32", 1);
    Tok *t = tok_from_merges(pair, 3);
    Buf b = {0};
    hf_print(t, "t", tok_special(t, SP_BOS), &b);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char *path = at(&kinds[i], "");
        if (mkdir(path, 0777)) die("%s:", path);
        free(path);
        put(&kinds[i], "config.json", kinds[i].config);
        put(&kinds[i], "tokenizer.json", b.s);
        check(&kinds[i], t);
    }
    check_broken();
    check_integers();
    buf_free(&b);
    tok_free(t);
    char *rm = xasprintf("rm -r %s", dir);
    int r = system(rm);
    free(rm);
    return done() || r;
}
