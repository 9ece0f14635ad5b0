/* rows.c -- see rows.h and pipegpt-rows(5).
 *
 * shard   = head  rows * row  blocks * u64 hash  foot
 * head    = "PGPTROWS" u32 version, flags, vocab, bos, T, rows per block  u64 tok_hash
 *           u64 0  u64 xxh3 of the 48 bytes before                                 56 bytes
 * row     = T+1 ids; (T+1+7)/8 mask bytes if the shard has masks; zeros to a multiple of 4 bytes
 * hash    = xxh3 of one block of rows, the last of which may be shorter
 * foot    = u64 rows, blocks  u64 xxh3 of (head, hashes, rows, blocks)  "PGROWEND"  32 bytes */
#include "text/rows.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC     "PGPTROWS"
#define END_MAGIC "PGROWEND"
#define VERSION_  1u
enum { HEAD = 56, FOOT = 32, F_MASKS = 1, BLOCK_BYTES = 1 << 20 };

typedef unsigned long long ull;

/* Bytes of a row; at most 2^27 or so, because T is bounded. */
static size_t row_bytes(const RowHead *h)
{
    size_t n = (size_t)h->T + 1;
    size_t bytes = n * (size_t)token_width(h->vocab) + (h->masks ? (n + 7) / 8 : 0);
    return (bytes + 3) & ~(size_t)3;
}

/* ---- writing ---------------------------------------------------------------- */

struct RowWriter {
    Out *out;
    RowHead head;
    size_t bytes;               /* of a row */
    uint32_t per_block;         /* rows */
    Buf first, block, hashes;   /* the header; the block being filled; hashes of those before */
    uint64_t rows;
    bool sealed;
};

static void head_put(Buf *b, const RowHead *h, uint32_t per_block)
{
    buf_add(b, MAGIC, 8);
    buf_u32(b, VERSION_);
    buf_u32(b, h->masks ? F_MASKS : 0);
    buf_u32(b, h->vocab);
    buf_u32(b, h->bos);
    buf_u32(b, h->T);
    buf_u32(b, per_block);
    buf_u64(b, h->tok_hash);
    buf_u64(b, 0);
    buf_u64(b, xxh3(b->s, b->n));
    assert(b->n == HEAD);
}

RowWriter *rows_create(const char *path, const RowHead *h)
{
    assert(h->vocab > 0 && h->vocab <= INT32_MAX && (h->bos < h->vocab || h->bos == UINT32_MAX));
    assert(h->T >= 1 && h->T <= ROWS_MAX_T);
    RowWriter *w = xcalloc(1, sizeof *w);
    w->out = out_open(path, OUT_BINARY);
    w->head = *h;
    w->bytes = row_bytes(h);
    w->per_block = w->bytes < BLOCK_BYTES ? (uint32_t)(BLOCK_BYTES / w->bytes) : 1;
    head_put(&w->first, h, w->per_block);
    out_write(w->out, w->first.s, w->first.n);
    return w;
}

static void block_flush(RowWriter *w)
{
    buf_u64(&w->hashes, xxh3(w->block.s, w->block.n));
    out_write(w->out, w->block.s, w->block.n);
    buf_clear(&w->block);
}

void rows_write(RowWriter *w, const uint32_t *id, const uint8_t *mask)
{
    size_t n = (size_t)w->head.T + 1;
    int width = token_width(w->head.vocab);
    assert(!w->sealed && (mask != NULL) == w->head.masks);
    for (size_t i = 0; i < n; i++) assert(id[i] < w->head.vocab);
    buf_reserve(&w->block, w->bytes);
    uint8_t *p = (uint8_t *)w->block.s + w->block.n;
    memset(p, 0, w->bytes + 1);
    token_put(p, id, n, width);
    if (mask) mask_put(p + n * (size_t)width, 0, mask, n);
    w->block.n += w->bytes;
    w->rows++;
    if (w->block.n / w->bytes == w->per_block) block_flush(w);
}

void rows_seal(RowWriter *w)
{
    if (w->sealed) return;
    if (w->block.n > 0) block_flush(w);
    Buf *all = &w->first;       /* head, hashes, rows, blocks: what the trailer's hash covers */
    uint64_t blocks = w->hashes.n / 8;
    if (blocks > 0) buf_add(all, w->hashes.s, w->hashes.n);
    buf_u64(all, w->rows);
    buf_u64(all, blocks);
    buf_u64(all, xxh3(all->s, all->n));
    buf_add(all, END_MAGIC, 8);
    out_write(w->out, all->s + HEAD, all->n - HEAD);
    out_flush(w->out);
    buf_free(&w->first);
    buf_free(&w->block);
    buf_free(&w->hashes);
    w->sealed = true;
}

