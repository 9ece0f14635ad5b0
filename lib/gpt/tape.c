#include "gpt/tape.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

enum { ALIGN = 64 };
static const size_t min_block = (size_t)4 << 20;

void tape_init(Tape *t, const Ops *ops)
{
    memset(t, 0, sizeof *t);
    t->ops = ops;
}

/* Make *p hold more than n elements of the given size. */
static void *grow(void *p, int n, int *cap, size_t size)
{
    if (n < *cap)
        return p;
    *cap = *cap ? 2 * *cap : 256;
    return xreallocarray(p, (size_t)*cap, size);
}

/* Blocks are filled one after the other; the same requests in the same order land in the same
 * places each step, so a block is added only while a shape is new. */
void *tape_mem(Tape *t, size_t bytes)
{
    bytes = size_add(bytes, ALIGN - 1) & ~(size_t)(ALIGN - 1);
    t->used += bytes;
    if (t->used > t->peak)
        t->peak = t->used;
    while (t->now < t->nblock && t->block[t->now].size - t->block[t->now].used < bytes)
        t->now++;
    if (t->now == t->nblock) {
        t->block = grow(t->block, t->nblock, &t->capblock, sizeof *t->block);
        size_t size = bytes > min_block ? bytes : min_block;
        t->block[t->nblock++] = (TapeBlock){ t->ops->alloc(size), size, 0 };
    }
    TapeBlock *b = &t->block[t->now];
    void *p = b->p + b->used;
    b->used += bytes;
    return p;
}

Var *tape_var(Tape *t, int64_t n)
{
    Var *x = arena_alloc(&t->host, sizeof *x);
    x->v = tape_mem(t, size_mul((size_t)n, t->ops->act_size));
    x->n = n;
    return x;
}

Act *tape_grad(Tape *t, Var *x)
{
    assert(!x->w);
    if (x->g)
        return x->g;
    for (int i = t->npool - 1; i >= 0 && !x->g; i--)
        if (t->pool[i].n == x->n) {
            x->g = t->pool[i].p;
            t->pool[i] = t->pool[--t->npool];
        }
    if (!x->g)
        x->g = tape_mem(t, size_mul((size_t)x->n, t->ops->act_size));
    t->ops->zero(x->g, (size_t)x->n * t->ops->act_size);
    return x->g;
}

Rec *tape_rec(Tape *t, void (*bwd)(Tape *, Rec *), Var *out)
{
    static _Thread_local Rec unused;
    Rec *r = &unused;
    if (t->on) {
        t->rec = grow(t->rec, t->nrec, &t->caprec, sizeof *t->rec);
        r = &t->rec[t->nrec++];
    }
    *r = (Rec){ .bwd = bwd, .out = out };
    return r;
}

void tape_backward(Tape *t)
{
    while (t->nrec > 0) {
        Rec r = t->rec[--t->nrec];          /* a copy: what bwd records may reuse the slot */
        if (!r.out->g)
            continue;                       /* nothing downstream used it */
        if (t->on_grad)
            t->on_grad(t->on_grad_arg, r.out);
        r.bwd(t, &r);
        t->pool = grow(t->pool, t->npool, &t->cappool, sizeof *t->pool);
        t->pool[t->npool++] = (TapePool){ r.out->g, r.out->n };     /* spent: reuse it */
        r.out->g = NULL;
    }
}

void tape_reset(Tape *t)
{
    for (int i = 0; i < t->nblock; i++)
        t->block[i].used = 0;
    t->now = t->nrec = t->npool = 0;
    t->used = 0;
    arena_reset(&t->host);
}

void tape_free(Tape *t)
{
    for (int i = 0; i < t->nblock; i++)
        t->ops->free(t->block[i].p, t->block[i].size);
    free(t->block);
    free(t->rec);
    free(t->pool);
    arena_free(&t->host);
    memset(t, 0, sizeof *t);
}
