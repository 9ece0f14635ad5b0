/* data_int.h -- what the files of the data module share. */
#ifndef GPT_DATA_INT_H
#define GPT_DATA_INT_H
#include "gpt/data.h"

typedef struct Paths { char **s; size_t n, cap; } Paths;

/* What spec names, in its order; a pattern's or a directory's files by name. Dies on a name that is
 * not there, a pattern without a match, a directory without shards. */
Paths paths_expand(const StrList *spec);
void paths_free(Paths *v);

#endif
