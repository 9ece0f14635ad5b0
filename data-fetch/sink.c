#include "sink.h"
#include "base/json.h"
#include <inttypes.h>
#include <string.h>

bool sink_full(const Sink *k) { return k->most && k->rows >= k->most; }

static bool has_from(const char *s, size_t n)
{
    Arena a = {0};
    const char *err;
    size_t at;
    if (!memmem(s, n, "\"_from\"", 7)) return false;
    const Json *j = json_parse(&a, s, n, &err, &at);
    bool has = !j || j->kind != J_OBJ || json_get(j, "_from");
    arena_free(&a);
    return has;
}

static void add_from(Sink *k, const char *set, uint64_t index, const char **s, size_t *n)
{
    size_t end = *n;
    while (end && strchr(" \t\r\n", (*s)[end - 1])) end--;
    if (!end || (*s)[end - 1] != '}' || has_from(*s, *n)) return;      /* an array, as it may be */
    size_t last = end - 1;
    while (last && strchr(" \t\r\n", (*s)[last - 1])) last--;
    buf_clear(&k->row);
    buf_add(&k->row, *s, last);
    buf_str(&k->row, (*s)[last - 1] == '{' ? "\"_from\":{\"set\":" : ",\"_from\":{\"set\":");
    json_str(&k->row, set, strlen(set));
    buf_printf(&k->row, ",\"row\":%" PRIu64 "}}", index);
    *s = k->row.s;
    *n = k->row.n;
}

bool sink_row(Sink *k, const char *set, uint64_t index, const char *s, size_t n)
{
    bool held = k->held && (double)(xxh3(s, n) >> 11) * 0x1p-53 < k->part;
    Out *to = held ? k->held : k->out;
    if (k->provenance) add_from(k, set, index, &s, &n);
    out_write(to, s, n);
    out_write(to, "\n", 1);
    k->rows++;
    k->held_rows += held;
    k->bytes += n + 1;
    progress(&k->line, k->bytes);
    return !sink_full(k);
}
