/* stats.c -- see stats.h. */
#include "stats.h"
#include "encode.h"
#include "base/io.h"
#include "base/json.h"
#include "base/progress.h"
#include "text/docs.h"
#include "text/utf8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct Count { uint64_t documents, bytes, chars, replaced, tokens[2]; } Count;

typedef struct Stats {
    const StatsOptions *o;
    int toks;                   /* 1 or 2 */
    TokEnc *enc[2];
    uint64_t *uses[2];          /* [vocab] of each */
    uint64_t longest[2];        /* tokens of a document */
    Ids ids;
    Progress line;
    Count all;
} Stats;

/* A text, or a part of one: `tokens` are those of its parts so far. */
static void count_part(Stats *s, const char *text, size_t n, uint64_t tokens[2], Count *c)
{
    c->bytes += n, c->chars += utf8_count(text, n);
    for (int k = 0; k < s->toks; k++) {
        s->ids.n = 0;
        uint64_t bad = tok_encode(s->enc[k], text, n, &s->ids);
        c->replaced += k ? 0 : bad;
        c->tokens[k] += s->ids.n;
        tokens[k] += s->ids.n;
        if (tokens[k] > s->longest[k])
            s->longest[k] = tokens[k];
        for (size_t i = 0; i < s->ids.n; i++)
            s->uses[k][s->ids.id[i]]++;
    }
    progress(&s->line, s->all.bytes + c->bytes);
}

static void count_rows(Stats *s, const char *path, Count *c)
{
    DocReader *r = docs_open(path);
    docs_invalid(r, s->o->invalid);
    for (Doc d; doc_next(r, &d); ) {
        uint64_t tokens[2] = {0};
        if (!d.text)
            die("%s: line %" PRIu64 ": has no \"text\"", docs_name(r), d.line);
        count_part(s, d.text, d.len, tokens, c);
        c->documents++;
        c->replaced += d.bad;
    }
    docs_close(r);
}

/* Texts are cut where no tokenizer's pieces change: for GPT-2's pattern that is in fewer places. */
static void count_text(Stats *s, const char *path, Count *c)
{
    const Tok *const *t = s->o->tok;
    Encode e = { .tok = s->toks > 1 && tok_split(t[1]) == SPLIT_GPT2 ? t[1] : t[0], .text = true,
                 .special = SPECIAL_ORDINARY, .block = 1 << 20 };
    char *files[] = { (char *)path };
    Feed *f = feed_new(&e, files, 1);
    Batch b = {0};
    uint64_t tokens[2] = {0};
    while (feed_next(f, &b)) {
        size_t n = b.in.b.n, good = s->o->invalid == DOCS_STRICT ? utf8_valid(b.in.b.s, n) : n;
        if (good < n)
            die("%s: byte %" PRIu64 ": not UTF-8", b.name, b.at + good + 1);
        count_part(s, b.in.b.s, n, tokens, c);
        c->documents += b.last;
    }
    feed_free(f), buf_free(&b.in.b);
}

static Count count_file(Stats *s, const char *path)
{
    Count c = {0};
    (s->o->text ? count_text : count_rows)(s, path, &c);
    s->all.documents += c.documents, s->all.bytes += c.bytes, s->all.chars += c.chars;
    s->all.replaced += c.replaced;
    s->all.tokens[0] += c.tokens[0], s->all.tokens[1] += c.tokens[1];
    return c;
}

static double ratio(uint64_t a, uint64_t b) { return b ? (double)a / (double)b : 0; }

/* ---- a row per file ------------------------------------------------------- */

static void put_head(const Stats *s, Out *o)
{
    if (s->toks == 1) {
        out_printf(o, "%-24s %10s %14s %14s %8s %8s %9s\n", "text", "documents", "bytes", "tokens",
                   "bytes/t", "chars/t", "t/doc");
        return;
    }
    out_printf(o, "A  %s\nB  %s\n\n", s->o->name[0], s->o->name[1]);
    out_printf(o, "%-24s %14s %14s %8s %14s %8s %8s  %s\n", "text", "bytes", "A tokens", "bytes/t",
               "B tokens", "bytes/t", "B-A", "better");
}

