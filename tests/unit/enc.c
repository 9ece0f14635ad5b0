/* The encoder: its ways to encode a piece against the rule and each other, its tables when they
 * overflow, both widths, every border of the text. */
#include "tap.h"
#include "enc_rule.h"
#include "base/io.h"
#include "text/bpe.h"
#include "base/cpu.h"
#include "text/enc.h"
#include "text/enc_int.h"
#include "text/split.h"
#include "text/tok_int.h"
#include "text/utf8.h"

/* ---- tokenizers --------------------------------------------------------------------- */

/* Merges in the order in which they help: doubles, then what is left; ids past 65,535. */
static Tok *large(void)
{
    enum { N = 70000 };
    Merge *m = xreallocarray(NULL, N, sizeof *m);
    size_t n = 0;
    for (uint32_t a = 0; a < 256 && n < 65536; a++)
        for (uint32_t b = 0; b < 256; b++) m[n][0] = a, m[n][1] = b, n++;
    for (; n < N; n++) {
        m[n][0] = (uint32_t)(n - 65536) % 26 + 'a';
        m[n][1] = 256 + ('a' << 8) + (uint32_t)(n - 65536) / 26;
    }
    Tok *t = tok_from_merges((const Merge *)m, n);
    free(m);
    return t;
}

/* All pairs of bytes in any order, then merges of letters in any order: ids of 17 bits compete. */
static Tok *wide(void)
{
    enum { N = 66500 };
    Merge *m = xreallocarray(NULL, N, sizeof *m);
    uint32_t *order = shuffled(65536), n = 65536, two['d' + 1]['d' + 1];
    for (uint32_t k = 0; k < n; k++) {
        uint32_t a = order[k] >> 8, b = order[k] & 255;
        m[k][0] = a, m[k][1] = b;
        if (a >= 'a' && a <= 'd' && b >= 'a' && b <= 'd') two[a][b] = 256 + k;
    }
    uint32_t *longer = shuffled(256);           /* of four letters: 3 + 1, or 2 + 2 */
    uint32_t three[64];
    for (uint32_t k = 0; k < 64; k++) {
        uint32_t a = 'a' + k / 16, b = 'a' + k / 4 % 4, c = 'a' + k % 4;
        m[n][0] = k % 3 ? two[a][b] : a, m[n][1] = k % 3 ? c : two[b][c];
        three[k] = 256 + n++;
    }
    for (uint32_t k = 0; k < 256; k++) {
        uint32_t x = longer[k], a = 'a' + x / 64, b = 'a' + x / 16 % 4, c = 'a' + x / 4 % 4;
        if (k % 2) m[n][0] = three[x / 4], m[n][1] = 'a' + x % 4;
        else m[n][0] = two[a][b], m[n][1] = two[c]['a' + x % 4];
        n++;
    }
    Tok *t = tok_from_merges((const Merge *)m, n);
    free(m), free(order), free(longer);
    return t;
}

static Tok *ascii(void)
{
    static const Merge m[] = { {' ', 't'}, {'h', 'e'}, {256, 257}, {'i', 'n'}, {'a', 'n'},
        {260, 'd'},
        {' ', 'a'}, {'o', 'n'}, {259, 'g'}, {'e', 'r'}, {0xe6, 0x97}, {266, 0xa5}, {0xe6, 0x9c},
        {' ', ' '}, {269, 269}, {270, 270}, {'1', '2'}, {'x', 'x'}, {273, 273}, {274, 274} };
    return tok_from_merges(m, sizeof m / sizeof *m);
}

/* ---- pieces -------------------------------------------------------------------------- */

