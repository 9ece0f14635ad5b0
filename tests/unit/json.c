#include "tap.h"
#include "base/json.h"
#include <float.h>
#include <math.h>
#include <stdint.h>

static Arena a;
static const char *err;
static size_t at;

static Json *parse(const char *s) { arena_reset(&a); err = NULL; at = 999999;
    return json_parse(&a, s, strlen(s), &err, &at); }

/* Write a tree back: what was parsed, in a canonical form. */
static void show(Buf *b, const Json *j)
{
    if (j->kind == J_STR) json_str(b, j->s, j->len);
    else if (j->kind == J_NUM) json_num(b, j->num);
    else if (j->kind == J_ARR || j->kind == J_OBJ) {
        buf_char(b, j->kind == J_ARR ? '[' : '{');
        int n = 0;
        for (const Json *m = j->child; m; m = m->next, n++) {
            if (n) buf_char(b, ',');
            if (j->kind == J_OBJ) { json_str(b, m->key, m->key_len); buf_char(b, ':'); }
            show(b, m);
        }
        if (n != j->n) buf_str(b, "(n is wrong)");
        buf_char(b, j->kind == J_ARR ? ']' : '}');
    } else buf_str(b, j->kind == J_NULL ? "null" : j->b ? "true" : "false");
}

static int same(const char *s, const char *want)
{
    Json *j = parse(s);
    if (!j) { printf("# %s: %s at %zu\n", s, err, at); return 0; }
    Buf b = {0};
    show(&b, j);
    int good = !strcmp(b.s, want);
    if (!good) printf("# got %s\n", b.s);
    buf_free(&b);
    return good;
}

static int str_is(const char *s, const char *want, size_t n)
{
    Json *j = parse(s);
    return j && j->kind == J_STR && j->len == n && !memcmp(j->s, want, n) && !j->s[n];
}

static void good_ones(void)
{
    ok(same(" { \"a\" : [ 1 , -2.5e-3 , true , false , null , \"x\" , { } , [ ] ] }\r\n\t",
            "{\"a\":[1,-0.0025,true,false,null,\"x\",{},[]]}"), "all kinds, blanks everywhere");
    ok(same("7", "7") && same("\"\"", "\"\"") && same("null", "null") && same("-0", "-0"),
        "lone values");
    ok(same("{\"\":{\"\":0},\"a\":{\"a\":1}}", "{\"\":{\"\":0},\"a\":{\"a\":1}}"),
        "one key at two depths");
    ok(str_is("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\"",
        "\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac", 14), "escapes");
    ok(str_is("\"a\\u0000b\"", "a\0b", 3), "NUL in a string");
    ok(str_is("\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80", 4), "a surrogate pair joins");
#define FFFD "\xef\xbf\xbd"
    ok(str_is("\"a\\ud800b\"", "a" FFFD "b", 5), "a lone high half");
    ok(str_is("\"\\udc00\"", FFFD, 3) && str_is("\"\\ud800\"", FFFD, 3), "lone halves at the end");
    ok(str_is("\"\\ud83d\\ud83d\\ude00\\ude00\"", FFFD "\xf0\x9f\x98\x80" FFFD, 10),
        "halves around a pair");
    ok(str_is("\"\\ud800\\u0041\"", FFFD "A", 4) && str_is("\"\\ud800\\n\"", FFFD "\n", 4),
        "a high half before another escape");
    ok(str_is("\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\xee\x80\x80\xef\xbf\xbf\"",
        "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\xee\x80\x80\xef\xbf\xbf", 14), "raw UTF-8 to U+10FFFF");

    Json *j = parse("{\"k\": [1, {\"x\" : 2 }], \"t\":\"e\\n\"}");
    const Json *k = json_get(j, "k");
    ok(k && k->n == 2 && k->src_len == 15 && !memcmp(k->src, "[1, {\"x\" : 2 }]", 15),
        "src is a value's own text");
    ok(json_get(j, "t")->src_len == 5 && j->src_len == 33 && json_is_str(json_get(j, "t"), "e\n"),
        "src of a string and of the root");
    ok(!json_get(j, "x") && !json_get(k, "x") && !json_get(NULL, "x") && !json_is_str(k, ""),
        "json_get of what is not there");
}

static int bad(const char *s, size_t offset, const char *text)
{
    Json *j = parse(s);
    if (!j && at == offset && strstr(err, text)) return 1;
    printf("# %s: %s at %zu\n", s, j ? "accepted" : err, at);
    return 0;
}

