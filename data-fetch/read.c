#include "read.h"
#include "archive.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "data/array.h"
#include "data/csv.h"
#include "data/parquet.h"
#include "name.h"
#include "text/docs.h"
#include "text/utf8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- sizes, for percentages ----------------------------------------------------- */

static const char *said(const char *path) { return strcmp(path, "-") ? path : "stdin"; }

static void need_twice(const char *path)
{
    struct stat st;
    if (strcmp(path, "-") == 0 || stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        die("%s: percentages in --range need a regular file, whose size is known", said(path));
}

static uint64_t count_bytes(const char *path)
{
    uint64_t n = 0;
    size_t k;
    const char *p;
    need_twice(path);
    for (In *in = in_open(path); ; n += k) {        /* read, because it may be gzip */
        if ((k = in_some(in, &p)) == 0) return in_close(in), n;
        in_skip(in, k);
    }
}

static uint64_t count_rows(const char *path)
{
    uint64_t n = 0;
    need_twice(path);
    DocReader *r = docs_open(path);
    for (Doc d; doc_skip(r, &d); ) n++;
    docs_close(r);
    return n;
}

static bool out(void *arg, const char *s, size_t n)
{
    Read *r = arg;
    r->enough = !r->row(r->arg, s, n);
    return !r->enough;
}

/* The i-th row of a file, as it is there. false: no more are wanted. */
static bool give(Read *r, uint64_t i, const char *s, size_t n)
{
    return r->adapter ? adapter_feed(r->adapter, i, s, n) : out(r, s, n);
}

/* ---- JSON Lines, Parquet --------------------------------------------------------- */

/* The next line, which may be any object or array. */
static bool any_next(Read *r, DocReader *docs, Doc *d)
{
    DocError e = {0};
    if (!doc_skip(docs, d)) return false;
    arena_reset(&r->arena);
    const Json *j = json_parse(&r->arena, d->raw, d->raw_len, &e.why, &e.byte);
    e.line = d->line;
    if (!j) e.byte++, doc_die(docs_name(docs), &e);
    e.byte = 0, e.why = "neither an object nor an array";
    if (j->kind != J_OBJ && j->kind != J_ARR) doc_die(docs_name(docs), &e);
    return true;
}

static bool row_next(Read *r, DocReader *docs, Doc *d, bool checked)
{
    if (!checked) return doc_skip(docs, d);
    return r->any || r->adapter ? any_next(r, docs, d) : doc_next(docs, d);
}

/* lines: how many were consumed already */
static void read_jsonl(Read *r, const char *path, In *in, uint64_t lines)
{
    r->found = "JSON Lines";
    uint64_t from, to;
    range_resolve(&r->range, range_relative(&r->range) ? count_rows(path) : 0, &from, &to);
    DocReader *docs = docs_from(in, lines);
    Doc d;
    for (uint64_t i = 0; i < to; i++) {
        if (!row_next(r, docs, &d, i >= from)) break;
        if (i >= from && !give(r, i, d.raw, d.raw_len)) break;
    }
    docs_close(docs);
}

static void read_parquet(Read *r, const char *path)
{
    r->found = "Parquet";
    uint64_t from, to;
    Parquet *p = parquet_open(path, r->columns.s, r->columns.n);
    range_resolve(&r->range, parquet_rows(p), &from, &to);
    for (uint64_t i = 0; i < to; i++) {
        buf_clear(&r->made);
        if (!parquet_row(p, &r->made)) break;
        if (i >= from && !give(r, i, r->made.s, r->made.n)) break;
    }
    parquet_close(p);
}

/* ---- CSV and arrays: their rows numbered; those of the range go on ---------------- */

typedef struct Counted { Read *r; uint64_t i, from, to; } Counted;

static bool counted_row(void *arg, const char *s, size_t n)
{
    Counted *c = arg;
    bool more = c->i < c->from || c->i >= c->to || give(c->r, c->i, s, n);
    return ++c->i < c->to && more;
}

static Counted count_from(Read *r, const char *path)
{
    Counted c = { .r = r };
    if (range_relative(&r->range))
        die("%s: percentages in --range are for text, JSON Lines and Parquet", said(path));
    range_resolve(&r->range, 0, &c.from, &c.to);
    return c;
}

static void read_csv(Read *r, const char *path, In *in, char sep)
{
    r->found = sep == ',' ? "CSV" : "TSV";
    Counted rows = count_from(r, path);
    Csv c = { .file = in_name(in), .sep = sep, .row = counted_row, .arg = &rows };
    const char *p;
    size_t k;
    bool more = true;
    while (more && (k = in_some(in, &p)) > 0) {
        more = csv_feed(&c, p, k);
        in_skip(in, k);
    }
    csv_end(&c);
    r->replaced += c.replaced;
    csv_free(&c);
    in_close(in);
}

/* head: white space before it, consumed already */
static void read_array(Read *r, const char *path, In *in, const Buf *head)
{
    r->found = "JSON array";
    Counted rows = count_from(r, path);
    Array a = { .file = in_name(in), .row = counted_row, .arg = &rows, .pos = head->n };
    const char *p;
    size_t k;
    bool more = true;
    while (more && (k = in_some(in, &p)) > 0) {
        more = array_feed(&a, p, k);
        in_skip(in, k);
    }
    array_end(&a);
    array_free(&a);
    in_close(in);
}

/* ---- plain text ------------------------------------------------------------------ */

static bool text_row(void *arg, const char *s, size_t n)
{
    Read *r = arg;
    if (utf8_valid(s, n) < n) {
        buf_clear(&r->repaired);
        r->replaced += utf8_repair(&r->repaired, s, n);
        s = r->repaired.s;
        n = r->repaired.n;
    }
    buf_clear(&r->made);
    buf_str(&r->made, "{\"text\":");
    json_str_valid(&r->made, s, n);
    buf_char(&r->made, '}');
    return out(r, r->made.s, r->made.n);
}

typedef struct Part { Cut from, to; uint64_t pos; } Part;

/* The n bytes at s->pos; false if no more are wanted. */
static bool text_bytes(Part *s, Text *t, const char *p, size_t n)
{
    size_t a = cut_find(&s->from, s->pos, p, n), b = cut_find(&s->to, s->pos, p, n);
    s->pos += n;
    return (a >= b || text_feed(t, p + a, b - a)) && !s->to.done;
}

/* head: bytes consumed already, without the byte-order mark of `bom` bytes before them */
static void read_text(Read *r, const char *path, In *in, const Buf *head, size_t bom)
{
    Text t = { .kind = r->split, .sep = r->sep, .sep_len = r->sep ? strlen(r->sep) : 0,
               .doc = text_row, .arg = r };
    Part s = { .pos = bom };
    size_t k = 0;
    const char *p;
    r->found = "plain text";
    if (r->adapter)
        die("%s: plain text, which becomes documents; %s is for rows", in_name(in), r->program->name);
    range_resolve(&r->range, range_relative(&r->range) ? count_bytes(path) : 0, &s.from.at, &s.to.at);
    bool more = text_bytes(&s, &t, head->s, head->n);
    while (more && (k = in_some(in, &p)) > 0) {
        more = text_bytes(&s, &t, p, k);
        in_skip(in, k);
        if (t.buf.n > in_longest())
            die("%s: byte %" PRIu64 ": a document longer than %zu MB: too long for this machine's "
                "memory (where do documents end? see --split)", in_name(in), in_offset(in),
                in_longest() >> 20);
    }
    text_end(&t);
    r->empty += t.empty;
    text_free(&t);
    in_close(in);
}

/* ---- which kind ----------------------------------------------------------------- */

/* Does the name, but for .gz or .zst, end so? */
static bool named(const char *path, const char *tail)
{
    size_t n = strlen(path);
    if (name_ends(path, n, ".gz")) n -= 3;
    else if (name_ends(path, n, ".zst")) n -= 4;
    return name_ends(path, n, tail);
}

static bool jsonl_name(const char *path)
{
    return named(path, ".jsonl") || named(path, ".json") || named(path, ".ndjson");
}

static bool is_auto(const Read *r) { return !strcmp(r->format, "auto"); }

/* Is it this format, by what is said or, failing that, by name? */
static bool is_format(const Read *r, const char *path, const char *name)
{
    char *tail = xasprintf(".%s", name);
    bool yes = !strcmp(r->format, name) || (is_auto(r) && named(path, tail));
    free(tail);
    return yes;
}

bool read_is_parquet(const Read *r, const char *path, In *in)
{
    const char *s;
    size_t n = in_some(in, &s);
    if (!is_auto(r)) return strcmp(r->format, "parquet") == 0;
    return name_ends(path, strlen(path), ".parquet") || (strcmp(path, "-") && parquet_magic(s, n));
}

static const char BOM[] = "\xEF\xBB\xBF";

/* Consume a byte-order mark and white space into head, up to the byte that decides; that byte,
 * or -1. */
static int first_byte(In *in, Buf *head)
{
    const char *p;
    size_t k;
    while ((k = in_some(in, &p)) > 0) {
        for (size_t i = 0; i < k; i++) {
            bool maybe = head->n < 3 && memcmp(head->s, BOM, head->n) == 0;
            bool inside = maybe && head->n > 0;         /* part of a mark was seen */
            bool white = p[i] == ' ' || p[i] == '\t' || p[i] == '\r' || p[i] == '\n';
            if ((maybe && p[i] == BOM[head->n]) || (white && !inside)) {
                buf_char(head, p[i]);
                continue;
            }
            int c = (unsigned char)p[i];
            in_skip(in, i);
            return inside ? -1 : c;
        }
        in_skip(in, k);
    }
    return -1;
}

static uint64_t count_lines(const Buf *b)
{
    uint64_t n = 0;
    for (size_t i = 0; i < b->n; i++) n += b->s[i] == '\n';
    return n;
}

/* JSON Lines, an array or text: what the first bytes decide where nothing else does. */
static void read_by_first_byte(Read *r, const char *path, In *in)
{
    Buf head = {0};
    buf_str(&head, "");
    bool is_text = strcmp(r->format, "jsonl") != 0, is_array = false;
    if (is_text) {
        int c = first_byte(in, &head);
        is_array = !strcmp(r->format, "array") || (is_auto(r) && c == '[' && named(path, ".json"));
        is_text = strcmp(r->format, "text") == 0 || !(c == '{' || jsonl_name(path));
    }
    if (is_array) {
        read_array(r, path, in, &head);
    } else if (is_text) {
        size_t bom = head.n >= 3 && memcmp(head.s, BOM, 3) == 0 ? 3 : 0;
        memmove(head.s, head.s + bom, head.n -= bom);
        read_text(r, path, in, &head, bom);
    } else {
        read_jsonl(r, path, in, count_lines(&head));
    }
    buf_free(&head);
}

/* A file that is no archive. */
static void read_in(Read *r, const char *path, In *in, bool inside)
{
    if (read_is_parquet(r, path, in)) {
        if (inside) die("%s: Parquet is not read inside an archive: unpack it", path);
        in_close(in);
        read_parquet(r, path);
    } else if (is_format(r, path, "csv")) {
        read_csv(r, path, in, ',');
    } else if (is_format(r, path, "tsv")) {
        read_csv(r, path, in, '\t');
    } else {
        read_by_first_byte(r, path, in);
    }
}

static void read_one(Read *r, const char *path, In *in, bool inside)
{
    if (r->program) r->adapter = adapter_open(r->program, said(path), out, r);
    read_in(r, path, in, inside);
    if (r->adapter) adapter_close(r->adapter);
    r->adapter = NULL;
}

static bool read_member(void *arg, const char *name, In *in)
{
    Read *r = arg;
    if (archive_is_zip(name, r->format, in) || archive_is_tar(name, r->format, in))
        die("%s: an archive inside an archive is not read: unpack it", name);
    read_one(r, name, in, true);
    return !r->enough;
}

void read_from(Read *r, const char *path, In *in)
{
    const char *format = r->format;
    bool zip = archive_is_zip(path, format, in), tar = !zip && archive_is_tar(path, format, in);
    if (!strcmp(format, "zip") || !strcmp(format, "tar")) r->format = "auto";   /* of what is in it */
    if (zip) {
        in_close(in);
        archive_zip(path, r->members, read_member, r);
    } else if (tar) {
        archive_tar(in, r->members, read_member, r);
    } else {
        if (r->members.n) die("%s: no archive, so that no file in it can be chosen", in_name(in));
        read_one(r, path, in, false);
    }
    r->format = format;
}

void read_rows(Read *r, const char *path) { read_from(r, path, in_open(path)); }

void read_free(Read *r)
{
    buf_free(&r->made);
    buf_free(&r->repaired);
    arena_free(&r->arena);
}
