/* mlog.h -- the file that metrics go to. A write that fails is told once and kept in `failed`: the
 * run saves itself before it ends. SIGPIPE must be ignored. */
#ifndef TRAIN_MLOG_H
#define TRAIN_MLOG_H
#include <stddef.h>
#include <stdint.h>

typedef struct MetricsLog { int fd, failed, sync; const char *name; } MetricsLog;

/* file NULL or "-": stdout. step < 0: a new run, the file begins empty; else the records up to this
 * step stay and what follows is cut off. Dies if it cannot be opened, or is no such file. */
void mlog_open(MetricsLog *l, const char *file, int64_t step);
void mlog_write(MetricsLog *l, const char *s, size_t n);        /* at once */
void mlog_sync(MetricsLog *l);                                  /* to the disk, if it is a file */
void mlog_close(MetricsLog *l);

#endif
