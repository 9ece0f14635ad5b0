/* docs.c -- see docs.h. A row with a plain "text" goes through jsonl.h; the tree is made for the
 * others, for bad ones, which json_parse() can name, and for who asks. */
#include "text/docs.h"
#include "text/jsonl.h"
#include "text/utf8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)DOC_PAD <= (int)JSONL_PAD, "a text has the padding that jsonl.h gives");

struct DocParser {
    int policy;
    Buf text;                   /* unescaped */
    Buf fixed;                  /* the line, if it had to be repaired; or with its padding */
    Arena arena;                /* of the tree */
    const char *s; size_t n;    /* the line that was parsed last, repaired */
    const Json *row;            /* its tree, if it was made */
};

struct DocReader {
    In *in;
    Buf line, rest;             /* rest: the beginning of a line that goes on in the next block */
    DocParser *parser;
    uint64_t before;            /* lines consumed by others before this reader began */
    bool begun;
};

/* ---- a line ------------------------------------------------------------------- */

DocParser *docp_new(int policy)
{
    DocParser *p = xcalloc(1, sizeof *p);
    p->policy = policy;
    return p;
}

void docp_free(DocParser *p)
{
    if (!p) return;
    buf_free(&p->text);
    buf_free(&p->fixed);
    arena_free(&p->arena);
    free(p);
}

static bool wrong(DocError *e, size_t byte, const char *why)
{
    e->byte = byte;
    e->why = why;
    return false;
}

static bool tree(DocParser *p, Doc *d, DocError *e)
{
    const char *why;
    size_t at;
    arena_reset(&p->arena);
    p->row = json_parse(&p->arena, p->s, p->n, &why, &at);
    if (!p->row)
        return wrong(e, (p->s == d->raw ? at : utf8_unrepaired(d->raw, d->raw_len, at)) + 1, why);
    return true;
}

static bool from_tree(DocParser *p, Doc *d, DocError *e)
{
    if (!tree(p, d, e)) return false;
    if (p->row->kind != J_OBJ) return wrong(e, 0, "not a JSON object");
    const Json *text = json_get(p->row, "text");
    d->messages = json_get(p->row, "messages");
    if (!text && !d->messages) return wrong(e, 0, "neither \"text\" nor \"messages\"");
    if (text && text->kind != J_STR) return wrong(e, 0, "\"text\" is not a string");
    if (d->messages && d->messages->kind != J_ARR)
        return wrong(e, 0, "\"messages\" is not an array");
    if (text) {
        buf_clear(&p->text);
        buf_reserve(&p->text, size_add(text->len, DOC_PAD));
        buf_add(&p->text, text->s, text->len);
        memset(p->text.s + p->text.n, 0, DOC_PAD);
        d->text = p->text.s;
        d->len = p->text.n;
    }
    return true;
}

/* d->raw is the line, with readable padding. */
static bool parse(DocParser *p, Doc *d, DocError *e)
{
    p->s = d->raw;
    p->n = d->raw_len;
    p->row = NULL;
    for (;;) {
        if (jsonl_text(&p->text, p->s, p->n)) {
            d->text = p->text.s;
            d->len = p->text.n;
            return true;
        }
        if (p->policy == DOCS_STRICT || p->s != d->raw || utf8_valid(p->s, p->n) == p->n)
            return from_tree(p, d, e);
        buf_clear(&p->fixed);
        buf_reserve(&p->fixed, size_add(p->n, JSONL_PAD));
        d->bad = utf8_repair(&p->fixed, p->s, p->n);
        buf_reserve(&p->fixed, JSONL_PAD);
        memset(p->fixed.s + p->fixed.n, 0, JSONL_PAD);
        p->s = p->fixed.s;
        p->n = p->fixed.n;
    }
}

static bool blank(const char *s, size_t n)
{
    while (n > 0 && (*s == ' ' || *s == '\t' || *s == '\r')) s++, n--;
    return n == 0;
}

_Noreturn void doc_die(const char *name, const DocError *e)
{
    unsigned long long line = e->line;
    if (e->byte) die("%s: line %llu, byte %zu: %s", name, line, e->byte, e->why);
    die("%s: line %llu: %s", name, line, e->why);
}

/* ---- one after the other ---------------------------------------------------------- */

