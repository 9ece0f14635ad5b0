/* data.h -- row shards as one endless sequence of rows, for training and evaluation.
 *
 * The shards count as one array of `rows` rows, in the order given. An epoch takes each of them
 * once: in the order of the files, or (data_shuffle) in a random order of its own, which seed and
 * epoch name and which is computed, not stored. A position counts the rows taken since the
 * beginning; it is all there is to save.
 *
 * Shards may be added (data_grow), from the end of an epoch on: what came before keeps its order.
 *
 * data_open() dies on a shard that cannot be read ("FILE: why"), on shards that disagree in T,
 * tokenizer, vocabulary or masks (naming both values), and when there is no row at all. */
#ifndef GPT_DATA_H
#define GPT_DATA_H
#include "base/opt.h"
#include "text/rows.h"

/* From position pos on, where epoch `epoch` begins, an epoch is the first n shards. */
typedef struct DataSpan { uint64_t pos, epoch, rows; int n; } DataSpan;

typedef struct Data {
    RowHead head;               /* what all shards agree on; head.rows is the last span's */
    StrList spec;               /* a copy, for data_grow() */
    int n;                      /* shards that hold rows */
    Rows **shard; char **path;
    uint64_t *first;            /* [n + 1] index of each shard's first row */
    DataSpan *span; int nspan;  /* one at least; the first begins at 0 */
    bool shuffled; uint64_t seed;
    struct DataCheck *check;    /* NULL: none in progress */
} Data;

/* spec: shards, patterns (*, ?, [ ]) or directories (their *.rows, by name). */
Data *data_open(const StrList *spec);
void data_free(Data *d);
/* Dies unless the rows were made with this tokenizer and have this T (0: any). */
void data_require(const Data *d, uint64_t tok_hash, int vocab, int T);

/* ---- order */
void data_shuffle(Data *d, uint64_t seed);
uint64_t data_row(const Data *d, uint64_t pos);                 /* row at position pos */
uint64_t data_epoch(const Data *d, uint64_t pos, uint64_t *in); /* its epoch, position in that */
double data_epochs(const Data *d, uint64_t pos);                /* the same, as one number */
/* The first position at or after pos where an epoch other than the first begins. */
uint64_t data_boundary(const Data *d, uint64_t pos);
/* Ranks: micro-batch i of this rank begins here. They take turns of B rows, so that a step takes
 * the same rows whatever their number. */
static inline uint64_t data_turn(uint64_t pos, int64_t i, int B, int rank, int ranks)
{
    return pos + ((uint64_t)i * (uint64_t)ranks + (uint64_t)rank) * (uint64_t)B;
}

/* ---- shards that come and go */
int data_unseen(const Data *d);         /* files that spec names and d does not hold */
/* Takes them in, for the epoch that begins at pos. Returns how many shards that adds. */
int data_grow(Data *d, uint64_t pos);
/* For a resume: the shards with these hashes (rows_hash) first, in this order. Returns how many of
 * them were found before one was not. */
int data_arrange(Data *d, const uint64_t *hash, int n);
void data_spans(Data *d, const DataSpan *span, int n);          /* takes a copy; rows are counted */

/* ---- rows */
void data_get(const Data *d, uint64_t pos, int32_t *x, int32_t *y);     /* as rows_get(); T each */
/* Rows pos .. pos+B-1 into x, y [B,T]; returns how many targets count (are not -1). */
uint64_t data_batch(const Data *d, uint64_t pos, int B, int32_t *x, int32_t *y);
/* The same count for n rows without keeping them; x, y [T] are scratch. */
uint64_t data_valid(const Data *d, uint64_t pos, uint64_t n, int32_t *x, int32_t *y);
/* For ids x [B,T], where the document of each token starts in its row (doc [B,T], as in ops.h): at
 * its last bos, or else at the row's start. */
void data_docs(int32_t *doc, const int32_t *x, int B, int T, uint32_t bos);
/* Which shard holds row r, and which of its rows that is: for messages. */
const char *data_where(const Data *d, uint64_t r, uint64_t *in_shard);

/* ---- damage (data_check.c). Every block's hash, once: now, with a progress line; or in a thread,
 * for the shards from number `from` on, of which data_look() tells: it dies naming file and block.
 * A thread that is at work when another is started is waited for. */
void data_verify(const Data *d);
void data_watch(Data *d, int from);
void data_look(const Data *d);
void data_unwatch(Data *d);             /* ends it, done or not */

#endif
