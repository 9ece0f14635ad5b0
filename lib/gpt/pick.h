/* pick.h -- choosing a token from logits, on the host, in double precision. */
#ifndef GPT_PICK_H
#define GPT_PICK_H
#include "base/rng.h"
#include "ops/ops.h"

typedef struct Pick {
    double temperature;             /* >= 0; 0: the largest logit, the smallest id on ties */
    int top_k;                      /* 0, or >= V: no limit; of ties the smallest ids are kept */
} Pick;

/* logits [V]; tmp [V] scratch of the caller's. Ids are drawn with one rng_uniform() (none at
 * temperature 0, where rng and tmp may be NULL). Returns -1 if a logit is not finite. */
int pick(const Pick *p, const real *logits, int V, Rng *rng, double *tmp);

#endif
