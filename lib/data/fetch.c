#include "fetch.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/progress.h"
#include "sha256.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#ifdef HAVE_CURL
#include <curl/curl.h>
#endif

/* One file on its way. Headers are those of the last answer, but for linked: the first that has it. */
typedef struct Get {
    const Fetch *how;
    const char *url;
    char key[65], *part, *meta;
    int64_t size;               /* stated by the manifest, the hub or the server; -1: not yet */
    char sha256[65], etag[200];                 /* "": not known */
    void *curl;                 /* CURL * */
    int fd;
    Sha256 sha;                                 /* of the first `at` bytes of the part */
    int64_t at, asked;                          /* asked: where this try wanted to begin */
    long status;
    int64_t length, from, total;                /* Content-Length, Content-Range; -1: absent */
    double after;                               /* Retry-After or RateLimit; -1: absent */
    bool coded, chunked, ranged, begun, restart, fatal;
    char new_etag[200], why[300];
    Progress line;
} Get;

static bool hash_file(const char *path, char hex[65])
{
    static char buf[1 << 16];
    Sha256 h;
    ssize_t n;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    sha256_init(&h);
    while ((n = read(fd, buf, sizeof buf)) > 0) sha256_add(&h, buf, (size_t)n);
    close(fd);
    sha256_end(&h, hex);
    return n == 0;
}

static bool hex64(const char *s) { return strlen(s) == 64 && strspn(s, "0123456789abcdef") == 64; }

