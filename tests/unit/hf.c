/* tokenizer.json: what is refused, by name, and what it is read as. */
#include "base/io.h"
#include "base/rng.h"
#include "tap.h"
#include "text/convert.h"
#include "text/tok_int.h"
#include "text/utf8.h"

/* A file of parts; NULL: a default. The 256 bytes have the ids 1 .. 256, 0 is <s>. */
typedef struct Parts {
    const char *added, *normalizer, *pre, *vocab, *merges, *model, *top;
} Parts;

static void make(Buf *b, Parts p)
{
    buf_printf(b, "{\"version\": \"1.0\", \"added_tokens\": [%s], \"normalizer\": %s, "
               "\"pre_tokenizer\": %s, \"model\": {\"type\": \"BPE\", %s \"vocab\": {\"<s>\": 0",
               p.added ? p.added : "{\"id\": 0, \"content\": \"<s>\", \"special\": true}",
               p.normalizer ? p.normalizer : "null", p.pre ? p.pre :
               "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}", p.model ? p.model : "");
    uint32_t next = 256;
    for (int i = 0; i < 256; i++) {
        char c[5] = {0};
        bool self = (i > 32 && i < 127) || (i > 160 && i != 173);
        utf8_put(c, self ? (uint32_t)i : next);
        next += !self;
        buf_printf(b, ", \"%s%s\": %d", i == '"' || i == '\\' ? "\\" : "", c, 256 - i);
    }
    buf_printf(b, "%s}, \"merges\": [%s]}%s}", p.vocab ? p.vocab :
               ", \"ab\": 257, \"\xc4\xa0" "ab\": 258",
               p.merges ? p.merges : "\"a b\", [\"\xc4\xa0\", \"ab\"]", p.top ? p.top : "");
}

static const Buf *input;
static void parse(void *arg)
{
    (void)arg;
    tok_free(hf_parse("f", input->n ? input->s : "", input->n));
}

static void refused(Parts p, const char *says)
{
    Buf b = {0};
    make(&b, p);
    input = &b;
    ok(dies(1, says, parse, NULL), "refused: %s", says);
    buf_free(&b);
}

#define SPLIT(regex, behavior, invert) "{\"type\": \"Sequence\", \"pretokenizers\": [" \
    "{\"type\": \"Split\", \"pattern\": {" regex "}, \"behavior\": \"" behavior "\", \"invert\": " \
    invert "}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}]}"
#define QWEN "\"Regex\": \"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+" \
    "|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+" \
    "|\\\\s+(?!\\\\S)|\\\\s+\""

static void by_name(void)
{
    refused((Parts){ .normalizer = "{\"type\": \"Lowercase\"}" },
            "normalizer is not one that is known here: \"Lowercase\"");
    refused((Parts){ .normalizer = "3" }, "normalizer");
    refused((Parts){ .pre = "null" }, "has no pre-tokenizer");
    refused((Parts){ .pre = "{\"type\": \"Whitespace\"}" },
            "pre-tokenizer is not one that is known here: \"Whitespace\"");
    refused((Parts){ .pre = "{\"type\": \"ByteLevel\"}" }, "pre-tokenizer");
    refused((Parts){ .pre = "{\"type\": \"ByteLevel\", \"add_prefix_space\": true}" },
            "pre-tokenizer");
    refused((Parts){ .pre = "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                              "\"use_regex\": false}" },
            "pre-tokenizer");
    refused((Parts){ .pre = SPLIT("\"Regex\": \"\\\\w+\"", "Isolated", "false") },
            "a pattern that is not known here: \\w+");
    refused((Parts){ .pre = SPLIT("\"String\": \" \"", "Isolated", "false") }, "pre-tokenizer");
    refused((Parts){ .pre = SPLIT(QWEN, "Removed", "false") }, "pre-tokenizer");
    refused((Parts){ .pre = SPLIT(QWEN, "Isolated", "true") }, "pre-tokenizer");
    refused((Parts){ .pre = SPLIT(QWEN, "Contiguous", "false") }, "pre-tokenizer");
    refused((Parts){ .model = "\"dropout\": 0.1," }, "dropout");
    refused((Parts){ .model = "\"end_of_word_suffix\": \"</w>\"," }, "end_of_word_suffix");
    refused((Parts){ .added = "{\"id\": 0, \"content\": \"<s>\", \"lstrip\": true, "
                                "\"special\": true}" },
            "\"lstrip\"");
    refused((Parts){ .added = "{\"id\": 0, \"content\": \"  \", \"special\": false}" },
            "neither special nor a name");
    refused((Parts){ .added = "{\"id\": 3, \"content\": \"<s>\", \"special\": true}" },
            "'<s>' has the ids 0 and 3");
    refused((Parts){ .added = "{\"id\": 9, \"content\": \"<t>\", \"special\": true}" },
            "two tokens have the id 9");
    refused((Parts){ .added = "{\"id\": -1, \"content\": \"<t>\"}" }, "without a valid id");
    refused((Parts){ .added = "{\"id\": 1.5, \"content\": \"<t>\"}" }, "without a valid id");
    refused((Parts){ .added = "{\"id\": 700, \"content\": \"\"}" }, "no content");
    refused((Parts){ .added = "7" }, "without a valid id");
    refused((Parts){ .added = "{\"id\": 2147483647, \"content\": \"<t>\"}" }, "too many gaps");
}

