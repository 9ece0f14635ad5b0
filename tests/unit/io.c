#include "tap.h"
#include "base/err.h"
#include "base/io.h"
#include "base/rng.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <zlib.h>

static char dir[] = "/tmp/io-test-XXXXXX";

static char *path(const char *name)             /* in the scratch folder; a few live at a time */
{
    static char buf[8][200];
    static int k;
    k = (k + 1) % 8;
    snprintf(buf[k], sizeof buf[k], "%s/%s", dir, name);
    return buf[k];
}

static void put(const char *file, const void *p, size_t n)
{
    FILE *f = fopen(file, "w");
    if (!f || fwrite(p, 1, n, f) != n || fclose(f)) abort();
}

static int holds(const char *file, const void *want, size_t n)
{
    Buf b = {0};
    read_file(file, &b, SIZE_MAX);
    int good = b.n == n && !memcmp(b.s, want, n);
    buf_free(&b);
    return good;
}

static int files(void)                          /* how many the scratch folder has */
{
    DIR *d = opendir(dir);
    int n = 0;
    for (struct dirent *e; (e = readdir(d)); ) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void gz(Buf *b, const void *p, size_t n) /* adds one gzip member */
{
    z_stream z = {0};
    deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
    buf_reserve(b, deflateBound(&z, n) + 64);
    z.next_in = (unsigned char *)p; z.avail_in = (uInt)n;
    z.next_out = (unsigned char *)b->s + b->n; z.avail_out = (uInt)(b->cap - b->n);
    if (deflate(&z, Z_FINISH) != Z_STREAM_END) abort();
    b->n += z.total_out;
    deflateEnd(&z);
}

static Buf noise(size_t n, uint64_t seed)       /* lines of bytes that pack somewhat */
{
    Buf b = {0};
    Rng r;
    rng_init(&r, seed, 0);
    buf_reserve(&b, n);
    while (b.n < n) buf_char(&b, rng_below(&r, 60) ? (char)rng_below(&r, 40) : '\n');
    return b;
}

static void all(In *in, Buf *b, Rng *r)         /* the whole input, by calls of all kinds */
{
    static char part[1 << 20];
    buf_clear(b);
    for (;;) {
        size_t k, want = rng_below(r, rng_below(r, 3) ? 5000 : sizeof part) + 1;
        if (rng_below(r, 2)) {
            const char *p;
            k = in_some(in, &p);
            if (k > want) k = want;
            buf_add(b, p, k);
            in_skip(in, k);
        } else {
            k = in_read(in, part, want);
            buf_add(b, part, k);
            if (k < want) break;
        }
        if (in_offset(in) != b->n) abort();
        if (k == 0) break;
    }
}

static int reads(const char *file, const Buf *want)
{
    Buf b = {0};
    Rng r;
    rng_init(&r, 9, 9);
    In *in = in_open(file);
    all(in, &b, &r);
    int good = b.n == want->n && (b.n == 0 || !memcmp(b.s, want->s, b.n)) && in_read(in, &good,
        1) == 0 && in_offset(in) == b.n;
    in_close(in);
    buf_free(&b);
    return good;
}

static void open_it(void *file) { in_close(in_open(file)); }
static void read_it(void *file)
{
    const char *p;
    In *in = in_open(file);
    for (size_t k; (k = in_some(in, &p)); ) in_skip(in, k);
    in_close(in);
}
static void exact_it(void *file) { char b[10]; In *in = in_open(file); in_exact(in, b, 4,
    "the header"); in_exact(in, b, 4, "row 1"); }
static void limit_it(void *file) { Buf b = {0}; read_file(file, &b, 5); }

static void plain(void)
{
    Buf big = noise(3000000, 1), b = {0};
    put(path("big"), big.s, big.n);
    put(path("empty"), "", 0);
    put(path("one"), "x", 1);
    put(path("six"), "abcdef", 6);
    ok(reads(path("big"), &big), "3 MB by mixed calls");
    ok(reads(path("empty"), &b), "an empty file");
    ok(dies(1, "six: ends inside row 1, byte 6", exact_it, path("six")), "in_exact");
    ok(dies(1, "six: is longer than 5 bytes", limit_it, path("six")), "read_file's limit");
    read_file(path("six"), &b, 6);
    ok(b.n == 6 && !strcmp(b.s, "abcdef"), "read_file");
    read_file(path("empty"), &b, 0);
    ok(b.n == 0 && b.s && !*b.s, "read_file of nothing");
    ok(dies(1, "none: No such file", open_it, path("none")) && dies(1, "/: is a directory",
        open_it, (void *)"/"), "no file, a directory");
    buf_free(&big);
    buf_free(&b);
}

static void gzip(void)
{
    Buf big = noise(3000000, 2), z = {0}, empty = {0};
    char *f = path("a.gz");
    gz(&z, big.s, 1000000);
    size_t first = z.n;
    gz(&z, big.s + 1000000, 0);
    gz(&z, big.s + 1000000, big.n - 1000000);
    put(f, z.s, z.n);
    ok(reads(f, &big), "three gzip members, one of them empty");
    size_t n = z.n;
    for (int i = 0; i < 700000; i++) buf_char(&z, 0);
    put(f, z.s, z.n);
    ok(reads(f, &big), "and 700,000 zero bytes");
    buf_char(&z, 'x');
    put(f, z.s, z.n);
    ok(dies(1, "bytes after the end of the gzip data, byte", read_it, f),
        "something after the zeros");
    memcpy(z.s + n, "\x1f\x8b\x08", 3);
    put(f, z.s, n + 1);
    ok(dies(1, "ends inside gzip data", read_it, f), "half a magic after the last member");
    put(f, z.s, n + 3);
    ok(dies(1, "ends inside gzip data", read_it, f), "the head of one more member");
    z.s[n] = 'x';
    put(f, z.s, n + 1);
    ok(dies(1, "not gzip data after the end of a member, byte", read_it, f), "another byte there");
    In *raw = in_open_raw(f);
    char two[2];
    ok(in_read(raw, two, 2) == 2 && !memcmp(two, "\x1f\x8b", 2), "in_open_raw does not unpack");
    in_close(raw);
    z.s[first / 2] ^= 1;
    put(f, z.s, n);
    ok(dies(1, "a.gz: gzip data is corrupt (", read_it, f), "a flipped bit");

    z.n = 0;
    gz(&z, "", 0);
    put(f, z.s, z.n);
    ok(reads(f, &empty), "an empty member");
    z.n = 0;
    gz(&z, "one line\nand two\n", 17);
    int cut = 0, bits = 0, total = 0;
    for (size_t i = 1; i < z.n; i++) {
        put(f, z.s, i);
        cut += dies(1, "ends inside gzip data, byte", read_it, f);
    }
    ok(cut == (int)z.n - 1, "a file cut at any of its %d bytes dies", cut);
    /* A flipped bit past the header is noticed, or is padding before the trailer. */
    Buf two_lines = { (char *)"one line\nand two\n", 17, 18 };
    for (size_t i = 10; i < z.n; i++)
        for (int k = 0; k < 8; k += 3, total++) {
            z.s[i] ^= (char)(1 << k);
            put(f, z.s, z.n);
            bits += dies(1, "gzip data", read_it, f) || (i < z.n - 8 && reads(f, &two_lines));
            z.s[i] ^= (char)(1 << k);
        }
    ok(bits == total, "%d of %d flipped bits noticed", bits, total);
    put(f, "\x1f", 1);
    ok(dies(1, "ends inside gzip data", read_it, f), "one byte of magic");
    put(f, "\x1fx", 2);
    Buf two_bytes = { (char *)"\x1fx", 2, 3 };
    ok(reads(f, &two_bytes), "half of the magic and then not");
    buf_free(&big);
    buf_free(&z);
}

static void lines(void)
{
    Buf b = {0}, want = {0};
    char *f = path("lines");
    put(f, "a\nb\r\n\n\r\nc\0d\re\r\r\nlast", 20);
    static const struct { const char *s; size_t n; } w[] = { { "a", 1 }, { "b", 1 }, { "", 0 }, {
        "", 0 }, { "c\0d\re\r", 6 }, { "last", 4 } };
    In *in = in_open(f);
    int good = 1;
    for (uint64_t i = 0; i < 6; i++)
        good &= in_line(in, &b) && in_lineno(in) == i + 1 && b.n == w[i].n && !memcmp(b.s, w[i].s,
            b.n);
    ok(good && !in_line(in, &b) && !in_line(in, &b) && in_lineno(in) == 6,
        "LF, CR LF, NUL, a last line without LF");
    in_close(in);
    put(f, "x\n", 2);
    in = in_open(f);
    ok(in_line(in, &b) && b.n == 1 && !in_line(in, &b), "no empty line after the last LF");
    in_close(in);

    Buf big = noise(2000000, 3);                /* and one line much longer than the buffer */
    for (size_t i = 600000; i < 1800000; i++) if (big.s[i] == '\n') big.s[i] = 'n';
    for (size_t i = 0; i < big.n; i++) if (big.s[i] == '\r') big.s[i] = 'r';
    buf_char(&big, '\n');
    put(f, big.s, big.n);
    in = in_open(f);
    while (in_line(in, &b)) { buf_add(&want, b.s ? b.s : "", b.n); buf_char(&want, '\n'); }
    ok(want.n == big.n && !memcmp(want.s, big.s, big.n), "a line of 1.2 MB");
    in_close(in);
    put(f, "", 0);
    in = in_open(f);
    ok(!in_line(in, &b) && in_lineno(in) == 0, "no lines");
    in_close(in);
    buf_free(&b); buf_free(&want); buf_free(&big);
}

/* A pipe that is non-blocking and filled byte by byte. */
static void slow_stdin(void)
{
    Buf z = {0};
    gz(&z, "through a pipe\n", 15);
    int p[2], st;
    if (pipe(p)) abort();
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        close(p[0]);
        for (size_t i = 0; i < z.n; i++) {
            struct timespec t = { 0, 500000 };
            nanosleep(&t, NULL);
            if (write(p[1], z.s + i, 1) != 1) _exit(1);
        }
        _exit(0);
    }
    close(p[1]);
    fcntl(p[0], F_SETFL, O_NONBLOCK);
    int save = dup(0);
    dup2(p[0], 0); close(p[0]);
    In *in = in_open("-");
    Buf b = {0};
    ok(in_line(in, &b) && !strcmp(b.s, "through a pipe") && !in_line(in, &b)
        && !strcmp(in_name(in), "stdin"),
       "non-blocking stdin, gzip, a byte at a time");
    in_close(in);
    dup2(save, 0); close(save);
    waitpid(pid, &st, 0);
    buf_free(&b); buf_free(&z);
}

