#include "csv.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "text/utf8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

_Noreturn static void bad(const Csv *c, const char *why)
{
    die("%s: line %" PRIu64 ": %s", c->file, c->line + 1, why);
}

static void end_field(Csv *c)
{
    if (c->n == c->cap)
        c->end = xreallocarray(c->end, c->cap = c->cap ? size_mul(c->cap, 2) : 16, sizeof *c->end);
    c->end[c->n++] = c->data.n;
    c->at = CSV_START;
}

static void put_string(Csv *c, Buf *b, size_t i)
{
    size_t from = i ? c->end[i - 1] : 0, n = c->end[i] - from;
    const char *s = n ? c->data.s + from : "";
    if (utf8_valid(s, n) < n) {
        buf_clear(&c->fixed);
        c->replaced += utf8_repair(&c->fixed, s, n);
        s = c->fixed.s;
        n = c->fixed.n;
    }
    json_str_valid(b, s, n);
}

static void header(Csv *c)
{
    c->name_end = xreallocarray(NULL, c->n, sizeof *c->name_end);
    for (size_t i = 0; i < c->n; i++) {
        size_t from = c->name.n;
        put_string(c, &c->name, i);
        buf_char(&c->name, ':');
        c->name_end[i] = c->name.n;
        for (size_t k = 0, at = 0; k < i; at = c->name_end[k++])
            if (c->name_end[k] - at == c->name.n - from &&
                !memcmp(c->name.s + at, c->name.s + from, c->name.n - from))
                die("%s: line %" PRIu64 ": two fields are named %.*s", c->file, c->began + 1,
                    (int)(c->name.n - from - 1 < 200 ? c->name.n - from - 1 : 200),
                    c->name.s + from);
    }
    c->names = c->n;
}

static void end_record(Csv *c)
{
    end_field(c);
    bool empty = c->n == 1 && c->data.n == 0;
    if (!c->names) {
        if (!empty) header(c);
    } else if (!empty || c->names == 1) {
        if (c->n != c->names)
            die("%s: line %" PRIu64 ": %zu fields, but the first line names %zu", c->file,
                c->began + 1, c->n, c->names);
        buf_clear(&c->json);
        for (size_t i = 0; i < c->n; i++) {
            size_t from = i ? c->name_end[i - 1] : 0;
            buf_char(&c->json, i ? ',' : '{');
            buf_add(&c->json, c->name.s + from, c->name_end[i] - from);
            put_string(c, &c->json, i);
        }
        buf_char(&c->json, '}');
        c->stop = !c->row(c->arg, c->json.s, c->json.n);
    }
    c->n = 0;
    buf_clear(&c->data);
}

static void next_line(Csv *c)
{
    c->line++;
    c->began = c->line;
}

static void take(Csv *c, char x)
{
    if (c->at == CSV_QUOTED) {
        if (x == '"') c->at = CSV_QUOTE;
        else buf_char(&c->data, x);
        c->line += x == '\n';
        return;
    }
    if (c->at == CSV_CR && x != '\n') bad(c, "a CR that no LF follows");
    if (x == '"' && c->at == CSV_START) {
        c->at = CSV_QUOTED;
    } else if (x == '"' && c->at == CSV_QUOTE) {
        buf_char(&c->data, '"');
        c->at = CSV_QUOTED;
    } else if (x == c->sep) {
        end_field(c);
    } else if (x == '\r') {
        c->at = CSV_CR;
    } else if (x == '\n') {
        end_record(c);
        next_line(c);
    } else if (x == '"') {
        bad(c, "a quote within a field that is not in quotes");
    } else if (c->at == CSV_QUOTE) {
        bad(c, "something follows the closing quote of a field");
    } else {
        buf_char(&c->data, x);
        c->at = CSV_PLAIN;
    }
}

static const char MARK[] = "\xEF\xBB\xBF";

/* How many bytes of s belong to the mark; what only began like one is text. */
static size_t skip_mark(Csv *c, const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && c->mark < 3 && s[i] == MARK[c->mark]) i++, c->mark++;
    if (i == n || c->mark == 3) return i;
    int began = c->mark;
    c->mark = 3;
    csv_feed(c, MARK, (size_t)began);
    return i;
}

bool csv_feed(Csv *c, const char *s, size_t n)
{
    if (c->mark < 3) {
        size_t k = skip_mark(c, s, n);
        s += k, n -= k;
    }
    for (size_t i = 0; i < n && !c->stop; i++) {
        if (c->at == CSV_PLAIN || c->at == CSV_QUOTED) {        /* the bytes that mean nothing */
            size_t k = i;
            while (k < n && s[k] != '"' && s[k] != '\n' &&
                   (c->at == CSV_QUOTED || (s[k] != c->sep && s[k] != '\r')))
                k++;
            buf_add(&c->data, s + i, k - i);
            i = k;
            if (i == n) break;
        }
        take(c, s[i]);
    }
    return !c->stop;
}

void csv_end(Csv *c)
{
    if (c->mark && c->mark < 3) {               /* a beginning of it is all there is */
        int began = c->mark;
        c->mark = 3;
        csv_feed(c, MARK, (size_t)began);
    }
    if (c->stop) return;
    if (c->at == CSV_QUOTED)
        die("%s: ends inside a field whose quote opens in the record of line %" PRIu64, c->file,
            c->began + 1);
    if (c->n || c->data.n || c->at != CSV_START) end_record(c);
}

void csv_free(Csv *c)
{
    buf_free(&c->data);
    buf_free(&c->name);
    buf_free(&c->json);
    buf_free(&c->fixed);
    free(c->end);
    free(c->name_end);
}
