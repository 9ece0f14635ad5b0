/* beam.h -- beam search: the hypotheses and how they compete; knows no model.
 *
 * Hypotheses are ranked by (sum of log-probabilities of their new tokens) / length^alpha, the best
 * first, equals in the order of creation. Each live one proposes its `width` likeliest next tokens
 * (of equals the smallest ids); one that has drawn an end token keeps its place by its rank and
 * competes on; the best `width` of all stay. */
#ifndef GPT_BEAM_H
#define GPT_BEAM_H
#include "ops/ops.h"
#include <stdbool.h>

typedef struct BeamToken { int id; double lp; } BeamToken;

typedef struct Hyp {
    BeamToken *token; int n;        /* the new ones, an end token included */
    double score, rank;             /* the sum, and what it is ranked by */
    bool ended;
    int from;                       /* which hypothesis of the step before it goes on from */
} Hyp;

typedef struct Beam {
    int width, V;
    double alpha;                   /* length penalty: 0 ranks by the sum, 1 by the mean */
    Hyp *h; int n;                  /* the best first; at the beginning one of no tokens */
    struct BeamCand *cand; int ncand;       /* scratch [width], [width] */
    BeamToken *top;
} Beam;

Beam *beam_new(int width, int V, double alpha);
void beam_free(Beam *b);
/* One token more. logits [live][V], a row for each hypothesis that has not ended, in their order;
 * stop [V] (NULL: none) says which tokens end. false, and nothing is changed, if a logit is not
 * finite. */
bool beam_step(Beam *b, const real *logits, const unsigned char *stop);
int beam_live(const Beam *b);       /* how many have not ended */
/* Are the first k what they will be after more steps, up to `most` tokens in all? */
bool beam_settled(const Beam *b, int k, int most);

#endif
