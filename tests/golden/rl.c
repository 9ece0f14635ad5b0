/* The loss of groups of answers: on-policy and GRPO, against the worked numbers; the gradient by
 * finite differences, where the numbers do not say. */
#include "golden.h"
#include "gpt/rl.h"
#include "tap.h"
#include <string.h>

static int read_rows(const Json *rows, double *out, int L)
{
    int i = 0;
    for (const Json *r = rows->child; r; r = r->next, i++) {
        int l = 0;
        for (const Json *e = r->child; e && l < L; e = e->next) out[i * L + l++] = e->num;
    }
    return i;
}

static void read_list(const Json *a, double *out)
{
    for (const Json *e = a->child; e; e = e->next) *out++ = e->num;
}

/* largest |a - b| / max(|b|, 1) but for the places in skip ([[answer, token] ...] or NULL) */
static double worst(const double *a, const double *b, int n, int L, const Json *skip_at)
{
    double bad = 0;
    for (int k = 0; k < n * L; k++) {
        int out = 0;
        for (const Json *e = skip_at ? skip_at->child : NULL; e; e = e->next)
            out |= k == (int)e->child->num * L + (int)e->child->next->num;
        double d = fabs(a[k] - b[k]) / fmax(fabs(b[k]), 1);
        if (!out && !(d <= bad)) bad = d;
    }
    return bad;
}

typedef struct Case {
    int n, L;
    double *reward, *logp, *old, *mask, *want, *got, adv[64], want_adv[64];
    unsigned char *m;
} Case;

static Case load(const Json *g)
{
    Case c = { .n = json_get(g, "rewards")->n };
    for (const Json *r = json_get(g, "mask")->child; r; r = r->next) c.L = r->n > c.L ? r->n : c.L;
    size_t all = (size_t)c.n * (size_t)c.L;
    double **to[] = { &c.reward, &c.logp, &c.old, &c.mask, &c.want, &c.got };
    for (size_t i = 0; i < sizeof to / sizeof *to; i++) *to[i] = xcalloc(all + 64, sizeof(double));
    c.m = xcalloc(all + 1, 1);
    read_list(json_get(g, "rewards"), c.reward);
    read_rows(json_get(g, "logp"), c.logp, c.L);
    read_rows(json_get(g, "logp_old"), c.old, c.L);
    read_rows(json_get(g, "mask"), c.mask, c.L);
    for (size_t i = 0; i < all; i++) c.m[i] = c.mask[i] != 0;
    return c;
}

static void drop(Case *c)
{
    free(c->reward), free(c->logp), free(c->old), free(c->mask), free(c->want), free(c->got);
    free(c->m);
}

static void one(const Json *g, int which)
{
    Case c = load(g);
    RlGroup group = { c.n, c.L, c.reward, c.logp, c.old, NULL, c.m };
    static const char *const names[] = { "grpo", "grpo_eps_1e-4" };
    for (int k = 0; k < 2; k++) {
        const Json *w = json_get(g, names[k]);
        RlSettings s = { .std = 1, .eps = k ? 1e-4 : 1e-8, .clip = 0.2, .norm = RL_PER_ANSWER };
        RlLoss r = rl_loss(c.got, c.adv, &s, &group);
        read_list(json_get(w, "advantages"), c.want_adv);
        ok(worst(c.adv, c.want_adv, c.n, 1, NULL) < 1e-9, "group %d: %s: advantages", which, names[k]);
        ok(fabs(r.loss - num(w, "group_loss")) < 1e-9, "group %d: %s: loss %.9f", which, names[k],
           r.loss);
        if (!json_get(w, "grad_logp")) continue;
        read_rows(json_get(w, "grad_logp"), c.want, c.L);
        double bad = worst(c.got, c.want, c.n, c.L, json_get(g, "grad_on_boundary"));
        ok(bad < 1e-9, "group %d: %s: gradient, %.1e", which, names[k], bad);
    }
    const Json *w = json_get(g, "on_policy");
    RlSettings s = { .norm = RL_PER_TOKEN };
    group.old = NULL;
    RlLoss r = rl_loss(c.got, c.adv, &s, &group);
    const Json *loss = json_get(w, "loss");
    ok(r.tokens == (int)num(w, "valid"), "group %d: on-policy: %d tokens", which, r.tokens);
    ok(loss->kind != J_NUM ? r.loss == 0 : fabs(r.loss - loss->num) < 1e-9,
       "group %d: on-policy: loss %.9f", which, r.loss);
    read_rows(json_get(w, "grad_logp"), c.want, c.L);
    ok(worst(c.got, c.want, c.n, c.L, NULL) < 1e-9, "group %d: on-policy: gradient", which);
    drop(&c);
}

