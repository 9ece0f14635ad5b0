/* docs.c -- see docs.h. One arena per reader, reset for each row. */
#include "text/docs.h"
#include <stdlib.h>
#include <string.h>

struct DocReader {
    In *in;
    Buf line;
    Arena arena;
    uint64_t before;            /* lines consumed by others before this reader began */
    bool begun;
};

DocReader *docs_from(In *in, uint64_t lines)
{
    DocReader *r = xcalloc(1, sizeof *r);
    r->in = in;
    r->before = lines;
    return r;
}

DocReader *docs_open(const char *path)
{
    return docs_from(in_open(path), 0);
}

const char *docs_name(const DocReader *r)
{
    return in_name(r->in);
}

static bool blank(const char *s, size_t n)
{
    while (n > 0 && (*s == ' ' || *s == '\t' || *s == '\r')) s++, n--;
    return n == 0;
}

bool doc_skip(DocReader *r, Doc *d)
{
    *d = (Doc){0};
    while (in_line(r->in, &r->line)) {
        const char *s = r->line.s;
        size_t n = r->line.n;
        if (!r->begun && r->before == 0 && n >= 3 && memcmp(s, "\xEF\xBB\xBF", 3) == 0) {
            s += 3;
            n -= 3;
        }
        r->begun = true;
        if (blank(s, n)) continue;
        d->raw = s;
        d->raw_len = n;
        d->line = r->before + in_lineno(r->in);
        return true;
    }
    return false;
}

_Noreturn static void bad(const DocReader *r, const Doc *d, const char *why)
{
    die("%s: line %llu: %s", docs_name(r), (unsigned long long)d->line, why);
}

static void parse(DocReader *r, Doc *d)
{
    const char *err;
    size_t at;
    arena_reset(&r->arena);
    d->row = json_parse(&r->arena, d->raw, d->raw_len, &err, &at);
    if (!d->row)
        die("%s: line %llu, byte %zu: %s", docs_name(r), (unsigned long long)d->line, at + 1, err);
    if (d->row->kind != J_OBJ) bad(r, d, "not a JSON object");
}

bool doc_next(DocReader *r, Doc *d)
{
    if (!doc_skip(r, d)) return false;
    parse(r, d);
    const Json *text = json_get(d->row, "text");
    d->messages = json_get(d->row, "messages");
    if (!text && !d->messages) bad(r, d, "neither \"text\" nor \"messages\"");
    if (text && text->kind != J_STR) bad(r, d, "\"text\" is not a string");
    if (d->messages && d->messages->kind != J_ARR) bad(r, d, "\"messages\" is not an array");
    if (text) {
        d->text = text->s;
        d->len = text->len;
    }
    return true;
}

void docs_close(DocReader *r)
{
    if (!r) return;
    in_close(r->in);
    buf_free(&r->line);
    arena_free(&r->arena);
    free(r);
}
