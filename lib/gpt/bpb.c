#include "gpt/bpb.h"
#include <math.h>
#include <stdlib.h>

void bpb_add(Bpb *b, const real *loss, const int32_t *tgt, const int32_t *len, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (tgt[i] < 0) continue;
        double l = (double)loss[i];
        b->all += l;
        b->tokens++;
        if (len[tgt[i]] > 0) {
            b->nats += l;
            b->bytes += (uint64_t)len[tgt[i]];
        }
    }
}

double bpb_value(const Bpb *b)
{
    return b->bytes ? b->nats / (log(2) * (double)b->bytes) : INFINITY;
}

double bpb_loss(const Bpb *b)
{
    return b->tokens ? b->all / (double)b->tokens : NAN;
}

void bpb_eval_init(BpbEval *e, const Ops *ops, int B, int T)
{
    size_t n = size_mul((size_t)B, (size_t)T);
    *e = (BpbEval){ .B = B, .T = T, .ops = ops };
    e->x = xreallocarray(NULL, n, sizeof *e->x);
    e->y = xreallocarray(NULL, n, sizeof *e->y);
    e->loss = xreallocarray(NULL, n, sizeof *e->loss);
    e->dx = ops->alloc(size_mul(n, sizeof *e->dx));
    e->dy = ops->alloc(size_mul(n, sizeof *e->dy));
    e->dloss = ops->alloc(size_mul(n, sizeof *e->dloss));
}

void bpb_eval_free(BpbEval *e)
{
    size_t n = (size_t)e->B * (size_t)e->T;
    free(e->x);
    free(e->y);
    free(e->loss);
    free(e->doc);
    if (e->ddoc) e->ops->free(e->ddoc, n * sizeof *e->ddoc);
    e->ops->free(e->dx, n * sizeof *e->dx);
    e->ops->free(e->dy, n * sizeof *e->dy);
    e->ops->free(e->dloss, n * sizeof *e->dloss);
}

/* Where the documents of the batch in e->x start, on the device; NULL: nowhere but with their row. */
static const int *docs_of(BpbEval *e, int B, uint32_t bos)
{
    size_t n = (size_t)e->B * (size_t)e->T;
    if (!e->docs) return NULL;
    if (!e->doc) {
        e->doc = xreallocarray(NULL, n, sizeof *e->doc);
        e->ddoc = e->ops->alloc(n * sizeof *e->ddoc);
    }
    data_docs(e->doc, e->x, B, e->T, bos);
    e->ops->put(e->ddoc, e->doc, (size_t)B * (size_t)e->T * sizeof *e->doc);
    return e->ddoc;
}

int bpb_rows(BpbEval *e, Model *m, Tape *t, const Data *d, uint64_t first, uint64_t rows,
             const int32_t *len, Bpb *b)
{
    int on = t->on, stopped = 0;
    uint64_t r = 0;
    t->on = 0;
    while (r < rows && !(stopped = e->stop && *e->stop)) {
        int B = rows - r < (uint64_t)e->B ? (int)(rows - r) : e->B, N = B * e->T;
        data_batch(d, first + r, B, e->x, e->y);
        e->ops->put(e->dx, e->x, (size_t)N * sizeof *e->x);
        e->ops->put(e->dy, e->y, (size_t)N * sizeof *e->y);
        tape_reset(t);
        Var *h = model_forward_docs(m, t, e->dx, docs_of(e, B, d->head.bos), B, e->T);
        model_loss(m, t, h, e->dy, NULL, N, e->dloss, 0);
        e->ops->get(e->loss, e->dloss, (size_t)N * sizeof *e->loss);
        bpb_add(b, e->loss, e->y, len, (size_t)N);
        r += (uint64_t)B;
    }
    b->rows += r;
    tape_reset(t);
    t->on = on;
    return !stopped;
}
