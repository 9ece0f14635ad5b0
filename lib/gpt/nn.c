#include "gpt/nn.h"

#include <assert.h>

#include "base/err.h"
#include "ops/fp8.h"

/* In a fwd or bwd: value and gradient of input i. */
#define IN(i) tape_val(t, r->in[i])
#define G(i) tape_grad(t, r->in[i])
#define O (t->ops)

/* Where the gradient of input i goes, of as many elements as the output: its array, to be replaced
 * (beta 0), which is the output's own, *dy, if input i had none yet; or to be added to (1). */
static Act *grad_over(Tape *t, Rec *r, int i, Act **dy, int *beta)
{
    *beta = !tape_pass_grad(r, r->in[i]);
    *dy = *beta ? r->out->g : r->in[i]->g;
    return tape_grad(t, r->in[i]);
}

static void embed_f(Tape *t, Rec *r)
{
    O->embed(tape_out(t, r), IN(0), r->save[0], r->d[0], r->d[1]);
}

static void embed_b(Tape *t, Rec *r)
{
    if (var_learns(r->in[0]))
        O->embed_bwd(var_grad(r->in[0]), r->out->g, r->save[0], r->d[0], r->d[1], r->d[2]);
}

Var *nn_embed(Tape *t, Var *w, const int *idx, int N, int C)
{
    Rec *r = tape_rec(t, (int64_t)N * C, embed_f, embed_b);
    r->in[0] = w;
    r->save[0] = idx;
    r->d[0] = N, r->d[1] = C, r->d[2] = (int)(w->n / C);
    return tape_run(t, r, 0);
}

/* ---- linear maps ----------------------------------------------------------- */

/* In eight-bit floats only while recording: evaluation and sampling are not to have their noise. */
static int in_fp8(const Tape *t, int C, int M)
{
    return t->on && O->linear8 && fp8_fits(C, M);
}

static void map(Tape *t, Act *y, const Act *x, const Act *w, int N, int C, int M, int beta)
{
    if (in_fp8(t, C, M)) O->linear8(y, x, w, N, C, M, beta);
    else O->linear(y, x, w, N, C, M, beta);
}

static void map_back(Tape *t, Act *dx, real *dw, const Act *dy, const Act *x, const Act *w, int N,
                     int C, int M, int beta)
{
    if (in_fp8(t, C, M)) {
        O->linear8_bwd(dx, dw, dy, x, w, N, C, M, beta);
        return;
    }
    O->linear_dx(dx, dy, w, N, C, M, beta);
    if (dw) O->linear_dw(dw, dy, x, N, C, M);
}

static void linear_f(Tape *t, Rec *r)
{
    const Act *x = IN(0);
    map(t, tape_out(t, r), x, IN(1), r->d[0], r->d[1], r->d[2], 0);
}

static void linear_b(Tape *t, Rec *r)
{
    int N = r->d[0], C = r->d[1], M = r->d[2];
    Var *x = r->in[0], *w = r->in[1];
    int beta;
    Act *dx = tape_grad_to(t, x, &beta);
    map_back(t, dx, w->dw, r->out->g, w->dw ? tape_val(t, x) : NULL, w->v, N, C, M, beta);
}

static Rec *linear(Tape *t, Var *x, Var *w, int N, int C, int M, void (*fwd)(Tape *, Rec *),
                   void (*bwd)(Tape *, Rec *))
{
    Rec *r = tape_rec(t, (int64_t)N * M, fwd, bwd);
    r->in[0] = x, r->in[1] = w;
    r->d[0] = N, r->d[1] = C, r->d[2] = M;
    return r;
}

static Var *plain_linear(Tape *t, Var *x, Var *w, int N, int C, int M)
{
    return tape_run(t, linear(t, x, w, N, C, M, linear_f, linear_b), w->dw ? USES_0 : 0);
}

static void linear_add_f(Tape *t, Rec *r)
{
    const Act *x = IN(0);
    map(t, tape_over(t, r, 2), x, IN(1), r->d[0], r->d[1], r->d[2], 1);
}

