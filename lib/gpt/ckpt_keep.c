/* ckpt_keep.c -- earlier checkpoints of a run, kept beside its newest one; see ckpt.h.
 *
 * A kept checkpoint is made under the name step-NNNNNN.new and renamed when it is whole; one that
 * is to go is given such a name first. So whatever ends in .new is waste of a kill, and is removed
 * by the next call. */
#include "gpt/ckpt.h"
#include "gpt/ckpt_dir.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "step-"
#define WASTE ".new"

/* The number in "step-NNNNNN" or "step-NNNNNN.new", or -1: not a name of ours. */
static int64_t step_in(const char *name, bool *waste)
{
    size_t n = strlen(PREFIX);
    if (strncmp(name, PREFIX, n)) return -1;
    size_t k = strspn(name + n, "0123456789");
    if (k < 6 || k > 18) return -1;
    *waste = !strcmp(name + n + k, WASTE);
    if (name[n + k] && !*waste) return -1;
    return strtoll(name + n, NULL, 10);
}

static void name_of(char out[48], int64_t step, const char *suffix)
{
    snprintf(out, 48, PREFIX "%06" PRId64 "%s", step, suffix);
}

/* Is there anything but the files of a checkpoint? The user put it there, or another run has gone
 * on in this place. */
static bool has_more(int fd)
{
    bool more = false;
    DIR *d = ckpt_list(fd);
    if (!d) return true;
    for (struct dirent *e; !more && (e = readdir(d)); )
        more = ckpt_file(e->d_name) < 0 && strcmp(e->d_name, ".") && strcmp(e->d_name, "..") &&
               strcmp(e->d_name, CKPT_LOCK);
    closedir(d);
    return more;
}

/* The files of a checkpoint and the folder. One that has more in it is left alone; so is what is no
 * folder. */
static int remove_dir(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r = 0;
    if (fd < 0) return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : -1;
    if (has_more(fd)) {
        close(fd);
        return 0;
    }
    FileSet all = fileset_all(fd, "");
    for (int i = -1; !r && (i = fileset_next(&all, i)) >= 0; ) {
        char file[64];
        ckpt_file_name(file, i, "");
        r = ckpt_step() || (unlinkat(fd, file, 0) && errno != ENOENT) ? -1 : 0;
    }
    if (!r && unlinkat(fd, CKPT_LOCK, 0) && errno != ENOENT) r = -1;
    close(fd);
    if (r || ckpt_step()) return -1;
    return unlinkat(parent, name, AT_REMOVEDIR) && errno != ENOTEMPTY && errno != EEXIST ? -1 : 0;
}

/* Is what is named so in the folder more than a checkpoint? */
static bool is_taken(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool taken = fd < 0 ? errno != ENOENT : has_more(fd);
    if (fd >= 0) close(fd);
    return taken;
}

static int copy_bytes(int to, int from)
{
    char *buf = xmalloc(1 << 20);
    ssize_t k;
    while ((k = read(from, buf, 1 << 20)) != 0) {
        ssize_t done = 0, w = 0;
        if (k < 0 && errno == EINTR) continue;
        while (done < k && ((w = write(to, buf + done, (size_t)(k - done))) >= 0 || errno == EINTR))
            done += w > 0 ? w : 0;
        if (k < 0 || w < 0) break;
    }
    free(buf);
    return k ? -1 : fsync(to);
}

/* For file systems without hard links. */
static int copy_file(const char *path, int dir, const char *name)
{
    int from = open(path, O_RDONLY | O_CLOEXEC);
    int to = from < 0 ? -1 : openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    int r = to < 0 ? -1 : copy_bytes(to, from), err = errno;
    if (to >= 0 && close(to) && !r) { r = -1; err = errno; }
    if (from >= 0) close(from);
    errno = err;
    return r;
}

/* A hard link to the file that counts now: a save replaces names, never the contents behind them. 1 if
 * there is none, -1 with errno. */
