#include "source.h"
#include "archive.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "token.h"
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
    if (to - s->op.from < n) set->rows = -1;
    set->file += s->op.from;
    set->nfile = (int)(to - s->op.from);
    s->op.from = 0, s->op.to = UINT64_MAX;
}

/* What follows the colon are the archive's files that are to be read. */
static void choose(Arena *a, Source *s, char *colon)
{
    s->members = (StrList){ arena_alloc(a, sizeof *s->members.s), 1 };
    s->members.s[0] = colon + 1;
    *colon = 0;
}

/* SET[:SPLIT[:PATTERN]] */
static Set *named_set(Arena *a, Source *s, char *name)
{
    char *split = strchr(name, ':'), *colon = split ? strchr(split + 1, ':') : NULL;
    if (colon) choose(a, s, colon);
    Set *set = set_find(a, name);
    if (set && !colon) s->members = (StrList){ set->member, set->nmember };
    if (set && colon) set->rows = -1;
    return set;
}

Source source_parse(Arena *a, const char *s)
{
    Source src = { .op = operand_parse(s) };
    src.at = src.op.path;
    if (is_file(src.at)) return src;
    char *at = arena_strndup(a, src.op.path, strlen(src.op.path)), *colon = archive_colon(at);
    if (colon) choose(a, &src, colon);
    src.at = at;
    if (is_file(at)) return src;
    src.set = is_url(at) ? set_of_url(a, at) : named_set(a, &src, at);
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
static const char *cache_dir(Arena *a)
{
    const char *own = getenv("PIPEGPT_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (own && *own) return own;
    bool x = xdg && *xdg == '/';
    if (!x && (!home || !*home)) die("no place for a cache: set PIPEGPT_CACHE");
    char *s = x ? xasprintf("%s/pipegpt", xdg) : xasprintf("%s/.cache/pipegpt", home);
    const char *kept = arena_strndup(a, s, strlen(s));
    free(s);
    return kept;
}

/* The path of a file:// URL; NULL of another. */
static const char *local_file(Arena *a, const Source *s, const SetFile *f)
{
    if (strncmp(f->url, "file://", 7)) return NULL;
    const char *path = decode_file_url(a, f->url);
    struct stat st;
    if (stat(path, &st) < 0) die("%s: %s:", s->op.path, path);
    if (f->size >= 0 && st.st_size != f->size)
        die("%s: %lld bytes, but %lld are wanted", path, (long long)st.st_size, (long long)f->size);
    return path;
}

Fetcher *source_fetch(Arena *a, Source *s, int n, const Fetch *how)
{
    size_t most = 0;
    int files = 0;
    for (int k = 0; k < n; k++) most += s[k].set ? (size_t)s[k].set->nfile : 1;
    FetchFile *list = arena_alloc(a, (most + 1) * sizeof *list);
    for (int k = 0; k < n; k++) {
        Source *x = &s[k];
        x->nfile = x->set ? x->set->nfile : 1;
        x->file = arena_alloc(a, (size_t)x->nfile * sizeof *x->file);
        x->job = arena_alloc(a, (size_t)x->nfile * sizeof *x->job);
        if (!x->set) x->file[0] = x->at;
        for (int i = 0; x->set && i < x->nfile; i++) {
            const SetFile *f = &x->set->file[i];
            x->file[i] = local_file(a, x, f);
            x->job[i] = files;
            if (!x->file[i]) list[files++] = (FetchFile){ f->url, f->size, f->sha256, NULL };
        }
    }
    Fetch all = *how;
    all.offline |= hub_offline();
    if (files) all.cache = cache_dir(a);
    for (int i = 0; i < files; i++) list[i].token = hub_token(a, list[i].url);
    Fetcher *f = fetch_begin(&all, list, files);
    for (int k = 0; k < n; k++) s[k].fetcher = f;
    return f;
}

const char *source_file(const Source *s, int i)
{
    return s->file[i] ? s->file[i] : fetch_wait(s->fetcher, s->job[i]);
}

static void put(Buf *b, const char *key, const char *s)
{
    buf_printf(b, ",\"%s\":", key);
    json_str(b, s, strlen(s));
}

/* As its manifest says, or as it lies here; -1: not known. */
static int64_t size_of(const char *path, int64_t stated)
{
    struct stat st;
    if (stated >= 0 || !path || !strcmp(path, "-")) return stated;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? st.st_size : -1;
}

static int64_t bytes_of(Arena *a, const Source *s)
{
    int64_t sum = 0;
    if (!s->set) return size_of(s->at, -1);
    for (int i = 0; i < s->set->nfile; i++) {
        const SetFile *f = &s->set->file[i];
        bool here = !strncmp(f->url, "file://", 7);
        int64_t n = size_of(here ? decode_file_url(a, f->url) : NULL, f->size);
        if (n < 0) return -1;
        sum += n;
    }
    return sum;
}

void source_plan(Arena *a, const Source *s, int n)
{
    Out *out = out_open("-", 0);
    for (; n > 0; n--, s++) {
        Buf b = {0};
        const Set *set = s->set;
        int64_t bytes = bytes_of(a, s);
        buf_str(&b, "{\"source\":");
        json_str(&b, s->op.path, strlen(s->op.path));
        buf_printf(&b, ",\"files\":%d", set ? set->nfile : 1);
        if (bytes >= 0) buf_printf(&b, ",\"bytes\":%lld", (long long)bytes);
        if (set && set->rows >= 0) buf_printf(&b, ",\"rows\":%lld", (long long)set->rows);
        if (set) put(&b, "licence", set->licence);
        if (s->program) put(&b, "adapter", s->program->name);
        if (set) put(&b, "first", set->file[0].url);
        if (set && set->nfile > 1) put(&b, "last", set->file[set->nfile - 1].url);
        buf_str(&b, "}\n");
        out_write(out, b.s, b.n);
        buf_free(&b);
    }
    out_close(out);
}
