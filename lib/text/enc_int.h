/* enc_int.h -- inside the encoder: the ways to encode one piece that no table knows. They give the
 * same ids; tests compare them. */
#ifndef TEXT_ENC_INT_H
#define TEXT_ENC_INT_H
#include "text/tok.h"

#define NO_ID UINT32_MAX

typedef struct EncModel EncModel;               /* read-only once made; shared by threads */
EncModel *encmodel_new(const Tok *t);
EncModel *encmodel_share(EncModel *m);
void encmodel_free(EncModel *m);

/* Merges by their two tokens, a perfect hash: the pair's hash picks a bucket, the bucket's
 * multiplier the one slot where the pair can be. A slot holds the id and, in what bits that leaves,
 * a tag of the hash: a pair that is none is taken for one about once in 2^(32 - id_bits). */
typedef struct PairTable {
    const Tok *t;
    const uint32_t (*pair)[2];
    uint32_t *slot;             /* tag << id_bits | id; NULL: none found, ask t */
    uint16_t *mul;              /* of a bucket, odd */
    int bucket_shift, slot_shift, id_bits;
} PairTable;
void pairs_make(PairTable *m, const Tok *t);    /* t is plain */
void pairs_free(PairTable *m);
const PairTable *encmodel_pairs(const EncModel *m);

static inline uint64_t pair_hash(uint32_t a, uint32_t b)
{
    return a * 0x9e3779b97f4a7c15u + b * 0xd6e8feb86659fd93u;
}

static inline uint32_t pair_slot(const PairTable *m, uint64_t hash)
{
    return (uint32_t)(hash >> 20) * m->mul[hash >> m->bucket_shift] >> m->slot_shift;
}

/* A merge's id if there is one of a and b, else NO_ID or, rarely, some merge of others. */
static inline uint32_t pair_maybe(const PairTable *m, uint32_t a, uint32_t b)
{
    uint64_t h = pair_hash(a, b);
    uint32_t x = m->slot[pair_slot(m, h)], low = (1u << m->id_bits) - 1;
    return (x ^ (uint32_t)h << m->id_bits) <= low ? x & low : NO_ID;
}

static inline bool pair_is(const PairTable *m, uint32_t id, uint32_t a, uint32_t b)
{
    return m->pair[id - 256][0] == a && m->pair[id - 256][1] == b;
}

/* The merge of two tokens, or NO_ID. */
static inline uint32_t pair_get(const PairTable *m, uint32_t a, uint32_t b)
{
    if (!m->slot) return (uint32_t)tok_pair(m->t, a, b);
    uint32_t id = pair_maybe(m, a, b);
    return id != NO_ID && pair_is(m, id, a, b) ? id : NO_ID;
}

/* out has room for n ids; returns how many. Plain tokenizers only:
 * scan: the lowest merge is searched for each time; n <= scan_max(), which is at most SCAN_MAX.
 * chars: the same, but begins with whole characters where that is as good, see enc_chars.c; any n.
 * Returns 0 if it begins with more than scan_max() symbols.
 * walk: O(n), see enc_walk.c. Only if walk_can(). */
enum { SCAN_MAX = 512 };
size_t scan_max(const EncModel *m);
size_t enc_scan(const EncModel *m, const char *s, size_t n, uint32_t *out);
size_t enc_chars(const EncModel *m, const char *s, size_t n, uint32_t *out);

/* What scan and chars begin with: ids of bytes and characters, from 1 on; the borders are NO_ID. */
typedef struct Symbols { uint32_t id[SCAN_MAX + 2]; size_t n; bool bytes; } Symbols;
struct CharTables;
struct CharTables *char_tables_new(const EncModel *m, const Tok *t);    /* NULL: of no use */
bool chars_start(const struct CharTables *c, const char *s, size_t n, Symbols *w, size_t max);

enum { WALK_SEEN = 4096 };
typedef struct WalkRoom {       /* {0} is empty; free dead and seen */
    uint64_t *dead; size_t words;
    uint64_t *seen;             /* [WALK_SEEN] pairs of tokens, and whether they go together */
} WalkRoom;
bool walk_can(EncModel *m);                     /* makes its tables at the first call; any thread */
size_t enc_walk(const EncModel *m, WalkRoom *r, const char *s, size_t n, uint32_t *out);

struct WalkTables;
struct WalkTables *walk_tables_new(const EncModel *m, const Tok *t);    /* NULL: cannot */
void walk_tables_free(struct WalkTables *w);
struct WalkTables *encmodel_walk(const EncModel *m);

/* For tests: an encoder whose table has 2^bits entries of pieces. */
TokEnc *tokenc_sized(const Tok *t, int bits);
void *huge_alloc(size_t n);                     /* zeroed, on large pages if there are; free() */

#endif