static void writer_free(RowWriter *w)
{
    buf_free(&w->first);
    buf_free(&w->block);
    buf_free(&w->hashes);
    free(w);
}

uint64_t rows_close(RowWriter *w)
{
    rows_seal(w);
    out_close(w->out);
    uint64_t rows = w->rows;
    writer_free(w);
    return rows;
}

void rows_discard(RowWriter *w)
{
    out_discard(w->out);
    writer_free(w);
}

/* ---- reading ---------------------------------------------------------------- */

struct Rows {
    char *name;
    const uint8_t *map;
    uint64_t size;
    RowHead head;
    size_t bytes;               /* of a row */
    uint64_t per_block, blocks;
    struct Rows *next;          /* of those that are open */
};

/* ---- a shard that is cut short while it is mapped, or whose disk fails: a read of it is SIGBUS */

static Rows *opened;

/* The fault is one of our own reads, so die() is as good here as there. */
static void on_bus(int sig, siginfo_t *info, void *context)
{
    (void)context;
    const uint8_t *at = info->si_addr;
    for (const Rows *f = opened; f; f = f->next)
        if (at >= f->map && (uint64_t)(at - f->map) < f->size)
            die("%s: byte %llu cannot be read any more: the file was cut short, or its disk failed",
                f->name, (ull)(at - f->map));
    signal(sig, SIG_DFL);       /* not ours: the read is tried again, and ends the process */
}

static void watch(Rows *f)
{
    struct sigaction act = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO };
    sigemptyset(&act.sa_mask);
    if (!opened) sigaction(SIGBUS, &act, NULL);
    f->next = opened;
    opened = f;
}

static void unwatch(const Rows *f)
{
    Rows **p = &opened;
    while (*p != f) p = &(*p)->next;
    *p = f->next;
}

static const uint8_t *map_file(const char *path, uint64_t *size)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) die("%s: cannot read:", path);
    if (!S_ISREG(st.st_mode)) die("%s: not a regular file, and row shards are mapped", path);
    if ((uint64_t)st.st_size < HEAD + FOOT)
        die("%s: %lld bytes are too few for a row shard", path, (long long)st.st_size);
    if ((uint64_t)st.st_size > SIZE_MAX) die("%s: too large to be mapped here", path);
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) die("%s: cannot map:", path);
    close(fd);
    *size = (uint64_t)st.st_size;
    return p;
}

_Noreturn static void bad(const Rows *f, const char *why)
{
    die("%s: %s", f->name, why);
}

static void head_get(Rows *f)
{
    const uint8_t *p = f->map;
    RowHead *h = &f->head;
    if (memcmp(p, MAGIC, 8) != 0) bad(f, "not a row shard");
    if (get_u32(p + 8) != VERSION_)
        die("%s: version %u of row shards is not known here", f->name, get_u32(p + 8));
    if (xxh3(p, HEAD - 8) != get_u64(p + HEAD - 8))
        bad(f, "the header is damaged (its hash differs)");
    uint32_t flags = get_u32(p + 12);
    h->vocab = get_u32(p + 16);
    h->bos = get_u32(p + 20);
    h->T = get_u32(p + 24);
    f->per_block = get_u32(p + 28);
    h->tok_hash = get_u64(p + 32);
    h->masks = flags & F_MASKS;
    if (flags & ~(uint32_t)F_MASKS || get_u64(p + 40) != 0) bad(f, "flags that are not known here");
    if (h->vocab == 0 || h->vocab > INT32_MAX) bad(f, "no valid vocabulary size");
    if (h->bos >= h->vocab && h->bos != UINT32_MAX) bad(f, "<|bos|> is outside the vocabulary");
    if (h->T == 0 || h->T > ROWS_MAX_T) bad(f, "no valid row length");
    if (f->per_block == 0) bad(f, "no rows to a block");
    f->bytes = row_bytes(h);
}

