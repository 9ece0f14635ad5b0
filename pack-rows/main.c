/* pack-rows -- a token stream into row shards of T+1 tokens. */
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/opt.h"
#include "base/progress.h"
#include "shards.h"
#include "text/pack.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef unsigned long long ull;

static int T = 2048, buffer, sft, keep_tails, force, check;
static int64_t shard_rows = 65536;
static const char *output = "rows", *longs = "cut";

static const Opt opts[] = {
    OPT_HEAD("Options"),
    OPT_INT('T', "seq-len", &T, "N", 1, ROWS_MAX_T, "context length: rows hold N+1 tokens"),
    OPT_STR('o', "output", &output, "PREFIX|FILE.rows",
            "write PREFIX-00000.rows and on, or all to one FILE.rows"),
    OPT_FLAG(0, "keep-tails", &keep_tails,
             "what is cropped from a document starts another one, after <|bos|>"),
    OPT_FLAG(0, "sft", &sft, "keep conversations whole and pad rows; needs loss masks"),
    OPT_CHOICE(0, "long", &longs, "cut|drop",
               "with --sft, what becomes of those longer than a row"),
    OPT_INT(0, "buffer", &buffer, "N", 0, 1 << 24,
            "documents to choose from; 0 means 1000, or 100 with --sft"),
    OPT_LONG(0, "shard-rows", &shard_rows, "N", 1, 1e15, "rows in a shard at most"),
    OPT_FLAG(0, "force", &force,
             "remove shards that an earlier, larger run left beyond the new ones"),
    OPT_FLAG(0, "check", &check, "operands are row shards: verify them, describe each on stdout"),
    OPT_END
};

typedef struct Job {
    TokenHead head;             /* of the first stream */
    const char *first;          /* its name */
    Pack *pack;                 /* made when the head is known */
    Shards *shards;
    uint64_t bytes;             /* read in the streams before this one */
    Progress line;
} Job;

static void row_out(void *arg, const uint32_t *id, const uint8_t *mask)
{
    shards_row(((Job *)arg)->shards, id, mask);
}

static void job_begin(Job *j, const TokenHead *h, const char *name)
{
    j->head = *h;
    j->first = name;
    if (sft && !h->masks)
        die("%s: has no loss masks, which --sft needs (tok-encode --chat writes them)", name);
    if (keep_tails && h->bos == UINT32_MAX)
        die("%s: its tokenizer has no <|bos|>, with which --keep-tails begins a tail", name);
    RowHead rh = { .vocab = h->vocab, .bos = h->bos, .T = (uint32_t)T, .masks = h->masks,
                   .tok_hash = h->tok_hash };
    j->shards = shards_new(output, &rh, (uint64_t)shard_rows, force);
    /* Padding has mask 0 and stands last in its row, where nothing sees it: any token will do. */
    PackOpt o = { .T = (uint32_t)T, .bos = sft && h->bos == UINT32_MAX ? 0 : h->bos, .sft = sft, .masks = h->masks,
                  .keep_tails = keep_tails,
                  .buffer = buffer ? (uint32_t)buffer : sft ? 100 : 1000,
                  .drop_long = strcmp(longs, "drop") == 0 };
    j->pack = pack_new(&o, row_out, j);
}

static void pack_stream(Job *j, const char *path)
{
    TokenHead h;
    TokenReader *r = tokens_open(path, &h);
    io_reads(path);                     /* till the end: shards get their names later */
    const char *name = strcmp(path, "-") ? path : "stdin";
    if (j->pack) tokens_same(name, &h, j->first, &j->head);
    else job_begin(j, &h, name);
    const uint32_t *id;
    const uint8_t *mask;
    size_t n;
    for (uint64_t d = 1; tokens_next(r, &id, &mask, &n); d++) {
        if (h.bos != UINT32_MAX && (n == 0 || id[0] != h.bos))
            die("%s: document %llu does not begin with <|bos|> (token %u)", name, (ull)d, h.bos);
        pack_add(j->pack, id, mask, n);
        pack_run(j->pack);
        progress(&j->line, j->bytes + tokens_offset(r));
    }
    j->bytes += tokens_offset(r);
    tokens_finish(r);
}

static const char *s_if(uint64_t n)
{
    return n == 1 ? "" : "s";
}

_Noreturn static void too_little(const Job *j, const PackStat *s)
{
    ull docs = s->docs, in = s->in;
    if (s->dropped_docs > 0)
        die("%s: no row: all %llu conversations are longer than the %d tokens of a row", j->first,
            docs, T + 1);
    die("%s: too few tokens: %llu found in %llu document%s, a row needs %d", j->first, in, docs,
        s_if(docs), T + 1);
}

