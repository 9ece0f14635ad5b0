/* What a server says in its headers: taken as it is meant, or as not said. */
#include "data/fetch_get.c"
#include "fuzz.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
#ifdef HAVE_CURL
    Get g = {0};
    new_answer(&g);
    for (size_t i = 0, k; i < n; i = k) {
        for (k = i; k < n && data[k] != '\n'; k++) {}
        k += k < n;
        if (on_header((char *)(uintptr_t)data + i, 1, k - i, &g) != k - i) abort();
        if (g.length < -1 || g.from < -1 || g.total < -1 || !(g.after >= -1 && g.after <= 601)) abort();
        size_t e = strlen(g.new_etag), s = strlen(g.sha256);
        if (e && (e < 2 || g.new_etag[0] != '"' || g.new_etag[e - 1] != '"' || strpbrk(g.new_etag, "\r\n")))
            abort();
        if (s && (s != 64 || strspn(g.sha256, "0123456789abcdef") != 64)) abort();
    }
#else
    (void)data, (void)n;
#endif
    return 0;
}

void fuzz_seeds(FuzzSeed put)
{
    static const char *const s[] = {
        "HTTP/1.1 206 Partial Content\r\nETag: \"abc\"\r\nContent-Length: 12\r\n"
        "Content-Range: bytes 3-14/15\r\n\r\n",
        "HTTP/2 429\r\nretry-after: 7\r\nRateLimit: \"resolvers\";r=0;t=55\r\nContent-Encoding: gzip\r\n",
        "HTTP/1.1 503 Later\r\nRetry-After: Fri, 31 Dec 1999 23:59:59 GMT\r\nRetry-After: Fri, 31 Dec 2099 23:59:59 GMT\r\n",
        "HTTP/1.1 302 Found\r\nX-Linked-Etag: \"0123456789abcdef0123456789abcdef0123456789abcdef"
        "0123456789abcdef\"\r\nTransfer-Encoding: chunked\r\nETag: W/\"weak\"\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\nContent-Range: bytes */9\r\n" };
    for (size_t i = 0; i < sizeof s / sizeof *s; i++) put(s[i], strlen(s[i]));
}
