/* tokens.h: round trips over block borders, the exact bytes, concatenation, damage of all kinds. */
#include "tap.h"
#include "text/tokens.h"
#include "base/rng.h"

static char path[] = "/tmp/tokens-test-XXXXXX";
static const TokenHead plain = { .vocab = 300, .bos = 256, .tok_hash = 0x0123456789abcdef };
static const TokenHead masked = { .vocab = 300, .bos = 256, .masks = true,
                                  .tok_hash = 0x0123456789abcdef };

static void put(const Buf *b)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(b->s, 1, b->n, f) != b->n || fclose(f)) abort();
}

static void drain(void *arg)
{
    (void)arg;
    TokenHead h;
    const uint32_t *id;
    const uint8_t *mask;
    size_t n;
    TokenReader *r = tokens_open(path, &h);
    while (tokens_next(r, &id, &mask, &n)) {}
    tokens_finish(r);
}

static int refused(const Buf *b, const char *why)
{
    put(b);
    return dies(1, why, drain, NULL);
}

/* n documents, the lengths len[i % nlen]; ids and masks follow from (seed, position) alone */
static void doc_make(Rng *rng, uint32_t vocab, size_t n, uint32_t *id, uint8_t *mask)
{
    for (size_t i = 0; i < n; i++) {
        id[i] = i % 7 ? (uint32_t)rng_below(rng, vocab) : vocab - 1;
        mask[i] = rng_u64(rng) & 1;
    }
}

static int round_trip(const TokenHead *head, const size_t *len, size_t nlen, size_t ndocs)
{
    size_t max = 1;
    for (size_t i = 0; i < nlen; i++) max = len[i] > max ? len[i] : max;
    uint32_t *id = xreallocarray(NULL, max, sizeof *id);
    uint8_t *mask = xmalloc(max);
    Rng rng;
    rng_init(&rng, 1, 0);
    unlink(path);               /* what was read is not written over */
    TokenWriter *w = tokens_create(path, head);
    for (size_t d = 0; d < ndocs; d++) {
        doc_make(&rng, head->vocab, len[d % nlen], id, mask);
        tokens_write(w, id, head->masks ? mask : NULL, len[d % nlen]);
    }
    tokens_close(w);

    TokenHead h;
    TokenReader *r = tokens_open(path, &h);
    int good = h.vocab == head->vocab && h.bos == head->bos && h.masks == head->masks &&
               h.tok_hash == head->tok_hash;
    rng_init(&rng, 1, 0);
    const uint32_t *gid;
    const uint8_t *gmask;
    size_t n;
    for (size_t d = 0; d < ndocs && good; d++) {
        doc_make(&rng, head->vocab, len[d % nlen], id, mask);
        good = tokens_next(r, &gid, &gmask, &n) && n == len[d % nlen] &&
               (n == 0 || !memcmp(gid, id, n * sizeof *id)) &&
               (n == 0 || (head->masks ? !memcmp(gmask, mask, n) : !gmask));
    }
    good = good && !tokens_next(r, &gid, &gmask, &n) && !tokens_next(r, &gid, &gmask, &n);
    tokens_finish(r);
    free(id);
    free(mask);
    return good;
}

static void trips(void)
{
    static const size_t small[] = { 3, 0, 1, 9, 8, 0, 17 };
    static const size_t big[] = { 524287, 1, 524288, 5, 1600001, 0, 524288, 3 };
    static const size_t tiny[] = { 1, 0, 2 };
    TokenHead u16 = { .vocab = 65536, .bos = 65535, .masks = true, .tok_hash = ~0ull };
    TokenHead u32 = { .vocab = 65537, .bos = UINT32_MAX, .masks = true, .tok_hash = 0 };
    TokenHead top = { .vocab = INT32_MAX, .bos = 0, .tok_hash = 1 };
    ok(round_trip(&plain, small, 7, 100), "small documents, no masks");
    ok(round_trip(&masked, small, 7, 100), "small documents, masks");
    ok(round_trip(&plain, small, 7, 0), "no document at all");
    ok(round_trip(&masked, big, 8, 8), "documents over block borders");
    ok(round_trip(&plain, tiny, 3, 200000), "more documents than a block may hold");
    ok(round_trip(&u16, small, 7, 70), "vocabulary 65,536: the highest id survives");
    ok(round_trip(&u32, small, 7, 70), "vocabulary 65,537: the highest id survives");
    ok(round_trip(&top, small, 7, 70), "the largest vocabulary");
    ok(token_width(65536) == 2 && token_width(65537) == 4, "widths");
}

