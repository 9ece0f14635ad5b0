/* source.h -- what an operand of the command line stands for: files here and how to read them.
 *
 * NAME[:SPLIT] of a manifest (sets.h), a URL, or a local path, in this order of preference: a local
 * file whose name it is, ARCHIVE:PATTERN, a set, a URL. The reading part gets local files only. */
#ifndef DATA_FETCH_SOURCE_H
#define DATA_FETCH_SOURCE_H
#include "adapter.h"
#include "base/opt.h"
#include "data/fetch.h"
#include "operand.h"
#include "sets.h"

typedef struct Source {
    Operand op;                 /* op.path: the name in messages, in --provenance, in the hash order */
    const char *at;             /* op.path without the pattern of an archive's files */
    StrList members;            /* of an archive: patterns of the files to be read; none: all */
    Program *program;           /* that the rows go through, or NULL */
    Set *set;                   /* NULL for a local path; its format, adapter, separator, columns */
    int nfile;                  /* its files' rows are numbered through: op.from and op.to are of all */
    const char **file;          /* once source_fetch() was called: those of this machine, else NULL */
    Fetcher *fetcher; int *job;                 /* [nfile]: the others' numbers there */
} Source;

/* Exit 1 if there is nothing of that name; nothing is fetched yet. */
Source source_parse(Arena *a, const char *s);
/* Begins to fetch what the n sources need of the network, in their order. The fetcher must live as
 * long as source_file() is called. */
Fetcher *source_fetch(Arena *a, Source *s, int n, const Fetch *how);
/* The path of the i-th file, once it is here; dies if a file cannot be had. */
const char *source_file(const Source *s, int i);
/* What would be fetched: {"source", "files", "bytes", "rows", "licence", "adapter", "first",
 * "last"}, a line each; what is not known is left out. */
void source_plan(Arena *a, const Source *s, int n);

#endif
