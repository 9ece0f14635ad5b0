/* Bits per byte against nanochat's numbers. */
#include "gpt/bpb.h"
#include "golden.h"
#include "tap.h"

/* Numbers of nested arrays, in order. */
static size_t flatten(const Json *j, double *out, size_t n)
{
    if (j->kind == J_NUM) { out[n] = j->num; return n + 1; }
    for (const Json *e = j->child; e; e = e->next) n = flatten(e, out, n);
    return n;
}

static double value(const Json *j) { return json_is_str(j, "inf") ? INFINITY : j->num; }
static int same(double a, double b) { return isinf(b) ? isinf(a) && a > 0 : near(a, b, 1e-6); }

static void one(const Json *c)
{
    int steps = (int)num(c, "steps"), V = json_get(c, "token_bytes")->n;
    size_t N = (size_t)num(c, "B") * (size_t)num(c, "T");
    size_t all = N * (size_t)json_get(c, "losses")->n;
    double *x = xcalloc(all + (size_t)V, sizeof *x);
    real *loss = xcalloc(all, sizeof *loss);
    int32_t *tgt = xcalloc(all, sizeof *tgt), *len = xcalloc((size_t)V, sizeof *len);
    size_t n = flatten(json_get(c, "losses"), x, 0);
    for (size_t i = 0; i < n; i++) loss[i] = (real)x[i];
    int shapes = n == all && flatten(json_get(c, "targets"), x, 0) == all;
    for (size_t i = 0; i < all; i++) tgt[i] = (int32_t)x[i];
    flatten(json_get(c, "token_bytes"), x, 0);
    for (int i = 0; i < V; i++) len[i] = (int32_t)x[i];

    Bpb b = {0};
    for (int s = 0; s < steps; s++) bpb_add(&b, loss + (size_t)s * N, tgt + (size_t)s * N, len, N);
    double got = bpb_value(&b);
    const Json *name = json_get(c, "name");
    ok(shapes && same(got, value(json_get(c, "bpb"))), "%.*s: %.9g", (int)name->len, name->s, got);
    ok(same(got, value(json_get(c, "bpb_summed_in_float64"))), "  its sum in double");
    if (json_get(c, "total_bytes")) ok((double)b.bytes == num(c, "total_bytes"), "  its bytes");
    free(x);
    free(loss);
    free(tgt);
    free(len);
}

int main(void)
{
    Arena a = {0};
    const char *path = golden("nanochat", "j_bpb.json");
    if (!path) { skip("j_bpb.json is not here", "bits per byte"); return done(); }
    for (const Json *c = golden_json(&a, path)->child; c; c = c->next) one(c);
    ok(tap_n >= 20, "all ten cases were there");
    arena_free(&a);
    return done();
}
