/* enc_cache.c -- see enc_cache.h. */
#include "text/enc_cache.h"
#include <stdlib.h>
#include <sys/mman.h>

enum { LONG_BITS = 15, LONG_ROOM = 3 << 19, SEEN_BITS = 15 };
#define LONG_BYTES ((sizeof(Long) << LONG_BITS) + LONG_ROOM)

enum { PAGE = 2 << 20 };

static size_t whole_pages(size_t n)
{
    return size_add(n, PAGE - 1) & ~(size_t)(PAGE - 1);
}

/* Zeroes that the kernel makes when a page is first touched. */
void *huge_alloc(size_t n)
{
    size_t round = whole_pages(n), all = size_add(round, PAGE);
    char *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) die("out of memory (%zu bytes)", n);
    size_t before = -(uintptr_t)p & (PAGE - 1);
    if (before) munmap(p, before);
    if (before < PAGE) munmap(p + before + round, PAGE - before);
    if (n >= PAGE / 2) madvise(p + before, round, MADV_HUGEPAGE);
    return p + before;
}

void huge_free(void *p, size_t n)
{
    if (p) munmap(p, whole_pages(n));
}

static void fill(const EncCache *c, Entry *p, uint64_t lo, uint64_t hi, const uint32_t *id,
                 size_t n)
{
    p->lo = lo, p->hi = hi;
    if (c->width == 2) {
        if (n > 7) n = 0;
        for (size_t i = 0; i < n; i++) p->w2.id[i] = (uint16_t)id[i];
        p->w2.n = (uint16_t)n;
    } else {
        if (n > 3) n = 0;
        for (size_t i = 0; i < n; i++) p->w4.id[i] = id[i];
        p->w4.n = (uint32_t)n;
    }
}

static bool is(const Entry *p, uint64_t lo, uint64_t hi) { return p->lo == lo && p->hi == hi; }

const Entry *enccache_find(EncCache *c, uint64_t lo, uint64_t hi)
{
    Entry *p = enccache_line(c, lo, hi), *q = enccache_beside(c, p);
    if (is(p, lo, hi)) return p;
    if (is(p + 1, lo, hi)) return p + 1;
    if (!is(q, lo, hi) && !is(++q, lo, hi)) return NULL;
    Entry x = *q;
    *q = p[1];
    p[1] = x;
    return p + 1;
}

void enccache_put(EncCache *c, uint64_t lo, uint64_t hi, const uint32_t *id, size_t n)
{
    Entry *p = enccache_line(c, lo, hi), *q = enccache_beside(c, p);
    if (p->hi && (++p)->hi) {
        bool guest = enccache_line(c, q[1].lo, q[1].hi) != q;   /* or nobody */
        if (!q->hi || guest) p = q + (q->hi != 0);
    }
    fill(c, p, lo, hi, id, n);
}

/* Tokens whose piece becomes that token. Those with a tokenizer that says nothing of the kind are
 * found in the text. */
static void seed(EncCache *c, const Tok *t)
{
    enum { AHEAD = 16 };        /* tokens whose lines are asked for before they are looked at */
    const uint32_t ids = (uint32_t)tok_vocab(t);
    struct { uint64_t lo, hi; uint32_t id; } wait[AHEAD] = {0};
    for (uint32_t id = 0; id < ids + AHEAD; id++) {
        uint64_t hash;
        size_t n = 0;
        uint64_t lo = wait[id % AHEAD].lo, hi = wait[id % AHEAD].hi;
        if (hi && !enccache_line(c, lo, hi)[1].hi)
            enccache_put(c, lo, hi, &wait[id % AHEAD].id, 1);
        wait[id % AHEAD].hi = 0;
        const char *s = id < ids ? tok_bytes(t, (int)id, &n) : NULL;
        if (n == 0 || tok_is_special(t, (int)id)) continue;
        if (n <= KEY) {
            key_of(s, n, &lo, &hi);
            hash = key_hash(lo, hi);
            __builtin_prefetch(enccache_line(c, lo, hi), 1);
            wait[id % AHEAD].lo = lo, wait[id % AHEAD].hi = hi, wait[id % AHEAD].id = id;
        } else {
            hash = xxh3(s, n);
        }
        *enccache_bits(c, hash) |= token_bits(hash);
    }
}

void enccache_make(EncCache *c, const Tok *t, int bits)
{
    c->width = tok_vocab(t) <= 65536 ? 2 : 4;
    c->shift = 64 - (bits - 1);
    c->bits = bits;
    c->tab = huge_alloc(sizeof *c->tab << bits);
    c->token = xcalloc(1 << TOKEN_BITS, sizeof *c->token);
    c->lng = huge_alloc(LONG_BYTES);
    c->room = (char *)(c->lng + ((size_t)1 << LONG_BITS));
    c->seen = xcalloc(1 << SEEN_BITS, sizeof *c->seen);
    if (tok_whole(t)) seed(c, t);
}

void enccache_free(EncCache *c)
{
    huge_free(c->tab, sizeof *c->tab << c->bits), huge_free(c->lng, LONG_BYTES);
    free(c->token), free(c->seen);
}

/* ---- long pieces ---------------------------------------------------------------------- */

static Long *slot(const EncCache *c, const char *s, size_t n, uint32_t hash)
{
    size_t mask = ((size_t)1 << LONG_BITS) - 1;
    for (size_t i = hash & mask; ; i = (i + 1) & mask) {
        Long *p = &c->lng[i];
        if (!p->n || (p->hash == hash && p->bytes == n && !memcmp(c->room + p->at, s, n))) return p;
    }
}

const uint32_t *enccache_long(const EncCache *c, const char *s, size_t bytes, uint64_t hash,
                              size_t *n)
{
    if (c->seen[hash >> (64 - SEEN_BITS)] != (uint16_t)(hash >> 32)) return NULL;
    Long *p = slot(c, s, bytes, (uint32_t)hash);
    *n = p->n;
    if (!p->n) return NULL;
    return (const uint32_t *)(const void *)(c->room + p->at + ((bytes + 3) & ~(size_t)3));
}

void enccache_put_long(EncCache *c, const char *s, size_t bytes, uint64_t hash, const uint32_t *id,
                    size_t n)
{
    uint16_t *seen = &c->seen[hash >> (64 - SEEN_BITS)], tag = (uint16_t)(hash >> 32);
    if (bytes > LONG || n == 0) return;
    if (*seen != tag) {
        *seen = tag;
        return;
    }
    size_t at = (c->roomy + 3) & ~(size_t)3, to = at + ((bytes + 3) & ~(size_t)3), end = to + 4 * n;
    if (end > LONG_ROOM || c->nlong == ((size_t)3 << LONG_BITS) / 4) {
        memset(c->lng, 0, sizeof *c->lng << LONG_BITS);
        c->nlong = 0;
        end -= at, to -= at, at = 0;
    }
    Long *p = slot(c, s, bytes, (uint32_t)hash);
    memcpy(c->room + at, s, bytes);
    memcpy(c->room + to, id, 4 * n);
    *p = (Long){ (uint32_t)hash, (uint32_t)at, (uint32_t)bytes, (uint32_t)n };
    c->roomy = end;
    c->nlong++;
}
