#include "archive.h"
#include "data/tar.h"
#include "data/zip.h"
#include "name.h"
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- which files are archives */

static const char *const tar_tails[] = { ".tar", ".tgz", ".tzst", ".tar.gz", ".tar.zst" };

static bool tar_name(const char *s, size_t n)
{
    for (size_t i = 0; i < sizeof tar_tails / sizeof *tar_tails; i++)
        if (name_ends(s, n, tar_tails[i])) return true;
    return false;
}

bool archive_is_zip(const char *path, const char *format, In *in)
{
    const char *s;
    size_t n = in_some(in, &s);
    bool yes = !strcmp(format, "zip") || name_ends(path, strlen(path), ".zip") || zip_magic(s, n);
    if (yes && !strcmp(path, "-"))
        die("stdin: a zip archive must be a file, for its directory is at the end");
    return yes;
}

bool archive_is_tar(const char *path, const char *format, In *in)
{
    const char *s;
    size_t n = in_some(in, &s);
    return !strcmp(format, "tar") || tar_name(path, strlen(path)) || tar_magic(s, n);
}

char *archive_colon(char *s)
{
    struct stat st;
    for (char *c = s; (c = strchr(c, ':')); c++) {
        size_t n = (size_t)(c - s);
        if (name_ends(s, n, ".zip") || tar_name(s, n)) return c;
        *c = 0;
        bool file = stat(s, &st) == 0 && S_ISREG(st.st_mode);
        *c = ':';
        if (file) return c;
    }
    return NULL;
}

/* ---- which of their files are wanted */

typedef struct Wanted { StrList patterns; bool *matched; uint64_t n; } Wanted;

static bool hidden(const char *name)
{
    return name[0] == '.' || strstr(name, "/.") || !strncmp(name, "__MACOSX/", 9);
}

static bool wanted(Wanted *w, const char *name)
{
    bool yes = !w->patterns.n && !hidden(name);
    for (int i = 0; i < w->patterns.n; i++)
        if (!fnmatch(w->patterns.s[i], name, 0) && (!hidden(name) || !strcmp(w->patterns.s[i], name)))
            yes = w->matched[i] = true;
    w->n += yes;
    return yes;
}

static Wanted wanted_begin(StrList patterns)
{
    return (Wanted){ .patterns = patterns, .matched = xcalloc((size_t)patterns.n + 1, sizeof(bool)) };
}

static void wanted_end(Wanted *w, const char *path, bool all)
{
    for (int i = 0; all && i < w->patterns.n; i++)
        if (!w->matched[i]) die("%s: no file in it is named %s", path, w->patterns.s[i]);
    if (all && !w->n) die("%s: there are no files in it", path);
    free(w->matched);
}

/* ---- one after the other */

void archive_zip(const char *path, StrList patterns, ArchiveEach *each, void *arg)
{
    Zip *z = zip_open(path);
    Wanted w = wanted_begin(patterns);
    bool more = true;
    for (size_t i = 0; more && i < zip_files(z); i++) {
        if (!wanted(&w, zip_file(z, i)->name)) continue;
        In *in = zip_read(z, i);
        char *name = xstrdup(in_name(in));
        more = each(arg, name, in);
        free(name);
    }
    wanted_end(&w, path, more);
    zip_close(z);
}

void archive_tar(In *in, StrList patterns, ArchiveEach *each, void *arg)
{
    char *path = xstrdup(in_name(in));
    Tar *t = tar_open(in);
    Wanted w = wanted_begin(patterns);
    TarFile f;
    bool more = true;
    while (more && tar_next(t, &f)) {
        if (!wanted(&w, f.name)) continue;
        In *file = tar_read(t);
        char *name = xstrdup(in_name(file));
        more = each(arg, name, file);
        free(name);
    }
    wanted_end(&w, path, more);
    if (tar_others(t))
        warn("%s: %" PRIu64 " links and devices in it are left out", path, tar_others(t));
    tar_close(t);
    free(path);
}
