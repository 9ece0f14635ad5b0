/* enc_cache.h -- what pieces became: tables of fixed size, one encoder's own. Only enc.c and
 * enc_cache.c include it.
 *
 * Short ones, of up to KEY bytes that became few tokens: lines of two 32-byte entries in a cache
 * line, bytes and length as one 16-byte key, then the ids, which are stored all at once whatever
 * their number. A line begins with the tokens that belong there, the lowest ids, since these are
 * the most frequent ones; what is met later takes its second place, or is a guest in the line
 * beside it, where only who misses it at home looks. Others of up to LONG bytes have a second
 * table, which takes in what is met for the second time and forgets all when full. */
#ifndef TEXT_ENC_CACHE_H
#define TEXT_ENC_CACHE_H
#include "text/enc_int.h"
#include "base/io.h"
#include <string.h>

enum { KEY = 15, LONG = 256 };                          /* bytes */

typedef struct Entry {                                  /* hi is 0: empty */
    uint64_t lo, hi;                                    /* bytes 0..7, 8..14; the length on top */
    union {
        struct { uint16_t id[7], n; } w2;               /* up to 65,536 ids */
        struct { uint32_t id[3], n; } w4;               /* n is 0: look in the second table */
    };
} Entry;
_Static_assert(sizeof(Entry) == 32, "two to a cache line");

typedef struct Long { uint32_t hash, at, bytes, n; } Long;      /* n is 0: empty */

typedef struct EncCache {
    Entry *tab;                 /* lines of two */
    int bits, width, shift;     /* log2(entries); of ids in tab: 2 or 4 bytes; 64 - log2(lines) */
    uint64_t *token;            /* bits by hash: what lacks one is no token */
    Long *lng; size_t nlong;
    uint16_t *seen;             /* by hash, the rest of the last one that was here */
    char *room; size_t roomy;   /* of lng: the bytes, and then the ids, from a multiple of 4 on */
} EncCache;

void enccache_make(EncCache *c, const Tok *t, int bits);      /* 2^bits entries */
void enccache_free(EncCache *c);

#define KEY_LO 0x9e3779b97f4a7c15u
#define KEY_HI 0xd6e8feb86659fd93u
static inline uint64_t key_hash(uint64_t lo, uint64_t hi)
{
    return lo * KEY_LO ^ hi * KEY_HI;
}

static inline void key_of(const char *s, size_t n, uint64_t *lo, uint64_t *hi)
{
    char k[16] = {0};
    memcpy(k, s, n);
    *lo = get_u64(k);
    *hi = get_u64(k + 8) | (uint64_t)n << 56;
}

static inline Entry *enccache_line(const EncCache *c, uint64_t lo, uint64_t hi)
{
    return c->tab + 2 * (key_hash(lo, hi) >> c->shift);
}

static inline Entry *enccache_beside(const EncCache *c, const Entry *line)
{
    return c->tab + ((line - c->tab) ^ 2);
}

/* The key's entry, or NULL. From the line beside its own it goes to the second place of its own. */
const Entry *enccache_find(EncCache *c, uint64_t lo, uint64_t hi);
/* Its ids; returns how many, 0: look in the second table. */
static inline size_t entry_ids(const EncCache *c, const Entry *p, uint32_t *id)
{
    size_t n = c->width == 2 ? p->w2.n : p->w4.n;
    for (size_t i = 0; i < n; i++) id[i] = c->width == 2 ? p->w2.id[i] : p->w4.id[i];
    return n;
}

/* The key takes a place in its line; more ids than fit are left to enccache_put_long(). */
void enccache_put(EncCache *c, uint64_t lo, uint64_t hi, const uint32_t *id, size_t n);
/* The ids, *n of them; or NULL. hash is xxh3(s, bytes). */
const uint32_t *enccache_long(const EncCache *c, const char *s, size_t bytes, uint64_t hash,
                              size_t *n);
void enccache_put_long(EncCache *c, const char *s, size_t bytes, uint64_t hash, const uint32_t *id,
                    size_t n);
/* false: s is no token. hash: key_hash() of up to KEY bytes, else xxh3. A token has two bits in one
 * of 2^TOKEN_BITS words. */
enum { TOKEN_BITS = 13 };
static inline uint64_t *enccache_bits(const EncCache *c, uint64_t hash)
{
    return &c->token[hash >> (64 - TOKEN_BITS)];
}
static inline uint64_t token_bits(uint64_t hash)
{
    hash <<= TOKEN_BITS;
    return (uint64_t)1 << (hash >> 58) | (uint64_t)1 << (hash << 6 >> 58);
}
static inline bool enccache_token(const EncCache *c, uint64_t hash)
{
    return (~*enccache_bits(c, hash) & token_bits(hash)) == 0;
}

#endif
