/* shards.c -- see shards.h. All writers stay open until the end, so that every temporary is removed
 * if the program dies, and no name is given before the last byte of the last shard was written. */
#include "shards.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MOST = 99999 };          /* five digits: names sort as numbers do */

struct Shards {
    char *to;
    RowHead head;
    uint64_t each, rows;        /* rows: in the last shard */
    bool single, force;
    RowWriter **writer;
    size_t n, cap;
};

bool shards_single(const char *to)
{
    size_t n = strlen(to);
    return n >= 5 && strcmp(to + n - 5, ".rows") == 0;
}

static char *name_in(const char *to, uint64_t i)
{
    return shards_single(to) ? xstrdup(to) : xasprintf("%s-%05llu.rows", to, (unsigned long long)i);
}

static char *name_of(const Shards *s, uint64_t i) { return name_in(s->to, i); }

char *shards_names(const char *to, uint64_t n)
{
    char *first = name_in(to, 0), *last = name_in(to, n - 1), *both;
    if (n < 2) both = xstrdup(first);
    else both = xasprintf("%s to %s", first, last);
    free(first);
    free(last);
    return both;
}

Shards *shards_new(const char *to, const RowHead *h, uint64_t each, bool force)
{
    Shards *s = xcalloc(1, sizeof *s);
    s->to = xstrdup(to);
    s->head = *h;
    s->single = shards_single(to);
    s->each = s->single ? UINT64_MAX : each;
    s->force = force;
    struct rlimit lim;          /* one descriptor for each shard */
    if (!s->single && getrlimit(RLIMIT_NOFILE, &lim) == 0) {
        lim.rlim_cur = lim.rlim_max;
        setrlimit(RLIMIT_NOFILE, &lim);
    }
    return s;
}

static void shard_begin(Shards *s)
{
    if (s->n > MOST) die("%s: more than %d shards; raise --shard-rows", s->to, MOST + 1);
    if (s->n > 0) rows_seal(s->writer[s->n - 1]);
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 16;
        s->writer = xreallocarray(s->writer, s->cap, sizeof *s->writer);
    }
    char *name = name_of(s, s->n);
    s->writer[s->n++] = rows_create(name, &s->head);
    s->rows = 0;
    free(name);
}

void shards_row(Shards *s, const uint32_t *id, const uint8_t *mask)
{
    if (s->n == 0 || s->rows == s->each) shard_begin(s);
    rows_write(s->writer[s->n - 1], id, mask);
    s->rows++;
}

/* "NAME-ddddd.rows", five digits or more: the number, else UINT64_MAX. */
static uint64_t number_of(const char *file, const char *base)
{
    size_t n = strlen(base);
    if (strncmp(file, base, n) != 0 || file[n] != '-') return UINT64_MAX;
    const char *digits = file + n + 1;
    size_t k = strspn(digits, "0123456789");
    if (k < 5 || k > 18 || strcmp(digits + k, ".rows") != 0) return UINT64_MAX;
    return strtoull(digits, NULL, 10);
}

/* Shards of an earlier run from number `from` on: how many there are; removed if `remove_them`. */
static uint64_t stale(const Shards *s, uint64_t from, bool remove_them)
{
    const char *slash = strrchr(s->to, '/'), *base = slash ? slash + 1 : s->to;
    char *folder = xasprintf("%.*s.", slash ? (int)(slash - s->to + 1) : 0, s->to);
    DIR *d = opendir(folder);
    if (!d) die("%s: cannot read the folder:", folder);
    uint64_t found = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL; ) {
        uint64_t i = number_of(e->d_name, base);
        if (i == UINT64_MAX || i < from) continue;
        found++;
        if (!remove_them) continue;
        char *path = xasprintf("%.*s%s", slash ? (int)(slash - s->to + 1) : 0, s->to, e->d_name);
        if (unlink(path) < 0) die("%s: cannot remove:", path);
        free(path);
    }
    closedir(d);
    free(folder);
    return found;
}

static void shards_free(Shards *s)
{
    free(s->writer);
    free(s->to);
    free(s);
}

uint64_t shards_finish(Shards *s)
{
    uint64_t n = s->n, old = s->single ? 0 : stale(s, n, false);
    if (n > 0) rows_seal(s->writer[n - 1]);
    if (old > 0 && !s->force)
        die("%s: %llu shards of an earlier run stand beyond the %llu of this one and would be read "
            "with them; remove them, or give --force", s->to, (unsigned long long)old,
            (unsigned long long)n);
    if (!s->single) {           /* from here on the old set is not whole */
        char *first = name_of(s, 0);
        if (unlink(first) < 0 && errno != ENOENT) die("%s: cannot remove:", first);
        free(first);
        if (old > 0) stale(s, n, true);
    }
    while (s->n > 0) rows_close(s->writer[--s->n]);
    shards_free(s);
    return n;
}

void shards_drop(Shards *s)
{
    while (s->n > 0) rows_discard(s->writer[--s->n]);
    shards_free(s);
}
