/* driver.c -- runs a fuzz target without libFuzzer: LLVMFuzzerTestOneInput() on mutants of its
 * seeds.
 *
 *   NAME --seeds DIR          write the seeds to DIR, a file each
 *   NAME [SECONDS [SEED]]     mutate; an input that ends the program is left in NAME.crash
 *   NAME FILE                 run one input
 *
 * A target gives its seeds through fuzz_seeds(), if it has some. */
#include "base/buf.h"
#include "base/io.h"
#include "base/progress.h"
#include "base/rng.h"
#include "fuzz.h"
#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 65536                              /* bytes of a mutant */

static Buf *seeds; static size_t count;
static const uint8_t *now; static size_t now_n;
static const char *self;

static void add_seed(const void *s, size_t n)
{
    seeds = xreallocarray(seeds, count + 1, sizeof *seeds);
    seeds[count] = (Buf){0};
    buf_str(&seeds[count], "");
    buf_add(&seeds[count++], s, n);
}

__attribute__((weak)) void fuzz_seeds(FuzzSeed put)
{
    put("", 0);
    put("{\"text\":\"a \\u00e9\\ud83d\\ude00b\",\"n\":[1,{\"x\":null}]}", 49);
}

static void save_crash(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.crash", self);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || write(fd, now, now_n) != (ssize_t)now_n) return;
    close(fd);
    fprintf(stderr, "%s: the input is in %s\n", self, path);
}

static void crashed(int sig)
{
    save_crash();
    signal(sig, SIG_DFL);
    raise(sig);
}

__attribute__((weak)) void __sanitizer_set_death_callback(void (*f)(void));

/* One change: a byte, a bit, a number, a stretch doubled, moved out, or taken from another seed. */
static void mutate(Rng *r, Buf *b)
{
    static const unsigned char odd[] = { 0, 1, 0x7f, 0x80, 0xff, ' ', '\n', '"', '\\', '=', '{' };
    size_t at = rng_below(r, b->n + 1), n = b->n - at < 2 ? b->n - at : rng_below(r, b->n - at);
    if (n > 64 && rng_below(r, 4))
        n = rng_below(r, 64);
    char *s = b->s + at;
    switch (rng_below(r, 8)) {
    case 0: if (at < b->n) *s = (char)rng_u64(r); break;
    case 1: if (at < b->n) *s = (char)(*s ^ 1 << rng_below(r, 8)); break;
    case 2: if (at < b->n) *s = (char)odd[rng_below(r, sizeof odd)]; break;
    case 3: if (at < b->n) *s = (char)(*s + (rng_below(r, 2) ? 1 : -1)); break;
    case 4: memmove(s, s + n, b->n - at - n), b->n -= n; break;
    case 5: if (rng_below(r, 4) == 0) b->n = at; break;
    case 6: case 7: {
        const Buf *o = rng_below(r, 2) ? b : &seeds[rng_below(r, count)];
        size_t from = rng_below(r, o->n + 1), k = o->n - from;
        k = k > 64 ? rng_below(r, 64) : k;
        if (b->n + k > MOST)
            break;
        char *copy = xmalloc(k + 1);
        memcpy(copy, o->s + from, k);
        buf_reserve(b, k);
        memmove(b->s + at + k, b->s + at, b->n - at);
        memcpy(b->s + at, copy, k);
        b->n += k;
        free(copy);
    }
    }
}

static void run(const void *s, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);          /* its own, so that a sanitizer sees its end */
    if (!copy) abort();
    memcpy(copy, s, n);
    now = copy, now_n = n;
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

static void write_seeds(const char *dir)
{
    for (size_t i = 0; i < count; i++) {
        char *path = xasprintf("%s/%zu", dir, i);
        Out *o = out_open(path, 0);
        out_write(o, seeds[i].s, seeds[i].n);
        out_close(o);
        free(path);
    }
}

int main(int argc, char **argv)
{
    self = argv[0];
    fuzz_seeds(add_seed);
    if (argc == 3 && !strcmp(argv[1], "--seeds")) {
        write_seeds(argv[2]);
        return 0;
    }
    signal(SIGABRT, crashed), signal(SIGSEGV, crashed);
    if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(save_crash);
    if (argc > 1 && !isdigit((unsigned char)*argv[1])) {
        Buf b = {0};
        read_file(argv[1], &b, 1 << 30);
        run(b.n ? b.s : "", b.n);
        return 0;
    }
    double end = now_seconds() + (argc > 1 ? atof(argv[1]) : 2);
    Rng r;
    rng_init(&r, argc > 2 ? strtoull(argv[2], NULL, 10) : 1, 0);
    uint64_t runs = 0;
    Buf b = {0};
    for (size_t i = 0; i < count; i++)
        run(seeds[i].s, seeds[i].n);
    for (; runs % 16 || now_seconds() < end; runs++) {
        buf_clear(&b);
        const Buf *o = &seeds[rng_below(&r, count)];
        buf_add(&b, o->s, o->n);
        for (uint64_t k = 1 + rng_below(&r, 4); k; k--)
            mutate(&r, &b);
        run(b.s, b.n);
    }
    buf_free(&b);
    printf("%" PRIu64 " inputs\n", runs);
    return 0;
}
