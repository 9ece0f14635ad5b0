/* Parquet files: refused, or read to the end, each row an object. */
#include "base/io.h"
#include "base/json.h"
#include "data/parquet.h"
#include "file.h"
#include "fuzz.h"
#include <stdio.h>
#include <string.h>

static void check(const Buf *b)
{
    Arena a = {0};
    const char *err;
    size_t at;
    const Json *j = json_parse(&a, b->s, b->n, &err, &at);
    if (!j || j->kind != J_OBJ || memchr(b->s, '\n', b->n)) abort();
    arena_free(&a);
}

static void one(void *arg)
{
    (void)arg;
    Buf b = { 0 };
    Parquet *p = parquet_open(path, NULL, 0);
    parquet_describe(p, &b);
    buf_clear(&b);
    for (int i = 0; i < 2000 && parquet_row(p, &b); i++) {
        if (b.n < 65536) check(&b);
        buf_clear(&b);
    }
    parquet_close(p);
    buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    survives_file(one, data, n);
    return 0;
}

void fuzz_seeds(FuzzSeed put)
{
    static const char *const names[] = { "map", "twice", "time", "bytes", "delta", "nested.zstd.v1",
                                         "nested.zstd.v2", "flat.gzip.v1", "flat.snappy.v2",
                                         "flat.none.v1", "flat.none.v2" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        Buf b = { 0 };
        snprintf(name, sizeof name, "tests/parquet/%s.parquet", names[i]);
        read_file(name, &b, 1 << 20);
        put(b.s, b.n);
        buf_free(&b);
    }
}
