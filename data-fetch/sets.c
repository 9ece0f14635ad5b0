#include "sets.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MANIFEST_MAX = 1 << 20, FILES_MAX = 100000 };

/* ---- where manifests are */

/* $PIPEGPT_SETS, or share/data beside the program, installed or in the tree. */
static char *sets_dir(void)
{
    static const char *const at[] = { "../share/pipegpt/data", "../../share/data",
                                      "../../../share/data" };
    const char *dir = getenv("PIPEGPT_SETS");
    char exe[4096];
    if (dir && *dir) return xstrdup(dir);
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = 0;
    char *slash = strrchr(exe, '/');
    if (slash) *slash = 0;
    for (size_t i = 0; slash && i < sizeof at / sizeof *at; i++) {
        char *d = xasprintf("%s/%s", exe, at[i]);
        if (access(d, R_OK) == 0) return d;
        free(d);
    }
    return NULL;
}

static bool plain_name(const char *s, size_t n)
{
    return n > 0 && n < 100 && s[0] != '-' &&
           strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == n;
}

/* ---- reading one */

typedef struct Reader { Arena *a; const char *path; const Json *set; } Reader;

/* A string without control characters; NULL if it is not there. */
static const char *str(const Reader *r, const Json *obj, const char *key)
{
    const Json *j = json_get(obj, key);
    if (!j) return NULL;
    if (j->kind != J_STR) die("%s: \"%s\" is not a string", r->path, key);
    for (size_t i = 0; i < j->len; i++)
        if ((unsigned char)j->s[i] < 32 || j->s[i] == 127)
            die("%s: \"%s\" has a control character", r->path, key);
    return arena_strndup(r->a, j->s, j->len);
}

static int64_t number(const Reader *r, const Json *obj, const char *key, int64_t none)
{
    const Json *j = json_get(obj, key);
    int64_t x;
    if (!j) return none;
    if (!json_int(j, &x) || x < 0) die("%s: \"%s\" is not a number from 0", r->path, key);
    return x;
}

/* A path that stays inside its repository: no "..", "." or empty part, nothing a URL would read. */
static void check_path(const Reader *r, const char *s)
{
    if (!*s) die("%s: a file without a name", r->path);
    for (const char *p = s; *p; p++)
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 127 || strchr("\\%?#\"<>^`|", *p))
            die("%s: '%s': a character that has no place in a path", r->path, s);
    for (const char *p = s; ; p++) {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && *p == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            die("%s: '%s' is no path inside a repository", r->path, s);
        p += n;
        if (!*p) return;
    }
}

const char *set_endpoint(void)
{
    const char *s = getenv("HF_ENDPOINT");
    if (!s || !*s) return "https://huggingface.co";
    if (strncmp(s, "https://", 8) && strncmp(s, "http://", 7) && strncmp(s, "file:///", 8))
        die("HF_ENDPOINT: '%s' is no https, http or file:/// URL", s);
    return s;
}

static const char *url_of(const Reader *r, const char *path)
{
    const char *repo = str(r, r->set, "repo"), *rev = str(r, r->set, "revision");
    if (!strncmp(path, "https://", 8)) {
        check_path(r, path + 8);
        return path;
    }
    if (strstr(path, "://")) die("%s: '%s': only https URLs", r->path, path);
    if (!repo) die("%s: '%s' needs a \"repo\"", r->path, path);
    check_path(r, repo);
    check_path(r, rev ? rev : "main");
    check_path(r, path);
    const char *e = set_endpoint();
    size_t n = strlen(e);
    while (n && e[n - 1] == '/') n--;
    char *s = xasprintf("%.*s/datasets/%s/resolve/%s/%s", (int)n, e, repo, rev ? rev : "main", path);
    const char *kept = arena_strndup(r->a, s, strlen(s));
    free(s);
    return kept;
}