static void linear_add_b(Tape *t, Rec *r)
{
    linear_b(t, r);
    if (!tape_pass_grad(r, r->in[2]))
        O->add(G(2), r->out->g, r->out->n);
}

static Var *plain_linear_add(Tape *t, Var *y, Var *x, Var *w, int N, int C, int M)
{
    Rec *r = linear(t, x, w, N, C, M, linear_add_f, linear_add_b);
    r->in[2] = y;
    return tape_run(t, r, w->dw ? USES_0 : 0);
}

/* y with what w's adapter adds, over y */
static Var *adapted(Tape *t, Var *y, Var *x, const Var *w, int N, int C, int M)
{
    const LowRank *l = w->low;
    if (!l) return y;
    Var *u = plain_linear(t, x, l->a, N, C, l->r), *s = nn_scale(t, u, l->scale);
    if (s != u) tape_drop(t, u);
    y = plain_linear_add(t, y, s, l->b, N, l->r, M);
    tape_done(t, s);
    return y;
}

Var *nn_linear(Tape *t, Var *x, Var *w, int N, int C, int M)
{
    return adapted(t, plain_linear(t, x, w, N, C, M), x, w, N, C, M);
}

Var *nn_linear_add(Tape *t, Var *y, Var *x, Var *w, int N, int C, int M)
{
    return adapted(t, plain_linear_add(t, y, x, w, N, C, M), x, w, N, C, M);
}

/* ---- norm, smear, mix, gates ----------------------------------------------- */

static void norm_f(Tape *t, Rec *r)
{
    const Act *x = IN(0);
    O->rmsnorm(tape_out(t, r), (real *)r->save[0], x, r->d[0], r->d[1], (real)r->f[0]);
}

static void norm_b(Tape *t, Rec *r)
{
    O->rmsnorm_bwd(G(0), r->out->g, tape_val(t, r->out), r->save[0], r->d[0], r->d[1]);
}

static Rec *norm_rec(Tape *t, Var *x, int N, int C, double eps, void (*fwd)(Tape *, Rec *),
                     void (*bwd)(Tape *, Rec *))
{
    Rec *r = tape_rec(t, (int64_t)N * C, fwd, bwd);
    r->in[0] = x;
    r->save[0] = t->on ? tape_mem(t, (size_t)N * sizeof(real)) : NULL;
    r->d[0] = N, r->d[1] = C;
    r->f[0] = eps;
    return r;
}

Var *nn_norm(Tape *t, Var *x, int N, int C, double eps)
{
    return tape_run(t, norm_rec(t, x, N, C, eps, norm_f, norm_b), USES_OUT);
}

static void gain_f(Tape *t, Rec *r)
{
    const Act *x = IN(0);
    O->gain(tape_out(t, r), x, r->in[1]->w, r->d[0], r->d[1]);
}

static void gain_b(Tape *t, Rec *r)
{
    Var *g = r->in[1];
    O->gain_bwd(G(0), g->dw, r->out->g, g->dw ? IN(0) : NULL, g->w, r->d[0], r->d[1]);
}

Var *nn_gain(Tape *t, Var *x, Var *g, int N, int C)
{
    Rec *r = tape_rec(t, (int64_t)N * C, gain_f, gain_b);
    r->in[0] = x, r->in[1] = g;
    r->d[0] = N, r->d[1] = C;
    return tape_run(t, r, g->dw ? USES_0 : 0);
}

static void smear_f(Tape *t, Rec *r)
{
    const Act *x = IN(0);
    int *d = r->d;
    O->smear(tape_out(t, r), x, r->save[0], r->save[1], r->save[2], r->in[1]->w, r->in[2]->w, d[0],
             d[1], d[2], d[3]);
}

static void smear_b(Tape *t, Rec *r)
{
    Var *w = r->in[1], *lam = r->in[2];
    O->smear_bwd(G(0), w->dw, lam->dw, r->out->g, IN(0), r->save[2], w->w, lam->w, r->d[0], r->d[1],
                 r->d[2], r->d[3]);
}

