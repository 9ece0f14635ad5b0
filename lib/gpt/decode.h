/* decode.h -- generation with a key/value cache.
 *
 * A Cache holds B rows of up to M positions: keys and values per layer, each row's length, and the
 * last embedding of each row (smear needs it). Rows may have different lengths. Prefill may come in
 * chunks of any size with the same result as one chunk (unlike nanochat, whose second chunk's first
 * token is not smeared).
 *
 * A Gen generates samples that continue a prompt: one prefill, whose cache row is copied for each
 * sample, then all samples of a batch advance together, one token at a time. Each sample draws from
 * its own stream of random numbers, so that it does not depend on which others are drawn beside it
 * or were drawn before. A sample that has ended leaves the batch. Dies if the model's logits are
 * not finite, naming it. With a tool, what it answers is forced into the sample that called it.
 */
#ifndef GPT_DECODE_H
#define GPT_DECODE_H
#include "gpt/model.h"
#include "gpt/pick.h"
#include "gpt/replay.h"
#include "gpt/tool.h"
#include <signal.h>

struct Cache {
    const Model *m;
    int B, M;                       /* rows in use, positions of a row */
    int cap;                        /* rows allocated; see cache_rows() */
    int *len;                       /* host [cap]: positions filled */
    int *pos;                       /* device [cap]: len before the chunk in progress */
    Act *prev;                      /* device [cap,C]: last normed embedding of each row */
    Act **k, **v;                   /* per layer, device [cap,M,K,D] */
    Replay step; real *logits;      /* of one token a row; what the last gave: device [B,V] */
    double *u; int *drawn;          /* device [cap]: for drawing there; NULL until it is asked for */
    unsigned char *seen;            /* device [cap,V]: ids that a penalty is for; NULL likewise */
};

Cache *cache_new(const Model *m, int B, int M);
void cache_free(Cache *c);                          /* NULL is fine */
void cache_reset(Cache *c, int row);                /* length 0 */
void cache_rows(Cache *c, int B);                   /* use only rows [0,B) from now on, B <= cap */
/* M of the two may differ; the length copied must fit. */
void cache_copy_row(Cache *to, int row, const Cache *from, int from_row);
/* Back to the first n of a row's positions, the last of which holds id `last`. */
void cache_trim(Cache *c, Tape *t, int row, int n, int last);
/* Feed T ids (host, [B,T]) to all rows, T + len <= M; logits of each row's last position to host
 * [B,V], or NULL: not wanted. The tape is reset before and after. */
void cache_feed(Cache *c, Tape *t, const int *ids, int T, real *logits);
/* Feeds one id a row, ids [B], and puts in its place the id that is drawn on the device from what
 * follows with the row's random number u [B]; -1: a logit is not finite. Only where the back-end has
 * the operation (ops->pick). With a penalty cache_seen() comes first, once a row. */
void cache_draw(Cache *c, Tape *t, int *ids, const Pick *p, const double *u);
void cache_seen(Cache *c, int row, const unsigned char *seen);      /* [V]: 1 for ids of the past */

typedef struct GenJob {
    const char *model;              /* for messages */
    const int *prompt; int n;       /* 1 .. the model's T ids */
    int samples, max_tokens;        /* prompt and sample together never exceed the model's T */
    int batch;                      /* rows decoded together, at most */
    Pick pick;
    uint64_t seed, stream;          /* sample s draws from (seed, hash of stream and s) */
    const unsigned char *stop;      /* [V]: 1 is an end token; NULL: there are none */
    void (*token)(void *arg, int sample, int id);       /* never an end token */
    void (*end)(void *arg, int sample, int id);         /* the end token drawn; -1: no room */
    void *arg;
    /* All of these may be NULL, 0. */
    const Tool *tool;               /* what it forces are new tokens too, and never end tokens */
    void (*forced)(void *arg, int sample, int id);      /* in place of token() for those */
    /* May change the logits [V] that sample's next token is drawn from, made-th (from 0). */
    void (*logits)(void *arg, int sample, int made, real *l);
    /* log softmax(model's logits)[id] of each id drawn, before its token(); NaN of a forced one. */
    void (*logprob)(void *arg, int sample, double lp);
    bool (*enough)(void *arg, int sample);      /* asked after token(): the sample ends here */
    /* Go on from what the last job with `keep` left in the cache as far as the prompt agrees with
     * it, and leave there what this one makes: a conversation computes only what is new. For
     * samples 1. Results may differ from those without in the last bits. */
    int keep;
    const volatile sig_atomic_t *cancel;                /* not 0: samples end, as if without room */
} GenJob;

typedef struct Gen {
    Model *m;
    Tape tape;
    Cache *one, *many;              /* the prompt; the samples. Kept from job to job */
    Ids held;                       /* what a job with `keep` left in `one` */
    real *logits; double *tmp;      /* [batch,V]; [2 V] */
    real *raw;                      /* [V]: logits as the model made them, for logprob() */
    int64_t prompt_tokens, new_tokens;          /* computed so far; end tokens are counted */
    double prompt_seconds, new_seconds;
} Gen;

Gen *gen_new(Model *m);
void gen_free(Gen *g);                              /* NULL is fine */
/* Samples of one batch come interleaved, batches in order: samples [k * batch, (k+1) * batch) have
 * all ended before the next is begun. */
void gen_run(Gen *g, const GenJob *job);

/* The job's `samples` best by beam search with width >= samples (see beam.h; of the job's pick only
 * the penalty counts, and log-probabilities are those after it; batch, keep, tool, logits and seed
 * do not). They are found first and come then one after the other, the best first. */
void gen_beam(Gen *g, const GenJob *job, int width, double alpha);

/* Log-probability of each of the ids [n] given those before it, in lp [n - 1] for ids 1 .. n-1.
 * 1 < n <= the model's T + 1. */
void gen_score(Gen *g, const int *ids, int n, real *lp);

#endif