/* Short pieces several at once, as many as there may be and fewer. */
static int few_wrong(const Tok *t, const EncModel *m, int letters)
{
    char s[FEW][FEW_SYMBOLS];
    Few few[FEW], *p[FEW];
    size_t n[FEW];
    size_t count = 1 + below(FEW);
    int wrong = 0;
    for (size_t k = 0; k < count; k++) {
        p[k] = &few[k];
        n[k] = 1 + below(FEW_SYMBOLS);
        for (size_t i = 0; i < n[k]; i++) s[k][i] = (char)('a' + below((uint64_t)letters));
        few_bytes(p[k], s[k], n[k]);
    }
    enc_scan_few(m, p, count);
    for (size_t k = 0; k < count; k++) {
        Ids want = {0};
        naive(t, s[k], n[k], &want);
        wrong += !same(few[k].id, few[k].n, &want);
        ids_free(&want);
    }
    return wrong;
}

static bool heap_wrong(const EncModel *m, PieceRoom *r, const char *s, size_t n, const Ids *want)
{
    size_t got;
    const uint32_t *id = enc_heap(m, r, s, n, &got);
    return !same(id, got, want);
}

/* In windows of any size to begin with, behind an id that is there already. */
static bool long_wrong(const EncModel *m, PieceRoom *r, const char *s, size_t n, const Ids *want)
{
    Ids v = {0};
    ids_add(&v, 7);
    enc_long(m, r, s, n, 1 + below(below(2) ? 100 : 600), &v);
    bool wrong = v.id[0] != 7 || !same(v.id + 1, v.n - 1, want);
    ids_free(&v);
    return wrong;
}

static void piece_ways(void)
{
    int scan = 0, windows = 0, heap = 0, few = 0, rounds = 0, unreached = 0;
    uint32_t out[SCAN_MAX];
    PieceRoom room = {0};
    for (int k = 0; k < 300; k++) {
        int letters = 1 + (int)below(4);
        Tok *t = wild(letters, 1 + (int)below(k % 3 ? 40 : 300), 12);
        EncModel *m = encmodel_new(t);
        for (int i = 0; i < 40; i++, rounds++) {
            char s[1000];
            size_t n = i < 30 ? 1 + below(SCAN_MAX) : 1 + below(sizeof s);
            for (size_t j = 0; j < n; j++) s[j] = (char)('a' + below((uint64_t)letters + (i == 7)));
            if (i % 10 == 9) memset(s, 'a', n);
            Ids want = {0}, got = {0};
            naive(t, s, n, &want);
            if (n <= scan_max(m)) scan += !same(out, enc_scan(m, s, n, out), &want);
            int whole = tok_find(t, s, n);
            tok_piece(t, &room, s, n, &got);
            if (whole < 0) heap += !same(got.id, got.n, &want);
            else unreached += want.n > 1;
            windows += long_wrong(m, &room, s, n, &want);
            heap += heap_wrong(m, &room, s, n, &want);
            ids_free(&want), ids_free(&got);
            few += few_wrong(t, m, letters);
        }
        encmodel_free(m), tok_free(t);
    }
    ok(!scan, "%d pieces by scanning for the lowest merge (%d wrong)", rounds, scan);
    ok(!few, "several short ones at once (%d wrong)", few);
    ok(!windows, "by windows (%d wrong)", windows);
    ok(!heap, "with the heap (%d wrong)", heap);
    ok(unreached > 0, "%d of them tokens that merging does not reach", unreached);
    piece_free(&room);
}

/* Ids past 16 bits have a table of pairs and a search of their own. */
static void wide_pieces(void)
{
    Tok *t = wide();
    EncModel *m = encmodel_new(t);
    PieceRoom room = {0};
    uint32_t out[SCAN_MAX];
    int scan = 0, windows = 0, rounds = 3000;
    for (int k = 0; k < rounds; k++) {
        char s[SCAN_MAX];
        size_t n = 1 + below(k % 10 ? 70 : SCAN_MAX);
        for (size_t i = 0; i < n; i++) s[i] = (char)(below(100) ? 'a' + below(4) : below(256));
        Ids want = {0};
        naive(t, s, n, &want);
        if (n <= scan_max(m)) scan += !same(out, enc_scan(m, s, n, out), &want);
        windows += long_wrong(m, &room, s, n, &want);
        scan += few_wrong(t, m, 4);
        ids_free(&want);
    }
    ok(!scan && !windows, "%d pieces with ids of 17 bits (scan: %d wrong, windows: %d)", rounds,
       scan, windows);
    piece_free(&room), encmodel_free(m), tok_free(t);
}

