/* nn.h -- the differentiable functions, each one record on the tape. Shapes as in ops.h.
 * Parameters come as Vars with w/dw (tape.h); idx, tgt, pos, doc and tab are device arrays that
 * live until the backward pass. Nothing but the last use of a Var may take its array over: where a
 * comment says "over x", x is dropped (tape.h), its array becomes the result's. */
#ifndef GPT_NN_H
#define GPT_NN_H
#include "gpt/tape.h"

Var *nn_embed(Tape *t, Var *w, const int *idx, int N, int C);                   /* [N,C] */
/* w with its adapter, if it has one, here and in nn_experts() */
Var *nn_linear(Tape *t, Var *x, Var *w, int N, int C, int O);                   /* [N,O] = x w^T */
Var *nn_linear_add(Tape *t, Var *y, Var *x, Var *w, int N, int C, int O); /* y + x w^T, over y */
Var *nn_norm(Tape *t, Var *x, int N, int C, double eps);
Var *nn_gain(Tape *t, Var *x, Var *g, int N, int C);                /* g x, of rows of C */
/* pos NULL: training; else cached decoding, prev [B,C] the vector before this chunk */
Var *nn_smear(Tape *t, Var *x, Var *w, Var *lam, const Act *prev, const int *pos, const int *doc,
              int B, int T, int C, int G);
Var *nn_scale(Tape *t, Var *x, double s);
Var *nn_mix(Tape *t, Var *x, Var *a, Var *z, Var *b, double s); /* a x + s b z; a, b: NULL is 1 */
/* the same, x and z [N,C], with a[i] and b[i], and its norm, in one pass both ways */
Var *nn_mix_norm(Tape *t, Var **norm, Var *x, Var *a, Var *z, Var *b, int i, double s, int N, int C,
                 double eps);
Var *nn_vgate(Tape *t, Var *v, Var *ve, const int *idx, Var *h, Var *w, int N, int C, int K, int D,
              int G); /* over v */
Var *nn_rope(Tape *t, Var *x, const real *tab, const int *pos, const int *doc, int B, int T, int H,
             int D, int sign, double scale, double eps); /* over x; scale > 0: head norm after it */
Var *nn_attn(Tape *t, Var *q, Var *k, Var *v, const int *doc, int B, int T, int H, int K, int D,
             int window);
/* k and v go into the cache kc, vc [B,M,K,D] at pos; no backward */
Var *nn_attn_kv(Tape *t, Var *q, Var *k, Var *v, Act *kc, Act *vc, const int *pos, int B, int T,
                int M, int H, int K, int D, int window);
/* with dropout of its weights, d copied */
Var *nn_attn_drop(Tape *t, Var *q, Var *k, Var *v, const int *doc, int B, int T, int H, int K,
                  int D, int window, Drop d);
Var *nn_dropout(Tape *t, Var *x, Drop d); /* over x */
Var *nn_relu2(Tape *t, Var *x); /* over x */
Var *nn_swiglu(Tape *t, Var *a, Var *b);                            /* a sigmoid(a) b */

/* A mixture of experts: h [N,C] is sorted by expert, mapped, and summed into y. What the parts share
 * lives until tape_reset(). */
typedef struct Moe {
    int N, C, E, k, norm;           /* see ops.h, route */
    real *p, *wt, *dwt;             /* [N,E], [N,k], its gradient */
    int *pick, *slot, *src, *off;
    real *aux;                      /* one: the auxiliary loss before its coefficient; NULL: none */
    double aux_scale;               /* its gradient's factor */
} Moe;
Moe *nn_moe(Tape *t, int N, int C, int E, int k, int norm);
Var *nn_route(Tape *t, Moe *m, Var *h, Var *gate);                  /* [N k,C], by expert */
Var *nn_experts(Tape *t, const Moe *m, Var *x, Var *w, int C, int O);      /* w [E,O,C]; [N k,O] */
Var *nn_slots_add(Tape *t, Moe *m, Var *y, Var *x); /* y + weighted sum of x [N k,C], over y */

/* The end of the tape: loss[N] (device, real) for hidden states x [N,C] under lm_head w [Vp,C].
 * Runs in chunks of rows, so that the logits of all rows never exist together. If the tape is on,
 * the gradients of x and w by sum_n scale * wt[n] * loss[n] are added at once. */
void nn_loss(Tape *t, real *loss, Var *x, Var *w, const int *tgt, const real *wt, int N, int C,
             int V, int Vp, double cap, double scale);

#endif
