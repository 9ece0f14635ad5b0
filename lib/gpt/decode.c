/* decode.c -- the key/value cache, and the loop that samples with it. See decode.h. */
#include "gpt/decode.h"
#include "base/io.h"
#include "base/progress.h"
#include "gpt/beam.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the cache ------------------------------------------------------------ */

static size_t row_elems(const Cache *c)     /* of one layer's k (or v) in one row: M K D */
{
    const Config *f = &c->m->cfg;
    return size_mul((size_t)c->M, (size_t)f->K * (size_t)head_size(f));
}

static size_t kv_bytes(const Cache *c)      /* of one layer's k (or v) */
{
    return size_mul(size_mul((size_t)c->cap, row_elems(c)), c->m->ops->act_size);
}

Cache *cache_new(const Model *m, int B, int M)
{
    assert(B > 0 && M > 0);
    const Ops *ops = m->ops;
    Cache *c = xcalloc(1, sizeof *c);
    *c = (Cache){ .m = m, .B = B, .M = M, .cap = B };
    c->len = xcalloc((size_t)B, sizeof *c->len);
    c->pos = ops->alloc((size_t)B * sizeof *c->pos);
    c->prev = ops->alloc(size_mul((size_t)B, (size_t)m->cfg.C) * ops->act_size);
    c->k = xcalloc((size_t)m->cfg.L, sizeof *c->k);
    c->v = xcalloc((size_t)m->cfg.L, sizeof *c->v);
    for (int i = 0; i < m->cfg.L; i++) {
        c->k[i] = ops->alloc(kv_bytes(c));
        c->v[i] = ops->alloc(kv_bytes(c));
    }
    return c;
}

void cache_free(Cache *c)
{
    if (!c) return;
    const Ops *ops = c->m->ops;
    replay_free(&c->step, ops);
    if (c->u) ops->free(c->u, (size_t)c->cap * sizeof *c->u);
    if (c->drawn) ops->free(c->drawn, (size_t)c->cap * sizeof *c->drawn);
    if (c->seen) ops->free(c->seen, (size_t)c->cap * (size_t)c->m->cfg.V);
    for (int i = 0; i < c->m->cfg.L; i++) {
        ops->free(c->k[i], kv_bytes(c));
        ops->free(c->v[i], kv_bytes(c));
    }
    ops->free(c->pos, (size_t)c->cap * sizeof *c->pos);
    ops->free(c->prev, (size_t)c->cap * (size_t)c->m->cfg.C * ops->act_size);
    free(c->k);
    free(c->v);
    free(c->len);
    free(c);
}

/* What a row held stays in memory and is never read: attention ends at the row's own position, and
 * a row at position 0 has no previous embedding. */
void cache_reset(Cache *c, int row)
{
    assert(row >= 0 && row < c->cap);
    c->len[row] = 0;
}

void cache_rows(Cache *c, int B)
{
    assert(B > 0 && B <= c->cap);
    c->B = B;
}

void cache_copy_row(Cache *to, int row, const Cache *from, int from_row)
{
    const Config *f = &to->m->cfg;
    const Ops *ops = to->m->ops;
    int n = from->len[from_row];
    assert(to->m == from->m && n <= to->M && row < to->cap && from_row < from->cap);
    size_t bytes = (size_t)n * (size_t)f->K * (size_t)head_size(f) * ops->act_size;
    int64_t a = (int64_t)row * (int64_t)row_elems(to);
    int64_t b = (int64_t)from_row * (int64_t)row_elems(from);
    for (int i = 0; i < f->L && n > 0; i++) {
        ops->copy(act_at(ops, to->k[i], a), act_at(ops, from->k[i], b), bytes);
        ops->copy(act_at(ops, to->v[i], a), act_at(ops, from->v[i], b), bytes);
    }
    ops->copy(act_at(ops, to->prev, (int64_t)row * f->C),
              act_at(ops, from->prev, (int64_t)from_row * f->C), (size_t)f->C * ops->act_size);
    to->len[row] = n;
}

