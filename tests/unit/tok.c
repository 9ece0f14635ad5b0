/* Tokenizer file and encoder: the file's checks, the naive rule, the shared golden numbers. */
#include "text/tok.h"
#include "base/io.h"
#include "base/progress.h"
#include "tap.h"
#include "enc_rule.h"
#include "text/bpe.h"
#include "text/split.h"
#include "text/utf8.h"

static char path[] = "/tmp/tok-test-XXXXXX";

static Tok *from(const Merge *m, size_t n) { return tok_from_merges(m, n); }

/* ---- encoding by the rule, on one piece ------------------------------------ */

/* Random letters, so that a text is one piece: short, long, and of a length about to change sides.
 * The tokenizer is trained on other random letters of the same kind. */
static void against_naive(void)
{
    Rng r;
    rng_init(&r, 3, 0);
    int wrong = 0, lost = 0, rounds = 0;
    for (int k = 0; k < 60; k++) {
        char s[700];
        int letters = 1 + (int)rng_below(&r, 5);
        Pieces p = {0};
        for (int i = 0; i < 40; i++) {
            size_t n = 1 + rng_below(&r, 40);
            for (size_t j = 0; j < n; j++) s[j] = (char)('a' + rng_below(&r, (uint64_t)letters));
            pieces_add(&p, s, n, 1 + (int64_t)rng_below(&r, 3));
        }
        Bpe b = bpe_train(&p, rng_below(&r, 150), NULL);
        Tok *t = from((const Merge *)b.pair, b.n);
        TokEnc *e = tokenc_new(t);
        for (int i = 0; i < 60; i++, rounds++) {
            size_t n = i < 20   ? 1 + rng_below(&r, 20)
                       : i < 40 ? 58 + rng_below(&r, 12)
                                : 1 + rng_below(&r, 700);
            for (size_t j = 0; j < n; j++) s[j] = (char)('a' + rng_below(&r, (uint64_t)letters));
            Ids got = {0}, want = {0};
            Buf back = {0};
            tok_encode(e, s, n, &got);
            naive(t, s, n, &want);
            wrong += !same(got.id, got.n, &want);
            for (size_t j = 0; j < got.n; j++) {
                size_t len;
                const char *bytes = tok_bytes(t, (int)got.id[j], &len);
                buf_add(&back, bytes, len);
            }
            lost += back.n != n || memcmp(back.s, s, n);
            ids_free(&got), ids_free(&want), buf_free(&back);
        }
        tokenc_free(e), tok_free(t), bpe_free(&b), pieces_free(&p);
    }
    ok(!wrong, "%d texts against the naive rule (%d wrong)", rounds, wrong);
    ok(!lost, "and their bytes come back");
}

/* Random bytes: invalid UTF-8 is repaired, then every token's bytes are the text's. */
static void random_bytes(void)
{
    static const Merge m[] = { {0xef, 0xbf}, {256, 0xbd}, {'a', 'b'}, {258, 'a'}, {' ', 258} };
    Tok *t = from(m, 5);
    TokEnc *e = tokenc_new(t);
    Rng r;
    rng_init(&r, 4, 0);
    int wrong = 0;
    for (int k = 0; k < 3000; k++) {
        char s[300];
        size_t n = rng_below(&r, sizeof s + 1);
        for (size_t i = 0; i < n; i++)
            s[i] = (char)(k % 2 ? rng_below(&r, 256)
                                : (uint64_t) "ab \xc3\xa9\xef\xbf\xbd'"[rng_below(&r, 9)]);
        Buf fixed = {0}, back = {0};
        uint64_t bad = utf8_repair(&fixed, s, n);
        Ids got = {0}, want = {0};
        wrong += tok_encode(e, s, n, &got) != bad;
        for (size_t i = 0, next; i < fixed.n; i = next) {
            next = split_next(fixed.s, fixed.n, i);
            naive(t, fixed.s + i, next - i, &want);
        }
        wrong += !same(got.id, got.n, &want);
        for (size_t j = 0; j < got.n; j++) {
            size_t len;
            const char *bytes = tok_bytes(t, (int)got.id[j], &len);
            buf_add(&back, bytes, len);
        }
        wrong += back.n != fixed.n || (back.n && memcmp(back.s, fixed.s, back.n));
        ids_free(&got), ids_free(&want), buf_free(&fixed), buf_free(&back);
    }
    ok(!wrong, "3000 strings of random bytes (%d wrong)", wrong);
    tokenc_free(e), tok_free(t);
}

