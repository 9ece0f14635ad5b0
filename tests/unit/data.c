/* data.h: shards as one sequence of rows: order, epochs, counts of targets, patterns, refusals. */
#include "gpt/data.h"
#include "tap.h"
#include <sys/stat.h>

enum { T = 6, V = 300 };
static char dir[] = "/tmp/data-test-XXXXXX";

static const char *at(const char *name)
{
    static char *s[8];
    static int i;
    i = (i + 1) % 8;
    free(s[i]);
    return s[i] = xasprintf("%s/%s", dir, name);
}

/* Row number k of the whole sequence is k, k+1, ..., k+T; masked rows count k % (T+1) targets. */
static void make(const char *name, RowHead h, int from, int rows)
{
    RowWriter *w = rows_create(at(name), &h);
    for (int r = from; r < from + rows; r++) {
        uint32_t id[T + 1];
        uint8_t mask[T + 1];
        for (int t = 0; t <= T; t++) {
            id[t] = (uint32_t)(r + t);
            mask[t] = t > 0 && t <= r % (T + 1);
        }
        rows_write(w, id, h.masks ? mask : NULL);
    }
    rows_close(w);
}

static Data *open1(const char *path)
{
    const char *s[] = { path };
    return data_open(&(StrList){ s, 1 });
}

static Data *open2(const char *a, const char *b)
{
    const char *s[] = { xstrdup(a), xstrdup(b) };
    Data *d = data_open(&(StrList){ s, 2 });
    free((char *)s[0]);
    free((char *)s[1]);
    return d;
}

static void test_order(void)
{
    const char *s[] = { dir };
    Data *d = data_open(&(StrList){ s, 1 });
    int32_t x[4 * T], y[4 * T];
    ok(d->n == 3 && d->head.rows == 10 && d->head.T == T,
       "a directory: %d shards with rows, %d rows", d->n, (int)d->head.rows);
    int seen[10] = {0}, order = 1, next = 1;
    for (uint64_t pos = 0; pos < 30; pos++) {
        data_get(d, pos, x, y);
        order &= x[0] == (int)(pos % 10);
        for (int t = 0; t < T; t++) next &= y[t] == x[t] + 1;
        if (x[0] >= 0 && x[0] < 10) seen[x[0]]++;
    }
    int thrice = 1;
    for (int i = 0; i < 10; i++) thrice &= seen[i] == 3;
    ok(thrice, "three epochs take every row three times");
    ok(order && next, "in the order of the files; targets are shifted by one");
    uint64_t valid = data_batch(d, 8, 4, x, y), in;
    ok(valid == 4 * T && x[0] == 8 && x[T] == 9 && x[2 * T] == 0 && x[3 * T] == 1,
       "a batch across the end of the epoch");
    ok(strstr(data_where(d, 5, &in), "b.rows") && in == 1, "row 5 is row 1 of the second shard");
    data_free(d);
}

static void test_patterns(void)
{
    Data *d = open1(at("[ab].rows"));
    ok(d->n == 2 && d->head.rows == 9, "a pattern");
    data_free(d);
    d = open2(at("b.rows"), at("a.rows"));
    int32_t x[T], y[T];
    data_get(d, 0, x, y);
    ok(x[0] == 4 && d->head.rows == 9, "two shards, in the order given");
    data_free(d);
    d = open1(at("[z].rows"));
    ok(d->head.rows == 2, "a name that exists is no pattern");
    data_free(d);
}

static void test_masks(void)
{
    Data *d = open1(at("m/m.rows"));
    int32_t x[8 * T], y[8 * T];
    uint64_t want = 0;
    for (int r = 0; r < 8; r++) want += (uint64_t)r % (T + 1);
    ok(data_batch(d, 0, 8, x, y) == want, "targets counted in a batch");
    ok(data_valid(d, 0, 8, x, y) == want, "and without keeping it");
    ok(data_valid(d, 0, 1, x, y) == 0, "a row without any");
    data_free(d);
}

/* Marks in seen[] the rows at positions [pos, end); false if one comes twice. */
static int take(const Data *d, uint64_t pos, uint64_t end, char *seen)
{
    int once = 1;
    for (; pos < end; pos++) once &= !seen[data_row(d, pos)]++;
    return once;
}