static void broken(void)
{
    refused((Parts){ .vocab = ", \"ab\": 257, \"ab c\": 258" },
            "token 258 is not bytes in their spelling");
    refused((Parts){ .vocab = ", \"ab\": 257, \"\xe6\x97\xa5\": 258" }, "token 258 is not bytes");
    refused((Parts){ .vocab = ", \"ab\": 257, \"\": 258" }, "token 258 has 0 bytes");
    refused((Parts){ .vocab = ", \"ab\": 5" }, "two tokens have the id 5");
    refused((Parts){ .vocab = ", \"ab\": \"5\"" }, "without a valid id");
    refused((Parts){ .vocab = ", \"ab\": 257, \"ab\": 258" }, "twice");
    refused((Parts){ .merges = "\"a b\", \"a b\"" }, "merges 0 and 1 are of the same two tokens");
    refused((Parts){ .merges = "\"a c\"" }, "makes no token");
    refused((Parts){ .merges = "\"a bb\"" }, "merge 0: 'bb' is no token");
    refused((Parts){ .merges = "\"ab\"" }, "merge 0 is not two tokens");
    refused((Parts){ .merges = "[\"a\"]" }, "merge 0 is not two tokens");
    refused((Parts){ .merges = "[\"a\", 1]" }, "merge 0 is not two tokens");
    refused((Parts){ .merges = "\"a  b\"" }, "is no token");
    refused((Parts){ .top = ", \"model\": {}" }, "twice");
    Buf b = {0};
    input = &b;
    ok(dies(1, "not a tokenizer", parse, NULL), "an empty file");
    buf_str(&b, "{\"text\": \"x\"}");
    ok(dies(1, "it has no model", parse, NULL), "another object");
    buf_clear(&b), buf_str(&b, "{\"model\": {\"type\": \"Unigram\", \"vocab\": []}}");
    ok(dies(1, "model is not one that is known here: \"Unigram\"", parse, NULL), "Unigram");
    buf_clear(&b), buf_str(&b, "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, "
        "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}}");
    ok(dies(1, "no token for the byte 00", parse, NULL), "bytes are missing");
    buf_clear(&b);
    for (int i = 0; i < 100000; i++) buf_char(&b, '[');
    ok(dies(1, "nested deeper", parse, NULL), "nested 100,000 deep");
    buf_free(&b);
}

static void parse_and_leave(void *arg) { parse(arg); fputs("f: whole", stderr); exit(1); }

static void damage(void)
{
    Buf b = {0}, cut = {0};
    Rng r;
    rng_init(&r, 1, 0);
    make(&b, (Parts){0});
    input = &cut;
    int bad = 0;
    for (size_t n = 0; n < b.n; n += n < 250 || n > b.n - 150 ? 1 : 61) {
        buf_clear(&cut), buf_add(&cut, b.s, n);
        bad += !dies(1, "not a tokenizer.json: byte", parse, NULL);
    }
    ok(!bad, "a file that is cut short is refused");
    for (int k = 0; k < 300; k++) {
        buf_clear(&cut), buf_add(&cut, b.s, b.n);
        cut.s[rng_below(&r, b.n)] ^= (char)(1 << rng_below(&r, 8));
        bad += !dies(1, "f: ", parse_and_leave, NULL);
    }
    ok(!bad, "changed files are read or refused (%d ended otherwise)", bad);
    buf_free(&b), buf_free(&cut);
}

