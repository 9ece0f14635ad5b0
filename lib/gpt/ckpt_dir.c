/* ckpt_dir.c -- lock, journal and commit of a model directory; see ckpt.h and ckpt_dir.h. */
#include "gpt/ckpt_dir.h"
#include "base/io.h"
#include "base/json.h"
#include "gpt/ckpt.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define JOURNAL "commit.json"
#define JOURNAL_MAX (CKPT_RANKS * 64)       /* bytes */
#define PATIENCE 10.0               /* seconds that reader and committing writer wait for each other */
#define GLANCE 0.2                  /* seconds that a writer waits for the lock */

const char *const ckpt_name[F_COUNT] = {
    "model.safetensors", "config.json", "tokenizer.tok", "state.json", "optimizer-0.safetensors",
    "model-ema.safetensors",
    "clock.json", "adapter_model.safetensors", "adapter_config.json",
};

struct CkptFault ckpt_fault;

/* ---- names */

void ckpt_file_name(char out[64], int file, const char *suffix)
{
    if (file < F_COUNT) snprintf(out, 64, "%s%s", ckpt_name[file], suffix);
    else snprintf(out, 64, "optimizer-%d.safetensors%s", file - F_COUNT, suffix);
}

/* R in optimizer-R.safetensors and the suffix; -1: another name. */
static int rank_in(const char *name, const char *suffix)
{
    char same[64];
    size_t n = strlen("optimizer-");
    if (strncmp(name, "optimizer-", n)) return -1;
    size_t k = strspn(name + n, "0123456789");
    if (k < 1 || k > 5) return -1;
    int rank = atoi(name + n);
    ckpt_file_name(same, ckpt_optimizer(rank), suffix);
    return strcmp(name, same) || rank >= CKPT_RANKS ? -1 : rank;
}

int ckpt_file(const char *name)
{
    int rank = rank_in(name, "");
    for (int i = 0; i < F_COUNT; i++)
        if (!strcmp(name, ckpt_name[i])) return i;
    return rank < 0 ? -1 : ckpt_optimizer(rank);
}

int ckpt_owns(const char *dir, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *at = xasprintf("%.*s.", (int)(name - path), path);
    struct stat a, b;
    int here = !stat(dir, &a) && !stat(at, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
    free(at);
    return here && (ckpt_file(name) >= 0 || !strcmp(name, JOURNAL) || !strcmp(name, CKPT_LOCK) ||
                    !strcmp(name, CKPT_STATUS));
}

DIR *ckpt_list(int fd)
{
    int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = again < 0 ? NULL : fdopendir(again);
    if (!d && again >= 0) close(again);
    return d;
}

/* Optimizer files in the folder, rank 0's apart: 1 + the highest rank of optimizer-R.safetensors with
 * that suffix, 1 if there is none; -1 with errno. */
static int rank_files(int fd, const char *suffix)
{
    int most = 0;
    DIR *d = ckpt_list(fd);
    if (!d) return -1;
    for (struct dirent *e; (e = readdir(d)); ) {
        int rank = rank_in(e->d_name, suffix);
        if (rank > most) most = rank;
    }
    closedir(d);
    return most + 1;
}

FileSet fileset_all(int fd, const char *suffix)
{
    return (FileSet){ (1u << F_COUNT) - 1, 1, rank_files(fd, suffix) };
}

int fileset_next(const FileSet *s, int file)
{
    for (file++; file < F_COUNT; file++)
        if (s->fixed >> file & 1) return file;
    int rank = file <= F_COUNT ? s->lo : file - F_COUNT;
    return rank < s->hi ? F_COUNT + rank : -1;
}

/* By ascending number; 0: not in order. */
static bool fileset_add(FileSet *s, int file)
{
    int rank = file - F_COUNT;
    if (file < F_COUNT) s->fixed |= 1u << file;
    else if (s->lo == s->hi) *s = (FileSet){ s->fixed, rank, rank + 1 };
    else if (rank == s->hi) s->hi++;
    else return false;
    return true;
}

static bool fileset_has(const FileSet *s, int file)
{
    if (file < F_COUNT) return s->fixed >> file & 1;
    return file - F_COUNT >= s->lo && file - F_COUNT < s->hi;
}

int ckpt_step(void)
{
    int k = ++ckpt_fault.steps;
    if (k == ckpt_fault.kill_at) _exit(77);
    if (k != ckpt_fault.fail_at) return 0;
    errno = ENOSPC;
    return -1;
}

static char *in_dir(const char *dir, const char *name, const char *suffix)
{
    size_t n = strlen(dir);
    return xasprintf("%s%s%s%s", dir, n && dir[n - 1] == '/' ? "" : "/", name, suffix);
}

/* ---- the journal: {"version": 1, "files": [...], "remove": [...]}, names of a checkpoint's files */

typedef struct Journal { bool there; FileSet files, remove; } Journal;

static FileSet set_of(const char *path, const Json *list)
{
    FileSet s = { 0 };
    if (!list || list->kind != J_ARR) die("%s: not a commit journal: no list of files", path);
    for (const Json *j = list->child; j; j = j->next) {
        int i = j->kind == J_STR && strlen(j->s) == j->len ? ckpt_file(j->s) : -1;
        if (i < 0) die("%s: names a file that this version does not know", path);
        if (!fileset_add(&s, i)) die("%s: not a commit journal: ranks out of order", path);
    }
    return s;
}

static void journal_parse(Journal *j, const char *path, const Buf *b)
{
    Arena a = { 0 };
    const char *err;
    size_t at;
    int64_t version;
    const Json *o = json_parse(&a, b->s, b->n, &err, &at);
    if (!o) die("%s: not a commit journal: %s, byte %zu", path, err, at);
    if (!json_int(json_get(o, "version"), &version) || version != 1)
        die("%s: a commit journal of another version", path);
    *j = (Journal){ true, set_of(path, json_get(o, "files")),
                    set_of(path, json_get(o, "remove")) };
    arena_free(&a);
}

/* Reads by descriptor: a writer may finish and remove the journal at any moment. */
static Journal journal_read(const char *dir)
{
    Journal j = { 0 };
    char *path = in_dir(dir, JOURNAL, "");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT && errno != ENOTDIR) die("%s:", path);
    if (fd >= 0) {
        Buf b = { 0 };
        ssize_t k;
        do {
            buf_reserve(&b, 4096);
            k = read(fd, b.s + b.n, 4096);
            if (k < 0 && errno != EINTR) die("%s:", path);
            if (k > 0) b.n += (size_t)k;
            if (b.n > JOURNAL_MAX) die("%s: not a commit journal: too long", path);
        } while (k);
        close(fd);
        journal_parse(&j, path, &b);
        buf_free(&b);
    }
    free(path);
    return j;
}