Var *nn_smear(Tape *t, Var *x, Var *w, Var *lam, const Act *prev, const int *pos, const int *doc,
              int B, int T, int C, int Gn)
{
    assert(!pos || !t->on);
    Rec *r = tape_rec(t, x->n, smear_f, smear_b);
    r->in[0] = x, r->in[1] = w, r->in[2] = lam;
    r->save[0] = prev, r->save[1] = pos, r->save[2] = doc;
    r->d[0] = B, r->d[1] = T, r->d[2] = C, r->d[3] = Gn;
    return tape_run(t, r, USES_0);
}

static real *elem(real *p, int i)
{
    return p ? p + i : NULL;
}

static void mix_f(Tape *t, Rec *r)
{
    Var *x = r->in[0], *a = r->in[1], *z = r->in[2], *b = r->in[3];
    int i = r->d[0];
    tape_val(t, x);
    tape_val(t, z);
    O->mix(tape_out(t, r), x->v, a ? a->w + i : NULL, z->v, b ? b->w + i : NULL, (real)r->f[0],
           x->n);
}

static void mix_b(Tape *t, Rec *r)
{
    Var *x = r->in[0], *a = r->in[1], *z = r->in[2], *b = r->in[3];
    int i = r->d[0];
    O->mix_bwd(G(0), a ? elem(a->dw, i) : NULL, G(2), b ? elem(b->dw, i) : NULL, r->out->g,
               a ? tape_val(t, x) : NULL, a ? a->w + i : NULL, b ? tape_val(t, z) : NULL,
               b ? b->w + i : NULL, (real)r->f[0], x->n);
}

static Rec *mix(Tape *t, Var *x, Var *a, Var *z, Var *b, int i, double s)
{
    Rec *r = tape_rec(t, x->n, mix_f, mix_b);
    r->in[0] = x, r->in[1] = a, r->in[2] = z, r->in[3] = b;
    r->d[0] = i;
    r->f[0] = s;
    return r;
}

static int mix_uses(const Rec *r)
{
    return (r->in[1] ? USES_0 : 0) | (r->in[3] ? USES_2 : 0);
}

Var *nn_mix(Tape *t, Var *x, Var *a, Var *z, Var *b, double s)
{
    Rec *r = mix(t, x, a, z, b, 0, s);
    return tape_run(t, r, mix_uses(r));
}

/* The norm's record does what its input's, the mix's, would do first: forward if that is not there. */
static void mix_norm_f(Tape *t, Rec *r)
{
    if (r->in[0]->v) {
        norm_f(t, r);
        return;
    }
    Rec *m = &t->rec[r->in[0]->rec - 1];
    Var *x = m->in[0], *a = m->in[1], *z = m->in[2], *b = m->in[3];
    int i = m->d[0];
    tape_val(t, x);
    tape_val(t, z);
    Act *u = tape_out(t, m), *y = tape_out(t, r);
    O->mix_norm(u, y, (real *)r->save[0], x->v, a ? a->w + i : NULL, z->v, b ? b->w + i : NULL,
                (real)m->f[0], r->d[0], r->d[1], (real)r->f[0]);
}

/* and backward: all else that reads the mix has been walked. Its gradient becomes x's, if that has
 * none and nobody looks at it; or is given back. Without one, the mix's record will not be walked. */
static void mix_norm_b(Tape *t, Rec *r)
{
    Var *u = r->in[0];
    Rec *m = &t->rec[u->rec - 1];
    Var *x = m->in[0], *a = m->in[1], *z = m->in[2], *b = m->in[3];
    int i = m->d[0];
    const Act *xv = a ? tape_val(t, x) : NULL, *zv = b ? tape_val(t, z) : NULL;
    Act *g = tape_grad(t, u);
    int beta = t->on_grad || !tape_pass_grad(m, x);
    Act *dx = tape_grad(t, x), *dz = tape_grad(t, z);
    O->mix_norm_bwd(dx, a ? elem(a->dw, i) : NULL, dz, b ? elem(b->dw, i) : NULL, g, r->out->g,
                    tape_val(t, r->out), r->save[0], xv, a ? a->w + i : NULL, zv,
                    b ? b->w + i : NULL, (real)m->f[0], r->d[0], r->d[1], beta);
    if (t->on_grad)
        t->on_grad(t->on_grad_arg, u);
    tape_give(t, &u->g);
}

