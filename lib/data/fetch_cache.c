/* fetch_cache.c -- the cache on the disk: finished files, parts, locks. */
#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "data/fetch_int.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { PIECE = 1 << 20 };       /* hashed at a time, so that other files are not kept waiting */

static bool hex64(const char *s) { return strlen(s) == 64 && strspn(s, "0123456789abcdef") == 64; }

const char *fetch_name(const char *url)
{
    const char *slash = strrchr(url, '/');
    return slash && slash[1] && slash[1] != '.' && strcspn(slash, "?#%") == strlen(slash)
               ? slash + 1 : "file";
}

void get_init(Get *g, const Fetch *how, const FetchFile *file)
{
    Sha256 h;
    *g = (Get){ .how = how, .file = file, .size = -1, .lock = -1, .fd = -1, .look = -1 };
    sha256_init(&h);
    sha256_add(&h, file->url, strlen(file->url));
    sha256_end(&h, g->key);
}

static void shut(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

void get_free(Get *g)
{
    shut(&g->look), shut(&g->fd), shut(&g->lock);
    free(g->part), free(g->meta), free(g->path);
}

static bool small_json(Arena *a, const char *path, const Json **j)
{
    Buf b = {0};
    const char *err;
    size_t at;
    struct stat st;
    if (stat(path, &st) < 0 || st.st_size > 1 << 16) return false;
    read_file(path, &b, 1 << 16);
    const char *s = arena_strndup(a, b.s ? b.s : "", b.n);
    *j = json_parse(a, s, b.n, &err, &at);
    buf_free(&b);
    return *j != NULL;
}

static void field(const Json *j, const char *key, char *to, size_t room)
{
    const Json *s = json_get(j, key);
    if (s && s->kind == J_STR && s->len < room && strlen(s->s) == s->len) strcpy(to, s->s);
}

/* The next piece of a file into the hash. 1: that was all; 0: there is more; -1: it cannot be read. */
static int hash_piece(int fd, Sha256 *h, int64_t *at)
{
    static char buf[PIECE];                     /* one thread hashes */
    ssize_t n;
    do n = read(fd, buf, sizeof buf);
    while (n < 0 && errno == EINTR);
    if (n <= 0) return n ? -1 : 1;
    sha256_add(h, buf, (size_t)n);
    *at += n;
    return 0;
}

/* ---- finished files */

bool cache_look(Get *g)
{
    Arena a = {0};
    const Json *j;
    char sum[65] = "";
    char *url = xasprintf("%s/url/%s", g->how->cache, g->key);
    if (small_json(&a, url, &j)) field(j, "sha256", sum, sizeof sum);
    arena_free(&a);
    free(url);
    if (!hex64(sum) || (g->file->sha256 && strcmp(sum, g->file->sha256))) return false;
    free(g->path);
    g->path = xasprintf("%s/files/%s/%s", g->how->cache, sum, fetch_name(g->file->url));
    g->look = open(g->path, O_RDONLY | O_CLOEXEC);
    strcpy(g->sha256, sum);
    sha256_init(&g->sha);
    g->at = 0;
    if (g->look < 0) free(g->path), g->path = NULL;
    return g->look >= 0;
}

int cache_hash(Get *g)
{
    char now[65];
    int end = hash_piece(g->look, &g->sha, &g->at);
    if (!end) return 0;
    sha256_end(&g->sha, now);
    shut(&g->look);
    if (end > 0 && !strcmp(g->sha256, now) && (g->file->size < 0 || g->at == g->file->size))
        return g->size = g->at, 1;
    warn("%s: not what was fetched; it is fetched again", g->path);
    unlink(g->path);
    free(g->path), g->path = NULL;
    return -1;
}

static void make_dirs(const char *path)
{
    char *s = xstrdup(path);
    for (char *p = s + 1; ; p++) {
        char c = *p;
        if (c && c != '/') continue;
        *p = 0;
        if (mkdir(s, 0777) < 0 && errno != EEXIST) die("%s:", s);
        *p = c;
        if (!c) break;
    }
    free(s);
}

bool cache_lock(Get *g)
{
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    if (g->lock < 0) {
        char *dir = xasprintf("%s/part", g->how->cache), *urls = xasprintf("%s/url", g->how->cache);
        make_dirs(dir), make_dirs(urls);
        char *name = xasprintf("%s/%s.lock", dir, g->key);
        g->part = xasprintf("%s/%s.part", dir, g->key);
        g->meta = xasprintf("%s/%s.meta", dir, g->key);
        g->lock = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (g->lock < 0) die("%s:", name);
        free(name), free(dir), free(urls);
    }
    if (fcntl(g->lock, F_OFD_SETLK, &whole) == 0) return g->locked = true;
    if (errno != EAGAIN && errno != EACCES && errno != EINTR) die("%s/part/%s.lock:", g->how->cache, g->key);
    return false;
}

void cache_unlock(Get *g) { shut(&g->fd), shut(&g->lock); }

/* ---- parts */

void part_empty(Get *g)
{
    if (ftruncate(g->fd, 0) < 0 || lseek(g->fd, 0, SEEK_SET) < 0) die("%s:", g->part);
    g->at = 0;
    sha256_init(&g->sha);
}

void part_reset(Get *g)
{
    part_empty(g);
    g->etag[0] = g->sha256[0] = 0;
    if (g->file->sha256) strcpy(g->sha256, g->file->sha256);
    g->size = g->file->size;
}

void part_open(Get *g)
{
    Arena a = {0};
    const Json *j;
    const FetchFile *f = g->file;
    int64_t known = -1;
    g->fd = open(g->part, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (g->fd < 0) die("%s:", g->part);
    sha256_init(&g->sha);
    g->at = 0;
    g->etag[0] = g->sha256[0] = 0;
    bool fits = small_json(&a, g->meta, &j);
    if (fits) {
        field(j, "etag", g->etag, sizeof g->etag);
        field(j, "sha256", g->sha256, sizeof g->sha256);
        json_int(json_get(j, "size"), &known);
        fits = !strpbrk(g->etag, "\r\n") && (g->etag[0] || hex64(g->sha256)) &&
               (!f->sha256 || !strcmp(g->sha256, f->sha256)) && (f->size < 0 || known == f->size);
    }
    arena_free(&a);
    g->size = known >= 0 ? known : f->size;
    if (!fits) part_reset(g);
}

bool part_hash(Get *g)
{
    int end = hash_piece(g->fd, &g->sha, &g->at);
    if (!end) return true;
    if (end < 0 || (g->size >= 0 && g->at > g->size)) part_empty(g);
    return false;
}

void part_meta(const Get *g)
{
    Buf b = {0};
    buf_str(&b, "{\"etag\":");
    json_str(&b, g->etag, strlen(g->etag));
    buf_printf(&b, ",\"sha256\":\"%s\",\"size\":%lld}\n", g->sha256, (long long)g->size);
    Out *o = out_open(g->meta, 0);
    out_write(o, b.s, b.n);
    out_close(o);
    buf_free(&b);
}

void part_room(const Get *g)
{
    struct statvfs v;
    if (g->size < 0 || fstatvfs(g->fd, &v) < 0) return;
    double room = (double)v.f_bavail * (double)v.f_frsize;
    double need = (double)(g->size - g->at) + *g->claimed;
    if (need > room) die("%s: %.0f MB are needed, %.0f MB are free", g->part, ceil(need / 1e6), room / 1e6);
}

void part_put(Get *g, const char *p, size_t n)
{
    for (size_t k = 0; k < n; ) {
        ssize_t w = write(g->fd, p + k, n - k);
        if (w < 0 && errno == EINTR) continue;
        if (w < 0) die("%s:", g->part);
        k += (size_t)w;
    }
    sha256_add(&g->sha, p, n);
    g->at += (int64_t)n;
}

static void sync_rename(Get *g, const char *sum)
{
    const char *of = g->file->url;
    char *dir = xasprintf("%s/files/%s", g->how->cache, sum);
    g->path = xasprintf("%s/%s", dir, fetch_name(of));
    make_dirs(dir);
    if (fsync(g->fd) < 0 || rename(g->part, g->path) < 0) die("%s:", g->path);
    sync_dir_of(g->path);
    char *url = xasprintf("%s/url/%s", g->how->cache, g->key);
    Out *o = out_open(url, 0);
    out_printf(o, "{\"sha256\":\"%s\",\"size\":%lld,\"url\":", sum, (long long)g->at);
    Buf b = {0};
    json_str(&b, of, strcspn(of, "?"));                 /* no signatures */
    out_write(o, b.s, b.n);
    out_str(o, "}\n");
    out_close(o);
    unlink(g->meta);
    buf_free(&b);
    free(dir), free(url);
}

bool part_finish(Get *g)
{
    char sum[65];
    Sha256 h = g->sha;
    sha256_end(&h, sum);
    if (g->file->size >= 0 && g->at != g->file->size) {
        snprintf(g->why, sizeof g->why, "%lld bytes, but %lld are wanted", (long long)g->at,
                 (long long)g->file->size);
        return false;
    }
    if (g->sha256[0] && strcmp(sum, g->sha256)) {
        snprintf(g->why, sizeof g->why, "its SHA-256 is %s, but %s is wanted", sum, g->sha256);
        return false;
    }
    sync_rename(g, sum);
    return true;
}
