/* fetch_get.c -- one try to get a file over HTTP: the request, and what the server says. */
#ifdef HAVE_CURL
#include "base/buf.h"
#include "base/err.h"
#include "data/fetch_int.h"
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* ---- headers */

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

/* Seconds, or a date. */
static double retry_after(const char *s)
{
    time_t date, now = time(NULL);
    if (*s >= '0' && *s <= '9') return seconds(s);
    if ((date = curl_getdate(s, NULL)) < 0) return -1;
    return date < now ? 0 : date - now > 600 ? 600 : (double)(date - now);
}

/* bytes FROM-TO/TOTAL */
static void content_range(Get *g, const char *s)
{
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
    for (size_t i = 1; i < n - 1; i++)                  /* it goes into a header of ours */
        if (s[i] == '"' || (unsigned char)s[i] <= ' ' || s[i] == 127) return;
    memcpy(to, s, n + 1);
}

static void linked_sha256(Get *g, const char *v)
{
    if (strlen(v) != 66 || g->sha256[0] || strspn(v + 1, "0123456789abcdef") != 64) return;
    memcpy(g->sha256, v + 1, 64);
    g->sha256[64] = 0;
}

static void new_answer(Get *g)
{
    g->length = g->from = g->total = -1;
    g->after = -1;
    g->coded = g->chunked = false;
    g->new_etag[0] = 0;
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
        new_answer(g);
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
    else if (starts(h, "retry-after:")) g->after = retry_after(v);
    else if (starts(h, "ratelimit:") && strstr(v, "t=") && g->after < 0)
        g->after = seconds(strstr(v, "t=") + 2) + 1;
    else if (starts(h, "x-linked-etag:")) linked_sha256(g, v);
    return n;
}

/* ---- the body */

static bool fail(Get *g, bool restart, const char *why)
{
    snprintf(g->why, sizeof g->why, "%s", why);
    g->restart |= restart;
    return false;
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
        part_empty(g);
        int64_t known = g->size;
        if (g->length >= 0 && known >= 0 && known != g->length) {
            if (g->asked == 0) return fail(g, true, "its length is not the stated one");
            g->size = g->length;                /* another file than the part was of */
        }
        if (known < 0) g->size = g->length;
    }
    strcpy(g->etag, g->new_etag);
    part_room(g);
    part_meta(g);
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
    part_put(g, p, n);
    return n;
}

/* ---- a try */

static struct curl_slist *request_headers(const Get *g)
{
    struct curl_slist *h = curl_slist_append(NULL, "Accept-Encoding: identity");
    if (g->asked > 0 && g->etag[0]) {
        char line[256];
        snprintf(line, sizeof line, "If-Range: %s", g->etag);
        h = curl_slist_append(h, line);
    }
    return h;
}

static void set_up(Get *g, CURL *c)
{
    curl_easy_setopt(c, CURLOPT_URL, g->file->url);
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(c, CURLOPT_MAXREDIRS, 10L);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "https,http");
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR,
                     starts(g->file->url, "https:") ? "https" : "https,http");
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, 15L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1000L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)g->how->stall);
    curl_easy_setopt(c, CURLOPT_BUFFERSIZE, 256L << 10);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "pipegpt");
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, g);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, g);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, g->message);
    curl_easy_setopt(c, CURLOPT_PRIVATE, g);
    if (g->file->token) {
        curl_easy_setopt(c, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
        curl_easy_setopt(c, CURLOPT_XOAUTH2_BEARER, g->file->token);
    }
    if (g->asked > 0) {
        char range[32];
        snprintf(range, sizeof range, "%lld-", (long long)g->asked);
        curl_easy_setopt(c, CURLOPT_RANGE, range);
    }
    g->headers = request_headers(g);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, g->headers);
}

void get_start(Get *g)
{
    _Static_assert(sizeof g->message == CURL_ERROR_SIZE, "libcurl's own size");
    if (!g->etag[0] && !g->sha256[0]) part_empty(g);    /* nothing would tell two files apart */
    g->curl = curl_easy_init();
    if (!g->curl) die("libcurl does not start");
    g->asked = g->at;
    g->status = 0;
    new_answer(g);
    g->begun = g->restart = g->fatal = false;
    g->why[0] = g->message[0] = 0;
    set_up(g, g->curl);
}

/* Does another try make sense after this answer? Of a redirect's target a 403 means that its
 * signature has expired: back to the URL. */
static bool passing(const Get *g, long redirects)
{
    long s = g->status;
    return s == 408 || s == 425 || s == 429 || s == 416 || (s >= 500 && s <= 504) ||
           (s == 403 && redirects > 0);
}

static bool judge(Get *g, CURLcode rc, long redirects)
{
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
    return fail(g, false, g->message[0] ? g->message : curl_easy_strerror(rc));
}

bool get_stop(Get *g, int code)
{
    long redirects = 0;
    curl_easy_getinfo(g->curl, CURLINFO_RESPONSE_CODE, &g->status);
    curl_easy_getinfo(g->curl, CURLINFO_REDIRECT_COUNT, &redirects);
    bool whole = judge(g, (CURLcode)code, redirects);
    curl_slist_free_all(g->headers);
    curl_easy_cleanup(g->curl);
    g->curl = g->headers = NULL;
    return whole;
}
#else
typedef int NoCurl;
#endif
