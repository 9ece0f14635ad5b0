/* spill.h -- sorted runs of (bytes, count) in an unlinked temporary file, and merging them.
 *
 * Runs are written one at a time, in rising order of bytes (a prefix before what it begins), and
 * merged with equal bytes' counts added. Dies when the file cannot be made, written or read. */
#ifndef TEXT_SPILL_H
#define TEXT_SPILL_H
#include "base/buf.h"
#include <stdbool.h>

typedef struct Spill { int fd; const char *dir; uint64_t end; Buf out; } Spill; /* fd -1: none */
typedef struct Run { uint64_t at, end; } Run;           /* bytes of the file */
typedef struct Runs { Run *r; size_t n, cap; } Runs;    /* {0} is empty */

typedef void SpillEach(void *to, const char *s, size_t n, int64_t count);

void spill_init(Spill *f, const char *dir);             /* the file comes when needed */
void spill_begin(Spill *f, Runs *v);
void spill_put(Spill *f, const char *s, size_t n, int64_t count);
void spill_end(Spill *f, Runs *v);                      /* the run is complete; one of v */
/* All of v to each(), in order; at most SPILL_FAN at once, so with more than that v is shortened by
 * merging runs first. v is empty then. */
void spill_merge(Spill *f, Runs *v, SpillEach *each, void *to);
void spill_free(Spill *f);

enum { SPILL_FAN = 64, SPILL_BUF = 32 << 10 };          /* memory of a merge: FAN times BUF */

#endif