/* ---- ids, names, bytes ------------------------------------------------------ */

static void tables(void)
{
    static const Merge m[] = { {'a', 'b'}, {256, 'c'}, {0, 0xff}, {'\n', ' '} };
    Tok *t = from(m, 4);
    const Merge *back;
    size_t len;
    ok(tok_vocab(t) == 256 + 4 + 9, "vocabulary");
    ok(tok_special(t, SP_BOS) == 260 && tok_special(t, SP_OUTPUT_END) == 268,
       "special ids follow the merges");
    ok(tok_is_special(t, 260) && tok_is_special(t, 268) && !tok_is_special(t, 259) &&
           !tok_is_special(t, 0),
       "is special");
    ok(tok_byte_lengths(t)[257] == 3 && tok_byte_lengths(t)[7] == 1 &&
           tok_byte_lengths(t)[260] == 0,
       "lengths");
    const char *s = tok_bytes(t, 258, &len);
    ok(len == 2 && s[0] == 0 && s[1] == (char)0xff, "bytes of a token with a NUL");
    s = tok_bytes(t, 260, &len);
    ok(len == 7 && !memcmp(s, "<|bos|>", 7), "bytes of a special token are its name");
    ok(tok_find(t, "abc", 3) == 257 && tok_find(t, "abcd", 4) == -1 && tok_find(t, "", 0) == -1,
       "find");
    ok(tok_pair(t, 256, 'c') == 257 && tok_pair(t, 'c', 256) == -1, "pair");
    ok(tok_merges(t, &back) == 4 && !memcmp(back, m, sizeof m), "merges");
    Ids v = {0};
    TokEnc *e = tokenc_new(t);
    tok_encode(e, "<|bos|>", 7, &v);
    bool plain = v.n == 7;
    for (size_t i = 0; i < v.n; i++) plain = plain && !tok_is_special(t, (int)v.id[i]);
    ok(plain, "a control string in text is ordinary");
    ids_free(&v), tokenc_free(e), tok_free(t);
}

/* ---- the file ---------------------------------------------------------------- */

static void write_path(const char *s, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(s, 1, n, f) != n || fclose(f)) abort();
}
static void load(void *arg) { (void)arg; tok_free(tok_load(path)); }

/* A file made by hand, as the man page has it; the checksum is right whatever the rest is. */
typedef struct Parts {
    const char *unicode, *pattern; size_t merges; const Merge *m; int names; const char *name[3];
} Parts;
static void make(const Parts *p)
{
    Buf b = {0};
    buf_add(&b, "PGTOK\r\n\x1a", 8);
    buf_u32(&b, 1), buf_u32(&b, (uint32_t)p->merges), buf_u32(&b, (uint32_t)p->names);
    buf_u32(&b, (uint32_t)strlen(p->unicode)), buf_str(&b, p->unicode);
    buf_u32(&b, (uint32_t)strlen(p->pattern)), buf_str(&b, p->pattern);
    for (size_t i = 0; i < p->merges; i++)
        buf_u32(&b, p->m[i][0]), buf_u32(&b, p->m[i][1]);
    for (int i = 0; i < p->names; i++)
        buf_u32(&b, (uint32_t)strlen(p->name[i])), buf_str(&b, p->name[i]);
    buf_u64(&b, xxh3(b.s, b.n));
    write_path(b.s, b.n);
    buf_free(&b);
}

static void refused(Parts p, const char *says)
{
    if (!p.unicode) p.unicode = SPLIT_UNICODE;
    if (!p.pattern) p.pattern = split_pattern;
    make(&p);
    ok(dies(1, says, load, NULL), "refused: %s", says);
}

