#include "gpt/nn.h"

#include <assert.h>

#define G(i) tape_grad(t, r->in[i])
#define O (t->ops)

static void embed_b(Tape *t, Rec *r)
{
    if (r->in[0]->dw)
        O->embed_bwd(r->in[0]->dw, r->out->g, r->save[0], r->d[0], r->d[1], r->d[2]);
}

Var *nn_embed(Tape *t, Var *w, const int *idx, int N, int C)
{
    Var *y = tape_var(t, (int64_t)N * C);
    O->embed(y->v, w->v, idx, N, C);
    Rec *r = tape_rec(t, embed_b, y);
    r->in[0] = w;
    r->save[0] = idx;
    r->d[0] = N, r->d[1] = C, r->d[2] = (int)(w->n / C);
    return y;
}

static void linear_b(Tape *t, Rec *r)
{
    int N = r->d[0], C = r->d[1], M = r->d[2];
    Var *x = r->in[0], *w = r->in[1];
    O->linear_dx(G(0), r->out->g, w->v, N, C, M);
    if (w->dw)
        O->linear_dw(w->dw, r->out->g, x->v, N, C, M);
}

Var *nn_linear(Tape *t, Var *x, Var *w, int N, int C, int M)
{
    Var *y = tape_var(t, (int64_t)N * M);
    O->linear(y->v, x->v, w->v, N, C, M, 0);
    Rec *r = tape_rec(t, linear_b, y);
    r->in[0] = x, r->in[1] = w;
    r->d[0] = N, r->d[1] = C, r->d[2] = M;
    return y;
}

static void norm_b(Tape *t, Rec *r)
{
    O->rmsnorm_bwd(G(0), r->out->g, r->in[0]->v, r->save[0], r->d[0], r->d[1]);
}

Var *nn_norm(Tape *t, Var *x, int N, int C, double eps)
{
    Var *y = tape_var(t, (int64_t)N * C);
    real *rstd = tape_mem(t, (size_t)N * sizeof *rstd);
    O->rmsnorm(y->v, rstd, x->v, N, C, (real)eps);
    Rec *r = tape_rec(t, norm_b, y);
    r->in[0] = x;
    r->save[0] = rstd;
    r->d[0] = N, r->d[1] = C;
    return y;
}

static void smear_b(Tape *t, Rec *r)
{
    Var *w = r->in[1], *lam = r->in[2];
    O->smear_bwd(G(0), w->dw, lam->dw, r->out->g, r->in[0]->v, w->w, lam->w, r->d[0], r->d[1],
                 r->d[2], r->d[3]);
}

Var *nn_smear(Tape *t, Var *x, Var *w, Var *lam, const Act *prev, const int *pos, int B, int T,
              int C, int Gn)
{
    assert(!pos || !t->on);
    Var *y = tape_var(t, x->n);
    O->smear(y->v, x->v, prev, pos, w->w, lam->w, B, T, C, Gn);
    Rec *r = tape_rec(t, smear_b, y);
    r->in[0] = x, r->in[1] = w, r->in[2] = lam;
    r->d[0] = B, r->d[1] = T, r->d[2] = C, r->d[3] = Gn;
    return y;
}

static real *elem(real *p, int i)
{
    return p ? p + i : NULL;
}

static void mix_b(Tape *t, Rec *r)
{
    Var *x = r->in[0], *a = r->in[1], *z = r->in[2], *b = r->in[3];
    int i = r->d[0];
    O->mix_bwd(G(0), a ? elem(a->dw, i) : NULL, G(2), b ? elem(b->dw, i) : NULL, r->out->g, x->v,
               a ? a->w + i : NULL, z->v, b ? b->w + i : NULL, (real)r->f[0], x->n);
}

Var *nn_mix_at(Tape *t, Var *x, Var *a, Var *z, Var *b, int i, double s)
{
    Var *y = tape_var(t, x->n);
    O->mix(y->v, x->v, a ? a->w + i : NULL, z->v, b ? b->w + i : NULL, (real)s, x->n);
    Rec *r = tape_rec(t, mix_b, y);
    r->in[0] = x, r->in[1] = a, r->in[2] = z, r->in[3] = b;
    r->d[0] = i;
    r->f[0] = s;
    return y;
}

Var *nn_mix(Tape *t, Var *x, Var *a, Var *z, Var *b, double s)
{
    return nn_mix_at(t, x, a, z, b, 0, s);
}

static void vgate_b(Tape *t, Rec *r)
{
    Var *ve = r->in[1], *h = r->in[2], *w = r->in[3];
    int *d = r->d;
    O->vgate_bwd(G(0), ve->dw, G(2), w->dw, r->out->g, ve->v, r->save[0], h->v, w->w, d[0], d[1],
                 d[2], d[3], d[4], (int)(ve->n / ((int64_t)d[2] * d[3])));
}

