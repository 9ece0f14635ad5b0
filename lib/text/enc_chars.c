/* enc_chars.c -- beginning with characters of three bytes (Chinese, Japanese, Korean, ...) instead
 * of their bytes.
 *
 * Let c be a character whose bytes alone become one token. Merges happen in rising order of ids,
 * and inside c they are those of c alone until one crosses a border of c. The first that does is
 * of two tokens that meet there. If that is made of all of c on this side, or comes later than the
 * merge inside c that takes the bytes at the border, then c becomes its token in the text too.
 * Where this is so on both sides, the merges inside c can be done before all others: they touch
 * nothing else, and what is merged with c has a higher id.
 *
 * Merges of two tokens that meet at a border and one of which is a part of its character are found
 * in two tables, by the bytes there, yz|x'y': those that fit z|x'y', and those that fit yz|x'; the
 * later of the first in both is no later than any that fits all. Ids are kept as 8 bits, rounded so
 * that doubt means bytes. */
#include "text/enc_int.h"
#include "base/io.h"
#include <stdlib.h>
#include <string.h>

/* grade() of the first merge with a part of the character left, right of the border; NEVER: none */
typedef struct Least { uint8_t left, right; } Least;
/* The character's token, or 0; until when something may take a part of it, across its right border
 * and its left one: grade() of the merges that take its last byte, and its first. */
typedef struct Char { uint16_t id; uint8_t last, first; } Char;
struct CharTables {
    Char of[1 << 16];           /* [U+] */
    Least zxy[1 << 16], xyz[1 << 16];           /* [z|x'y'], [x'|yz]: leads in use are few */
};
enum { NEVER = 255 };

/* Rising with the id, 32 steps for each doubling; below NEVER. */
static uint8_t grade(uint32_t id)
{
    int log = 31 - __builtin_clz(id);
    unsigned g = (unsigned)(log - 8) * 32 + (id >> (log - 5) & 31);
    return (uint8_t)(g < NEVER ? g : NEVER - 1);
}

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

/* The merge of s[0..k) and s[k..n). */
static void note_border(struct CharTables *c, uint32_t id, const unsigned char *s, size_t n,
                        size_t k)
{
    size_t before = 0;          /* continuation bytes before the border */
    while (before < k && before < 3 && cont(s[k - 1 - before])) before++;
    bool has_y = before >= 2, has_y2 = k + 1 < n;
    bool left = !(before == 2 && k >= 3 && lead3(s[k - 3]));        /* a part of it only */
    bool right = !(k + 2 < n && cont(s[k + 1]) && cont(s[k + 2]));
    if (before > 2 || (has_y2 && !cont(s[k + 1])) || (!left && !right)) return;
    /* x'y' there is from the merge that takes the first byte on, so that is no limit for it */
    uint8_t g = right && has_y2 ? 0 : grade(id);
    for (uint32_t q = has_y2 ? s[k + 1] & 63u : 0; q < 64; q += has_y2 ? 64 : 1)
        lower(&c->zxy[(s[k - 1] & 63u) << 10 | (s[k] & 15u) << 6 | q], g, left, right);
    for (uint32_t q = has_y ? s[k - 2] & 63u : 0; q < 64; q += has_y ? 64 : 1)
        lower(&c->xyz[(s[k] & 15u) << 12 | q << 6 | (s[k - 1] & 63u)], g, left, right);
}

struct CharTables *char_tables_new(const EncModel *m, const Tok *t)
{
    struct CharTables *c = NULL;
    const uint32_t (*pair)[2];
    size_t ids = 256 + tok_merges(t, &pair), n, k;
    if (ids > 0xffff) return NULL;
    for (size_t id = 256; id < ids; id++) {
        const char *bytes = tok_bytes(t, (int)id, &n);
        const unsigned char *s = (const unsigned char *)bytes;
        uint32_t one[3], left = pair[id - 256][0];
        if (n == 3 && lead3(s[0]) && cont(s[1]) && cont(s[2]) && enc_scan(m, bytes, 3, one) == 1) {
            if (!c) {
                c = xcalloc(1, sizeof *c);
                memset(c->zxy, NEVER, sizeof c->zxy), memset(c->xyz, NEVER, sizeof c->xyz);
            }
            uint8_t last = grade((uint32_t)id);
            c->of[point(s)] = (Char){ (uint16_t)id, last, left < 256 ? last : grade(left) };
        }
    }
    for (size_t id = 256; c && id < ids; id++) {
        const unsigned char *s = (const unsigned char *)tok_bytes(t, (int)id, &n);
        tok_bytes(t, (int)pair[id - 256][0], &k);
        if (lead3(s[k]) && cont(s[k - 1])) note_border(c, (uint32_t)id, s, n, k);
    }
    return c;
}

static inline unsigned most(unsigned a, unsigned b) { return a > b ? a : b; }

bool chars_start(const struct CharTables *c, const char *text, size_t n, uint32_t *id, size_t max,
                 size_t *got)
{
    const unsigned char *s = (const unsigned char *)text, *end = s + n;
    uint32_t *to = id + 1, *full = id + 1 + max - 3;
    bool good = true;           /* nothing takes a part of the next character from the left */
    while (s < end) {
        if (to > full) return false;
        if (!lead3(*s) || end - s < 3) {
            *to++ = *s++;
            good = false;
            continue;
        }
        uint32_t cp = point(s);
        Char now = c->of[cp];
        for (; end - s >= 6 && lead3(s[3]) && to <= full; s += 3) {
            uint32_t next = point(s + 3);
            Char then = c->of[next];
            Least a = c->zxy[(cp & 63) << 10 | next >> 6];
            Least b = c->xyz[(next & 0xf000) | (cp & 0xfff)];
            if (good & (now.id != 0) & (most(a.left, b.left) > now.last))
                *to++ = now.id;
            else
                to[0] = s[0], to[1] = s[1], to[2] = s[2], to += 3;
            good = most(a.right, b.right) > then.first;
            cp = next, now = then;
        }
        if (to > full) return false;
        if (good && now.id && end - s == 3)
            *to++ = now.id;
        else
            to[0] = s[0], to[1] = s[1], to[2] = s[2], to += 3;
        good = false;
        s += 3;
    }
    *got = (size_t)(to - id - 1);
    id[0] = *to = NO_ID;
    return true;
}
