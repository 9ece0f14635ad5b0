/* fetch.h -- a file of the network into a cache, once, resumed where it broke off.
 *
 * CACHE/files/SHA256/NAME holds what came, CACHE/url/KEY which of them a URL is (KEY: the URL's
 * hash), CACHE/part/KEY.* what is on its way. A file gets its name after its length and hash were
 * checked; a kill at any time leaves a part, and the next call goes on with it if the server says
 * that it is still the same file. Another process that wants the same file waits.
 * Dies, with the URL, when the file cannot be had. */
#ifndef DATA_FETCH_H
#define DATA_FETCH_H
#include <stdbool.h>
#include <stdint.h>

typedef struct Fetch {
    const char *cache;          /* a folder, made if need be */
    const char *token;          /* NULL, or sent to the URL's own host and port alone */
    bool offline;               /* only what the cache has */
    int retries;                /* failed tries, one after the other without a byte, that are borne */
    double wait;                /* seconds before the second try; doubled each time, to 60 */
    int stall;                  /* give up a try after so many seconds below 1000 B/s */
} Fetch;

/* Its path, malloced. size -1, sha256 NULL: not known. */
char *fetch_file(const Fetch *f, const char *url, int64_t size, const char *sha256);

#endif
