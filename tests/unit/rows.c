/* rows.h: round trips over blocks, the exact bytes, targets by hand, damage of all kinds. */
#include "tap.h"
#include "text/rows.h"
#include "base/rng.h"
#include <sys/stat.h>

static char path[] = "/tmp/rows-test-XXXXXX";

static void put(const void *s, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(s, 1, n, f) != n || fclose(f)) abort();
}

static void check_all(void *arg)
{
    (void)arg;
    RowHead h;
    Rows *f = rows_open(path, &h);
    rows_verify(f);
    rows_unmap(f);
}

static int refused(const Buf *b, const char *why)
{
    put(b->s, b->n);
    return dies(1, why, check_all, NULL);
}

static void row_make(Rng *rng, const RowHead *h, uint32_t *id, uint8_t *mask)
{
    for (uint32_t i = 0; i <= h->T; i++) {
        id[i] = i % 5 ? (uint32_t)rng_below(rng, h->vocab) : h->vocab - 1;
        mask[i] = rng_u64(rng) & 1;
    }
}

static int same_targets(const Rows *f, uint64_t r, const RowHead *h, const uint32_t *id,
                        const uint8_t *mask, int32_t *x, int32_t *y)
{
    rows_get(f, r, x, y);
    for (uint32_t t = 0; t < h->T; t++) {
        int32_t want = !h->masks || mask[t + 1] ? (int32_t)id[t + 1] : -1;
        if (x[t] != (int32_t)id[t] || y[t] != want) return 0;
    }
    return 1;
}

static int round_trip(RowHead head, uint64_t rows)
{
    size_t n = (size_t)head.T + 1;
    uint32_t *id = xreallocarray(NULL, n, sizeof *id), *got = xreallocarray(NULL, n, sizeof *id);
    uint8_t *mask = xmalloc(n), *gmask = xmalloc(n);
    Rng rng;
    rng_init(&rng, 2, 0);
    RowWriter *w = rows_create(path, &head);
    for (uint64_t r = 0; r < rows; r++) {
        row_make(&rng, &head, id, mask);
        rows_write(w, id, head.masks ? mask : NULL);
    }
    int good = rows_close(w) == rows;

    RowHead h;
    Rows *f = rows_open(path, &h);
    rows_verify(f);
    good = good && h.vocab == head.vocab && h.bos == head.bos && h.T == head.T && h.rows == rows &&
           h.masks == head.masks && h.tok_hash == head.tok_hash;
    rng_init(&rng, 2, 0);
    int32_t *x = xreallocarray(NULL, n, sizeof *x), *y = xreallocarray(NULL, n, sizeof *y);
    for (uint64_t r = 0; r < rows && good; r++) {
        row_make(&rng, &head, id, mask);
        rows_raw(f, r, got, gmask);
        if (!head.masks) memset(mask, 1, n);
        good = !memcmp(id, got, n * sizeof *id) && !memcmp(mask, gmask, n) &&
               same_targets(f, r, &head, id, mask, x, y);
    }
    rows_unmap(f);
    free(id); free(got); free(mask); free(gmask); free(x); free(y);
    return good;
}

static void trips(void)
{
    RowHead h = { .vocab = 300, .bos = 256, .T = 16, .tok_hash = 77 };
    ok(round_trip(h, 5), "five rows, no masks");
    ok(round_trip(h, 0), "no rows");
    h.masks = true;
    for (h.T = 1; h.T < 20 && round_trip(h, 3); h.T++) {}
    ok(h.T == 20, "T from 1 to 19, masks (stopped at %u)", h.T);
    h.T = 255;
    h.vocab = 65536;
    ok(round_trip(h, 5000), "5,000 rows with masks over several blocks; vocabulary 65,536");
    h.vocab = 65537;
    h.bos = UINT32_MAX;
    ok(round_trip(h, 2500), "vocabulary 65,537");
    h.T = 600000;
    ok(round_trip(h, 2), "rows larger than a block");
    h.vocab = INT32_MAX;
    h.T = 1;
    ok(round_trip(h, 9), "the largest vocabulary");
}

/* A shard of two rows {5, 256, 299} {1, 2, 3}, written out here from the format's description:
 * rows_per_block rows to a block (rows.c itself would take many more). */