/* Tokenizers with other ids give the same tokens, by the same ways. */
static void renumbered(void)
{
    int wrong = 0, quick = 0, slow = 0;
    for (int k = 0; k < 60; k++) {
        Tok *t;
        if (k == 0) {
            t = wide();
        } else if (k % 3 == 0) {
            static const Merge m[] = { {' ', 'x'}, {'x', 'x'}, {257, 'x'} };
            t = tok_from_merges(m, 3);
        } else {
            t = wild(4, 1 + (int)below(200), 12);
        }
        const Merge *pair;
        size_t ids = 256 + tok_merges(t, &pair);
        uint32_t *new_id = shuffled((uint32_t)ids);
        bool twice = k && k % 3 == 0;
        Tok *u = other_ids(t, new_id, twice, k % 4 == 1);
        EncModel *m = encmodel_new(u);
        quick += encmodel_plain(m) && encmodel_ids(m), slow += !encmodel_plain(m);
        TokEnc *e = tokenc_new(u);
        PieceRoom room = {0};
        for (int i = 0; i < 50; i++) {
            char s[100];
            size_t n = 1 + below(sizeof s);
            for (size_t j = 0; j < n; j++) s[j] = (char)((k % 3 ? 'a' : 'w') + below(4));
            Ids got = {0}, want = {0}, rule = {0};
            tok_encode(e, s, n, &got);
            tok_piece(u, &room, s, n, &rule);
            naive(t, s, n, &want);              /* one piece; never a token that merging misses */
            for (size_t j = 0; j < want.n; j++) want.id[j] = new_id[want.id[j]];
            bool token = tok_find(u, s, n) >= 0;
            wrong += !same(got.id, got.n, &rule) ||
                     (!twice && !token && !same(got.id, got.n, &want));
            ids_free(&got), ids_free(&want), ids_free(&rule);
        }
        piece_free(&room), tokenc_free(e), encmodel_free(m), tok_free(u), tok_free(t), free(new_id);
    }
    ok(!wrong, "other ids for the same tokens (%d texts wrong)", wrong);
    ok(quick >= 40 && slow >= 19, "%d of the tokenizers by way of the usual ids, %d not", quick,
       slow);
}

