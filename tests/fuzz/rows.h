/* rows.h -- what the fuzz targets of readers that give out rows share: a reader is run on the whole
 * input and again on parts of it; each row must be an object, and the same must come of both. */
#ifndef ROWS_H
#define ROWS_H
#include "base/io.h"
#include "base/json.h"
#include "fuzz.h"
#include "guard.h"
#include <string.h>

typedef struct Feed {
    const char *s; size_t n, step;              /* fed in parts of so many bytes */
    int how;                                    /* the target's own */
    uint64_t rows, sum, extra;                  /* what came of it; extra: the target's own */
} Feed;

/* A row as it comes: one line, an object. */
static const Json *feed_row(Feed *f, Arena *a, const char *s, size_t n)
{
    const char *err;
    size_t at;
    const Json *j = json_parse(a, s, n, &err, &at);
    if (!j || j->kind != J_OBJ || memchr(s, '\n', n)) abort();
    uint64_t chain[2] = { f->sum, xxh3(s, n) };
    f->sum = xxh3(chain, sizeof chain);
    f->rows++;
    return j;
}

static void feed_twice(void (*read)(void *), const uint8_t *data, size_t n)
{
    if (!n) return;
    const char *s = (const char *)data + 1;
    Feed a = { .s = s, .n = n - 1, .step = n, .how = data[0] & 3 }, b = a;
    b.step = 1 + data[0] / 4;
    bool well = survives(read, &a);
    if (well != survives(read, &b) || a.rows != b.rows || a.sum != b.sum || a.extra != b.extra)
        abort();
}

#endif
