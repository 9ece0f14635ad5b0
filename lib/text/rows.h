/* rows.h -- row shards: what pack-rows writes and the trainer maps. Format: pipegpt-rows(5).
 *
 * A shard holds `rows` rows of T+1 tokens (u16 or u32) and, if it has masks, T+1 mask bits each;
 * XXH3 per block of rows and a trailer. Any row is one seek away. rows_open() checks the header,
 * the trailer and the file's size and dies "FILE: why" if they do not agree; rows_verify() reads
 * everything and checks the block hashes. A file that is cut short while it is mapped ends the
 * program with a message at the next read beyond its end (SIGBUS is handled here). Shards are opened
 * and unmapped by one thread. */
#ifndef TEXT_ROWS_H
#define TEXT_ROWS_H
#include "text/tokens.h"

#define ROWS_MAX_T (1 << 24)

typedef struct RowHead {
    uint32_t vocab, bos;        /* as TokenHead */
    uint32_t T;                 /* a row holds T+1 tokens; 1 .. ROWS_MAX_T */
    bool masks;
    uint64_t tok_hash;
    uint64_t rows;              /* set by rows_open(); rows_create() does not look at it */
} RowHead;

typedef struct RowWriter RowWriter;
RowWriter *rows_create(const char *path, const RowHead *h);
void rows_write(RowWriter *w, const uint32_t *id, const uint8_t *mask);     /* T+1 of each */
/* Write all of the shard, the trailer too; what is left to rows_close() is to give the file its
 * name. For sets of shards that must appear together. */
void rows_seal(RowWriter *w);
uint64_t rows_close(RowWriter *w);              /* seals if need be; returns rows written */
void rows_discard(RowWriter *w);                /* the file never was */

typedef struct Rows Rows;                       /* read-only: one may serve all threads */
Rows *rows_open(const char *path, RowHead *h);  /* mmapped; "-" is not possible */
const char *rows_name(const Rows *f);
uint64_t rows_count(const Rows *f);
/* Row r as training input and target: x[t] = row[t], y[t] = row[t+1], or -1 where the mask of
 * row[t+1] is 0. x and y hold T each. Thread-safe. Ids are checked: one >= vocab dies naming shard
 * and row. */
void rows_get(const Rows *f, uint64_t r, int32_t *x, int32_t *y);
/* The same row as it was written: T+1 ids and, if mask is not NULL, T+1 mask bytes (all 1 in a
 * shard without masks). */
void rows_raw(const Rows *f, uint64_t r, uint32_t *id, uint8_t *mask);
/* A number that names all the shard holds: the hash in its trailer, over the hashes of its blocks. */
uint64_t rows_hash(const Rows *f);
/* Block b of rows_blocks(): does its hash agree? Thread-safe. */
uint64_t rows_blocks(const Rows *f);
bool rows_block_good(const Rows *f, uint64_t b);
void rows_verify(const Rows *f);                /* every block; dies naming the first bad one */
_Noreturn void rows_block_bad(const Rows *f, uint64_t b);       /* the same, about block b */
void rows_unmap(Rows *f);

/* Dies "FILE: why" unless h, found in `name`, goes with `want`, found in `first`: tokenizer, T,
 * masks. */
void rows_same(const char *name, const RowHead *h, const char *first, const RowHead *want);

#endif
