/* decode.c -- the key/value cache, and the loop that samples with it. See decode.h. */
#include "gpt/decode.h"
#include "base/io.h"
#include "base/progress.h"
#include <assert.h>
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

void cache_feed(Cache *c, Tape *t, const int *ids, int T, real *logits)
{
    Model *m = (Model *)c->m;               /* nothing in it changes: the tape does not record */
    const Ops *ops = m->ops;
    int B = c->B, on = t->on;
    for (int b = 0; b < B; b++) assert(T > 0 && T <= c->M - c->len[b]);

    tape_reset(t);
    t->on = 0;
    int *idx = tape_mem(t, size_mul((size_t)B * (size_t)T, sizeof *idx));
    ops->put(idx, ids, (size_t)B * (size_t)T * sizeof *idx);
    ops->put(c->pos, c->len, (size_t)B * sizeof *c->pos);
    Var *x = model_forward(m, t, idx, B, T, c);
    int *last = NULL;
    if (logits) {
        last = xreallocarray(NULL, (size_t)B, sizeof *last);
        for (int b = 0; b < B; b++) last[b] = b * T + T - 1;
        int *rows = tape_mem(t, (size_t)B * sizeof *rows);
        ops->put(rows, last, (size_t)B * sizeof *rows);
        real *l = model_logits(m, t, x, rows, B);
        ops->get(logits, l, (size_t)B * (size_t)m->cfg.V * sizeof *l);
    }
    ops->sync();                            /* ids, c->len and last are free to change */
    free(last);
    for (int b = 0; b < B; b++) c->len[b] += T;
    t->on = on;
    tape_reset(t);
}

/* ---- sampling ------------------------------------------------------------- */

enum { PREFILL = 512 };             /* tokens of a prompt fed at once: bounds the activations */

typedef struct Row { int sample, dead; Rng rng; ToolRow tool; } Row;

Gen *gen_new(Model *m)
{
    Gen *g = xcalloc(1, sizeof *g);
    g->m = m;
    tape_init(&g->tape, m->ops);
    g->tmp = xreallocarray(NULL, (size_t)m->cfg.V, sizeof *g->tmp);
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

static Row row_begin(const GenJob *j, int sample)
{
    uint64_t key[2] = { j->stream, (uint64_t)sample };
    Row r = { .sample = sample };
    rng_init(&r.rng, j->seed, xxh3(key, sizeof key));
    return r;
}

static int draw(Gen *g, const GenJob *j, Row *r, real *logits, int made)
{
    if (j->logits) j->logits(j->arg, r->sample, made, logits);
    int id = pick(&j->pick, logits, g->m->cfg.V, &r->rng, g->tmp);
    if (id < 0)
        die("%s: the model's logits are not finite (token %d after a prompt of %d): its "
            "weights are damaged or its training diverged", j->model, made + 1, j->n);
    return id;
}

/* Row r's next token, the made-th (from 0) of at most `room`: drawn, or what a tool forces. */
static int step(Gen *g, const GenJob *j, Row *r, real *logits, int made, int room)
{
    int id;
    bool forced = toolrow_forced(&r->tool, &id);
    if (!forced) id = draw(g, j, r, logits, made);
    g->new_tokens++;
    bool stop = !forced && j->stop && j->stop[id];
    if (!stop) (forced && j->forced ? j->forced : j->token)(j->arg, r->sample, id);
    if (!stop && j->tool) toolrow_take(j->tool, &r->tool, id);
    r->dead = stop || made + 1 == room || cancelled(j);
    if (r->dead) j->end(j->arg, r->sample, stop ? id : -1);
    return id;
}

/* The last row takes the place of a dead one, so that the live ones are rows [0,n). */
static int bury(Cache *c, Row *row, int *ids, int n)
{
    for (int r = 0; r < n;) {
        if (!row[r].dead) { r++; continue; }
        toolrow_free(&row[r].tool);
        if (r == --n) break;
        row[r] = row[n];
        ids[r] = ids[n];
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
    for (int r = 0; r < n; r++) {
        row[r] = row_begin(j, first + r);
        if (c != g->one) cache_copy_row(c, r, g->one, 0);
        memcpy(g->logits + (size_t)r * V, first_l, V * sizeof *first_l);
    }
    for (int made = 0;; made++) {
        for (int r = 0; r < n; r++)
            ids[r] = step(g, j, &row[r], g->logits + (size_t)r * V, made, room);
        n = bury(c, row, ids, n);
        if (n == 0) break;
        cache_rows(c, n);
        cache_feed(c, &g->tape, ids, 1, g->logits);
        hold(g, j, ids, 1);
    }
    free(row);
    free(ids);
    g->new_seconds += now_seconds() - t0;
}

static void end_all(const GenJob *j)
{
    for (int s = 0; s < j->samples; s++) j->end(j->arg, s, -1);
}

void gen_run(Gen *g, const GenJob *j)
{
    const Config *f = &g->m->cfg;
    assert(j->n > 0 && j->n <= f->T && j->samples > 0 && j->batch > 0 && j->max_tokens >= 0);
    assert(!j->keep || j->samples == 1);
    for (int i = 0; i < j->n; i++) assert(j->prompt[i] >= 0 && j->prompt[i] < f->V);
    int room = f->T - j->n < j->max_tokens ? f->T - j->n : j->max_tokens;
    if (room == 0) {
        end_all(j);
        return;
    }
    int most = j->samples < j->batch ? j->samples : j->batch;
    size_t V = (size_t)f->V;
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
