/* stats.h -- how well a tokenizer fits texts, and a comparison of two on the same ones. */
#ifndef STATS_H
#define STATS_H
#include "text/tok.h"

typedef struct StatsOptions {
    const Tok *tok[2];          /* the second may be NULL */
    const char *name[2];        /* what they are called */
    const char *output;
    bool text;                  /* plain text in: a file is a document */
    int invalid;                /* DOCS_STRICT, DOCS_REPLACE */
} StatsOptions;

/* Counts over the documents of the n files argv[1 ..], or stdin if n is 0; a row per file. */
void stats_all(const StatsOptions *o, int n, char **argv);

#endif
