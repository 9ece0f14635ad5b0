/* gzip and zstd input, recognised by its magic: refused, or read to its end; what is read does not depend
 * on how it is asked for. */
#include "base/io.h"
#include "fuzz.h"
#include "guard.h"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

/* A refusal leaves what zlib and zstd hold behind, which guard.h does not see; leaks of ours it does. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0"; }

enum { MOST = 1 << 22 };
static char path[32];
static int file;
typedef struct Way { bool copies; uint64_t bytes, sum; } Way;

static void add(Way *w, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) w->sum = (w->sum ^ (unsigned char)s[i]) * 0x100000001b3u;
    w->bytes += n;
}

static void one(void *arg)
{
    Way *w = arg;
    if (lseek(file, 0, SEEK_SET)) abort();      /* in_open() shares it */
    In *in = in_open(path);
    const char *p;
    char some[1000];
    size_t k;
    if (w->copies)
        while (w->bytes < MOST && (k = in_read(in, some, sizeof some)) > 0) add(w, some, k);
    else
        while (w->bytes < MOST && (k = in_some(in, &p)) > 0) {
            k = w->bytes + k > MOST ? MOST - (size_t)w->bytes : k;
            add(w, p, k);
            in_skip(in, k);
        }
    in_close(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    Way a = { false, 0, 0 }, b = { true, 0, 0 };
    if (!file) {
        if ((file = memfd_create("input", MFD_CLOEXEC)) < 0) abort();
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    if (ftruncate(file, 0) || pwrite(file, data, n, 0) != (ssize_t)n) abort();
    int next = dup(file);                       /* what a refusal leaves open comes after this */
    bool well = survives(one, &a);
    if (well != survives(one, &b)) abort();
    if (well && a.bytes < MOST && b.bytes < MOST && (a.bytes != b.bytes || a.sum != b.sum)) abort();
    close_range((unsigned)next, ~0U, 0);
    return 0;
}

static size_t zip(const char *s, char *to, size_t room)
{
    z_stream z = {0};
    if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY)) abort();
    z.next_in = (Bytef *)(uintptr_t)s, z.avail_in = (uInt)strlen(s);
    z.next_out = (Bytef *)to, z.avail_out = (uInt)room;
    if (deflate(&z, Z_FINISH) != Z_STREAM_END) abort();
    size_t n = z.total_out;
    deflateEnd(&z);
    return n;
}

void fuzz_seeds(FuzzSeed put)
{
    char s[4096] = {0};
    size_t n = zip("one line\n", s, 1000);
    put(s, n);
    n += zip("and another, another, another, another\n", s + n, 1000);
    put(s, n);
    put(s, n + 8);                              /* zero bytes after it */
#ifdef HAVE_ZSTD
    static char text[20000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i * i % 23);
    n = ZSTD_compress(s, sizeof s, text, sizeof text, 3);
    if (!ZSTD_isError(n)) put(s, n);
    n = ZSTD_compress(s, sizeof s, text, 100, 3);
    if (!ZSTD_isError(n)) put(s, n);
#endif
}
