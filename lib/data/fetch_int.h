/* fetch_int.h -- what the files of the downloader share: one file on its way.
 *
 * fetch.c runs all of them (a thread, libcurl's multi interface), fetch_get.c is a try over HTTP,
 * fetch_cache.c what lies on the disk. */
#ifndef DATA_FETCH_INT_H
#define DATA_FETCH_INT_H
#include "data/fetch.h"
#include "data/sha256.h"

typedef enum {
    GET_NEW,                    /* not begun */
    GET_CHECK,                  /* what the cache has of that URL is being hashed */
    GET_LOCK,                   /* to be locked; another process may hold it */
    GET_PART,                   /* what there is of it is being hashed */
    GET_READY,                  /* the next try may begin, at `when` */
    GET_RUN,                    /* being received */
    GET_DONE, GET_FAILED
} GetState;

/* Headers are those of the last answer, but for sha256: the first that tells it. */
typedef struct Get {
    const Fetch *how;
    const FetchFile *file;
    GetState state;
    char key[65], *part, *meta;                 /* KEY and the names it makes; NULL: not yet */
    char *path;                                 /* where it is at last */
    int64_t size;               /* stated by the manifest, the hub or the server; -1: not yet */
    char sha256[65], etag[200];                 /* "": not known */
    bool locked, told;          /* told: that another process has it */
    int lock, fd, look;         /* the lock, the part, the cached file being hashed; -1 */
    Sha256 sha;                                 /* of the first `at` bytes of the part */
    int64_t at, asked;                          /* asked: where this try wanted to begin */
    int failed, wrong;                          /* tries that came no further; files that were not it */
    int64_t best;                               /* the furthest that any try came */
    double when;
    /* this try */
    void *curl, *headers;       /* CURL *, curl_slist * */
    char message[256];          /* CURL_ERROR_SIZE */
    long status;
    int64_t length, from, total;                /* Content-Length, Content-Range; -1: absent */
    double after;                               /* Retry-After or RateLimit; -1: absent */
    bool coded, chunked, begun, restart, fatal;
    char new_etag[200], why[300];
    double *claimed;            /* bytes that all files on their way still need of the disk */
    double rate, rate_t; int64_t rate_at;       /* B/s of late; when and where that was taken */
} Get;

/* ---- fetch_cache.c. Local failures (a full disk, a folder that cannot be made) die. */
const char *fetch_name(const char *url);        /* what a file is called in the cache */
void get_init(Get *g, const Fetch *how, const FetchFile *file);
void get_free(Get *g);
/* Is there a cached file? Then it is open in g->look, and must be hashed. */
bool cache_look(Get *g);
/* A piece of it. 1: it is what it was, g->path is set; 0: more to do; -1: it is not. */
int cache_hash(Get *g);
bool cache_lock(Get *g);        /* false: another process has it */
void cache_unlock(Get *g);
void part_open(Get *g);         /* made if need be; what there is of it is kept if its meta fits */
bool part_hash(Get *g);         /* a piece of it; false: all is hashed */
void part_reset(Get *g);        /* begin anew: nothing is known but what the caller said */
void part_empty(Get *g);        /* only its bytes go */
void part_meta(const Get *g);
void part_room(const Get *g);   /* dies if the disk has not enough */
void part_put(Get *g, const char *p, size_t n);
bool part_finish(Get *g);       /* is it what was promised? Then it gets its name; else g->why */

/* ---- fetch_get.c */
void get_start(Get *g);         /* makes g->curl, ready to run */
/* The transfer is over, with libcurl's code. true: the body is complete, as far as the connection
 * tells; else g->why, g->fatal, g->restart. */
bool get_stop(Get *g, int code);

#endif
