/* decode.c -- token streams, or ids as text, back to documents. */
#include "decode.h"
#include "base/io.h"
#include "base/json.h"
#include "base/progress.h"
#include "text/tokens.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const Tok *tok;
static const char *tok_file;
static bool raw;
static uint64_t documents, tokens, bytes;

/* The bytes of a document: <|bos|> is left out where it comes first, other special tokens are
 * their names. `name` and `at` say where an unknown id stands. */
static void put_document(Out *o, Buf *text, const uint32_t *id, size_t n, const char *name,
                         const char *unit, uint64_t at)
{
    buf_clear(text);
    buf_str(text, "");
    for (size_t i = 0; i < n; i++) {
        if (id[i] >= (uint32_t)tok_vocab(tok))
            die("%s: %s %" PRIu64 ": %" PRIu32 " is no token: %s has %d", name, unit, at, id[i],
                tok_file, tok_vocab(tok));
        if (i == 0 && (int)id[i] == tok_special(tok, SP_BOS))
            continue;
        size_t len;
        const char *s = tok_bytes(tok, (int)id[i], &len);
        buf_add(text, s, len);
    }
    documents++, tokens += n, bytes += text->n;
    if (raw) {
        out_write(o, text->s, text->n);
        return;
    }
    static Buf row;
    buf_clear(&row);
    buf_str(&row, "{\"text\":");
    json_str(&row, text->s, text->n);
    buf_str(&row, "}\n");
    out_write(o, row.s, row.n);
}

static void decode_stream(const char *path, Out *o, Buf *text, Progress *line)
{
    TokenHead h;
    TokenReader *r = tokens_open(path, &h);
    const char *name = strcmp(path, "-") ? path : "stdin";
    if (h.tok_hash != tok_hash(tok))
        die("%s: made with tokenizer %016" PRIx64 ", but %s is %016" PRIx64, name, h.tok_hash,
            tok_file, tok_hash(tok));
    const uint32_t *id;
    const uint8_t *mask;
    size_t n;
    for (uint64_t k = 1; tokens_next(r, &id, &mask, &n); k++) {
        put_document(o, text, id, n, name, "document", k);
        progress(line, bytes);
    }
    tokens_finish(r);
}

/* The ids of one line, separated by spaces or tabs. */
static void read_ids(const Buf *b, Ids *v, const char *name, uint64_t at)
{
    v->n = 0;
    for (size_t i = 0; i < b->n; ) {
        if (b->s[i] == ' ' || b->s[i] == '\t') {
            i++;
            continue;
        }
        size_t from = i;
        uint64_t x = 0;
        for (; i < b->n && b->s[i] >= '0' && b->s[i] <= '9' && x <= UINT32_MAX; i++)
            x = 10 * x + (uint64_t)(b->s[i] - '0');
        bool whole = i > from && (i == b->n || b->s[i] == ' ' || b->s[i] == '\t');
        if (!whole || x > UINT32_MAX) {
            while (i < b->n && i - from < 40 && b->s[i] > ' ' && b->s[i] < 127)
                i++;
            die("%s: line %" PRIu64 ", byte %zu: '%.*s' is no token", name, at, from + 1,
                (int)(i - from), b->s + from);
        }
        ids_add(v, (uint32_t)x);
    }
}

static void decode_text(const char *path, Out *o, Buf *text, Progress *line)
{
    In *in = in_open(path);
    Buf b = {0};
    Ids v = {0};
    while (in_line(in, &b)) {
        read_ids(&b, &v, in_name(in), in_lineno(in));
        put_document(o, text, v.id, v.n, in_name(in), "line", in_lineno(in));
        progress(line, bytes);
    }
    buf_free(&b);
    ids_free(&v);
    in_close(in);
}

void decode_all(const Decode *d, int n, char **argv)
{
    Progress line = { .what = "decoding", .unit = "B" };
    tok = d->tok, tok_file = d->tok_file, raw = d->raw;
    Out *o = out_open(d->output, 0);
    Buf text = {0};
    void (*one)(const char *, Out *, Buf *, Progress *) = d->ids ? decode_text : decode_stream;
    for (int i = 1; i <= n; i++)
        one(argv[i], o, &text, &line);
    if (n == 0)
        one("-", o, &text, &line);
    progress_end(&line);
    if (!documents)
        die("no documents in %s", n == 0 ? "stdin" : n == 1 ? argv[1] : "the files");
    out_close(o);
    buf_free(&text);
    note(1, "%" PRIu64 " documents, %" PRIu64 " tokens, %" PRIu64 " bytes", documents, tokens,
         bytes);
}
