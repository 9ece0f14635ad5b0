#include "data/zip.h"
#include "base/map.h"
#include "data/member.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum {
    END = 22, END64 = 56, LOCATOR = 20, ENTRY = 46, LOCAL = 30, /* bytes of the fixed parts */
    COMMENT_MOST = 65535, FREE_RATIO = 200, FREE_SIZE = 1 << 20, PACKED = 64 << 10
};

struct Zip {
    int fd;
    char *path;
    uint64_t size;                              /* of the archive */
    uint64_t dir_at, dir_size, dir_files;       /* as its end says */
    char *dir;
    Arena names;
    ZipFile *file; size_t n;
    /* the file that is being read */
    const ZipFile *now;
    char *now_name;                             /* ARCHIVE:FILE */
    z_stream z;
    bool inflating;
    uint64_t from, left, given;                 /* where its packed bytes go on; how many; unpacked */
    uint32_t crc;
    unsigned char *in;
};

static uint32_t get16(const char *p) { return (unsigned char)p[0] | (uint32_t)(unsigned char)p[1] << 8; }

static void read_at(const Zip *z, void *to, uint64_t at, size_t n)
{
    for (size_t k = 0; k < n; ) {
        ssize_t got = pread(z->fd, (char *)to + k, n - k, (off_t)(at + k));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) die("%s: cannot read:", z->path);
        if (got == 0) die("%s: ends at byte %" PRIu64, z->path, at + k);
        k += (size_t)got;
    }
}

/* ---- the end of the archive */

/* The end record whose comment ends where the file does, from the last one back; -1: none. */
static int64_t find_end(const Zip *z, const char *s, size_t n)
{
    for (size_t i = n >= END ? n - END + 1 : 0; i-- > 0; )
        if (!memcmp(s + i, "PK\5\6", 4) && get16(s + i + 20) == n - END - i)
            return (int64_t)(z->size - n + i);
    return -1;
}

static uint64_t read_end64(Zip *z, const char *locator)
{
    char e[END64];
    uint64_t at = get_u64(locator + 8);
    if (get_u32(locator + 4) || get_u32(locator + 16) > 1) die("%s: a part of several disks", z->path);
    if (z->size < END64 || at > z->size - END64) die("%s: damaged: its zip64 end is not there", z->path);
    read_at(z, e, at, sizeof e);
    if (memcmp(e, "PK\6\6", 4)) die("%s: damaged: its zip64 end is not there", z->path);
    z->dir_files = get_u64(e + 32), z->dir_size = get_u64(e + 40), z->dir_at = get_u64(e + 48);
    if (get_u32(e + 16) || get_u32(e + 20) || get_u64(e + 24) != z->dir_files)
        die("%s: a part of several disks", z->path);
    return at;
}

static void read_end(Zip *z)
{
    size_t n = z->size < END + COMMENT_MOST + LOCATOR ? (size_t)z->size : END + COMMENT_MOST + LOCATOR;
    char *s = xmalloc(n + 1);
    read_at(z, s, z->size - n, n);
    int64_t end = find_end(z, s, n);
    if (end < 0) die("%s: not a zip file, or cut short: it has no directory at its end", z->path);
    const char *e = s + ((uint64_t)end - (z->size - n));
    z->dir_files = get16(e + 10), z->dir_size = get_u32(e + 12), z->dir_at = get_u32(e + 16);
    uint64_t after = (uint64_t)end;
    if (e - s >= LOCATOR && !memcmp(e - LOCATOR, "PK\6\7", 4)) after = read_end64(z, e - LOCATOR);
    else if (get16(e + 4) || get16(e + 6) || get16(e + 8) != z->dir_files)
        die("%s: a part of several disks", z->path);
    free(s);
    if (z->dir_at > after || z->dir_size != after - z->dir_at)
        die("%s: damaged, or something stands before the archive: its directory is not at byte %" PRIu64,
            z->path, z->dir_at);
    if (z->dir_size > ZIP_DIRECTORY) die("%s: a directory of more than 64 MB", z->path);
}

/* ---- the directory */

/* Sizes and place of 0xffffffff stand in the extra field of zip64, those alone and in this order. */
static bool zip64(ZipFile *f, const char *x, size_t n, bool size, bool packed, bool at)
{
    for (size_t k; n >= 4; x += 4 + k, n -= 4 + k) {
        k = get16(x + 2);
        if (k > n - 4) return false;
        if (get16(x) != 1) continue;
        size_t i = 0;
        if (k < 8 * ((size_t)size + packed + at)) return false;
        if (size) f->size = get_u64(x + 4 + i), i += 8;
        if (packed) f->packed = get_u64(x + 4 + i), i += 8;
        if (at) f->at = get_u64(x + 4 + i);
        return true;
    }
    return false;
}