static SetFile file_of(const Reader *r, const Json *j)
{
    SetFile f = { .size = -1 };
    if (j->kind == J_STR) {
        Json wrap = { .kind = J_OBJ }, copy = *j;
        copy.key = "path", copy.key_len = 4, copy.next = NULL;
        wrap.child = &copy, wrap.n = 1;
        f.url = url_of(r, str(r, &wrap, "path"));
        return f;
    }
    if (j->kind != J_OBJ || !json_get(j, "path"))
        die("%s: a file is a string, or an object with \"path\"", r->path);
    f.url = url_of(r, str(r, j, "path"));
    f.size = number(r, j, "size", -1);
    f.sha256 = str(r, j, "sha256");
    if (f.sha256 && (strlen(f.sha256) != 64 || strspn(f.sha256, "0123456789abcdef") != 64))
        die("%s: \"sha256\" is not 64 hexadecimal digits", r->path);
    return f;
}

static void listed_files(const Reader *r, const Json *list, Set *s)
{
    if (list->kind != J_ARR || list->n < 1 || list->n > FILES_MAX)
        die("%s: \"files\" is not a list of files", r->path);
    s->file = arena_alloc(r->a, (size_t)list->n * sizeof *s->file);
    for (const Json *j = list->child; j; j = j->next) s->file[s->nfile++] = file_of(r, j);
}

/* "shard_{5}.parquet": a number of five digits stands there. */
static void numbered_files(const Reader *r, const Json *split, Set *s)
{
    const char *path = str(r, split, "path"), *open = path ? strchr(path, '{') : NULL;
    int64_t first = number(r, split, "first", 0), count = number(r, split, "count", 0);
    if (!open || open[1] < '1' || open[1] > '9' || open[2] != '}' || strchr(open + 1, '{'))
        die("%s: \"path\" needs one {1} to {9} for a number", r->path);
    if (count < 1 || count > FILES_MAX || first > 100000000)
        die("%s: \"first\" and \"count\" are out of range", r->path);
    s->shards = true;
    s->file = arena_alloc(r->a, (size_t)count * sizeof *s->file);
    for (int64_t i = 0; i < count; i++) {
        char *p = xasprintf("%.*s%0*lld%s", (int)(open - path), path, open[1] - '0',
                            (long long)(first + i), open + 3);
        s->file[s->nfile++] = (SetFile){ .url = url_of(r, arena_strndup(r->a, p, strlen(p))),
                                         .size = -1 };
        free(p);
    }
}

/* A list of strings, not empty; NULL if it is not there. */
static const char **strings(const Reader *r, const Json *obj, const char *key, int *n)
{
    const Json *list = json_get(obj, key);
    if (!list) return NULL;
    if (list->kind != J_ARR || list->n < 1) die("%s: \"%s\" is not a list", r->path, key);
    const char **s = arena_alloc(r->a, (size_t)list->n * sizeof *s);
    for (const Json *j = list->child; j; j = j->next) {
        if (j->kind != J_STR || strlen(j->s) != j->len)
            die("%s: what is in \"%s\" is not a string", r->path, key);
        s[(*n)++] = arena_strndup(r->a, j->s, j->len);
    }
    return s;
}

/* A word that becomes a file name or an option: no path in it. */
static const char *word(const Reader *r, const char *key)
{
    const char *s = str(r, r->set, key);
    if (s && !plain_name(s, strlen(s))) die("%s: \"%s\": '%s' is no plain name", r->path, key, s);
    return s;
}

static Reader read_manifest(Arena *a, const char *path)
{
    Buf b = {0};
    const char *err;
    size_t at;
    read_file(path, &b, MANIFEST_MAX);
    const char *text = arena_strndup(a, b.s, b.n);
    Reader r = { .a = a, .path = path, .set = json_parse(a, text, b.n, &err, &at) };
    if (!r.set) die("%s: byte %zu: %s", path, at, err);
    buf_free(&b);
    const Json *splits = json_get(r.set, "splits");
    if (!splits || splits->kind != J_OBJ || splits->n < 1) die("%s: no \"splits\"", path);
    if (!str(&r, r.set, "licence")) die("%s: no \"licence\"", path);
    if (!word(&r, "default") || !json_get(splits, word(&r, "default")))
        die("%s: \"default\" names no split", path);
    return r;
}

