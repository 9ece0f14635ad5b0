/* pq.h -- what the files of the Parquet reader share. */
#ifndef DATA_PQ_H
#define DATA_PQ_H
#include "data/hybrid.h"
#include "data/parquet.h"

enum { PQ_BOOLEAN, PQ_INT32, PQ_INT64, PQ_INT96, PQ_FLOAT, PQ_DOUBLE, PQ_BYTE_ARRAY, PQ_FIXED,
       PQ_TYPES };
enum { PQ_PLAIN = 0, PQ_PLAIN_DICTIONARY = 2, PQ_RLE = 3, PQ_BIT_PACKED = 4,
       PQ_RLE_DICTIONARY = 8, PQ_ENCODINGS = 10 };
enum { PQ_REQUIRED, PQ_OPTIONAL, PQ_REPEATED };
typedef enum { AS_PLAIN, AS_UNSIGNED, AS_DATE, AS_TIME, AS_TIMESTAMP, AS_LIST, AS_MAP,
               AS_REFUSED } PqAs;

/* The schema is an array in the order of the file: a group's children follow it. */
typedef struct PqNode {
    const char *name; size_t name_len;
    Buf key;                    /* "name": as JSON has it */
    int type;                   /* -1: a group */
    int repetition, children;
    PqAs as; const char *refused;       /* AS_REFUSED: the name of what is not supported */
    int digits;                         /* of a second, in AS_TIME and AS_TIMESTAMP: 3, 6, 9 */
    int max_def, max_rep;
    int next;                   /* index after all that is below it */
    int leaf, leaves;           /* its first leaf's number, how many are below (1: itself) */
    bool wanted;
} PqNode;

typedef struct PqChunk {
    uint64_t start, size;       /* bytes of the file */
    int64_t values;
    int codec, type;
    uint32_t encodings;         /* a bit each, as the footer says */
} PqChunk;

/* One column's place in its chunk. */
typedef struct PqLeaf {
    int node;
    const PqChunk *chunk;
    uint64_t at, end;           /* bytes of the file that are still to be read */
    int64_t left;               /* values (nulls too) in pages to come */
    Buf dict; uint32_t *dict_at; uint32_t dict_n;       /* dict_at[dict_n + 1], of BYTE_ARRAY */
    bool has_dict;
    size_t dict_room;           /* numbers that dict_at has room for */
    size_t held;                /* bytes of all this */
    Buf page;
    uint32_t page_left;         /* values of this page after the one at hand */
    Hybrid reps, defs;
    int encoding;               /* of the values of this page */
    const uint8_t *v, *v_end; int bit;
    Hybrid idx;
    int rep, def;               /* of the value at hand; rep 0 at the end of the chunk */
    bool done;
} PqLeaf;

/* A pair of a MAP in the row being built: "key":value. */
typedef struct PqPair { size_t at, end; uint32_t key_len; } PqPair;

struct Parquet {
    const char *path;
    int fd;
    uint64_t size, data_end;    /* bytes; where the footer begins */
    Buf footer;
    PqNode *node; int nodes, leaves;
    int *leaf_node;             /* [leaves] */
    PqChunk *chunk; int64_t *group_rows; size_t groups; /* chunk[groups * leaves] */
    uint64_t rows;
    PqLeaf *leaf;               /* [leaves] */
    size_t group;               /* the one being read, its rows left */
    int64_t rows_left;
    Buf raw;                    /* a page as it lies in the file */
    size_t held;                /* bytes that all leaves hold */
    size_t limit; bool full;    /* of the row being built: where it would be too long */
    PqPair *pair; size_t npair, pair_cap;       /* of the maps being built, see pq_map.c */
};

/* pq_meta.c */
void pq_footer(Parquet *p);
const char *pq_encoding_name(int e);

/* pq_page.c. Appends a leaf's path, a.b.c, escaped as in JSON. */
void pq_column_name(const Parquet *p, int leaf, Buf *b);
/* Every failure dies, naming the column and where. */
_Noreturn void pq_bad(const Parquet *p, const PqLeaf *l, const char *why);
void pq_pread(const Parquet *p, void *to, size_t n, uint64_t at);
void pq_chunk(Parquet *p, PqLeaf *l, const PqChunk *c); /* to its first value */
/* Leaves the value at hand for the next. If it is not null (def is the node's max_def) one of the
 * take functions must have been called for it. */
void pq_next(Parquet *p, PqLeaf *l);
const char *pq_take_bytes(Parquet *p, PqLeaf *l, size_t *n);
void pq_take_fixed(Parquet *p, PqLeaf *l, void *to, size_t size);
bool pq_take_bool(Parquet *p, PqLeaf *l);

/* pq_map.c. A key was put out: the pair's number; its end is to be filled in after the value. */
size_t pq_pair(Parquet *p, const PqLeaf *l, size_t key, size_t key_end);
/* The map whose pairs began at number `first`, with its brackets, is all that b ends with. */
void pq_map_end(Parquet *p, size_t first, Buf *b);

/* pq_value.c: the value at hand, which is there, as JSON. */
void pq_value(Parquet *p, PqLeaf *l, Buf *out);

#endif
