/* read.h -- the rows of a file, whatever its format: JSON Lines, an array, CSV, Parquet, text; of an
 * archive, those of the files in it.
 *
 * The format is the one that is said, or found by name and first bytes (data-fetch(1)). Bad rows and
 * damage die, "FILE: place: why". Memory: a row. */
#ifndef DATA_FETCH_READ_H
#define DATA_FETCH_READ_H
#include "adapter.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/opt.h"
#include "range.h"
#include "text.h"

/* A row: JSON without a line end. false: no more are wanted. */
typedef bool ReadRow(void *arg, const char *s, size_t n);

typedef struct Read {
    const char *format;         /* as for --format */
    StrList members;            /* of archives, the files to be read (archive.h); none: all */
    StrList columns;            /* of Parquet; none: all */
    SplitKind split; const char *sep;           /* of text; sep for SPLIT_SEP, not empty */
    Range range;                /* these rows, or bytes of text */
    const Program *program;     /* that rows go through, not NULL: not for text */
    bool any;                   /* JSON Lines may hold any objects or arrays, not documents only */
    ReadRow *row; void *arg;
    /* {0} to begin with */
    const char *found;          /* what the file read last is, in words */
    bool enough;                /* row() wants no more */
    uint64_t empty, replaced;   /* empty documents left out; invalid UTF-8 sequences, both so far */
    Adapter *adapter;           /* of the file that is being read */
    Buf made, repaired;
    Arena arena;
} Read;

void read_rows(Read *r, const char *path);      /* "-": stdin */
void read_from(Read *r, const char *path, In *in);      /* the same, opened already; takes `in` over */
bool read_is_parquet(const Read *r, const char *path, In *in);
void read_free(Read *r);

#endif