/* A row's last embedding depends on its last id alone: another cache makes it anew. */
void cache_trim(Cache *c, Tape *t, int row, int n, int last)
{
    assert(n >= 0 && n <= c->len[row]);
    if (n > 0 && n < c->len[row] && c->m->cfg.family->prev) {
        const Ops *ops = c->m->ops;
        size_t C = (size_t)c->m->cfg.C;
        Cache *one = cache_new(c->m, 1, 1);
        cache_feed(one, t, &last, 1, NULL);
        ops->copy(act_at(ops, c->prev, (int64_t)row * (int64_t)C), one->prev, C * ops->act_size);
        ops->sync();
        cache_free(one);
    }
    c->len[row] = n;
}

/* Logits of the rows' last positions, on the device; NULL if rows is. */
static real *pass(Cache *c, Tape *t, const int *idx, const int *rows, int T)
{
    Model *m = (Model *)c->m;               /* nothing in it changes: the tape does not record */
    Var *x = model_forward(m, t, idx, c->B, T, c);
    return rows ? model_logits(m, t, x, rows, c->B) : NULL;
}

typedef struct Token { Cache *c; Tape *t; const int *idx, *rows; const Pick *pick; } Token;

static bool penalizes(const Pick *p) { return p->penalty > 0 && p->penalty != 1; }

static void token(void *arg)
{
    Token *k = arg;
    Cache *c = k->c;
    c->logits = pass(c, k->t, k->idx, k->rows, 1);
    if (k->pick)
        c->m->ops->pick(c->drawn, c->logits, c->u, penalizes(k->pick) ? c->seen : NULL, k->idx, c->B,
                        c->m->cfg.V, k->pick);
}

/* The same for one token a row, as a graph as soon as there can be one; pick not NULL: and what is
 * drawn from them. */
static real *pass_again(Cache *c, Tape *t, const int *idx, const int *rows, const Pick *pick)
{
    static const Pick none;
    Token k = { c, t, idx, rows, pick };
    const Pick *p = pick ? pick : &none;
    const uint64_t key[] = { (uint64_t)c->B, (uint64_t)t->serial, replay_address(c->m->w),
                             replay_address(c->m->c), replay_address(c->m->rope),
                             replay_address(idx), replay_address(rows), pick != NULL,
                             replay_number(p->temperature), (uint64_t)p->top_k,
                             replay_number(p->top_p), replay_number(p->min_p),
                             replay_number(p->penalty) };
    replay(&c->step, t, key, (int)(sizeof key / sizeof *key), token, &k);
    return c->logits;
}

/* to: what the logits go to, or with a pick the ids; NULL: nothing is wanted */
static void feed(Cache *c, Tape *t, const int *ids, int T, void *to, const Pick *pick)
{
    const Ops *ops = c->m->ops;
    int B = c->B, on = t->on;
    for (int b = 0; b < B; b++) assert(T > 0 && T <= c->M - c->len[b]);

    tape_reset(t);
    t->on = 0;
    int *idx = tape_mem(t, size_mul((size_t)B * (size_t)T, sizeof *idx)), *last = NULL, *rows = NULL;
    ops->put(idx, ids, (size_t)B * (size_t)T * sizeof *idx);
    ops->put(c->pos, c->len, (size_t)B * sizeof *c->pos);
    if (to) {
        last = xreallocarray(NULL, (size_t)B, sizeof *last);
        for (int b = 0; b < B; b++) last[b] = b * T + T - 1;
        rows = tape_mem(t, (size_t)B * sizeof *rows);
        ops->put(rows, last, (size_t)B * sizeof *rows);
    }
    real *l = T == 1 && rows ? pass_again(c, t, idx, rows, pick) : pass(c, t, idx, rows, T);
    if (pick) ops->get(to, c->drawn, (size_t)B * sizeof *c->drawn);
    else if (to) ops->get(to, l, (size_t)B * (size_t)c->m->cfg.V * sizeof *l);
    else ops->sync();                       /* ids, c->len and last are free to change */
    free(last);
    for (int b = 0; b < B; b++) c->len[b] += T;
    t->on = on;
    tape_reset(t);
}

void cache_feed(Cache *c, Tape *t, const int *ids, int T, real *logits)
{
    feed(c, t, ids, T, logits, NULL);
}

