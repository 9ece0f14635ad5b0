/* ckpt_dir.h -- replacing several files of a directory at once; only ckpt*.c include it.
 *
 *     Commit c;
 *     if (commit_begin(&c, dir)) return -1;
 *     int fd = commit_create(&c, F_CONFIG);           // ... write
 *     commit_close(&c, fd, F_CONFIG, err);            // err: errno of a failed write, or 0
 *     return commit_end(&c, 1 << F_STATE);            // what is no longer wanted
 *
 * The first failure is told, also with -q, and kept; commit_end() then removes what was written and
 * returns -1, and the directory is as it was before. */
#ifndef GPT_CKPT_DIR_H
#define GPT_CKPT_DIR_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CKPT_LOCK ".lock"
enum { F_MODEL, F_CONFIG, F_TOK, F_STATE, F_OPTIM, F_EMA, F_CLOCK, F_ADAPTER,
       F_ADAPTER_CONFIG, F_COUNT };
extern const char *const ckpt_name[F_COUNT];

typedef struct Commit {
    const char *dir;
    int fd;                         /* of the directory */
    int lock;                       /* of this commit alone; -1: under ckpt_lock() */
    unsigned files;                 /* bit i: ckpt_name[i].new was made */
    bool failed;
} Commit;

int commit_begin(Commit *c, const char *dir);
void commit_room(Commit *c, uint64_t bytes);            /* fails now if the disk has less left */
int commit_create(Commit *c, int file);                 /* a descriptor, or -1 */
void commit_close(Commit *c, int fd, int file, int err);
int commit_end(Commit *c, unsigned remove);             /* bits; 0 or -1 */

int ckpt_step(void);        /* before each step: 0, or -1 with errno set by a test */

/* A reader between these two sees the files of one checkpoint, whatever a writer does. */
int snapshot_begin(const char *dir);
void snapshot_end(int snapshot);

#endif
