/* decode.h -- generation with a key/value cache.
 *
 * A Cache holds B rows of up to M positions: keys and values per layer, each row's length, and the
 * last embedding of each row (smear needs it). Rows may have different lengths. Prefill may come in
 * chunks of any size with the same result as one chunk (unlike nanochat, whose second chunk's first
 * token is not smeared). */
#ifndef GPT_DECODE_H
#define GPT_DECODE_H
#include "gpt/model.h"
#include "gpt/pick.h"

struct Cache {
    const Model *m;
    int B, M;
    int *len;                       /* host [B]: positions filled */
    int *pos;                       /* device [B]: len before the chunk in progress */
    Act *prev;                      /* device [B,C]: last normed embedding of each row */
    Act **k, **v;                   /* per layer, device [B,M,K,D] */
};

Cache *cache_new(const Model *m, int B, int M);
void cache_free(Cache *c);
void cache_reset(Cache *c, int row);                                /* length 0 */
void cache_copy_row(Cache *to, int row, const Cache *from, int from_row);   /* its M may differ; len must fit */
/* Feed T ids (host, [B,T]) to all rows; logits of each row's last position to host [B,V]. T + len <= M.
 * Returns nothing to the caller but logits; NULL logits: not wanted. */
void cache_feed(Cache *c, Tape *t, const int *ids, int T, real *logits);

#endif