void cache_draw(Cache *c, Tape *t, int *ids, const Pick *p, const double *u)
{
    const Ops *ops = c->m->ops;
    assert(!penalizes(p) || c->seen);
    if (!c->u) {
        c->u = ops->alloc((size_t)c->cap * sizeof *c->u);
        c->drawn = ops->alloc((size_t)c->cap * sizeof *c->drawn);
    }
    ops->put(c->u, u, (size_t)c->B * sizeof *u);
    feed(c, t, ids, 1, ids, p);
}

void cache_seen(Cache *c, int row, const unsigned char *seen)
{
    const Ops *ops = c->m->ops;
    const size_t V = (size_t)c->m->cfg.V;
    if (!c->seen) c->seen = ops->alloc(size_mul((size_t)c->cap, V));
    ops->put(c->seen + (size_t)row * V, seen, V);
}

/* ---- sampling ------------------------------------------------------------- */

enum { PREFILL = 512 };             /* tokens of a prompt fed at once: bounds the activations */

typedef struct Row {
    int sample, dead;
    Rng rng;
    ToolRow tool;
    unsigned char *seen;            /* [V]: ids of the prompt and the sample; NULL: not needed */
} Row;

Gen *gen_new(Model *m)
{
    Gen *g = xcalloc(1, sizeof *g);
    g->m = m;
    tape_init(&g->tape, m->ops);
    g->tmp = xreallocarray(NULL, size_mul(2, (size_t)m->cfg.V), sizeof *g->tmp);
    g->raw = xreallocarray(NULL, (size_t)m->cfg.V, sizeof *g->raw);
    return g;
}

void gen_free(Gen *g)
{
    if (!g) return;
    cache_free(g->one);
    cache_free(g->many);
    tape_free(&g->tape);
    ids_free(&g->held);
    free(g->logits);
    free(g->tmp);
    free(g->raw);
    free(g);
}

/* c, or a larger one in its place, for B rows of M positions. Row 0 is kept. */
static Cache *fit(Gen *g, Cache *c, int B, int M)
{
    if (c && c->cap >= B && c->M >= M) return c;
    int64_t up = ((int64_t)M + 63) / 64 * 64;
    if (up > g->m->cfg.T) up = g->m->cfg.T;
    M = (int)up;
    if (c && c->cap > B) B = c->cap;
    if (c && c->M > M) M = c->M;
    Cache *larger = cache_new(g->m, B, M);
    if (c) cache_copy_row(larger, 0, c, 0);
    g->m->ops->sync();
    cache_free(c);
    return larger;
}

/* How many ids of the prompt the cache holds already; the last is always computed, for its
 * logits. */
static int already(Gen *g, const GenJob *j)
{
    int n = 0, most = j->n - 1;
    if (!j->keep || !g->one) return 0;
    if ((size_t)most > g->held.n) most = (int)g->held.n;
    while (n < most && g->held.id[n] == (uint32_t)j->prompt[n]) n++;
    return n;
}

static void hold(Gen *g, const GenJob *j, const int *ids, int n)
{
    for (int i = 0; j->keep && i < n; i++) ids_add(&g->held, (uint32_t)ids[i]);
}

static bool cancelled(const GenJob *j) { return j->cancel && *j->cancel; }

/* The prompt into g->one, with room for `more` after it; logits [V] of its last position. false:
 * cancelled. */
static bool prefill(Gen *g, const GenJob *j, int more, real *logits)
{
    double t0 = now_seconds();
    int from = already(g, j);
    g->held.n = (size_t)from;
    if (g->one) cache_trim(g->one, &g->tape, 0, from, from ? j->prompt[from - 1] : 0);
    g->one = fit(g, g->one, 1, j->n + more);
    int i = from;
    for (int T; i < j->n && !cancelled(j); i += T) {
        T = j->n - i < PREFILL ? j->n - i : PREFILL;
        cache_feed(g->one, &g->tape, j->prompt + i, T, i + T == j->n ? logits : NULL);
        hold(g, j, j->prompt + i, T);
    }
    g->prompt_tokens += i - from;
    g->prompt_seconds += now_seconds() - t0;
    return i == j->n;
}