/* Characters of several bytes with merges of all kinds inside them and over their borders. */
static void chars(void)
{
    static const char *const c[] = { "\xe6\x97\xa5", "\xe6\x97\xa7", "\xe7\x9a\x84", "\xc3\xa9",
                                     "a", "\xe3\x80\x80", "\xf0\xa0\x80\x80", "\xe6\x97\x97" };
    int scan = 0, windows = 0, whole = 0, rounds = 0, shorter = 0, fews = 0;
    uint32_t out[400];
    for (int k = 0; k < 1500; k++) {
        int kinds = 2 + (int)below(7);
        Merge m[60];
        size_t n = 0, most = 2 + below(58);
        char text[60][24];
        for (int tries = 0; n < most && tries < 2000; tries++) {
            char s[2][24];                      /* of two ids, bytes of the characters or merges */
            uint32_t id[2];
            for (int i = 0; i < 2; i++) {
                const char *from = c[below((uint64_t)kinds)];
                if (n && below(2)) {
                    uint64_t x = below(n);
                    id[i] = 256 + (uint32_t)x, strcpy(s[i], text[x]);
                } else {
                    s[i][0] = from[below(strlen(from))], s[i][1] = 0;
                    id[i] = (unsigned char)s[i][0];
                }
            }
            if (below(3) == 0) {                /* on the way to a whole character */
                const char *from = c[below((uint64_t)kinds)];
                id[0] = (unsigned char)from[0], id[1] = (unsigned char)from[1];
                memcpy(s[0], from, 1), memcpy(s[1], from + 1, 1), s[0][1] = s[1][1] = 0;
                for (size_t x = 0; x < n && strlen(from) > 2; x++)
                    if (strlen(text[x]) == 2 && !memcmp(text[x], from, 2)) {
                        id[0] = 256 + (uint32_t)x, strcpy(s[0], text[x]);
                        id[1] = (unsigned char)from[2], s[1][0] = from[2];
                    }
            }
            if (strlen(s[0]) + strlen(s[1]) > 12) continue;
            strcat(strcpy(text[n], s[0]), s[1]);
            bool there = false;
            for (size_t i = 0; i < n; i++) there = there || !strcmp(text[i], text[n]);
            /* most of them as they would stand side by side in text */
            bool fits = false;
            for (int i = 0; i < kinds * kinds; i++) {
                char both[16];
                strcat(strcpy(both, c[i / kinds]), c[i % kinds]);
                fits = fits || strstr(both, text[n]);
            }
            if (there || (!fits && below(10))) continue;
            m[n][0] = id[0], m[n][1] = id[1], n++;
        }
        Tok *t = tok_from_merges((const Merge *)m, n);
        EncModel *e = encmodel_new(t);
        PieceRoom room = {0};
        struct CharTables *ct = char_tables_new(e, t);
        for (int i = 0; i < 30; i++, rounds++) {
            Buf b = {0};
            for (uint64_t j = 1 + below(14); j; j--) buf_str(&b, c[below((uint64_t)kinds)]);
            Ids want = {0};
            naive(t, b.s, b.n, &want);
            scan += !same(out, enc_scan(e, b.s, b.n, out), &want);
            windows += long_wrong(e, &room, b.s, b.n, &want);
            whole += !same(out, enc_chars(e, b.s, b.n, out), &want);
            Few few, *one[1] = { &few };
            if (few_chars(e, &few, b.s, b.n)) {
                enc_scan_few(e, one, 1);
                whole += !same(few.id, few.n, &want), fews++;
            }
            Symbols w;
            shorter += ct && chars_start(ct, b.s, b.n, w.id, SCAN_MAX, &w.n) && w.n < b.n;
            ids_free(&want), buf_free(&b);
        }
        piece_free(&room), free(ct), encmodel_free(e), tok_free(t);
    }
    ok(!scan, "%d pieces of wide characters by scanning (%d wrong)", rounds, scan);
    ok(!windows, "by windows (%d wrong)", windows);
    ok(!whole, "beginning with characters (%d wrong)", whole);
    ok(shorter > rounds / 10 && fews > rounds / 10,
       "which %d of them did; %d have few symbols", shorter, fews);
}

static void long_pieces(void)
{
    Tok *t = ascii();
    EncModel *m = encmodel_new(t);
    enum { N = 3 << 20 };
    char *s = xmalloc(N);
    PieceRoom room = {0};
    int wrong = 0, texts = 0;
    TokEnc *e = tokenc_new(t);
    for (int kind = 0; kind < 3; kind++) {
        for (size_t i = 0; i < N; i++)
            s[i] = kind == 0 ? 'x' : kind == 1 ? ' ' : (char)"theandinger"[below(11)];
        Ids v = {0};
        enc_long(m, &room, s, N, LONG_FIRST, &v);
        wrong += heap_wrong(m, &room, s, N, &v);
        for (size_t n = 600; n <= N; n *= 5) {
            Ids got = {0};
            tok_encode(e, s, n, &got);
            texts += heap_wrong(m, &room, s, n, &got);
            ids_free(&got);
        }
        ids_free(&v);
    }
    ok(!wrong, "pieces of 3 MB: windows and one heap agree");
    ok(!texts, "of 600 bytes to 2 MB: an encoder (%d wrong)", texts);
    tokenc_free(e), free(s), piece_free(&room), encmodel_free(m), tok_free(t);
}

/* ---- texts ----------------------------------------------------------------------------- */

