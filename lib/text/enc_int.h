/* enc_int.h -- inside the encoder: the ways to encode one piece that no table knows. They give the
 * same ids; tests compare them. */
#ifndef TEXT_ENC_INT_H
#define TEXT_ENC_INT_H
#include "text/tok.h"

#define NO_ID UINT32_MAX

typedef struct EncModel EncModel;               /* read-only once made; shared by threads */
/* Merges are numbered as a plain tokenizer's, whatever the ids of t, where that can be: then what
 * the ways give is to be mapped, see encmodel_ids(). */
EncModel *encmodel_new(const Tok *t);
EncModel *encmodel_share(EncModel *m);
void encmodel_free(EncModel *m);
bool encmodel_plain(const EncModel *m);         /* false: none of the ways can be gone */
const uint32_t *encmodel_ids(const EncModel *m);        /* ids of t; NULL: they are the same */
const int32_t *encmodel_lengths(const EncModel *m);     /* bytes by what the ways give */

/* Merges by their two tokens, a perfect hash for ids below 0xffff. The pair's 32 bits are mixed by
 * a bijection. Its low bits choose a bucket, and the high ones, with the bucket's pilot, the one
 * slot where the pair can be. A slot holds the bits below the high ones, the tag, and the id. The
 * tag has the bucket's bits in it (14 of 15, for the largest table), so tag and slot together tell
 * the pair, and nothing else need be compared. */
typedef struct PairTable {
    const Tok *t;
    const uint32_t (*pair)[2];
    uint32_t *slot;             /* tag << bits | id + 1, or 0; NULL: no table, ask t */
    uint16_t *pilot;            /* of a bucket */
    uint32_t mul, last;         /* of the bijection; the last bucket */
    int bits;                   /* of a slot's number */
    uint64_t *wide;             /* for more ids, in place of slot and pilot: open addressing, pair
                                 * << 24 | id + 1, a pair being two ids of 20 bits; or NULL */
} PairTable;
void pairs_make(PairTable *m, const Tok *t);    /* t is plain */
void pairs_free(PairTable *m);
const PairTable *encmodel_pairs(const EncModel *m);

/* Of the bijections that are tried, in turn. */
enum { PAIR_MULS = 64 };
static inline uint32_t pair_mul(uint32_t i) { return 0x9e3779b1u + i * 0x85ebca6au; }

static inline uint32_t pair_mix(const PairTable *m, uint32_t a, uint32_t b)
{
    uint32_t x = (a << 16 | b) * m->mul;
    return x ^ x >> 15;
}

static inline uint32_t pair_slot(const PairTable *m, uint32_t x)
{
    return x >> (32 - m->bits) ^ m->pilot[x & m->last];
}

/* The merge of two tokens, or NO_ID; only if there is a table. */
static inline uint32_t pair_quick(const PairTable *m, uint32_t a, uint32_t b)
{
    uint32_t x = pair_mix(m, a, b), y = m->slot[pair_slot(m, x)] ^ x << m->bits;
    return (y < 1u << m->bits ? y : 0) - 1;
}

static inline uint64_t *pair_wide_slot(const PairTable *m, uint64_t pair)
{
    size_t mask = ((size_t)1 << m->bits) - 1, i = pair * 0x9e3779b97f4a7c15u >> (64 - m->bits);
    while (m->wide[i] && m->wide[i] >> 24 != pair) i = (i + 1) & mask;
    return &m->wide[i];
}

/* The same where ids are wide; a border, NO_ID, makes a pair that none is: no id has 20 ones. */
static inline uint32_t pair_wide(const PairTable *m, uint32_t a, uint32_t b)
{
    return (uint32_t)(*pair_wide_slot(m, (uint64_t)a << 20 | b) & 0xffffff) - 1;
}

static inline uint32_t pair_get(const PairTable *m, uint32_t a, uint32_t b)
{
    return m->slot ? pair_quick(m, a, b) : m->wide ? pair_wide(m, a, b)
                   : (uint32_t)tok_pair(m->t, a, b);
}

/* out has room for n ids; returns how many. Plain tokenizers only:
 * scan: the lowest merge is searched for each time; n <= scan_max(), which is at most SCAN_MAX.
 * chars: the same, but begins with whole characters where that is as good, see enc_chars.c; any n;
 * makes its tables at the first call; any thread. Returns 0 if it begins with more than
 * scan_max() symbols.
 * heap: see heap.h; n log n, any n < 2^32. Its ids lie in r, until r is used again.
 * long: any n, appended to out: by windows of scan and heap, of `first` bytes and if need be more,
 * see windows.h. */
enum { SCAN_MAX = 512, LONG_FIRST = 512 };
size_t scan_max(const EncModel *m);
size_t enc_scan(const EncModel *m, const char *s, size_t n, uint32_t *out);
size_t enc_chars(EncModel *m, const char *s, size_t n, uint32_t *out);

/* What scan and chars begin with: ids of bytes and characters, from 1 on; the borders are NO_ID. */
typedef struct Symbols { uint32_t id[SCAN_MAX + 2]; size_t n; bool bytes; } Symbols;
/* The same as scan and chars for several pieces at once, so that one's steps go on while another
 * waits for the table of merges. First the symbols, as in Symbols; then n ids from id[0] on.
 * few_bytes() takes up to FEW_SYMBOLS bytes; few_chars() is false if it would begin with more
 * symbols, or has no tables. */
enum { FEW = 12, FEW_SYMBOLS = 32 };
typedef struct Few {
    uint32_t id[FEW_SYMBOLS + 5]; size_t n;
    bool bytes;                                 /* the symbols are not in id yet, but these: */
    unsigned char s[FEW_SYMBOLS + 1];           /* zeros after n */
} Few;
void few_bytes(Few *f, const char *s, size_t n);
bool few_chars(EncModel *m, Few *f, const char *s, size_t n);
void enc_scan_few(const EncModel *m, Few *const *piece, size_t count);          /* count <= FEW */
/* The same with AVX2, and with AVX-512 and VBMI2. m has `slot`; two: merges of two bytes, by these
 * as a number in memory, or 0xffff. */
typedef void EncFew(const PairTable *m, const uint16_t *two, Few *const *piece, size_t count);
EncFew enc_few_avx2, enc_few_avx512;

struct CharTables;
struct CharTables *char_tables_new(const EncModel *m, const Tok *t);    /* NULL: of no use */
/* To id[1] on, between borders, which has room for max + 2; *got symbols. false: it may be more. */
bool chars_start(const struct CharTables *c, const char *s, size_t n, uint32_t *id, size_t max,
                 size_t *got);

const uint32_t *enc_heap(const EncModel *m, PieceRoom *r, const char *s, size_t n, size_t *got);
void enc_long(const EncModel *m, PieceRoom *r, const char *s, size_t n, size_t first, Ids *out);

/* For tests: an encoder whose table has 2^bits entries of pieces. */
TokEnc *tokenc_sized(const Tok *t, int bits);
void *huge_alloc(size_t n);                     /* zeroed, on large pages if there are */
void huge_free(void *p, size_t n);

#endif