static void test_shuffle(void)
{
    Data *d = open1(dir), *again = open1(dir), *other = open1(dir);
    data_shuffle(d, 5);
    data_shuffle(again, 5);
    data_shuffle(other, 6);
    int once = 1, same = 1, moved = 0, differ = 0, n = (int)d->head.rows;
    for (int e = 0; e < 20; e++) {
        char seen[16] = {0};
        once &= take(d, (uint64_t)(e * n), (uint64_t)((e + 1) * n), seen);
        for (int i = 0; i < n; i++) {
            uint64_t p = (uint64_t)(e * n + i);
            same &= data_row(d, p) == data_row(again, p);
            moved += data_row(d, p) != data_row(d, (uint64_t)i);
            differ += data_row(d, p) != data_row(other, p);
        }
    }
    ok(once, "shuffled: an epoch takes every row once");
    ok(same && moved > 10 * n && differ > 10 * n, "the order depends on seed and epoch alone");
    data_free(d); data_free(again); data_free(other);
}

/* Two ranks of one micro-batch take what one rank takes in two. */
static void test_ranks(void)
{
    Data *d = open1(dir);
    int32_t x[6 * T], y[6 * T], x2[6 * T], y2[6 * T];
    data_shuffle(d, 1);
    data_batch(d, 6, 6, x, y);
    for (int i = 0; i < 3; i++)
        data_batch(d, data_turn(6, i, 2, 0, 1), 2, x2 + 2 * i * T, y2 + 2 * i * T);
    ok(!memcmp(x, x2, sizeof x) && !memcmp(y, y2, sizeof y), "one rank: turns follow each other");
    for (int rank = 0; rank < 3; rank++)
        data_batch(d, data_turn(6, 0, 2, rank, 3), 2, x2 + 2 * rank * T, y2 + 2 * rank * T);
    ok(!memcmp(x, x2, sizeof x) && !memcmp(y, y2, sizeof y), "three ranks: each its own rows");
    data_free(d);
}

/* Shards that come in the middle of the second epoch take part from the third on, and a program
 * that starts then, with what was noted, goes on in the same order. */
static void test_grow(void)
{
    RowHead h = { .vocab = V, .bos = UINT32_MAX, .T = T, .tok_hash = 0xabc };
    make("g/k.rows", h, 0, 4);
    make("g/m.rows", h, 4, 3);
    Data *d = open1(at("g"));
    data_shuffle(d, 3);
    ok(data_boundary(d, 0) == 7 && data_boundary(d, 7) == 7 && data_boundary(d, 8) == 14,
       "where epochs begin");
    ok(data_unseen(d) == 0 && data_grow(d, 7) == 0 && d->nspan == 1, "nothing new");
    make("g/a.rows", h, 7, 5);              /* sorts before the others */
    make("g/z.rows", h, 12, 0);
    ok(data_unseen(d) == 2 && data_grow(d, 14) == 1, "a shard appears, and one without rows");
    ok(d->head.rows == 12 && d->nspan == 2 && d->span[1].epoch == 2, "and counts from epoch 2 on");
    char seen[12] = {0}, first[12] = {0};
    ok(take(d, 14, 26, seen) && take(d, 7, 14, first) && !memchr(first + 7, 1, 5),
       "each row once; what came before stays");
    uint64_t in, hash[3], row[40];
    ok(data_epoch(d, 13, &in) == 1 && in == 6 && data_epoch(d, 14, &in) == 2 && in == 0 &&
           data_epoch(d, 26, &in) == 3 && in == 0 && data_epochs(d, 20) == 2.5,
       "epochs of two lengths");
    for (int i = 0; i < 3; i++) hash[i] = rows_hash(d->shard[i]);
    for (uint64_t p = 0; p < 40; p++) row[p] = data_row(d, p);
    Data *e = open1(at("g"));
    data_shuffle(e, 3);
    ok(strstr(e->path[0], "a.rows") && data_arrange(e, hash, 3) == 3, "by hash, in the old order");
    data_spans(e, d->span, d->nspan);
    int same = 1;
    int32_t x[T], y[T], x2[T], y2[T];
    for (uint64_t p = 0; p < 40; p++) {
        data_get(d, p, x, y);
        data_get(e, p, x2, y2);
        same &= data_row(e, p) == row[p] && !memcmp(x, x2, sizeof x) && !memcmp(y, y2, sizeof y);
    }
    ok(same, "the same rows at every position");
    hash[1]++;
    ok(data_arrange(e, hash, 3) == 1, "a shard that is not there");
    data_free(d); data_free(e);
}

static void flip(const char *path, long at_byte)
{
    FILE *f = fopen(path, "r+");
    if (!f || fseek(f, at_byte, SEEK_SET)) abort();
    int c = fgetc(f);
    fseek(f, at_byte, SEEK_SET);
    fputc(c ^ 1, f);
    fclose(f);
}