/* The counts are compared with the size by division first: no product can then overflow. */
static void foot_get(Rows *f)
{
    const uint8_t *foot = f->map + f->size - FOOT;
    uint64_t rows = get_u64(foot), blocks = get_u64(foot + 8), room = f->size - HEAD - FOOT;
    if (memcmp(foot + 24, END_MAGIC, 8) != 0)
        bad(f, "ends without a trailer: cut off, or not whole");
    if (rows > room / f->bytes || blocks != rows / f->per_block + (rows % f->per_block != 0) ||
        rows * f->bytes + blocks * 8 != room)
        die("%s: %llu rows of %zu bytes do not make its %llu bytes", f->name, (ull)rows, f->bytes,
            (ull)f->size);
    Buf all = {0};
    buf_add(&all, f->map, HEAD);
    buf_add(&all, foot - 8 * blocks, 8 * (size_t)blocks + 16);
    bool good = xxh3(all.s, all.n) == get_u64(foot + 16);
    buf_free(&all);
    if (!good) bad(f, "the trailer is damaged (its hash differs)");
    f->head.rows = rows;
    f->blocks = blocks;
}

Rows *rows_open(const char *path, RowHead *h)
{
    Rows *f = xcalloc(1, sizeof *f);
    f->name = xstrdup(path);
    f->map = map_file(path, &f->size);
    watch(f);
    head_get(f);
    foot_get(f);
    *h = f->head;
    return f;
}

const char *rows_name(const Rows *f)
{
    return f->name;
}

uint64_t rows_count(const Rows *f)
{
    return f->head.rows;
}

static const uint8_t *row_at(const Rows *f, uint64_t r)
{
    assert(r < f->head.rows);
    return f->map + HEAD + r * f->bytes;
}

static void ids_get(const Rows *f, uint64_t r, size_t first, size_t n, uint32_t *id)
{
    int width = token_width(f->head.vocab);
    uint32_t max = token_get(id, row_at(f, r) + first * (size_t)width, n, width);
    if (max >= f->head.vocab)
        die("%s: row %llu has token %u, but the vocabulary ends at %u", f->name, (ull)r, max,
            f->head.vocab - 1);
}

void rows_get(const Rows *f, uint64_t r, int32_t *x, int32_t *y)
{
    size_t T = f->head.T;
    ids_get(f, r, 0, T, (uint32_t *)x);         /* the same type but for its sign */
    ids_get(f, r, 1, T, (uint32_t *)y);
    if (!f->head.masks) return;
    const uint8_t *bits = row_at(f, r) + (T + 1) * (size_t)token_width(f->head.vocab);
    for (size_t t = 0; t < T; t++)
        if (!(bits[(t + 1) / 8] >> (t + 1) % 8 & 1)) y[t] = -1;
}

void rows_raw(const Rows *f, uint64_t r, uint32_t *id, uint8_t *mask)
{
    size_t n = (size_t)f->head.T + 1;
    ids_get(f, r, 0, n, id);
    if (!mask) return;
    if (f->head.masks) mask_get(mask, row_at(f, r) + n * (size_t)token_width(f->head.vocab), 0, n);
    else memset(mask, 1, n);
}

uint64_t rows_hash(const Rows *f)
{
    return get_u64(f->map + f->size - FOOT + 16);
}

uint64_t rows_blocks(const Rows *f)
{
    return f->blocks;
}

/* How many rows block b has: the last may be shorter. */
static uint64_t block_rows(const Rows *f, uint64_t b)
{
    uint64_t left = f->head.rows - b * f->per_block;
    return left < f->per_block ? left : f->per_block;
}

bool rows_block_good(const Rows *f, uint64_t b)
{
    const uint8_t *hash = f->map + HEAD + f->head.rows * f->bytes + 8 * b;
    return xxh3(row_at(f, b * f->per_block), (size_t)(block_rows(f, b) * f->bytes)) ==
           get_u64(hash);
}

void rows_block_bad(const Rows *f, uint64_t b)
{
    uint64_t row = b * f->per_block;
    die("%s: rows %llu to %llu are damaged (block %llu: its hash differs)", f->name, (ull)row,
        (ull)(row + block_rows(f, b) - 1), (ull)b);
}

void rows_verify(const Rows *f)
{
    for (uint64_t b = 0; b < f->blocks; b++)
        if (!rows_block_good(f, b)) rows_block_bad(f, b);
}

void rows_unmap(Rows *f)
{
    if (!f) return;
    unwatch(f);
    munmap((void *)(uintptr_t)f->map, (size_t)f->size);
    free(f->name);
    free(f);
}

void rows_same(const char *name, const RowHead *h, const char *first, const RowHead *want)
{
    TokenHead a = { h->vocab, h->bos, h->masks, h->tok_hash };
    TokenHead b = { want->vocab, want->bos, want->masks, want->tok_hash };
    tokens_same(name, &a, first, &b);
    if (h->T != want->T)
        die("%s: rows of %u tokens, but %s has %u", name, h->T + 1, first, want->T + 1);
}
