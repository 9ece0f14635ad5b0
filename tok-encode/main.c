/* tok-encode -- documents to a token stream, and back. */
#include "base/err.h"
#include "base/io.h"
#include "base/opt.h"
#include "base/progress.h"
#include "show.h"
#include "stats.h"
#include "text/convert.h"
#include "text/docs.h"
#include "text/tok.h"
#include "text/tokens.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static StrList tok_files;
static const char *tok_file, *output = "-", *pattern;
static int decode, as_text, raw, no_bos, show, stats, convert;
static int64_t max_tokens;

static const Opt opts[] = {
    OPT_HEAD("Options"),
    OPT_LIST('t', "tokenizer", &tok_files, "FILE", "the tokenizer (needed; two with --stats)"),
    OPT_STR('o', "output", &output, "FILE", "write to FILE; - is stdout"),
    OPT_FLAG(0, "ids", &as_text, "text instead of a token stream: a document's ids on a line"),
    OPT_FLAG(0, "no-bos", &no_bos, "do not begin each document with <|bos|>"),
    OPT_LONG(0, "max-tokens", &max_tokens, "N", 0, 1e15,
             "cut each document to N tokens, <|bos|> among them; 0: whole"),
    OPT_FLAG(0, "decode", &decode, "tokens in, documents out"),
    OPT_FLAG(0, "raw", &raw, "decode to the bare bytes, with nothing between documents"),
    OPT_HEAD("Looking at tokenizers"),
    OPT_FLAG(0, "show", &show, "show the tokens of documents, with --decode of token streams"),
    OPT_FLAG(0, "stats", &stats, "count tokens; with a second -t, compare the two"),
    OPT_FLAG(0, "convert", &convert, "convert tokenizer IN to OUT: .tok, .tiktoken or .json"),
    OPT_STR(0, "pattern", &pattern, "NAME",
            "what .tiktoken files lack: nanochat, gpt2, llama3, cl100k or qwen2"),
    OPT_END
};

static Tok *tok;
static uint64_t documents, bytes, tokens, cut, replaced;

/* ---- encoding ------------------------------------------------------------- */

typedef struct Sink { TokenWriter *stream; Out *text; Buf line; } Sink;

static Sink sink_open(void)
{
    Sink s = {0};
    TokenHead h = { .vocab = (uint32_t)tok_vocab(tok), .tok_hash = tok_hash(tok) };
    int bos = tok_special(tok, SP_BOS);
    h.bos = bos < 0 ? UINT32_MAX : (uint32_t)bos;
    if (bos < 0 && !no_bos)
        die("%s: has no <|bos|>; use --no-bos", tok_file);
    if (as_text)
        s.text = out_open(output, 0);
    else
        s.stream = tokens_create(output, &h);
    return s;
}

static void sink_put(Sink *s, const Ids *v)
{
    if (s->stream) {
        tokens_write(s->stream, v->id, NULL, v->n);
        return;
    }
    buf_clear(&s->line);
    for (size_t i = 0; i < v->n; i++)
        buf_printf(&s->line, i ? " %" PRIu32 : "%" PRIu32, v->id[i]);
    buf_char(&s->line, '\n');
    out_write(s->text, s->line.s, s->line.n);
}

static void sink_close(Sink *s)
{
    if (s->stream)
        tokens_close(s->stream);
    else
        out_close(s->text);
    buf_free(&s->line);
}

static void encode_file(const char *path, TokEnc *e, Sink *s, Progress *line)
{
    DocReader *r = docs_open(path);
    Ids v = {0};
    for (Doc d; doc_next(r, &d); ) {
        if (!d.text)
            die("%s: line %" PRIu64 ": has \"messages\": conversations cannot be encoded yet",
                docs_name(r), d.line);
        v.n = 0;
        if (!no_bos)
            ids_add(&v, (uint32_t)tok_special(tok, SP_BOS));
        replaced += tok_encode(e, d.text, d.len, &v);
        if (max_tokens && v.n > (uint64_t)max_tokens) {
            cut += v.n - (uint64_t)max_tokens;
            v.n = (size_t)max_tokens;
        }
        sink_put(s, &v);
        documents++, bytes += d.len, tokens += v.n;
        progress(line, bytes);
    }
    ids_free(&v);
    docs_close(r);
}

