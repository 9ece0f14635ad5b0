#include "inspect.h"
#include "archive.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/map.h"
#include "data/parquet.h"
#include "data/tar.h"
#include "data/zip.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIELDS_MOST = 1000 };    /* objects may have ids for keys */

static const char *const types[] = { "null", "boolean", "number", "string", "array", "object" };

typedef struct Field { uint64_t count[6]; } Field;

typedef struct Fields {
    uint64_t rows, most;
    bool more, too_many;        /* rows, fields that were not looked at */
    Map path;                   /* messages[].role -> its place in field */
    Field *field;
    Buf at;                     /* the path of the value that is being looked at */
    Arena arena;
} Fields;

/* ---- fields of rows */

static void count_type(Fields *f, JsonKind kind)
{
    int64_t *at = map_get(&f->path, f->at.s, f->at.n);
    if (!at && f->path.n == FIELDS_MOST) {
        f->too_many = true;
        return;
    }
    if (!at) {
        at = map_put(&f->path, f->at.s, f->at.n);
        *at = (int64_t)f->path.n - 1;
        f->field = xreallocarray(f->field, f->path.n, sizeof *f->field);
        f->field[*at] = (Field){0};
    }
    f->field[*at].count[kind]++;
}

/* Names that are more than letters stand in quotes, so that a path reads in one way only. */
static void put_name(Buf *b, const char *s, size_t n)
{
    size_t plain = 0;
    while (plain < n && ((unsigned char)s[plain] >= 0x80 || (s[plain] > ' ' && !strchr(".[]\"\\\x7f", s[plain]))))
        plain++;
    if (n && plain == n) buf_add(b, s, n);
    else json_str(b, s, n);
}

static void look(Fields *f, const Json *j)
{
    size_t n = f->at.n;
    if (n) count_type(f, j->kind);
    for (const Json *k = j->child; k; k = k->next) {
        if (j->kind == J_ARR) {
            buf_str(&f->at, "[]");
        } else {
            if (n) buf_char(&f->at, '.');
            put_name(&f->at, k->key, k->key_len);
        }
        look(f, k);
        f->at.n = n;
    }
}

static bool look_at_row(void *arg, const char *s, size_t n)
{
    Fields *f = arg;
    const char *why;
    size_t at;
    f->more = f->rows == f->most;
    if (f->more) return false;
    f->rows++;
    arena_reset(&f->arena);
    const Json *j = json_parse(&f->arena, s, n, &why, &at);
    if (!j) die("row %" PRIu64 ": %s", f->rows, why);           /* a reader let it through */
    look(f, j);
    return true;
}

static void put_fields(const Fields *f, const Read *r, Buf *out)
{
    buf_printf(out, "format %s\nrows %s%" PRIu64 "\nfields\n", r->found ? r->found : "nothing",
               f->more ? "the first " : "", f->rows);
    for (size_t i = 0; i < f->path.n; i++) {
        buf_printf(out, "  %.*s", (int)f->path.e[i].len, f->path.e[i].key);
        for (int k = 0; k < 6; k++)
            if (f->field[i].count[k]) buf_printf(out, " %s %" PRIu64, types[k], f->field[i].count[k]);
        buf_char(out, '\n');
    }
    if (f->too_many) buf_printf(out, "  and more than these %d\n", FIELDS_MOST);
}

static void put_rows(const char *file, In *in, Read *r, uint64_t most, Buf *out)
{
    Fields f = { .most = most };
    buf_str(&f.at, "");
    r->row = look_at_row, r->arg = &f;
    r->any = true;
    read_from(r, file, in);
    put_fields(&f, r, out);
    map_free(&f.path);
    free(f.field);
    buf_free(&f.at);
    arena_free(&f.arena);
}

/* ---- other files */

static void put_parquet(const char *file, Buf *out)
{
    Parquet *p = parquet_open(file, NULL, 0);
    parquet_describe(p, out);
    parquet_close(p);
}

static void put_zip(const char *file, Buf *out)
{
    Zip *z = zip_open(file);
    buf_printf(out, "format zip\nfiles %zu\n", zip_files(z));
    for (size_t i = 0; i < zip_files(z); i++) {
        const ZipFile *f = zip_file(z, i);
        buf_printf(out, "  %s size %" PRIu64 " packed %" PRIu64 " %s%s\n", f->name, f->size, f->packed,
                   zip_method(f->method), f->flags & 1 ? " encrypted" : "");
    }
    zip_close(z);
}

static void put_tar(In *in, Buf *out)
{
    Tar *t = tar_open(in);
    Buf files = {0};
    TarFile f;
    uint64_t n = 0;
    buf_str(&files, "");
    for (; tar_next(t, &f); n++) buf_printf(&files, "  %s size %" PRIu64 "\n", f.name, f.size);
    buf_printf(out, "format tar\nfiles %" PRIu64 "\n%s", n, files.s);
    if (tar_others(t)) buf_printf(out, "  and %" PRIu64 " links and devices\n", tar_others(t));
    buf_free(&files);
    tar_close(t);
}

void inspect(const char *file, Read *r, uint64_t most, Buf *out)
{
    char *at = xstrdup(file), *colon = access(file, F_OK) ? archive_colon(at) : NULL;
    const char *pattern = colon ? colon + 1 : NULL;
    if (colon) *colon = 0;
    if (colon) r->members = (StrList){ &pattern, 1 };
    In *in = in_open(at);
    if (colon) put_rows(at, in, r, most, out);
    else if (archive_is_zip(at, r->format, in)) in_close(in), put_zip(at, out);
    else if (archive_is_tar(at, r->format, in)) put_tar(in, out);
    else if (read_is_parquet(r, at, in)) in_close(in), put_parquet(at, out);
    else put_rows(at, in, r, most, out);
    free(at);
}
