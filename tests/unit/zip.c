/* zip.h: archives made here, byte by byte; each fault refused by name; no damage goes unnoticed. */
#include "data/zip.h"
#include "tap.h"
#include <zlib.h>

static char path[] = "/tmp/zip-test-XXXXXX";

static void put16(Buf *b, unsigned x)
{
    buf_char(b, (char)x);
    buf_char(b, (char)(x >> 8));
}

static void zip64_field(Buf *b, int words)              /* of the extra field: its head */
{
    put16(b, 1);
    put16(b, (unsigned)words * 8);
}

typedef struct File {
    const char *name, *data; size_t n;
    int method, flags;          /* flags 8: sizes follow the data */
    bool zip64;
    unsigned mode;              /* of Unix */
} File;

static void add(Buf *b, Buf *dir, const File *f)
{
    Buf packed = {0};
    uint64_t at = b->n;
    uint32_t crc = (uint32_t)crc32(0, (const Bytef *)f->data, (uInt)f->n);
    if (f->method == 8) {
        z_stream z = {0};
        buf_reserve(&packed, f->n + 100);
        if (deflateInit2(&z, 9, 8, -15, 8, 0) != Z_OK) abort();
        z.next_in = (Bytef *)(uintptr_t)f->data, z.avail_in = (uInt)f->n;
        z.next_out = (Bytef *)packed.s, z.avail_out = (uInt)f->n + 100;
        if (deflate(&z, Z_FINISH) != Z_STREAM_END) abort();
        packed.n = z.total_out;
        deflateEnd(&z);
    } else {
        buf_add(&packed, f->data, f->n);
    }
    bool later = f->flags & 8;
    buf_add(b, "PK\3\4", 4);
    put16(b, 20), put16(b, (unsigned)f->flags), put16(b, (unsigned)f->method), buf_u32(b, 0x1234);
    buf_u32(b, later ? 0 : crc);
    buf_u32(b, f->zip64 ? ~0U : later ? 0 : (uint32_t)packed.n);
    buf_u32(b, f->zip64 ? ~0U : later ? 0 : (uint32_t)f->n);
    put16(b, (unsigned)strlen(f->name)), put16(b, f->zip64 ? 20 : 0);
    buf_str(b, f->name);
    if (f->zip64) zip64_field(b, 2), buf_u64(b, f->n), buf_u64(b, packed.n);
    buf_add(b, packed.s, packed.n);
    if (later) buf_add(b, "PK\7\10", 4), buf_u32(b, crc), buf_u32(b, (uint32_t)packed.n), buf_u32(b, (uint32_t)f->n);

    buf_add(dir, "PK\1\2", 4);
    put16(dir, 3 << 8 | 20), put16(dir, 20), put16(dir, (unsigned)f->flags);
    put16(dir, (unsigned)f->method), buf_u32(dir, 0x1234), buf_u32(dir, crc);
    buf_u32(dir, f->zip64 ? ~0U : (uint32_t)packed.n), buf_u32(dir, f->zip64 ? ~0U : (uint32_t)f->n);
    put16(dir, (unsigned)strlen(f->name)), put16(dir, f->zip64 ? 28 : 0), put16(dir, 0), put16(dir, 0);
    put16(dir, 0), buf_u32(dir, f->mode << 16), buf_u32(dir, f->zip64 ? ~0U : (uint32_t)at);
    buf_str(dir, f->name);
    if (f->zip64) zip64_field(dir, 3), buf_u64(dir, f->n), buf_u64(dir, packed.n), buf_u64(dir, at);
    buf_free(&packed);
}

static void end(Buf *b, const Buf *dir, unsigned n, bool zip64, const char *comment)
{
    uint64_t at = b->n;
    buf_add(b, dir->s, dir->n);
    if (zip64) {
        uint64_t end64 = b->n;
        buf_add(b, "PK\6\6", 4), buf_u64(b, 44), put16(b, 45), put16(b, 45), buf_u32(b, 0), buf_u32(b, 0);
        buf_u64(b, n), buf_u64(b, n), buf_u64(b, dir->n), buf_u64(b, at);
        buf_add(b, "PK\6\7", 4), buf_u32(b, 0), buf_u64(b, end64), buf_u32(b, 1);
    }
    buf_add(b, "PK\5\6", 4), put16(b, 0), put16(b, 0);
    put16(b, zip64 ? 65535 : n), put16(b, zip64 ? 65535 : n);
    buf_u32(b, zip64 ? ~0U : (uint32_t)dir->n), buf_u32(b, zip64 ? ~0U : (uint32_t)at);
    put16(b, (unsigned)strlen(comment)), buf_str(b, comment);
}