static void hostile(void)
{
    static const Merge ahead[] = { {97, 98}, {257, 99} }, far[] = { {97, UINT32_MAX} };
    static const Merge twice[] = { { 97, 98 }, { 98, 99 }, { 256, 99 }, { 97, 257 } },
                       same_pair[] = { { 97, 98 }, { 97, 98 } };
    Merge twin[30];
    twin[0][0] = twin[0][1] = 'a';
    for (uint32_t i = 1; i < 30; i++) twin[i][0] = twin[i][1] = 255 + i;
    refused((Parts){ .merges = 2, .m = ahead }, "not both are older");
    refused((Parts){ .merges = 1, .m = far }, "not both are older");
    refused((Parts){ .merges = 4, .m = twice }, "tokens 258 and 259 have the same bytes");
    refused((Parts){ .merges = 2, .m = same_pair }, "tokens 256 and 257 have the same bytes");
    refused((Parts){ .merges = 30, .m = twin }, "token 276 has 2097152 bytes");
    refused((Parts){ .unicode = "17.0.0" }, "Unicode version");
    refused((Parts){ .pattern = "\\p{L}+" }, "pattern");
    refused((Parts){ .names = 2, .name = { "<|x|>", "<|x|>" } },
            "two special tokens are named <|x|>");
    refused((Parts){ .names = 1, .name = {""} }, "no valid name");
    refused((Parts){ .names = 1, .name = {"\xff"} }, "no valid name");

    /* aa .. a^(2^19); that and one other byte; a^(2^18) before each of those: 2^28 bytes in 455 */
    Merge big[19 + 255 + 255];
    memcpy(big, twin, 19 * sizeof *big);
    for (uint32_t i = 0; i < 255; i++) {
        big[19 + i][0] = 256 + 18, big[19 + i][1] = i + (i >= 'a');
        big[19 + 255 + i][0] = 256 + 17, big[19 + 255 + i][1] = 256 + 19 + i;
    }
    refused((Parts){ .merges = 19 + 255 + 255, .m = (const Merge *)big }, "bytes in all");

    Parts good = { SPLIT_UNICODE, split_pattern, 1, ahead, 1, { "<|eos|>" } };
    make(&good);
    Tok *t = tok_load(path);
    ok(tok_vocab(t) == 258 && tok_special(t, SP_BOS) == -1 && tok_is_special(t, 257),
       "other special tokens");
    tok_free(t);
}

static void damage(void)
{
    static const Merge m[] = { {'a', 'b'}, {256, 0}, {'\n', ' '}, {0xff, 0xfe} };
    Tok *t = from(m, 4);
    Buf b = {0}, again = {0};
    tok_save(t, path);
    read_file(path, &b, 1 << 20);
    Tok *u = tok_load(path);
    ok(tok_hash(u) == tok_hash(t) && tok_hash(t) == get_u64(b.s + b.n - 8) &&
       tok_hash(t) == xxh3(b.s, b.n - 8), "the hash is the trailer");
    tok_save(u, path);
    read_file(path, &again, 1 << 20);
    ok(b.n == again.n && !memcmp(b.s, again.s, b.n), "save, load, save: the same file");
    tok_free(u), tok_free(t);

    int cuts = 0, flips = 0;
    for (size_t n = 0; n < b.n; n += n < 40 ? 1 : 7) {
        write_path(b.s, n);
        cuts += !dies(1, path, load, NULL);
    }
    for (size_t i = 0; i < b.n; i += i < 40 ? 1 : 5) {
        b.s[i] ^= 0x40;
        write_path(b.s, b.n);
        flips += !dies(1, path, load, NULL);
        b.s[i] ^= 0x40;
    }
    ok(!cuts, "a file that is cut short is refused");
    ok(!flips, "a file with a changed byte is refused");
    buf_char(&b, 0);
    write_path(b.s, b.n);
    ok(dies(1, "1 bytes follow its end", load, NULL), "bytes after the end");
    for (size_t i = 12; i < 20; i++) b.s[i] = (char)0xff;
    write_path(b.s, b.n);
    ok(dies(1, "at most", load, NULL), "4294967295 merges and special tokens");
    write_path("hello, this is not it", 21);
    ok(dies(1, "not a tokenizer file", load, NULL), "text");
    buf_free(&b), buf_free(&again);
}

static void load_and_leave(void *arg) { load(arg); fputs("whole", stderr); exit(1); }