static void by_hand(Buf *b, bool masks, uint32_t per_block)
{
    static const uint8_t row[2][8] = { { 5, 0, 0, 1, 0x2b, 1, 0x06, 0 },
                                       { 1, 0, 2, 0, 3, 0, 0x01, 0 } };
    Buf hashes = {0}, all = {0};
    buf_clear(b);
    buf_add(b, "PGPTROWS", 8);
    buf_u32(b, 1);
    buf_u32(b, masks);
    buf_u32(b, 300);
    buf_u32(b, 256);
    buf_u32(b, 2);
    buf_u32(b, per_block);
    buf_u64(b, 0x0123456789abcdef);
    buf_u64(b, 0);
    buf_u64(b, xxh3(b->s, 48));
    buf_add(&all, b->s, 56);
    for (int r = 0; r < 2; r++) {
        buf_add(b, row[r], 6);
        buf_add(b, masks ? (const char *)row[r] + 6 : "\0", 2);
    }
    if (per_block == 1) {
        buf_u64(&hashes, xxh3(b->s + 56, 8));
        buf_u64(&hashes, xxh3(b->s + 64, 8));
    } else buf_u64(&hashes, xxh3(b->s + 56, 16));
    buf_add(b, hashes.s, hashes.n);
    buf_add(&all, hashes.s, hashes.n);
    for (int i = 0; i < 2; i++) {
        Buf *to = i ? b : &all;
        buf_u64(to, 2);
        buf_u64(to, hashes.n / 8);
    }
    buf_u64(b, xxh3(all.s, all.n));
    buf_add(b, "PGROWEND", 8);
    buf_free(&hashes);
    buf_free(&all);
}

static void bytes(bool masks, const char *what)
{
    static const uint32_t id[2][3] = { { 5, 256, 299 }, { 1, 2, 3 } };
    static const uint8_t mask[2][3] = { { 0, 1, 1 }, { 1, 0, 0 } };
    RowHead h = { .vocab = 300, .bos = 256, .T = 2, .masks = masks,
                  .tok_hash = 0x0123456789abcdef };
    Buf want = {0}, got = {0};
    RowWriter *w = rows_create(path, &h);
    for (int r = 0; r < 2; r++) rows_write(w, id[r], masks ? mask[r] : NULL);
    rows_close(w);
    read_file(path, &got, 1 << 20);
    by_hand(&want, masks, (1 << 20) / 8);
    ok(got.n == want.n && !memcmp(got.s, want.s, got.n), "the bytes are as described, %s", what);
    buf_free(&want);
    buf_free(&got);
}

static void targets(void)
{
    Buf b = {0};
    RowHead h;
    int32_t x[2], y[2];
    by_hand(&b, true, 1);
    put(b.s, b.n);
    Rows *f = rows_open(path, &h);
    rows_get(f, 0, x, y);
    ok(x[0] == 5 && x[1] == 256 && y[0] == 256 && y[1] == 299, "mask 0 1 1: both targets count");
    rows_get(f, 1, x, y);
    ok(x[0] == 1 && x[1] == 2 && y[0] == -1 && y[1] == -1, "mask 1 0 0: the mask is the target's");
    rows_unmap(f);
    buf_free(&b);
}

static void damaged(void)
{
    Buf whole = {0}, b = {0};
    by_hand(&whole, true, 1);
    size_t missed = 0;
    for (size_t n = 0; n < whole.n; n++) {
        buf_clear(&b);
        buf_add(&b, whole.s, n);
        missed += !refused(&b, "rows-test");
    }
    ok(missed == 0, "each of %zu truncations is refused", whole.n);
    missed = 0;
    for (size_t i = 0; i < whole.n; i++) {
        buf_clear(&b);
        buf_add(&b, whole.s, whole.n);
        b.s[i] ^= (char)(1 << i % 8);
        missed += !refused(&b, "rows-test");
    }
    ok(missed == 0, "a flipped bit in each of %zu bytes is refused", whole.n);
    buf_clear(&b);
    buf_add(&b, whole.s, whole.n);
    b.s[65]++;
    ok(refused(&b, "rows 1 to 1 are damaged"), "a damaged block names its rows");
    buf_clear(&b);
    buf_add(&b, whole.s, whole.n);
    buf_add(&b, whole.s, whole.n);
    ok(refused(&b, "do not make its"), "two shards joined are no shard");
    buf_free(&whole);
    buf_free(&b);
}

/* Change the header or the trailer and make its hash right again. */
static void set(Buf *b, size_t at, uint64_t x, size_t bytes_)
{
    memcpy(b->s + at, &x, bytes_);
    uint64_t hash = xxh3(b->s, 48);
    memcpy(b->s + 48, &hash, 8);
    Buf all = {0};
    buf_add(&all, b->s, 56);
    buf_add(&all, b->s + 56 + 16, b->n - 56 - 16 - 16);
    hash = xxh3(all.s, all.n);
    memcpy(b->s + b->n - 16, &hash, 8);
    buf_free(&all);
}