/* [V]: 1 for the ids of the prompt. */
static unsigned char *prompt_ids(const GenJob *j, int V)
{
    unsigned char *seen = xcalloc((size_t)V, 1);
    for (int i = 0; i < j->n; i++) seen[j->prompt[i]] = 1;
    return seen;
}

static Row row_begin(const Gen *g, const GenJob *j, int sample)
{
    uint64_t key[2] = { j->stream, (uint64_t)sample };
    Row r = { .sample = sample };
    if (penalizes(&j->pick)) r.seen = prompt_ids(j, g->m->cfg.V);
    rng_init(&r.rng, j->seed, xxh3(key, sizeof key));
    return r;
}

static _Noreturn void not_finite(const GenJob *j, int made)
{
    die("%s: the model's logits are not finite (token %d after a prompt of %d): its weights are "
        "damaged or its training diverged", j->model, made + 1, j->n);
}

static int draw(Gen *g, const GenJob *j, Row *r, real *logits, int made)
{
    if (j->logprob) memcpy(g->raw, logits, (size_t)g->m->cfg.V * sizeof *logits);
    if (j->logits) j->logits(j->arg, r->sample, made, logits);
    if (r->seen) pick_penalize(logits, g->m->cfg.V, r->seen, j->pick.penalty);
    int id = pick(&j->pick, logits, g->m->cfg.V, &r->rng, g->tmp);
    if (id < 0) not_finite(j, made);
    return id;
}

/* The random number that is r's next. */
static double peek(const GenJob *j, const Row *r)
{
    Rng copy = r->rng;
    return j->pick.temperature > 0 ? rng_uniform(&copy) : 0;
}

/* What draw() does, done on the device. */
static int take_drawn(const GenJob *j, Row *r, int id, int made)
{
    if (j->pick.temperature > 0) rng_uniform(&r->rng);
    if (id < 0) not_finite(j, made);
    return id;
}

/* Row r's next token, the made-th (from 0) of at most `room`: what a tool forces, or drawn from logits;
 * those NULL: `drawn`, by the device. */
static int step(Gen *g, const GenJob *j, Row *r, real *logits, int drawn, int made, int room)
{
    int id;
    bool forced = toolrow_forced(&r->tool, &id);
    if (!forced) id = logits ? draw(g, j, r, logits, made) : take_drawn(j, r, drawn, made);
    g->new_tokens++;
    if (r->seen) r->seen[id] = 1;
    bool stop = !forced && j->stop && j->stop[id];
    if (!stop && j->logprob)
        j->logprob(j->arg, r->sample, forced ? NAN : pick_logprob(g->raw, g->m->cfg.V, id));
    if (!stop) (forced && j->forced ? j->forced : j->token)(j->arg, r->sample, id);
    if (!stop && j->tool) toolrow_take(j->tool, &r->tool, id);
    r->dead = stop || made + 1 == room || cancelled(j) ||
              (j->enough && j->enough(j->arg, r->sample));
    if (r->dead) j->end(j->arg, r->sample, stop ? id : -1);
    return id;
}

/* The last row takes the place of a dead one, so that the live ones are rows [0,n). */
static int bury(Cache *c, Row *row, int *ids, int n)
{
    for (int r = 0; r < n;) {
        if (!row[r].dead) { r++; continue; }
        toolrow_free(&row[r].tool);
        free(row[r].seen);
        if (r == --n) break;
        row[r] = row[n];
        ids[r] = ids[n];
        if (c->seen && !row[r].dead) {
            const size_t V = (size_t)c->m->cfg.V;
            c->m->ops->copy(c->seen + (size_t)r * V, c->seen + (size_t)n * V, V);
        }
        if (!row[r].dead) cache_copy_row(c, r, c, n);
    }
    return n;
}

/* Samples [first, first + n), all of whose first tokens come from logits first_l [V]. A job with
 * `keep` has one, which goes on in the cache of the prompt. */