/* Changed bytes under a right checksum: a file is whole or refused, never more than that. */
static void mutants(void)
{
    static const Merge m[] = { {'a', 'b'}, {256, 'c'}, {'b', 'c'}, {258, 257} };
    Parts p = { SPLIT_UNICODE, split_pattern, 4, m, 2, { "<|x|>", "<|bos|>" } };
    Buf b = {0};
    Rng r;
    rng_init(&r, 11, 0);
    make(&p);
    read_file(path, &b, 1 << 20);
    char *good = xmalloc(b.n);
    memcpy(good, b.s, b.n);
    size_t content = b.n - 8, tail = 4 * 8 + 2 * 4 + 5 + 7;        /* merges and names */
    int bad = 0;
    for (int k = 0; k < 400; k++) {
        memcpy(b.s, good, b.n);
        for (uint64_t i = 0; i <= rng_below(&r, 3); i++) {
            size_t at = k % 2 ? 12 + rng_below(&r, 12) : content - 1 - rng_below(&r, tail);
            b.s[at] = (char)(rng_below(&r, 2) ? rng_below(&r, 256) : rng_below(&r, 6));
        }
        uint64_t h = xxh3(b.s, content);
        for (int i = 0; i < 8; i++) b.s[content + (size_t)i] = (char)(h >> 8 * i);
        write_path(b.s, b.n);
        bad += !dies(1, "", load_and_leave, NULL);
    }
    ok(!bad, "400 files with changed bytes and a right checksum (%d ended otherwise)", bad);
    free(good), buf_free(&b);
}

/* ---- version 2 -------------------------------------------------------------- */

typedef struct Other { uint32_t flags, merges, specials; const char *pattern; int step; } Other;

/* Bytes have the ids 3 + (b * step) % 256; ab 300, aba 301, ba 400; special <|bos|> 299, <x> 2. */
static void other_file(Other o, Buf *b)
{
    static const char *const token[] = { "ab", "aba", "ba" };
    static const uint32_t id[] = { 300, 301, 400 };
    buf_clear(b);
    buf_add(b, "PGTOK\r\n\x1a", 8);
    buf_u32(b, 2), buf_u32(b, o.merges), buf_u32(b, o.specials), buf_u32(b, 259);
    buf_u32(b, o.flags);
    buf_u32(b, (uint32_t)strlen(SPLIT_UNICODE)), buf_str(b, SPLIT_UNICODE);
    buf_u32(b, (uint32_t)strlen(o.pattern)), buf_str(b, o.pattern);
    int inverse[256];
    for (int i = 0; i < 256; i++) inverse[i * o.step & 255] = i;
    for (int i = 0; i < 256; i++)
        buf_u32(b, 3 + (uint32_t)i), buf_u32(b, 1), buf_char(b, (char)inverse[i]);
    for (int i = 0; i < 3; i++)
        buf_u32(b, id[i]), buf_u32(b, (uint32_t)strlen(token[i])), buf_str(b, token[i]);
    uint32_t x = 3 + ('a' * (uint32_t)o.step & 255), y = 3 + ('b' * (uint32_t)o.step & 255);
    uint32_t pair[3][2] = { { y, x }, { x, y }, { 300, x } };       /* ba first */
    for (uint32_t i = 0; i < o.merges; i++)
        buf_u32(b, pair[i % 3][0]), buf_u32(b, pair[i % 3][1]);
    buf_u32(b, 2), buf_u32(b, 3), buf_str(b, "<x>");
    buf_u32(b, 299), buf_u32(b, 7), buf_str(b, "<|bos|>");
    buf_u64(b, xxh3(b->s, b->n));
    write_path(b->s, b->n);
}

static bool encodes(const Tok *t, const char *s, const uint32_t *want, size_t k)
{
    TokEnc *e = tokenc_new(t);
    Ids v = {0};
    tok_encode(e, s, strlen(s), &v);
    bool good = v.n == k && !memcmp(v.id, want, k * sizeof *want);
    ids_free(&v), tokenc_free(e);
    return good;
}

