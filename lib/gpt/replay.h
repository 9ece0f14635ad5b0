/* replay.h -- work on a tape that is done again and again, as a graph (ops.h) where a back-end has
 * them: hundreds of small operations, which take longer to start than to do.
 *
 * Work can be noted down when it will find the addresses that it found before. The tape gives the same
 * ones for the same requests once it need not allocate any more; what else the work depends on is for
 * its key to say: addresses, shapes, and numbers that operations take by value. */
#ifndef GPT_REPLAY_H
#define GPT_REPLAY_H
#include "gpt/tape.h"
#include <string.h>

typedef struct Replay {             /* zero at the start */
    void *graph;
    uint64_t key;                   /* of the work that is in the graph, or that was done last */
    int steady, failed;             /* that allocated nothing; it cannot be noted down */
} Replay;

/* Does work(arg), which begins by resetting the tape if it must be as it was. What it leaves in host
 * memory stays as it is when the graph is run instead. key [n]. */
void replay(Replay *r, Tape *t, const uint64_t *key, int n, void (*work)(void *arg), void *arg);
void replay_free(Replay *r, const Ops *ops);

/* for a key */
static inline uint64_t replay_address(const void *p) { return (uint64_t)(uintptr_t)p; }
static inline uint64_t replay_number(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

#endif
