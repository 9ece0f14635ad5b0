/* map.h -- a hash table from byte strings to 64-bit values, open addressing, keys copied.
 * {0} is empty. A pointer to a value holds until the next map_put(), a key's bytes (a NUL follows
 * them) until map_free(). Order of iteration is order of insertion. Dies when memory runs out. */
#ifndef BASE_MAP_H
#define BASE_MAP_H
#include "base/arena.h"
#include <stdint.h>

typedef struct MapEntry { const char *key; size_t len; uint64_t hash; int64_t val; } MapEntry;
typedef struct Map {
    MapEntry *e; size_t n, cap;             /* entries in order of insertion */
    uint32_t *slot; size_t nslot;           /* index + 1, 0 = empty */
    Arena keys; char *room; size_t nroom;   /* the keys' bytes; what is free of the last piece */
} Map;

int64_t *map_get(const Map *m, const void *key, size_t len);    /* NULL if absent */
int64_t *map_put(Map *m, const void *key, size_t len);          /* made with value 0 if absent */
void map_free(Map *m);

#endif