/* The bytes of a stream of {5, 256} and {299, 1, 2}, written from the format's description. */
static void by_hand(Buf *b, bool masks)
{
    static const uint8_t ids[] = { 5, 0, 0, 1, 0x2b, 1, 1, 0, 2, 0 };
    buf_clear(b);
    buf_add(b, "PGTOKENS", 8);
    buf_u32(b, 1);
    buf_u32(b, masks);
    buf_u32(b, 300);
    buf_u32(b, 256);
    buf_u64(b, 0x0123456789abcdef);
    buf_u64(b, xxh3(b->s, 32));
    Buf c = {0};
    buf_u64(&c, get_u64(b->s + 32));
    buf_add(b, "DATA", 4);
    buf_u32(b, 0);
    buf_u32(b, 2);
    buf_u32(b, 5);
    buf_u32(b, 2);
    buf_u32(b, 3);
    buf_add(b, ids, 10);
    if (masks) buf_char(b, 0x12);       /* 0 1 | 0 0 1 */
    uint64_t hash = xxh3(b->s + 40, b->n - 40);
    buf_u64(b, hash);
    buf_u64(&c, hash);
    uint64_t chain = xxh3(c.s, 16);
    size_t end = b->n;
    buf_add(b, "END\n", 4);
    buf_u32(b, 0);
    buf_u64(b, 2);
    buf_u64(b, 5);
    buf_u64(b, 1);
    buf_u64(b, chain);
    hash = xxh3(b->s + end, 40);
    b->n -= 8;
    buf_u64(b, hash);
    buf_free(&c);
}

static void bytes(bool masks, const char *what)
{
    static const uint32_t a[] = { 5, 256 }, c[] = { 299, 1, 2 };
    static const uint8_t ma[] = { 0, 1 }, mc[] = { 0, 0, 255 };
    Buf want = {0}, got = {0};
    by_hand(&want, masks);
    unlink(path);
    TokenWriter *w = tokens_create(path, masks ? &masked : &plain);
    tokens_write(w, a, masks ? ma : NULL, 2);
    tokens_write(w, c, masks ? mc : NULL, 3);
    tokens_close(w);
    read_file(path, &got, 1 << 20);
    ok(got.n == want.n && !memcmp(got.s, want.s, got.n), "the bytes are as described, %s", what);
    buf_free(&want);
    buf_free(&got);
}

static void concatenated(void)
{
    Buf one = {0}, two = {0};
    TokenHead h;
    const uint32_t *id;
    const uint8_t *mask;
    size_t n, docs = 0, sum = 0;
    by_hand(&one, true);
    for (int i = 0; i < 3; i++) buf_add(&two, one.s, one.n);
    put(&two);
    TokenReader *r = tokens_open(path, &h);
    while (tokens_next(r, &id, &mask, &n)) docs++, sum += n;
    ok(docs == 6 && sum == 15 && tokens_offset(r) == 3 * one.n, "three streams in a row are one");
    tokens_finish(r);
    two.n = 2 * one.n;
    by_hand(&one, false);
    buf_add(&two, one.s, one.n);
    ok(refused(&two, "no loss masks"), "streams with and without masks do not mix");

    /* another tokenizer in the second header */
    by_hand(&one, true);
    two.n = one.n;
    memcpy(two.s, one.s, one.n);
    buf_add(&two, one.s, one.n);
    two.s[one.n + 24]++;
    uint64_t hash = xxh3(two.s + one.n, 32);
    memcpy(two.s + one.n + 32, &hash, 8);
    ok(refused(&two, "made with tokenizer 0123456789abcdf0, but what came before with "
               "0123456789abcdef"), "another tokenizer: both are named in hex");
    buf_free(&one);
    buf_free(&two);
}

static void damaged(void)
{
    Buf whole = {0}, b = {0};
    by_hand(&whole, true);
    size_t missed = 0;
    for (size_t n = 0; n < whole.n; n++) {
        buf_clear(&b);
        buf_add(&b, whole.s, n);
        missed += !refused(&b, "tokens-test");
    }
    ok(missed == 0, "each of %zu truncations is refused", whole.n);
    missed = 0;
    for (size_t i = 0; i < whole.n; i++) {
        buf_clear(&b);
        buf_add(&b, whole.s, whole.n);
        b.s[i] ^= (char)(1 << i % 8);
        missed += !refused(&b, "tokens-test");
    }
    ok(missed == 0, "a flipped bit in each of %zu bytes is refused", whole.n);
    buf_clear(&b);
    ok(refused(&b, "empty"), "an empty file");
    buf_add(&b, whole.s, whole.n - 40);
    ok(refused(&b, "byte 83: ends without a trailer"), "no trailer");
    buf_add(&b, whole.s + 40, whole.n - 40);
    ok(refused(&b, "trailer"), "a block twice");
    buf_clear(&b);
    buf_add(&b, whole.s, whole.n);
    buf_char(&b, '\n');
    ok(refused(&b, "byte 12"), "a byte after the trailer");
    buf_free(&whole);
    buf_free(&b);
}

