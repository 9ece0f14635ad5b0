/* bpb.h -- bits per byte: a loss that does not depend on the tokenizer.
 *
 *     bpb = sum of losses in nats / (ln 2 * sum of bytes),  over targets that stand for bytes
 *
 * Special tokens have no bytes and ignored targets (-1) no loss: both stay out of both sums. Sums
 * are in double, row after row, so that the result does not depend on the batch size. */
#ifndef GPT_BPB_H
#define GPT_BPB_H
#include "gpt/data.h"
#include "gpt/model.h"
#include <signal.h>

typedef struct Bpb {
    double nats;                /* over targets with bytes */
    uint64_t bytes;
    double all;                 /* nats over every target that is not -1, special tokens too */
    uint64_t tokens, rows;      /* how many those are; rows seen */
} Bpb;

/* loss, tgt [n]; len: bytes per id (tok_byte_lengths) */
void bpb_add(Bpb *b, const real *loss, const int32_t *tgt, const int32_t *len, size_t n);
double bpb_value(const Bpb *b);         /* infinity if there was no byte */
double bpb_loss(const Bpb *b);          /* mean in nats over `tokens`; NaN if there was none */

/* An evaluation's arrays, made once for batches of up to B rows of T. */
typedef struct BpbEval {
    int B, T;
    int32_t *x, *y; real *loss;         /* host [B,T] */
    int *dx, *dy; real *dloss;          /* device [B,T] */
    bool docs;                          /* set it after bpb_eval_init(): documents are kept apart */
    int32_t *doc; int *ddoc;            /* then: host, device [B,T] */
    const Ops *ops;
    const volatile sig_atomic_t *stop;  /* not NULL: looked at before each batch */
} BpbEval;
void bpb_eval_init(BpbEval *e, const Ops *ops, int B, int T);
void bpb_eval_free(BpbEval *e);
/* Rows first .. first+rows-1 of d through the model, B at a time, the last batch as it comes; their
 * sums are added to b. len: as above. The tape is used without recording and is reset. 0 if *stop
 * came to be set: then b holds a part. */
int bpb_rows(BpbEval *e, Model *m, Tape *t, const Data *d, uint64_t first, uint64_t rows,
             const int32_t *len, Bpb *b);

#endif
