/* data-fetch -- data sets, URLs and local files into JSON Lines of documents or conversations. */
#include "base/child.h"
#include "base/err.h"
#include "base/io.h"
#include "base/opt.h"
#include "inspect.h"
#include "mix.h"
#include "read.h"
#include "sink.h"
#include "source.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long ull;

static const char *output = "-", *format = "auto", *split = "blank", *range_text = ":";
static int64_t max_docs;
enum { INSPECT_ROWS = 1000 };
static StrList columns;
static const char *inspected;
static const char *shuffle, *order = "hash", *tmpdir, *holdout, *holdout_file;
static const char *jq;
static int raw, jq_wait = 60;
static int provenance, list, plan, offline, json, jobs = 4, retries = 6, stall = 60;
static double wait_s = 1;
static int64_t mem = 512 << 20;

static const Opt opts[] = {
    OPT_HEAD("Options"),
    OPT_STR('o', "output", &output, "FILE", "write to FILE; - is stdout"),
    OPT_CHOICE(0, "format", &format, "auto|jsonl|array|csv|tsv|text|parquet|zip|tar",
               "what the files, also those of archives, hold; auto: by name, then JSON Lines if they "
               "begin with {, Parquet if they begin with PAR1, else text"),
    OPT_LIST(0, "column", &columns, "NAME", "of Parquet, read only this column; repeatable"),
    OPT_STR(0, "inspect", &inspected, "FILE", "tell what a file holds, and do nothing else"),
    OPT_STR(0, "split", &split, "blank|line|none|SEP", "where documents of plain text end"),
    OPT_STR(0, "range", &range_text, "START:STOP",
            "only these bytes of a text, or rows of other files; either end as 90% too"),
    OPT_LONG(0, "max-docs", &max_docs, "N", 0, 1e15, "stop after N rows; 0: all"),
    OPT_FLAG(0, "provenance", &provenance, "add \"_from\" to each row: its file and number there"),
    OPT_STR(0, "holdout", &holdout, "PERCENT", "so many of the rows go to --holdout-output, by hash"),
    OPT_STR(0, "holdout-output", &holdout_file, "FILE", "and no others"),
    OPT_HEAD("Programs for jq"),
    OPT_STR(0, "jq", &jq, "FILE", "pass rows through this program for jq, or the one of that name in "
            "share/data"),
    OPT_FLAG(0, "raw", &raw, "rows of data sets as published, not passed through their programs"),
    OPT_INT(0, "jq-wait", &jq_wait, "SECONDS", 0, 86400,
            "give up when jq neither takes nor gives anything so long; 0: never"),
    OPT_HEAD("Data sets"),
    OPT_FLAG(0, "list", &list, "tell which data sets are known, and do nothing else"),
    OPT_FLAG(0, "plan", &plan, "tell what would be fetched, and do nothing else"),
    OPT_FLAG(0, "offline", &offline, "only what was fetched before"),
    OPT_INT(0, "jobs", &jobs, "N", 1, 64, "fetch so many files at once"),
    OPT_FLAG(0, "json", &json, "progress as JSON Lines on stderr"),
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

static Sink sink = { .line = { .what = "fetching", .unit = "B" } };
static Mix *mix;                        /* NULL: rows go on as they come */
static const Source *source;            /* being read */
static uint64_t in_source;              /* its rows so far */

static bool enough(void)
{
    return sink_full(&sink) || (!mix && in_source >= source->op.to);
}

static bool row_write(void *arg, const char *s, size_t n)
{
    uint64_t i = in_source++;
    (void)arg;
    if (mix) mix_add(mix, s, n);
    else if (i >= source->op.from && i < source->op.to)
        sink_row(&sink, source->op.path, i, s, n);
    return !enough();
}

static void split_at(Read *r, const char *how)
{
    r->split = SPLIT_SEP, r->sep = how;
    if (strcmp(how, "blank") == 0) r->split = SPLIT_BLANK;
    if (strcmp(how, "line") == 0) r->split = SPLIT_LINE;
    if (strcmp(how, "none") == 0) r->split = SPLIT_NONE;
    if (!*how) die_usage("--split: an empty separator");
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
    if (jq && raw) die_usage("--jq and --raw exclude each other");
    if (!holdout != !holdout_file) die_usage("--holdout and --holdout-output belong together");
    if (!holdout) return;
    if (!strcmp(holdout_file, "-")) die_usage("--holdout-output: a file of its own");
    sink.part = strtod(holdout, &end) / 100;
    if (end == holdout || (*end && strcmp(end, "%")) || !(sink.part > 0 && sink.part < 1))
        die_usage("--holdout: '%s' is not between 0%% and 100%%", holdout);
}

/* How the files of a set are read; what the command line says goes first. */
static void as_said(Read *r)
{
    const Set *set = source->set;
    r->format = set && !strcmp(format, "auto") ? set->format : format;
    r->members = source->members;
    r->program = source->program;
    r->any = raw;
    r->columns = set && !columns.n ? (StrList){ set->column, set->ncolumn } : columns;
    split_at(r, split);
    if (set && set->separator && !opt_given("split")) r->split = SPLIT_SEP, r->sep = set->separator;
}

/* All of a set was read: is it as long as it should be? */
static void check_rows(const Read *r)
{
    const Set *set = source->set;
    bool whole = !enough() && !opt_given("range") && !opt_given("split") && !opt_given("format") &&
                 (!r->program || r->program->rows == ROWS_SAME);
    if (set && whole && set->rows >= 0 && in_source != (uint64_t)set->rows)
        warn("%s: %llu rows, but its manifest says %lld", source->op.path, (ull)in_source,
             (long long)set->rows);
}

static void read_all(Read *r, const Source *o, int n)
{
    for (source = o; source < o + n && !sink_full(&sink); source++) {
        const Operand *op = &source->op;
        double whole = shuffle ? 1 : op->times;
        if (mix) mix_source(mix, op->path, op->times, op->from, op->to);
        as_said(r);
        for (; whole > 0 && !sink_full(&sink); whole--) {
            in_source = 0;
            for (int i = 0; i < source->nfile && !enough(); i++) {
                if (!source->file[i]) out_flush(sink.out);      /* it may have to be waited for */
                read_rows(r, source_file(source, i));
            }
            check_rows(r);
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

/* Which rows go through which program. */
static void load_programs(Source *o, int n)
{
    for (int i = 0; i < n; i++) {
        const char *adapter = o[i].set && !raw ? o[i].set->adapter : NULL;
        if (!jq && !adapter) continue;
        Program *p = xmalloc(sizeof *p);
        char *named = jq && access(jq, F_OK) ? set_program(jq) : NULL;
        *p = program_load(named ? named : jq ? jq : adapter);
        free(named);
        p->seconds = jq_wait;
        o[i].program = p;
    }
}

/* Before anything is fetched for it. */
static void need_jq(const Source *o, int n)
{
    for (int i = 0; i < n; i++)
        if (o[i].program && !child_found("jq"))
            die("%s: %s needs jq, and there is none on the PATH%s", o[i].op.path, o[i].program->name,
                jq ? "" : "; --raw gives the rows as published");
}

static void free_sources(Source *o, int n)
{
    for (int i = 0; i < n; i++) {
        free(o[i].op.path);
        if (o[i].program) program_free(o[i].program);
        free(o[i].program);
    }
}

static void tell(Read *r)
{
    Buf b = {0};
    inspect(inspected, r, max_docs ? (uint64_t)max_docs : INSPECT_ROWS, &b);
    Out *out = out_open(output, 0);
    out_write(out, b.s, b.n);
    out_close(out);
    buf_free(&b);
    read_free(r);
}

/* name: of the first operand, as it was given. */
static void run(Arena *a, Read *r, Source *o, int n, const char *name)
{
    need_jq(o, n);
    Fetch how = { .jobs = jobs, .offline = offline, .json = json, .retries = retries, .wait = wait_s,
                  .stall = stall };
    Fetcher *fetcher = source_fetch(a, o, n, &how);
    if (shuffle) open_mix();
    sink.provenance = provenance;
    sink.most = (uint64_t)max_docs;
    sink.json = json;
    sink.out = out_open(output, 0);
    if (holdout) sink.held = out_open(holdout_file, 0);
    if (holdout && out_same(sink.out, sink.held))
        die_usage("--holdout-output: %s is where the others go", holdout_file);
    read_all(r, o, n);
    fetch_end(fetcher);
    progress_end(&sink.line);
    if (sink.rows == 0) {
        out_discard(sink.out);
        if (sink.held) out_discard(sink.held);
        const char *where = strcmp(o[0].op.path, "-") ? name : "stdin";
        die("%s: no documents%s", n > 1 ? "all inputs" : where,
            strcmp(range_text, ":") ? " in this range" : "");
    }
    if (sink.held) out_close(sink.held);
    out_close(sink.out);
    if (json) sink_tell(&sink, "done");
    else note(1, "%llu rows, %llu bytes; %llu empty documents left out, "
         "%llu invalid UTF-8 sequences replaced", (ull)sink.rows, (ull)sink.bytes, (ull)r->empty,
         (ull)r->replaced);
    if (holdout && !json) note(1, "%llu of the rows went to %s", (ull)sink.held_rows, holdout_file);
    mix_free(mix);
    buf_free(&sink.row);
}

int main(int argc, char **argv)
{
    int n = opt_parse(argc, argv, "[options] [SET[:SPLIT] | URL | FILE][:PATTERN][@START:STOP][*TIMES] ...",
                      "Turn data sets, tables and text into JSON Lines of documents, one row each.", opts);
    Read read = { .row = row_write };
    if (!range_parse(range_text, &read.range))
        die_usage("--range '%s': START:STOP is wanted, each a number, 0%% to 100%% or nothing",
                  range_text);
    split_at(&read, split);
    if (inspected) {
        if (n) die_usage("--inspect takes one file: '%s' is too many", argv[1]);
        read.format = format, read.columns = columns;
        tell(&read);
        return 0;
    }
    if (list && n) die_usage("--list takes no operands: '%s' is too many", argv[1]);
    if (list) return sets_list(), 0;
    check_options();
    Arena arena = {0};
    Source *o = sources(&arena, n, argv + 1);
    int nsource = n ? n : 1;
    load_programs(o, nsource);
    if (plan) source_plan(&arena, o, nsource);
    else run(&arena, &read, o, nsource, n ? argv[1] : "-");
    free_sources(o, nsource);
    arena_free(&arena);
    read_free(&read);
    return 0;
}