static int link_file(const char *dir, int to, int file)
{
    char name[64];
    ckpt_file_name(name, file, "");
    char *path = ckpt_path(dir, name);
    if (!path) return 1;
    int r = ckpt_step() ? -1 : linkat(AT_FDCWD, path, to, name, 0);
    if (r && (errno == EPERM || errno == EOPNOTSUPP || errno == EMLINK || errno == ENOSYS))
        r = copy_file(path, to, name);
    int err = errno;
    free(path);
    errno = err;
    return r;
}

static int fill(const char *dir, int to)
{
    for (int i = 0; i < F_COUNT; i++)
        if (link_file(dir, to, i) < 0) return -1;
    int r = 0;
    for (int rank = 1; !r; rank++) r = link_file(dir, to, ckpt_optimizer(rank));
    return r < 0 || ckpt_step() ? -1 : fsync(to);
}

static int make(const char *dir, int parent, int64_t step)
{
    char name[48], whole[48];
    name_of(name, step, WASTE);
    name_of(whole, step, "");
    if (remove_dir(parent, name) || ckpt_step() || mkdirat(parent, name, 0777)) return -1;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = fd < 0 ? -1 : fill(dir, fd), err = errno;
    if (fd >= 0) close(fd);
    errno = err;
    if (r) return -1;
    if (is_taken(parent, whole)) return remove_dir(parent, name);
    if (remove_dir(parent, whole)) return -1;       /* the same step, kept before a resume */
    return ckpt_step() || renameat(parent, name, parent, whole) || fsync(parent) ? -1 : 0;
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* Waste goes; the kept checkpoints up to `step` that are nothing but that into *kept, how many. */
static int list_kept(int parent, int64_t step, int64_t **kept, size_t *count)
{
    int r = 0;
    DIR *d = ckpt_list(parent);
    size_t cap = 0;
    *kept = NULL;
    *count = 0;
    if (!d) return -1;
    for (struct dirent *e; (e = readdir(d)); ) {
        bool waste;
        int64_t s = step_in(e->d_name, &waste);
        if (s < 0) continue;
        if (waste) { r |= remove_dir(parent, e->d_name); continue; }
        if (s > step || is_taken(parent, e->d_name)) continue;
        if (*count == cap) *kept = xreallocarray(*kept, cap = cap ? 2 * cap : 16, sizeof **kept);
        (*kept)[(*count)++] = s;
    }
    closedir(d);
    return r;
}

/* Of the checkpoints up to `step` all but the last n. Those of later steps are not of this run's
 * past: they stay. */
static int prune(int parent, int64_t step, size_t n)
{
    int64_t *kept;
    size_t count;
    int r = list_kept(parent, step, &kept, &count);
    if (count) qsort(kept, count, sizeof *kept, newest_first);
    for (size_t i = n; i < count && !r; i++) {
        char name[48], waste[48];
        name_of(name, kept[i], "");
        name_of(waste, kept[i], WASTE);
        r = ckpt_step() || renameat(parent, name, parent, waste) || remove_dir(parent, waste);
    }
    free(kept);
    return r ? -1 : 0;
}

int ckpt_forget(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = fd < 0 || prune(fd, INT64_MAX, 0) || remove_dir(fd, CKPT_BEST) ? -1 : 0;
    if (r) note(0, "%s: the checkpoints of an earlier run cannot be removed:", dir);
    if (fd >= 0) close(fd);
    return r;
}

int ckpt_kept(const char *dir, int64_t step)
{
    char name[48];
    name_of(name, step, "");
    char *in = xasprintf("%s/%s", dir, name), *beside = xasprintf("%s/../%s", dir, name);
    struct stat a, b;
    int there = !stat(in, &a) ||
                (!stat(dir, &a) && !stat(beside, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino);
    free(in);
    free(beside);
    return there;
}

int ckpt_keep(const char *dir, int64_t step, int n)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = fd < 0 || make(dir, fd, step) || prune(fd, step, (size_t)n) ? -1 : 0;
    if (r) {
        char *path = xasprintf("%s/" PREFIX "%06" PRId64, dir, step);
        note(0, "%s: not kept:", path);
        free(path);
    }
    if (fd >= 0) close(fd);
    return r;
}
