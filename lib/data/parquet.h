/* parquet.h -- rows of a Parquet file as JSON objects.
 *
 * (github.com/apache/parquet-format.) Read: data pages V1 and V2; encodings PLAIN, dictionary, RLE
 * (levels, booleans); codecs UNCOMPRESSED, SNAPPY, GZIP, ZSTD; BOOLEAN, INT32, INT64, FLOAT,
 * DOUBLE, BYTE_ARRAY; nested structs, lists (LIST rules 1 to 5) and maps. Everything else is
 * refused by name, and so is what is damaged: the message tells file, column and byte.
 *
 * A row is an object with the schema's names; a null is null, a list an array, a map an object: of
 * a key that a map has several times the last pair counts. A DATE is "2026-01-31", a TIME
 * "23:59:59.5", a TIMESTAMP both with a space. A BYTE_ARRAY must hold UTF-8. A float that is not
 * finite is refused: JSON has none.
 *
 * Memory, whatever the file says: PARQUET_PAGE bytes for a page, PARQUET_ALL for all of a row
 * group's columns together, PARQUET_ROW for a row, PARQUET_PAIRS in its maps; more is refused. One
 * thread. */
#ifndef DATA_PARQUET_H
#define DATA_PARQUET_H
#include "base/buf.h"
#include <stdbool.h>

#define PARQUET_PAGE ((size_t)128 << 20)
#define PARQUET_ALL ((size_t)160 << 20)
#define PARQUET_ROW ((size_t)48 << 20)
#define PARQUET_PAIRS ((size_t)1 << 20)
#define PARQUET_FOOTER ((size_t)32 << 20)

typedef struct Parquet Parquet;

bool parquet_magic(const char *s, size_t n);    /* do these first bytes say Parquet? */
/* columns: n top-level names to read (n 0: all). Dies "PATH: why". The file must be seekable. */
Parquet *parquet_open(const char *path, const char *const *columns, int n);
uint64_t parquet_rows(const Parquet *p);        /* in all row groups */
/* Appends the next row, without a line end; false at the end. Dies on damage. */
bool parquet_row(Parquet *p, Buf *out);
/* The file told for a person: rows, schema, row groups, codecs and encodings of each column. */
void parquet_describe(const Parquet *p, Buf *out);
void parquet_close(Parquet *p);

#endif
