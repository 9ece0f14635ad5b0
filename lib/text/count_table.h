/* count_table.h -- counts by piece, shared by threads: 64 hash tables with a lock each.
 *
 * A piece of up to 15 bytes is its own key, (k0, k1): its bytes, zeros, its length in the highest
 * byte. A longer one is its hash, and KEY_LONG and its place in the table's bytes. When the tables
 * would pass their share of memory, the one that wants to grow goes to disk as a sorted run. */
#ifndef TEXT_COUNT_TABLE_H
#define TEXT_COUNT_TABLE_H
#include "text/spill.h"
#include <pthread.h>
#include <stdatomic.h>

typedef struct Entry { uint64_t k0, k1; int64_t count; } Entry;     /* k1 = 0: empty */
#define KEY_MAX 15
#define KEY_LONG ((uint64_t)255 << 56)

enum { PARTS = 64, BATCH = 64 };

typedef struct Part {
    _Alignas(64) pthread_mutex_t lock;
    Entry *e; size_t n, mask;
    Buf bytes;                          /* of long pieces: u32 length, bytes */
    Runs runs;
} Part;

typedef struct Table {
    Part part[PARTS];
    size_t limit; atomic_size_t used;   /* bytes in e and bytes of all parts */
    pthread_mutex_t spilling; Spill spill; size_t spills;
} Table;

/* The parts' constants hold bytes that are not in UTF-8 text: no factor is ever 0. */
static inline uint64_t key_hash(uint64_t k0, uint64_t k1)
{
    unsigned __int128 x = k0 ^ 0xfffe9e3779b97f4bu;
    x *= k1 ^ 0xff51afd7ed558ccdu;
    return (uint64_t)x ^ (uint64_t)(x >> 64);
}
static inline unsigned key_part(uint64_t hash) { return (unsigned)(hash >> 58); }

void table_init(Table *t, size_t limit, const char *tmpdir);
/* Add n <= BATCH entries of part p, all short. */
void table_add(Table *t, unsigned p, const Entry *e, size_t n);
void table_add_long(Table *t, uint64_t hash, const char *s, size_t n, int64_t count);
/* Everything, once, to each(); what was given is freed on the way. In no particular order. */
void table_each(Table *t, SpillEach *each, void *to);

#endif
