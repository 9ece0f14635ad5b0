/* stats.h -- how well a tokenizer fits texts, and a comparison of two on the same ones. */
#ifndef STATS_H
#define STATS_H
#include "text/tok.h"

/* Counts over the documents of the n files argv[1 ..], or stdin if n is 0; a row per file. tok[1]
 * may be NULL; name[] is what they are called. */
void stats_all(const Tok *const tok[2], const char *const name[2], int n, char **argv,
               const char *output);

#endif