static bool is(const Tok *t, const char *s, size_t n, const uint32_t *want, size_t k)
{
    PieceRoom room = {0};
    Ids v = {0};
    tok_piece(t, &room, s, n, &v);
    bool same = v.n == k && !memcmp(v.id, want, k * sizeof *want);
    ids_free(&v), piece_free(&room);
    return same;
}

static void meaning(void)
{
    Buf b = {0}, c = {0};
    make(&b, (Parts){ .pre = SPLIT(QWEN, "Removed", "true"), .normalizer = "{\"type\": \"NFC\"}",
         .added = "{\"id\": 300, \"content\": \"<|bos|>\"}, {\"id\": 0, \"content\": \"<s>\"}" });
    Tok *t = hf_parse("f", b.s, b.n);
    ok(tok_split(t) == SPLIT_QWEN2 && tok_nfc(t) && tok_vocab(t) == 301 &&
       tok_special(t, SP_BOS) == 300 &&
       tok_is_special(t, 0) && !tok_is_special(t, 299) && tok_byte_id(t, 'a') == 256 - 'a' &&
       tok_pair(t, 256 - 'a', 256 - 'b') == 257 && tok_find(t, " ab", 3) == 258 && !tok_plain(t) &&
       tok_find(t, "<s>", 3) < 0, "what a file is read as");
    hf_print(t, "f", tok_special(t, SP_BOS), &c);
    Tok *u = hf_parse("f", c.s, c.n);
    ok(tok_hash(t) == tok_hash(u), "written, read: the same");
    tok_free(t), tok_free(u);

    /* abab is a token that merging does not reach: it counts only with "ignore_merges". */
    Parts p = { .vocab = ", \"ba\": 257, \"ab\": 258, \"abab\": 259",
                .merges = "\"a b\", \"b a\"" };
    buf_clear(&b), make(&b, p);
    t = hf_parse("f", b.s, b.n);
    ok(is(t, "abab", 4, (uint32_t[]){ 258, 258 }, 2) &&
       is(t, "bab", 3, (uint32_t[]){ 256 - 'b', 258 }, 2),
       "merges go by their own order, not that of ids");
    buf_clear(&c), hf_print(t, "f", tok_special(t, SP_BOS), &c);
    tok_free(t), t = hf_parse("f", c.s, c.n);
    ok(is(t, "abab", 4, (uint32_t[]){ 258, 258 }, 2), "and again");
    p.model = "\"ignore_merges\": true,";
    buf_clear(&b), make(&b, p);
    u = hf_parse("f", b.s, b.n);
    ok(is(u, "abab", 4, (uint32_t[]){ 259 }, 1) &&
       is(u, "ababb", 5, (uint32_t[]){ 258, 258, 256 - 'b' }, 3) &&
       tok_hash(u) != tok_hash(t), "ignore_merges");
    tok_free(t), tok_free(u), buf_free(&b), buf_free(&c);
}

/* A tokenizer of merges, by way of JSON, is the same file. */
static void plain(void)
{
    static const uint32_t m[][2] = { {'a', 'b'}, {256, 0}, {'\n', ' '}, {0xff, 0xfe}, {257, 257} };
    Tok *t = tok_from_merges(m, 5);
    Buf b = {0};
    hf_print(t, "f", tok_special(t, SP_BOS), &b);
    Tok *u = hf_parse("f", b.s, b.n);
    ok(tok_hash(t) == tok_hash(u) && tok_plain(u) && tok_special(u, SP_OUTPUT_END) == 269,
       "a plain tokenizer keeps its hash");
    tok_free(t), tok_free(u), buf_free(&b);
}

int main(void)
{
    by_name();
    broken();
    damage();
    meaning();
    plain();
    return done();
}
