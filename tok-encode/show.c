/* show.c -- see show.h.
 *
 * Nothing of a text may reach a terminal as a command: control characters, marks that change the
 * direction of writing and bytes that are no whole character are written as escapes. */
#include "show.h"
#include "base/io.h"
#include "text/docs.h"
#include "text/tokens.h"
#include "text/utf8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Show {
    const Tok *t;
    const char *tok_file;
    ShowOptions o;
    Out *out;
    bool colour;
    Buf line;
    uint64_t documents, replaced;
} Show;

/* Backgrounds, two of each so that neighbours differ: text, what counts for the loss, special. */
enum { PLAIN, COUNTS, SPECIAL };
static const char *const paint[3][2] = {
    { "\x1b[30;47m", "\x1b[30;46m" },
    { "\x1b[30;42m", "\x1b[30;43m" },
    { "\x1b[30;45m", "\x1b[30;105m" },
};

static bool shows_itself(uint32_t c)
{
    return c >= 0x20 && !(c >= 0x7f && c < 0xa0) && !(c >= 0x200b && c <= 0x200f) &&
           !(c >= 0x2028 && c <= 0x202e) && !(c >= 0x2060 && c <= 0x206f) && c != 0xfeff;
}

static void put_text(Buf *b, const char *s, size_t n, bool name)        /* of a special token */
{
    for (size_t i = 0; i < n; ) {
        uint32_t c;
        int k = utf8_next(s + i, n - i, &c);
        if (k < 0)
            buf_printf(b, "\\x%02x", (unsigned char)s[i]);
        else if (c == '\n')
            buf_str(b, "\\n");
        else if (!name && (c == '\\' || c == '|'))
            buf_char(b, '\\'), buf_char(b, (char)c);
        else if (shows_itself(c))
            buf_add(b, s + i, (size_t)k);
        else
            buf_printf(b, c < 0x80 ? "\\x%02" PRIx32 : "\\u%04" PRIx32, c);
        i += k < 0 ? 1 : (size_t)k;
    }
}

static void put_token(Show *w, uint32_t id, int mask, size_t k)
{
    size_t n;
    const char *s = tok_bytes(w->t, (int)id, &n);
    bool special = tok_is_special(w->t, (int)id);
    Buf *b = &w->line;
    if (w->colour)
        buf_str(b, paint[special ? SPECIAL : mask == 1 ? COUNTS : PLAIN][k & 1]);
    else if (k)
        buf_char(b, '|');
    if (!w->colour && mask == 1)
        buf_char(b, '*');
    put_text(b, s, n, special);
    if (!n)
        buf_str(b, "(none)");
    if (w->o.ids && w->colour)
        buf_printf(b, "\x1b[0;2m%" PRIu32, id);
    else if (w->o.ids)
        buf_printf(b, ":%" PRIu32, id);
    if (w->colour)
        buf_str(b, n && memchr(s, '\n', n) ? "\x1b[0m\n" : "\x1b[0m");
}

/* mask: NULL, or a byte per id. */
static void put_document(Show *w, const uint32_t *id, const uint8_t *mask, size_t n,
                         const char *name)
{
    w->documents++;
    buf_clear(&w->line);
    for (size_t k = 0; k < n; k++) {
        if (id[k] >= (uint32_t)tok_vocab(w->t))
            die("%s: document %" PRIu64 ": %" PRIu32 " is no token: %s has %d", name, w->documents,
                id[k], w->tok_file, tok_vocab(w->t));
        put_token(w, id[k], mask ? mask[k] : -1, k);
        if (w->line.n > 1 << 16) {
            out_write(w->out, w->line.s, w->line.n);
            buf_clear(&w->line);
        }
    }
    buf_char(&w->line, '\n');
    out_write(w->out, w->line.s, w->line.n);
}

static DocReader *open_docs(const Show *w, const char *path)
{
    DocReader *r = docs_open(path);
    docs_invalid(r, w->o.invalid);
    return r;
}

static void show_documents(Show *w, const char *path)
{
    TokEnc *e = tokenc_new(w->t);
    DocReader *r = open_docs(w, path);
    Ids v = {0};
    for (Doc d; doc_next(r, &d); ) {
        if (!d.text)
            die("%s: line %" PRIu64 ": has \"messages\" and no \"text\": give --chat",
                docs_name(r), d.line);
        v.n = 0;
        if (w->o.bos)
            ids_add(&v, (uint32_t)tok_special(w->t, SP_BOS));
        tok_encode(e, d.text, d.len, &v);
        if (v.n > w->o.most) v.n = w->o.most;
        put_document(w, v.id, NULL, v.n, docs_name(r));
        w->replaced += d.bad;
    }
    ids_free(&v);
    docs_close(r);
    tokenc_free(e);
}

static void show_chats(Show *w, const char *path)
{
    TokEnc *e = tokenc_new(w->t);
    Chat *c = chat_new(w->t, w->tok_file, e, w->o.template, -1);
    DocReader *r = open_docs(w, path);
    ChatIds v = {0};
    for (Doc d; doc_next(r, &d); ) {
        DocError err = { .line = d.line, .why = "has no \"messages\", which --chat needs" };
        chatids_cut(&v, 0);
        if (d.messages)
            err.why = chat_render(c, &v, d.messages, w->o.completion, w->o.most);
        if (err.why)
            doc_die(docs_name(r), &err);
        put_document(w, chatids(&v), (uint8_t *)v.mask.s, v.ids.n, docs_name(r));
        w->replaced += d.bad;
    }
    chatids_free(&v);
    docs_close(r);
    chat_free(c);
    tokenc_free(e);
}

static void show_stream(Show *w, const char *path)
{
    TokenHead h;
    TokenReader *r = tokens_open(path, &h);
    const uint32_t *id;
    const uint8_t *mask;
    size_t n;
    if (h.tok_hash != tok_hash(w->t))
        die("%s: made with tokenizer %016" PRIx64 ", but %s is %016" PRIx64, tokens_name(r),
            h.tok_hash, w->tok_file, tok_hash(w->t));
    while (tokens_next(r, &id, &mask, &n))
        put_document(w, id, mask, n, tokens_name(r));
    tokens_finish(r);
}

static bool may_colour(const char *output)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return !strcmp(output, "-") && isatty(1) && !(no && *no) && term && strcmp(term, "dumb");
}

void show_all(const Tok *t, const char *tok_file, int n, char **argv, const ShowOptions *o)
{
    Show w = { .t = t, .tok_file = tok_file, .o = *o, .colour = may_colour(o->output) };
    void (*one)(Show *, const char *) = o->stream ? show_stream
                                          : o->chats ? show_chats : show_documents;
    if (!o->stream && !o->chats && o->bos && tok_special(t, SP_BOS) < 0)
        die("%s: has no <|bos|>; use --no-bos", tok_file);
    w.out = out_open(o->output, 0);
    for (int i = 1; i <= n; i++)
        one(&w, argv[i]);
    if (n == 0)
        one(&w, "-");
    if (!w.documents)
        die("no documents in %s", n == 0 ? "stdin" : n == 1 ? argv[1] : "the files");
    out_close(w.out);
    if (w.replaced)
        note(1, "%" PRIu64 " invalid sequences replaced", w.replaced);
    buf_free(&w.line);
}
