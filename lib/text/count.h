/* count.h -- counting the distinct pieces of texts, with several threads and bounded memory.
 *
 * One thread feeds; texts are collected in blocks, which other threads split and count, and the
 * feeder too when they are behind. The counts do not depend on threads, blocks, or what had to go
 * to disk on the way. Memory: `mem` and about 3 MB a thread, the longest text excepted; what is
 * more goes to sorted runs in tmpdir. */
#ifndef TEXT_COUNT_H
#define TEXT_COUNT_H
#include "text/pieces.h"
#include "text/split_other.h"
#include <stdbool.h>

typedef struct CountOptions {
    int threads;                /* counting, the feeder among them; at least 1 */
    size_t mem;                 /* bytes */
    size_t block;               /* bytes of text handed to a thread at a time; 0: the best value */
    size_t table;               /* bytes of the common tables; 0: by mem */
    const char *tmpdir;
    SplitKind split;            /* into pieces; 0 is nanochat's way */
} CountOptions;

typedef struct Counter Counter;
Counter *counter_new(const CountOptions *o);
void counter_text(Counter *c, const char *s, size_t n);     /* valid UTF-8; copied */
/* One piece. False, and nothing is added: then tables of counts would be of more than 2^62
 * bytes of text in all, and counts of pairs would not fit their 64 bits. */
bool counter_add(Counter *c, const char *s, size_t n, int64_t count);
/* The pieces that occur min_count times or more, in no particular order; *total the sum of all
 * counts, *distinct how many different ones there were. Dies if the list passes `mem`. */
Pieces counter_end(Counter *c, int64_t min_count, uint64_t *total, uint64_t *distinct);

#endif
