/* Counting: threads, blocks and spilling change nothing; tables of counts as files. */
#include "text/count.h"
#include "base/rng.h"
#include "tap.h"
#include "text/count_file.h"
#include "text/spill.h"
#include "text/utf8.h"
#include <fcntl.h>

typedef struct Texts { Buf s; size_t *end, n; } Texts;

/* Words of all lengths around those that matter (15, 16, 99, 8 K), some of them again and again,
 * NULs and characters of 1 to 4 bytes among them. */
static Texts make_texts(uint64_t seed, size_t n)
{
    static const uint32_t letter[] = { 'a', 'b', 'c', 'z', 0xe9, 0x65e5, 0x10400, 0 };
    Rng r;
    rng_init(&r, seed, 0);
    Texts t = { .end = xcalloc(n, sizeof *t.end), .n = n };
    for (size_t k = 0; k < n; k++) {
        for (uint64_t w = rng_below(&r, 40); w > 0; w--) {
            uint64_t len = rng_below(&r, 50) ? rng_below(&r, 19) : rng_below(&r, 10) ? 99 : 9000;
            uint64_t kinds = rng_below(&r, 3) ? 1 + rng_below(&r, 4) : 8;
            buf_char(&t.s, " \n'"[rng_below(&r, 3)]);
            for (; len > 0; len--) {
                char c[4];
                buf_add(&t.s, c, (size_t)utf8_put(c, letter[rng_below(&r, kinds)]));
            }
        }
        t.end[k] = t.s.n;
    }
    return t;
}

static bool same(const Pieces *a, const Pieces *b)
{
    bool good = a->n == b->n && a->total == b->total;
    for (size_t k = 0; good && k < a->n; k++)
        good = a->p[k].len == b->p[k].len && a->p[k].count == b->p[k].count &&
               !memcmp(a->bytes.s + a->p[k].at, b->bytes.s + b->p[k].at, a->p[k].len);
    return good;
}

static Pieces count(const Texts *t, CountOptions o, int64_t min)
{
    o.mem = 1 << 30;
    o.tmpdir = "/tmp";
    Counter *c = counter_new(&o);
    for (size_t k = 0, at = 0; k < t->n; at = t->end[k++])
        counter_text(c, t->s.s + at, t->end[k] - at);
    uint64_t total, distinct;
    Pieces v = counter_end(c, min, &total, &distinct);
    pieces_sort(&v);
    if (min == 1 && (total != v.total || distinct != v.n))
        v.total = 0;
    return v;
}

static void roads(void)
{
    Texts t = make_texts(1, 3000);
    Pieces want = {0};
    for (size_t k = 0, at = 0; k < t.n; at = t.end[k++])
        pieces_text(&want, t.s.s + at, t.end[k] - at);
    pieces_sort(&want);
    static const CountOptions o[] = {
        { .threads = 1 },               { .threads = 2 },           { .threads = 8 },
        { .threads = 1, .block = 1 },   { .threads = 3, .block = 1 },
        { .threads = 2, .block = 1000 }, { .threads = 2, .block = 4 << 20 },
        { .threads = 1, .table = 1 },   { .threads = 4, .table = 1 },
        { .threads = 2, .table = 500000, .block = 5000 },
    };
    for (size_t k = 0; k < sizeof o / sizeof *o; k++) {
        Pieces v = count(&t, o[k], 1);
        ok(same(&v, &want), "%zu pieces by %d threads, blocks of %zu bytes, tables of %zu", v.n,
           o[k].threads, o[k].block, o[k].table);
        pieces_free(&v);
    }
    Pieces v = count(&t, o[1], 3);
    size_t n = 0;
    for (size_t k = 0; k < want.n; k++)
        n += want.p[k].count >= 3;
    ok(v.n == n && n && n < want.n, "%zu of them three times or more", n);
    pieces_free(&v), pieces_free(&want);
    buf_free(&t.s), free(t.end);
}