Var *nn_mix_norm(Tape *t, Var **norm, Var *x, Var *a, Var *z, Var *b, int i, double s, int N, int C,
                 double eps)
{
    Rec *m = mix(t, x, a, z, b, i, s);
    Var *u = tape_later(m, mix_uses(m));
    Rec *r = norm_rec(t, u, N, C, eps, mix_norm_f, mix_norm_b);
    *norm = tape_run(t, r, USES_OUT);
    return u;
}

Var *nn_scale(Tape *t, Var *x, double s)
{
    return s == 1 ? x : nn_mix(t, x, NULL, x, NULL, s - 1);
}

static void vgate_f(Tape *t, Rec *r)
{
    int *d = r->d;
    const Act *h = IN(2);
    Act *v = tape_over(t, r, 0);
    O->vgate(v, v, IN(1), r->save[0], h, r->in[3]->w, d[0], d[1], d[2], d[3], d[4]);
}

static void vgate_b(Tape *t, Rec *r)
{
    Var *v = r->in[0], *ve = r->in[1], *w = r->in[3];
    int *d = r->d;
    O->vgate_bwd(NULL, var_grad(ve), G(2), w->dw, r->out->g, ve->v, r->save[0], IN(2), w->w, d[0], d[1],
                 d[2], d[3], d[4], (int)(ve->n / ((int64_t)d[2] * d[3])));
    if (!tape_pass_grad(r, v))
        O->add(G(0), r->out->g, v->n);
}

Var *nn_vgate(Tape *t, Var *v, Var *ve, const int *idx, Var *h, Var *w, int N, int C, int K, int D,
              int Gn)
{
    Rec *r = tape_rec(t, v->n, vgate_f, vgate_b);
    r->in[0] = v, r->in[1] = ve, r->in[2] = h, r->in[3] = w;
    r->save[0] = idx;
    r->d[0] = N, r->d[1] = C, r->d[2] = K, r->d[3] = D, r->d[4] = Gn;
    return tape_run(t, r, USES_2);
}

/* ---- attention -------------------------------------------------------------- */

static void rope_f(Tape *t, Rec *r)
{
    int *d = r->d;
    Act *x = tape_over(t, r, 0);
    O->rope(x, (real *)r->save[0], x, r->save[1], r->save[2], r->save[3], d[0], d[1], d[2], d[3],
            d[4], (real)r->f[0], (real)r->f[1]);
}

static void rope_b(Tape *t, Rec *r)
{
    int *d = r->d, beta;
    Act *dy, *dx = grad_over(t, r, 0, &dy, &beta);
    O->rope_bwd(dx, dy, tape_val(t, r->out), r->save[0], r->save[1], r->save[3], d[0], d[1], d[2],
                d[3], d[4], (real)r->f[0], beta);
}

Var *nn_rope(Tape *t, Var *x, const real *tab, const int *pos, const int *doc, int B, int T, int H,
             int D, int sign, double scale, double eps)
{
    assert(!pos || !t->on);
    Rec *r = tape_rec(t, x->n, rope_f, rope_b);
    r->in[0] = x;
    r->save[0] = t->on ? tape_mem(t, (size_t)B * T * H * sizeof(real)) : NULL;
    r->save[1] = tab, r->save[2] = pos, r->save[3] = doc;
    r->d[0] = B, r->d[1] = T, r->d[2] = H, r->d[3] = D, r->d[4] = sign;
    r->f[0] = scale, r->f[1] = eps;
    return tape_run(t, r, scale > 0 ? USES_OUT : 0);
}

