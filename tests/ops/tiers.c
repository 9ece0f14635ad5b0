/* Which operations give the same bits on several tiers of the CPU back-end, as pipegpt(7) says.
 *
 * avx2 and avx512 do the same multiply-adds to each element and add the terms of a product in the same
 * order, so all agrees but what adds up the lanes of a vector, of which they have 8 and 16: norms, the
 * softmax of attention and of losses, gradients of gates and scalars, products of up to 4 rows. base
 * multiplies and adds apart, where it is not compiled for a processor that does both at once. avx512_bf16
 * is avx512 but for products of bfloat16s, which it rounds by pairs. */
#include "cases.h"

/* Of an operation, which outputs and gradients (d before their names) agree; a space after each */
typedef struct Same { const char *op, *what; } Same;
static const Same wide[] = {            /* avx2 and avx512 */
    { "linear", "dx dw " },             /* and y of more than FEW_ROWS */
    { "experts", "dx dw " },
    { "embed", "y dw " },
    { "smear", "y " },
    { "smear at pos", "y " },
    { "mix", "y dx dz " },
    { "mix, x = z", "y dx " },
    { "vgate", "y dv dve " },
    { "relu2", "y dx " },
    { "gain", "y dx dg " },
    { "swiglu", "y da db " },
    { "slots_add", "y dx " },
    { "add", "y " },
    { "logits", "l " },
    { "dropout", "y dx " },
    { 0 }
};
static const Same plain[] = {           /* base and avx2: nothing is both multiplied and added */
    { "embed", "y dw " }, { "relu2", "y " }, { "gain", "y " }, { "add", "y " }, { 0 }
};
static const Same paired[] = {          /* avx512 and avx512_bf16: what does not agree */
    { "linear", "" }, { "experts", "" }, { "attn", "" }, { "attn_kv", "" }, { "attn_drop", "" }, { 0 }
};
enum { FEW_ROWS = 4 };

static bool listed(const char *names, const char *d, const char *name)
{
    char *word = must(malloc(strlen(name) + 4));
    sprintf(word, "%s%s ", d, name);
    const char *at = strstr(names, word);
    while (at && at > names && at[-1] != ' ') at = strstr(at + 1, word);
    free(word);
    return at != NULL;
}
/* which of the op's arrays must agree; NULL: all */
static const char *agrees(const Same *list, const OpTest *t, const int *d)
{
    for (; list->op; list++) {
        if (strcmp(list->op, t->name)) continue;
        return t->call == lin_call && d[0] > FEW_ROWS && *list->what ? "y dx dw " : list->what;
    }
    return "";
}
/* How many arrays of a case that must agree do not; *n: how many must. */
static int differ(const Case *c, const Result *a, const Result *b, const char *names, int *n)
{
    int bad = 0;
    for (int k = 0; k < c->n; k++) {
        const Arr *r = &c->a[k];
        if (is_out(r->kind) && a->a[k] && (!names || listed(names, "", r->name)))
            bad += memcmp(a->a[k], b->a[k], size_of(c, k)) != 0, ++*n;
        if (a->g[k] && (!names || listed(names, "d", r->name)))
            bad += memcmp(a->g[k], b->g[k], grad_size(c, k)) != 0, ++*n;
    }
    return bad;
}
static void check_tiers(const OpTest *t, const char *one, const char *two, const Same *list)
{
    int bad = 0, n = 0;
    for (int i = 0; i < t->ndims; i++) {
        const char *names = list == paired ? NULL : agrees(list, t, t->dims[i]);
        if (names && !*names) continue;
        Case c;
        seed_case(t->name, t->dims[i]);
        case_make(&c, t, t->dims[i]);
        Result a = case_run(&c, tier_ops(one, 1), -1), b = case_run(&c, tier_ops(two, 1), -1);
        bad += differ(&c, &a, &b, names, &n);
        result_free(&a);
        result_free(&b);
        case_free(&c);
    }
    if (n) ok(bad == 0, "%s %s: %s and %s give the same bits, %d arrays of %d do not", t->name,
              bf16 ? "bf16" : "reals", one, two, bad, n);
}
static bool excepted(const OpTest *t)
{
    for (const Same *s = paired; s->op; s++)
        if (strcmp(s->op, t->name) == 0) return true;
    return false;
}
static void check_pair_of(const char *one, const char *two, const Same *list)
{
    if (!tier_runs(one) || !tier_runs(two)) {
        skip("this processor does not run both, or bfloat16s are not tested", two);
        return;
    }
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (list != paired || !excepted(&tests[i])) check_tiers(&tests[i], one, two, list);
}

/* ---- the optimizer's, on numbers kept in each way */
enum { N = 20011, ARRAYS_OF = 5 };
static Store kept_as(const Ops *o, int kind, const real *x)
{
    Store s = { 0 };
    if (kind == 0) s.w = dev(o, NULL, N * sizeof *x);
    else s.hi = dev(o, NULL, N * sizeof *s.hi);
    if (kind == 1) s.lo = dev(o, NULL, N * sizeof *s.lo);
    o->store(s, x, N);
    return s;
}
static real *optimizer_run(const Ops *o, int kind, real *const in[ARRAYS_OF])
{
    real *all = must(malloc((ARRAYS_OF + 1) * N * sizeof *all)), *mean = dev(o, in[4], N * sizeof *mean);
    Store s[4];
    for (int i = 0; i < 4; i++) s[i] = kept_as(o, i == 1 ? 0 : kind, in[i]);
    for (int t = 1; t <= 3; t++)
        o->adamw(s[0], s[1], s[2], s[3], N, 0.3, 0.8, 0.95, 1e-10, 0.1, 1 - pow(0.8, t), 1 - pow(0.95, t));
    o->lerp(mean, s[0], 0.25, N);
    o->scale(s[2], 1 / 3., N);
    o->exchange(s[3], mean, N);
    for (int i = 0; i < 4; i++) o->load(all + i * N, s[i], N);
    o->get(all + 4 * N, mean, N * sizeof *mean);
    dev_end(o);
    return all;
}
static void check_optimizer(const char *one, const char *two)
{
    static const char *const kinds[] = { "reals", "halves", "bfloat16s" };
    if (!tier_runs(one) || !tier_runs(two)) {
        skip("this processor does not run it", two);
        return;
    }
    for (int kind = 0; kind < (sizeof(real) == sizeof(float) ? 3 : 1); kind++) {
        real *in[ARRAYS_OF];
        for (int i = 0; i < ARRAYS_OF; i++) in[i] = random_reals(N, i == 3 ? 0 : -1, 1);
        real *a = optimizer_run(tier_ops(one, 1), kind, in), *b = optimizer_run(tier_ops(two, 1), kind, in);
        ok(memcmp(a, b, ARRAYS_OF * N * sizeof *a) == 0,
           "adamw, scale, lerp, exchange of %s: %s and %s give the same bits", kinds[kind], one, two);
        for (int i = 0; i < ARRAYS_OF; i++) free(in[i]);
        free(a), free(b);
    }
}

#ifndef __has_feature
#define __has_feature(x) 0
#endif

int main(void)
{
#if defined __SANITIZE_ADDRESS__ || __has_feature(address_sanitizer)
    skip("a sanitizer keeps the compiler from fusing every multiply-add", "tiers");
    return done();
#endif
    for (int h = 0; h < 2; h++) {
        bf16 = h;
        check_pair_of("avx2", "avx512", wide);
        check_pair_of("base", "avx2", plain);
    }
    check_pair_of("avx512", "avx512_bf16", paired);
    bf16 = false;
    check_optimizer("avx2", "avx512");
    return done();
}
