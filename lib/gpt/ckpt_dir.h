/* ckpt_dir.h -- replacing several files of a directory at once; only ckpt*.c include it.
 *
 *     Commit c;
 *     if (commit_begin(&c, dir)) return -1;
 *     int fd = commit_create(&c, F_CONFIG);           // ... write
 *     commit_close(&c, fd, F_CONFIG, err);            // err: errno of a failed write, or 0
 *     return commit_end(&c, 1 << F_STATE);            // what is no longer wanted
 *
 * Other ranks of the run write their optimizer-RANK.safetensors between the first rank's begin and
 * end, with commit_join() and commit_leave(); commit_ranks() tells the first how many they are.
 *
 * The first failure is told, also with -q, and kept; commit_end() then removes what was written and
 * returns -1, and the directory is as it was before. */
#ifndef GPT_CKPT_DIR_H
#define GPT_CKPT_DIR_H
#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CKPT_LOCK ".lock"
#define CKPT_RANKS 65536            /* ranks that a checkpoint may be of, at most */
enum { F_MODEL, F_CONFIG, F_TOK, F_STATE, F_OPTIM, F_EMA, F_CLOCK, F_ADAPTER,
       F_ADAPTER_CONFIG, F_COUNT };
extern const char *const ckpt_name[F_COUNT];
/* A file's number: one of those, or of optimizer-R.safetensors, R > 0. */
static inline int ckpt_optimizer(int rank) { return rank ? F_COUNT + rank : F_OPTIM; }
void ckpt_file_name(char out[64], int file, const char *suffix);
int ckpt_file(const char *name);    /* -1: none of a checkpoint's */
DIR *ckpt_list(int fd);         /* what is in the folder, whose descriptor stays; NULL with errno */

/* Files of a checkpoint: bit i is ckpt_name[i]; and those of the ranks from lo on, below hi. */
typedef struct FileSet { unsigned fixed; int lo, hi; } FileSet;
/* All that may be there with that suffix: of the ranks as far as there are any; hi -1 with errno. */
FileSet fileset_all(int fd, const char *suffix);
int fileset_next(const FileSet *s, int file);   /* the file after this one (-1: the first), or -1 */

typedef struct Commit {
    const char *dir;
    int fd;                         /* of the directory */
    int lock;                       /* of this commit alone; -1: under ckpt_lock() */
    FileSet files;                  /* made, with the suffix .new */
    bool failed;
} Commit;

int commit_begin(Commit *c, const char *dir);
void commit_room(Commit *c, uint64_t bytes);            /* fails now if the disk has less left */
int commit_create(Commit *c, int file);                 /* a descriptor, or -1 */
void commit_close(Commit *c, int fd, int file, int err);
void commit_ranks(Commit *c, int ranks);                /* all have written theirs */
int commit_end(Commit *c, unsigned remove);             /* bits; 0 or -1 */
int commit_join(Commit *c, const char *dir);            /* 0 or -1 */
void commit_leave(Commit *c);                           /* failed: nothing is left of it */

int ckpt_step(void);        /* before each step: 0, or -1 with errno set by a test */

/* A reader between these two sees the files of one checkpoint, whatever a writer does. */
int snapshot_begin(const char *dir);
void snapshot_end(int snapshot);

#endif
