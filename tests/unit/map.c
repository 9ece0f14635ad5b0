#include "tap.h"
#include "base/map.h"
#include "base/buf.h"
#include "base/rng.h"

int main(void)
{
    Map m = {0};
    ok(!map_get(&m, "a", 1), "an empty one has nothing");
    *map_put(&m, "a", 1) = 5;
    *map_put(&m, "a\0", 2) = 6;
    *map_put(&m, "", 0) = 7;
    ok(*map_get(&m, "a", 1) == 5 && *map_get(&m, "a\0", 2) == 6 && *map_get(&m, NULL, 0) == 7,
        "NUL and length count");
    ok(!map_get(&m, "b", 1) && *map_put(&m, "a", 1) == 5 && m.n == 3,
        "put of what is there finds it");
    map_free(&m);

    enum { N = 200000 };
    char key[64];
    int good = 1;
    for (int i = 0; i < N; i++) {
        int64_t *v = map_put(&m, key, (size_t)sprintf(key, "k%d", i));
        good &= *v == 0;
        *v = i;
    }
    for (int i = N - 1; i >= 0; i--) {
        int64_t *v = map_get(&m, key, (size_t)sprintf(key, "k%d", i));
        good &= v && *v == i;
    }
    ok(good && m.n == N, "200,000 keys");
    for (int i = 0; i < N; i++) {
        size_t n = (size_t)sprintf(key, "k%d", i);
        good &= m.e[i].val == i && m.e[i].len == n && !strcmp(m.e[i].key, key);
    }
    ok(good, "entries are in order of insertion, keys end with NUL");
    ok(!map_get(&m, "k200000", 7) && !map_get(&m, "K1", 2), "absent keys");
    map_free(&m);

    Buf b = {0};                        /* long keys, and lengths around the size of a piece */
    Rng r;
    rng_init(&r, 3, 0);
    for (int i = 0; i < 20000; i++) buf_char(&b, (char)rng_u64(&r));
    for (size_t n = 0; n < 20000; n += 7) *map_put(&m, b.s, n) = (int64_t)n;
    for (size_t n = 0; n < 20000; n++) {
        int64_t *v = map_get(&m, b.s, n);
        good &= n % 7 ? !v : v && *v == (int64_t)n;
    }
    ok(good, "keys up to 20,000 bytes");
    map_free(&m);
    buf_free(&b);
    return done();
}