static void run_batch(Gen *g, const GenJob *j, int first, int n, int room, const real *first_l)
{
    double t0 = now_seconds();
    size_t V = (size_t)g->m->cfg.V;
    Cache *c = j->keep ? g->one : (g->many = fit(g, g->many, n, j->n + room - 1));
    Row *row = xcalloc((size_t)n, sizeof *row);
    int *ids = xcalloc((size_t)n, sizeof *ids);
    /* on the device but for the first, unless the host is to see the logits */
    const bool there = c->m->ops->pick && !j->logprob && !j->logits;
    double *u = xcalloc((size_t)n, sizeof *u);
    for (int r = 0; r < n; r++) {
        row[r] = row_begin(g, j, first + r);
        if (there && row[r].seen) cache_seen(c, r, row[r].seen);
        if (c != g->one) cache_copy_row(c, r, g->one, 0);
        memcpy(g->logits + (size_t)r * V, first_l, V * sizeof *first_l);
    }
    for (int made = 0;; made++) {
        for (int r = 0; r < n; r++)
            ids[r] = step(g, j, &row[r], there && made ? NULL : g->logits + (size_t)r * V, ids[r], made,
                          room);
        n = bury(c, row, ids, n);
        if (n == 0) break;
        cache_rows(c, n);
        hold(g, j, ids, 1);
        for (int r = 0; there && r < n; r++) u[r] = peek(j, &row[r]);
        if (there) cache_draw(c, &g->tape, ids, &j->pick, u);
        else cache_feed(c, &g->tape, ids, 1, g->logits);
    }
    free(u);
    free(row);
    free(ids);
    g->new_seconds += now_seconds() - t0;
}

static void end_all(const GenJob *j)
{
    for (int s = 0; s < j->samples; s++) j->end(j->arg, s, -1);
}

/* How many tokens a sample may have. */
static int room_of(const Gen *g, const GenJob *j)
{
    const Config *f = &g->m->cfg;
    assert(j->n > 0 && j->n <= f->T && j->samples > 0 && j->max_tokens >= 0);
    for (int i = 0; i < j->n; i++) assert(j->prompt[i] >= 0 && j->prompt[i] < f->V);
    return f->T - j->n < j->max_tokens ? f->T - j->n : j->max_tokens;
}

void gen_run(Gen *g, const GenJob *j)
{
    assert(j->batch > 0 && (!j->keep || j->samples == 1));
    int room = room_of(g, j);
    if (room == 0) {
        end_all(j);
        return;
    }
    int most = j->samples < j->batch ? j->samples : j->batch;
    size_t V = (size_t)g->m->cfg.V;
    g->logits = xreallocarray(g->logits, size_mul((size_t)most + 1, V), sizeof *g->logits);
    real *first_l = g->logits + (size_t)most * V;      /* kept until the last batch */
    if (!prefill(g, j, j->keep ? room - 1 : 0, first_l)) {
        end_all(j);
        return;
    }
    for (int s = 0; s < j->samples; s += most) {
        int n = j->samples - s < most ? j->samples - s : most;
        run_batch(g, j, s, n, room, first_l);
        if (n < most) break;                            /* and s + most may not fit an int */
    }
}

/* ---- beam search ------------------------------------------------------------ */

/* After a step: live hypothesis i, in order, gets row i of the cache, copied from the row of the
 * hypothesis it goes on from. old[]: rows of those before. In place: row r < n is written only if
 * no live one goes on from it; row[]: what each got, rows [0,n) in some order; -1: ended. */
static void regroup(Cache *c, const Beam *b, const int *old, int *row)
{
    int n = beam_live(b), next = 0;
    unsigned char *taken = xcalloc((size_t)n + 1, 1);
    for (int i = 0; i < b->n; i++) {
        int r = b->h[i].ended ? -1 : old[b->h[i].from];
        row[i] = r >= 0 && r < n && !taken[r] ? r : -1;
        if (row[i] >= 0) taken[r] = 1;
    }
    for (int i = 0; i < b->n; i++) {
        if (b->h[i].ended || row[i] >= 0) continue;
        while (taken[next]) next++;
        cache_copy_row(c, next, c, old[b->h[i].from]);
        row[i] = next++;
    }
    free(taken);
}

