/* golden.h -- for tests that compare with stored numbers. The programs run in the top directory. */
#ifndef GOLDEN_H
#define GOLDEN_H
#include "base/io.h"
#include "base/json.h"
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* Our copy in tests/golden/data, else the one outside the tree, else NULL (then skip()). In static
 * memory. */
static inline const char *golden(const char *set, const char *name)
{
    static char *path[2];
    free(path[0]); free(path[1]);
    path[0] = xasprintf("tests/golden/data/%s", name);
    path[1] = xasprintf("../shared/golden/%s/%s", set, name);
    return !access(path[0], R_OK) ? path[0] : !access(path[1], R_OK) ? path[1] : NULL;
}

static inline const Json *golden_json(Arena *a, const char *path)
{
    Buf b = { 0 };
    const char *err;
    size_t at;
    read_file(path, &b, 1 << 28);
    const Json *j = json_parse(a, arena_strndup(a, b.s, b.n), b.n, &err, &at);
    if (!j) die("%s: %s, byte %zu", path, err, at);
    buf_free(&b);
    return j;
}

/* A member that must be a number. */
static inline double num(const Json *obj, const char *key)
{
    const Json *j = json_get(obj, key);
    if (!j || j->kind != J_NUM) die("golden: %s is not a number", key);
    return j->num;
}

static inline int near(double a, double b, double rel) { return fabs(a - b) <= rel * fabs(b); }
#endif
