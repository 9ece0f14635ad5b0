/* beam.c -- see beam.h. */
#include "gpt/beam.h"
#include "base/err.h"
#include "gpt/pick.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A hypothesis that might be: h[from] with a token more, or as it is if it has ended (id -1). */
typedef struct BeamCand { int from, id; double lp, score, rank; } BeamCand;

Beam *beam_new(int width, int V, double alpha)
{
    assert(width > 0 && V > 0);
    Beam *b = xcalloc(1, sizeof *b);
    *b = (Beam){ .width = width, .V = V, .alpha = alpha, .n = 1 };
    b->h = xcalloc(1, sizeof *b->h);
    b->cand = xcalloc((size_t)width, sizeof *b->cand);
    b->top = xcalloc((size_t)width, sizeof *b->top);
    return b;
}

static void free_hyps(Hyp *h, int n)
{
    for (int i = 0; i < n; i++) free(h[i].token);
    free(h);
}

void beam_free(Beam *b)
{
    if (!b) return;
    free_hyps(b->h, b->n);
    free(b->cand);
    free(b->top);
    free(b);
}

/* The largest of x [V] with their ids, falling, in top; returns how many: width, or V. */
static int largest(const real *x, int V, int width, BeamToken *top)
{
    int n = 0;
    for (int i = 0; i < V; i++) {
        double v = (double)x[i];
        if (n == width && v <= top[n - 1].lp) continue;
        int at = n < width ? n++ : n - 1;
        for (; at > 0 && top[at - 1].lp < v; at--) top[at] = top[at - 1];
        top[at] = (BeamToken){ i, v };
    }
    return n;
}

/* c takes its place among the best `width` candidates, after its equals. */
static void enter(Beam *b, BeamCand c)
{
    if (b->ncand == b->width && c.rank <= b->cand[b->ncand - 1].rank) return;
    int at = b->ncand < b->width ? b->ncand++ : b->ncand - 1;
    for (; at > 0 && b->cand[at - 1].rank < c.rank; at--) b->cand[at] = b->cand[at - 1];
    b->cand[at] = c;
}

static double rank(const Beam *b, double score, int n) { return score / pow(n, b->alpha); }

static void propose(Beam *b, int from, const real *logits)
{
    const Hyp *h = &b->h[from];
    int n = largest(logits, b->V, b->width, b->top);
    double all = pick_logprob(logits, b->V, b->top[0].id) - b->top[0].lp;   /* - log sum exp */
    for (int i = 0; i < n; i++) {
        BeamCand c = { .from = from, .id = b->top[i].id, .lp = b->top[i].lp + all };
        c.score = h->score + c.lp;
        c.rank = rank(b, c.score, h->n + 1);
        enter(b, c);
    }
}

static Hyp follow(const Beam *b, const BeamCand *c, const unsigned char *stop)
{
    const Hyp *old = &b->h[c->from];
    Hyp h = { .n = old->n + (c->id >= 0), .score = c->score, .rank = c->rank, .from = c->from };
    h.token = xreallocarray(NULL, (size_t)h.n, sizeof *h.token);
    if (old->n > 0) memcpy(h.token, old->token, (size_t)old->n * sizeof *h.token);
    if (c->id >= 0) h.token[old->n] = (BeamToken){ c->id, c->lp };
    h.ended = c->id < 0 || (stop && stop[c->id]);
    return h;
}

bool beam_step(Beam *b, const real *logits, const unsigned char *stop)
{
    size_t live = (size_t)beam_live(b), all = live * (size_t)b->V;
    for (size_t i = 0; i < all; i++)
        if (!isfinite(logits[i])) return false;
    b->ncand = 0;
    for (int i = 0; i < b->n; i++) {
        const Hyp *h = &b->h[i];
        if (h->ended) {
            enter(b, (BeamCand){ .from = i, .id = -1, .score = h->score, .rank = h->rank });
            continue;
        }
        propose(b, i, logits);
        logits += b->V;
    }
    Hyp *next = xcalloc((size_t)b->ncand, sizeof *next);
    for (int i = 0; i < b->ncand; i++) next[i] = follow(b, &b->cand[i], stop);
    free_hyps(b->h, b->n);
    b->h = next;
    b->n = b->ncand;
    return true;
}

int beam_live(const Beam *b)
{
    int n = 0;
    for (int i = 0; i < b->n; i++) n += !b->h[i].ended;
    return n;
}

/* A sum only falls, but divided by a growing power of the length its rank may rise: it is at most
 * that of the sum now, at one of the two ends of what length is to come. */
bool beam_settled(const Beam *b, int k, int most)
{
    int sure = 0;
    while (sure < b->n && sure < k && b->h[sure].ended) sure++;
    if (beam_live(b) == 0) return true;
    if (sure < k) return false;
    for (int i = k; i < b->n; i++) {
        const Hyp *h = &b->h[i];
        if (h->ended || h->n >= most) continue;
        double near = rank(b, h->score, h->n + 1), far = rank(b, h->score, most);
        if ((near > far ? near : far) > b->h[k - 1].rank) return false;
    }
    return true;
}