/* ---- output ---------------------------------------------------------------------------------- */

static void to_file(void *file)                 /* dies half way */
{
    io_init();
    Out *o = out_open(file, OUT_BINARY);
    for (int i = 0; i < 100000; i++) out_str(o, "new ");
    out_flush(o);
    die("half way");
}
static void to_exit(void *file) { io_init(); out_str(out_open(file, 0), "x"); exit(1); }
static void to_full(void *x)
{
    (void)x;
    Out *o = out_open("/dev/full", 0);
    for (int i = 0; i < 100000; i++) out_str(o, "line\n");
    out_close(o);
}
static void to_full_little(void *x) { (void)x; Out *o = out_open("/dev/full", 0); out_str(o, "x");
    out_close(o); }
static void to_full_stdio(void *x) { (void)x; io_init(); if (freopen("/dev/full", "w", stdout)) {
    printf("x"); exit(0); } }
static void to_it(void *file) { out_close(out_open(file, 0)); }
static void to_closed(void *x) { (void)x; close(1); io_init(); Out *o = out_open("-", 0);
    out_str(o, "x"); out_close(o); }
static void to_terminal(void *x)
{
    int m = posix_openpt(O_RDWR | O_NOCTTY);
    (void)x;
    if (m < 0 || grantpt(m) || unlockpt(m)) _exit(97);
    out_open(ptsname(m), OUT_BINARY);
}
static void to_limit(void *file)
{
    struct rlimit r = { 100000, 100000 };
    io_init();
    setrlimit(RLIMIT_FSIZE, &r);
    Out *o = out_open(file, 0);
    for (int i = 0; i < 100000; i++) out_str(o, "line\n");
    out_close(o);
}

