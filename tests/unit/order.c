/* NumPy's and CPython's orders, against hashes of what they gave: XXH3 of the elements as u64. */
#include "base/io.h"
#include "data/order.h"
#include "tap.h"
#include <stdlib.h>

typedef void Order(uint64_t seed, uint64_t *v, size_t n);

static void check(const char *name, Order *order, uint64_t seed, size_t n, uint64_t first,
                  uint64_t last, uint64_t hash)
{
    uint64_t *v = xreallocarray(NULL, n + 1, sizeof *v);
    for (size_t i = 0; i < n; i++) v[i] = i;
    order(seed, v, n);
    uint64_t got = xxh3(v, n * sizeof *v);
    ok(got == hash && (n == 0 || (v[0] == first && v[n - 1] == last)),
       "%s, seed %llu, n %zu: %016llx", name, (unsigned long long)seed, n, (unsigned long long)got);
    free(v);
}

static void numpy(uint64_t seed, size_t n, uint64_t first, uint64_t last, uint64_t hash)
{
    check("NumPy's permutation", order_numpy, seed, n, first, last, hash);
}

static void python(uint64_t seed, size_t n, uint64_t first, uint64_t last, uint64_t hash)
{
    check("CPython's shuffle", order_python, seed, n, first, last, hash);
}

int main(void)
{
    numpy(42u, 1, 0, 0, 0xc77b3abb6f87acd9);
    numpy(42u, 2, 1, 0, 0x26f2a1148cf52011);
    numpy(42u, 10, 5, 8, 0xc4b3ec84d4503f8b);
    numpy(42u, 1000, 978, 648, 0x50a5e644cc1f76ef);
    numpy(42u, 7473, 3082, 1672, 0xcf258c230ecf4875);
    numpy(42u, 99842, 83367, 75400, 0x0d2d877559cc26d9);
    numpy(42u, 1000000, 97305, 599688, 0x6964b308372db6bc);
    numpy(0u, 100, 82, 95, 0x19908a4cba6e9fb7);
    numpy(1234567890123u, 500, 244, 204, 0x97c8573e53bfe81b);
    numpy(9223372036854775813u, 777, 490, 365, 0x5b9d2cd4af075bac);
    python(42u, 1, 0, 0, 0xc77b3abb6f87acd9);
    python(42u, 2, 1, 0, 0x26f2a1148cf52011);
    python(42u, 10, 7, 1, 0xf25ef0fe9e82d0e3);
    python(42u, 1000, 776, 654, 0xef52aa5a38b8bb8e);
    python(42u, 7473, 1458, 5238, 0x3db17eac9fc473c1);
    python(42u, 99842, 26395, 83810, 0x6658d48a1ed732da);
    python(42u, 1000000, 845545, 670487, 0x2dceb73201e864f5);
    python(0u, 100, 23, 49, 0xac5699e6538119b7);
    python(1234567890123u, 500, 63, 421, 0x0521e900c91445bf);
    python(9223372036854775813u, 777, 435, 352, 0x49e6ae88e973c628);
    python(1337u, 1000, 239, 632, 0x8ca8b173640e8e21);
    return done();
}