static void version2(void)
{
    static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
                               "|\\s+(?!\\S)|\\s+";
    Buf b = {0}, again = {0};
    Other o = { 1, 3, 2, gpt2, 5 };
    other_file(o, &b);
    Tok *t = tok_load(path);
    uint32_t a = 3 + ('a' * 5 & 255), bb = 3 + ('b' * 5 & 255);
    ok(tok_vocab(t) == 401 && tok_split(t) == SPLIT_GPT2 && !strcmp(tok_pattern(t), gpt2) &&
       !tok_plain(t) && tok_special(t, SP_BOS) == 299 && tok_is_special(t, 2) &&
       !tok_is_special(t, 0) && tok_byte_id(t, 'a') == (int)a && tok_find(t, "aba", 3) == 301 &&
       tok_pair(t, 300, a) == 301 &&
       tok_hash(t) == get_u64(b.s + b.n - 8), "version 2: ids, gaps, specials, pattern");
    ok(encodes(t, "bab", (uint32_t[]){ 400, bb }, 2) && encodes(t, "aba", (uint32_t[]){ 301 }, 1) &&
       encodes(t, "abab", (uint32_t[]){ a, 400, bb }, 3) &&
       encodes(t, "a a", (uint32_t[]){ a, 163, a }, 3),
       "version 2: merges in their order, whole pieces first");
    tok_save(t, path);
    read_file(path, &again, 1 << 20);
    ok(again.n == b.n && !memcmp(b.s, again.s, b.n), "version 2: load, save: the same file");
    tok_free(t);

    o.flags = 0, other_file(o, &b), t = tok_load(path);
    ok(encodes(t, "aba", (uint32_t[]){ a, 400 }, 2), "version 2: merges only");
    tok_free(t);
    o.flags = 3, o.merges = 0, other_file(o, &b), t = tok_load(path);
    ok(encodes(t, "xaba", (uint32_t[]){ 3 + ('x' * 5 & 255), 301 }, 2) &&
       tok_pair(t, a, 400) == 301 && tok_pair(t, 300, a) == 301, "version 2: by rank");
    tok_free(t);
    o.flags = 16, other_file(o, &b);
    ok(dies(1, "flags 0x10", load, NULL), "version 2: unknown flags");
    o.flags = 9, other_file(o, &b);
    ok(dies(1, "words, but the special token 0 is not <pad>", load, NULL), "version 2: words");
    o.flags = 2, other_file(o, &b);
    ok(dies(1, "merges go by rank", load, NULL), "version 2: by rank, but not whole pieces");
    o.flags = 1, o.merges = 6, other_file(o, &b);
    ok(dies(1, "of the same two tokens", load, NULL), "version 2: a merge twice");
    o.pattern = "x+", o.merges = 0, other_file(o, &b);
    ok(dies(1, "a pattern that is not known here: x+", load, NULL), "version 2: another pattern");
    o.pattern = gpt2, o.step = 1, other_file(o, &b);
    int bad = 0;
    size_t n = b.n;
    Rng r;
    rng_init(&r, 12, 0);
    char *good = xmalloc(n);
    memcpy(good, b.s, n);
    for (size_t k = 0; k < n; k += k < 60 ? 1 : 97) {
        write_path(good, k);
        bad += !dies(1, path, load, NULL);
    }
    for (int k = 0; k < 150; k++) {
        memcpy(b.s, good, n);
        size_t at = k % 2 ? 8 + rng_below(&r, 20) : 8 + rng_below(&r, n - 16);
        b.s[at] = (char)(rng_below(&r, 2) ? rng_below(&r, 256) : rng_below(&r, 6));
        uint64_t h = xxh3(b.s, n - 8);
        for (int i = 0; i < 8; i++) b.s[n - 8 + (size_t)i] = (char)(h >> 8 * i);
        write_path(b.s, n);
        bad += !dies(1, "", load_and_leave, NULL);
    }
    ok(!bad, "version 2: cut and changed files (%d ended otherwise)", bad);
    free(good), buf_free(&b), buf_free(&again);
}

/* ---- the shared golden numbers ------------------------------------------------ */

#define GOLD "../shared/data/tok_golden/"

static void golden_ids(const Tok *t, const char *text_file, const char *ids_file, int every,
                       size_t want_total)
{
    Buf text = {0}, ids = {0}, line = {0};
    read_file(text_file, &text, 1 << 30);
    read_file(ids_file, &ids, 1 << 30);
    TokEnc *e = tokenc_new(t);
    Ids v = {0};
    size_t total = 0, i = 0;
    const char *p = ids.s;
    int doc = 0, wrong = 0;
    for (bool more = true; more; doc++) {
        const char *end = memchr(text.s + i, 1, text.n - i);
        more = end != NULL;
        size_t n = more ? (size_t)(end - (text.s + i)) : text.n - i;
        v.n = 0;
        tok_encode(e, text.s + i, n, &v);
        total += v.n;
        i += n + 1;
        if (doc % every)
            continue;
        buf_clear(&line);
        if (every > 1) buf_printf(&line, "%d\t", doc);
        for (size_t k = 0; k < v.n; k++) buf_printf(&line, k ? " %u" : "%u", v.id[k]);
        buf_char(&line, '\n');
        wrong += strncmp(p, line.s, line.n) != 0;
        p = strchr(p, '\n') + 1;
    }
    ok(!wrong && !*p && (!want_total || total == want_total),
       "%s: %d documents, %zu tokens (%d wrong)", strrchr(ids_file, '/') + 1, doc, total, wrong);
    ids_free(&v), tokenc_free(e), buf_free(&text), buf_free(&ids), buf_free(&line);
}

