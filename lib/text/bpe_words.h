/* bpe_words.h -- pieces of at most MAX_WORD symbols, included by bpe_places.c once per width of a
 * symbol: SYM is the type, W(name) the names.
 *
 * A word is a record in Trainer.unit: its count (BIG_COUNT: in Trainer.big), then as SYM the number
 * of symbols it began with * 256 + those it has now, then these. One record is one cache line or
 * two, so visiting a word costs one miss, and merging moves its symbols together. */

static size_t W(word_units)(size_t n)
{
    return 1 + ((n + 1) * sizeof(SYM) + 3) / 4;
}

/* Word k of the pieces, n symbols. */
static void W(word_add)(Trainer *t, const uint32_t *id, size_t n, int64_t count)
{
    uint32_t *u = t->unit + t->units;
    SYM *w = (SYM *)(u + 1);
    *u = count < BIG_COUNT ? (uint32_t)count : BIG_COUNT;
    if (*u == BIG_COUNT) {
        t->big = bpe_grow(t->big, t->nbig + 1, &t->big_cap, sizeof *t->big);
        t->big[t->nbig++] = (Big){ (uint32_t)t->units, count };
    }
    w[0] = (SYM)(n << 8 | n);
    for (size_t i = 0; i < n; i++)
        w[i + 1] = (SYM)id[i];
    t->units += W(word_units)(n);
}

/* All pairs in words, to the table of counts; or their refs to the pairs that are followed. */
static void W(words_scan)(Trainer *t, Tally *tally)
{
    for (size_t r = 0; r < t->units; ) {
        const SYM *w = (const SYM *)(t->unit + r + 1);
        unsigned n = w[0] & 255;
        int64_t count = tally ? word_count(t, (uint32_t)r) : 0;
        for (unsigned i = 1; i < n; i++) {
            if (tally)
                tally_add(tally, w[i], w[i + 1], count);
            else
                put_ref(t, w[i], w[i + 1], (uint32_t)r);
        }
        r += W(word_units)(w[0] >> 8);
    }
}

/* Merge (a, b) in word r; was there anything to merge? */
static inline bool W(word_merge)(Trainer *t, uint32_t r, uint32_t a, uint32_t b, uint32_t z)
{
    SYM *w = (SYM *)(t->unit + r + 1), *s = w + 1;
    unsigned n = w[0] & 255, i = 0, o;
    while (i + 1 < n && !(s[i] == a && s[i + 1] == b))
        i++;
    if (i + 1 >= n)
        return false;
    int64_t by = word_count(t, r);
    room(&t->left, MAX_WORD);
    room(&t->right, MAX_WORD);
    for (o = i; i < n; ) {
        if (i + 1 >= n || s[i] != a || s[i + 1] != b) {
            s[o++] = s[i++];
            continue;
        }
        if (o) {
            /* After another merge, (z, a) was counted when y was a: it is not there any more. */
            if (s[o - 1] == z)
                t->lost += by;
            touch(&t->left, s[o - 1], by, r);
        }
        if (i + 2 < n)
            touch(&t->right, s[i + 2], by, r);
        s[o++] = (SYM)z;
        i += 2;
    }
    w[0] = (SYM)((w[0] & ~255u) | o);
    return true;
}

/* Of n refs the first ones are words, *k of them; those that changed come to the front. */
static size_t W(words_merge)(Trainer *t, uint32_t *ref, size_t n, size_t *k)
{
    uint32_t a = t->a, b = t->b, z = t->z;
    size_t kept = 0, i = 0;
    for (; i < n && ref[i] < t->units; i++) {
        if (i + 12 < n && ref[i + 12] < t->units)
            __builtin_prefetch(t->unit + ref[i + 12], 1);
        if (W(word_merge)(t, ref[i], a, b, z))
            ref[kept++] = ref[i];
    }
    *k = i;
    return kept;
}

static void W(words_merge_all)(Trainer *t)
{
    for (size_t r = 0; r < t->units; r += W(word_units)(*(const SYM *)(t->unit + r + 1) >> 8))
        W(word_merge)(t, (uint32_t)r, t->a, t->b, t->z);
}

/* Refs to z's pairs in word r. */
static void W(word_find)(Trainer *t, uint32_t r)
{
    const SYM *w = (const SYM *)(t->unit + r + 1), *s = w + 1;
    unsigned n = w[0] & 255;
    for (unsigned i = 0; i < n; i++) {
        if (s[i] != t->z)
            continue;
        if (i)
            put_new(t, &t->left, s[i - 1], r);
        if (i + 1 < n && s[i + 1] != t->z)      /* (z, z) is on the left side */
            put_new(t, &t->right, s[i + 1], r);
    }
}

static size_t W(words_find)(Trainer *t, const uint32_t *ref, size_t n)
{
    size_t k = 0;
    for (; k < n && ref[k] < t->units; k++)
        W(word_find)(t, ref[k]);
    return k;
}

static void W(words_find_all)(Trainer *t)
{
    for (size_t r = 0; r < t->units; r += W(word_units)(*(const SYM *)(t->unit + r + 1) >> 8))
        W(word_find)(t, (uint32_t)r);
}
