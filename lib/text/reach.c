/* reach.c -- does merging alone make each token of a plain tokenizer from its bytes?
 *
 * Two tokens are the encoding of their bytes if each alone is, and if, undoing merges from the last
 * one made to the first, no pair across the border shows that would have been merged before: a
 * lower id than the merge just undone, or on the right side an equal one (then the leftmost goes
 * first). So a token is, if its two parts go together up to the merge that joins them. */
#include "text/enc_int.h"
#include "text/tok_int.h"
#include <stdlib.h>
#include <string.h>

/* No merge with an id below `limit` is made across the border of a and b. */
static bool together(const PairTable *m, uint32_t a, uint32_t b, uint32_t limit)
{
    const uint32_t (*pair)[2] = m->pair;
    for (;;) {
        uint32_t c = pair_get(m, a, b);
        if (c < limit) return false;
        if (a > b && a >= 256) {
            limit = a;
            a = pair[a - 256][1];
        } else if (b >= 256) {
            limit = b + 1;
            b = pair[b - 256][0];
        } else if (a >= 256) {
            limit = a;
            a = pair[a - 256][1];
        } else {
            return true;
        }
    }
}

/* Which tokens are the encoding of their own bytes? Others are never made by merging. */
static uint8_t *reached(const PairTable *m, size_t ids)
{
    const uint32_t (*pair)[2] = m->pair;
    uint8_t *yes = xmalloc(ids);
    memset(yes, 1, 256);
    for (uint32_t id = 256; id < ids; id++) {
        uint32_t a = pair[id - 256][0], b = pair[id - 256][1];
        yes[id] = yes[a] && yes[b] && together(m, a, b, id);
    }
    return yes;
}

bool merges_reach_all(const Tok *t)
{
    PairTable m = {0};
    bool yes = true;
    pairs_make(&m, t);
    size_t ids = 256 + tok_merges(t, &m.pair);
    uint8_t *reach = reached(&m, ids);
    for (size_t i = 0; i < ids && yes; i++) yes = reach[i];
    free(reach), pairs_free(&m);
    return yes;
}
