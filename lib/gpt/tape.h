/* tape.h -- remembers the operations of a forward pass, to run them backward.
 *
 * A Var is an array and its gradient. Each nn_* function (nn.h) appends one Rec: how its result
 * comes from its inputs (fwd, run at once) and how the result's gradient goes into its inputs
 * (bwd). tape_backward() walks the list from its end. There is no graph and no second derivative.
 *
 * A result that was dropped is made again by its own record as soon as somebody asks for it with
 * tape_val(); if that record's inputs were dropped as well, they are made first. So a model decides
 * what to keep: tape_done() says that the rest of the forward pass will not read x, whose array is
 * then free unless some bwd reads it; tape_drop() frees it anyway, to be made again;
 * tape_drop_since() drops a whole block (recomputation). The same operations on the same inputs
 * give the same bits, so none of this changes a result.
 *
 * Memory: arrays of activations and gradients come from a pool and go back to it as soon as they
 * are spent, each gradient and each value when its record has been walked. What tape_mem() gives
 * lives until tape_reset(). The tape keeps all of it for the next step: after the first step of a
 * given shape nothing is allocated.
 */
#ifndef GPT_TAPE_H
#define GPT_TAPE_H
#include "base/arena.h"
#include "ops/ops.h"

/* What an adapter adds to a linear map x W^T: scale (x A^T) B^T, A [r,C], B [O,r] (lora.h). */
typedef struct LowRank { struct Var *a, *b; int r; double scale; } LowRank;

typedef struct Var {
    Act *v, *g;                 /* value [n], NULL while dropped; gradient, made on first use */
    real *w;                    /* a parameter kept as reals: those; else NULL, and v is what is kept */
    uint16_t *lo;               /* of one in two halves: the lower ones (ops.h, Store) */
    real *dw;                   /* a parameter's gradient instead of g, or, of one kept as Acts, */
    uint16_t *dh;               /* as bfloat16s; both NULL: frozen, or no training */
    int param;                  /* it is a parameter */
    int64_t n;
    int rec;                    /* 1 + index of the record that makes it; 0: nothing does */
    int need;                   /* some bwd reads the value */
    const LowRank *low;         /* of a matrix; NULL: no adapter */
} Var;

typedef struct Tape Tape;
typedef struct Rec {
    void (*fwd)(Tape *, struct Rec *), (*bwd)(Tape *, struct Rec *);
    Var *out, *in[4];
    const void *save[4];
    int d[8];
    double f[2];
} Rec;
/* What a bwd reads: values of inputs, of the output. */
enum { USES_0 = 1, USES_1 = 2, USES_2 = 4, USES_3 = 8, USES_OUT = 16 };

typedef struct TapeBlock { char *p; size_t size, used; } TapeBlock;
typedef struct TapeArray { Act *p; int64_t n; int used; } TapeArray;

struct Tape {
    const Ops *ops;
    int on;                             /* a backward pass will follow */
    int recompute;                      /* models keep the inputs of blocks only */
    Rec *rec; int nrec, caprec;
    TapeBlock *block; int nblock, capblock, now;
    TapeArray *array; int narray, caparray;
    Arena host;                         /* the Vars themselves */
    size_t bytes;                       /* device memory held */
    int64_t serial;                     /* no two tapes of a process have the same */
    void (*on_grad)(void *arg, Var *x); void *on_grad_arg;  /* tests: x->g is complete */
};

/* What a parameter is kept as, and its gradient. */
static inline Store var_weights(const Var *x)
{
    Store s = { x->w, x->w ? NULL : (uint16_t *)(void *)x->v, x->lo };
    return s;
}
static inline Store var_grad(const Var *x)
{
    Store s = { x->dw, x->dh, NULL };
    return s;
}
static inline int var_learns(const Var *x) { return x->dw || x->dh; }

void tape_init(Tape *t, const Ops *ops);
void *tape_mem(Tape *t, size_t bytes);  /* device memory with the life of a step; not zeroed */
Act *tape_take(Tape *t, int64_t n);     /* n Acts from the pool, not zeroed */
Act *tape_lend(Tape *t, size_t bytes);  /* the same between passes: any array that is large enough */
void tape_give(Tape *t, Act **p);       /* back to it; *p is NULL then */
void tape_backward(Tape *t);            /* then the list is empty, and the Vars are gone */
void tape_reset(Tape *t);               /* forget this step, keep the memory */
void tape_free(Tape *t);

/* For models. */
const Act *tape_val(Tape *t, Var *x);
void tape_done(Tape *t, Var *x);
void tape_drop(Tape *t, Var *x);
void tape_drop_since(Tape *t, int nrec, const Var *keep); /* all of t->rec[nrec..] but keep */

/* For nn_*: a record for a result of n elements; then, its inputs filled in, tape_run() makes the
 * result. A fwd gets the array to write from tape_out(), or takes over that of input i, which is
 * dropped by that: its value is in the array still. tape_later(): the result is dropped to begin
 * with, made when somebody asks for it. */
Rec *tape_rec(Tape *t, int64_t n, void (*fwd)(Tape *, Rec *), void (*bwd)(Tape *, Rec *));
Var *tape_run(Tape *t, Rec *r, int uses);
Var *tape_later(Rec *r, int uses);
Act *tape_out(Tape *t, Rec *r);
Act *tape_over(Tape *t, Rec *r, int i);

/* For bwd. */
Act *tape_grad(Tape *t, Var *x);        /* x->g, zeroed when first asked for */
Act *tape_grad_to(Tape *t, Var *x, int *beta); /* the same for ops that replace (0) or add (1) */
/* Makes r->out's gradient that of x, if x has none yet; else 0. It is r->out's no longer. */
int tape_pass_grad(Rec *r, Var *x);

static inline Act *act_at(const Ops *ops, const Act *p, int64_t i)      /* &p[i] */
{
    return (Act *)((char *)p + (size_t)i * ops->act_size);
}

#endif
