/* bpe-train -- documents in, a tokenizer out.
 *
 * Reads until the text ends or suffices, counting distinct pieces; trains on the counts; writes. */
#include "base/cpu.h"
#include "base/io.h"
#include "base/opt.h"
#include "corpus.h"
#include "text/bpe.h"
#include "text/docs.h"
#include "text/tok.h"
#include "text/words.h"
#include <inttypes.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static int vocab = 32768, threads, words;
static int64_t doc_cap = 10000, max_chars = 2000000000, min_count = 1, mem;
static const char *output = "-", *merges_file, *counts_file, *old_file, *tmpdir;
static const char *invalid = "replace";

static const Opt opts[] = {
    OPT_HEAD("Options"),
    OPT_INT('v', "vocab-size", &vocab, "N", 4, 256 + TOK_MAX_MERGES + SP_COUNT,
            "ids in all: bytes, merges, special tokens"),
    OPT_FLAG(0, "words", &words, "no byte pairs: the most frequent words, and runs of white space"),
    OPT_STR('o', "output", &output, "FILE", "write the tokenizer to FILE; - is stdout"),
    OPT_LONG(0, "doc-cap", &doc_cap, "N", 0, 1e15,
             "use the first N characters of a document; 0: all"),
    OPT_LONG(0, "max-chars", &max_chars, "N", 0, 1e15,
             "stop after the document that passes N characters; 0: never"),
    OPT_LONG(0, "min-count", &min_count, "N", 1, 1e15, "leave out pieces that occur less often"),
    OPT_STR(0, "continue-from", &old_file, "FILE", "keep the merges of this tokenizer, add more"),
    OPT_STR(0, "counts", &counts_file, "FILE", "also write the counted pieces, an input next time"),
    OPT_STR(0, "merges", &merges_file, "FILE", "also write lines \"left right id\""),
    OPT_CHOICE(0, "invalid", &invalid, "replace|error", "bytes that are not UTF-8"),
    OPT_HEAD("Resources"),
    OPT_INT('j', "threads", &threads, "N", 0, 1024, "threads; 0: one for each processor"),
    OPT_LONG(0, "mem", &mem, "SIZE", 0, 1e15,
             "use about SIZE bytes of memory; 0: half of what there is"),
    OPT_STR('T', "tmpdir", &tmpdir, "DIR", "for what exceeds it; default: $TMPDIR, /tmp"),
    OPT_END
};

enum { BASE_MEMORY = 12 << 20 };        /* what the program has besides the corpus */

static void set_defaults(void)
{
    if (!threads)
        threads = cpu_count();
    if (!mem)
        mem = (int64_t)sysconf(_SC_PHYS_PAGES) / 2 * sysconf(_SC_PAGESIZE);
    if (!tmpdir)
        tmpdir = getenv("TMPDIR");
    if (!tmpdir || !*tmpdir)
        tmpdir = "/tmp";
}

/* For tests: PIPEGPT_BLOCK, bytes of text that a thread is given at a time, PIPEGPT_TABLE, bytes of
 * tables after which counting goes on on disk. */
static size_t from_environment(const char *name)
{
    const char *s = getenv(name);
    return s ? (size_t)strtoull(s, NULL, 10) : 0;
}

static Tok *load_old(void)
{
    Tok *t = tok_load(old_file);
    io_reads(old_file);
    if (!tok_simple(t))
        die("%s: not a tokenizer that bpe-train could have made", old_file);
    return t;
}

static void write_merges(const Bpe *b, Out *o)
{
    for (size_t k = 0; k < b->n; k++)
        out_printf(o, "%" PRIu32 " %" PRIu32 " %zu\n", b->pair[k][0], b->pair[k][1], 256 + k);
    out_close(o);
}

static void warn_if_short(const Bpe *b, const Tok *t)
{
    if (b->end == BPE_NO_PAIRS)
        warn("no pairs are left after %zu merges: the tokenizer has %d ids, not %d", b->n,
             tok_vocab(t), vocab);
    if (b->end == BPE_TOO_LONG)
        warn("stopped after %zu merges, as the next token would be too long: the tokenizer has "
             "%d ids, not %d", b->n, tok_vocab(t), vocab);
}

/* Count all input. */
static Pieces read_all(int n, char **path, CountInfo *info, uint64_t *total)
{
    Corpus c = { .words = words, .doc_cap = (uint64_t)doc_cap, .max_chars = (uint64_t)max_chars,
                 .invalid = strcmp(invalid, "error") ? DOCS_REPLACE : DOCS_STRICT,
                 .line = { .what = "reading", .unit = "B" } };
    double begin = now_seconds();
    c.counter = counter_new(&(CountOptions){ .threads = threads, .mem = (size_t)mem,
                                             .tmpdir = tmpdir,
                                             .split = words ? SPLIT_WORDS : SPLIT_NANOCHAT,
                                             .block = from_environment("PIPEGPT_BLOCK"),
                                             .table = from_environment("PIPEGPT_TABLE") });
    bool more = true;
    for (int i = 0; more && i < n; i++)
        more = corpus_add(&c, path[i]);
    if (n == 0)
        corpus_add(&c, "-");
    progress_end(&c.line);
    if (!c.info.chars)
        die("no text in %s", n == 0 ? "stdin" : n == 1 ? path[0] : "the files");
    uint64_t distinct;
    Pieces v = counter_end(c.counter, counts_file ? 1 : min_count, total, &distinct);
#ifdef __GLIBC__
    malloc_trim(0);                             /* what it was counted with */
#endif
    if (c.bad)
        warn("%" PRIu64 " stretches of bytes were not UTF-8 and became U+FFFD", c.bad);
    note(1, "%" PRIu64 " documents, %" PRIu64 " characters, %" PRIu64 " bytes, %" PRIu64
         " pieces, %" PRIu64 " of them distinct, %.1f s", c.info.docs, c.info.chars, c.info.bytes,
         *total, distinct, now_seconds() - begin);
    *info = c.info;
    return v;
}