static void list_names(Buf *b, const char *key, const FileSet *s)
{
    buf_printf(b, ", \"%s\": [", key);
    const char *comma = "";
    for (int i = -1; (i = fileset_next(s, i)) >= 0; ) {
        char name[64];
        ckpt_file_name(name, i, "");
        buf_printf(b, "%s\"%s\"", comma, name);
        comma = ", ";
    }
    buf_char(b, ']');
}

/* ---- reading */

static bool absent(const char *path)
{
    struct stat st;
    return stat(path, &st) && (errno == ENOENT || errno == ENOTDIR);
}

static char *path_of(const char *dir, int file)
{
    char name[64];
    ckpt_file_name(name, file, "");
    Journal j = journal_read(dir);
    char *path = in_dir(dir, name, ""), *new = in_dir(dir, name, ".new");
    bool use_new = fileset_has(&j.files, file) && !absent(new);
    bool none = fileset_has(&j.remove, file) || (!use_new && absent(path));
    if (use_new || none) { free(path); path = use_new ? new : NULL; }
    if (!use_new) free(new);
    return path;
}

char *ckpt_path(const char *dir, const char *name)
{
    int file = ckpt_file(name);
    if (file >= 0) return path_of(dir, file);
    char *path = in_dir(dir, name, "");
    if (!absent(path)) return path;
    free(path);
    return NULL;
}

/* A lock within `patience` seconds; 0, or -1 (EWOULDBLOCK: held by another; or no locks here). */
static int lock_soon(int fd, int how, double patience)
{
    for (double waited = 0; flock(fd, how | LOCK_NB); waited += 0.01) {
        if (errno == EINTR) continue;
        if (errno != EWOULDBLOCK || waited >= patience) return -1;
        nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    }
    return 0;
}

/* The directory itself is the lock: shared by readers, exclusive while files are being renamed.
 * Whoever stops in the middle holds the other side up for PATIENCE seconds at most. */
int snapshot_begin(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) lock_soon(fd, LOCK_SH, PATIENCE);
    return fd;
}

void snapshot_end(int snapshot)
{
    if (snapshot >= 0) close(snapshot);
}

/* ---- finishing a commit. Every part may be done again after a kill. */

static int do_rename(int fd, const char *from, const char *to)
{
    return ckpt_step() || renameat(fd, from, fd, to) ? -1 : 0;
}

static int do_unlink(int fd, const char *name)
{
    return ckpt_step() || (unlinkat(fd, name, 0) && errno != ENOENT) ? -1 : 0;
}

static int do_fsync(int fd)
{
    return ckpt_step() || fsync(fd) ? -1 : 0;
}