static Set *read_split(const Reader *r, const char *dir, const char *name, const char *split)
{
    const Json *j = json_get(json_get(r->set, "splits"), split);
    if (!j) {
        Buf b = {0};
        for (const Json *k = json_get(r->set, "splits")->child; k; k = k->next)
            buf_printf(&b, "%s%.*s", b.n ? ", " : "", (int)k->key_len, k->key);
        die("%s has no split '%s', but %s", name, split, b.s);
    }
    Set *s = arena_alloc(r->a, sizeof *s);
    const char *adapter = word(r, "adapter"), *format = word(r, "format");
    *s = (Set){ .name = name, .split = split, .about = str(r, r->set, "about"),
                .licence = str(r, r->set, "licence"), .format = format ? format : "auto",
                .separator = str(r, r->set, "separator"), .rows = number(r, j, "rows", -1) };
    if (adapter) {
        char *p = xasprintf("%s/%s.jq", dir, adapter);
        s->adapter = arena_strndup(r->a, p, strlen(p));
        free(p);
    }
    s->column = strings(r, r->set, "columns", &s->ncolumn);
    s->member = strings(r, json_get(j, "members") ? j : r->set, "members", &s->nmember);
    const Json *files = json_get(j, "files");
    if (files) listed_files(r, files, s);
    else numbered_files(r, j, s);
    return s;
}

Set *set_find(Arena *a, const char *name)
{
    const char *colon = strchr(name, ':');
    size_t n = colon ? (size_t)(colon - name) : strlen(name);
    char *dir = sets_dir(), *set = arena_strndup(a, name, n), *path;
    if (!dir || !plain_name(set, n)) return free(dir), NULL;
    path = xasprintf("%s/%s.json", dir, set);
    Set *s = NULL;
    if (access(path, F_OK) == 0) {
        Reader r = read_manifest(a, path);
        s = read_split(&r, dir, set, colon ? arena_strndup(a, colon + 1, strlen(colon + 1))
                                           : word(&r, "default"));
    }
    free(path), free(dir);
    return s;
}

char *set_program(const char *name)
{
    char *dir = sets_dir(), *path = NULL;
    if (dir && plain_name(name, strlen(name))) path = xasprintf("%s/%s.jq", dir, name);
    if (path && access(path, F_OK)) free(path), path = NULL;
    free(dir);
    return path;
}

/* ---- --list */

static int manifest(const struct dirent *d)
{
    size_t n = strlen(d->d_name);
    return n > 5 && !strcmp(d->d_name + n - 5, ".json") && d->d_name[0] != '.';
}

static void put(Buf *b, const char *key, const char *s)
{
    buf_printf(b, "%s\"%s\":", b->n > 1 ? "," : "", key);
    json_str(b, s, strlen(s));
}

void sets_list(void)
{
    struct dirent **d;
    char *dir = sets_dir();
    int n = dir ? scandir(dir, &d, manifest, alphasort) : 0;
    if (n < 0) die("%s:", dir);
    Out *out = out_open("-", 0);
    for (int i = 0; i < n; i++) {
        Arena a = {0};
        Buf b = {0};
        char *path = xasprintf("%s/%s", dir, d[i]->d_name);
        Reader r = read_manifest(&a, path);
        d[i]->d_name[strlen(d[i]->d_name) - 5] = 0;
        buf_char(&b, '{');
        put(&b, "set", d[i]->d_name);
        buf_str(&b, ",\"splits\":[");
        for (const Json *k = json_get(r.set, "splits")->child; k; k = k->next) {
            json_str(&b, k->key, k->key_len);
            if (k->next) buf_char(&b, ',');
        }
        buf_char(&b, ']');
        put(&b, "licence", str(&r, r.set, "licence"));
        if (str(&r, r.set, "about")) put(&b, "about", str(&r, r.set, "about"));
        buf_str(&b, "}\n");
        out_write(out, b.s, b.n);
        buf_free(&b);
        arena_free(&a);
        free(path), free(d[i]);
    }
    out_close(out);
    if (n) free(d);
    free(dir);
}
