#include "sink.h"
#include "base/json.h"
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

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

void sink_tell(const Sink *k, const char *state)
{
    Buf b = {0};
    double spent = k->began > 0 ? now_seconds() - k->began : 0;
    buf_printf(&b, "{\"state\":\"%s\",\"rows\":%" PRIu64 ",\"bytes\":%" PRIu64, state, k->rows,
               k->bytes);
    buf_printf(&b, ",\"rate\":%.0f}\n", spent > 0 ? (double)k->bytes / spent : 0);
    (void)!write(STDERR_FILENO, b.s, b.n);
    buf_free(&b);
}

static void tell_now_and_then(Sink *k)
{
    double t = now_seconds();
    if (k->began == 0) k->began = k->said = t;
    if (t - k->said < 1) return;
    k->said = t;
    sink_tell(k, "reading");
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
    if (k->json) tell_now_and_then(k);
    else progress(&k->line, k->bytes);
    return !sink_full(k);
}
