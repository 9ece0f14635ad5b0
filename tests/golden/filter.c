/* The sampling filters against golden/llama/h_filter: which ids stay, and their probabilities.
 * (REAL_F64: built twice.) */
#include "gpt/pick.h"
#include "tensors.h"
#include <float.h>

static double setting(const Json *c, const char *key) { return num(c, key); }

static int has_flag(const Json *c, const char *flag)
{
    for (const Json *f = json_get(c, "flags")->child; f; f = f->next)
        if (json_is_str(f, flag)) return 1;
    return 0;
}

/* Weights of a case, normalised, in p [V]; p has room for 2 V. */
static void filtered(const Json *c, real *l, int V, double *p)
{
    double top_p = setting(c, "top_p"), k = setting(c, "top_k");
    Pick pick = {
        .temperature = setting(c, "temperature"), .top_k = k > 0 ? (int)k : 0,
        .top_p = top_p > 0 ? top_p : DBL_MIN, .penalty = setting(c, "repetition_penalty"),
    };
    unsigned char *seen = xcalloc((size_t)V, 1);
    for (const Json *s = json_get(c, "seen")->child; s; s = s->next) seen[(int)s->num] = 1;
    pick_penalize(l, V, seen, pick.penalty);
    double sum = pick_weights(&pick, l, V, p);
    for (int i = 0; i < V; i++) p[i] /= sum;
    free(seen);
}

/* Where the reference keeps more than it was asked for, the file has what exactly k, or exactly p,
 * give. */
static void check(const StFile *f, const Json *c)
{
    const Json *row = json_get(c, "row");
    int id = (int)num(c, "id"), alt = has_flag(c, "tie_at_k") || has_flag(c, "exact_p");
    char *name = xasprintf("row.%.*s", (int)row->len, row->s);
    char *want_name = xasprintf("%s.%03d", alt ? "alt" : "probs", id);
    int64_t V;
    real *l = tensor(f, name, &V), *want = tensor(f, want_name, NULL);
    double *p = xcalloc(2 * (size_t)V, sizeof *p), off = 0;
    int sets = 0;
    filtered(c, l, (int)V, p);
    for (int64_t i = 0; i < V; i++) {
        off = fmax(off, fabs(p[i] - (double)want[i]));
        sets += (p[i] > 0) != (want[i] > 0);
    }
    ok(sets == 0 && off <= 5e-6, "case %d: %d ids kept otherwise, off by %.1e", id, sets, off);
    free(l), free(want), free(p), free(name), free(want_name);
}

int main(void)
{
    const char *path = golden("llama", "h_filter.safetensors");
    if (!path) {
        skip("no golden data here", "sampling filters");
        return done();
    }
    StFile *f = st_open(path);
    const Json *text = json_get(st_meta(f), "cases");
    Arena a = {0};
    const char *err;
    size_t at;
    const Json *cases = json_parse(&a, text->s, text->len, &err, &at);
    if (!cases) die("%s: %s", path, err);
    for (const Json *c = cases->child; c; c = c->next) check(f, c);
    arena_free(&a);
    st_close(f);
    return done();
}