static void attn_f(Tape *t, Rec *r)
{
    int *d = r->d;
    const Act *q = IN(0), *k = IN(1), *v = IN(2);
    O->attn(tape_out(t, r), (real *)r->save[0], q, k, v, r->save[1], d[0], d[1], d[2], d[3], d[4],
            d[5]);
}

static void attn_b(Tape *t, Rec *r)
{
    int *d = r->d;
    O->attn_bwd(G(0), G(1), G(2), r->out->g, tape_val(t, r->out), r->save[0], IN(0), IN(1), IN(2),
                r->save[1], d[0], d[1], d[2], d[3], d[4], d[5]);
}

static Rec *attn(Tape *t, Var *q, Var *k, Var *v, int B, int T, int H, int K, int D, int window,
                 void (*fwd)(Tape *, Rec *), void (*bwd)(Tape *, Rec *))
{
    Rec *r = tape_rec(t, q->n, fwd, bwd);
    r->in[0] = q, r->in[1] = k, r->in[2] = v;
    r->d[0] = B, r->d[1] = T, r->d[2] = H, r->d[3] = K, r->d[4] = D, r->d[5] = window;
    return r;
}

Var *nn_attn(Tape *t, Var *q, Var *k, Var *v, const int *doc, int B, int T, int H, int K, int D,
             int window)
{
    Rec *r = attn(t, q, k, v, B, T, H, K, D, window, attn_f, attn_b);
    r->save[0] = tape_mem(t, (size_t)B * T * H * sizeof(real));
    r->save[1] = doc;
    return tape_run(t, r, USES_0 | USES_1 | USES_2 | USES_OUT);
}

/* ---- dropout */

static void *keep_drop(Tape *t, Drop d)
{
    Drop *kept = arena_alloc(&t->host, sizeof *kept);
    *kept = d;
    return kept;
}

static void attn_drop_f(Tape *t, Rec *r)
{
    int *d = r->d;
    const Act *q = IN(0), *k = IN(1), *v = IN(2);
    O->attn_drop(tape_out(t, r), (real *)r->save[0], q, k, v, r->save[1], d[0], d[1], d[2], d[3],
                 d[4], d[5], r->save[2]);
}

static void attn_drop_b(Tape *t, Rec *r)
{
    int *d = r->d;
    O->attn_drop_bwd(G(0), G(1), G(2), r->out->g, tape_val(t, r->out), r->save[0], IN(0), IN(1),
                     IN(2), r->save[1], d[0], d[1], d[2], d[3], d[4], d[5], r->save[2]);
}

Var *nn_attn_drop(Tape *t, Var *q, Var *k, Var *v, const int *doc, int B, int T, int H, int K,
                  int D, int window, Drop drop)
{
    Rec *r = attn(t, q, k, v, B, T, H, K, D, window, attn_drop_f, attn_drop_b);
    r->save[0] = tape_mem(t, (size_t)B * T * H * sizeof(real));
    r->save[1] = doc;
    r->save[2] = keep_drop(t, drop);
    return tape_run(t, r, USES_0 | USES_1 | USES_2 | USES_OUT);
}

static void dropout_f(Tape *t, Rec *r)
{
    Act *x = tape_over(t, r, 0);
    O->dropout(x, x, r->out->n, r->save[0], 0);
}

static void dropout_b(Tape *t, Rec *r)
{
    int beta;
    Act *dy, *dx = grad_over(t, r, 0, &dy, &beta);
    O->dropout(dx, dy, r->out->n, r->save[0], beta);
}

Var *nn_dropout(Tape *t, Var *x, Drop drop)
{
    Rec *r = tape_rec(t, x->n, dropout_f, dropout_b);
    r->in[0] = x;
    r->save[0] = keep_drop(t, drop);
    return tape_run(t, r, 0);
}

static void attn_kv_f(Tape *t, Rec *r)
{
    int *d = r->d;
    Act *kc = (Act *)r->save[0], *vc = (Act *)r->save[1];
    O->kv_put(kc, vc, IN(1), IN(2), r->save[2], d[0], d[1], d[6], d[3], d[4]);
    O->attn_kv(tape_out(t, r), IN(0), kc, vc, r->save[2], d[0], d[1], d[6], d[2], d[3], d[4], d[5]);
}

