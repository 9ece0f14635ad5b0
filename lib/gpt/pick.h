/* pick.h -- choosing a token from logits, on the host, in double precision.
 *
 * The filters, in the order in which they apply: temperature, repetition penalty, top-k, top-p,
 * min-p. Each sees what those before it left, renormalised, and the likeliest token always stays.
 * (Temperature and penalty commute; pick_penalize() is called first.) Any of them may be off. */
#ifndef GPT_PICK_H
#define GPT_PICK_H
#include "base/rng.h"
#include "ops/ops.h"              /* Pick */

/* logits [V]; tmp [2 V] scratch of the caller's. Ids are drawn with one rng_uniform() (none at
 * temperature 0, where rng and tmp may be NULL). Returns -1 if a logit is not finite. */
int pick(const Pick *p, const real *logits, int V, Rng *rng, double *tmp);

/* What pick() draws from: weights tmp [V] and their sum, which is returned; -1 if a logit is not
 * finite. Temperature > 0. */
double pick_weights(const Pick *p, const real *logits, int V, double *tmp);

/* The logits of ids with seen[id] are divided by r if positive, multiplied by r if not (CTRL,
 * arXiv:1909.05858). */
void pick_penalize(real *logits, int V, const unsigned char *seen, double r);

/* log softmax(logits)[id], in nats. NaN if a logit is. */
double pick_logprob(const real *logits, int V, int id);

#endif
