#include "tap.h"
#include "base/arena.h"
#include "base/rng.h"
#include <stdint.h>

static void too_much(void *x) { arena_alloc(x, SIZE_MAX - 10); }
static void rounding(void *x) { arena_alloc(x, SIZE_MAX - 100); }

enum { N = 2000 };

/* All pieces at once: aligned, zero, not overlapping (each is filled with its own byte). */
static int round_ok(Arena *a, Rng *r)
{
    static unsigned char *p[N];
    static size_t len[N];
    for (int i = 0; i < N; i++) {
        len[i] = rng_below(r, i % 100 == 0 ? 300000 : 500);
        p[i] = arena_alloc(a, len[i]);
        if ((uintptr_t)p[i] % 64) return 0;
        for (size_t k = 0; k < len[i]; k++) if (p[i][k]) return 0;
        memset(p[i], i % 255 + 1, len[i]);
    }
    for (int i = 0; i < N; i++)
        for (size_t k = 0; k < len[i]; k++) if (p[i][k] != i % 255 + 1) return 0;
    return 1;
}

static int blocks(const Arena *a)
{
    int n = 0;      /* the first member of a block is its successor */
    for (void *k = a->first; k; k = *(void **)k) n++;
    return n;
}

int main(void)
{
    Arena a = {0};
    Rng r;
    rng_init(&r, 1, 0);
    ok(round_ok(&a, &r), "aligned to 64, zero, apart");
    size_t used = a.used;
    arena_reset(&a);
    ok(a.used == 0 && a.peak == used, "reset: nothing used, the peak stays");
    int good = 1, n = 0;
    for (int i = 0; i < 6; i++) {
        rng_init(&r, 2, 0);
        good &= round_ok(&a, &r);
        arena_reset(&a);
        if (i == 0) n = blocks(&a);
    }
    ok(good, "memory used before is zero again");
    ok(blocks(&a) == n, "equal rounds allocate in the first only");
    char *s = arena_strndup(&a, "ab\0cd", 5), *e = arena_strndup(&a, NULL, 0);
    ok(!memcmp(s, "ab\0cd", 6) && !*e, "strndup keeps NULs and adds one");
    ok(dies(1, "out of memory", too_much, &a) && dies(1, "out of memory", rounding, &a),
        "sizes that overflow");
    arena_free(&a);
    ok(!a.first && !a.used, "free leaves the empty one");
    arena_free(&a);
    return done();
}
