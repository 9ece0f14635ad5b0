/* data-fetch -- data sets, URLs and local files into JSON Lines of documents or conversations. */
#include "base/err.h"
#include "base/io.h"
#include "base/opt.h"
#include "data/array.h"
#include "data/csv.h"
#include "data/parquet.h"
#include "mix.h"
#include "range.h"
#include "sink.h"
#include "source.h"
#include "text.h"
#include "text/docs.h"
#include "text/utf8.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

typedef unsigned long long ull;

static const char *output = "-", *format = "auto", *split = "blank", *range_text = ":";
static int64_t max_docs;
static StrList columns;
static const char *inspect;
static const char *shuffle, *order = "hash", *tmpdir, *holdout, *holdout_file;
static int provenance, list, plan, offline, retries = 6, stall = 60;
static double wait_s = 1;
static int64_t mem = 512 << 20;

static const Opt opts[] = {
    OPT_HEAD("Options"),
    OPT_STR('o', "output", &output, "FILE", "write to FILE; - is stdout"),
    OPT_CHOICE(0, "format", &format, "auto|jsonl|array|csv|tsv|text|parquet",
               "what the files hold; auto: by name, then JSON Lines if they begin with {, Parquet if "
               "they begin with PAR1, else text"),
    OPT_LIST(0, "column", &columns, "NAME", "of Parquet, read only this column; repeatable"),
    OPT_STR(0, "inspect", &inspect, "FILE", "tell what a Parquet file holds, and do nothing else"),
    OPT_STR(0, "split", &split, "blank|line|none|SEP", "where documents of plain text end"),
    OPT_STR(0, "range", &range_text, "START:STOP",
            "only these bytes of a text, or rows of other files; either end as 90% too"),
    OPT_LONG(0, "max-docs", &max_docs, "N", 0, 1e15, "stop after N rows; 0: all"),
    OPT_FLAG(0, "provenance", &provenance, "add \"_from\" to each row: its file and number there"),
    OPT_STR(0, "holdout", &holdout, "PERCENT", "so many of the rows go to --holdout-output, by hash"),
    OPT_STR(0, "holdout-output", &holdout_file, "FILE", "and no others"),
    OPT_HEAD("Data sets"),
    OPT_FLAG(0, "list", &list, "tell which data sets are known, and do nothing else"),
    OPT_FLAG(0, "plan", &plan, "tell what would be fetched, and do nothing else"),
    OPT_FLAG(0, "offline", &offline, "only what was fetched before"),
    OPT_INT(0, "retries", &retries, "N", 0, 1000, "failures of the network in a row that are borne"),
    OPT_FLOAT(0, "retry-wait", &wait_s, "SECONDS", 0, 60, "after the first; doubled each time"),
    OPT_INT(0, "stall", &stall, "SECONDS", 1, 86400, "give up an answer this slow: under 1000 B/s"),
    OPT_HEAD("Order"),
    OPT_STR(0, "shuffle", &shuffle, "SEED", "rows of all files in a random order"),
    OPT_CHOICE(0, "order", &order, "hash|nanochat",
               "by a hash, for any amount of data; or the very order that nanochat makes"),
    OPT_LONG('S', "mem", &mem, "SIZE", 1 << 16, 1e15, "memory for sorting"),
    OPT_STR('T', "tmpdir", &tmpdir, "DIR", "for what exceeds it; default: $TMPDIR, /tmp"),
    OPT_END
};

static Range range;
static Sink sink = { .line = { .what = "fetching", .unit = "B" } };
static Mix *mix;                        /* NULL: rows go on as they come */
static const Source *source;            /* being read */
static uint64_t in_source;              /* its rows so far */
static Buf row, repaired;
static uint64_t replaced;

static bool enough(void)
{
    return sink_full(&sink) || (!mix && in_source >= source->op.to);
}