/* From the journal's rename on: new names over old, removals, and the journal last. */
static int roll_forward(int fd, const FileSet *files, const FileSet *removed)
{
    char name[64], new[64];
    for (int i = -1; (i = fileset_next(files, i)) >= 0; ) {
        ckpt_file_name(name, i, "");
        ckpt_file_name(new, i, ".new");
        if (do_rename(fd, new, name) && errno != ENOENT) return -1;
    }
    for (int i = -1; (i = fileset_next(removed, i)) >= 0; ) {
        ckpt_file_name(name, i, "");
        if (do_unlink(fd, name)) return -1;
    }
    return do_fsync(fd) || do_unlink(fd, JOURNAL) || do_fsync(fd) ? -1 : 0;
}

/* Finish what a killed writer left: the rest of a commit, or the files of one that never was. */
static int recover(const char *dir, int fd)
{
    char name[64];
    Journal j = journal_read(dir);
    if (j.there) {
        int locked = lock_soon(fd, LOCK_EX, PATIENCE) == 0;
        int r = roll_forward(fd, &j.files, &j.remove);
        if (locked) flock(fd, LOCK_UN);
        if (r) return -1;
    }
    FileSet all = fileset_all(fd, ".new");
    if (all.hi < 0) return -1;
    for (int i = -1; (i = fileset_next(&all, i)) >= 0; ) {
        ckpt_file_name(name, i, ".new");
        if (faccessat(fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 && do_unlink(fd, name)) return -1;
    }
    if (faccessat(fd, JOURNAL ".new", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return do_unlink(fd, JOURNAL ".new");
    return 0;
}

/* ---- the writer's lock */

static struct { int fd; dev_t dev; ino_t ino; } held = { .fd = -1 };

/* Is the directory open at fd the one of ckpt_lock()? */
static bool held_is(int fd)
{
    struct stat st;
    return held.fd >= 0 && !fstat(fd, &st) && st.st_dev == held.dev && st.st_ino == held.ino;
}

/* The lock's descriptor; -1 with errno (EWOULDBLOCK: another writer has it). A file system that
 * knows no locks is let pass. It is tried for a moment: ckpt_locked() of another program may hold
 * it for an instant. */
static int take_lock(const char *dir, int fd)
{
    int lock = openat(fd, CKPT_LOCK, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock < 0 || !lock_soon(lock, LOCK_EX, GLANCE)) return lock;
    if (errno == EWOULDBLOCK) {
        close(lock);
        errno = EWOULDBLOCK;
        return -1;
    }
    warn("%s: this file system has no locks: do not write here from two programs", dir);
    return lock;
}

void ckpt_unlock(void)
{
    if (held.fd >= 0) close(held.fd);
    held.fd = -1;
}

int ckpt_locked(const char *dir)
{
    char *path = in_dir(dir, CKPT_LOCK, "");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int held_by_other = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
    if (fd >= 0) close(fd);
    free(path);
    return held_by_other;
}

static int make_dirs(const char *dir)
{
    char *p = xstrdup(dir);
    int r = 0;
    for (char *s = p + (*p == '/'); !r && s; ) {
        s = strchr(s, '/');
        if (s) *s = 0;
        r = *p && mkdir(p, 0777) && errno != EEXIST ? -1 : 0;
        if (s) *s++ = '/';
    }
    free(p);
    return r;
}

/* A descriptor of dir, made if need be; -1 with errno. */
static int open_dir(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 || errno != ENOENT) return fd;
    if (make_dirs(dir)) return -1;
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int up = fd >= 0 ? openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (up >= 0) { fsync(up); close(up); }
    return fd;
}

#define IN_USE "another program is writing this model directory"

void ckpt_lock(const char *dir)
{
    struct stat st;
    int fd = open_dir(dir);
    if (fd < 0 || fstat(fd, &st)) die("%s:", dir);
    if (!held_is(fd)) {
        ckpt_unlock();
        held.fd = take_lock(dir, fd);
        if (held.fd < 0 && errno == EWOULDBLOCK) die("%s: " IN_USE, dir);
        if (held.fd < 0) die("%s/" CKPT_LOCK ":", dir);
        held.dev = st.st_dev;
        held.ino = st.st_ino;
    }
    if (recover(dir, fd)) die("%s: cannot finish an interrupted commit:", dir);
    close(fd);
}

/* ---- a commit */

static void fail(Commit *c, const char *name, const char *suffix)
{
    int err = errno;
    char *path = in_dir(c->dir, name, suffix);
    if (!c->failed) { errno = err; note(0, "%s:", path); }
    c->failed = true;
    free(path);
}

int commit_begin(Commit *c, const char *dir)
{
    *c = (Commit){ .dir = dir, .fd = open_dir(dir), .lock = -1 };
    if (c->fd < 0) {
        note(0, "%s:", dir);
        return -1;
    }
    if (!held_is(c->fd) && (c->lock = take_lock(dir, c->fd)) < 0) {
        if (errno == EWOULDBLOCK) note(0, "%s: " IN_USE, dir);
        else note(0, "%s/" CKPT_LOCK ":", dir);
        close(c->fd);
        return -1;
    }
    if (recover(dir, c->fd)) fail(c, JOURNAL, "");
    return 0;
}

/* One block per file on top, for what the last blocks waste. */
void commit_room(Commit *c, uint64_t bytes)
{
    struct statvfs v;
    if (c->failed || fstatvfs(c->fd, &v) || !v.f_blocks) return;
    uint64_t free_ = (uint64_t)v.f_bavail * v.f_frsize;
    bytes += (uint64_t)F_COUNT * v.f_bsize;
    if (bytes <= free_) return;
    char *path = in_dir(c->dir, ckpt_name[F_MODEL], "");
    note(0, "%s: No space left on device (the checkpoint takes %.1f MB, %.1f MB are free)", path,
         (double)bytes / 1e6, (double)free_ / 1e6);
    c->failed = true;
    free(path);
}

int commit_create(Commit *c, int file)
{
    char name[64];
    if (c->failed) return -1;
    ckpt_file_name(name, file, ".new");
    int fd = ckpt_step() ? -1 : openat(c->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        ckpt_file_name(name, file, "");
        fail(c, name, "");
    } else {
        fileset_add(&c->files, file);
    }
    return fd;
}

void commit_close(Commit *c, int fd, int file, int err)
{
    if (fd < 0) return;
    if (!err && do_fsync(fd)) err = errno;
    if (close(fd) && !err) err = errno;
    if (!err) return;
    char name[64];
    ckpt_file_name(name, file, "");
    errno = err;
    fail(c, name, "");
}

static int write_journal(Commit *c, const FileSet *removed)
{
    Buf b = { 0 };
    buf_str(&b, "{\"version\": 1");
    list_names(&b, "files", &c->files);
    list_names(&b, "remove", removed);
    buf_str(&b, "}\n");
    int fd = ckpt_step()
                 ? -1
                 : openat(c->fd, JOURNAL ".new", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    int r = fd < 0 ? -1 : 0;
    ssize_t k = r ? 0 : write(fd, b.s, b.n);
    if (!r && k != (ssize_t)b.n) {
        if (k >= 0) errno = ENOSPC;
        r = -1;
    }
    if (!r && do_fsync(fd)) r = -1;
    int err = errno;
    if (fd >= 0) close(fd);
    buf_free(&b);
    errno = err;
    return r;
}

static void give_up(Commit *c)
{
    char name[64];
    for (int i = -1; (i = fileset_next(&c->files, i)) >= 0; ) {
        ckpt_file_name(name, i, ".new");
        unlinkat(c->fd, name, 0);
    }
}

int commit_join(Commit *c, const char *dir)
{
    *c = (Commit){ .dir = dir, .fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), .lock = -1 };
    if (c->fd < 0) note(0, "%s:", dir);
    return c->fd < 0 ? -1 : 0;
}

void commit_leave(Commit *c)
{
    if (c->failed) give_up(c);
    close(c->fd);
}

void commit_ranks(Commit *c, int ranks)
{
    if (ranks > 1) c->files.lo = 1, c->files.hi = ranks;
}

int commit_end(Commit *c, unsigned remove)
{
    int ranks = c->files.hi ? c->files.hi : 1, were = rank_files(c->fd, "");
    FileSet removed = { remove, ranks, were > ranks ? were : ranks };
    if (!c->failed && (were < 0 || do_fsync(c->fd) || write_journal(c, &removed)))
        fail(c, JOURNAL, "");
    bool locked = !c->failed && lock_soon(c->fd, LOCK_EX, PATIENCE) == 0;
    if (!c->failed && do_rename(c->fd, JOURNAL ".new", JOURNAL)) fail(c, JOURNAL, "");
    if (c->failed) {
        give_up(c);
        unlinkat(c->fd, JOURNAL ".new", 0);
    } else if (do_fsync(c->fd) || roll_forward(c->fd, &c->files, &removed)) {
        char *path = in_dir(c->dir, JOURNAL, "");       /* the new checkpoint counts already */
        note(0, "%s: the next save will finish this commit:", path);
        free(path);
    }
    if (locked) flock(c->fd, LOCK_UN);
    close(c->fd);
    if (c->lock >= 0) close(c->lock);
    return c->failed ? -1 : 0;
}