/* ---- decoding ------------------------------------------------------------- */

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

/* ---- both ----------------------------------------------------------------- */

static void none(int n, char **argv)
{
    if (!documents)
        die("no documents in %s", n == 0 ? "stdin" : n == 1 ? argv[1] : "the files");
}

static void encode_all(int n, char **argv)
{
    Progress line = { .what = "encoding", .unit = "B" };
    Sink s = sink_open();
    TokEnc *e = tokenc_new(tok);
    for (int i = 1; i <= n; i++)
        encode_file(argv[i], e, &s, &line);
    if (n == 0)
        encode_file("-", e, &s, &line);
    progress_end(&line);
    none(n, argv);
    sink_close(&s);
    tokenc_free(e);
    if (cut)
        note(1, "%" PRIu64 " tokens past --max-tokens were dropped", cut);
    note(1, "%" PRIu64 " documents, %" PRIu64 " bytes, %" PRIu64 " tokens, %.3f bytes a token, %"
         PRIu64 " invalid sequences replaced", documents, bytes, tokens,
         tokens ? (double)bytes / (double)(tokens + cut) : 0, replaced);
}

static void decode_all(int n, char **argv)
{
    Progress line = { .what = "decoding", .unit = "B" };
    Out *o = out_open(output, 0);
    Buf text = {0};
    void (*one)(const char *, Out *, Buf *, Progress *) = as_text ? decode_text : decode_stream;
    for (int i = 1; i <= n; i++)
        one(argv[i], o, &text, &line);
    if (n == 0)
        one("-", o, &text, &line);
    progress_end(&line);
    none(n, argv);
    out_close(o);
    buf_free(&text);
    note(1, "%" PRIu64 " documents, %" PRIu64 " tokens, %" PRIu64 " bytes", documents, tokens,
         bytes);
}

/* --convert, --show and --stats: true if one of them was asked for, and is done. */
static bool other_work(int n, char **argv)
{
    if (show + stats + convert > 1)
        die_usage("only one of --show, --stats and --convert");
    if (pattern && !convert)
        die_usage("--pattern goes with --convert");
    if (!stats && tok_files.n > 1)
        die_usage("two tokenizers only go with --stats");
    if (convert) {
        if (n != 2)
            die_usage("--convert takes two files, IN and OUT");
        tok_convert(argv[1], argv[2], pattern);
        return true;
    }
    if (!tok_files.n)
        die_usage("no tokenizer; use -t FILE");
    tok_file = tok_files.s[0];
    if (show) {
        ShowOptions o = { output, as_text, decode, !no_bos };
        show_all(tok = tok_load(tok_file), tok_file, n, argv, &o);
    } else if (stats) {
        if (tok_files.n > 2)
            die_usage("--stats compares two tokenizers, not %d", tok_files.n);
        Tok *two[2] = { tok_load(tok_file), tok_files.n > 1 ? tok_load(tok_files.s[1]) : NULL };
        stats_all((const Tok *const *)two, tok_files.s, n, argv, output);
        tok_free(two[0]), tok_free(two[1]);
    }
    return show || stats;
}

int main(int argc, char **argv)
{
    int n = opt_parse(argc, argv, "-t FILE [options] [FILE ...]",
                      "Encode documents (JSON Lines) as tokens, or decode tokens.", opts);
    if (other_work(n, argv))
        return 0;
    if (decode && (no_bos || max_tokens))
        die_usage("--decode goes with neither --no-bos nor --max-tokens");
    if (raw && !decode)
        die_usage("--raw goes with --decode");
    tok = tok_load(tok_file);
    if (decode)
        decode_all(n, argv);
    else
        encode_all(n, argv);
    tok_free(tok);
    return 0;
}