static Buf archive(const File *f, unsigned n, bool zip64, const char *comment)
{
    Buf b = {0}, dir = {0};
    buf_str(&b, ""), buf_str(&dir, "");
    for (unsigned i = 0; i < n; i++) add(&b, &dir, &f[i]);
    end(&b, &dir, n, zip64, comment);
    buf_free(&dir);
    return b;
}

static void put(const char *s, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(s, 1, n, f) != n || fclose(f)) abort();
}

static const char words[] = "the same words, the same words, the same words, the same words\n";
static const File good[] = {
    { "a/one.txt", words, sizeof words - 1, 8, 0, false, 0100644 },
    { "a/", "", 0, 0, 0, false, 040755 },
    { "two.txt", words, 20, 0, 0, false, 0100644 },
    { "empty", "", 0, 8, 8, false, 0 },
};

static bool all_there(Zip *z)
{
    static const int at[] = { 0, 2, 3 };
    if (zip_files(z) != 3) return false;
    for (size_t i = 0; i < 3; i++) {
        const File *f = &good[at[i]];
        char got[200];
        if (strcmp(zip_file(z, i)->name, f->name) || zip_file(z, i)->size != f->n) return false;
        In *in = zip_read(z, i);
        size_t n = in_read(in, got, sizeof got);
        in_close(in);
        if (n != f->n || memcmp(got, f->data, n)) return false;
    }
    return true;
}

static void is_good(const Buf *b, const char *what)
{
    put(b->s, b->n);
    Zip *z = zip_open(path);
    ok(all_there(z) && all_there(z), "%s", what);
    zip_close(z);
}

static void read_all(void *arg)
{
    (void)arg;
    Zip *z = zip_open(path);
    for (size_t i = 0; i < zip_files(z); i++) {
        const char *p;
        In *in = zip_read(z, i);
        for (size_t k; (k = in_some(in, &p)) > 0; ) in_skip(in, k);
        in_close(in);
    }
    zip_close(z);
}

/* Exits with 98 if what was read is not what was there, with 99 if it is. */
static void read_same(void *arg)
{
    read_all(arg);
    Zip *z = zip_open(path);
    _exit(all_there(z) ? 99 : 98);
}

static int ends_with(void (*f)(void *))
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(97);
        f(NULL);
    }
    int st = 0;
    waitpid(pid, &st, 0);
    return WIFEXITED(st) ? WEXITSTATUS(st) : 128;
}

static void refused(const File *f, unsigned n, const char *why, const char *what)
{
    Buf b = archive(f, n, false, "");
    put(b.s, b.n);
    ok(dies(1, why, read_all, NULL), "refused: %s", what);
    buf_free(&b);
}

static void alone(const char *name, int method, int flags, unsigned mode, const char *why, const char *what)
{
    File f = { name, "y", 1, method, flags, false, mode };
    refused(&f, 1, why, what);
}

static void bomb(void)
{
    char *zeros = xcalloc(4 << 20, 1);
    File f = { "x", zeros, 4 << 20, 8, 0, false, 0 };
    Buf b = archive(&f, 1, false, "");
    put(b.s, b.n);
    ok(b.n < 10000 && dies(1, "more than 200 times", read_all, NULL), "refused: a bomb");
    buf_free(&b);
    free(zeros);
}

static void faults(void)
{
    alone("../x", 0, 0, 0, "'..' in a name", "a name that leads out");
    alone("a/..", 0, 0, 0, "'..' in a name", "at its end");
    alone("/etc/x", 0, 0, 0, "absolute", "an absolute name");
    alone("a\\..\\x", 0, 0, 0, "backslash", "a backslash");
    alone("c:x", 0, 0, 0, "drive", "a drive");
    alone("a\nb", 0, 0, 0, "control character", "a line end in a name");
    alone("", 0, 0, 0, "empty name", "no name");
    alone("x", 0, 0, 0120777, "symbolic link", "a link");
    alone("x", 0, 1, 0, "x: is encrypted", "encryption");
    alone("x", 14, 0, 0, "method 14 (LZMA)", "another method");
    alone("x", 77, 0, 0, "method 77 (unknown)", "an unknown method");
    refused((File[]){ { "x", "y", 1, 0, 0, false, 0 }, { "x", "z", 1, 0, 0, false, 0 } }, 2,
            "two files of this name", "a name twice");
    bomb();
}

