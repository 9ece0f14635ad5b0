/* sink.h -- where rows go: the output and, with --holdout, a second one. */
#ifndef DATA_FETCH_SINK_H
#define DATA_FETCH_SINK_H
#include "base/io.h"
#include "base/progress.h"
#include <stdbool.h>

typedef struct Sink {
    Out *out, *held;            /* held NULL: no holdout */
    double part;                /* of rows that are held out: by the hash of a row's bytes */
    bool provenance;            /* adds "_from": {"set": NAME, "row": INDEX} */
    uint64_t rows, held_rows, bytes, most;      /* rows: in all; most: 0, or stop after so many */
    bool json;                  /* progress as sink_tell() says, each second, in place of a line */
    Progress line;
    double began, said;         /* for json; 0: not yet */
    Buf row;
} Sink;

/* A row: a JSON object without its line end, the index-th (from 0) of `set`. A row that says where it
 * is from keeps that. false: no more are wanted. */
bool sink_row(Sink *k, const char *set, uint64_t index, const char *s, size_t n);
bool sink_full(const Sink *k);
/* {"state": STATE, "rows": N, "bytes": N, "rate": bytes a second}, a line on stderr. */
void sink_tell(const Sink *k, const char *state);

#endif