static void hostile(void)
{
    Buf b = {0};
    static const uint64_t many[] = { 1ull << 63, ~0ull, 1, 3, 1ull << 61, (1ull << 61) + 2 };
    int n = sizeof many / sizeof *many, good = 0;
    for (int i = 0; i < n; i++) {
        by_hand(&b, true, 1);
        set(&b, b.n - 32, many[i], 8);
        good += refused(&b, "do not make its");
        by_hand(&b, true, 1);
        set(&b, b.n - 24, many[i], 8);
        good += refused(&b, "do not make its");
    }
    ok(good == 2 * n, "counts of rows and blocks that do not fit the size");
    static const struct { size_t at; uint32_t x; const char *why; } heads[] = {
        { 12, 2, "flags" }, { 16, 0, "vocabulary" }, { 16, UINT32_MAX, "vocabulary" },
        { 20, 300, "<|bos|>" }, { 24, 0, "row length" }, { 24, UINT32_MAX, "row length" },
        { 24, ROWS_MAX_T, "do not make its" }, { 28, 0, "block" }, { 40, 1, "flags" },
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        by_hand(&b, true, 1);
        set(&b, heads[i].at, heads[i].x, 4);
        ok(refused(&b, heads[i].why), "header: %u at %zu", heads[i].x, heads[i].at);
    }
    buf_free(&b);
}

static void get_first(void *arg)
{
    int32_t x[2], y[2];
    RowHead h;
    (void)arg;
    rows_get(rows_open(path, &h), 0, x, y);
}

static void open_other(void *arg)
{
    RowHead h;
    rows_open(arg, &h);
}

static void refusals(void)
{
    Buf b = {0};
    by_hand(&b, true, 1);
    set(&b, 16, 299, 4);
    put(b.s, b.n);
    ok(dies(1, "row 0 has token 299", get_first, NULL),
       "an id outside the vocabulary names the row");
    ok(dies(1, "/dev/null: not a regular file", open_other, "/dev/null"), "a device");
    ok(dies(1, "cannot read: No such file", open_other, "/nowhere/at.rows"), "a missing file");
    buf_free(&b);
}

static void sealed(void)
{
    RowHead h = { .vocab = 300, .bos = 256, .T = 2, .tok_hash = 1 };
    static const uint32_t id[3] = { 1, 2, 3 };
    unlink(path);
    RowWriter *w = rows_create(path, &h);
    rows_write(w, id, NULL);
    rows_seal(w);
    ok(access(path, F_OK) != 0, "a sealed shard has no name yet");
    rows_close(w);
    check_all(NULL);
    ok(access(path, F_OK) == 0, "a closed one has");
    unlink(path);
    w = rows_create(path, &h);
    rows_write(w, id, NULL);
    rows_seal(w);
    rows_discard(w);
    ok(access(path, F_OK) != 0, "a discarded one never was");
}

/* Offsets past 4 GiB, in a file that is nearly all hole. */
static void far_away(void)
{
    RowHead h = { .vocab = 70000, .bos = 0, .T = 99, .tok_hash = 1 }, got;
    uint64_t rows = 11000000, per = (1 << 20) / 400, blocks = (rows + per - 1) / per;
    Buf head = {0}, foot = {0};
    RowWriter *w = rows_create(path, &h);       /* only for its header */
    rows_close(w);
    read_file(path, &head, 1 << 20);
    head.n = 56;
    buf_add(&foot, head.s, 56);
    for (uint64_t i = 0; i < blocks; i++) buf_u64(&foot, 0);
    buf_u64(&foot, rows);
    buf_u64(&foot, blocks);
    buf_u64(&foot, xxh3(foot.s, foot.n));
    buf_add(&foot, "PGROWEND", 8);
    uint32_t last[100];
    for (uint32_t i = 0; i < 100; i++) last[i] = 69900 + i;
    FILE *f = fopen(path, "r+b");
    if (!f || fseeko(f, (off_t)(56 + (rows - 1) * 400), SEEK_SET) || !fwrite(last, 400, 1, f) ||
        !fwrite(foot.s + 56, foot.n - 56, 1, f) || fclose(f)) {
        skip("no room for a sparse file", "a shard of 4.4 GB");
    } else {
        int32_t x[99], y[99];
        Rows *r = rows_open(path, &got);
        rows_get(r, rows - 1, x, y);
        ok(got.rows == rows && x[0] == 69900 && y[98] == 69999,
           "the last row of a shard of 4.4 GB");
        rows_unmap(r);
    }
    buf_free(&head);
    buf_free(&foot);
}

int main(void)
{
    int fd = mkstemp(path);
    if (fd < 0) abort();
    close(fd);
    trips();
    bytes(false, "without masks");
    bytes(true, "with masks");
    targets();
    damaged();
    hostile();
    refusals();
    sealed();
    far_away();
    unlink(path);
    return done();
}
