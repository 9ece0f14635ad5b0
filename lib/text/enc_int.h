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
const Tok *encmodel_tok(const EncModel *m);

/* The merge of two tokens of a plain tokenizer, or NO_ID. */
uint32_t encmodel_pair(const EncModel *m, uint32_t a, uint32_t b);

typedef struct PairTable {
    const uint32_t (*pair)[2];
    uint32_t *slot;             /* tag << id_bits | id; 0 is empty */
    size_t mask;
    int shift, id_bits;         /* home of a hash: the bits above shift */
} PairTable;
const PairTable *encmodel_pairs(const EncModel *m);

static inline uint64_t pair_hash(uint32_t a, uint32_t b)
{
    return ((uint64_t)a << 32 | b) * 0x9e3779b97f4a7c15u ^ (uint64_t)a * 0xd6e8feb86659fd93u;
}

/* The home is taken from the top of the hash, the tag from its low half. */
static inline uint32_t pair_tag(const PairTable *m, uint64_t hash)
{
    return (uint32_t)hash << m->id_bits;
}

static inline uint32_t pair_get(const PairTable *m, uint32_t a, uint32_t b)
{
    uint64_t h = pair_hash(a, b);
    uint32_t tag = pair_tag(m, h), low = (1u << m->id_bits) - 1;
    for (size_t i = (size_t)(h >> m->shift); ; i = (i + 1) & m->mask) {
        uint32_t x = m->slot[i], id = x & low;
        if (!x) return NO_ID;
        if ((x ^ tag) <= low && m->pair[id - 256][0] == a && m->pair[id - 256][1] == b) return id;
    }
}

/* out has room for n ids; returns how many. Plain tokenizers only:
 * scan: the lowest merge is searched for each time; n <= SCAN_MAX. O(n^2), quick where n is small.
 * walk: O(n), see enc_walk.c. Only if walk_can(). */
enum { SCAN_MAX = 64 };
size_t enc_scan(const EncModel *m, const char *s, size_t n, uint32_t *out);

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
