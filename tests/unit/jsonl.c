/* jsonl.h against json.h: the same verdict and the same text, on rows made at random and
 * damaged. */
#include "text/jsonl.h"
#include "text/jsonl_int.h"
#include "base/json.h"
#include "base/rng.h"
#include "tap.h"

static Arena arena;
static Buf out;
static Rng rng;
static const char *const atoms[] = {
    "a", "Zq", " ", "the quick brown fox jumps over the lazy dog, and on it goes", "\\n", "\\\"",
    "\\\\", "\\/", "\\u0041", "\\u0000", "\\ud83d\\ude00", "\\ud83d", "\\ude00", "\\uD83Dx",
    "\\ud83d\\ud83d\\ude00\\ude00", "\xc3\xa9", "\xe6\x97\xa5\xe6\x9c\xac", "\xf0\x9f\x98\x80",
    "\xef\xbf\xbd", "\x7f", "\\t\\r\\b\\f", "0123456789abcdef0123456789abcde" };

static uint64_t below(uint64_t n) { return rng_below(&rng, n); }

static void put_string(Buf *b)
{
    buf_char(b, '"');
    for (uint64_t k = below(5); k; k--) buf_str(b, atoms[below(sizeof atoms / sizeof *atoms)]);
    buf_char(b, '"');
}

static void put_value(Buf *b, int depth)
{
    static const char *const flat[] = {
        "0", "-1.5e+10", "12", "1E3", "true", "false", "null", " 7 ", "-0.0", "[]", "{}",
        "[ 1 , [ ] ]", "{\"text\":1,\"b\":[{}]}" };
    uint64_t k = depth < 4 ? below(8) : below(6);
    if (k < 3) put_string(b);
    else if (k < 6) buf_str(b, flat[below(sizeof flat / sizeof *flat)]);
    else if (k == 6) {
        buf_char(b, '[');
        for (uint64_t n = below(4); n; n--) put_value(b, depth + 1), buf_str(b, n > 1 ? "," : "");
        buf_char(b, ']');
    } else {
        buf_char(b, '{');
        for (uint64_t n = below(4); n; n--) {
            buf_printf(b, "\"k%d\" :", (int)below(9));
            put_value(b, depth + 1);
            buf_str(b, n > 1 ? ", " : "");
        }
        buf_char(b, '}');
    }
}

static void put_row(Buf *b)
{
    buf_clear(b);
    buf_str(b, below(3) ? "{" : " {\t");
    uint64_t n = 1 + below(4), at = below(n + 1);
    for (uint64_t i = 0; i < n; i++) {
        if (i) buf_str(b, below(2) ? "," : " , ");
        if (i == at) {
            buf_str(b, below(2) ? "\"text\":" : "\"text\" : ");
            if (below(10)) put_string(b); else put_value(b, 0);
        } else {
            buf_printf(b, "\"k%d\":", (int)(below(20) ? i : below(3)));
            put_value(b, 0);
        }
    }
    buf_str(b, below(3) ? "}" : " } \r");
}

/* 0: the two agree; *text: json_parse() finds one, *took: jsonl_text() does */
static int differ(const Buf *b, bool *text, bool *took)
{
    const char *err;
    size_t at;
    char *s = xmalloc(b->n + JSONL_PAD);
    memcpy(s, b->s, b->n);
    memset(s + b->n, below(2) ? '"' : 0, JSONL_PAD);
    arena_reset(&arena);
    const Json *row = json_parse(&arena, s, b->n, &err, &at), *t = json_get(row, "text");
    *text = t && t->kind == J_STR && !json_get(row, "messages");
    *took = jsonl_text(&out, s, b->n);
    int bad = *took && (!*text || t->len != out.n || memcmp(t->s, out.s, out.n));
    if (bad) printf("# %.*s\n", (int)b->n, b->s);
    free(s);
    return bad;
}

static void random_rows(void)
{
    Buf b = {0};
    int bad = 0, texts = 0, missed = 0, damaged = 0;
    bool text, took;
    for (int k = 0; k < 60000; k++) {
        put_row(&b);
        bad += differ(&b, &text, &took);
        texts += text;
        missed += text && !took;
        for (uint64_t i = below(3); i-- < 2; ) {
            uint64_t p = below(b.n);
            static const char marks[] = "\"\\{}[],:u0";
            if (below(2)) b.s[p] = below(3) ? (char)below(256) : marks[below(10)];
            else b.n = p + 1;
        }
        damaged += differ(&b, &text, &took);
    }
    ok(!bad && texts > 20000, "%d rows with a text, as json_parse() finds it", texts);
    ok(!missed, "none of them left to json_parse()");
    ok(!damaged, "damaged rows: none is accepted that json_parse() refuses");
    buf_free(&b);
}

/* Strings over many blocks of 64 bytes: escapes and characters across their borders, runs of
 * backslashes, the least and the greatest characters of a length; in the second half what is no
 * UTF-8 and no JSON among them. */
