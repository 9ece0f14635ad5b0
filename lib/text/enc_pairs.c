/* enc_pairs.c -- the table of merges; see enc_int.h.
 *
 * Buckets of about four pairs, the largest first: for each one pilots are tried until its pairs
 * fall into slots that are free, of which there are at least twice as many as pairs. No pilot keeps
 * two pairs of one bucket apart that have the same high bits: then another bijection is tried, of
 * which more than a third will do. If none does, as merges can be made for, there is no table. */
#include "text/enc_int.h"
#include "base/io.h"
#include <stdlib.h>
#include <string.h>

enum { TRIES = 4096, BUCKET = 64 };     /* pilots; pairs in a bucket */

typedef struct Making {
    PairTable *m;
    size_t merges, buckets;
    uint32_t *mix;              /* [merges] by bucket */
    uint32_t *id;
    uint32_t *begin;            /* [buckets + 1] into mix and id */
    uint32_t *at;               /* [buckets] */
    uint8_t *taken;             /* [slots] */
} Making;

static void sort_by_bucket(Making *k)
{
    const PairTable *m = k->m;
    memset(k->begin, 0, (k->buckets + 1) * sizeof *k->begin);
    for (size_t i = 0; i < k->merges; i++)
        k->begin[(pair_mix(m, m->pair[i][0], m->pair[i][1]) & m->last) + 1]++;
    for (size_t b = 0; b < k->buckets; b++) {
        k->begin[b + 1] += k->begin[b];
        k->at[b] = k->begin[b];
    }
    for (size_t i = 0; i < k->merges; i++) {
        uint32_t x = pair_mix(m, m->pair[i][0], m->pair[i][1]), to = k->at[x & m->last]++;
        k->mix[to] = x, k->id[to] = (uint32_t)(256 + i);
    }
}

static bool can_be_apart(const Making *k)
{
    for (size_t b = 0; b < k->buckets; b++) {
        const size_t from = k->begin[b], end = k->begin[b + 1];
        if (end - from > BUCKET) return false;
        for (size_t i = from; i < end; i++)
            for (size_t j = from; j < i; j++)
                if ((k->mix[i] ^ k->mix[j]) >> (32 - k->m->bits) == 0) return false;
    }
    return true;
}

static bool place(Making *k, size_t bucket)
{
    PairTable *m = k->m;
    size_t from = k->begin[bucket], n = k->begin[bucket + 1] - from, i = 0;
    uint32_t to[BUCKET];
    for (int try = 0; try < TRIES && try < 1 << m->bits; try++) {
        m->pilot[bucket] = (uint16_t)try;
        for (i = 0; i < n; i++) {
            to[i] = pair_slot(m, k->mix[from + i]);
            if (k->taken[to[i]]) break;
        }
        if (i == n) break;
    }
    if (i < n) return false;
    for (i = 0; i < n; i++) {
        k->taken[to[i]] = 1;
        m->slot[to[i]] = k->mix[from + i] << m->bits | (k->id[from + i] + 1);
    }
    return true;
}

static bool place_all(Making *k)
{
    size_t at[BUCKET + 2] = {0};            /* of a size in `order`, the largest first */
    uint32_t *order = xreallocarray(NULL, k->buckets, sizeof *order);
    bool good = true;
    for (size_t b = 0; b < k->buckets; b++) at[BUCKET - (k->begin[b + 1] - k->begin[b]) + 1]++;
    for (size_t i = 1; i < BUCKET + 2; i++) at[i] += at[i - 1];
    for (size_t b = 0; b < k->buckets; b++)
        order[at[BUCKET - (k->begin[b + 1] - k->begin[b])]++] = (uint32_t)b;
    for (size_t i = 0; i < k->buckets && good; i++) good = place(k, order[i]);
    free(order);
    return good;
}

static void make_wide(PairTable *m, size_t merges)
{
    m->bits = 10;
    while ((size_t)1 << m->bits < 2 * merges) m->bits++;
    m->wide = huge_alloc(sizeof *m->wide << m->bits);
    for (size_t k = 0; k < merges; k++) {
        uint64_t pair = (uint64_t)m->pair[k][0] << 20 | m->pair[k][1];
        *pair_wide_slot(m, pair) = pair << 24 | (256 + k + 1);
    }
}

void pairs_make(PairTable *m, const Tok *t)
{
    size_t merges = tok_merges(t, &m->pair);
    m->t = t;
    if (merges && 256 + merges > 0xffff && 256 + merges <= 0xfffff) make_wide(m, merges);
    if (!merges || 256 + merges > 0xffff) return;
    m->bits = 10;
    while ((size_t)1 << m->bits < 2 * merges) m->bits++;
    size_t slots = (size_t)1 << m->bits;
    Making k = { .m = m, .merges = merges, .buckets = slots / 8 };
    m->last = (uint32_t)k.buckets - 1;
    m->slot = xcalloc(slots, sizeof *m->slot);
    m->pilot = xcalloc(k.buckets, sizeof *m->pilot);
    k.mix = xreallocarray(NULL, merges, sizeof *k.mix);
    k.id = xreallocarray(NULL, merges, sizeof *k.id);
    k.begin = xreallocarray(NULL, k.buckets + 1, sizeof *k.begin);
    k.at = xreallocarray(NULL, k.buckets, sizeof *k.at);
    k.taken = xcalloc(slots, 1);
    bool apart = false;
    for (uint32_t i = 0; i < PAIR_MULS && !apart; i++) {
        m->mul = pair_mul(i);
        sort_by_bucket(&k);
        apart = can_be_apart(&k);
    }
    if (!apart || !place_all(&k)) pairs_free(m);
    free(k.mix), free(k.id), free(k.begin), free(k.at), free(k.taken);
}

void pairs_free(PairTable *m)
{
    free(m->slot), free(m->pilot), huge_free(m->wide, sizeof *m->wide << m->bits);
    m->slot = NULL, m->pilot = NULL, m->wide = NULL;
}