Var *nn_vgate(Tape *t, Var *v, Var *ve, const int *idx, Var *h, Var *w, int N, int C, int K, int D,
              int Gn)
{
    Var *y = tape_var(t, v->n);
    O->vgate(y->v, v->v, ve->v, idx, h->v, w->w, N, C, K, D, Gn);
    Rec *r = tape_rec(t, vgate_b, y);
    r->in[0] = v, r->in[1] = ve, r->in[2] = h, r->in[3] = w;
    r->save[0] = idx;
    r->d[0] = N, r->d[1] = C, r->d[2] = K, r->d[3] = D, r->d[4] = Gn;
    return y;
}

static void rope_b(Tape *t, Rec *r)
{
    int *d = r->d;
    O->rope_bwd(G(0), r->out->g, r->in[0]->v, r->save[0], r->save[1], d[0], d[1], d[2], d[3], d[4],
                (real)r->f[0]);
}

Var *nn_rope(Tape *t, Var *x, const real *tab, const int *pos, int B, int T, int H, int D, int sign,
             double scale, double eps)
{
    assert(!pos || !t->on);
    Var *y = tape_var(t, x->n);
    real *rstd = tape_mem(t, (size_t)B * T * H * sizeof *rstd);
    O->rope(y->v, rstd, x->v, tab, pos, B, T, H, D, sign, (real)scale, (real)eps);
    Rec *r = tape_rec(t, rope_b, y);
    r->in[0] = x;
    r->save[0] = rstd, r->save[1] = tab;
    r->d[0] = B, r->d[1] = T, r->d[2] = H, r->d[3] = D, r->d[4] = sign;
    r->f[0] = scale;
    return y;
}

static void attn_b(Tape *t, Rec *r)
{
    int *d = r->d;
    O->attn_bwd(G(0), G(1), G(2), r->out->g, r->out->v, r->save[0], r->in[0]->v, r->in[1]->v,
                r->in[2]->v, d[0], d[1], d[2], d[3], d[4], d[5]);
}

Var *nn_attn(Tape *t, Var *q, Var *k, Var *v, int B, int T, int H, int K, int D, int window)
{
    Var *y = tape_var(t, q->n);
    real *lse = tape_mem(t, (size_t)B * T * H * sizeof *lse);
    O->attn(y->v, lse, q->v, k->v, v->v, B, T, H, K, D, window);
    Rec *r = tape_rec(t, attn_b, y);
    r->in[0] = q, r->in[1] = k, r->in[2] = v;
    r->save[0] = lse;
    r->d[0] = B, r->d[1] = T, r->d[2] = H, r->d[3] = K, r->d[4] = D, r->d[5] = window;
    return y;
}

static void relu2_b(Tape *t, Rec *r)
{
    O->relu2_bwd(G(0), r->out->g, r->in[0]->v, r->out->n);
}

Var *nn_relu2(Tape *t, Var *x)
{
    Var *y = tape_var(t, x->n);
    O->relu2(y->v, x->v, x->n);
    tape_rec(t, relu2_b, y)->in[0] = x;
    return y;
}

/* Rows of logits that exist at once: 32 MB worth, at least 16. */
static int loss_chunk(const Ops *ops, int N, int Vp)
{
    int64_t n = ((int64_t)32 << 20) / ((int64_t)ops->act_size * Vp);
    n = n < 16 ? 16 : n;
    return n < N ? (int)n : N;
}

void nn_loss(Tape *t, real *loss, Var *x, Var *w, const int *tgt, const real *wt, int N, int C,
             int V, int Vp, double cap, double scale)
{
    if (!t->on)
        scale = 0;
    int chunk = loss_chunk(O, N, Vp);
    Act *z = tape_mem(t, (size_t)chunk * (size_t)Vp * O->act_size);
    Act *dx = scale != 0 ? tape_grad(t, x) : NULL;
    for (int i = 0; i < N; i += chunk) {
        int n = N - i < chunk ? N - i : chunk;
        const Act *xi = act_at(O, x->v, (int64_t)i * C);
        O->linear(z, xi, w->v, n, C, Vp, 0);
        O->xent(loss + i, z, tgt + i, wt ? wt + i : NULL, n, V, Vp, (real)cap, (real)scale);
        if (!dx)
            continue;
        O->linear_dx(act_at(O, dx, (int64_t)i * C), z, w->v, n, C, Vp);
        if (w->dw)
            O->linear_dw(w->dw, z, xi, n, C, Vp);
    }
}
