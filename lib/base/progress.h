/* progress.h -- one line on stderr: redrawn at most 10 times a second on a terminal, otherwise
 * a plain line every 10 s; silent with -q. Never an escape code in a file.
 *
 *     Progress p = { .what = "encoding", .unit = "B", .total = size };   // total 0: not known
 *     progress(&p, done);  ...  progress_end(&p);
 */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H
#include "base/buf.h"

typedef struct Progress {
    const char *what, *unit;    /* "encoding", "B" (bytes are shown in KB, MB, GB) or "rows" ... */
    uint64_t total;
    uint64_t from;                  /* done before we began: not part of the rate */
    const char *extra;              /* appended to the line if not NULL ("loss 3.21") */
    const char *whole;              /* if not NULL, the line, in place of all that */
    double t0, last;                /* kept here: when it began, when last drawn */
    int drawn;
} Progress;

void progress(Progress *p, uint64_t done);      /* cheap to call often */
void progress_end(Progress *p);                 /* clears the line on a terminal */
double now_seconds(void);                       /* monotonic */
void buf_duration(Buf *b, double seconds);      /* "0:15", "3:02:11" */

#endif