static void bad_ones(void)
{
    static const struct { const char *s; size_t at; const char *text; } t[] = {
        { "", 0, "ends where" }, { "  ", 2, "ends where" }, { "1 2", 2, "follows" }, { "{} x", 3,
            "follows" },
        { "[1,]", 3, "a value" }, { "[,1]", 1, "a value" }, { "[1 2]", 3, "','" }, { "[1", 2,
            "inside an array" },
        { "{\"a\":1,}", 7, "a key" }, { "{a:1}", 1, "a key" }, { "{\"a\"}", 4, "':'" }, {
            "{\"a\":}", 5, "a value" },
        { "{\"a\":1", 6, "inside an object" }, { "[1}", 2, "','" }, { "{\"a\":1]", 6, "','" }, {
            "{1:2}", 1, "a key" },
        { "]", 0, "a value" }, { "nul", 0, "a value" }, { "nulll", 4, "follows" }, { "True", 0,
            "a value" },
        { "NaN", 0, "a value" }, { "Infinity", 0, "a value" }, { "-Infinity", 0, "number" }, {
            "'a'", 0, "a value" },
        { "01", 0, "number" }, { "-01", 0, "number" }, { "1.", 0, "number" }, { ".5", 0,
            "a value" }, { "1e", 0, "number" },
        { "1e+", 0, "number" }, { "-", 0, "number" }, { "+1", 0, "a value" }, { "1.e1", 0,
            "number" }, { "0x10", 1, "follows" },
        { "\"a", 0, "quote" }, { "\"a\\", 2, "escape" }, { "\"\\x\"", 1, "escape" }, {
            "\"\\u12g4\"", 1, "escape" },
        { "\"\\u123\"", 1, "escape" }, { "\"\\u123", 1, "escape" }, { "\"a\nb\"", 2, "control" },
            { "\"\x1f\"", 1, "control" },
        { "\"\x80\"", 1, "UTF-8" }, { "\"\xc0\x80\"", 1, "UTF-8" }, { "\"\xe0\x9f\xbf\"", 1,
            "UTF-8" }, { "\"\xed\xa0\x80\"", 1, "UTF-8" },
        { "\"\xf4\x90\x80\x80\"", 1, "UTF-8" }, { "\"\xf0\x8f\xbf\xbf\"", 1, "UTF-8" }, {
            "\"abcdefghi\xe2\x82\"", 10, "UTF-8" },
        { "\"\xf5\x80\x80\x80\"", 1, "UTF-8" }, { "\xef\xbb\xbf{}", 0, "a value" }, { "//c\n1", 0,
            "a value" }, { "\"a\xe2\x82", 2, "UTF-8" },
        { "{\"a\":1,\"b\":2,\"a\":3}", 17, "twice" }, { "{\"\\u0061\":1,\"a\":2}", 16, "twice" },
            { "[{\"a\":1,\"a\":{}}]", 12, "twice" },
        { "\"\\ud800\\u00\"", 7, "escape" },
    };
    int n = 0;
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) n += bad(t[i].s, t[i].at, t[i].text);
    ok(n == sizeof t / sizeof *t, "%d malformed texts are refused, with offset and reason", n);
    arena_reset(&a);
    ok(!json_parse(&a, "\"a\0b\"", 5, &err, &at) && at == 2 && !json_parse(&a, "1\0", 2, &err,
        &at) && at == 1, "raw NUL");

    /* Every prefix of a valid document is refused (and, under the sanitizer, read in bounds). */
    static const char doc[] =
        "{\"a\\u00e9\\ud83d\\ude00\xc3\xa9\":[1.5e+3,true,null,{\"b\":\"\\n\"}]}";
    n = 0;
    for (size_t i = 0; i < sizeof doc - 1; i++) {
        char *s = malloc(i + 1);
        memcpy(s, doc, i);
        arena_reset(&a);
        n += json_parse(&a, s, i, &err, &at) == NULL && at <= i;
        free(s);
    }
    ok(n == sizeof doc - 1 && parse(doc), "every prefix of a document is refused");
}

static void sizes(void)
{
    Buf b = {0};
    for (int i = 0; i < 64; i++) buf_char(&b, '[');
    for (int i = 0; i < 64; i++) buf_char(&b, ']');
    ok(parse(b.s), "nested 64 deep");
    buf_clear(&b);
    for (int i = 0; i < 65; i++) buf_char(&b, '[');
    for (int i = 0; i < 65; i++) buf_char(&b, ']');
    ok(!parse(b.s) && at == 64 && strstr(err, "deeper"), "65 is refused");
    buf_clear(&b);
    for (int i = 0; i < 100000; i++) buf_str(&b, i % 2 ? "[" : "{\"a\":");
    ok(!parse(b.s) && strstr(err, "deeper"), "and 100,000");

    buf_clear(&b);
    buf_char(&b, '{');
    for (int i = 0; i < 200000; i++) buf_printf(&b, "%s\"k%d\":%d", i ? "," : "", i, i);
    size_t n = b.n;
    buf_char(&b, '}');
    Json *j = parse(b.s);
    ok(j && j->n == 200000 && json_get(j, "k199999")->num == 199999, "200,000 members, quickly");
    b.n = n;
    buf_str(&b, ",\"k77\":1,\"k3\":2}");
    ok(!parse(b.s) && at == n + 7 && strstr(err, "twice"),
        "the first double key of a large object is named");
    buf_clear(&b);
    for (int i = 0; i < 100000; i++) buf_str(&b, i ? "," : "[");
    ok(!parse(b.s), "commas only");
    buf_free(&b);
}

static int int_is(const char *s, int64_t want)
{
    int64_t x = 12345;
    return json_int(parse(s), &x) && x == want;
}
static int no_int(const char *s) { int64_t x; return !json_int(parse(s), &x); }

