/* inspect.h -- what a file holds, told for a person. */
#ifndef DATA_FETCH_INSPECT_H
#define DATA_FETCH_INSPECT_H
#include "read.h"

/* Appends to out: of Parquet its schema and columns, of an archive its files, of all others, and of
 * ARCHIVE:PATTERN, the format, and each field of the first `most` rows with its types and how often
 * they occur. r: how to read it; its row() is set here. Dies as reading does. */
void inspect(const char *file, Read *r, uint64_t most, Buf *out);

#endif