Var *nn_attn_kv(Tape *t, Var *q, Var *k, Var *v, Act *kc, Act *vc, const int *pos, int B, int T,
                int M, int H, int K, int D, int window)
{
    assert(!t->on);
    Rec *r = attn(t, q, k, v, B, T, H, K, D, window, attn_kv_f, NULL);
    r->save[0] = kc, r->save[1] = vc, r->save[2] = pos;
    r->d[6] = M;
    return tape_run(t, r, 0);
}

/* ---- relu^2, SwiGLU, loss ------------------------------------------------------------ */

static void relu2_f(Tape *t, Rec *r)
{
    Act *x = tape_over(t, r, 0);
    O->relu2(x, x, r->out->n);
}

static void relu2_b(Tape *t, Rec *r)
{
    int beta;
    Act *dy, *dx = grad_over(t, r, 0, &dy, &beta);
    O->relu2_bwd(dx, dy, tape_val(t, r->out), r->out->n, beta);
}

Var *nn_relu2(Tape *t, Var *x)
{
    Rec *r = tape_rec(t, x->n, relu2_f, relu2_b);
    r->in[0] = x;
    return tape_run(t, r, USES_OUT);
}

static void swiglu_f(Tape *t, Rec *r)
{
    const Act *a = IN(0), *b = IN(1);
    O->swiglu(tape_out(t, r), a, b, r->out->n);
}

static void swiglu_b(Tape *t, Rec *r)
{
    int ba, bb;
    Act *da = tape_grad_to(t, r->in[0], &ba), *db = tape_grad_to(t, r->in[1], &bb);
    assert(ba == bb);
    O->swiglu_bwd(da, db, r->out->g, IN(0), IN(1), r->out->n, ba);
}

Var *nn_swiglu(Tape *t, Var *a, Var *b)
{
    Rec *r = tape_rec(t, a->n, swiglu_f, swiglu_b);
    r->in[0] = a, r->in[1] = b;
    return tape_run(t, r, USES_0 | USES_1);
}

/* Rows of logits that exist at once: 1024, fewer where that were more than 128 MB, at least 16. A
 * product with fewer is slower, since it packs the whole of lm_head: of a step at depth 12 in fp32,
 * 1024 rows saved a sixth against 256. With bfloat16s not many more than lie where the first gradient
 * of an MLP will, 4 N C, and 256 at least: 384 at depth 12. */
static int loss_chunk(const Ops *ops, int N, int C, int Vp)
{
    int64_t n = ((int64_t)128 << 20) / ((int64_t)ops->act_size * Vp), fit = 4 * (int64_t)N * C / Vp;
    n = n < 16 ? 16 : n > 1024 ? 1024 : n;
    if (fit < 256) fit = 256;
    if (ops->act_size == 2 && n > fit) n = fit;
    return n < N ? (int)n : N;
}

void nn_loss(Tape *t, real *loss, Var *x, Var *w, const int *tgt, const real *wt, int N, int C,
             int V, int Vp, double cap, double scale)
{
    if (!t->on)
        scale = 0;
    int chunk = loss_chunk(O, N, C, Vp);
    const Act *h = tape_val(t, x);
    int beta = 0;
    Act *dx = scale != 0 ? tape_grad_to(t, x, &beta) : NULL;
    Act *z = tape_take(t, (int64_t)chunk * Vp);
    for (int i = 0; i < N; i += chunk) {
        int n = N - i < chunk ? N - i : chunk;
        const Act *xi = act_at(O, h, (int64_t)i * C);
        map(t, z, xi, w->v, n, C, Vp, 0);
        O->xent(loss + i, z, tgt + i, wt ? wt + i : NULL, n, V, Vp, (real)cap, (real)scale);
        if (dx) map_back(t, act_at(O, dx, (int64_t)i * C), w->dw, z, xi, w->v, n, C, Vp, beta);
    }
    tape_give(t, &z);
}
