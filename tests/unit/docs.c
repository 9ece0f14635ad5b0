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

int main(void)
{
    int fd = mkstemp(path);
    if (fd < 0) abort();
    close(fd);
    good();
    long_line();
    bad();
    unlink(path);
    return done();
}