static int ends_by(int sig, const char *file)   /* a writer that gets a signal half way */
{
    int st;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        signal(sig, SIG_DFL);                   /* under nohup it is ignored */
        io_init();
        Out *o = out_open(file, 0);
        out_str(o, "new");
        out_flush(o);
        if (sig == SIGPIPE) {
            int p[2];
            if (pipe(p)) _exit(1);
            close(p[0]);
            if (write(p[1], "x", 1) == 1) _exit(1);
        }
        raise(sig);
        _exit(0);
    }
    waitpid(pid, &st, 0);
    return WIFSIGNALED(st) && WTERMSIG(st) == sig;
}

static void output(void)
{
    char *f = path("out"), *link_ = path("link"), *dangling = path("dangling");
    Buf big = noise(300000, 5);
    struct stat st;
    int n = files();
    umask(022);
    Out *o = out_open(f, OUT_BINARY);
    out_str(o, "a"); out_printf(o, "%d%s", 12, "b"); out_write(o, "\0", 1);
    out_printf(o, "%1000d", 7);
    ok(out_offset(o) == 1005 && access(f, F_OK) != 0 && files() == n + 1,
        "nothing under the name until it is closed");
    out_write(o, big.s, big.n);
    out_write(o, NULL, 0);
    ok(out_offset(o) == 1005 + big.n && !strcmp(out_name(o), f), "out_offset, out_name");
    out_close(o);
    Buf b = {0};
    read_file(f, &b, SIZE_MAX);
    ok(b.n == 1005 + big.n && !memcmp(b.s, "a12b\0    ", 9) && !memcmp(b.s + 1005, big.s, big.n),
        "what was written is there");
    ok(stat(f, &st) == 0 && (st.st_mode & 07777) == 0644 && files() == n + 1,
        "mode 0666 less the umask, no temporary left");

    put(f, "old", 3);
    chmod(f, 0640);
    ok(dies(1, "half way", to_file, f) && holds(f, "old", 3) && files() == n + 1,
        "a writer that dies leaves the old file, and no temporary");
    ok(dies(1, "", to_exit, f) && holds(f, "old", 3) && files() == n + 1, "so does one that exits");
    int good = 1;
    static const int sigs[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
    for (int i = 0; i < 4; i++) good &= ends_by(sigs[i], f) && holds(f, "old", 3)
        && files() == n + 1;
    ok(good, "or is ended by SIGINT, SIGTERM, SIGHUP, SIGPIPE");
    o = out_open(f, 0); out_str(o, "dropped"); out_discard(o);
    ok(holds(f, "old", 3) && files() == n + 1, "out_discard");
    o = out_open(f, 0); out_str(o, "new");
    fflush(stdout);
    pid_t pid = fork();             /* a child's end must not remove the parent's file */
    if (pid == 0) { io_init(); exit(0); }
    waitpid(pid, NULL, 0);
    out_close(o);
    ok(holds(f, "new", 3) && stat(f, &st) == 0 && (st.st_mode & 07777) == 0640,
        "replaced; the mode stays");

    if (symlink("out", link_) || symlink("target", dangling)) abort();
    o = out_open(link_, 0); out_str(o, "through"); out_close(o);
    ok(holds(f, "through", 7) && lstat(link_, &st) == 0 && S_ISLNK(st.st_mode),
        "a link is written through");
    o = out_open(dangling, 0); out_str(o, "made"); out_close(o);
    ok(holds(path("target"), "made", 4), "also one to what is not there yet");
    if (symlink("loop", path("loop"))) abort();
    ok(dies(1, "loop: Too many levels", to_it, path("loop")), "a link to itself");

    n = files();
    ok(dies(1, "/dev/full: cannot write: No space left", to_full, NULL) && dies(1,
        "No space left", to_full_little, NULL), "/dev/full");
    ok(dies(1, "stdout: cannot write: No space left", to_full_stdio, NULL),
        "what printf could not write is noticed at the exit");
    ok(dies(1, "is a directory", to_it, dir) && dies(1, "cannot create: No such file", to_it,
        path("no/such")), "a folder, no folder");
    ok(dies(1, "stdout: cannot write: Bad file", to_closed, NULL), "a closed stdout");
    ok(dies(1, "refusing to write binary data to a terminal", to_terminal, NULL),
        "binary to a terminal");
    ok(dies(1, "File too large", to_limit, path("limited")) && files() == n, "a file size limit");

    fflush(stdout);
    int p[2];
    if (pipe(p)) abort();
    pid = fork();
    if (pid == 0) {
        dup2(p[1], 1);
        o = out_open("-", OUT_BINARY); out_str(o, "one "); out_close(o);
        o = out_open("/dev/stdout", 0); out_str(o, "two "); out_close(o);
        o = out_open("/dev/fd/1", 0); out_str(o, "three"); out_close(o);
        _exit(0);
    }
    close(p[1]);
    char text[100];
    size_t got = 0;
    for (ssize_t k; (k = read(p[0], text + got, sizeof text - got)) > 0; ) got += (size_t)k;
    waitpid(pid, NULL, 0);
    ok(got == 13 && !memcmp(text, "one two three", 13), "-, /dev/stdout and /dev/fd/1 are stdout");
    buf_free(&b); buf_free(&big);
}

static void *writer(void *x)
{
    int t = *(int *)x;
    for (int i = 0; i < 50; i++) {
        char name[20];
        snprintf(name, sizeof name, "t%d", (t + i) % 3);        /* several write the same file */
        char f[300];
        snprintf(f, sizeof f, "%s/%s", dir, name);
        Out *o = out_open(f, 0);
        out_printf(o, "%d %d", t, i);
        if (i % 5 == 0) out_discard(o); else out_close(o);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t t[4];
    int id[4], n = files();
    for (int i = 0; i < 4; i++) { id[i] = i; if (pthread_create(&t[i], NULL, writer,
        &id[i])) abort(); }
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    ok(files() == n + 3, "four threads write three files");
}

static void sparse(void)                        /* beyond 4 GiB: offsets; the file has holes only */
{
    char *f = path("sparse");
    int fd = open(f, O_WRONLY | O_CREAT, 0600);
    off_t n = (5ll << 30) + 1;
    if (fd < 0 || ftruncate(fd, n) || pwrite(fd, "\n", 1, n - 2) != 1 || pwrite(fd, "z", 1,
        n - 1) != 1) { skip("no room", "5 GiB"); return; }
    close(fd);
    In *in = in_open(f);
    const char *p;
    uint64_t sum = 0;
    for (size_t k; sum < (5ull << 30) - 1 && (k = in_some(in, &p)); sum += k) {
        if (k > (5ull << 30) - 1 - sum) k = (size_t)((5ull << 30) - 1 - sum);
        in_skip(in, k);
    }
    char last[3];
    ok(in_offset(in) == (5ull << 30) - 1 && in_read(in, last, 3) == 2 && !memcmp(last, "\nz", 2)
        && in_offset(in) == (uint64_t)n, "past 5 GiB");
    in_close(in);
    unlink(f);
}

int main(void)
{
    char cmd[100];
    if (!mkdtemp(dir)) return 1;
    plain();
    gzip();
    lines();
    slow_stdin();
    output();
    threads();
    sparse();
    /* XXH3 of the empty string and of "a" (xxhsum -H3) */
    ok(xxh3("", 0) == 0x2d06800538d394c2u && xxh3("a", 1) == 0xe6c632b61e964e1fu, "xxh3");
    snprintf(cmd, sizeof cmd, "rm -r %s", dir);
    return system(cmd) ? 1 : done();
}