/* What stands at a place of the directory's only entry, or of the end, is changed. */
static void changed(size_t from_dir, uint32_t x, size_t bytes, const char *why, const char *what)
{
    Buf b = archive(&good[2], 1, false, ""), le = {0};
    size_t dir = 30 + 7 + 20;
    buf_u32(&le, x);
    memcpy(b.s + dir + from_dir, le.s, bytes);
    put(b.s, b.n);
    ok(dies(1, why, read_all, NULL), "refused: %s", what);
    buf_free(&b), buf_free(&le);
}

static void lies(void)
{
    size_t last = 46 + 7;                       /* the end record */
    changed(16, 1, 4, "wrong CRC", "another CRC");
    changed(20, 19, 4, "different things", "another packed size");
    changed(24, 21, 4, "different things", "another size");
    changed(20, 0x7fffffff, 4, "outside the archive", "a packed size past the archive");
    changed(42, 1, 4, "it overlaps", "a place inside the directory's reach");
    changed(42, 0x7fffffff, 4, "outside the archive", "a place past the archive");
    changed(28, 0xffff, 2, "damaged: its directory", "a name past the directory");
    changed(30, 0xffff, 2, "damaged: its directory", "an extra field past it");
    changed(32, 0xffff, 2, "damaged: its directory", "a comment past it");
    changed(20, 0xffffffff, 4, "without a zip64 field", "a size elsewhere, which is not there");
    changed(34, 1, 2, "outside the archive", "another disk");
    changed(last + 4, 1, 2, "several disks", "the end of several disks");
    changed(last + 8, 0xffff, 2, "several disks", "more files there than here");
    changed(last + 8, 0xffffffff, 4, "damaged: its directory", "65,535 files");
    changed(last + 12, 0xfffffff0, 4, "is not at byte", "a directory of 4 GB");
    changed(last + 16, 0xfffffff0, 4, "is not at byte", "a directory that begins after it");
    changed(last + 20, 5, 2, "no directory at its end", "a comment that is not there");
}

static void shared_bytes(void)
{
    File f[2] = { { "x", "y", 1, 0, 0, false, 0 }, { "z", "y", 1, 0, 0, false, 0 } };
    Buf b = archive(f, 2, false, "");
    size_t second = b.n - 22 - 47;
    memset(b.s + second + 42, 0, 4);            /* at the place of the first */
    put(b.s, b.n);
    ok(dies(1, "overlaps", read_all, NULL), "refused: two files at one place");
    buf_free(&b);
}

static void damage(void)
{
    Buf b = archive(good, 4, false, "");
    size_t seen = 0, wrong = 0;
    for (size_t n = 0; n < b.n; n++) {
        put(b.s, n);
        wrong += ends_with(read_same) != 1;
    }
    ok(wrong == 0, "cut short at any of %zu places: refused", b.n);
    wrong = 0;
    for (size_t i = 0; i < b.n; i++) {
        b.s[i] ^= 1 << i % 8;
        put(b.s, b.n);
        int code = ends_with(read_same);
        seen += code == 1, wrong += code != 1 && code != 99;
        b.s[i] ^= 1 << i % 8;
    }
    ok(wrong == 0 && seen > b.n / 2, "a bit turned in any byte: refused (%zu of %zu) or of no account", seen, b.n);
    buf_free(&b);
}

int main(void)
{
    int fd = mkstemp(path);
    if (fd < 0) return 1;
    close(fd);
    Buf b = archive(good, 4, false, "");
    is_good(&b, "deflated, stored, empty with its sizes after it; folders are left out");
    buf_free(&b);
    b = archive(good, 4, false, "a comment, PK\5\6 and more of it than an end record has");
    is_good(&b, "a comment that looks like the end");
    buf_free(&b);
    File big[4];
    memcpy(big, good, sizeof good);
    big[0].zip64 = big[2].zip64 = true;
    b = archive(big, 4, true, "");
    is_good(&b, "zip64");
    buf_free(&b);
    b = archive(NULL, 0, false, "");
    put(b.s, b.n);
    Zip *z = zip_open(path);
    ok(zip_files(z) == 0 && zip_magic(b.s, b.n), "an archive of nothing");
    zip_close(z);
    buf_free(&b);
    faults();
    lies();
    shared_bytes();
    damage();
    ok(!zip_magic("PK\3", 3) && !zip_magic("{\"te", 4), "what does not begin as a zip");
    unlink(path);
    return done();
}
