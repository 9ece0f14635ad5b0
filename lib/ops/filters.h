/* filters.h -- how a token is chosen from logits; gpt/pick.h says in what order these apply. */
#ifndef OPS_FILTERS_H
#define OPS_FILTERS_H

typedef struct Pick {
    double temperature;             /* >= 0; 0: the largest logit, the smallest id on ties */
    int top_k;                      /* 0, or >= V: no limit; of ties the smallest ids are kept */
    double top_p;       /* the likeliest tokens, smallest ids first, until their sum is at least
                           top_p; 0, or >= 1: no limit */
    double min_p;       /* no token less likely than min_p times the likeliest; 0: no limit */
    double penalty;     /* of repetitions; 0, 1: none. On the host pick_penalize() is for that, and
                           pick() does not look */
} Pick;

#endif