static void empty(void)
{
    Counter *c = counter_new(&(CountOptions){ .threads = 3, .mem = 1 << 20, .tmpdir = "/nowhere" });
    counter_text(c, "", 0);
    uint64_t total, distinct;
    Pieces v = counter_end(c, 1, &total, &distinct);
    ok(!v.n && !total && !distinct, "nothing");
    pieces_free(&v);
}

/* Counts of more than 32 bits, given and counted. */
static void large(void)
{
    Counter *c = counter_new(&(CountOptions){ .threads = 2, .mem = 1 << 20, .tmpdir = "/tmp" });
    for (int k = 0; k < 3; k++) {
        counter_add(c, "it", 2, 3000000000);
        counter_add(c, "0123456789abcdef", 16, 3000000000);
        counter_text(c, "it", 2);
    }
    uint64_t total, distinct;
    Pieces v = counter_end(c, 1, &total, &distinct);
    pieces_sort(&v);
    ok(v.n == 2 && v.p[0].count == 9000000000 && v.p[1].count == 9000000003 &&
       total == 18000000003, "counts past 32 bits");
    pieces_free(&v);
}

/* ---- sorted runs ------------------------------------------------------------ */

typedef struct Seen { size_t n; int64_t sum; char last[16]; size_t len; bool good; } Seen;

static void see(void *to, const char *s, size_t n, int64_t count)
{
    Seen *v = to;
    size_t m = n < v->len ? n : v->len;
    int c = memcmp(v->last, s, m);
    v->good = v->good && (c < 0 || (c == 0 && (v->len < n || !v->n)));
    memcpy(v->last, s, n);
    v->len = n;
    v->n++, v->sum += count;
}

static void runs(size_t n)
{
    Spill f;
    Runs v = {0};
    spill_init(&f, "/tmp");
    for (size_t k = 0; k < n; k++) {
        spill_begin(&f, &v);
        for (size_t i = k % 7; i < 1000; i += 7) {
            char s[16];
            spill_put(&f, s, (size_t)sprintf(s, "%04zu", i), (int64_t)1 << (i % 40));
        }
        spill_end(&f, &v);
    }
    int64_t want = 0;
    for (size_t k = 0; k < n; k++)
        for (size_t i = k % 7; i < 1000; i += 7)
            want += (int64_t)1 << (i % 40);
    Seen seen = { .good = true };
    spill_merge(&f, &v, see, &seen);
    ok(seen.good && seen.sum == want && seen.n == (n < 7 ? 143 * n : 1000),
       "%zu runs make one, in order", n);
    spill_free(&f);
}

static void no_room(void *dir)
{
    Spill f;
    Runs v = {0};
    spill_init(&f, dir);
    spill_begin(&f, &v);
}

/* ---- files -------------------------------------------------------------------- */

static char path[] = "/tmp/count-test-XXXXXX";

static Pieces read_back(CountInfo *info)
{
    Counter *c = counter_new(&(CountOptions){ .threads = 1, .mem = 1 << 24, .tmpdir = "/tmp" });
    In *in = in_open(path);
    if (!counts_begin(in))
        die("this is no table of counts");
    counts_read(in, c, info);
    in_close(in);
    uint64_t total, distinct;
    Pieces v = counter_end(c, 1, &total, &distinct);
    pieces_sort(&v);
    return v;
}

/* The same table twice: more than a 64-bit count can hold. */
static void read_twice(void *unused)
{
    (void)unused;
    Counter *c = counter_new(&(CountOptions){ .threads = 1, .mem = 1 << 24, .tmpdir = "/tmp" });
    CountInfo info = {0};
    for (int k = 0; k < 2; k++) {
        In *in = in_open(path);
        counts_read(in, c, &info);
        in_close(in);
    }
}

static void read_it(void *unused)
{
    (void)unused;
    CountInfo info = {0};
    read_back(&info);
}

static void put(const char *s, size_t n)
{
    FILE *f = fopen(path, "w");
    if (!f || fwrite(s, 1, n, f) != n || fclose(f))
        abort();
}

