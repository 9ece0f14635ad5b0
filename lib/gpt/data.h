/* data.h -- row shards as one endless sequence of rows, for training and evaluation.
 *
 * The shards are taken in the order given and count as one array of `rows` rows. Position p of the
 * sequence is row p % rows of epoch p / rows: in this version the order within an epoch is that of
 * the files, and data_row() is the one place that says so. A position is all there is to save.
 *
 * data_open() dies on a shard that cannot be read ("FILE: why"), on shards that disagree in T,
 * tokenizer, vocabulary or masks (naming both values), and when there is no row at all. */
#ifndef GPT_DATA_H
#define GPT_DATA_H
#include "base/opt.h"
#include "text/rows.h"

typedef struct Data {
    RowHead head;               /* what all shards agree on; head.rows is the sum */
    int n;                      /* shards that hold rows */
    Rows **shard; char **path;
    uint64_t *first;            /* [n + 1] index of each shard's first row; first[n] = head.rows */
} Data;

/* spec: shards, patterns (*, ?, [ ]) or directories (their *.rows, by name). */
Data *data_open(const StrList *spec);
void data_free(Data *d);
/* Dies unless the rows were made with this tokenizer and have this T (0: any). */
void data_require(const Data *d, uint64_t tok_hash, int vocab, int T);

uint64_t data_row(const Data *d, uint64_t pos);                 /* row at position pos */
void data_get(const Data *d, uint64_t pos, int32_t *x, int32_t *y);     /* as rows_get(); T each */
/* Rows pos .. pos+B-1 into x, y [B,T]; returns how many targets count (are not -1). */
uint64_t data_batch(const Data *d, uint64_t pos, int B, int32_t *x, int32_t *y);
/* The same count for n rows without keeping them; x, y [T] are scratch. */
uint64_t data_valid(const Data *d, uint64_t pos, uint64_t n, int32_t *x, int32_t *y);

/* Which shard holds row r, and which of its rows that is: for messages. */
const char *data_where(const Data *d, uint64_t r, uint64_t *in_shard);
/* XXH3 over every shard's row count, first and last row: notices other data on a resume. */
uint64_t data_print(const Data *d);

#endif