static void long_strings(void)
{
    static const char *const good[] = {
        "\\\\", "\\\\\\\\", "\\\"", "\\n", "\\/\\b\\f\\r\\t", "\\u005c", "\\\\u", "a", "bc", " def ",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde", "\xc2\x80", "\xdf\xbf",
        "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80",
        "\xf4\x8f\xbf\xbf", "\xe4\xb8\xad\xe6\x96\x87\xe5\xad\x97", "\x7f" };
    static const char *const bad[] = {
        "\\x", "\\\xc3\xa9", "\\", "\x80", "\xbf\xbf", "\xc0\x80", "\xc1\xbf", "\xc3", "\xe0\x9f\xbf",
        "\xed\xa0\x80", "\xe4\xb8", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
        "\xf0\x90\x80", "\xff", "\n", "\x1f", "\"" };
    enum { GOOD = sizeof good / sizeof *good, BAD = sizeof bad / sizeof *bad };
    Buf b = {0};
    int wrong = 0, missed = 0, damaged = 0;
    bool text, took;
    for (int k = 0; k < 60000; k++) {
        buf_clear(&b);
        buf_str(&b, "{\"text\":\"");
        int few = 1 + (int)below(GOOD), at = (int)below(GOOD);  /* some of them, so in long runs */
        for (uint64_t i = below(60), stop = k < 30000 ? 99 : below(60); i-- > 0; )
            if (i == stop) buf_str(&b, bad[below(BAD)]);
            else buf_str(&b, good[(at + (int)below((uint64_t)few)) % GOOD]);
        buf_str(&b, "\"}");
        if (k < 30000) wrong += differ(&b, &text, &took), missed += !took;
        else damaged += differ(&b, &text, &took) || text != took;
    }
    ok(!wrong && !missed, "long strings");
    ok(!damaged, "long strings with something wrong inside");
    buf_free(&b);
}

static bool takes(const char *s)
{
    Buf b = {0};
    bool text, took;
    buf_str(&b, s);
    bool bad = differ(&b, &text, &took);
    buf_free(&b);
    return took && !bad;
}

static void cases(void)
{
    static const char *const no[] = {
        "", " ", "{", "{}", "[]", "\"text\"", "{\"text\":1}", "{\"text\":null}", "{\"text\":\"a\"",
        "{\"text\":\"a}", "{\"text\":\"a\"}x", "{\"text\":\"a\"},", "{\"text\":\"a\",}",
        "{,\"text\":\"a\"}", "{\"text\" \"a\"}", "{\"text\":\"a\" \"b\":1}", "{'text':\"a\"}",
        "{\"text\":\"a\",\"text\":\"b\"}", "{\"b\":1,\"text\":\"a\",\"b\":2}",
        "{\"text\":\"a\",\"b\":{\"c\":1,\"c\":1}}", "{\"text\":\"a\",\"b\":01}",
        "{\"text\":\"a\",\"b\":-}", "{\"text\":\"a\",\"b\":1.}", "{\"text\":\"a\",\"b\":1e}",
        "{\"text\":\"a\",\"b\":+1}", "{\"text\":\"a\",\"b\":nul}", "{\"text\":\"a\",\"b\":[1,]}",
        "{\"text\":\"a\",\"b\":[,1]}", "{\"text\":\"a\",\"b\":[1}}", "{\"text\":\"a\",\"b\":{]}",
        "{\"text\":\"\\x\"}", "{\"text\":\"\\u12g4\"}", "{\"text\":\"\\u123\"}", "{\"text\":\"\\",
        "{\"text\":\"a\nb\"}", "{\"text\":\"a\x1f\"}", "{\"text\":\"\xff\"}",
        "{\"text\":\"\xc0\x80\"}",
        "{\"text\":\"\xed\xa0\x80\"}", "{\"text\":\"\xf4\x90\x80\x80\"}", "{\"text\":\"\xe6\x97\"}",
        "{\"text\":\"a\",\"b\":\"\xff\"}", "{\"text\":\"a\",\"\xff\":1}",
        "{\"messages\":[],\"text\":\"a\"}", "\xef\xbb\xbf{\"text\":\"a\"}" };
    int wrong = 0;
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (takes(no[i])) wrong++, printf("# taken: %s\n", no[i]);
    ok(!wrong, "%zu rows it must not take", sizeof no / sizeof *no);

    Buf b = {0};
    for (int deep = 62; deep <= 65; deep++) {       /* arrays inside the object */
        buf_clear(&b);
        buf_str(&b, "{\"text\":\"a\",\"b\":");
        for (int i = 0; i < deep; i++) buf_char(&b, '[');
        for (int i = 0; i < deep; i++) buf_char(&b, ']');
        buf_char(&b, '}');
        ok(takes(b.s) == (deep <= 63), "%d arrays in the object", deep);
    }
    for (int k = 0; k < 70; k++) {                  /* every alignment of the end, every tail */
        buf_clear(&b);
        buf_str(&b, "{\"text\":\"");
        for (int i = 0; i < k; i++) buf_char(&b, 'x');
        buf_str(&b, "\"}");
        if (!takes(b.s)) wrong++;
        b.s[b.n - 2] = 0, b.n -= 2;
        if (takes(b.s)) wrong++;
    }
    ok(!wrong, "texts of 0 to 69 bytes, whole and without their end");
    ok(takes("{\"text\":\"\\u0000\"}") && out.n == 1 && out.s[0] == 0, "NUL");
    buf_free(&b);
}

int main(void)
{
    static const struct { const char *name; JsonlCopy *copy; } way[] = {
        { "base", jsonl_copy_base },
#ifdef __x86_64__
        { "avx2", jsonl_copy_avx2 }, { "avx512", jsonl_copy_avx512 },
#endif
    };
    for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
        if (!jsonl_copy_runs(way[i].copy)) {
            skip("not on this processor", "strings copied with %s", way[i].name);
            continue;
        }
        printf("# strings copied with %s\n", way[i].name);
        jsonl_copy = way[i].copy;
        rng_init(&rng, 5, 0);
        random_rows();
        long_strings();
        cases();
    }
    buf_free(&out);
    arena_free(&arena);
    return done();
}
