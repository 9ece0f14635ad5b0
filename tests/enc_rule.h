/* enc_rule.h -- what encoding must give, by the rule itself, and tokenizers to try it with; for
 * tests of the encoder. */
#ifndef ENC_RULE_H
#define ENC_RULE_H
#include "base/buf.h"
#include "base/rng.h"
#include "text/enc.h"
#include "text/split.h"
#include "text/tok_int.h"
#include <stdlib.h>
#include <string.h>

typedef uint32_t Merge[2];
static Rng rng;
static inline uint64_t below(uint64_t n) { return rng_below(&rng, n); }

static inline void naive(const Tok *t, const char *s, size_t n, Ids *out)
{
    Ids v = {0};
    for (size_t i = 0; i < n; i++) ids_add(&v, (unsigned char)s[i]);
    for (;;) {
        int best = -1;
        size_t at = 0;
        for (size_t i = 0; i + 1 < v.n; i++) {
            int m = tok_pair(t, v.id[i], v.id[i + 1]);
            if (m >= 0 && (best < 0 || m < best)) best = m, at = i;
        }
        if (best < 0) break;
        v.id[at] = (uint32_t)best;
        memmove(v.id + at + 1, v.id + at + 2, (v.n - at - 2) * sizeof *v.id);
        v.n--;
    }
    for (size_t i = 0; i < v.n; i++) ids_add(out, v.id[i]);
    ids_free(&v);
}

static inline void naive_text(const Tok *t, const char *s, size_t n, Ids *out)
{
    for (size_t i = 0, next; i < n; i = next) {
        next = split_kind_next(tok_split(t), s, n, i);
        int whole = tok_find(t, s + i, next - i);
        if (whole >= 0) ids_add(out, (uint32_t)whole);
        else naive(t, s + i, next - i, out);
    }
}

/* By tok_piece(): whatever the ids are. */
static inline void by_pieces(const Tok *t, const char *s, size_t n, Ids *out)
{
    PieceRoom room = {0};
    for (size_t i = 0, next; i < n; i = next) {
        next = split_kind_next(tok_split(t), s, n, i);
        tok_piece(t, &room, s + i, next - i, out);
    }
    piece_free(&room);
}

static inline bool same(const uint32_t *a, size_t n, const Ids *b)
{
    return n == b->n && (n == 0 || !memcmp(a, b->id, n * sizeof *a));
}

static inline uint32_t *shuffled(uint32_t n)
{
    uint32_t *x = xreallocarray(NULL, n, sizeof *x);
    for (uint32_t i = 0; i < n; i++) x[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t k = (uint32_t)below(i), y = x[k];
        x[k] = x[i - 1], x[i - 1] = y;
    }
    return x;
}

/* Any merges, also such as no training gives: tokens that merging does not reach are among them.
 * At most 400, and `longest` bytes of a token. */
static inline Tok *wild(int letters, int merges, int longest)
{
    Merge m[400];
    char (*text)[64] = xcalloc(700, sizeof *text);
    int len[700], ids = 256;
    for (int i = 0; i < 256; i++) text[i][0] = (char)i, len[i] = 1;
    for (int tries = 0; ids < 256 + merges && tries < 20000; tries++) {
        uint64_t a = below((uint64_t)(ids - 256 + letters));
        uint64_t b = below((uint64_t)(ids - 256 + letters));
        a = a < (uint64_t)letters ? 'a' + a : a - (uint64_t)letters + 256;
        b = b < (uint64_t)letters ? 'a' + b : b - (uint64_t)letters + 256;
        if (len[a] + len[b] > longest) continue;
        memcpy(text[ids], text[a], (size_t)len[a]);
        memcpy(text[ids] + len[a], text[b], (size_t)len[b]);
        len[ids] = len[a] + len[b];
        bool there = false;
        for (int k = 256; k < ids; k++)
            there = there || (len[k] == len[ids] && !memcmp(text[k], text[ids], (size_t)len[k]));
        if (there) continue;
        m[ids - 256][0] = (uint32_t)a, m[ids - 256][1] = (uint32_t)b;
        ids++;
    }
    free(text);
    return tok_from_merges((const Merge *)m, (size_t)(ids - 256));
}

/* The same tokenizer with any ids; new_id[id of t]. `twice`: the last merge makes a token that
 * there was. `more`: a token that no merge makes. */
static inline Tok *other_ids(const Tok *t, uint32_t *new_id, bool twice, bool more)
{
    const Merge *pair;
    size_t merges = tok_merges(t, &pair), ids = 256 + merges, n;
    Tok *u = tok_begin("test", ids + 1, ids + 40);
    for (size_t id = 0; id < ids; id++) {
        const char *s = tok_bytes(t, (int)id, &n);
        tok_put(u, new_id[id], s, n);
    }
    if (more) tok_put(u, ids + 39, "\xff\xfe\xff\xfe", 4);
    tok_put_pattern(u, split_pattern, strlen(split_pattern), false);
    for (size_t k = 0; k < merges; k++) tok_put_merge(u, new_id[pair[k][0]], new_id[pair[k][1]]);
    if (twice)                                  /* xxx: of xx and x, then also of x and xx */
        tok_put_merge(u, new_id['x'], new_id[256 + merges - 2]);
    return tok_end(u);
}

#endif
