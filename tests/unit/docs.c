/* docs.h: what is a row, what is skipped, what is refused and how it is said. */
#include "tap.h"
#include "text/docs.h"

static char path[] = "/tmp/docs-test-XXXXXX";

static void put(const char *s, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(s, 1, n, f) != n || fclose(f)) abort();
}

static void read_all(void *arg)
{
    (void)arg;
    DocReader *r = docs_open(path);
    Doc d;
    while (doc_next(r, &d)) {}
    docs_close(r);
}

static int refused(const char *text, const char *why)
{
    put(text, strlen(text));
    return dies(1, why, read_all, NULL);
}

static void good(void)
{
    static const char in[] = "\xEF\xBB\xBF{\"text\":\"a\\u0000b\",\"id\":7}\r\n\n \t \r\n"
                             "  {\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}  \n"
                             "{\"text\":\"\"}";
    put(in, sizeof in - 1);
    DocReader *r = docs_open(path);
    Doc d;
    ok(doc_next(r, &d) && d.len == 3 && !memcmp(d.text, "a\0b", 3), "BOM, NUL: the text whole");
    ok(d.line == 1 && !d.messages && d.raw_len == 26 && d.raw[0] == '{' && d.raw[25] == '}',
       "the line as it stands, without BOM and CR LF");
    int64_t id = 0;
    ok(json_int(json_get(doc_row(r), "id"), &id) && id == 7, "other fields are there");
    ok(doc_next(r, &d) && d.line == 4 && !d.text && d.messages->n == 1,
       "blank lines skipped; messages");
    ok(doc_next(r, &d) && d.line == 5 && d.text && d.len == 0,
       "empty text; a last line without LF");
    ok(!doc_next(r, &d) && !doc_next(r, &d), "the end, twice");
    docs_close(r);
}

static void long_line(void)
{
    size_t n = 3 << 20;
    Buf b = {0};
    buf_str(&b, "{\"text\":\"");
    for (size_t i = 0; i < n; i++) buf_char(&b, 'x');
    buf_str(&b, "\"}\n{\"text\":\"y\"}\n");
    put(b.s, b.n);
    DocReader *r = docs_open(path);
    Doc d;
    ok(doc_next(r, &d) && d.len == n && doc_next(r, &d) && d.len == 1 && !doc_next(r, &d),
       "a line of 3 MB, then a short one");
    docs_close(r);
    buf_free(&b);
}

static void bad(void)
{
    ok(refused("{\"text\":\"a\"}\n{\"text\":3}\n", "line 2: \"text\" is not a string"),
       "text a number");
    ok(refused("{\"text\":null}\n", "line 1: \"text\" is not a string"), "text null");
    ok(refused("\n{\"messages\":{}}\n", "line 2: \"messages\" is not an array"),
       "messages an object");
    ok(refused("{\"txt\":\"a\"}", "line 1: neither"), "neither text nor messages");
    ok(refused("[1]\n", "line 1: not a JSON object"), "an array");
    ok(refused("\"text\"\n", "line 1: not a JSON object"), "a string");
    ok(refused("{\"text\":\"a\"}\n{\"text\":\"a\n", "line 2, byte "),
       "a cut row names line and byte");
    ok(refused("{\"text\":\"a\"} x\n", "line 1, byte "), "something after the row");
    ok(refused("{\"text\":\"a\xFF\"}\n", "line 1, byte "), "malformed UTF-8");
    ok(refused("{\"text\":\"a\",\"text\":\"b\"}\n", "line 1, byte "), "a key twice");
    ok(refused("\xEF\xBB\xBF\n\xEF\xBB\xBF{\"text\":\"a\"}\n", "line 2"),
       "a BOM on line 2 is no BOM");
}

/* Blocks of any size hold the same documents, with the same lines. */
static void blocks(void)
{
    static const char in[] =
        "\xEF\xBB\xBF{\"text\":\"one\"}\r\n\n"
        "{\"text\":\"a much longer text than the others have\",\"id\":[{}]}\n  \n"
        "{\"messages\":[]}\n{\"\\u0074ext\":\"q\\n\"}\n"
        "{\"text\":\"\xE6\x97\xFF!\"}\n{\"text\":\"end\"}";
    int wrong = 0;
    put(in, sizeof in - 1);
    for (size_t want = 1; want < 200; want++) {
        DocReader *r = docs_open(path), *q = docs_open(path);
        DocParser *p = docp_new(DOCS_REPLACE);
        DocBlock b = {0};
        Doc d, x;
        DocError e;
        uint64_t before = 0;
        docs_invalid(q, DOCS_REPLACE);
        while (docs_block(r, &b, want)) {
            while (docp_next(p, &b, &d, &e) > 0) {
                wrong += !doc_next(q, &x) || before + d.line != x.line || d.len != x.len ||
                         (d.text && memcmp(d.text, x.text, d.len)) || !d.messages != !x.messages ||
                         d.bad != x.bad || d.raw_len != x.raw_len ||
                         memcmp(d.raw, x.raw, d.raw_len);
            }
            before += b.line;
        }
        wrong += doc_next(q, &x) || before != 8;
        docs_close(r), docs_close(q), docp_free(p), buf_free(&b.b);
    }
    ok(!wrong, "blocks of 1 to 199 bytes");
}

static void replaced(void)
{
    static const char in[] = "{\"text\":\"a\xFF\xFE \xE6\xAD\",\"\xFF\":1}\n{\"text\":\"b\"}\n";
    put(in, sizeof in - 1);
    DocReader *r = docs_open(path);
    Doc d;
    docs_invalid(r, DOCS_REPLACE);
    ok(doc_next(r, &d) && d.bad == 4 && d.len == 11 &&
       !memcmp(d.text, "a\xEF\xBF\xBD\xEF\xBF\xBD \xEF\xBF\xBD", 11),
       "a U+FFFD for each ill-formed subpart");
    ok(doc_row(r) && doc_row(r)->n == 2 && d.raw_len == 23, "the row repaired, its line as it is");
    ok(doc_next(r, &d) && d.bad == 0 && d.len == 1 && !doc_next(r, &d), "the next line is read");
    docs_close(r);
}

static void read_replaced(void *arg)
{
    (void)arg;
    DocReader *r = docs_open(path);
    Doc d;
    docs_invalid(r, DOCS_REPLACE);
    while (doc_next(r, &d)) {}
    docs_close(r);
}

static void replaced_bad(void)
{
    static const char in[] = "{\"text\":\"a\xFF\xFF\xFF\" 1}";
    put(in, sizeof in - 1);
    ok(dies(1, "line 1, byte 16: ',' or '}' was expected", read_replaced, NULL),
       "an error after what was replaced names the byte of the file");
    static const char outside[] = "{\"text\":\"a\"}\n\xFF{\"text\":\"a\"}";
    put(outside, sizeof outside - 1);
    ok(dies(1, "line 2, byte 1", read_replaced, NULL), "bytes outside strings stay wrong");
}

int main(void)
{
    int fd = mkstemp(path);
    if (fd < 0) abort();
    close(fd);
    good();
    long_line();
    bad();
    blocks();
    replaced();
    replaced_bad();
    unlink(path);
    return done();
}
