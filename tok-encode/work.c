/* work.c -- a batch of text into ids, by one thread. */
#include "encode.h"
#include "text/tokens.h"
#include "text/utf8.h"
#include <stdlib.h>
#include <string.h>

/* ---- names of special tokens in text ---------------------------------------------- */

typedef struct Name { const char *s; size_t n; int id; } Name;

struct Specials {
    Name *name; int n;          /* in the order of first byte, then longest first */
    int begin[257];             /* names that begin with byte c: begin[c] .. begin[c + 1] */
    int only;                   /* the first byte of all, or -1 */
    size_t longest;
};

static int by_first(const void *x, const void *y)
{
    const Name *a = x, *b = y;
    int c = (unsigned char)a->s[0], d = (unsigned char)b->s[0];
    return c != d ? c - d : a->n != b->n ? (a->n < b->n) - (a->n > b->n) : a->id - b->id;
}

Specials *specials_new(const Tok *t)
{
    Specials *p = xcalloc(1, sizeof *p);
    p->name = xcalloc((size_t)tok_vocab(t), sizeof *p->name);
    for (int id = 0; id < tok_vocab(t); id++) {
        Name *a = &p->name[p->n];
        if (!tok_is_special(t, id)) continue;
        a->s = tok_bytes(t, id, &a->n);
        a->id = id;
        if (!a->n) continue;
        if (a->n > p->longest) p->longest = a->n;
        p->n++;
    }
    qsort(p->name, (size_t)p->n, sizeof *p->name, by_first);
    for (int c = 0, i = 0; c <= 256; c++) {
        p->begin[c] = i;
        while (i < p->n && c < 256 && (unsigned char)p->name[i].s[0] == c) i++;
    }
    p->only = -1;
    if (p->n && p->name[0].s[0] == p->name[p->n - 1].s[0]) p->only = (unsigned char)p->name[0].s[0];
    return p;
}

void specials_free(Specials *p)
{
    if (!p) return;
    free(p->name);
    free(p);
}

size_t specials_longest(const Specials *p)
{
    return p->longest;
}

size_t specials_find(const Specials *p, const char *s, size_t n, size_t i, int *id, size_t *len)
{
    for (; i < n && p->n; i++) {
        if (p->only >= 0) {
            const char *q = memchr(s + i, p->only, n - i);
            if (!q) break;
            i = (size_t)(q - s);
        }
        unsigned char c = (unsigned char)s[i];
        for (int k = p->begin[c]; k < p->begin[c + 1]; k++) {
            const Name *a = &p->name[k];
            if (a->n > n - i || memcmp(a->s, s + i, a->n)) continue;
            *id = a->id;
            *len = a->n;
            return i;
        }
    }
    *len = 0;
    return n;
}

/* ---- a worker ----------------------------------------------------------------------- */

struct Worker {
    const Encode *e;
    TokEnc *enc;
    DocParser *parser;
    Specials *special;          /* NULL if their names are ordinary */
    Chat *chat;                 /* NULL: documents */
    Buf fixed;                  /* plain text that was repaired */
};

Worker *worker_new(const Encode *e, const Worker *like)
{
    Worker *w = xcalloc(1, sizeof *w);
    w->e = e;
    w->enc = like ? tokenc_share(like->enc) : tokenc_new(e->tok);
    w->parser = docp_new(e->invalid);
    if (e->special != SPECIAL_ORDINARY) w->special = specials_new(e->tok);
    if (e->chats) w->chat = chat_new(e->tok, e->tok_file, w->enc, e->template, e->bos);
    return w;
}

void worker_free(Worker *w)
{
    chat_free(w->chat);
    tokenc_free(w->enc);
    docp_free(w->parser);
    specials_free(w->special);
    buf_free(&w->fixed);
    free(w);
}

/* Text that may hold special tokens; false: it holds one and must not, at *at. */
static bool with_specials(Worker *w, const char *s, size_t n, TokOut *out, size_t *at, int *id)
{
    for (size_t i = 0; ; ) {
        size_t len, next = specials_find(w->special, s, n, i, id, &len);
        if (len && w->e->special == SPECIAL_DENY) return *at = next, false;
        tok_encode_valid(w->enc, s + i, next - i, out);
        if (!len) return true;
        tokout_add(out, (uint32_t)*id);
        i = next + len;
    }
}

