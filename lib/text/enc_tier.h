/* enc_tier.h -- pieces to ids by the table of short ones, included by enc.c once per tier, before
 * which it defines:
 *   TIER_ATTR                                   attributes of the tier's functions
 *   TIER(name)                                  the tier's names, of these:
 *   Key                                         lo and hi of a piece
 *   Key key(const char *p, size_t n, bool near)         n <= KEY; near: 16 bytes cannot be read
 *   uint64_t hash(Key k)                                key_hash() of it
 *   const Entry *find(const Entry *home, Key k, bool *known)    the key's of the two at home
 * Makes TIER(pieces)[3], see pieces_of(). */

/* Pieces s + (k ? end[k - 1] : 0) .. s + end[k]; out has room for 8 ids more than they become.
 * Returns how many ids are in out. 16 bytes may be read from s + safe and before. cw is the width
 * of ids in the table, ow that in out. */
TIER_ATTR static inline __attribute__((always_inline))
size_t TIER(encode_pieces)(TokEnc *e, const char *s, ptrdiff_t safe, const uint32_t *end,
                           size_t count, void *out, size_t at, const int cw, const int ow)
{
    TIER(Key) key[AHEAD];
    const Entry *home[AHEAD], *const tab = e->c.tab;
    const int shift = e->c.shift;
    for (size_t from = 0, some; count; count -= some, end += some) {
        some = count < AHEAD ? count : AHEAD;
        const bool near = (ptrdiff_t)end[some - 1] > safe;
        for (size_t k = 0, begin = from, next; k < some; begin = next, k++) {
            const size_t n = (next = end[k]) - begin;
            if (__builtin_expect(n > KEY, 0)) {
                key[k] = (TIER(Key)){ 0 }, home[k] = no_key;
                continue;
            }
            key[k] = TIER(key)(s + begin, n, near);
            home[k] = tab + 2 * (TIER(hash)(key[k]) >> shift);
            __builtin_prefetch(home[k]);
        }
        for (size_t k = 0; k < some; k++) {
            bool known;
            const Entry *x = TIER(find)(home[k], key[k], &known);
            const size_t got = cw == 2 ? x->w2.n : x->w4.n;
            if (__builtin_expect(!known || !got, 0)) {
                const size_t start = k ? end[k - 1] : from;
                at = encode_other(e, s + start, end[k] - start, known, &key[k], home[k], out, at,
                                  ow);
                continue;
            }
            put_ids(&x->w2, out, at, cw, ow);
            at += got;
        }
        from = end[some - 1];
    }
    return at;
}

#define PIECES(cw, ow)                                                                           \
    TIER_ATTR static size_t TIER(pieces_##cw##_##ow)(TokEnc *e, const char *s, ptrdiff_t safe,   \
                                const uint32_t *end, size_t count, void *out, size_t at)         \
    {                                                                                            \
        return TIER(encode_pieces)(e, s, safe, end, count, out, at, cw, ow);                     \
    }
PIECES(2, 2)
PIECES(2, 4)
PIECES(4, 4)
static Pieces *const TIER(pieces)[] = { TIER(pieces_2_2), TIER(pieces_2_4), TIER(pieces_4_4) };
#undef PIECES
#undef TIER
#undef TIER_ATTR
