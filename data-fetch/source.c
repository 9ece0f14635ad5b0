#include "source.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "data/fetch.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_url(const char *s)
{
    return !strncmp(s, "https://", 8) || !strncmp(s, "http://", 7) || !strncmp(s, "file://", 7);
}

static bool is_file(const char *s)
{
    struct stat st;
    return !strcmp(s, "-") || stat(s, &st) == 0 || errno != ENOENT;
}

static Set *set_of_url(Arena *a, const char *url)
{
    Set *s = arena_alloc(a, sizeof *s);
    *s = (Set){ .name = arena_strndup(a, url, strlen(url)), .split = "", .licence = "not known",
                .format = "auto", .rows = -1, .nfile = 1 };
    s->file = arena_alloc(a, sizeof *s->file);
    *s->file = (SetFile){ .url = s->name, .size = -1 };
    return s;
}

/* Of numbered files, @START:STOP takes some, and then all their rows. */
static void take_shards(Source *s)
{
    Set *set = s->set;
    uint64_t n = (uint64_t)set->nfile, to = s->op.to < n ? s->op.to : n;
    if (s->op.from >= to) die("%s: there are %d files, numbered from 0", s->op.path, set->nfile);
    set->file += s->op.from;
    set->nfile = (int)(to - s->op.from);
    s->op.from = 0, s->op.to = UINT64_MAX;
}

Source source_parse(Arena *a, const char *s)
{
    Source src = { .op = operand_parse(s) };
    if (is_file(src.op.path)) return src;
    src.set = is_url(src.op.path) ? set_of_url(a, src.op.path) : set_find(a, src.op.path);
    if (!src.set) die("%s: no such file, and no data set of that name is known", *s ? s : "''");
    if (src.set->shards) take_shards(&src);
    return src;
}

static const char *decode_file_url(Arena *a, const char *url)
{
    const char *s = url + 7;
    if (!strncmp(s, "localhost/", 10)) s += 9;
    if (*s != '/') die("%s: a file URL begins with file:///", url);
    char *out = arena_strndup(a, s, strlen(s)), *o = out;
    for (; *s; s++) {
        int c = *s;
        if (c == '%') {
            char hex[5] = { '0', '0', s[1], s[1] ? s[2] : 0, 0 };
            c = json_hex4(hex, hex + 4);
            if (c <= 0) die("%s: a bad %% in a URL", url);
            s += 2;
        }
        *o++ = (char)c;
    }
    *o = 0;
    return out;
}

/* $PIPEGPT_CACHE, or pipegpt in $XDG_CACHE_HOME or ~/.cache. */
static char *cache_dir(void)
{
    const char *own = getenv("PIPEGPT_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (own && *own) return xstrdup(own);
    if (xdg && *xdg == '/') return xasprintf("%s/pipegpt", xdg);
    if (!home || !*home) die("no place for a cache: set PIPEGPT_CACHE");
    return xasprintf("%s/.cache/pipegpt", home);
}

static const char *from_network(Arena *a, const SetFile *f, const Fetch *how)
{
    Fetch one = *how;
    const char *token = getenv("HF_TOKEN"), *hub = set_endpoint();
    size_t n = strlen(hub);
    one.cache = cache_dir();
    if (token && *token && !strncmp(f->url, hub, n) && f->url[n] == '/') one.token = token;
    char *path = fetch_file(&one, f->url, f->size, f->sha256);
    const char *kept = arena_strndup(a, path, strlen(path));
    free(path), free((void *)(uintptr_t)one.cache);
    return kept;
}

static const char *local_file(Arena *a, const Source *s, const SetFile *f, const Fetch *how)
{
    if (strncmp(f->url, "file://", 7)) return from_network(a, f, how);
    const char *path = decode_file_url(a, f->url);
    struct stat st;
    if (stat(path, &st) < 0) die("%s: %s:", s->op.path, path);
    if (f->size >= 0 && st.st_size != f->size)
        die("%s: %lld bytes, but %lld are wanted", path, (long long)st.st_size, (long long)f->size);
    return path;
}

void source_fetch(Arena *a, Source *s, int n, const Fetch *how)
{
    for (; n > 0; n--, s++) {
        s->nfile = s->set ? s->set->nfile : 1;
        s->file = arena_alloc(a, (size_t)s->nfile * sizeof *s->file);
        if (!s->set) s->file[0] = s->op.path;
        for (int i = 0; s->set && i < s->nfile; i++)
            s->file[i] = local_file(a, s, &s->set->file[i], how);
    }
}

static void put(Buf *b, const char *key, const char *s)
{
    buf_printf(b, ",\"%s\":", key);
    json_str(b, s, strlen(s));
}

void source_plan(const Source *s, int n)
{
    Out *out = out_open("-", 0);
    for (; n > 0; n--, s++) {
        Buf b = {0};
        const Set *set = s->set;
        int64_t bytes = 0;
        buf_str(&b, "{\"source\":");
        json_str(&b, s->op.path, strlen(s->op.path));
        buf_printf(&b, ",\"files\":%d", set ? set->nfile : 1);
        for (int i = 0; set && i < set->nfile; i++)
            bytes = bytes < 0 || set->file[i].size < 0 ? -1 : bytes + set->file[i].size;
        if (set && bytes >= 0) buf_printf(&b, ",\"bytes\":%lld", (long long)bytes);
        if (set && set->rows >= 0) buf_printf(&b, ",\"rows\":%lld", (long long)set->rows);
        if (set) put(&b, "licence", set->licence);
        if (set) put(&b, "first", set->file[0].url);
        if (set && set->nfile > 1) put(&b, "last", set->file[set->nfile - 1].url);
        buf_str(&b, "}\n");
        out_write(out, b.s, b.n);
        buf_free(&b);
    }
    out_close(out);
}
