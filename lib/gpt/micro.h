/* micro.h -- the gradient of one micro-batch after the other: forward pass, loss and backward pass,
 * which are one graph where a back-end has graphs (replay.h). The host waits for nothing here: losses
 * are summed on the device, for a step to read once.
 *
 * What differs from one to the next is in device memory: the ids, the weight of each target, and the
 * number of the first row, by which dropout draws. */
#ifndef GPT_MICRO_H
#define GPT_MICRO_H
#include "gpt/model.h"
#include "gpt/replay.h"

enum { SUM_LOSS, SUM_AUX, SUM_SQUARES, MICRO_SUMS };

typedef struct Micro {
    const Ops *ops;
    int B, T;                       /* rows of a micro-batch at most, positions */
    int *x, *y, *doc;               /* device [B,T]; doc NULL: documents are not kept apart */
    real *wt, *loss;                /* device [B,T]: of the gradient by target, 1 / valid; losses */
    uint64_t *row;                  /* device, one */
    double *sum;                    /* device: of losses, in nats; of m->aux, by layer; and one for
                                       squares of the gradient, which micro_step() leaves alone */
    real *host; uint64_t valid;     /* [B,T]: what wt was filled with */
    Replay replay;
} Micro;

void micro_init(Micro *u, const Ops *ops, int B, int T, int docs);
void micro_free(Micro *u);
void micro_begin(Micro *u);         /* of a step: the sums are 0 */
/* Adds the gradient of (sum of losses) / valid over rows of host ids x, y [B,T], of the documents
 * doc unless u->doc is NULL, B at most u->B. row: of the run, the number of the first. */
void micro_step(Micro *u, Model *m, Tape *t, int B, const int32_t *x, const int32_t *y,
                const int32_t *doc, uint64_t row, uint64_t valid);

#endif
