/* tar archives: refused, or read to the end; the same files and bytes however the bytes come in. The
 * sums of headers are made right first, since few inputs would get past them. */
#include "data/tar.h"
#include "rows.h"
#include <stdio.h>

const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0"; }   /* as for zip */

typedef struct Bytes { Feed *f; size_t at; } Bytes;

static size_t pull(void *arg, void *p, size_t n)
{
    Bytes *b = arg;
    if (n > b->f->step) n = b->f->step;
    if (n > b->f->n - b->at) n = b->f->n - b->at;
    memcpy(p, b->f->s + b->at, n);
    b->at += n;
    return n;
}

static void add(Feed *f, const char *s, size_t n)
{
    uint64_t chain[2] = { f->sum, xxh3(s, n) };
    f->sum = xxh3(chain, sizeof chain);
}

static void read_tar(void *arg)
{
    Feed *f = arg;
    Bytes b = { f, 0 };
    Tar *t = tar_open(in_from("input", pull, &b));
    for (TarFile file; tar_next(t, &file); f->rows++) {
        char c;
        add(f, file.name, strlen(file.name));
        if (f->how & 1) continue;               /* passed over */
        In *in = tar_read(t);
        while (in_read(in, &c, 1)) add(f, &c, 1);
        in_close(in);
    }
    f->extra = tar_others(t);
    tar_close(t);
}

static void make_sums_right(char *s, size_t n)
{
    for (size_t at = 0; at + 512 <= n; at += 512) {
        unsigned sum = 0;
        if (memcmp(s + at + 257, "ustar", 5)) continue;
        memset(s + at + 148, ' ', 8);
        for (size_t i = 0; i < 512; i++) sum += (unsigned char)s[at + i];
        snprintf(s + at + 148, 8, "%06o", sum & 0777777);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!n) return 0;
    char *copy = malloc(n);
    if (!copy) abort();
    memcpy(copy, data, n);
    make_sums_right(copy + 1, n - 1);
    feed_twice(read_tar, (const uint8_t *)copy, n);
    free(copy);
    return 0;
}

/* A first byte for feed_twice(), a pax header or long name, a file, and the end. */
static void seed(FuzzSeed put, char type, const char *extra)
{
    char s[1 + 7 * 512] = { 0 };
    size_t at = 1;
    if (extra) {
        memcpy(s + at, "extra", 5);
        snprintf(s + at + 124, 12, "%011o", (unsigned)strlen(extra));
        s[at + 156] = type;
        memcpy(s + at + 257, "ustar\00000", 8);
        memcpy(s + at + 512, extra, strlen(extra));
        at += 1024;
    }
    memcpy(s + at, "a/b.jsonl", 9);
    snprintf(s + at + 124, 12, "%011o", 5U);
    s[at + 156] = '0';
    memcpy(s + at + 257, "ustar\00000", 8);
    memcpy(s + at + 512, "text\n", 5);
    put(s, at + 2048);
}

void fuzz_seeds(FuzzSeed put)
{
    seed(put, 0, NULL);
    seed(put, 'x', "14 path=other\n10 size=5\n13 comment=x\n");
    seed(put, 'L', "a/long/name.jsonl");
    seed(put, '2', "");
}