/* The logits [rows][V] that the cache gave, in the order of the hypotheses, in sorted. */
static void gather(const GenJob *j, const Beam *b, const int *row, const real *logits, real *sorted)
{
    size_t V = (size_t)b->V;
    for (int i = 0; i < b->n; i++) {
        if (b->h[i].ended) continue;
        memcpy(sorted, logits + (size_t)row[i] * V, V * sizeof *sorted);
        if (penalizes(&j->pick)) {
            unsigned char *seen = prompt_ids(j, b->V);
            for (int t = 0; t < b->h[i].n; t++) seen[b->h[i].token[t].id] = 1;
            pick_penalize(sorted, b->V, seen, j->pick.penalty);
            free(seen);
        }
        sorted += V;
    }
}

static void search(Gen *g, const GenJob *j, Beam *b, int room, real *logits, real *sorted)
{
    Cache *c = g->many = fit(g, g->many, b->width, j->n + room - 1);
    int *row = xcalloc((size_t)b->width, sizeof *row);
    int *old = xcalloc((size_t)b->width, sizeof *old);
    int *ids = xcalloc((size_t)b->width, sizeof *ids);
    cache_copy_row(c, 0, g->one, 0);
    for (int made = 0;; made++) {
        gather(j, b, row, logits, sorted);
        g->new_tokens += beam_live(b);
        if (!beam_step(b, sorted, j->stop)) not_finite(j, made);
        if (made + 1 == room || beam_settled(b, j->samples, room) || cancelled(j)) break;
        memcpy(old, row, (size_t)b->width * sizeof *old);
        regroup(c, b, old, row);
        for (int i = 0; i < b->n; i++)
            if (row[i] >= 0) ids[row[i]] = b->h[i].token[made].id;
        cache_rows(c, beam_live(b));
        cache_feed(c, &g->tape, ids, 1, logits);
    }
    free(row), free(old), free(ids);
}

/* Hypothesis h as sample s. */
static void tell(const GenJob *j, int s, const Hyp *h)
{
    bool stopped = false;
    int n = h->n - h->ended;
    for (int t = 0; t < n && !stopped; t++) {
        if (j->logprob) j->logprob(j->arg, s, h->token[t].lp);
        j->token(j->arg, s, h->token[t].id);
        stopped = j->enough && j->enough(j->arg, s);
    }
    j->end(j->arg, s, h->ended && !stopped ? h->token[n].id : -1);
}

void gen_beam(Gen *g, const GenJob *j, int width, double alpha)
{
    assert(width >= j->samples);
    int room = room_of(g, j), V = g->m->cfg.V, n = 0;
    Beam *b = beam_new(width, V, alpha);
    size_t all = size_mul((size_t)width, (size_t)V);
    g->logits = xreallocarray(g->logits, all, sizeof *g->logits);
    real *sorted = xreallocarray(NULL, all, sizeof *sorted);
    if (room > 0 && prefill(g, j, 0, g->logits)) {
        double t0 = now_seconds();
        search(g, j, b, room, g->logits, sorted);
        g->new_seconds += now_seconds() - t0;
        n = b->n < j->samples ? b->n : j->samples;
    }
    for (int s = 0; s < n; s++) tell(j, s, &b->h[s]);
    for (int s = n; s < j->samples; s++) j->end(j->arg, s, -1);     /* fewer sequences exist */
    free(sorted);
    beam_free(b);
}

/* ---- the probability of a text ------------------------------------------------ */

void gen_score(Gen *g, const int *ids, int n, real *lp)
{
    Tape *t = &g->tape;
    const Ops *ops = g->m->ops;
    int T = n - 1, on = t->on;
    assert(T > 0 && T <= g->m->cfg.T);
    tape_reset(t);
    t->on = 0;
    int *x = tape_mem(t, size_mul((size_t)T, sizeof *x)), *y = tape_mem(t, (size_t)T * sizeof *y);
    real *loss = tape_mem(t, (size_t)T * sizeof *loss);
    ops->put(x, ids, (size_t)T * sizeof *x);
    ops->put(y, ids + 1, (size_t)T * sizeof *y);
    Var *h = model_forward(g->m, t, x, 1, T, NULL);
    model_loss(g->m, t, h, y, NULL, T, loss, 0);
    ops->get(lp, loss, (size_t)T * sizeof *lp);
    ops->sync();
    for (int i = 0; i < T; i++) lp[i] = -lp[i];
    g->prompt_tokens += n;
    t->on = on;
    tape_reset(t);
}