/* ---- what the stored numbers do not have */

enum { N = 5, L = 4 };
static const double rewards[N] = { 1, 0, NAN, 0.25, 0 };
static const unsigned char mask[N * L] = { 1, 1, 0, 1, 1, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0 };

static void fill(double *x, double scale)
{
    for (int i = 0; i < N * L; i++) x[i] = -scale * (1 + (i * 37 % 11) / 7.0);
}

static void differences(const RlSettings *s, const char *name)
{
    double logp[N * L], old[N * L], ref[N * L], grad[N * L], scratch[N * L], adv[N], bad = 0;
    fill(logp, 0.9), fill(old, 0.85), fill(ref, 1.1);
    RlGroup g = { N, L, rewards, logp, old, s->beta > 0 ? ref : NULL, mask };
    rl_loss(grad, adv, s, &g);
    for (int i = 0; i < N * L; i++) {
        double keep = logp[i], h = 1e-6, up, down;
        logp[i] = keep + h, up = rl_loss(scratch, adv, s, &g).loss;
        logp[i] = keep - h, down = rl_loss(scratch, adv, s, &g).loss;
        logp[i] = keep;
        bad = fmax(bad, fabs((up - down) / (2 * h) - grad[i]));
    }
    ok(bad < 1e-8, "%s: gradient equals finite differences, %.1e", name, bad);
    int zero = 1;
    for (int i = 0; i < N * L; i++) zero &= (mask[i] && i / L != 2) || grad[i] == 0;
    ok(zero, "%s: none for masked tokens and the answer that could not be judged", name);
}

static void properties(void)
{
    double adv[N], mean, std;
    RlSettings plain = { .norm = RL_PER_TOKEN }, grpo = { 1, 1e-8, 0.2, 0.05, RL_PER_ANSWER };
    RlSettings wide = { 1, 1e-8, 0, 0.1, RL_PER_TOKEN };
    differences(&grpo, "GRPO with KL");
    differences(&wide, "per token, no clipping, KL");
    plain.std = 1, plain.eps = 1e-8;
    differences(&plain, "per token, std");
    plain.std = 0;
    ok(rl_advantages(adv, &plain, rewards, N, &mean, &std) == 4 && near(mean, 1.25 / 4, 1e-15) &&
       adv[2] == 0, "a reward that is unknown is in neither mean nor count");
    double same[N] = { 0.1, 0.1, NAN, 0.1, 0.1 }, grad[N * L], logp[N * L];
    fill(logp, 1);
    RlGroup g = { N, L, same, logp, NULL, NULL, mask };
    int zero = 1;
    for (int std_too = 0; std_too < 2; std_too++) {
        plain.std = std_too;
        rl_loss(grad, adv, &plain, &g);
        for (int i = 0; i < N * L; i++) zero &= grad[i] == 0;
    }
    ok(zero, "equal rewards give exactly no gradient");
    double none[N] = { NAN, NAN, NAN, NAN, NAN };
    g.reward = none;
    RlLoss r = rl_loss(grad, adv, &grpo, &g);
    ok(r.loss == 0 && r.judged == 0 && r.tokens == 0, "no reward at all: no loss");
    double first[2] = { 1, 0 }, l1[2] = { -1, -1 }, g1[2], l8[16], g8[16], a2[2];
    unsigned char m1[2] = { 1, 1 }, m8[16] = { 1, [8] = 1 };
    for (int i = 0; i < 16; i++) l8[i] = -1;
    RlGroup s1 = { 2, 1, first, l1, NULL, NULL, m1 }, s8 = { 2, 8, first, l8, NULL, NULL, m8 };
    for (int norm = RL_PER_TOKEN; norm <= RL_PER_ANSWER; norm++) {
        plain.norm = norm;
        RlLoss a = rl_loss(g1, a2, &plain, &s1), b = rl_loss(g8, a2, &plain, &s8);
        ok(a.loss == b.loss && g1[0] == g8[0] && g1[1] == g8[8], "padding changes nothing (%d)", norm);
    }
}

int main(void)
{
    Arena a = { 0 };
    const char *path = golden("llama", "j_losses.json");
    int k = 0;
    properties();
    if (!path) skip("j_losses.json is not here", "groups of answers");
    else
        for (const Json *g = json_get(golden_json(&a, path), "groups")->child; g; g = g->next)
            one(g, k++);
    arena_free(&a);
    return done();
}
