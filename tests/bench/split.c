/* split.c -- splitting alone: a pattern over the documents of a file, by split_kind_ends() of the
 * best tier (PIPEGPT_CPU allows none above it) and by split_kind_next(), one piece at a time.
 *
 *     split [-r ROUNDS] [--pattern NAME] DOCS.jsonl
 *
 * The texts are in memory, the ends of pieces stay in the first-level cache; the least time of the
 * rounds counts. Both must find the same pieces. */
#include "base/buf.h"
#include "base/err.h"
#include "base/opt.h"
#include "base/progress.h"
#include "text/docs.h"
#include "text/split_other.h"
#include <stdio.h>

typedef struct Sum { uint64_t pieces, ends; } Sum;      /* ends: of all, mixed */
typedef struct Text { size_t at, len; } Text;

static SplitKind kind;

static Sum by_ends(const char *s, size_t n)
{
    uint32_t ends[1024];
    Sum sum = { 0 };
    for (size_t i = 0, k; i < n; i += ends[k - 1]) {
        k = split_kind_ends(kind, s, n, i, ends, sizeof ends / sizeof *ends);
        if (k == 0) die("a piece of 4 GB");
        sum.pieces += k;
        for (size_t j = 0; j < k; j++) sum.ends += (i + ends[j]) * (i + ends[j]);
    }
    return sum;
}
static Sum by_next(const char *s, size_t n)
{
    Sum sum = { 0 };
    for (size_t i = 0; i < n; sum.pieces++) {
        i = split_kind_next(kind, s, n, i);
        sum.ends += i * i;
    }
    return sum;
}

static Sum measure(const char *name, Sum (*by)(const char *, size_t), const Buf *all, const Buf *texts,
                   int rounds)
{
    const Text *t = (const Text *)(const void *)texts->s;
    const size_t n = texts->n / sizeof *t;
    double least = 0;
    Sum sum = { 0 };
    for (int r = 0; r < rounds; r++) {
        const double from = now_seconds();
        sum = (Sum){ 0 };
        for (size_t i = 0; i < n; i++) {
            const Sum one = by(all->s + t[i].at, t[i].len);
            sum.pieces += one.pieces;
            sum.ends += one.ends;
        }
        const double took = now_seconds() - from;
        if (r == 0 || took < least) least = took;
    }
    printf("%-12s %8.0f MB/s %6.2f ns a piece\n", name, (double)all->n / least / 1e6,
           least * 1e9 / (double)sum.pieces);
    return sum;
}

int main(int argc, char **argv)
{
    int rounds = 5;
    const char *pattern = "nanochat";
    const Opt opts[] = {
        OPT_INT('r', "rounds", &rounds, "N", 1, 1000, "the least time of N counts"),
        OPT_CHOICE(0, "pattern", &pattern, "nanochat|gpt2|llama3|cl100k|qwen2", "whose"),
        OPT_END
    };
    const int n = opt_parse(argc, argv, "[options] DOCS.jsonl", "Speed of the pre-tokenizer alone.", opts);
    if (n != 1) die_usage("one file of documents");
    kind = (SplitKind)split_kind_named(pattern);
    Buf all = { 0 }, texts = { 0 };
    DocReader *r = docs_open(argv[1]);
    for (Doc d; doc_next(r, &d);) {
        if (!d.text) continue;
        Text t = { all.n, d.len };
        buf_add(&all, d.text, d.len);
        buf_add(&texts, &t, sizeof t);
    }
    docs_close(r);
    printf("%zu documents, %.1f MB of text\n", texts.n / sizeof(Text), (double)all.n / 1e6);
    const Sum a = measure("at once", by_ends, &all, &texts, rounds);
    const Sum b = measure("one by one", by_next, &all, &texts, rounds);
    if (a.pieces != b.pieces || a.ends != b.ends) die("they find different pieces");
    printf("%.1f million pieces of %.2f bytes\n", (double)a.pieces / 1e6,
           (double)all.n / (double)a.pieces);
    buf_free(&all);
    buf_free(&texts);
    return 0;
}
