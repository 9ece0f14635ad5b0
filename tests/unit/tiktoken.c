/* Rank files: what is refused, base64, and encoding by tiktoken's rule with any set of tokens. */
#include "base/io.h"
#include "base/rng.h"
#include "tap.h"
#include "text/convert.h"
#include "text/tok_int.h"

static const char letters64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void line(Buf *b, const char *s, size_t n, int rank)
{
    for (size_t i = 0; i < n; i += 3) {
        unsigned x = 0;
        for (size_t j = 0; j < 3; j++) x = x << 8 | (i + j < n ? (unsigned char)s[i + j] : 0u);
        for (size_t j = 0; j < 4; j++)
            buf_char(b, i + j > n ? '=' : letters64[x >> (18 - 6 * j) & 63]);
    }
    buf_printf(b, " %d\n", rank);
}

static void all_bytes(Buf *b, int step)
{
    for (int i = 0; i < 256; i++) line(b, &(char){ (char)i }, 1, (i * step + 3) & 255);
}

static const Buf *input;
static void parse(void *arg)
{
    (void)arg;
    tok_free(tok_parse("f", input->n ? input->s : "", input->n, SPLIT_GPT2));
}
static void parse_unnamed(void *arg)
{
    (void)arg;
    tok_free(tok_parse("f", input->s, input->n, -1));
}

static void refused(const char *text, const char *says)
{
    Buf b = {0};
    all_bytes(&b, 1);
    buf_str(&b, text);
    input = &b;
    ok(dies(1, says, parse, NULL), "refused: %.*s: %s", (int)strcspn(text, "\r\n"), text, says);
    buf_free(&b);
}

static void hostile(void)
{
    refused("YWI 256\n", "line 257: not a token");
    refused("YWI= 256\nYWJj\n", "line 258: not a token");
    refused("YWI==256\n", "line 257");
    refused("YWJ= 256\n", "line 257");          /* bits past the last byte */
    refused("YW== 256 \n", "line 257");
    refused("YQ=A 256\n", "line 257");
    refused("YWI= 0256\n", "line 257");
    refused("YWI= -1\n", "line 257");
    refused("YWI= 99999999999\n", "line 257");
    refused("YWI= 2147483648\n", "line 257");
    refused("YWI= 256\r\r\n", "line 257");
    refused("YWI= 256\n\n\r\n \n", "line 260");
    refused("YWI= 256\rYWJj 257\n", "line 257");
    refused("==== 256\n", "line 257");
    refused("YWI= 3\n", "two tokens have the id 3");
    refused("YWI= 256\nYWI= 257\n", "tokens 256 and 257 have the same bytes");
    refused("YWI= 2000000000\n", "too many gaps");
    Buf b = {0};
    line(&b, "ab", 2, 0);
    input = &b;
    ok(dies(1, "no token for the byte 00", parse, NULL), "bytes are missing");
    buf_clear(&b), all_bytes(&b, 1);
    ok(dies(1, "ranks name no pattern", parse_unnamed, NULL), "no pattern is guessed");
    buf_clear(&b), buf_str(&b, "");
    ok(dies(1, "not a tokenizer file", parse, NULL), "an empty file");
    buf_str(&b, "hello 12 x\n");
    ok(dies(1, "not a tokenizer file", parse, NULL), "text");

    /* a^1 .. a^n less a few: not reached, and every token splits in many ways */
    char *s = xmalloc(2000);
    memset(s, 'a', 2000);
    buf_clear(&b), all_bytes(&b, 1);
    for (size_t n = 3; n < 1100; n++) line(&b, s, n, 255 + (int)n);
    ok(dies(1, "has a token of 1099 bytes", parse, NULL), "long tokens that are not reached");
    free(s), buf_free(&b);
}

/* Any cut of a file is a smaller file or refused; bytes changed at random likewise. */
static void parse_and_leave(void *arg) { parse(arg); fputs("f: whole", stderr); exit(1); }

static void damage(void)
{
    Buf b = {0}, cut = {0};
    all_bytes(&b, 1);
    line(&b, "ab", 2, 256), line(&b, "abab", 4, 257), line(&b, "bab", 3, 300);
    int bad = 0;
    Rng r;
    rng_init(&r, 1, 0);
    input = &cut;
    for (size_t n = b.n; n > b.n - 60; n--) {
        buf_clear(&cut), buf_add(&cut, b.s, n);
        bad += !dies(1, "f: ", parse_and_leave, NULL);
    }
    for (int k = 0; k < 300; k++) {
        buf_clear(&cut), buf_add(&cut, b.s, b.n);
        cut.s[b.n - 1 - rng_below(&r, 60)] ^= (char)(1 << rng_below(&r, 8));
        bad += !dies(1, "f: ", parse_and_leave, NULL);
    }
    ok(!bad, "cut and changed files are read or refused (%d ended otherwise)", bad);
    buf_free(&b), buf_free(&cut);
}