static void put_row(const Stats *s, Out *o, const char *what, const Count *c)
{
    size_t n = strlen(what);
    const char *name = n > 24 ? what + n - 24 : what;       /* the end of a path says more */
    uint64_t a = c->tokens[0], b = c->tokens[1];
    if (s->toks == 1) {
        out_printf(o, "%-24s %10" PRIu64 " %14" PRIu64 " %14" PRIu64 " %8.3f %8.3f %9.1f\n", name,
                   c->documents, c->bytes, a, ratio(c->bytes, a), ratio(c->chars, a),
                   ratio(a, c->documents));
        return;
    }
    double diff = a ? 100 * ((double)b - (double)a) / (double)a : 0;
    out_printf(o, "%-24s %14" PRIu64 " %14" PRIu64 " %8.3f %14" PRIu64 " %8.3f %+7.2f%%  %s\n",
               name, c->bytes, a, ratio(c->bytes, a), b, ratio(c->bytes, b), diff,
               a == b ? "=" : a < b ? "A" : "B");
}

/* ---- a tokenizer ---------------------------------------------------------- */

static void put_token(Out *o, const char *what, const Tok *t, int id, uint64_t count)
{
    size_t n;
    const char *s = tok_bytes(t, id, &n);
    Buf b = {0};
    json_str(&b, s, n < 60 ? n : 60);
    out_printf(o, "  %-22s %s%s, id %d, %zu bytes, %" PRIu64 " times\n", what, b.s,
               n > 60 ? "..." : "", id, n, count);
    buf_free(&b);
}

static void put_tokenizer(const Stats *s, Out *o, int k)
{
    const Tok *t = s->o->tok[k];
    const int32_t *len = tok_byte_lengths(t);
    const uint64_t *uses = s->uses[k];
    int ordinary = 0, used = 0, once = 0, longest = -1, most = -1;
    uint64_t bytes = 0;
    for (int id = 0; id < tok_vocab(t); id++) {
        ordinary += len[id] > 0;
        if (!uses[id])
            continue;
        used++, once += uses[id] == 1;
        bytes += len[id] == 1 ? uses[id] : 0;
        if (longest < 0 || len[id] > len[longest])
            longest = id;
        if (most < 0 || uses[id] > uses[most])
            most = id;
    }
    out_printf(o, "\n%s: %d ids, %d of them ordinary tokens, split as %s\n", s->o->name[k],
               tok_vocab(t), ordinary, split_kind_name(tok_split(t)));
    out_printf(o, "  %-22s %d (%.2f%% of the ordinary), %d of them once\n", "tokens used", used,
               100 * ratio((uint64_t)used, (uint64_t)ordinary), once);
    out_printf(o, "  %-22s %.2f%%\n", "single bytes", 100 * ratio(bytes, s->all.tokens[k]));
    out_printf(o, "  %-22s %.1f in the mean, %" PRIu64 " at most\n", "tokens a document",
               ratio(s->all.tokens[k], s->all.documents), s->longest[k]);
    if (longest >= 0) {
        put_token(o, "longest", t, longest, uses[longest]);
        put_token(o, "most frequent", t, most, uses[most]);
    }
}

void stats_all(const StatsOptions *opt, int n, char **argv)
{
    Stats s = { .o = opt, .toks = opt->tok[1] ? 2 : 1,
                .line = { .what = "counting", .unit = "B" } };
    Count *rows = xcalloc((size_t)n + 1, sizeof *rows);
    for (int k = 0; k < s.toks; k++) {
        s.enc[k] = tokenc_new(opt->tok[k]);
        s.uses[k] = xcalloc((size_t)tok_vocab(opt->tok[k]), sizeof **s.uses);
    }
    for (int i = 0; i < (n ? n : 1); i++)
        rows[i] = count_file(&s, n ? argv[i + 1] : "-");
    progress_end(&s.line);
    if (!s.all.documents)
        die("no documents in %s", n == 0 ? "stdin" : n == 1 ? argv[1] : "the files");
    Out *o = out_open(opt->output, 0);
    put_head(&s, o);
    for (int i = 0; i < n; i++)
        put_row(&s, o, argv[i + 1], &rows[i]);
    if (n != 1)
        put_row(&s, o, n ? "all" : "stdin", &s.all);
    for (int k = 0; k < s.toks; k++) {
        put_tokenizer(&s, o, k);
        tokenc_free(s.enc[k]), free(s.uses[k]);
    }
    out_close(o);
    if (s.all.replaced)
        note(1, "%" PRIu64 " invalid sequences replaced", s.all.replaced);
    ids_free(&s.ids), free(rows);
}