/* Hashes made right again after a change, so that the checks behind them are reached. */
static void rehash(Buf *b)
{
    uint64_t c[2];
    c[0] = get_u64(b->s + 32);
    size_t end = b->n - 40;
    c[1] = xxh3(b->s + 40, end - 8 - 40);
    memcpy(b->s + end - 8, &c[1], 8);
    uint64_t chain = xxh3(c, 16);
    Buf t = {0};
    buf_add(&t, b->s + end, 32);
    buf_u64(&t, chain);
    uint64_t hash = xxh3(t.s, t.n);
    memcpy(b->s + end + 32, &hash, 8);
    buf_free(&t);
}

static void set32(Buf *b, size_t at, uint32_t x)
{
    memcpy(b->s + at, &x, 4);
    rehash(b);
}

static void hostile(void)
{
    Buf b = {0};
    by_hand(&b, false);
    size_t end = b.n - 40;
    for (int i = 0; i < 3; i++) {
        uint64_t many = 1ull << 63;
        by_hand(&b, false);
        memcpy(b.s + end + 8 + 8 * i, &many, 8);
        rehash(&b);
        ok(refused(&b, "counts differ"), "2^63 %s",
           i == 0 ? "documents" : i == 1 ? "tokens" : "blocks");
    }
    by_hand(&b, false);
    set32(&b, 48, UINT32_MAX);
    ok(refused(&b, "impossible counts"), "2^32-1 pieces");
    by_hand(&b, false);
    set32(&b, 52, UINT32_MAX);
    ok(refused(&b, "impossible counts"), "2^32-1 tokens in a block");
    by_hand(&b, false);
    set32(&b, 56, UINT32_MAX);
    ok(refused(&b, "do not add up"), "a document of 2^32-1 tokens");
    by_hand(&b, false);
    set32(&b, 44, 1);
    ok(refused(&b, "inside a document"), "a document that never ends");
    by_hand(&b, false);
    set32(&b, 68, 300 | 1 << 16);
    ok(refused(&b, "document 2 has token 300"), "an id outside the vocabulary names the document");
    by_hand(&b, false);
    set32(&b, 44, 4);
    ok(refused(&b, "impossible"), "an unknown flag");
    buf_free(&b);
}

/* The same file, whether documents come whole or in parts, empty ones too. */
static void parts(uint32_t vocab)
{
    enum { DOCS = 400, MOST = 1 << 21 };
    TokenHead h = plain;
    h.vocab = vocab;
    int width = token_width(vocab);
    char *other = xasprintf("%s.parts", path);
    unlink(path);
    TokenWriter *a = tokens_create(path, &h), *b = tokens_create(other, &h);
    uint32_t *id = xreallocarray(NULL, MOST, sizeof *id);
    uint16_t *half = xreallocarray(NULL, MOST, sizeof *half);
    Rng r;
    rng_init(&r, vocab, 0);
    for (int k = 0; k < DOCS; k++) {
        size_t n = k == 7 ? MOST : k == 9 ? (1 << 19) - 1 : k % 50 == 8 ? 1 << 19 : rng_below(&r, 3000);
        if (k % 20 == 3) n = 0;
        for (size_t i = 0; i < n; i++) half[i] = (uint16_t)(id[i] = (uint32_t)rng_below(&r, vocab));
        tokens_write(a, id, NULL, n);
        bool first = true;
        for (size_t at = 0, some; first || at < n; at += some, first = false) {
            some = rng_below(&r, 4) ? rng_below(&r, n - at + 1) : 0;
            if (rng_below(&r, 10) == 0) some = n - at;
            if (width == 2) tokens_part(b, half + at, some, first);
            else tokens_part(b, id + at, some, first);
        }
    }
    tokens_close(a), tokens_close(b);
    Buf x = {0}, y = {0};
    read_file(path, &x, 1 << 30), read_file(other, &y, 1 << 30);
    ok(x.n == y.n && !memcmp(x.s, y.s, x.n), "vocabulary of %u: in parts, the same bytes", vocab);
    unlink(other);
    free(other), free(id), free(half), buf_free(&x), buf_free(&y);
}

int main(void)
{
    int fd = mkstemp(path);
    if (fd < 0) abort();
    close(fd);
    trips();
    bytes(false, "without masks");
    bytes(true, "with masks");
    concatenated();
    damaged();
    hostile();
    parts(300);
    parts(65537);
    unlink(path);
    return done();
}