static void golden(void)
{
    if (access(GOLD "corpus.txt", R_OK)) {
        skip("needs ../shared/data", "training and encoding of the golden corpus");
        return;
    }
    Buf text = {0}, want = {0}, got = {0};
    read_file(GOLD "corpus.txt", &text, 1 << 30);
    read_file(GOLD "merges_4096.txt", &want, 1 << 30);
    Pieces p = {0};
    for (size_t i = 0; i <= text.n; ) {
        const char *end = memchr(text.s + i, 1, text.n - i);
        size_t n = end ? (size_t)(end - (text.s + i)) : text.n - i;
        pieces_text(&p, text.s + i, n);
        i += n + 1;
    }
    pieces_sort(&p);
    ok(p.n == 12689, "%zu distinct pieces", p.n);
    Bpe b = bpe_train(&p, 3840, NULL);
    for (size_t k = 0; k < b.n; k++)
        buf_printf(&got, "%u %u %zu\n", b.pair[k][0], b.pair[k][1], 256 + k);
    ok(got.n == want.n && !memcmp(got.s, want.s, got.n), "%zu merges of the golden corpus", b.n);
    Tok *t = from((const Merge *)b.pair, b.n);
    golden_ids(t, GOLD "corpus.txt", GOLD "corpus_ids_4096_even.txt", 2, 200984);
    golden_ids(t, GOLD "cases.txt", GOLD "cases_ids_4096.txt", 1, 0);
    tok_free(t), bpe_free(&b), pieces_free(&p), buf_free(&text), buf_free(&want), buf_free(&got);
}

/* ---- long pieces --------------------------------------------------------------- */

static void fast(const Tok *t, const char *name, char *s, size_t n)
{
    TokEnc *e = tokenc_new(t);
    Ids v = {0};
    double begin = now_seconds();
    tok_encode(e, s, n, &v);
    double took = now_seconds() - begin;
    size_t at = 0;
    bool good = true;
    for (size_t i = 0; good && i < v.n; i++) {
        size_t len;
        const char *b = tok_bytes(t, (int)v.id[i], &len);
        good = len <= n - at && !memcmp(b, s + at, len);
        at += len;
    }
    ok(good && at == n && took < 60, "%s: %zu bytes, %zu tokens, %.2f s", name, n, v.n, took);
    ids_free(&v), tokenc_free(e);
}

static void long_pieces(void)
{
    Merge m[12 + 26];
    for (uint32_t i = 0; i < 12; i++) m[i][0] = m[i][1] = i ? 255 + i : 'a';
    for (uint32_t i = 0; i < 26; i++) m[12 + i][0] = 'a' + i, m[12 + i][1] = 'a' + (i * 7 + 1) % 26;
    Tok *t = from((const Merge *)m, 38);
    size_t n = 1000000;
    char *s = xmalloc(5 * n);
    memset(s, 'a', n), fast(t, "a", s, n);
    memset(s, ' ', n), s[n - 1] = 'x', fast(t, "spaces and an x", s, n);
    memset(s, '^', n), fast(t, "^", s, n);
    memset(s, '\n', n), fast(t, "newlines", s, n);
    Rng r;
    rng_init(&r, 9, 0);
    for (size_t i = 0; i < 5 * n; i++) s[i] = (char)('a' + rng_below(&r, 26));
    fast(t, "random letters", s, 5 * n);
    free(s), tok_free(t);
}

int main(void)
{
    int fd = mkstemp(path);
    if (fd < 0) abort();
    close(fd);
    tables();
    against_naive();
    random_bytes();
    hostile();
    damage();
    mutants();
    version2();
    golden();
    long_pieces();
    remove(path);
    return done();
}