static void row_write(const char *s, size_t n)
{
    uint64_t i = in_source++;
    if (mix) mix_add(mix, s, n);
    else if (i >= source->op.from && i < source->op.to)
        sink_row(&sink, source->op.path, i, s, n);
}

static bool text_row(void *arg, const char *s, size_t n)
{
    (void)arg;
    if (utf8_valid(s, n) < n) {
        buf_clear(&repaired);
        replaced += utf8_repair(&repaired, s, n);
        s = repaired.s;
        n = repaired.n;
    }
    buf_clear(&row);
    buf_str(&row, "{\"text\":");
    json_str(&row, s, n);
    buf_char(&row, '}');
    row_write(row.s, row.n);
    return !enough();
}

/* ---- sizes, for percentages ----------------------------------------------------- */

static void need_twice(const char *path)
{
    struct stat st;
    if (strcmp(path, "-") == 0 || stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        die("%s: percentages in --range need a regular file, whose size is known",
            strcmp(path, "-") ? path : "stdin");
}

static uint64_t count_bytes(const char *path)
{
    uint64_t n = 0;
    size_t k;
    const char *p;
    need_twice(path);
    for (In *in = in_open(path); ; n += k) {        /* read, because it may be gzip */
        if ((k = in_some(in, &p)) == 0) return in_close(in), n;
        in_skip(in, k);
    }
}

static uint64_t count_rows(const char *path)
{
    uint64_t n = 0;
    need_twice(path);
    DocReader *r = docs_open(path);
    for (Doc d; doc_skip(r, &d); ) n++;
    docs_close(r);
    return n;
}

/* ---- the two kinds of input ----------------------------------------------------- */

/* lines: how many were consumed already */
static void fetch_jsonl(const char *path, In *in, uint64_t lines)
{
    uint64_t from, to;
    range_resolve(&range, range_relative(&range) ? count_rows(path) : 0, &from, &to);
    DocReader *r = docs_from(in, lines);
    Doc d;
    for (uint64_t i = 0; i < to && !enough(); i++) {
        if (!(i < from ? doc_skip(r, &d) : doc_next(r, &d))) break;
        if (i >= from) row_write(d.raw, d.raw_len);
    }
    docs_close(r);
}

static void fetch_parquet(const char *path)
{
    uint64_t from, to;
    Parquet *p = parquet_open(path, columns.s, columns.n);
    range_resolve(&range, parquet_rows(p), &from, &to);
    for (uint64_t i = 0; i < to && !enough(); i++) {
        buf_clear(&row);
        if (!parquet_row(p, &row)) break;
        if (i >= from) row_write(row.s, row.n);
    }
    parquet_close(p);
}

static bool is_parquet(const char *path, In *in)
{
    const char *s;
    size_t n = in_some(in, &s);
    if (strcmp(format, "auto")) return strcmp(format, "parquet") == 0;
    return strcmp(path, "-") && parquet_magic(s, n);
}

/* The rows of CSV and arrays, numbered; those of --range go on. */
typedef struct Counted { uint64_t i, from, to; } Counted;

static bool counted_row(void *arg, const char *s, size_t n)
{
    Counted *c = arg;
    if (c->i >= c->from && c->i < c->to) row_write(s, n);
    return ++c->i < c->to && !enough();
}

static Counted count_from(const char *path)
{
    Counted c = {0};
    if (range_relative(&range))
        die("%s: percentages in --range are for text, JSON Lines and Parquet",
            strcmp(path, "-") ? path : "stdin");
    range_resolve(&range, 0, &c.from, &c.to);
    return c;
}

static void fetch_csv(const char *path, In *in, char sep)
{
    Counted range_rows = count_from(path);
    Csv c = { .file = in_name(in), .sep = sep, .row = counted_row, .arg = &range_rows };
    const char *p;
    size_t k;
    bool more = true;
    while (more && (k = in_some(in, &p)) > 0) {
        more = csv_feed(&c, p, k);
        in_skip(in, k);
    }
    csv_end(&c);
    replaced += c.replaced;
    csv_free(&c);
    in_close(in);
}

/* head: white space before it, consumed already */
static void fetch_array(const char *path, In *in, const Buf *head)
{
    Counted range_rows = count_from(path);
    Array a = { .file = in_name(in), .row = counted_row, .arg = &range_rows, .pos = head->n };
    const char *p;
    size_t k;
    bool more = true;
    while (more && (k = in_some(in, &p)) > 0) {
        more = array_feed(&a, p, k);
        in_skip(in, k);
    }
    array_end(&a);
    array_free(&a);
    in_close(in);
}

typedef struct Part { Cut from, to; uint64_t pos; } Part;

/* The n bytes at s->pos; false if no more are wanted. */
static bool text_bytes(Part *s, Text *t, const char *p, size_t n)
{
    size_t a = cut_find(&s->from, s->pos, p, n), b = cut_find(&s->to, s->pos, p, n);
    s->pos += n;
    return (a >= b || text_feed(t, p + a, b - a)) && !s->to.done;
}

/* head: bytes consumed already, without the byte-order mark of `bom` bytes before them */
static void fetch_text(const char *path, In *in, Text *t, const Buf *head, size_t bom)
{
    Part s = { .pos = bom };
    size_t k = 0;
    const char *p;
    range_resolve(&range, range_relative(&range) ? count_bytes(path) : 0, &s.from.at, &s.to.at);
    bool more = text_bytes(&s, t, head->s, head->n);
    while (more && (k = in_some(in, &p)) > 0) {
        more = text_bytes(&s, t, p, k);
        in_skip(in, k);
    }
    text_end(t);
    in_close(in);
}

/* ---- which kind ----------------------------------------------------------------- */

static bool ends_in(const char *s, size_t n, const char *tail)
{
    size_t k = strlen(tail);
    return n >= k && strncasecmp(s + n - k, tail, k) == 0;
}

/* Does the name, but for .gz or .zst, end so? */
static bool named(const char *path, const char *tail)
{
    size_t n = strlen(path);
    if (ends_in(path, n, ".gz")) n -= 3;
    else if (ends_in(path, n, ".zst")) n -= 4;
    return ends_in(path, n, tail);
}

static bool jsonl_name(const char *path)
{
    return named(path, ".jsonl") || named(path, ".json") || named(path, ".ndjson");
}

static bool is_format(const char *path, const char *name)
{
    char *tail = xasprintf(".%s", name);
    bool yes = !strcmp(format, name) || (!strcmp(format, "auto") && named(path, tail));
    free(tail);
    return yes;
}

static const char BOM[] = "\xEF\xBB\xBF";

/* Consume a byte-order mark and white space into head, up to the byte that decides; that byte,
 * or -1. */
static int first_byte(In *in, Buf *head)
{
    const char *p;
    size_t k;
    while ((k = in_some(in, &p)) > 0) {
        for (size_t i = 0; i < k; i++) {
            bool maybe = head->n < 3 && memcmp(head->s, BOM, head->n) == 0;
            bool inside = maybe && head->n > 0;         /* part of a mark was seen */
            bool white = p[i] == ' ' || p[i] == '\t' || p[i] == '\r' || p[i] == '\n';
            if ((maybe && p[i] == BOM[head->n]) || (white && !inside)) {
                buf_char(head, p[i]);
                continue;
            }
            int c = (unsigned char)p[i];
            in_skip(in, i);
            return inside ? -1 : c;
        }
        in_skip(in, k);
    }
    return -1;
}

static uint64_t count_lines(const Buf *b)
{
    uint64_t n = 0;
    for (size_t i = 0; i < b->n; i++) n += b->s[i] == '\n';
    return n;
}

static void fetch(const char *path, Text *t)
{
    In *in = in_open(path);
    if (is_parquet(path, in)) {
        in_close(in);
        fetch_parquet(path);
        return;
    }
    if (is_format(path, "csv") || is_format(path, "tsv")) {
        fetch_csv(path, in, is_format(path, "csv") ? ',' : '\t');
        return;
    }
    Buf head = {0};
    buf_str(&head, "");
    bool is_text = strcmp(format, "jsonl") != 0, is_array = false;
    if (is_text) {
        int c = first_byte(in, &head);
        is_array = !strcmp(format, "array") ||
                   (!strcmp(format, "auto") && c == '[' && named(path, ".json"));
        is_text = strcmp(format, "text") == 0 || !(c == '{' || jsonl_name(path));
    }
    if (is_array) {
        fetch_array(path, in, &head);
    } else if (is_text) {
        size_t bom = head.n >= 3 && memcmp(head.s, BOM, 3) == 0 ? 3 : 0;
        memmove(head.s, head.s + bom, head.n -= bom);
        fetch_text(path, in, t, &head, bom);
    } else {
        fetch_jsonl(path, in, count_lines(&head));
    }
    buf_free(&head);
}

static Text text_start(void)
{
    Text t = { .kind = SPLIT_SEP, .sep = split, .sep_len = strlen(split), .doc = text_row };
    if (strcmp(split, "blank") == 0) t.kind = SPLIT_BLANK;
    if (strcmp(split, "line") == 0) t.kind = SPLIT_LINE;
    if (strcmp(split, "none") == 0) t.kind = SPLIT_NONE;
    if (t.sep_len == 0) die_usage("--split: an empty separator");
    return t;
}

static bool mixed_row(void *arg, int set, uint64_t index, const char *s, size_t n)
{
    const Source *o = arg;
    return sink_row(&sink, o[set].op.path, index, s, n);
}

static void open_mix(void)
{
    char *end;
    errno = 0;
    unsigned long long seed = strtoull(shuffle, &end, 10);
    if (errno || *end || shuffle[0] < '0' || shuffle[0] > '9')
        die_usage("--shuffle: '%s' is no number", shuffle);
    if (!tmpdir) tmpdir = getenv("TMPDIR");
    if (!tmpdir || !*tmpdir) tmpdir = "/tmp";
    mix = mix_new(strcmp(order, "hash") ? MIX_NANOCHAT : MIX_HASH, seed, (size_t)mem, tmpdir);
}

static void check_options(void)
{
    char *end;
    if (!shuffle && (opt_given("order") || opt_given("mem") || opt_given("tmpdir")))
        die_usage("--order, --mem, --tmpdir: only with --shuffle");
    if (!holdout != !holdout_file) die_usage("--holdout and --holdout-output belong together");
    if (!holdout) return;
    if (!strcmp(holdout_file, output) || !strcmp(holdout_file, "-"))
        die_usage("--holdout-output: a file of its own");
    sink.part = strtod(holdout, &end) / 100;
    if (end == holdout || (*end && strcmp(end, "%")) || !(sink.part > 0 && sink.part < 1))
        die_usage("--holdout: '%s' is not between 0%% and 100%%", holdout);
}

/* How the files of a set are read; what the command line says goes first. */
static void as_set_says(const Set *set, const char *given_format, StrList given_columns, Text *t)
{
    format = set && !strcmp(given_format, "auto") ? set->format : given_format;
    if (!strcmp(format, "zip")) die("%s: zip files are not read yet", set->name);
    if (set && set->adapter)
        warn("%s: rows are as published; %s makes conversations of them", set->name, set->adapter);
    columns = given_columns;
    if (set && !columns.n) columns = (StrList){ set->column, set->ncolumn };
    Text fresh = text_start();
    if (set && set->separator && !opt_given("split"))
        fresh.kind = SPLIT_SEP, fresh.sep = set->separator, fresh.sep_len = strlen(fresh.sep);
    t->kind = fresh.kind, t->sep = fresh.sep, t->sep_len = fresh.sep_len;
}

static void fetch_all(const Source *o, int n, Text *t)
{
    const char *given = format;
    StrList given_columns = columns;
    for (source = o; source < o + n && !sink_full(&sink); source++) {
        const Operand *op = &source->op;
        double whole = shuffle ? 1 : op->times;
        if (mix) mix_source(mix, op->path, op->times, op->from, op->to);
        as_set_says(source->set, given, given_columns, t);
        for (; whole > 0 && !sink_full(&sink); whole--) {
            in_source = 0;
            for (int i = 0; i < source->nfile && !enough(); i++) fetch(source->file[i], t);
        }
    }
    if (mix) mix_run(mix, mixed_row, (void *)(uintptr_t)o);
}

static Source *sources(Arena *a, int n, char **s)
{
    Source *o = arena_alloc(a, ((size_t)n + 1) * sizeof *o);
    for (int i = 0; i < n; i++) {
        o[i] = source_parse(a, s[i]);
        const Operand *op = &o[i].op;
        if (op->times != floor(op->times) && (!shuffle || strcmp(order, "hash")))
            die_usage("'%s': a part of a file is taken only by --shuffle with --order hash", s[i]);
        if (op->times > 1 && !strcmp(op->path, "-") && !shuffle)
            die_usage("'%s': stdin can be read once", s[i]);
    }
    if (!n) o[0] = source_parse(a, "-");
    return o;
}

static void tell(void)
{
    Parquet *p = parquet_open(inspect, NULL, 0);
    parquet_describe(p, &row);
    Out *out = out_open(output, 0);
    out_write(out, row.s, row.n);
    out_close(out);
    parquet_close(p);
    buf_free(&row);
}

int main(int argc, char **argv)
{
    int n = opt_parse(argc, argv, "[options] [SET[:SPLIT] | URL | FILE][@START:STOP][*TIMES] ...",
                      "Turn data sets, tables and text into JSON Lines of documents, one row each.", opts);
    if (!range_parse(range_text, &range))
        die_usage("--range '%s': START:STOP is wanted, each a number, 0%% to 100%% or nothing",
                  range_text);
    if (inspect) {
        if (n) die_usage("--inspect takes one file: '%s' is too many", argv[1]);
        tell();
        return 0;
    }
    if (list) return sets_list(), 0;
    check_options();
    Arena arena = {0};
    Text t = text_start();
    Source *o = sources(&arena, n, argv + 1);
    int nsource = n ? n : 1;
    if (plan) return source_plan(o, nsource), 0;
    Fetch how = { .offline = offline, .retries = retries, .wait = wait_s, .stall = stall };
    source_fetch(&arena, o, nsource, &how);
    if (shuffle) open_mix();
    sink.provenance = provenance;
    sink.most = (uint64_t)max_docs;
    sink.out = out_open(output, 0);
    if (holdout) sink.held = out_open(holdout_file, 0);
    fetch_all(o, nsource, &t);
    progress_end(&sink.line);
    if (sink.rows == 0) {
        out_discard(sink.out);
        if (sink.held) out_discard(sink.held);
        const char *where = n == 1 && strcmp(argv[1], "-") ? argv[1] : "stdin";
        die("%s: no documents%s", n > 1 ? "all inputs" : where,
            strcmp(range_text, ":") ? " in this range" : "");
    }
    if (sink.held) out_close(sink.held);
    out_close(sink.out);
    note(1, "%llu rows, %llu bytes; %llu empty documents left out, "
         "%llu invalid UTF-8 sequences replaced", (ull)sink.rows, (ull)sink.bytes, (ull)t.empty,
         (ull)replaced);
    if (holdout) note(1, "%llu of the rows went to %s", (ull)sink.held_rows, holdout_file);
    mix_free(mix);
    for (int i = 0; i < nsource; i++) free(o[i].op.path);
    arena_free(&arena);
    buf_free(&sink.row);
    text_free(&t);
    buf_free(&row);
    buf_free(&repaired);
    return 0;
}