/* One entry of n bytes that are left; how many it has. */
static size_t read_entry(Zip *z, const char *e, size_t n, Map *seen)
{
    ZipFile f = { .flags = (int)get16(e + 8), .method = (int)get16(e + 10), .crc = get_u32(e + 16),
                  .packed = get_u32(e + 20), .size = get_u32(e + 24), .at = get_u32(e + 42) };
    size_t name = get16(e + 28), extra = get16(e + 30), all = ENTRY + name + extra + get16(e + 32);
    if (memcmp(e, "PK\1\2", 4) || all > n) die("%s: damaged: its directory", z->path);
    const char *why = member_bad(e + ENTRY, name);
    if (why) die("%s: %s: '%.*s'", z->path, why, (int)name, e + ENTRY);
    f.name = arena_strndup(&z->names, e + ENTRY, name);
    f.name_len = name;
    bool big = f.size == UINT32_MAX, big_packed = f.packed == UINT32_MAX, far = f.at == UINT32_MAX;
    if ((big || big_packed || far) && !zip64(&f, e + ENTRY + name, extra, big, big_packed, far))
        die("%s:%s: damaged: sizes without a zip64 field", z->path, f.name);
    int64_t *twice = map_put(seen, f.name, name);
    if ((*twice)++) die("%s:%s: there are two files of this name", z->path, f.name);
    uint32_t mode = get_u32(e + 38) >> 16;      /* of Unix, where that made it */
    if (e[5] == 3 && (mode & S_IFMT) == S_IFLNK) die("%s:%s: is a symbolic link", z->path, f.name);
    if (f.packed > z->dir_at || f.at > z->dir_at - f.packed || get16(e + 34))
        die("%s:%s: damaged: it lies outside the archive", z->path, f.name);
    if (f.name[name - 1] != '/') z->file[z->n++] = f;
    return all;
}

static int by_place(const void *a, const void *b)
{
    const ZipFile *const *x = a, *const *y = b;
    return ((*x)->at > (*y)->at) - ((*x)->at < (*y)->at);
}

/* Files that share bytes are how a small archive unpacks to petabytes. */
static void no_overlap(const Zip *z)
{
    const ZipFile **f = xreallocarray(NULL, z->n + 1, sizeof *f);
    for (size_t i = 0; i < z->n; i++) f[i] = &z->file[i];
    qsort(f, z->n, sizeof *f, by_place);
    for (size_t i = 0; i < z->n; i++) {
        uint64_t next = i + 1 < z->n ? f[i + 1]->at : z->dir_at;
        if (f[i]->packed + LOCAL + f[i]->name_len > next - f[i]->at)
            die("%s:%s: damaged: it overlaps with what follows", z->path, f[i]->name);
    }
    free(f);
}

static void read_directory(Zip *z)
{
    Map seen = {0};
    z->dir = xmalloc((size_t)z->dir_size + 1);
    read_at(z, z->dir, z->dir_at, (size_t)z->dir_size);
    if (z->dir_files > z->dir_size / ENTRY) die("%s: damaged: its directory", z->path);
    z->file = xreallocarray(NULL, (size_t)z->dir_files + 1, sizeof *z->file);
    size_t at = 0, end = (size_t)z->dir_size;
    for (uint64_t i = 0; i < z->dir_files; i++) {
        if (end - at < ENTRY) die("%s: damaged: its directory", z->path);
        at += read_entry(z, z->dir + at, end - at, &seen);
    }
    if (at != end) die("%s: damaged: its directory", z->path);
    map_free(&seen);
    free(z->dir);
    z->dir = NULL;
    no_overlap(z);
}

bool zip_magic(const char *s, size_t n)
{
    return n >= 4 && (!memcmp(s, "PK\3\4", 4) || !memcmp(s, "PK\5\6", 4));
}

Zip *zip_open(const char *path)
{
    Zip *z = xcalloc(1, sizeof *z);
    struct stat st;
    *z = (Zip){ .path = xstrdup(path), .fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) };
    if (z->fd < 0 || fstat(z->fd, &st) < 0) die("%s:", path);
    if (!S_ISREG(st.st_mode)) die("%s: a zip archive must be a file, for its directory is at the end", path);
    z->size = (uint64_t)st.st_size;
    z->in = xmalloc(PACKED);
    read_end(z);
    read_directory(z);
    return z;
}

size_t zip_files(const Zip *z) { return z->n; }
const ZipFile *zip_file(const Zip *z, size_t i) { return &z->file[i]; }

