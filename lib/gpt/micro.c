/* micro.c -- see micro.h. */
#include "gpt/micro.h"
#include "base/err.h"
#include <assert.h>
#include <stdlib.h>

static size_t tokens(const Micro *u) { return size_mul((size_t)u->B, (size_t)u->T); }

void micro_init(Micro *u, const Ops *ops, int B, int T, int docs)
{
    *u = (Micro){ .ops = ops, .B = B, .T = T };
    const size_t N = tokens(u), ids = size_mul(N, sizeof *u->x), reals = size_mul(N, sizeof(real));
    u->x = ops->alloc(ids);
    u->y = ops->alloc(ids);
    u->doc = docs ? ops->alloc(ids) : NULL;
    u->wt = ops->alloc(reals);
    u->loss = ops->alloc(reals);
    u->row = ops->alloc(sizeof *u->row);
    u->sum = ops->alloc(MICRO_SUMS * sizeof *u->sum);
    u->host = xreallocarray(NULL, N, sizeof *u->host);
}

void micro_free(Micro *u)
{
    const Ops *o = u->ops;
    if (!o) return;
    const size_t N = tokens(u), ids = N * sizeof *u->x, reals = N * sizeof(real);
    replay_free(&u->replay, o);
    o->free(u->x, ids);
    o->free(u->y, ids);
    if (u->doc) o->free(u->doc, ids);
    o->free(u->wt, reals);
    o->free(u->loss, reals);
    o->free(u->row, sizeof *u->row);
    o->free(u->sum, MICRO_SUMS * sizeof *u->sum);
    free(u->host);
    *u = (Micro){0};
}

void micro_begin(Micro *u) { u->ops->zero(u->sum, MICRO_SUMS * sizeof *u->sum); }

typedef struct Work { Micro *u; Model *m; Tape *t; int B; } Work;

static void work(void *arg)
{
    const Work *k = arg;
    Micro *u = k->u;
    const int N = k->B * u->T;
    tape_reset(k->t);
    k->t->on = 1;
    Var *h = model_forward_docs(k->m, k->t, u->x, u->doc, k->B, u->T);
    model_loss(k->m, k->t, h, u->y, u->wt, N, u->loss, 1);
    tape_backward(k->t);
    u->ops->sum(u->sum + SUM_LOSS, u->loss, N);
    if (k->m->aux) u->ops->sum(u->sum + SUM_AUX, k->m->aux, k->m->cfg.L);
}

/* As a factor of each target, since a graph keeps what an operation takes by value. */
static void weigh(Micro *u, uint64_t valid)
{
    const size_t N = tokens(u);
    if (u->valid == valid) return;
    for (size_t i = 0; i < N; i++) u->host[i] = (real)(1 / (double)valid);
    u->ops->put(u->wt, u->host, N * sizeof *u->host);
    u->valid = valid;
}

void micro_step(Micro *u, Model *m, Tape *t, int B, const int32_t *x, const int32_t *y,
                const int32_t *doc, uint64_t row, uint64_t valid)
{
    const Ops *o = u->ops;
    const size_t ids = (size_t)B * (size_t)u->T * sizeof *u->x;
    assert(B <= u->B && valid > 0);
    weigh(u, valid);
    o->put(u->x, x, ids);
    o->put(u->y, y, ids);
    if (u->doc) o->put(u->doc, doc, ids);
    o->put(u->row, &row, sizeof row);
    m->drop_row = 0;
    m->drop_from = u->row;
    Work k = { u, m, t, B };
    const uint64_t key[] = {
        replay_address(m), replay_address(m->w), replay_address(m->c), replay_address(m->g),
        replay_address(m->rope), replay_number(m->aux_scale), (uint64_t)m->dropping, m->drop_seed,
        (uint64_t)t->serial, (uint64_t)t->recompute
    };
    if (B == u->B && !m->on_act && !t->on_grad)
        replay(&u->replay, t, key, (int)(sizeof key / sizeof *key), work, &k);
    else work(&k);
    m->drop_from = NULL;
}
