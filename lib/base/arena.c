#include "base/arena.h"
#include "base/err.h"
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64, FIRST = 64 << 10, LARGEST = 16 << 20 };

typedef struct ArenaBlock {
    struct ArenaBlock *next;
    char *at;                       /* aligned start of the bytes */
    size_t cap, n;                  /* bytes there, bytes given */
    size_t dirty;                   /* bytes that were ever given: past them all is still zero */
} ArenaBlock;

static ArenaBlock *block_new(size_t n)
{
    ArenaBlock *k = xcalloc(1, size_add(n, sizeof(ArenaBlock) + ALIGN));
    uintptr_t p = (uintptr_t)(k + 1);
    k->at = (char *)(k + 1) + (-p & (ALIGN - 1));
    k->cap = n;
    return k;
}

/* The next block that has room for n, made if there is none. Blocks double up to LARGEST. */
static ArenaBlock *block_for(Arena *a, size_t n)
{
    ArenaBlock *last = a->now, *k = last ? last->next : a->first;
    for (; k; last = k, k = k->next) if (n <= k->cap) return k;
    size_t cap = last ? 2 * (last->cap < LARGEST / 2 ? last->cap : LARGEST / 2) : FIRST;
    k = block_new(cap < n ? n : cap);
    if (last) last->next = k; else a->first = k;
    return k;
}

void *arena_alloc(Arena *a, size_t n)
{
    n = size_add(n ? n : 1, ALIGN - 1) & ~(size_t)(ALIGN - 1);
    ArenaBlock *k = a->now;
    if (!k || n > k->cap - k->n) k = a->now = block_for(a, n);
    char *p = k->at + k->n;
    if (k->dirty > k->n) memset(p, 0, k->dirty - k->n < n ? k->dirty - k->n : n);
    k->n += n;
    if (k->dirty < k->n) k->dirty = k->n;
    a->used += n;
    if (a->peak < a->used) a->peak = a->used;
    return p;
}

char *arena_strndup(Arena *a, const char *s, size_t n)
{
    char *p = arena_alloc(a, size_add(n, 1));
    if (n) memcpy(p, s, n);
    return p;
}

void arena_reset(Arena *a)
{
    for (ArenaBlock *k = a->first; k; k = k->next) k->n = 0;
    a->now = a->first;
    a->used = 0;
}

void arena_free(Arena *a)
{
    for (ArenaBlock *k = a->first, *next; k; k = next) {
        next = k->next;
        free(k);
    }
    *a = (Arena){0};
}