static void try_verify(void *arg) { data_verify(arg); }
static void try_watch(void *arg)
{
    Data *d = arg;
    data_watch(d, 0);
    for (int i = 0; i < 1000; i++) {
        data_look(d);
        usleep(10000);
    }
}
static void try_grow(void *arg) { data_grow(arg, 4); }

static void test_damage(void)
{
    RowHead h = { .vocab = V, .bos = UINT32_MAX, .T = T, .tok_hash = 0xabc };
    make("v/a.rows", h, 0, 4);
    make("v/b.rows", h, 4, 5);
    Data *d = open1(at("v"));
    data_verify(d);
    data_watch(d, 0);
    data_watch(d, 1);
    data_look(d);
    data_unwatch(d);
    flip(at("v/b.rows"), 60);
    ok(dies(1, "v/b.rows: rows 0 to 4 are damaged (block 0", try_verify, d), "a damaged block");
    ok(dies(1, "v/b.rows: rows 0 to 4 are damaged (block 0", try_watch, d), "found by the thread");
    RowHead hash = h;
    hash.tok_hash++;
    make("v/c.rows", hash, 0, 1);
    ok(dies(1, "v/c.rows: made with tokenizer", try_grow, d), "a new shard of another tokenizer");
    data_free(d);
}

static void try_open(void *arg) { open1(arg); }
static void try_both(void *arg) { open2(at("a.rows"), arg); }
static void try_hash(void *arg) { data_require(arg, 0xdef, V, T); }
static void try_vocab(void *arg) { data_require(arg, 0xabc, V + 1, T); }
static void try_T(void *arg) { data_require(arg, 0xabc, V, 2 * T); }

static void test_refusals(void)
{
    char *s = xstrdup(at("no.rows")), *p = xstrdup(at("no*.rows")), *e = xstrdup(at("empty.rows2"));
    char *t = xstrdup(at("x/T.rows")), *h = xstrdup(at("x/hash.rows")),
         *v = xstrdup(at("x/vocab.rows"));
    char *m = xstrdup(at("m/m.rows")), *sub = xstrdup(at("none"));
    ok(dies(1, "No such file", try_open, s), "a missing shard");
    ok(dies(1, "matches no file", try_open, p), "a pattern without a match");
    ok(dies(1, "no *.rows", try_open, sub), "a directory without shards");
    ok(dies(1, "no rows", try_open, e), "no row at all");
    ok(dies(1, "T 7, but", try_both, t), "another T");
    ok(dies(1, "0000000000000abd, but", try_both, h), "another tokenizer");
    ok(dies(1, "301, but", try_both, v), "another vocabulary");
    ok(dies(1, "with loss masks, but", try_both, m), "masks in one of two");
    Data *d = open1(at("a.rows"));
    ok(dies(1, "0000000000000abc, not with this one, 0000000000000def", try_hash, d),
       "not this tokenizer");
    ok(dies(1, "300, but the tokenizer's is 301", try_vocab, d), "not this vocabulary");
    ok(dies(1, "T 6, but the model's is 12", try_T, d), "not this T");
    data_require(d, 0xabc, V, T);
    data_free(d);
    char *all[] = { s, p, e, t, h, v, m, sub };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

int main(void)
{
    if (!mkdtemp(dir)) return 1;
    const char *sub[] = { "x", "m", "none", "g", "v" };
    for (int i = 0; i < 5; i++) if (mkdir(at(sub[i]), 0777)) return 1;
    RowHead h = { .vocab = V, .bos = UINT32_MAX, .T = T, .tok_hash = 0xabc };
    make("a.rows", h, 0, 4);
    make("b.rows", h, 4, 5);
    make("c.rows", h, 9, 0);
    make("d.rows", h, 9, 1);
    make("empty.rows2", h, 0, 0);
    RowHead masked = h, hash = h, vocab = h;
    masked.masks = true;
    hash.tok_hash++;
    vocab.vocab++;
    make("m/m.rows", masked, 0, 8);
    make("x/hash.rows", hash, 0, 1);
    make("x/vocab.rows", vocab, 0, 1);
    RowHead long_rows = h;
    long_rows.T = T + 1;
    RowWriter *w = rows_create(at("x/T.rows"), &long_rows);
    uint32_t id[T + 2] = {0};
    rows_write(w, id, NULL);
    rows_close(w);

    test_order();
    test_shuffle();
    test_ranks();
    make("[z].rows", h, 0, 2);
    test_patterns();
    test_masks();
    test_refusals();
    test_grow();
    test_damage();
    char *rm = xasprintf("rm -rf %s", dir);
    if (system(rm)) return 1;
    free(rm);
    return done();
}