static const char *base_name(const char *url)
{
    const char *slash = strrchr(url, '/');
    return slash && slash[1] && slash[1] != '.' && strcspn(slash, "?#%") == strlen(slash)
               ? slash + 1 : "file";
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

/* The cached file of a URL, hashed again; NULL if there is none or it is not what it was. */
static char *cached(const Get *g, int64_t size, const char *sha256)
{
    Arena a = {0};
    const Json *j;
    char sum[65] = "", now[65], *path = NULL;
    char *url = xasprintf("%s/url/%s", g->how->cache, g->key);
    if (small_json(&a, url, &j)) field(j, "sha256", sum, sizeof sum);
    arena_free(&a);
    free(url);
    if (!hex64(sum) || (sha256 && strcmp(sum, sha256))) return NULL;
    path = xasprintf("%s/files/%s/%s", g->how->cache, sum, base_name(g->url));
    struct stat st;
    if (!hash_file(path, now)) return free(path), NULL;
    if (strcmp(sum, now) || stat(path, &st) < 0 || (size >= 0 && st.st_size != size)) {
        warn("%s: not what was fetched; it is fetched again", path);
        unlink(path);
        return free(path), NULL;
    }
    return path;
}

#ifdef HAVE_CURL
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

/* ---- what the server says */

static bool starts(const char *s, const char *word) { return !strncasecmp(s, word, strlen(word)); }

static int64_t digits(const char *s, const char **end)
{
    int64_t x = 0;
    if (*s < '0' || *s > '9') return -1;
    for (; *s >= '0' && *s <= '9'; s++) {
        if (x > (INT64_MAX - 9) / 10) return -1;
        x = 10 * x + (*s - '0');
    }
    if (end) *end = s;
    return x;
}

static double seconds(const char *s)
{
    int64_t x = digits(s, NULL);
    return x < 0 ? -1 : x > 600 ? 600 : (double)x;
}

/* bytes FROM-TO/TOTAL */
static void content_range(Get *g, const char *s)
{
    g->ranged = true;
    if (!starts(s, "bytes ")) return;
    int64_t from = digits(s + 6, &s), total;
    if (from < 0 || *s != '-' || digits(s + 1, &s) < from || *s != '/') return;
    if ((total = digits(s + 1, NULL)) < 0) return;
    g->from = from, g->total = total;
}

static void strong_etag(char to[200], const char *s)
{
    size_t n = strlen(s);
    *to = 0;
    if (n < 2 || n >= 200 || *s != '"' || s[n - 1] != '"') return;      /* weak ones are no proof */
    memcpy(to, s, n + 1);
}

static size_t on_header(char *p, size_t one, size_t n, void *arg)
{
    Get *g = arg;
    char h[512];
    n *= one;
    size_t k = n;
    while (k && (p[k - 1] == '\n' || p[k - 1] == '\r' || p[k - 1] == ' ')) k--;
    if (k >= sizeof h) return n;                        /* none of ours is so long */
    memcpy(h, p, k);
    h[k] = 0;
    if (starts(h, "HTTP/")) {
        g->length = g->from = g->total = -1;
        g->after = -1;
        g->coded = g->chunked = g->ranged = false;
        g->new_etag[0] = 0;
        return n;
    }
    char *v = strchr(h, ':');
    if (!v || strlen(h) != k) return n;
    for (v++; *v == ' ' || *v == '\t'; ) v++;
    if (starts(h, "content-length:")) g->length = digits(v, NULL);
    else if (starts(h, "content-range:")) content_range(g, v);
    else if (starts(h, "content-encoding:")) g->coded = strcasecmp(v, "identity") != 0;
    else if (starts(h, "transfer-encoding:")) g->chunked = true;
    else if (starts(h, "etag:")) strong_etag(g->new_etag, v);
    else if (starts(h, "retry-after:")) g->after = seconds(v);
    else if (starts(h, "ratelimit:") && strstr(v, "t=") && g->after < 0)
        g->after = seconds(strstr(v, "t=") + 2) + 1;
    else if (starts(h, "x-linked-etag:") && strlen(v) == 66 && !g->sha256[0]) {
        v[65] = 0;
        if (hex64(v + 1)) strcpy(g->sha256, v + 1);
    }
    return n;
}

static bool fail(Get *g, bool restart, const char *why)
{
    snprintf(g->why, sizeof g->why, "%s", why);
    g->restart |= restart;
    return false;
}

static void from_start(Get *g)
{
    if (ftruncate(g->fd, 0) < 0 || lseek(g->fd, 0, SEEK_SET) < 0) die("%s:", g->part);
    g->at = 0;
    sha256_init(&g->sha);
}

static void write_meta(const Get *g)
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

static void check_room(const Get *g)
{
    struct statvfs v;
    if (g->size < 0 || fstatvfs(g->fd, &v) < 0) return;
    double room = (double)v.f_bavail * (double)v.f_frsize, need = (double)(g->size - g->at);
    if (need > room) die("%s: %.1f GB are needed, %.1f GB are free", g->part, need / 1e9, room / 1e9);
}

/* The first bytes of the answer: is it what was asked for? */
static bool begin(Get *g)
{
    g->begun = true;
    if (g->coded) return fail(g, false, "the server sends it coded, though that was not wanted");
    if (g->status == 206) {
        if (g->from != g->asked || (g->size >= 0 && g->total != g->size))
            return fail(g, true, "Content-Range is not what was asked for");
        if (g->etag[0] && strcmp(g->etag, g->new_etag)) return fail(g, true, "ETag has changed");
        if (g->size < 0) g->size = g->total;
    } else {
        from_start(g);
        int64_t known = g->size;
        if (g->length >= 0 && known >= 0 && known != g->length) {
            if (g->asked == 0) return fail(g, true, "its length is not the stated one");
            g->size = g->length;                /* another file than the part was of */
        }
        if (known < 0) g->size = g->length;
    }
    strcpy(g->etag, g->new_etag);
    check_room(g);
    write_meta(g);
    return true;
}

static bool put(Get *g, const char *p, size_t n)
{
    for (size_t k = 0; k < n; ) {
        ssize_t w = write(g->fd, p + k, n - k);
        if (w < 0 && errno == EINTR) continue;
        if (w < 0) die("%s:", g->part);
        k += (size_t)w;
    }
    sha256_add(&g->sha, p, n);
    g->at += (int64_t)n;
    return true;
}

static size_t on_body(char *p, size_t one, size_t n, void *arg)
{
    Get *g = arg;
    n *= one;
    if (g->status == 0) curl_easy_getinfo(g->curl, CURLINFO_RESPONSE_CODE, &g->status);
    if (g->status != 200 && g->status != 206) return fail(g, false, ""), 0;     /* its own words */
    if (!g->begun && !begin(g)) return 0;
    if (g->size >= 0 && (int64_t)n > g->size - g->at)
        return fail(g, true, "it is longer than stated"), 0;
    put(g, p, n);
    g->line.total = g->size > 0 ? (uint64_t)g->size : 0;
    progress(&g->line, (uint64_t)g->at);
    return n;
}

/* ---- tries */

static void set_up(Get *g, CURL *c, struct curl_slist **headers)
{
    Buf b = {0};
    curl_easy_setopt(c, CURLOPT_URL, g->url);
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(c, CURLOPT_MAXREDIRS, 10L);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "https,http");
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR,
                     starts(g->url, "https:") ? "https" : "https,http");
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, 15L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1000L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)g->how->stall);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "pipegpt");
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, g);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, g);
    if (g->how->token) {
        curl_easy_setopt(c, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
        curl_easy_setopt(c, CURLOPT_XOAUTH2_BEARER, g->how->token);
    }
    *headers = curl_slist_append(NULL, "Accept-Encoding: identity");
    if (g->asked > 0) {
        buf_printf(&b, "%lld-", (long long)g->asked);
        curl_easy_setopt(c, CURLOPT_RANGE, b.s);
        buf_clear(&b);
        buf_printf(&b, "If-Range: %s", g->etag);
        if (g->etag[0]) *headers = curl_slist_append(*headers, b.s);
    }
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, *headers);
    buf_free(&b);
}