DocReader *docs_from(In *in, uint64_t lines)
{
    DocReader *r = xcalloc(1, sizeof *r);
    r->in = in;
    r->before = lines;
    r->parser = docp_new(DOCS_STRICT);
    return r;
}

DocReader *docs_open(const char *path)
{
    return docs_from(in_open(path), 0);
}

void docs_invalid(DocReader *r, int policy)
{
    r->parser->policy = policy;
}

const char *docs_name(const DocReader *r)
{
    return in_name(r->in);
}

static bool has_bom(const char *s, size_t n)
{
    return n >= 3 && memcmp(s, "\xEF\xBB\xBF", 3) == 0;
}

bool doc_skip(DocReader *r, Doc *d)
{
    *d = (Doc){0};
    while (in_line(r->in, &r->line)) {
        const char *s = r->line.s;
        size_t n = r->line.n;
        if (!r->begun && r->before == 0 && has_bom(s, n)) {
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

bool doc_next(DocReader *r, Doc *d)
{
    if (!doc_skip(r, d)) return false;
    DocError e = { .line = d->line };
    size_t skip = (size_t)(d->raw - r->line.s);
    buf_reserve(&r->line, JSONL_PAD);
    memset(r->line.s + r->line.n, 0, JSONL_PAD);
    d->raw = r->line.s + skip;
    if (!parse(r->parser, d, &e)) doc_die(docs_name(r), &e);
    return true;
}

const Json *doc_row(DocReader *r)
{
    DocParser *p = r->parser;
    const char *why;
    size_t at;
    if (!p->row) {
        arena_reset(&p->arena);
        p->row = json_parse(&p->arena, p->s, p->n, &why, &at);
    }
    return p->row;
}

void docs_close(DocReader *r)
{
    if (!r) return;
    in_close(r->in);
    buf_free(&r->line);
    buf_free(&r->rest);
    docp_free(r->parser);
    free(r);
}

/* ---- in blocks ------------------------------------------------------------------------ */

bool docs_block(DocReader *r, DocBlock *k, size_t want)
{
    Buf *b = &k->b;
    k->at = 0;
    k->line = 0;
    k->first = !r->begun && r->before == 0;
    r->begun = true;
    buf_clear(b);
    buf_add(b, r->rest.s, r->rest.n);
    buf_clear(&r->rest);
    for (size_t seen = 0, more = want; ; more = b->n) {
        if (more < want) more = want;
        buf_reserve(b, size_add(more, DOC_PAD));
        size_t ask = b->n < want ? want - b->n : seen ? more : 0;
        size_t got = ask ? in_read(r->in, b->s + b->n, ask) : 0;
        b->n += got;
        const char *lf = b->n > seen ? memrchr(b->s + seen, '\n', b->n - seen) : NULL;
        bool end = got < ask;
        seen = b->n;
        if (!lf && b->n > in_longest())         /* the block begins with the line */
            die("%s: the line that begins at byte %" PRIu64 " is longer than %zu MB: too long for "
                "this machine's memory", docs_name(r), in_offset(r->in) - b->n, in_longest() >> 20);
        if (!lf && !end) continue;
        size_t whole = lf && !end ? (size_t)(lf + 1 - b->s) : b->n;
        buf_add(&r->rest, b->s + whole, b->n - whole);
        b->n = whole;
        memset(b->s + b->n, 0, DOC_PAD);
        return b->n > 0;
    }
}

int docp_next(DocParser *p, DocBlock *k, Doc *d, DocError *e)
{
    const char *end = k->b.s + k->b.n;
    *d = (Doc){0};
    while (k->at < k->b.n) {
        const char *s = k->b.s + k->at, *lf = memchr(s, '\n', (size_t)(end - s));
        size_t n = (size_t)((lf ? lf : end) - s);
        if (k->at == 0 && k->first && has_bom(s, n)) s += 3, n -= 3;
        k->at = (size_t)((lf ? lf + 1 : end) - k->b.s);
        k->line++;
        if (lf && n && s[n - 1] == '\r') n--;
        if (blank(s, n)) continue;
        d->raw = s;
        d->raw_len = n;
        d->line = e->line = k->line;
        return parse(p, d, e) ? 1 : -1;
    }
    return 0;
}
