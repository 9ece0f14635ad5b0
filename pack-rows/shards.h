/* shards.h -- a set of row shards, PREFIX-00000.rows and on, or one FILE.rows.
 *
 * Shards are written under temporary names and get their own only in shards_finish(), the first one
 * last: where PREFIX-00000.rows stands, the set is whole. A program that dies leaves nothing. */
#ifndef PACK_ROWS_SHARDS_H
#define PACK_ROWS_SHARDS_H
#include "text/rows.h"

typedef struct Shards Shards;
/* to: PREFIX, or a name that ends in ".rows". `each` rows at most go to a shard of a set. */
Shards *shards_new(const char *to, const RowHead *h, uint64_t each, bool force);
void shards_row(Shards *s, const uint32_t *id, const uint8_t *mask);
/* Returns how many shards there are now. Dies if shards of an earlier, larger set stand beside
 * them, which a pattern would read too; with `force` those are removed. */
uint64_t shards_finish(Shards *s);
void shards_drop(Shards *s);            /* nothing was written */
bool shards_single(const char *to);
char *shards_names(const char *to, uint64_t n);     /* of n shards: the first and the last; free() */

#endif
