/* enc_pairs.c -- the table of merges; see enc_int.h.
 *
 * Buckets of about four pairs, the largest first: for each one multipliers are tried until its
 * pairs fall into slots that are free, of which there are twice as many as pairs. */
#include "text/enc_int.h"
#include "base/io.h"
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 20, TRIES = 2048, BUCKET = 64 };     /* merges; multipliers; pairs in a bucket */

typedef struct Making {
    PairTable *m;
    size_t merges, buckets;
    uint64_t *hash;             /* [merges] by bucket */
    uint32_t *id;
    uint32_t *begin;            /* [buckets + 1] into hash and id */
    uint8_t *taken;             /* [slots] */
} Making;

static void sort_by_bucket(Making *k)
{
    const PairTable *m = k->m;
    uint32_t *at = xcalloc(k->buckets + 1, sizeof *at);
    for (size_t i = 0; i < k->merges; i++)
        k->begin[(pair_hash(m->pair[i][0], m->pair[i][1]) >> m->bucket_shift) + 1]++;
    for (size_t b = 0; b < k->buckets; b++) {
        k->begin[b + 1] += k->begin[b];
        at[b] = k->begin[b];
    }
    for (size_t i = 0; i < k->merges; i++) {
        uint64_t h = pair_hash(m->pair[i][0], m->pair[i][1]);
        uint32_t to = at[h >> m->bucket_shift]++;
        k->hash[to] = h, k->id[to] = (uint32_t)(256 + i);
    }
    free(at);
}

static bool place(Making *k, size_t bucket)
{
    PairTable *m = k->m;
    size_t from = k->begin[bucket], n = k->begin[bucket + 1] - from, i = 0;
    uint32_t to[BUCKET];
    for (int try = 0; try < TRIES; try++) {
        m->mul[bucket] = (uint16_t)(2 * try + 1);
        for (i = 0; i < n; i++) {
            to[i] = pair_slot(m, k->hash[from + i]);
            if (k->taken[to[i]]) break;
            k->taken[to[i]] = 1;
        }
        if (i == n) break;
        while (i) k->taken[to[--i]] = 0;
    }
    if (i < n) return false;
    for (i = 0; i < n; i++)
        m->slot[to[i]] = (uint32_t)k->hash[from + i] << m->id_bits | k->id[from + i];
    return true;
}

static bool place_all(Making *k)
{
    for (size_t size = BUCKET; size; size--)
        for (size_t b = 0; b < k->buckets; b++)
            if (k->begin[b + 1] - k->begin[b] == size && !place(k, b)) return false;
    for (size_t b = 0; b < k->buckets; b++)
        if (k->begin[b + 1] - k->begin[b] > BUCKET) return false;
    return true;
}

void pairs_make(PairTable *m, const Tok *t)
{
    size_t merges = tok_merges(t, &m->pair);
    int bits = 10;
    m->t = t;
    if (!merges || merges > MOST) return;
    while ((size_t)1 << bits < 2 * merges) bits++;
    while ((size_t)1 << m->id_bits < 256 + merges) m->id_bits++;
    size_t slots = (size_t)1 << bits;
    m->slot_shift = 32 - bits, m->bucket_shift = 64 - (bits - 3);
    m->slot = huge_alloc(slots * sizeof *m->slot);
    for (size_t i = 0; i < slots; i++) m->slot[i] = 256;    /* empty: fits few pairs, and is none */
    Making k = { .m = m, .merges = merges, .buckets = slots / 8 };
    m->mul = xcalloc(k.buckets, sizeof *m->mul);
    k.hash = xreallocarray(NULL, merges, sizeof *k.hash);
    k.id = xreallocarray(NULL, merges, sizeof *k.id);
    k.begin = xcalloc(k.buckets + 1, sizeof *k.begin);
    k.taken = xcalloc(slots, 1);
    sort_by_bucket(&k);
    if (!place_all(&k)) pairs_free(m);
    free(k.hash), free(k.id), free(k.begin), free(k.taken);
}

void pairs_free(PairTable *m)
{
    free(m->slot), free(m->mul);
    m->slot = NULL, m->mul = NULL;
}