/* tiktoken's rule: the bytes of two neighbours are looked up, whatever made them. */
static void naive(const Tok *t, const char *s, size_t n, Ids *out)
{
    int whole = tok_find(t, s, n);
    if (whole >= 0) { ids_add(out, (uint32_t)whole); return; }
    size_t *end = xcalloc(n + 1, sizeof *end), k = n;
    for (size_t i = 0; i <= n; i++) end[i] = i;
    for (;;) {
        int best = -1;
        size_t at = 0;
        for (size_t i = 0; i + 2 <= k; i++) {
            int id = tok_find(t, s + end[i], end[i + 2] - end[i]);
            if (id >= 0 && (best < 0 || id < best)) best = id, at = i;
        }
        if (best < 0) break;
        memmove(end + at + 1, end + at + 2, (k - at - 1) * sizeof *end);
        k--;
    }
    for (size_t i = 0; i < k; i++)
        ids_add(out, (uint32_t)tok_find(t, s + end[i], end[i + 1] - end[i]));
    free(end);
}

static void random_ranks(void)
{
    Rng r;
    rng_init(&r, 2, 0);
    int wrong = 0, by_rank = 0, rounds = 0, unequal = 0;
    for (int k = 0; k < 200; k++) {
        Buf b = {0}, again = {0};
        int rank = 256, letters = 1 + (int)rng_below(&r, 3);
        char seen[400][8];
        size_t len[400], n = 0;
        all_bytes(&b, k % 3 ? 5 : 1);
        for (int i = 0; i < (k % 4 ? 12 : 60); i++) {
            char s[8];
            size_t m = 2 + rng_below(&r, k % 2 ? 2 : 5);
            bool old = false;
            for (size_t j = 0; j < m; j++) s[j] = (char)('a' + rng_below(&r, (uint64_t)letters));
            for (size_t j = 0; j < n; j++) old = old || (len[j] == m && !memcmp(seen[j], s, m));
            if (old) continue;
            memcpy(seen[n], s, m), len[n++] = m;
            line(&b, s, m, rank);
            rank += 1 + (rng_below(&r, 5) == 0);
        }
        Tok *t = tiktoken_parse("f", b.s, b.n, SPLIT_GPT2);
        by_rank += t->by_rank;
        PieceRoom room = {0};
        for (int i = 0; i < 100; i++, rounds++) {
            char s[300];
            size_t m = 1 + rng_below(&r, i % 4 ? 12 : sizeof s);
            for (size_t j = 0; j < m; j++) s[j] = (char)('a' + rng_below(&r, (uint64_t)letters));
            Ids got = {0}, want = {0};
            tok_piece(t, &room, s, m, &got);
            naive(t, s, m, &want);
            wrong += got.n != want.n || memcmp(got.id, want.id, got.n * sizeof *got.id);
            ids_free(&got), ids_free(&want);
        }
        tiktoken_print(t, "f", &again);
        Tok *u = tiktoken_parse("f", again.s, again.n, SPLIT_GPT2);
        unequal += tok_hash(u) != tok_hash(t) || again.n != b.n;
        piece_free(&room), tok_free(t), tok_free(u), buf_free(&b), buf_free(&again);
    }
    ok(!wrong && by_rank > 50 && by_rank < 190,
       "%d pieces by tiktoken's rule, %d of 200 files with tokens not reached (%d wrong)", rounds,
       by_rank, wrong);
    ok(!unequal, "written and read again");
}

static void base64(void)
{
    Buf b = {0};
    Tok *t;
    for (int i = 0; i < 256; i++) line(&b, &(char){ (char)i }, 1, i);
    buf_str(&b, "Zm8= 256\nZm9v 257\nZm9vYg== 258\n/+8= 260");  /* RFC 4648 */
    t = tiktoken_parse("f", b.s, b.n, SPLIT_NANOCHAT);
    ok(tok_find(t, "fo", 2) == 256 && tok_find(t, "foo", 3) == 257 && 
       tok_find(t, "foob", 4) == 258 && tok_find(t, "\xff\xef", 2) == 260, "base64");
    size_t n;
    ok(tok_vocab(t) == 261 && (tok_bytes(t, 259, &n), n == 0) && !tok_is_special(t, 259) &&
       tok_byte_lengths(t)[259] == 0 && !tok_plain(t) && tok_special(t, SP_BOS) < 0, "a gap");
    tok_free(t), buf_free(&b);
}

int main(void)
{
    base64();
    hostile();
    damage();
    random_ranks();
    return done();
}
