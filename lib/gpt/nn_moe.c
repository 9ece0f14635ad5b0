/* nn_moe.c -- mixtures of experts on the tape; see nn.h. */
#include "gpt/nn.h"

#define O (t->ops)

Moe *nn_moe(Tape *t, int N, int C, int E, int k, int norm)
{
    Moe *m = arena_alloc(&t->host, sizeof *m);
    size_t n = (size_t)N * (size_t)k;
    *m = (Moe){ .N = N, .C = C, .E = E, .k = k, .norm = norm };
    m->p = tape_mem(t, (size_t)N * (size_t)E * sizeof *m->p);
    m->wt = tape_mem(t, n * sizeof *m->wt);
    m->dwt = t->on ? tape_mem(t, n * sizeof *m->dwt) : NULL;
    m->pick = tape_mem(t, n * sizeof *m->pick);
    m->slot = tape_mem(t, n * sizeof *m->slot);
    m->src = tape_mem(t, n * sizeof *m->src);
    m->off = tape_mem(t, ((size_t)E + 1) * sizeof *m->off);
    return m;
}

static void route_f(Tape *t, Rec *r)
{
    Moe *m = (Moe *)r->save[0];
    const Act *h = tape_val(t, r->in[0]);
    O->route(m->p, m->wt, m->pick, m->slot, m->src, m->off, m->aux, h, r->in[1]->w, m->N, m->C,
             m->E, m->k, m->norm);
    O->embed(tape_out(t, r), h, m->src, m->N * m->k, m->C);
}

/* What the experts saw goes back to the tokens; the weights' gradient came before, in slots_b. */
static void route_b(Tape *t, Rec *r)
{
    Moe *m = (Moe *)r->save[0];
    Act *dh = tape_grad(t, r->in[0]);
    O->slots_add(dh, r->out->g, NULL, m->slot, m->N, m->k, m->C);
    O->route_bwd(dh, r->in[1]->dw, m->dwt, m->p, m->wt, m->pick, m->off, tape_val(t, r->in[0]),
                 r->in[1]->w, m->N, m->C, m->E, m->k, m->norm, m->aux_scale);
}

Var *nn_route(Tape *t, Moe *m, Var *h, Var *gate)
{
    Rec *r = tape_rec(t, (int64_t)m->N * m->k * m->C, route_f, route_b);
    r->in[0] = h, r->in[1] = gate;
    r->save[0] = m;
    return tape_run(t, r, USES_0);
}

static void experts_f(Tape *t, Rec *r)
{
    const Moe *m = r->save[0];
    const Act *x = tape_val(t, r->in[0]);
    O->experts(tape_out(t, r), x, r->in[1]->v, m->off, m->N * m->k, m->E, r->d[0], r->d[1]);
}

static void experts_b(Tape *t, Rec *r)
{
    const Moe *m = r->save[0];
    Var *x = r->in[0], *w = r->in[1];
    int beta, n = m->N * m->k;
    Act *dx = tape_grad_to(t, x, &beta);
    O->experts_dx(dx, r->out->g, w->v, m->off, n, m->E, r->d[0], r->d[1], beta);
    if (w->dw)
        O->experts_dw(w->dw, r->out->g, tape_val(t, x), m->off, n, m->E, r->d[0], r->d[1]);
}

static Var *plain_experts(Tape *t, const Moe *m, Var *x, Var *w, int C, int Out)
{
    Rec *r = tape_rec(t, (int64_t)m->N * m->k * Out, experts_f, experts_b);
    r->in[0] = x, r->in[1] = w;
    r->save[0] = m;
    r->d[0] = C, r->d[1] = Out;
    return tape_run(t, r, w->dw ? USES_0 : 0);
}

Var *nn_experts(Tape *t, const Moe *m, Var *x, Var *w, int C, int Out)
{
    Var *y = plain_experts(t, m, x, w, C, Out);
    const LowRank *l = w->low;          /* of the first expert: those of the others follow it */
    if (!l) return y;
    Var *u = plain_experts(t, m, x, l->a, C, l->r), *s = nn_scale(t, u, l->scale);
    if (s != u) tape_drop(t, u);
    Var *d = plain_experts(t, m, s, l->b, l->r, Out), *sum = nn_mix(t, y, NULL, d, NULL, 1);
    tape_done(t, s);
    tape_drop(t, y);
    tape_drop(t, d);
    return sum;
}

static void slots_f(Tape *t, Rec *r)
{
    const Moe *m = r->save[0];
    const Act *x = tape_val(t, r->in[1]);
    O->slots_add(tape_over(t, r, 0), x, m->wt, m->slot, m->N, m->k, m->C);
}

static void slots_b(Tape *t, Rec *r)
{
    const Moe *m = r->save[0];
    int beta;
    Act *dx = tape_grad_to(t, r->in[1], &beta);
    O->zero(m->dwt, (size_t)m->N * (size_t)m->k * sizeof *m->dwt);
    O->slots_add_bwd(dx, m->dwt, r->out->g, tape_val(t, r->in[1]), m->wt, m->slot, m->N, m->k, m->C,
                     beta);
    if (!tape_pass_grad(r, r->in[0]))
        O->add(tape_grad(t, r->in[0]), r->out->g, r->out->n);
}

Var *nn_slots_add(Tape *t, Moe *m, Var *y, Var *x)
{
    Rec *r = tape_rec(t, y->n, slots_f, slots_b);
    r->in[0] = y, r->in[1] = x;
    r->save[0] = m;
    return tape_run(t, r, USES_1);
}
