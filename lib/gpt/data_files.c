/* data_files.c -- which files a list of shards, patterns and directories names. */
#include "gpt/data_int.h"
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void paths_add(Paths *v, char *s)
{
    if (v->n == v->cap) {
        v->cap = v->cap ? 2 * v->cap : 16;
        v->s = xreallocarray(v->s, v->cap, sizeof *v->s);
    }
    v->s[v->n++] = s;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_dir(Paths *v, const char *dir)
{
    size_t from = v->n, len = strlen(dir);
    DIR *d = opendir(dir);
    if (!d) die("%s:", dir);
    for (struct dirent *e; errno = 0, (e = readdir(d)); ) {
        size_t n = strlen(e->d_name);
        if (n > 5 && e->d_name[0] != '.' && !strcmp(e->d_name + n - 5, ".rows"))
            paths_add(v, xasprintf("%s%s%s", dir, dir[len - 1] == '/' ? "" : "/", e->d_name));
    }
    if (errno) die("%s:", dir);
    closedir(d);
    if (v->n == from) die("%s: no *.rows in this directory", dir);
    qsort(v->s + from, v->n - from, sizeof *v->s, by_bytes);
}

static void add_glob(Paths *v, const char *pattern)
{
    size_t from = v->n;
    glob_t g = {0};
    int r = glob(pattern, GLOB_ERR | GLOB_NOSORT, NULL, &g);
    if (r == GLOB_NOMATCH) die("%s: matches no file", pattern);
    if (r) die("%s: cannot be expanded", pattern);
    for (size_t i = 0; i < g.gl_pathc; i++) paths_add(v, xstrdup(g.gl_pathv[i]));
    globfree(&g);
    qsort(v->s + from, v->n - from, sizeof *v->s, by_bytes);
}

Paths paths_expand(const StrList *spec)
{
    Paths v = {0};
    for (int i = 0; i < spec->n; i++) {
        const char *s = spec->s[i];
        struct stat st;
        if (!stat(s, &st)) {
            if (S_ISDIR(st.st_mode)) add_dir(&v, s);
            else paths_add(&v, xstrdup(s));
        } else if (strpbrk(s, "*?[")) {
            add_glob(&v, s);
        } else {
            die("%s:", s);
        }
    }
    return v;
}

void paths_free(Paths *v)
{
    for (size_t i = 0; i < v->n; i++) free(v->s[i]);
    free(v->s);
}
