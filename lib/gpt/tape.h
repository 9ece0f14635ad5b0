/* tape.h -- remembers the operations of a forward pass, to run them backward.
 *
 * A Var is an array and its gradient. Each nn_* function (nn.h) computes its result at once through
 * t->ops and, if t->on, appends one Rec that says how to push the result's gradient into its
 * inputs. tape_backward() walks the list from its end. There is no graph and no second derivative.
 *
 * Memory: everything a step makes lives until tape_reset(), in blocks that the tape keeps for the
 * next step; spent gradients of activations are reused within the step. After the first step of a
 * given shape nothing is allocated.
 */
#ifndef GPT_TAPE_H
#define GPT_TAPE_H
#include "base/arena.h"
#include "ops/ops.h"

typedef struct Var {
    Act *v, *g;                 /* value [n]; gradient of an activation, made on first use */
    real *w, *dw;               /* a parameter has these instead of g: master and its gradient
                                   (dw NULL: frozen, or no training) */
    int64_t n;
} Var;

typedef struct Tape Tape;
typedef struct Rec {
    void (*bwd)(Tape *, struct Rec *);
    Var *out, *in[4];
    const void *save[3];
    int d[8];
    double f[2];
} Rec;

typedef struct TapeBlock { char *p; size_t size, used; } TapeBlock;
typedef struct TapePool { Act *p; int64_t n; } TapePool;

struct Tape {
    const Ops *ops;
    int on;                             /* record? */
    Rec *rec; int nrec, caprec;
    TapeBlock *block; int nblock, capblock, now;
    TapePool *pool; int npool, cappool; /* gradients free for reuse */
    Arena host;                         /* the Vars themselves */
    size_t used, peak;                  /* bytes of device memory this step, at most in any step */
    void (*on_grad)(void *arg, Var *x); void *on_grad_arg;  /* tests: x->g is complete */
};

void tape_init(Tape *t, const Ops *ops);
void *tape_mem(Tape *t, size_t bytes); /* device memory with the life of a step; not zeroed */
Var *tape_var(Tape *t, int64_t n);                  /* an activation of n elements; not zeroed */
Act *tape_grad(Tape *t, Var *x);                    /* x->g, zeroed when first asked for */
Rec *tape_rec(Tape *t, void (*bwd)(Tape *, Rec *), Var *out);
void tape_backward(Tape *t);                        /* then the list is empty */
void tape_reset(Tape *t);                           /* forget this step, keep the memory */
void tape_free(Tape *t);

static inline Act *act_at(const Ops *ops, const Act *p, int64_t i)      /* &p[i] */
{
    return (Act *)((char *)p + (size_t)i * ops->act_size);
}

#endif
