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
    uint64_t one = data_print(d);
    data_free(d);
    d = open2(at("b.rows"), at("a.rows"));
    int32_t x[T], y[T];
    data_get(d, 0, x, y);
    ok(x[0] == 4 && d->head.rows == 9, "two shards, in the order given");
    ok(data_print(d) != one, "another order is other data");
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
    const char *sub[] = { "x", "m", "none" };
    for (int i = 0; i < 3; i++) if (mkdir(at(sub[i]), 0777)) return 1;
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
    make("[z].rows", h, 0, 2);
    test_patterns();
    test_masks();
    test_refusals();
    char *rm = xasprintf("rm -rf %s", dir);
    if (system(rm)) return 1;
    free(rm);
    return done();
}