/* false: b->err says what is wrong */
static bool put_text(Worker *w, Batch *b, const char *s, size_t n)
{
    size_t at, len;
    int id;
    b->bytes += n;
    if (!w->special) {
        tok_encode_valid(w->enc, s, n, &b->out);
        return true;
    }
    if (with_specials(w, s, n, &b->out, &at, &id)) return true;
    const char *name = tok_bytes(w->e->tok, id, &len);
    if (w->e->text) at = utf8_unrepaired(b->in.b.s, b->in.b.n, at);
    unsigned long long byte = at + 1 + (b->part ? b->at : 0);
    b->err.why = xasprintf("the text has %.*s at its byte %llu", (int)len, name, byte);
    b->err.byte = 0;                    /* the program ends with it: not freed */
    return false;
}

static void add_length(Batch *b, size_t n)
{
    if (b->docs == b->cap) {
        b->cap = b->cap ? size_mul(b->cap, 2) : 1024;
        b->len = xreallocarray(b->len, b->cap, sizeof *b->len);
    }
    b->len[b->docs++] = n;
}

static void doc_done(Worker *w, Batch *b, size_t from, bool whole)
{
    size_t n = b->out.n - from, most = (size_t)w->e->max_tokens;
    if (whole && most && n > most) {
        b->cut += n - most;
        n = most;
        b->out.n = from + n;
    }
    add_length(b, n);
}

static void encode_part(Worker *w, Batch *b)
{
    const char *s = b->in.b.s;
    size_t n = b->in.b.n, good = w->e->text ? utf8_valid(s, n) : n;
    if (b->err.why || (n == 0 && !b->first && !b->last)) return;
    b->err.line = b->line;
    if (good < n) {
        if (w->e->invalid == DOCS_STRICT) {
            b->err = (DocError){ "not UTF-8", 0, (size_t)(b->at + good + 1) };
            return;
        }
        buf_clear(&w->fixed);
        b->bad = utf8_repair(&w->fixed, s, n);
        s = w->fixed.s;
        n = w->fixed.n;
    }
    if (b->first && w->e->bos >= 0) tokout_add(&b->out, (uint32_t)w->e->bos);
    if (!put_text(w, b, s, n)) return;
    if (b->last && w->e->eos >= 0) tokout_add(&b->out, (uint32_t)w->e->eos);
    doc_done(w, b, 0, false);
}

static void encode_lines(Worker *w, Batch *b)
{
    Doc d;
    while (docp_next(w->parser, &b->in, &d, &b->err) > 0) {
        size_t from = b->out.n;
        b->err.line = d.line;
        if (!d.text) {
            b->err = (DocError){ no_chat, d.line, 0 };
            return;
        }
        b->bad += d.bad;
        if (w->e->bos >= 0) tokout_add(&b->out, (uint32_t)w->e->bos);
        if (!put_text(w, b, d.text, d.len)) return;
        if (w->e->eos >= 0) tokout_add(&b->out, (uint32_t)w->e->eos);
        doc_done(w, b, from, true);
    }
}

static void encode_chats(Worker *w, Batch *b)
{
    size_t most = w->e->max_tokens ? (size_t)w->e->max_tokens : SIZE_MAX;
    Doc d;
    while (docp_next(w->parser, &b->in, &d, &b->err) > 0) {
        size_t from = b->chat.ids.n;
        b->err.line = d.line;
        b->err.why = d.messages ? chat_render(w->chat, &b->chat, d.messages, w->e->completion, most)
                                : "has no \"messages\", which --chat needs";
        if (b->err.why) return;
        b->bad += d.bad;
        b->bytes += d.raw_len;
        add_length(b, b->chat.ids.n - from);
    }
}

void worker_encode(Worker *w, Batch *b)
{
    b->out.n = b->docs = 0;
    b->out.width = token_width((uint32_t)tok_vocab(w->e->tok));
    b->bytes = b->cut = 0;
    chatids_cut(&b->chat, 0);
    b->chat.cut = b->chat.mask_cut = 0;
    if (w->chat) encode_chats(w, b);
    else if (b->part) encode_part(w, b);
    else encode_lines(w, b);
}