static void report(const Job *j, const PackStat *s, uint64_t shards)
{
    char *names = shards_names(output, shards);
    ull size = (ull)T + 1, slots = s->rows * size;
    note(1, "in: %llu document%s, %llu tokens", (ull)s->docs, s_if(s->docs), (ull)s->in);
    note(1, "out: %llu row%s of %llu tokens in %llu shard%s, %.2f%% full: %s", (ull)s->rows,
         s_if(s->rows), size, (ull)shards, s_if(shards), 100 * (double)s->out / (double)slots,
         names);
    note(1, "tokens: %llu in rows, %llu cropped (%llu document%s), %llu dropped "
         "(%llu whole document%s), %llu padding", (ull)s->out, (ull)s->cropped,
         (ull)s->cut_docs, s_if(s->cut_docs),
         (ull)s->dropped, (ull)s->dropped_docs, s_if(s->dropped_docs), (ull)s->padding);
    if (s->added > 0) note(1, "kept: %llu tails, each after a <|bos|> of its own", (ull)s->added);
    if (!sft && s->cropped > s->in / 2)
        warn("%.0f%% of all tokens were cropped: the documents are longer than rows; "
             "--keep-tails keeps the rest", 100 * (double)s->cropped / (double)s->in);
    if (s->idle_rows > 0)
        warn("%llu row%s without a single token that counts for the loss", (ull)s->idle_rows,
             s_if(s->idle_rows));
    if (j->head.masks)
        note(1, "loss mask 1: %llu tokens in, %llu in rows", (ull)s->mask_in, (ull)s->mask_out);
    free(names);
}

static void pack_files(char **path, int n)
{
    Job j = { .line = { .what = "packing", .unit = "B" } };
    for (int i = 0; i < n; i++) pack_stream(&j, path[i]);
    PackStat s = pack_end(j.pack);
    progress_end(&j.line);
    if (s.rows == 0) {
        shards_drop(j.shards);
        too_little(&j, &s);
    }
    report(&j, &s, shards_finish(j.shards));
}

/* ---- --check ------------------------------------------------------------------ */

static void describe(const char *path, const RowHead *h)
{
    Buf b = {0};
    buf_str(&b, "{\"file\":");
    json_str(&b, path, strlen(path));
    buf_printf(&b, ",\"rows\":%llu,\"seq_len\":%u,\"vocab\":%u,\"bos\":", (ull)h->rows, h->T,
               h->vocab);
    if (h->bos == UINT32_MAX) buf_str(&b, "null");
    else buf_printf(&b, "%u", h->bos);
    buf_printf(&b, ",\"masks\":%s,\"tokenizer\":\"%016llx\"}\n", h->masks ? "true" : "false",
               (ull)h->tok_hash);
    Out *o = out_open("-", 0);
    out_write(o, b.s, b.n);
    out_close(o);
    buf_free(&b);
}

static void check_files(char **path, int n)
{
    RowHead first, h;
    for (int i = 0; i < n; i++) {
        Rows *f = rows_open(path[i], &h);
        if (i == 0) first = h;
        rows_same(path[i], &h, path[0], &first);
        rows_verify(f);
        uint32_t *id = xreallocarray(NULL, (size_t)h.T + 1, sizeof *id);
        for (uint64_t r = 0; r < h.rows; r++) rows_raw(f, r, id, NULL); /* dies on an id >= vocab */
        free(id);
        rows_unmap(f);
        describe(path[i], &h);
    }
}

/* A prefix is no file. "." and ".." would make hidden shards, /dev/full ones among the devices. */
static void check_prefix(void)
{
    const char *slash = strrchr(output, '/'), *base = slash ? slash + 1 : output;
    struct stat st;
    if (strcmp(base, ".") == 0 || strcmp(base, "..") == 0)
        die_usage("-o '%s': a name is needed, such as %s/train", output, output);
    if (!shards_single(output) && stat(output, &st) == 0 && !S_ISREG(st.st_mode) &&
        !S_ISDIR(st.st_mode))
        die("%s: not a place for row shards, which are files to be mapped", output);
}

static void check_options(int n)
{
    size_t len = strlen(output);
    if (check && n == 0) die_usage("--check needs row shards to read");
    if (len == 0 || output[len - 1] == '/')
        die_usage("-o '%s': a name is needed, such as %strain", output, output);
    if (strcmp(output, "-") == 0) die_usage("row shards are files to be mapped: -o cannot be '-'");
    check_prefix();
    if (opt_given("long") && !sft) die_usage("--long is for --sft");
    if (keep_tails && sft) die_usage("--keep-tails: --sft crops nothing");
    if (opt_given("shard-rows") && shards_single(output))
        die_usage("-o %s is one shard: --shard-rows is for -o PREFIX", output);
}

int main(int argc, char **argv)
{
    int n = opt_parse(argc, argv, "[options] [FILE ...]\n--check FILE.rows ...",
                      "Pack the documents of token streams into rows of N+1 tokens to train on.",
                      opts);
    char dash[] = "-", *from_stdin[] = { dash };
    check_options(n);
    if (check) check_files(argv + 1, n);
    else pack_files(n ? argv + 1 : from_stdin, n ? n : 1);
    return 0;
}
