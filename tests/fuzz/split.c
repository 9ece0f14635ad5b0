/* The block scanners cut text as split_kind_next() does, and read nothing behind it. The first byte
 * says at which place of a window the text begins. */
#include "base/buf.h"
#include "fuzz.h"
#include "text/split_int.h"
#include "text/utf8.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void compare(const char *name, SplitEnds *f, SplitKind kind, const char *s, size_t n)
{
    static uint32_t ends[256];
    for (size_t i = 0; i < n; ) {
        size_t k = f(kind, s, n, i, ends, 256), from = i;
        if (!k || k > 256)
            abort();
        for (size_t j = 0; j < k; j++) {
            i = split_kind_next(kind, s, n, i);
            if (i != from + ends[j]) {
                fprintf(stderr, "%s, %s: a piece ends at %zu, not %zu\n", name,
                        split_kind_name(kind), i, from + ends[j]);
                abort();
            }
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static Buf b;
    if (!n)
        return 0;
    buf_clear(&b);
    buf_add(&b, "the quick brown fox, it's jumped over 12 lazy dogs and then some.", data[0] % 64);
    utf8_repair(&b, (const char *)data + 1, n - 1);
    char *s = malloc(b.n + !b.n);       /* of its own, so that a sanitizer sees its end */
    if (!s)
        abort();
    if (b.n)
        memcpy(s, b.s, b.n);
    for (SplitKind kind = 0; kind < SPLIT_WORDS; kind++) {
        compare("base", split_ends_base, kind, s, b.n);
#ifdef __x86_64__
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2"))
            compare("avx2", split_ends_avx2, kind, s, b.n);
        if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
            __builtin_cpu_supports("avx512dq"))
            compare("avx512", split_ends_avx512, kind, s, b.n);
#endif
    }
    free(s);
    return 0;
}

void fuzz_seeds(FuzzSeed put)
{
    static const char *const seed[] = {
        "\0'Sam x's ''s x'd've 'll'RE", "\x3a 12345 \xc2\xbd\xe2\x85\xa7  !foo ...\n\n\n  y",
        "\x3e\t\xc2\xa0word \n \n  b\r\n\r\n",
        "\x20\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe3\x80\x82 e\xcc\x81t",
        "\x30'\xc5\xbft \xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9 \xd0\x9f\xd1\x80\xd0\xb8",
    };
    for (size_t k = 0; k < sizeof seed / sizeof *seed; k++)
        put(seed[k], 1 + strlen(seed[k] + 1));
}
