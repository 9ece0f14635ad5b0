/* arena.h -- bump allocation by lifetime: what an arena gave is never freed singly.
 *
 * arena_alloc() returns zeroed memory aligned to 64 bytes. arena_reset() keeps the blocks for
 * reuse, so a loop that resets each time round allocates only in its first rounds.
 * Dies when memory runs out.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H
#include <stddef.h>

/* {0} is empty. used, peak: bytes given since the last reset, the most there ever were. */
typedef struct Arena { struct ArenaBlock *first, *now; size_t used, peak; } Arena;

void *arena_alloc(Arena *a, size_t n);
char *arena_strndup(Arena *a, const char *s, size_t n);     /* adds a NUL */
void arena_reset(Arena *a);
void arena_free(Arena *a);

#endif
