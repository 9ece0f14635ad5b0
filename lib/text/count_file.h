/* count_file.h -- the counted table of a corpus as a file, see pipegpt-counts(5). */
#ifndef TEXT_COUNT_FILE_H
#define TEXT_COUNT_FILE_H
#include "base/io.h"
#include "text/count.h"

typedef struct CountInfo { uint64_t docs, chars, bytes; } CountInfo;    /* of the text counted */

/* v sorted, without repetitions. */
void counts_write(Out *o, const Pieces *v, const CountInfo *info);
bool counts_begin(In *in);      /* is this such a file? Consumes nothing */
/* All of it into c; what info says is added to *info. Dies "FILE: why". */
void counts_read(In *in, Counter *c, CountInfo *info);

#endif