/* Does another try make sense after this answer? Of a redirect's target a 403 means that its
 * signature has expired: back to the URL. */
static bool passing(const Get *g, long redirects)
{
    long s = g->status;
    return s == 408 || s == 425 || s == 429 || s == 416 || (s >= 500 && s <= 504) ||
           (s == 403 && redirects > 0);
}

/* One try. true: the body is complete, as far as the connection tells. */
static bool attempt(Get *g)
{
    struct curl_slist *headers;
    char message[CURL_ERROR_SIZE] = "";
    long redirects = 0;
    CURL *c = curl_easy_init();
    if (!c) die("libcurl does not start");
    if (!g->etag[0] && !g->sha256[0]) from_start(g);    /* nothing would tell two files apart */
    g->curl = c, g->asked = g->at, g->status = 0, g->after = g->length = g->from = g->total = -1;
    g->begun = g->restart = g->fatal = g->chunked = g->coded = false;
    g->why[0] = 0;
    set_up(g, c, &headers);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, message);
    CURLcode rc = curl_easy_perform(c);
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &g->status);
    curl_easy_getinfo(c, CURLINFO_REDIRECT_COUNT, &redirects);
    curl_slist_free_all(headers);
    curl_easy_cleanup(c);
    if (g->why[0]) return false;
    if (g->status >= 400) {
        snprintf(g->why, sizeof g->why, "HTTP status %ld", g->status);
        g->fatal = !passing(g, redirects);
        g->restart = g->status == 416;
        return false;
    }
    if (rc == CURLE_OK && (g->status == 200 || g->status == 206)) {
        if (!g->begun && !begin(g)) return false;               /* of no bytes */
        if (g->size >= 0 && g->at < g->size) return fail(g, false, "it ended early");
        if (g->size < 0 && !g->chunked && !g->sha256[0])
            return g->fatal = true, fail(g, true, "the server tells no length, so that a loss would "
                                                  "not be noticed");
        return true;
    }
    g->fatal = rc == CURLE_UNSUPPORTED_PROTOCOL || rc == CURLE_URL_MALFORMAT ||
               rc == CURLE_TOO_MANY_REDIRECTS || rc == CURLE_PEER_FAILED_VERIFICATION;
    return fail(g, false, message[0] ? message : curl_easy_strerror(rc));
}

static void pause_for(double s)
{
    struct timespec t = { (time_t)s, (long)((s - (double)(time_t)s) * 1e9) };
    while (nanosleep(&t, &t) < 0 && errno == EINTR) ;
}

/* Hash what is there of a part whose meta fits; else begin anew. */
static void take_up(Get *g, int64_t size, const char *sha256)
{
    static char buf[1 << 16];
    Arena a = {0};
    const Json *j;
    int64_t known = -1;
    ssize_t n;
    sha256_init(&g->sha);
    bool fits = small_json(&a, g->meta, &j);
    if (fits) {
        field(j, "etag", g->etag, sizeof g->etag);
        field(j, "sha256", g->sha256, sizeof g->sha256);
        if (strpbrk(g->etag, "\r\n")) fits = false;
        json_int(json_get(j, "size"), &known);
        fits = fits && (g->etag[0] || hex64(g->sha256)) && (!sha256 || !strcmp(g->sha256, sha256)) &&
               (size < 0 || known == size);
    }
    arena_free(&a);
    g->size = fits && known >= 0 ? known : size;
    if (!fits) {
        g->etag[0] = g->sha256[0] = 0;
        if (sha256) strcpy(g->sha256, sha256);
        from_start(g);
        return;
    }
    while ((n = read(g->fd, buf, sizeof buf)) > 0) {
        sha256_add(&g->sha, buf, (size_t)n);
        g->at += n;
    }
    if (n < 0 || (g->size >= 0 && g->at > g->size)) from_start(g);
    g->line.from = (uint64_t)g->at;
}

