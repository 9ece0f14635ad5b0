/* Golden case C: parameter counts, FLOPs, windows and value-embedding layers of many
 * configurations. */
#include "tensors.h"

static Config config_of(const Json *j)
{
    Config c;
    const char *err = config_parse(&c, j);
    if (err)
        die("golden config: %s", err);
    return c;
}

static int ints_equal(const Json *list, const int *x, int n)
{
    int same = list->n == n, i = 0;
    for (const Json *j = list->child; j && same; j = j->next)
        same = j->num == x[i++];
    return same;
}

/* what both kinds of row hold */
static void check_row(const char *name, const Json *row, const Config *c)
{
    const struct { const char *key; int group; } part[] = {
        { "wte", PG_WTE }, { "value_embeds", PG_VALUE_EMBEDS }, { "lm_head", PG_LM_HEAD },
        { "transformer_matrices", PG_MATRIX }, { "total", -1 },
    };
    const Json *n = json_get(row, "num_scaling_params");
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        int64_t got = config_params(c, part[i].group);
        ok((double)got == num(n, part[i].key), "%s: %s %lld", name, part[i].key, (long long)got);
    }
    int64_t scalars =
        config_params(c, PG_RESID) + config_params(c, PG_X0) + config_params(c, PG_SMEAR);
    ok((double)scalars == num(n, "scalars"), "%s: scalars", name);
    ok((double)config_matmul_params(c) == num(row, "num_matmul_params"), "%s: matmul parameters",
       name);
    ok(config_flops_per_token(c) == num(row, "num_flops_per_token"), "%s: FLOPs per token", name);

    int *window = xcalloc((size_t)c->L, sizeof *window), *ve = xcalloc((size_t)c->L, sizeof *ve),
        nve = 0;
    for (int i = 0; i < c->L; i++) {
        window[i] = config_window(c, i);
        if (config_has_ve(c, i))
            ve[nve++] = i;
    }
    ok(ints_equal(json_get(row, "window_sizes"), window, c->L), "%s: windows", name);
    ok(ints_equal(json_get(row, "value_embed_layers"), ve, nve), "%s: value embeddings", name);
    free(window), free(ve);
}

static void by_depth(const Json *d)
{
    for (const Json *row = json_get(d, "rows")->child; row; row = row->next) {
        char name[32];
        snprintf(name, sizeof name, "depth %d", (int)num(row, "depth"));
        Config c = config_depth((int)num(row, "depth"), (int)num(d, "aspect_ratio"),
                                (int)num(d, "head_dim"), (int)num(d, "sequence_len"),
                                (int)num(d, "vocab_size"), "SSSL");
        ok(c.L == num(row, "n_layer") && c.C == num(row, "n_embd") && c.H == num(row, "n_head") &&
           c.K == num(row, "n_kv_head"), "%s: shape", name);
        check_row(name, row, &c);
        for (const Json *j = json_get(row, "decode_flops")->child; j; j = j->next)
            ok(config_decode_flops(&c, atoll(j->key)) == j->num, "%s: decode FLOPs at %s", name,
               j->key);
        for (const Json *j = json_get(row, "prefill_flops")->child; j; j = j->next)
            ok(config_prefill_flops(&c, atoll(j->key)) == j->num, "%s: prefill FLOPs of %s", name,
               j->key);
    }
}

/* "shapes" names every tensor of a small configuration */
static void check_shapes(const char *name, const Json *shapes, const Config *c)
{
    if (!shapes || shapes->kind != J_OBJ)
        return;
    Model m = { .cfg = *c };
    m.cfg.family->params(&m);
    int good = m.nparam == shapes->n;
    for (int i = 0; i < m.nparam && good; i++) {
        const Param *p = &m.param[i];
        int dim[2] = { p->rows, p->cols };
        const Json *s = json_get(shapes, p->name);
        good = s && ints_equal(s, dim, p->ndim);
    }
    ok(good, "%s: names and shapes of all %d tensors", name, m.nparam);
    params_free(&m);
}

int main(void)
{
    Arena a = { 0 };
    const Json *g = golden_json(&a, golden("nanochat", "c_params.json"));
    by_depth(json_get(g, "by_depth"));
    int i = 0;
    for (const Json *row = json_get(g, "other_configs")->child; row; row = row->next, i++) {
        char name[32];
        snprintf(name, sizeof name, "config %d", i);
        Config c = config_of(json_get(row, "config"));
        ok(c.Vp == num(row, "padded_vocab_size"), "%s: padded vocabulary", name);
        check_row(name, row, &c);
        check_shapes(name, json_get(row, "shapes"), &c);
    }
    int good = 0, n = 0;
    for (const Json *row = json_get(g, "window_table")->child; row; row = row->next, n++) {
        const Json *pattern = json_get(row, "window_pattern");
        Config c = { .family = &nanochat_family, .T = (int)num(row, "sequence_len"),
                     .L = (int)num(row, "n_layer") };
        memcpy(c.window, pattern->s, pattern->len);
        int w[64];
        for (int k = 0; k < c.L; k++)
            w[k] = config_window(&c, k);
        good += ints_equal(json_get(row, "window_sizes"), w, c.L);
    }
    ok(good == n && n == 120, "%d of %d rows of the window table", good, n);
    Config c = config_depth(12, 64, 128, 2048, 32768, "SSSL");
    ok(config_params(&c, -1) == 286261730, "the default model has 286,261,730 parameters");
    arena_free(&a);
    return done();
}