static const char *const words[] = {
    "the", " the", " and", "and", " in", "ing", " thing", "xx", "xxxxxxxx", " ", "  ", "\n", "\r\n",
    "\t", "12", "123", "1", "'s", "'", "...", "!", "\xe6\x97\xa5", "\xe6\x9c\xac", "\xc3\xa9", "e",
    "\xf0\x9f\x98\x80", "<|bos|>", "internationalization", "z", "\xe3\x80\x80", "_", "    ",
    "aaaa" };

static void put_text(Buf *b, uint64_t n)
{
    buf_clear(b);
    buf_str(b, "");
    while (n--) buf_str(b, words[below(sizeof words / sizeof *words)]);
}

/* Encoders with a table so small that it is wiped all the time, and with the usual one. */
static void texts(Tok *t, const char *name, int count)
{
    TokEnc *small = tokenc_sized(t, 8), *usual = tokenc_new(t), *other = tokenc_share(usual);
    Buf b = {0};
    int wrong = 0;
    for (int k = 0; k < count; k++) {
        put_text(&b, k % 5 ? below(40) : below(1500));
        char *s = xmalloc(b.n + !b.n);                  /* its end is the end of the memory */
        memcpy(s, b.s, b.n);
        Ids want = {0}, got = {0};
        naive_text(t, s, b.n, &want);
        tok_encode(k % 2 ? usual : other, s, b.n, &got);
        wrong += !same(got.id, got.n, &want);
        for (int width = tok_vocab(t) <= 65536 ? 2 : 4; width <= 4; width += 2) {
            TokOut out = { .width = width };
            tokout_add(&out, 7);
            tok_encode_valid(small, s, b.n, &out);
            bool good = out.n == want.n + 1;
            for (size_t i = 0; good && i < want.n; i++)
                good = want.id[i] == (width == 2 ? ((uint16_t *)out.id)[i + 1]
                                                 : ((uint32_t *)out.id)[i + 1]);
            wrong += !good;
            tokout_free(&out);
        }
        free(s), ids_free(&want), ids_free(&got);
    }
    ok(!wrong, "%s: %d texts (%d wrong)", name, count, wrong);
    buf_free(&b), tokenc_free(small), tokenc_free(usual), tokenc_free(other), tok_free(t);
}

/* Random code points: most pieces are new, so the tables turn over. */
static void turnover(void)
{
    Tok *t = ascii();
    TokEnc *e = tokenc_sized(t, 10), *big = tokenc_new(t);
    int wrong = 0;
    for (int k = 0; k < 300; k++) {
        Buf b = {0};
        for (int i = 0; i < 1000; i++) {
            char c[4];
            uint32_t cp = (uint32_t)(below(4)   ? 32 + below(96)
                                     : below(8) ? below(0xd000)
                                                : 0x10000 + below(0x20000));
            buf_add(&b, c, (size_t)utf8_put(c, cp));
        }
        Ids x = {0}, y = {0}, want = {0};
        tok_encode(e, b.s, b.n, &x), tok_encode(big, b.s, b.n, &y);
        if (k % 20 == 0) naive_text(t, b.s, b.n, &want), wrong += !same(x.id, x.n, &want);
        wrong += !same(x.id, x.n, &y);
        ids_free(&x), ids_free(&y), ids_free(&want), buf_free(&b);
    }
    ok(!wrong, "300,000 random code points (%d texts wrong)", wrong);
    tokenc_free(e), tokenc_free(big), tok_free(t);
}

int main(void)
{
    static const char *const tier[] = { "base", "avx2", "avx512" };
    rng_init(&rng, 12, 0);
    for (int i = 0; i < 3; i++) {
        if (!cpu_runs(tier[i])) continue;
        printf("# %s\n", tier[i]);
        setenv("PIPEGPT_CPU", tier[i], 1);
        piece_ways();
        wide_pieces();
        texts(ascii(), "a small vocabulary", 3000);
        texts(wild(26, 300, 12), "merges at random", 2000);
        texts(large(), "70,000 merges", 1000);
    }
    unsetenv("PIPEGPT_CPU");
    renumbered();
    chars();
    long_pieces();
    turnover();
    return done();
}
