/* gpt-sample's writer: what is out after each token, to a pipe and to a terminal; order of
 * samples. */
#include "../../gpt-sample/writer.c"
#include "tap.h"
#include <fcntl.h>

static int fd[2];
static Tok *tok;

static Writer *start(int flags, int terminal, const Prompt *p, int open)
{
    if (pipe(fd)) abort();
    fcntl(fd[0], F_SETFL, O_NONBLOCK);
    char *path = xasprintf("/dev/fd/%d", fd[1]);
    Writer *w = writer_new(out_open(path, 0), tok, NULL, flags, terminal);
    free(path);
    writer_prompt(w, p, 3, open);
    return w;
}

static void stop(Writer *w)
{
    out_close(w->out);
    writer_free(w);
    close(fd[0]);
    close(fd[1]);
}

/* Is `want` what has come since the last call? */
static int came(const char *want, size_t n)
{
    char got[4096];
    ssize_t k = read(fd[0], got, sizeof got);
    size_t have = k < 0 ? 0 : (size_t)k;
    if (have == n && !memcmp(got, want, n)) return 1;
    printf("# got %zu bytes: %.*s\n", have, (int)have, got);
    return 0;
}
#define CAME(s) came(s, sizeof(s) - 1)

static void feed(Writer *w, int sample, const char *bytes)
{
    for (const char *p = bytes; *p; p++) writer_token(w, sample, (unsigned char)*p);
}

static void pieces(void)
{
    Prompt p = { .text = "ab", .n = 2 };
    Writer *w = start(0, 0, &p, 1);
    feed(w, 0, "\xf0\x9f");
    ok(CAME("\xf0\x9f"), "to a pipe the bytes come at once");
    writer_token(w, 0, 0);
    ok(CAME("\0"), "NUL too");
    writer_end(w, 0, -1);
    ok(CAME("\n"), "and a line feed at the end");
    stop(w);

    w = start(W_ECHO, 1, &p, 1);
    feed(w, 0, "x\xf0\x9f");
    ok(CAME("abx"), "a terminal does not get half a character");
    feed(w, 0, "\x98");
    ok(CAME(""), "nor three quarters");
    feed(w, 0, "\x80!");
    ok(CAME("\xf0\x9f\x98\x80!"), "but the whole one");
    feed(w, 0, "\xff\xe2\x82");
    ok(CAME("\xff"), "what is no character goes out");
    writer_end(w, 0, -1);
    ok(CAME("\xe2\x82\n"), "so does what is left at the end");
    stop(w);
}

static void order(void)
{
    Prompt p = { .text = "ab", .n = 2 };
    Writer *w = start(0, 0, &p, 3);
    feed(w, 0, "0");
    feed(w, 1, "1");
    feed(w, 2, "2");
    ok(CAME("0"), "the first sample streams, the others wait");
    writer_end(w, 1, -1);
    feed(w, 2, "22");
    ok(CAME(""), "also one that has ended");
    writer_end(w, 0, 256);
    ok(CAME("\n1\n222"), "then those that waited come, the last one unfinished");
    feed(w, 2, "2");
    writer_end(w, 2, -1);
    ok(CAME("2\n"), "and streams");
    feed(w, 3, "next");
    writer_end(w, 3, -1);
    ok(CAME("next\n"), "the next batch");
    writer_prompt(w, &p, 3, 5);
    writer_end(w, 0, -1);
    ok(CAME("\n"), "the next prompt, an empty sample");
    stop(w);
}

static void json(void)
{
    Prompt p = { .text = "a\0\"", .n = 3 };
    Writer *w = start(W_JSON | W_IDS, 0, &p, 2);
    feed(w, 1, "\xc3\xa9\xf0\x9f");
    writer_end(w, 1, -1);
    ok(CAME(""), "JSON waits for its turn");
    writer_end(w, 0, 256);
    ok(CAME("{\"prompt\":\"a\\u0000\\\"\",\"index\":0,\"text\":\"\",\"prompt_tokens\":3,\"tokens\":"
            "0,"
            "\"ids\":[],\"finish_reason\":\"stop\"}\n"
            "{\"prompt\":\"a\\u0000\\\"\",\"index\":1,\"text\":\"\xc3\xa9\xef\xbf\xbd\","
            "\"prompt_tokens\":3,\"tokens\":4,\"ids\":[195,169,240,159],"
            "\"finish_reason\":\"length\"}\n"),
       "objects in order; half a character is U+FFFD");
    stop(w);

    static const char line[] = "{\"id\": [7, 8], \"prompt\":\"x\", \"text\":\"old\", \"seed\": 3}";
    Arena a = { 0 };
    const char *err;
    size_t at;
    p = (Prompt){ .text = "x", .n = 1, .row = json_parse(&a, line, sizeof line - 1, &err, &at) };
    w = start(W_JSON, 0, &p, 1);
    writer_end(w, 0, -1);
    ok(CAME("{\"id\":[7, "
            "8],\"prompt\":\"x\",\"seed\":3,\"index\":0,\"text\":\"\",\"prompt_tokens\":3,"
            "\"tokens\":0,\"finish_reason\":\"length\"}\n"),
       "the input's members pass, but for those that are results");
    stop(w);
    arena_free(&a);
}

int main(void)
{
    tok = tok_from_merges(NULL, 0);
    pieces();
    order();
    json();
    tok_free(tok);
    return done();
}