static void write_counts(const Pieces *v, uint64_t docs)
{
    unlink(path);               /* what was read is not written over */
    Out *o = out_open(path, 0);
    counts_write(o, v, &(CountInfo){ docs, 50, 60 });
    out_close(o);
}

static void refused(const char *name, const char *why, const char *s, size_t n, int64_t a,
                    int64_t b)
{
    Pieces v = {0};
    pieces_add(&v, s, n, a);
    pieces_add(&v, "it", 2, b);
    write_counts(&v, 3);
    pieces_free(&v);
    ok(dies(1, why, read_it, NULL), "%s is refused", name);
}

static void files(void)
{
    close(mkstemp(path));
    Pieces v = {0};
    pieces_text(&v, "it's a\0b 12345 ''  \n\nx", 22);
    pieces_add(&v, "xxxxxxxxxxxxxxxxxxxxxxxxxxxx", 28, (int64_t)1 << 57);
    pieces_sort(&v);
    write_counts(&v, 3);
    CountInfo info = { 1, 1, 1 };
    Pieces w = read_back(&info);
    ok(same(&v, &w) && info.docs == 4 && info.chars == 51 && info.bytes == 61,
       "%zu pieces written and read back", w.n);
    pieces_free(&v), pieces_free(&w);

    Buf b = {0};
    read_file(path, &b, 1 << 20);
    int bad = 0;
    for (size_t n = 8; n < b.n; n += n < b.n - 30 ? 9 : 1) {
        put(b.s, n);
        bad += !dies(1, path, read_it, NULL);
    }
    ok(!bad, "cut somewhere in %zu bytes: refused", b.n);
    for (size_t k = 8; k < b.n; k += k < b.n - 100 ? 9 : 3) {
        b.s[k] ^= (char)(1 << k % 8);
        put(b.s, b.n);
        b.s[k] ^= (char)(1 << k % 8);
        bad += !dies(1, path, read_it, NULL);
    }
    ok(!bad, "a bit flipped somewhere: refused");
    buf_char(&b, 'x');
    put(b.s, b.n);
    ok(dies(1, "bytes after the end", read_it, NULL), "a byte too many is refused");
    buf_free(&b);
    /* under a right checksum */
    refused("a piece that is two", "not a piece of text", "a b", 3, 1, 1);
    refused("a piece that is no UTF-8", "not a piece of text", "a\xff", 2, 1, 1);
    refused("a piece twice", "not in order", "it", 2, 1, 1);
    refused("pieces out of order", "not in order", "its", 3, 1, 1);
    refused("an empty piece", "a length of 0", "", 0, 1, 1);
    refused("a count of 0", "a count of 0", "a", 1, 0, 1);
    refused("a negative count", "not well-formed", "a", 1, -1, 1);
    refused("a count whose pairs pass 2^63", "piece 1: the counts are too large", "aaaa", 4,
            (int64_t)1 << 61, 1);
    refused("a length times a count that passes 2^64", "piece 1: the counts are too large",
            "aaaaaaaa", 8, (int64_t)1 << 61, 1);
    pieces_add(&v, "bc", 2, (int64_t)1 << 60);
    pieces_add(&v, "it", 2, (int64_t)1 << 59);
    write_counts(&v, 3);
    ok(!dies(1, "", read_it, NULL), "as many as there may be");
    ok(dies(1, "piece 1: the counts are too large", read_twice, NULL), "but not twice");
    write_counts(&v, (uint64_t)1 << 62);
    ok(dies(1, "more than 2^63 documents", read_twice, NULL), "more documents than can be counted");
    pieces_free(&v);
    unlink(path);
}

int main(void)
{
    roads();
    empty();
    large();
    runs(1), runs(5), runs(64), runs(65), runs(300);
    ok(dies(1, "/nowhere/at-all", no_room, "/nowhere/at-all"), "no folder for temporaries");
    files();
    return done();
}