static void sync_rename(Get *g, const char *sum, char **path)
{
    char *dir = xasprintf("%s/files/%s", g->how->cache, sum);
    *path = xasprintf("%s/%s", dir, base_name(g->url));
    make_dirs(dir);
    if (fsync(g->fd) < 0 || rename(g->part, *path) < 0) die("%s:", *path);
    sync_dir_of(*path);
    char *url = xasprintf("%s/url/%s", g->how->cache, g->key);
    Out *o = out_open(url, 0);
    out_printf(o, "{\"sha256\":\"%s\",\"size\":%lld,\"url\":", sum, (long long)g->at);
    Buf b = {0};
    json_str(&b, g->url, strcspn(g->url, "?"));         /* no signatures */
    out_write(o, b.s, b.n);
    out_str(o, "}\n");
    out_close(o);
    unlink(g->meta);
    buf_free(&b);
    free(dir), free(url);
}

/* Is it what was promised? Then it gets its name. */
static bool finish(Get *g, int64_t size, char **path)
{
    char sum[65];
    Sha256 h = g->sha;
    sha256_end(&h, sum);
    if (size >= 0 && g->at != size) {
        snprintf(g->why, sizeof g->why, "%lld bytes, but %lld are wanted", (long long)g->at,
                 (long long)size);
        return false;
    }
    if (g->sha256[0] && strcmp(sum, g->sha256)) {
        snprintf(g->why, sizeof g->why, "its SHA-256 is %s, but %s is wanted", sum, g->sha256);
        return false;
    }
    sync_rename(g, sum, path);
    return true;
}

static char *download(Get *g, int64_t size, const char *sha256)
{
    char *path = NULL;
    int failed = 0, wrong = 0;
    take_up(g, size, sha256);
    for (;;) {
        int64_t before = g->at;
        bool whole = attempt(g);
        if (whole && finish(g, size, &path)) break;
        wrong += whole || g->restart;
        failed = !whole && g->at > before ? 1 : failed + 1;
        if (g->fatal || failed > g->how->retries || wrong > 3) die("%s: %s", g->url, g->why);
        if (whole || g->restart) {
            from_start(g);
            g->etag[0] = g->sha256[0] = 0;
            if (sha256) strcpy(g->sha256, sha256);
            g->size = size;
        }
        double w = g->how->wait * (double)(1 << (failed < 7 ? failed - 1 : 6));
        if (w > 60) w = 60;
        if (g->after > w) w = g->after;
        warn("%s: %s; again in %.0f s", g->url, g->why, w);
        pause_for(w);
    }
    progress_end(&g->line);
    return path;
}

static int lock(const Get *g)
{
    char *name = xasprintf("%s/part/%s.lock", g->how->cache, g->key);
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) die("%s:", name);
    if (fcntl(fd, F_OFD_SETLK, &whole) < 0) {
        note(1, "%s: another process fetches it; waiting", g->url);
        while (fcntl(fd, F_OFD_SETLKW, &whole) < 0)
            if (errno != EINTR) die("%s:", name);
    }
    free(name);
    return fd;
}

static char *locked(Get *g, int64_t size, const char *sha256)
{
    char *dir = xasprintf("%s/part", g->how->cache), *urls = xasprintf("%s/url", g->how->cache);
    make_dirs(dir), make_dirs(urls);
    g->part = xasprintf("%s/%s.part", dir, g->key);
    g->meta = xasprintf("%s/%s.meta", dir, g->key);
    free(dir), free(urls);
    int held = lock(g);
    char *path = cached(g, size, sha256);               /* by the one we waited for */
    if (!path) {
        g->fd = open(g->part, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (g->fd < 0) die("%s:", g->part);
        path = download(g, size, sha256);
        close(g->fd);
    }
    close(held);
    free(g->part), free(g->meta);
    return path;
}
#endif

char *fetch_file(const Fetch *f, const char *url, int64_t size, const char *sha256)
{
    Get g = { .how = f, .url = url, .line = { .what = base_name(url), .unit = "B" } };
    Sha256 h;
    sha256_init(&h);
    sha256_add(&h, url, strlen(url));
    sha256_end(&h, g.key);
    char *path = cached(&g, size, sha256);
    if (path) return path;
    if (f->offline) die("%s: not in the cache, and --offline was given", url);
#ifdef HAVE_CURL
    return locked(&g, size, sha256);
#else
    die("%s: this build has no libcurl, so that only local files and file:// URLs can be read", url);
#endif
}
