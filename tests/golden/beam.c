/* Beam search over toy tables against golden/llama/i_beam.json, step by step. (REAL_F64: built
 * twice.) */
#include "gpt/beam.h"
#include "golden.h"
#include "tap.h"
#include <string.h>

enum { V_MAX = 256 };
static const double tol = sizeof(real) == 8 ? 1e-6 : 3e-6;  /* the tables' values as floats */

/* Do the beams equal `want`, an array of {tokens, score}? */
static int equal(const Beam *b, const Json *want)
{
    int i = 0, bad = want->n != b->n;
    for (const Json *w = want->child; w && i < b->n; w = w->next, i++) {
        const Hyp *h = &b->h[i];
        const Json *tokens = json_get(w, "tokens");
        int t = 0;
        bad += tokens->n != h->n || fabs(h->score - num(w, "score")) > tol;
        double sum = 0;
        for (const Json *k = tokens->child; k && t < h->n; k = k->next, t++) {
            bad += (int)k->num != h->token[t].id;
            sum += h->token[t].lp;
        }
        bad += fabs(sum - h->score) > 1e-12;
    }
    return !bad;
}

/* Rows of the table for the live ones, by their last token. */
static void rows(const Beam *b, const real *table, int V, int last, real *l)
{
    for (int i = 0; i < b->n; i++) {
        const Hyp *h = &b->h[i];
        if (h->ended) continue;
        int id = h->n ? h->token[h->n - 1].id : last;
        memcpy(l, table + (size_t)id * (size_t)V, (size_t)V * sizeof *l);
        l += V;
    }
}

static void run(const Json *r, const char *kind, const real *table, int V, int eos, int most)
{
    int width = (int)num(r, "num_beams"), n = 0, bad = 0, settled = 0, last = 0;
    unsigned char stop[V_MAX] = { 0 };
    real *l = xcalloc((size_t)width * (size_t)V, sizeof *l);
    Beam *b = beam_new(width, V, 0);
    BeamToken *best = NULL;
    int nbest = 0;
    stop[eos] = 1;
    for (const Json *p = json_get(r, "prompt")->child; p; p = p->next) last = (int)p->num;
    for (const Json *s = json_get(r, "steps")->child; s; s = s->next, n++) {
        bad += n == most || (n && !beam_live(b));
        rows(b, table, V, last, l);
        bad += !beam_step(b, l, stop) || !equal(b, s);
        if (!settled && beam_settled(b, 1, most)) {     /* then the best stays the best */
            settled = 1, nbest = b->h[0].n;
            best = xcalloc((size_t)nbest, sizeof *best);
            memcpy(best, b->h[0].token, (size_t)nbest * sizeof *best);
        }
    }
    bad += !equal(b, json_get(r, "beams")) || (n < most && beam_live(b));
    if (settled)
        bad += nbest != b->h[0].n || memcmp(best, b->h[0].token, (size_t)nbest * sizeof *best) != 0;
    ok(!bad, "%s, %d beams: every step", kind, width);
    beam_free(b);
    free(l), free(best);
}

static void model(const Json *m, int eos, int most)
{
    const Json *p = json_get(m, "logprob"), *kind = json_get(m, "kind");
    int V = p->n, i = 0;
    real *table = xcalloc((size_t)V * (size_t)V, sizeof *table);
    for (const Json *r = p->child; r; r = r->next)
        for (const Json *x = r->child; x; x = x->next) table[i++] = (real)x->num;
    for (const Json *r = json_get(m, "runs")->child; r; r = r->next)
        run(r, kind->s, table, V, eos, most);
    free(table);
}

/* The lecture note's example: the sequence that is best at last was not after one token. */
static void worked(const Json *w)
{
    enum { V = 256 };
    real l[2 * V] = { 0 };
    unsigned char stop[V] = { 0 };
    stop[242] = 1;
    l[90] = (real)0.9073, l[91] = (real)0.6;
    Beam *b = beam_new(2, V, 0);
    const Json *step = json_get(w, "steps")->child;
    ok(beam_step(b, l, stop) && equal(b, step), "the worked example: the first step");
    for (int i = 0; i < 2 * V; i++) l[i] = (real)log((i < V ? 0.3 : 0.1) / (V - 2));
    l[242] = (real)log(0.4), l[91] = (real)log(0.3);
    l[V + 242] = (real)log(0.8), l[V + 90] = (real)log(0.1);
    ok(beam_step(b, l, stop) && equal(b, step->next), "  and the second");
    ok(beam_live(b) == 0 && beam_settled(b, 2, 9), "  and both have ended");
    beam_free(b);
}

/* -1 for an end at once; -1.2 for two tokens: the mean prefers the longer one. */
static void lengths(void)
{
    for (int alpha = 0; alpha <= 1; alpha++) {
        unsigned char stop[3] = { 1, 0, 0 };
        real l[6] = { (real)log(0.4), (real)log(0.35), (real)log(0.25), 0, -9, -9 };
        Beam *b = beam_new(2, 3, alpha);
        beam_step(b, l, stop);
        ok(beam_settled(b, 1, 2) == !alpha, "length penalty %d: %s", alpha,
           alpha ? "a longer one may yet win" : "no other can win");
        l[0] = 0, l[1] = l[2] = -9;
        beam_step(b, l, stop);
        ok(b->h[0].n == 1 + alpha, "  and the %s is the best", alpha ? "longer" : "shorter");
        beam_free(b);
    }
    real odd[2] = { 0, NAN };
    Beam *b = beam_new(5, 2, 0);
    ok(!beam_step(b, odd, NULL), "a logit that is not finite is refused");
    odd[1] = 0;
    ok(beam_step(b, odd, NULL) && b->n == 2 && b->h[0].token[0].id == 0,
       "more beams than tokens; of equals the smaller id first");
    beam_free(b);
}

int main(void)
{
    const char *path = golden("llama", "i_beam.json");
    Arena a = {0};
    lengths();
    if (path) {
        const Json *j = golden_json(&a, path);
        int eos = (int)num(j, "eos"), most = (int)num(j, "max_steps");
        for (const Json *m = json_get(j, "models")->child; m; m = m->next) model(m, eos, most);
        worked(json_get(j, "worked_example"));
    } else skip("no golden data here", "beam search");
    arena_free(&a);
    return done();
}
