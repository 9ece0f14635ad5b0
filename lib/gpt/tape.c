#include "gpt/tape.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

enum { ALIGN = 64 };
static const size_t min_block = (size_t)4 << 20;

void tape_init(Tape *t, const Ops *ops)
{
    static int64_t serial;
    memset(t, 0, sizeof *t);
    t->ops = ops;
    t->serial = ++serial;
}

/* Make *p hold more than n elements of the given size. */
static void *grow(void *p, int n, int *cap, size_t size)
{
    if (n < *cap)
        return p;
    *cap = *cap ? 2 * *cap : 256;
    return xreallocarray(p, (size_t)*cap, size);
}

/* ---- memory --------------------------------------------------------------- */

static void *device(Tape *t, size_t bytes)
{
    t->bytes = size_add(t->bytes, bytes);
    return t->ops->alloc(bytes);
}

/* Blocks are filled one after the other; the same requests in the same order land in the same
 * places each step, so a block is added only while a shape is new. */
void *tape_mem(Tape *t, size_t bytes)
{
    bytes = size_add(bytes, ALIGN - 1) & ~(size_t)(ALIGN - 1);
    while (t->now < t->nblock && t->block[t->now].size - t->block[t->now].used < bytes)
        t->now++;
    if (t->now == t->nblock) {
        t->block = grow(t->block, t->nblock, &t->capblock, sizeof *t->block);
        size_t size = bytes > min_block ? bytes : min_block;
        t->block[t->nblock++] = (TapeBlock){ device(t, size), size, 0 };
    }
    TapeBlock *b = &t->block[t->now];
    void *p = b->p + b->used;
    b->used += bytes;
    return p;
}

static size_t act_bytes(const Tape *t, int64_t n)
{
    return size_mul((size_t)n, t->ops->act_size);
}

/* An array of n: one of that size, else the next larger one, else a new one. Not zeroed. What is
 * kept for a backward pass takes none more than twice as large: larger ones will be wanted too. */
Act *tape_take(Tape *t, int64_t n)
{
    TapeArray *best = NULL;
    for (int i = t->narray; i-- > 0 && !(best && best->n == n);) {
        TapeArray *a = &t->array[i];
        if (!a->used && a->n >= n && (!t->on || a->n / 2 <= n) && (!best || a->n < best->n))
            best = a;
    }
    if (!best) {
        t->array = grow(t->array, t->narray, &t->caparray, sizeof *t->array);
        best = &t->array[t->narray++];
        *best = (TapeArray){ .p = device(t, act_bytes(t, n)), .n = n };
    }
    best->used = 1;
    return best->p;
}

Act *tape_lend(Tape *t, size_t bytes)
{
    int on = t->on;
    t->on = 0;
    Act *p = tape_take(t, (int64_t)((bytes + t->ops->act_size - 1) / t->ops->act_size));
    t->on = on;
    return p;
}

void tape_give(Tape *t, Act **p)
{
    if (!*p)
        return;
    int i = t->narray - 1;
    while (t->array[i].p != *p)
        i--;
    t->array[i].used = 0;
    *p = NULL;
}

/* ---- values --------------------------------------------------------------- */

/* A dropped value is made by its record; how deep that goes is a matter of the model's layout, from
 * one kept value to the next. */
const Act *tape_val(Tape *t, Var *x)
{
    if (!x->v) {
        assert(x->rec && x->rec <= t->nrec);
        Rec *r = &t->rec[x->rec - 1];
        r->fwd(t, r);
    }
    return x->v;
}

void tape_drop(Tape *t, Var *x)
{
    if (x->rec)
        tape_give(t, &x->v);
}

void tape_done(Tape *t, Var *x)
{
    if (!t->on || !x->need)
        tape_drop(t, x);
}

void tape_drop_since(Tape *t, int nrec, const Var *keep)
{
    for (int i = nrec; i < t->nrec; i++)
        if (t->rec[i].out != keep)
            tape_drop(t, t->rec[i].out);
}

Act *tape_out(Tape *t, Rec *r)
{
    return r->out->v = tape_take(t, r->out->n);
}

Act *tape_over(Tape *t, Rec *r, int i)
{
    Var *x = r->in[i];
    assert(x->rec && x->n == r->out->n);
    tape_val(t, x);
    r->out->v = x->v;
    x->v = NULL;
    return r->out->v;
}

/* ---- records -------------------------------------------------------------- */

Rec *tape_rec(Tape *t, int64_t n, void (*fwd)(Tape *, Rec *), void (*bwd)(Tape *, Rec *))
{
    t->rec = grow(t->rec, t->nrec, &t->caprec, sizeof *t->rec);
    Rec *r = &t->rec[t->nrec++];
    Var *out = arena_alloc(&t->host, sizeof *out);
    *out = (Var){ .n = n, .rec = t->nrec };
    *r = (Rec){ .fwd = fwd, .bwd = bwd, .out = out };
    return r;
}

Var *tape_later(Rec *r, int uses)
{
    for (int i = 0; i < 4; i++)
        if (uses >> i & 1)
            r->in[i]->need = 1;
    if (uses & USES_OUT)
        r->out->need = 1;
    return r->out;
}

Var *tape_run(Tape *t, Rec *r, int uses)
{
    Var *out = tape_later(r, uses);
    r->fwd(t, r);
    return out;
}

Act *tape_grad_to(Tape *t, Var *x, int *beta)
{
    assert(!x->param);
    *beta = x->g != NULL;
    if (!x->g)
        x->g = tape_take(t, x->n);
    return x->g;
}

Act *tape_grad(Tape *t, Var *x)
{
    int beta;
    Act *g = tape_grad_to(t, x, &beta);
    if (!beta)
        t->ops->zero(g, act_bytes(t, x->n));
    return g;
}

int tape_pass_grad(Rec *r, Var *x)
{
    assert(!x->param && x->n == r->out->n);
    if (x->g)
        return 0;
    x->g = r->out->g;
    r->out->g = NULL;
    return 1;
}

/* Does it read something that nothing makes and that wants a gradient? */
static int learns(const Rec *r)
{
    for (int i = 0; i < 4; i++) {
        const Var *x = r->in[i];
        if (x && !x->rec && (var_learns(x) || !x->param))
            return 1;
    }
    return 0;
}

void tape_backward(Tape *t)
{
    assert(t->on);
    int first = 0;                          /* what frozen parameters alone made needs no walk */
    while (first < t->nrec && !learns(&t->rec[first]))
        first++;
    for (; t->nrec > 0; t->nrec--) {
        Rec *r = &t->rec[t->nrec - 1];
        if (r->out->g && t->nrec > first) { /* else nothing downstream used it */
            if (t->on_grad)
                t->on_grad(t->on_grad_arg, r->out);
            r->bwd(t, r);
        }
        tape_give(t, &r->out->g);           /* all that read these has been walked */
        tape_give(t, &r->out->v);
    }
}

void tape_reset(Tape *t)
{
    for (int i = 0; i < t->nblock; i++)
        t->block[i].used = 0;
    for (int i = 0; i < t->narray; i++)
        t->array[i].used = 0;
    t->now = t->nrec = 0;
    arena_reset(&t->host);
}

void tape_free(Tape *t)
{
    for (int i = 0; i < t->nblock; i++)
        t->ops->free(t->block[i].p, t->block[i].size);
    for (int i = 0; i < t->narray; i++)
        t->ops->free(t->array[i].p, act_bytes(t, t->array[i].n));
    free(t->block);
    free(t->array);
    free(t->rec);
    arena_free(&t->host);
    memset(t, 0, sizeof *t);
}
