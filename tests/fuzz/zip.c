/* zip archives: refused, or each file read to its end. */
#include "base/io.h"
#include "data/zip.h"
#include "file.h"
#include "fuzz.h"
#include <stdio.h>
#include <string.h>

static void one(void *arg)
{
    (void)arg;
    Zip *z = zip_open(path);
    for (size_t i = 0; i < zip_files(z); i++) {
        uint64_t n = 0;
        const char *p;
        In *in = zip_read(z, i);
        for (size_t k; (k = in_some(in, &p)) > 0 && n < 1 << 20; in_skip(in, k)) n += k;
        in_close(in);
    }
    zip_close(z);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    survives_file(one, data, n);
    return 0;
}

void fuzz_seeds(FuzzSeed put)
{
    static const char *const names[] = { "info", "stream", "zip64" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        Buf b = {0};
        snprintf(name, sizeof name, "tests/archives/%s.zip", names[i]);
        read_file(name, &b, 1 << 20);
        put(b.s, b.n);
        buf_free(&b);
    }
}
