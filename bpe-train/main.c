/* bpe-train -- documents in, a tokenizer out.
 *
 * Reads until the text ends or suffices, counting distinct pieces; trains on the counts; writes. */
#include "base/err.h"
#include "base/io.h"
#include "base/opt.h"
#include "base/progress.h"
#include "text/bpe.h"
#include "text/docs.h"
#include "text/tok.h"
#include "text/utf8.h"
#include <inttypes.h>
#include <string.h>

static int vocab = 32768;
static int64_t doc_cap = 10000, max_chars = 2000000000;
static const char *output = "-", *merges_file;

static const Opt opts[] = {
    OPT_HEAD("Options"),
    OPT_INT('v', "vocab-size", &vocab, "N", 256 + SP_COUNT, 256 + TOK_MAX_MERGES + SP_COUNT,
            "ids in all: bytes, merges, 9 special tokens"),
    OPT_STR('o', "output", &output, "FILE", "write the tokenizer to FILE; - is stdout"),
    OPT_LONG(0, "doc-cap", &doc_cap, "N", 0, 1e15,
             "use the first N characters of a document; 0: all"),
    OPT_LONG(0, "max-chars", &max_chars, "N", 0, 1e15,
             "stop after the document that passes N characters; 0: never"),
    OPT_STR(0, "merges", &merges_file, "FILE", "also write lines \"left right id\""),
    OPT_END
};

typedef struct Corpus {
    Pieces pieces;
    uint64_t docs, chars, bytes;
    Progress line;
} Corpus;

/* Bytes of the first cap characters of valid UTF-8. */
static size_t crop(const char *s, size_t n, uint64_t cap)
{
    if (n <= cap)
        return n;
    size_t i = 0;
    for (; i < n; i++)
        if (((unsigned char)s[i] & 0xc0) != 0x80 && cap-- == 0)
            break;
    return i;
}

/* One text; false when there has been enough. */
static bool add_text(Corpus *c, const char *s, size_t n)
{
    if (doc_cap)
        n = crop(s, n, (uint64_t)doc_cap);
    pieces_text(&c->pieces, s, n);
    c->chars += utf8_count(s, n);
    c->bytes += n;
    progress(&c->line, c->bytes);
    return !max_chars || c->chars <= (uint64_t)max_chars;
}

_Noreturn static void bad_message(DocReader *r, const Doc *d, int k, const char *why)
{
    die("%s: line %" PRIu64 ": message %d: %s", docs_name(r), d->line, k, why);
}

/* A conversation: each content, or each part of it, is a text by itself. */
static bool add_messages(Corpus *c, DocReader *r, const Doc *d)
{
    int k = 1;
    for (const Json *m = d->messages->child; m; m = m->next, k++) {
        const Json *content = json_get(m, "content");
        if (!content || (content->kind != J_STR && content->kind != J_ARR))
            bad_message(r, d, k, "\"content\" is neither a string nor a list of parts");
        if (content->kind == J_STR) {
            if (!add_text(c, content->s, content->len))
                return false;
            continue;
        }
        for (const Json *part = content->child; part; part = part->next) {
            const Json *text = json_get(part, "text");
            if (!text || text->kind != J_STR)
                bad_message(r, d, k, "a part without a \"text\" that is a string");
            if (!add_text(c, text->s, text->len))
                return false;
        }
    }
    return true;
}

static bool add_file(Corpus *c, const char *path)
{
    DocReader *r = docs_open(path);
    bool more = true;
    for (Doc d; more && doc_next(r, &d); c->docs++)
        more = d.text ? add_text(c, d.text, d.len) : add_messages(c, r, &d);
    docs_close(r);
    return more;
}

static void write_merges(const Bpe *b)
{
    Out *o = out_open(merges_file, 0);
    for (size_t k = 0; k < b->n; k++)
        out_printf(o, "%" PRIu32 " %" PRIu32 " %zu\n", b->pair[k][0], b->pair[k][1], 256 + k);
    out_close(o);
}

static void warn_if_short(const Bpe *b)
{
    if (b->end == BPE_NO_PAIRS)
        warn("no pairs are left after %zu merges: the tokenizer has %zu ids, not %d", b->n,
             256 + b->n + SP_COUNT, vocab);
    if (b->end == BPE_TOO_LONG)
        warn("stopped after %zu merges, as the next token would be too long: the tokenizer has "
             "%zu ids, not %d", b->n, 256 + b->n + SP_COUNT, vocab);
}

int main(int argc, char **argv)
{
    int n = opt_parse(argc, argv, "[options] [FILE ...]",
                      "Train a byte-pair tokenizer on documents (JSON Lines).", opts);
    double begin = now_seconds();
    Out *o = out_open(output, OUT_BINARY);      /* now, not after an hour */
    Corpus c = { .line = { .what = "reading", .unit = "B" } };
    bool more = true;
    for (int i = 1; more && i <= n; i++)
        more = add_file(&c, argv[i]);
    if (n == 0)
        add_file(&c, "-");
    progress_end(&c.line);
    if (!c.chars)
        die("no text in %s", n == 0 ? "stdin" : n == 1 ? argv[1] : "the files");
    note(1, "%" PRIu64 " documents, %" PRIu64 " characters, %" PRIu64 " bytes, %" PRIu64
         " pieces, %zu of them distinct, %.1f s", c.docs, c.chars, c.bytes, c.pieces.total,
         c.pieces.n, now_seconds() - begin);

    size_t want = (size_t)vocab - 256 - SP_COUNT;
    Progress line = { .what = "merging", .unit = "merges", .total = want };
    Bpe b = bpe_train(&c.pieces, want, &line);
    progress_end(&line);
    pieces_free(&c.pieces);
    warn_if_short(&b);
    Tok *t = tok_from_merges((const uint32_t (*)[2])b.pair, b.n);
    tok_write(t, o);
    out_close(o);
    if (merges_file)
        write_merges(&b);
    note(1, "%zu merges, the last of a pair that stood %" PRId64 " times; %d ids; %.1f s in all",
         b.n, b.n ? b.count[b.n - 1] : 0, tok_vocab(t), now_seconds() - begin);
    bpe_free(&b);
    tok_free(t);
    return 0;
}