static Bpe train(Pieces *v, const Tok *old)
{
    BpeOptions o = { .consume = v };
    size_t specials = SP_COUNT;
    if (old) {
        o.nfirst = tok_merges(old, &o.first);
        specials = (size_t)tok_vocab(old) - 256 - o.nfirst;
        if (tok_vocab(old) > vocab)
            die("%s: has %zu merges already, %d ids with the special tokens", old_file, o.nfirst,
                tok_vocab(old));
    }
    size_t want = (size_t)vocab - 256 - specials;
    Progress line = { .what = "merging", .unit = "merges", .total = want };
    o.want = want, o.line = &line;
    size_t need = size_add(bpe_memory(v, want), BASE_MEMORY);
    if (need / 11 > (size_t)mem / 10)
        die("training on %zu distinct pieces takes at least %zu MB: more memory (--mem) or leaving "
            "out rare ones (--min-count) is needed", v->n, (need >> 20) + 1);
    pieces_by_place(v);
    o.mem = (need > (size_t)mem ? need : (size_t)mem) - BASE_MEMORY;
    Bpe b = bpe_train_with(v, &o);
    progress_end(&line);
    return b;
}

static void write_counts(Pieces *v, const CountInfo *info, Out *o)
{
    pieces_sort(v);
    counts_write(o, v, info);
    out_close(o);
}

static Tok *train_words(Pieces *v, uint64_t total)
{
    uint64_t known;
    Tok *t = words_train(v, vocab, &known);
    if (tok_vocab(t) < vocab)
        warn("there are no more words: the tokenizer has %d ids, not %d", tok_vocab(t), vocab);
    note(1, "%" PRIu64 " of %" PRIu64 " pieces are unknown, %.4g %%; %d ids", total - known, total,
         100 * (double)(total - known) / (double)total, tok_vocab(t));
    pieces_free(v);
    return t;
}

static void check_words(void)
{
    static const char *const no[] = { "continue-from", "counts", "merges" };
    for (size_t i = 0; words && i < sizeof no / sizeof *no; i++)
        if (opt_given(no[i])) die_usage("--%s: not with --words", no[i]);
    if (!words && vocab < 256 + SP_COUNT)
        die_usage("--vocab-size: %d is not from %d (or give --words)", vocab, 256 + SP_COUNT);
}

/* No output goes where an input is, also one that is not opened as --max-chars comes first. */
static void keep_inputs(int n, char **path)
{
    for (int i = 0; i < n; i++)
        io_reads(strcmp(path[i], "-") ? path[i] : "/dev/stdin");
}

static void check_outputs(const Out *const out[3])
{
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < i; k++)
            if (out[i] && out[k] && out_same(out[i], out[k]))
                die_usage("%s: only one of -o, --counts and --merges can go there", out_name(out[i]));
}

int main(int argc, char **argv)
{
    int n = opt_parse(argc, argv, "[options] [FILE ...]",
                      "Train a byte-pair tokenizer on documents (JSON Lines).", opts);
    double begin = now_seconds();
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, 512 << 10);       /* what is freed goes back at once, at any size */
#endif
    set_defaults();
    check_words();
    Tok *old = old_file ? load_old() : NULL;    /* before the work, so that errors come early */
    Out *o = out_open(output, OUT_BINARY);      /* likewise */
    Out *counts = counts_file ? out_open(counts_file, OUT_BINARY) : NULL;
    Out *merges = merges_file ? out_open(merges_file, 0) : NULL;
    check_outputs((const Out *const[]){ o, counts, merges });
    keep_inputs(n, argv + 1);
    CountInfo info;
    uint64_t total;
    Pieces v = read_all(n, argv + 1, &info, &total);
    if (words) {
        Tok *t = train_words(&v, total);
        tok_write(t, o);
        out_close(o);
        tok_free(t);
        return 0;
    }
    if (counts) {
        write_counts(&v, &info, counts);
        pieces_prune(&v, min_count);
    }
    Bpe b = train(&v, old);
    const uint32_t (*pair)[2] = (const uint32_t (*)[2])b.pair;
    Tok *t = old ? tok_from_merges_like(pair, b.n, old) : tok_from_merges(pair, b.n);
    warn_if_short(&b, t);
    tok_free(old);
    tok_write(t, o);
    out_close(o);
    if (merges)
        write_merges(&b, merges);
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    note(1, "%zu merges, the last of a pair that stood %" PRId64 " times; %d ids; %.1f s in all, "
         "at most %ld MB", b.n, b.n ? b.count[b.n - 1] : 0, tok_vocab(t), now_seconds() - begin,
         use.ru_maxrss / 1024);
    bpe_free(&b);
    tok_free(t);
    return 0;
}
