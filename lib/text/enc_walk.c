/* enc_walk.c -- the encoding of a piece in time linear in its length, for plain tokenizers.
 *
 * A sequence of tokens is the encoding of its bytes if and only if each two neighbours are that of
 * theirs ("go together"). So go from the left: at each place try the longest token that matches,
 * then the shorter ones, and take the first that goes together with the one before. If none does,
 * the place is dead: go back, and on with a shorter token. A place can be reached in one way only
 * (the encoding of what is before it), so no place is tried twice.
 *
 * a and b go together if, undoing merges from the last one made to the first, no pair across the
 * border shows that would have been merged before: a lower id than the merge just undone, or on the
 * right side an equal one (then the leftmost goes first). */
#include "text/enc_int.h"
#include "text/tok_int.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 1 << 22, MAX_TOKEN = 4096 };         /* of the trie; beyond, others do it */

typedef struct Edge { uint32_t from, byte, to; } Edge;  /* node 0 is the root; no edge ends there */

struct WalkTables {
    Edge *edge; size_t mask;
    uint32_t root[256];         /* the first step */
    uint32_t *token;            /* [node] the token that ends there, or NO_ID */
    uint32_t nodes;
    uint32_t *shorter;          /* [id] the longest token that begins this one, or NO_ID */
    const int32_t *len;
};

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

static Edge *edge_slot(const struct WalkTables *w, uint32_t from, uint32_t byte)
{
    uint64_t h = ((uint64_t)from << 8 | byte) * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(h >> 24) & w->mask;
    while (w->edge[i].to && (w->edge[i].from != from || w->edge[i].byte != byte))
        i = (i + 1) & w->mask;
    return &w->edge[i];
}

static void insert(struct WalkTables *w, const char *s, size_t n, uint32_t id)
{
    uint32_t at = 0;
    for (size_t i = 0; i < n; i++) {
        Edge *e = edge_slot(w, at, (unsigned char)s[i]);
        if (!e->to) {
            *e = (Edge){ at, (unsigned char)s[i], ++w->nodes };
            w->token[w->nodes] = NO_ID;
        }
        at = e->to;
    }
    w->token[at] = id;
}

static uint32_t longest(const struct WalkTables *w, const char *s, size_t n)
{
    uint32_t at = w->root[(unsigned char)s[0]], best = w->token[at];
    for (size_t i = 1; i < n && (at = edge_slot(w, at, (unsigned char)s[i])->to); i++)
        if (w->token[at] != NO_ID) best = w->token[at];
    return best;
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

struct WalkTables *walk_tables_new(const EncModel *m, const Tok *t)
{
    const uint32_t (*pair)[2];
    size_t ids = 256 + tok_merges(t, &pair), total = 0, slots = 1024;
    const int32_t *len = tok_byte_lengths(t);
    for (size_t i = 0; i < ids; i++) total += (size_t)len[i];
    if (total > MAX_BYTES || tok_max_length(t) > MAX_TOKEN) return NULL;
    struct WalkTables *w = xcalloc(1, sizeof *w);
    while (slots < 2 * total) slots *= 2;
    w->mask = slots - 1;
    w->edge = xcalloc(slots, sizeof *w->edge);
    w->token = xreallocarray(NULL, total + 1, sizeof *w->token);
    w->shorter = xreallocarray(NULL, ids, sizeof *w->shorter);
    w->len = len;
    w->token[0] = NO_ID;
    uint8_t *yes = reached(encmodel_pairs(m), ids);
    for (size_t i = 0, n; i < ids; i++)
        if (yes[i]) insert(w, tok_bytes(t, (int)i, &n), (size_t)len[i], (uint32_t)i);
    for (uint32_t c = 0; c < 256; c++) w->root[c] = edge_slot(w, 0, c)->to;
    for (size_t i = 0, n; i < ids; i++) {
        const char *s = tok_bytes(t, (int)i, &n);
        w->shorter[i] = n > 1 ? longest(w, s, n - 1) : NO_ID;
    }
    free(yes);
    return w;
}

void walk_tables_free(struct WalkTables *w)
{
    if (!w) return;
    free(w->edge);
    free(w->token);
    free(w->shorter);
    free(w);
}

/* The same without a limit. Entries of `seen` are pair + 1 << 1 | answer; ids have 25 bits. */
static inline bool together_seen(const PairTable *m, uint64_t *seen, uint32_t a, uint32_t b)
{
    uint64_t key = ((uint64_t)a << 25 | b) + 1;
    uint64_t *p = &seen[(a * 0x9e3779b1u ^ b * 0x85ebca77u) >> 20];
    if (*p >> 1 != key) *p = key << 1 | together(m, a, b, NO_ID);
    return *p & 1;
}

static bool is_dead(const WalkRoom *r, size_t i) { return r->dead[i / 64] >> (i % 64) & 1; }

size_t enc_walk(const EncModel *model, WalkRoom *r, const char *s, size_t n, uint32_t *out)
{
    const struct WalkTables *w = encmodel_walk(model);
    const PairTable *m = encmodel_pairs(model);
    size_t words = n / 64 + 1, at = 0, count = 0;
    if (words > r->words) {
        free(r->dead);
        r->dead = xreallocarray(NULL, words, sizeof *r->dead);
        r->words = words;
    }
    if (!r->seen) r->seen = xcalloc(WALK_SEEN, sizeof *r->seen);
    memset(r->dead, 0, words * sizeof *r->dead);
    uint32_t id = longest(w, s, n);
    while (at < n) {
        while (id != NO_ID && (is_dead(r, at + (size_t)w->len[id]) ||
                               (count && !together_seen(m, r->seen, out[count - 1], id))))
            id = w->shorter[id];
        if (id != NO_ID) {
            out[count++] = id;
            at += (size_t)w->len[id];
            if (at < n) id = longest(w, s + at, n - at);
        } else {
            r->dead[at / 64] |= (uint64_t)1 << (at % 64);
            id = out[--count];                  /* the first place is never dead */
            at -= (size_t)w->len[id];
            id = w->shorter[id];
        }
    }
    return count;
}
