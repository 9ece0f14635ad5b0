/* Tables of counts, as they are and with a checksum that is right: refused, or counted to the sum
 * that they state. */
#include "fuzz.h"
#include "guard.h"
#include "text/count_file.h"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A refusal leaves xxHash's own state behind, which guard.h does not see; leaks of ours it does. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0"; }

static int file;                                /* the input, read as stdin */

static void one(void *arg)
{
    (void)arg;
    Counter *c = counter_new(&(CountOptions){ .threads = 1, .mem = 1 << 20, .block = 4096,
                                              .table = 1 << 16, .tmpdir = "/nonexistent" });
    In *in = in_open_raw("-");
    CountInfo info = {0};
    if (counts_begin(in)) counts_read(in, c, &info);
    in_close(in);
    uint64_t total, distinct;
    Pieces v = counter_end(c, 1, &total, &distinct);
    if (distinct != v.n) abort();
    pieces_free(&v);
}

static void run(const uint8_t *s, size_t n)
{
    if (ftruncate(file, 0) || pwrite(file, s, n, 0) != (ssize_t)n) abort();
    if (dup2(file, 0) != 0 || lseek(0, 0, SEEK_SET)) abort();
    int next = dup(file);                       /* what a refusal leaves open comes after this */
    survives(one, NULL);
    close_range((unsigned)next, ~0U, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!file && (file = memfd_create("input", MFD_CLOEXEC)) < 0) abort();
    run(data, n);
    uint8_t *s = malloc(n + 8);
    if (!s) abort();
    memcpy(s, data, n);
    uint64_t h = xxh3(s, n);
    for (int i = 0; i < 8; i++) s[n + (size_t)i] = (uint8_t)(h >> 8 * i);
    run(s, n + 8);
    free(s);
    return 0;
}

static void put_table(FuzzSeed put, const char *const *text, int n)
{
    Counter *c = counter_new(&(CountOptions){ .threads = 1, .mem = 1 << 20, .table = 1 << 16,
                                              .tmpdir = "/nonexistent" });
    for (int i = 0; i < n; i++) counter_text(c, text[i], strlen(text[i]));
    uint64_t total, distinct;
    Pieces v = counter_end(c, 1, &total, &distinct);
    pieces_sort(&v);
    char path[] = "/tmp/fuzz-counts-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0) abort();
    Out *o = out_open(path, 0);
    counts_write(o, &v, &(CountInfo){ 3, 70, 71 });
    out_close(o);
    Buf b = {0};
    read_file(path, &b, 1 << 20);
    put(b.s, b.n - 8);
    close(fd), unlink(path);
    pieces_free(&v), buf_free(&b);
}

void fuzz_seeds(FuzzSeed put)
{
    static const char *const text[] = { "the cat the dog, the end 12345",
                                        " caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac\n\n",
                                        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" };
    put_table(put, text, 0);
    put_table(put, text, 1);
    put_table(put, text, 3);
}
