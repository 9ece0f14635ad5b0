/* fetch.h -- files of the network into a cache, several at once, each resumed where it broke off.
 *
 * CACHE/files/SHA256/NAME holds what came, CACHE/url/KEY which of them a URL is (KEY: the URL's
 * hash), CACHE/part/KEY.* what is on its way. A file gets its name after its length and hash were
 * checked; a kill at any time leaves the parts, and the next call goes on with them if the server
 * says that it is still the same file. Another process that wants the same file waits.
 *
 * A thread of ours fetches, in the order of the list, while the caller reads the files that are
 * there. One that cannot be had ends the program at the next fetch_wait(), for a set with a hole in
 * it is of no use. Memory: 256 KB for each file on its way, whatever the files' sizes. */
#ifndef DATA_FETCH_H
#define DATA_FETCH_H
#include <stdbool.h>
#include <stdint.h>

typedef struct Fetch {
    const char *cache;          /* a folder, made if need be */
    int jobs;                   /* so many files at once */
    bool offline;               /* only what the cache has */
    bool json;                  /* progress as JSON Lines on stderr, see data-fetch(1) */
    int retries;                /* failed tries, one after the other that came no further, that are borne */
    double wait;                /* seconds before the second try; doubled each time, to 60 */
    int stall;                  /* give up a try after so many seconds below 1000 B/s */
} Fetch;

typedef struct FetchFile {
    const char *url;
    int64_t size;               /* -1: not known */
    const char *sha256;         /* NULL: not known */
    const char *token;          /* NULL, or sent to the URL's own host and port alone */
} FetchFile;

typedef struct Fetcher Fetcher;

/* Begins; what the files' strings are in must live until fetch_end(). One at a time. */
Fetcher *fetch_begin(const Fetch *how, const FetchFile *file, int n);
/* The path of the i-th file, once it is here; the fetcher's. Dies, naming the URL, if a file cannot
 * be had. */
const char *fetch_wait(Fetcher *f, int i);
void fetch_end(Fetcher *f);     /* stops what is on its way, and keeps the parts */

#endif
