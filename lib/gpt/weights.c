/* weights.c -- see weights.h. */
#include "gpt/weights.h"
#include "base/map.h"
#include <stdlib.h>
#include <string.h>

#define INDEX_MAX ((size_t)1 << 28) /* bytes; a tensor takes about 100 */

static void add_file(Weights *w, char *path)
{
    w->file = xreallocarray(w->file, (size_t)w->n + 1, sizeof *w->file);
    w->file[w->n++] = (struct WeightFile){ path, st_open(path) };
}

Weights *weights_file(const char *path)
{
    Weights *w = xcalloc(1, sizeof *w);
    w->name = xstrdup(path);
    add_file(w, xstrdup(path));
    return w;
}

/* A name in this folder, and nothing else: the index is not to be trusted with paths. */
static void check_name(const Weights *w, const Json *j)
{
    if (j->kind != J_STR) die("%s: %s: its file is not a text", w->name, j->key);
    if (!j->len || memchr(j->s, '/', j->len) || memchr(j->s, 0, j->len) || j->s[0] == '.')
        die("%s: %s: '%.80s' is not a file's name", w->name, j->key, j->s);
}

/* The files by order of appearance; each tensor is where the index says. */
static void read_map(Weights *w, const Json *map)
{
    const char *slash = strrchr(w->name, '/');
    int dir = slash ? (int)(slash - w->name) + 1 : 0;
    Map files = {0};
    for (const Json *j = map->child; j; j = j->next) {
        if (memchr(j->key, 0, j->key_len)) die("%s: a tensor's name holds a NUL", w->name);
        check_name(w, j);
        int64_t *at = map_put(&files, j->s, j->len);        /* 0: not seen yet */
        if (!*at) {
            add_file(w, xasprintf("%.*s%s", dir, w->name, j->s));
            *at = w->n;
        }
        const struct WeightFile *f = &w->file[*at - 1];
        if (!st_find(f->f, j->key))
            die("%s: no tensor %s, which %s says it has", f->path, j->key, w->name);
    }
    map_free(&files);
}

static void check_twice(const Weights *w)
{
    Map seen = {0};
    for (int i = 0; i < w->n; i++) {
        for (int k = 0; k < st_count(w->file[i].f); k++) {
            const char *name = st_at(w->file[i].f, k)->name;
            int64_t *at = map_put(&seen, name, strlen(name));
            if (*at)
                die("%s: tensor %s is in %s too", w->file[i].path, name, w->file[*at - 1].path);
            *at = i + 1;
        }
    }
    map_free(&seen);
}

Weights *weights_index(const char *path)
{
    Weights *w = xcalloc(1, sizeof *w);
    Arena a = {0};
    Buf b = {0};
    const char *err;
    size_t at;
    w->name = xstrdup(path);
    read_file(path, &b, INDEX_MAX);
    const Json *j = json_parse(&a, b.s ? b.s : "", b.n, &err, &at);
    if (!j) die("%s: not valid JSON: %s, byte %zu", path, err, at);
    const Json *map = json_get(j, "weight_map");
    if (!map || map->kind != J_OBJ || !map->n) die("%s: no \"weight_map\" with tensors", path);
    read_map(w, map);
    check_twice(w);
    arena_free(&a);
    buf_free(&b);
    return w;
}

void weights_close(Weights *w)
{
    if (!w) return;
    for (int i = 0; i < w->n; i++) {
        st_close(w->file[i].f);
        free(w->file[i].path);
    }
    free(w->file);
    free(w->name);
    free(w);
}

const StTensor *weights_find(const Weights *w, const char *name, int *file)
{
    for (*file = 0; *file < w->n; ++*file) {
        const StTensor *t = st_find(w->file[*file].f, name);
        if (t) return t;
    }
    return NULL;
}

int64_t weights_elements(const Weights *w)
{
    int64_t n = 0;
    for (int i = 0; i < w->n; i++)
        for (int k = 0; k < st_count(w->file[i].f); k++) n += st_at(w->file[i].f, k)->n;
    return n;
}