static int num_is(double x, const char *want)
{
    Buf b = {0};
    json_num(&b, x);
    int good = !strcmp(b.s, want);
    if (!good) printf("# %.17g became %s\n", x, b.s);
    buf_free(&b);
    return good;
}

static void numbers(void)
{
    ok(int_is("9223372036854775807", INT64_MAX) && int_is("-9223372036854775808", INT64_MIN),
        "the limits of 64 bits");
    ok(no_int("9223372036854775808") && no_int("-9223372036854775809")
        && no_int("99999999999999999999999"), "one past");
    ok(int_is("9007199254740993", 9007199254740993) && int_is("-0", 0) && int_is("1e3", 1000)
        && int_is("-2.0", -2), "exact integers");
    ok(no_int("1.5") && no_int("1e300") && no_int("1e-1") && no_int("\"1\"") && no_int("true")
        && !json_int(NULL, NULL), "what is none");
    ok(parse("1e999")->num == HUGE_VAL && parse("1e-999")->num == 0 && !strcmp(parse("1e999")->s,
        "1e999"), "beyond double");

    ok(num_is(0.1, "0.1") && num_is(1.0 / 3, "0.3333333333333333") && num_is(0.1 + 0.2,
        "0.30000000000000004"), "shortest that reads back");
    ok(num_is(3, "3") && num_is(1e15, "1000000000000000") && num_is(-9007199254740992.0,
        "-9007199254740992"), "integers without exponent");
    ok(num_is(1e300, "1e+300") && num_is(0, "0") && num_is(NAN, "null") && num_is(-INFINITY,
        "null"), "large, zero, none");
    Buf b = {0};
    int good = 1;
    uint64_t x = 88172645463325252u;
    for (int i = 0; i < 200000; i++) {
        double d;
        x ^= x << 13; x ^= x >> 7; x ^= x << 17;
        memcpy(&d, &x, 8);
        if (!isfinite(d)) continue;
        buf_clear(&b);
        json_num(&b, d);
        Json *j = parse(b.s);
        good &= j && j->kind == J_NUM && j->num == d;
    }
    ok(good, "200,000 bit patterns come back equal");
    buf_clear(&b);
    json_num(&b, DBL_TRUE_MIN);
    ok(parse(b.s)->num == DBL_TRUE_MIN, "the smallest");
    buf_free(&b);
}

static int quoted(const char *s, size_t n, const char *want)
{
    Buf b = {0};
    json_str(&b, s, n);
    int good = !strcmp(b.s, want);
    if (!good) printf("# got %s\n", b.s);
    buf_free(&b);
    return good;
}

static void writing(void)
{
    ok(quoted("a\"\\/\b\f\n\r\t\x01\x1f\x7f", 12,
        "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\""), "escapes");
    ok(quoted("\0", 1, "\"\\u0000\"") && quoted(NULL, 0, "\"\"") && quoted("\xc3\xa9", 2,
        "\"\xc3\xa9\""), "NUL, empty, UTF-8");
    /* the replacement as Python's bytes.decode(errors="replace") does it */
    ok(quoted("a\xf0\x9f\x98z", 5, "\"a" FFFD "z\"") && quoted("\xed\xa0\x80", 3,
        "\"" FFFD FFFD FFFD "\"")
       && quoted("\xe2\x82", 2, "\"" FFFD "\"") && quoted("\xc0\xaf\xf8", 3,
           "\"" FFFD FFFD FFFD "\"")
       && quoted("\xf4\x90\x80\x80", 4, "\"" FFFD FFFD FFFD FFFD "\""),
           "one U+FFFD per maximal ill-formed subpart");
    Buf b = {0}, q = {0};
    uint64_t x = 1;
    for (int i = 0; i < 100000; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        uint32_t c = (uint32_t)(x >> 40) % 0x300;
        if (c < 0x80) buf_char(&b, (char)c);
        else { buf_char(&b, (char)(0xc0 | c >> 6)); buf_char(&b, (char)(0x80 | (c & 63))); }
    }
    json_str(&q, b.s, b.n);
    arena_reset(&a);
    Json *j = json_parse(&a, q.s, q.n, &err, &at);
    ok(j && j->len == b.n && !memcmp(j->s, b.s, b.n),
        "what json_str writes, json_parse reads back");
    int same = 1;
    for (size_t from = 0, n = 0; from + 64 < b.n && from < 50000; from++, n = (n + 1) % 40) {
        size_t to = from + n;
        while ((b.s[from] & 0xc0) == 0x80) from++;
        while ((b.s[to] & 0xc0) == 0x80) to++;
        Buf v = {0}, w = {0};
        json_str(&v, b.s + from, to - from), json_str_valid(&w, b.s + from, to - from);
        same &= v.n == w.n && !memcmp(v.s, w.s, v.n);
        buf_free(&v), buf_free(&w);
    }
    ok(same, "json_str_valid writes the same");
    buf_free(&b);
    buf_free(&q);
}

int main(void)
{
    good_ones();
    bad_ones();
    sizes();
    numbers();
    writing();
    arena_free(&a);
    return done();
}
