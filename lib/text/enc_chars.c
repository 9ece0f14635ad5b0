/* enc_chars.c -- beginning with characters of three bytes (Chinese, Japanese, Korean, ...) instead
 * of their bytes.
 *
 * Let c be a character whose bytes alone become one token. Merges happen in rising order of ids, so
 * in a text c becomes that token too unless one with a lower id, across one of its borders, takes
 * some but not all of its bytes first. Where no token could, the merges inside c can be done before
 * all others: they touch nothing else, and what is merged with c has a higher id.
 *
 * What could is asked of two tables, by the bytes at the border yz|x'y': a token across it that
 * fits z|x'y', and one that fits yz|x'; the larger of the least ids in both is no more than that of
 * any token that fits all. Ids are kept as id / 256, rounded so that doubt means bytes. */
#include "text/enc_int.h"
#include "base/io.h"
#include <stdlib.h>
#include <string.h>

/* id / 256 of the first token that takes a part of the character left, right of the border */
typedef struct Least { uint8_t left, right; } Least;
struct CharTables {
    uint16_t id[1 << 16];       /* [U+] the character's token, or 0 */
    Least zxy[1 << 16], yzx[1 << 16];
};

static inline bool lead3(unsigned char c) { return (c & 0xf0) == 0xe0; }
static inline bool cont(unsigned char c) { return (c & 0xc0) == 0x80; }

static inline uint32_t point(const unsigned char *s)
{
    return (s[0] & 15u) << 12 | (s[1] & 63u) << 6 | (s[2] & 63u);
}

static void lower(Least *x, uint8_t id, bool left, bool right)
{
    if (left && id < x->left) x->left = id;
    if (right && id < x->right) x->right = id;
}

/* The token s[0..n) across the border at s + k. */
static void note_border(struct CharTables *c, uint8_t id, const unsigned char *s, size_t n,
                        size_t k)
{
    size_t before = 0;          /* continuation bytes before it */
    while (before < k && before < 3 && cont(s[k - 1 - before])) before++;
    bool has_y = before >= 2, has_y2 = k + 1 < n;
    bool left = !(before == 2 && k >= 3 && lead3(s[k - 3]));        /* a part of it only */
    bool right = !(k + 2 < n && cont(s[k + 1]) && cont(s[k + 2]));
    if (before > 2 || (has_y2 && !cont(s[k + 1])) || (!left && !right)) return;
    for (uint32_t q = has_y2 ? s[k + 1] & 63u : 0; q < 64; q += has_y2 ? 64 : 1)
        lower(&c->zxy[(s[k - 1] & 63u) << 10 | (s[k] & 15u) << 6 | q], id, left, right);
    for (uint32_t q = has_y ? s[k - 2] & 63u : 0; q < 64; q += has_y ? 64 : 1)
        lower(&c->yzx[q << 10 | (s[k - 1] & 63u) << 4 | (s[k] & 15u)], id, left, right);
}

struct CharTables *char_tables_new(const EncModel *m, const Tok *t)
{
    struct CharTables *c = NULL;
    const uint32_t (*pair)[2];
    size_t ids = 256 + tok_merges(t, &pair), n;
    if (ids > 0xffff) return NULL;
    for (size_t id = 256; id < ids; id++) {
        const char *bytes = tok_bytes(t, (int)id, &n);
        const unsigned char *s = (const unsigned char *)bytes;
        uint32_t one[3];
        if (n == 3 && lead3(s[0]) && cont(s[1]) && cont(s[2]) && enc_scan(m, bytes, 3, one) == 1) {
            if (!c) {
                c = xcalloc(1, sizeof *c);
                memset(c->zxy, 0xff, sizeof c->zxy), memset(c->yzx, 0xff, sizeof c->yzx);
            }
            c->id[point(s)] = (uint16_t)id;
        }
    }
    for (size_t id = 256; c && id < ids; id++) {
        const unsigned char *s = (const unsigned char *)tok_bytes(t, (int)id, &n);
        for (size_t k = 1; k < n; k++)
            if (lead3(s[k]) && cont(s[k - 1])) note_border(c, (uint8_t)(id / 256), s, n, k);
    }
    return c;
}

static inline unsigned most(unsigned a, unsigned b) { return a > b ? a : b; }

/* The symbols to begin with; false: more than max. */
bool chars_start(const struct CharTables *c, const char *text, size_t n, Symbols *w, size_t max)
{
    const unsigned char *s = (const unsigned char *)text, *end = s + n;
    uint32_t *to = w->id + 1, *full = w->id + 1 + max - 3;
    bool good = true;           /* nothing takes a part of the next character from the left */
    while (s < end) {
        if (to > full) return false;
        if (!lead3(*s) || end - s < 3) {
            *to++ = *s++;
            good = false;
            continue;
        }
        uint32_t cp = point(s), id = c->id[cp];
        for (; end - s >= 6 && lead3(s[3]) && to <= full; s += 3) {
            uint32_t next = point(s + 3), next_id = c->id[next];
            Least a = c->zxy[(cp & 63) << 10 | next >> 6];
            Least b = c->yzx[(cp & 0xfff) << 4 | next >> 12];
            if (good & (id != 0) & (most(a.left, b.left) > id / 256))
                *to++ = id;
            else
                to[0] = s[0], to[1] = s[1], to[2] = s[2], to += 3;
            good = most(a.right, b.right) > next_id / 256;
            cp = next, id = next_id;
        }
        if (to > full) return false;
        if (good && id && end - s == 3)
            *to++ = id;
        else
            to[0] = s[0], to[1] = s[1], to[2] = s[2], to += 3;
        good = false;
        s += 3;
    }
    w->n = (size_t)(to - w->id - 1);
    w->bytes = false;
    w->id[0] = *to = NO_ID;
    return true;
}