const char *zip_method(int method)
{
    static const struct { int n; const char *name; } known[] = {
        { 0, "stored" }, { 1, "shrunk" }, { 6, "imploded" }, { 8, "deflated" }, { 9, "Deflate64" },
        { 12, "bzip2" }, { 14, "LZMA" }, { 93, "zstd" }, { 95, "xz" }, { 98, "PPMd" }, { 99, "AES" }
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].n == method) return known[i].name;
    return "unknown";
}

/* ---- one file */

static void local_header(Zip *z, const ZipFile *f)
{
    char h[LOCAL], *name = xmalloc(f->name_len + 1);
    read_at(z, h, f->at, LOCAL);
    size_t n = get16(h + 26);
    bool same = !memcmp(h, "PK\3\4", 4) && n == f->name_len && (int)get16(h + 8) == f->method;
    if (same) read_at(z, name, f->at + LOCAL, n);
    same = same && !memcmp(name, f->name, n);
    free(name);
    z->from = f->at + LOCAL + n + get16(h + 28);
    bool later = f->flags & 8;                  /* sizes follow the bytes */
    if (same && !later && get_u32(h + 22) != UINT32_MAX)
        same = get_u32(h + 18) == (uint32_t)f->packed && get_u32(h + 22) == (uint32_t)f->size;
    if (!same || z->from > z->dir_at - f->packed)
        die("%s: damaged: its header and the directory say different things", z->now_name);
}

static void at_end(Zip *z)
{
    if (z->given != z->now->size || z->left)
        die("%s: damaged: it unpacks to %" PRIu64 " bytes of %" PRIu64, z->now_name, z->given,
            z->now->size);
    if (z->crc != z->now->crc) die("%s: damaged: wrong CRC", z->now_name);
}

static size_t fill(Zip *z)
{
    size_t n = z->left < PACKED ? (size_t)z->left : PACKED;
    read_at(z, z->in, z->from, n);
    z->from += n, z->left -= n;
    return n;
}

static size_t stored(Zip *z, void *p, size_t n)
{
    if (n > z->left) n = (size_t)z->left;
    read_at(z, p, z->from, n);
    z->from += n, z->left -= n;
    return n;
}

static size_t inflated(Zip *z, void *p, size_t n)
{
    int r = Z_OK;
    z->z.next_out = p;
    z->z.avail_out = n < 1 << 30 ? (uInt)n : 1 << 30;
    uInt room = z->z.avail_out;
    while (r == Z_OK && z->z.avail_out == room) {
        if (!z->z.avail_in && z->left) z->z.next_in = z->in, z->z.avail_in = (uInt)fill(z);
        r = inflate(&z->z, Z_NO_FLUSH);
    }
    if (r == Z_MEM_ERROR) die("%s: out of memory while unpacking", z->now_name);
    if (r != Z_OK && r != Z_STREAM_END)
        die("%s: damaged: %s", z->now_name, z->z.msg ? z->z.msg : "it ends inside its deflated data");
    if (r == Z_STREAM_END) {
        if (z->z.avail_in) z->left += z->z.avail_in;
        inflateEnd(&z->z);
        z->inflating = false;
    }
    return room - z->z.avail_out;
}

static size_t pull(void *arg, void *p, size_t n)
{
    Zip *z = arg;
    size_t k = 0;
    if (z->now->method == 0) k = stored(z, p, n);
    else if (z->inflating) k = inflated(z, p, n);
    z->crc = (uint32_t)crc32_z(z->crc, p, k);
    z->given += k;
    if (k == 0 || z->given > z->now->size) at_end(z);
    return k;
}

In *zip_read(Zip *z, size_t i)
{
    const ZipFile *f = z->now = &z->file[i];
    free(z->now_name);
    z->now_name = xasprintf("%s:%s", z->path, f->name);
    if (f->flags & 1) die("%s: is encrypted", z->now_name);
    if (f->method != 0 && f->method != 8)
        die("%s: method %d (%s) is not supported", z->now_name, f->method, zip_method(f->method));
    if (f->size > FREE_SIZE && f->size / FREE_RATIO > f->packed)
        die("%s: %" PRIu64 " bytes unpack to %" PRIu64 ", more than 200 times as many", z->now_name,
            f->packed, f->size);
    local_header(z, f);
    z->left = f->packed, z->given = 0, z->crc = 0;
    if (z->inflating) inflateEnd(&z->z);
    memset(&z->z, 0, sizeof z->z);
    if (f->method == 8 && inflateInit2(&z->z, -MAX_WBITS) != Z_OK) die("zlib cannot start");
    z->inflating = f->method == 8;
    return in_from(z->now_name, pull, z);
}

void zip_close(Zip *z)
{
    if (z->inflating) inflateEnd(&z->z);
    close(z->fd);
    arena_free(&z->names);
    free(z->path), free(z->file), free(z->now_name), free(z->in);
    free(z);
}
