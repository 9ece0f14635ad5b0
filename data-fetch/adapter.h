/* adapter.h -- the rows of a file through a jq program, as a stream.
 *
 * Each file has a `jq -nc --unbuffered --arg file FILE PROGRAM` of its own, run without a shell: rows go to its
 * stdin, a line each, and what it prints, a JSON object to a line, comes back as rows. Checked: that
 * it ends with status 0, that each line is an object, and how many there are. What it says on stderr
 * becomes our message, "FILE: row N: PROGRAM: why" (rows count from 1 there); everything that goes
 * wrong dies.
 *
 * Memory: the longest row, and some 100 KB. */
#ifndef DATA_FETCH_ADAPTER_H
#define DATA_FETCH_ADAPTER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A row: JSON without a line end. false: no more are wanted. */
typedef bool AdapterRow(void *arg, const char *s, size_t n);

/* What a line "# rows: WORD" before the program itself says of it: as many rows come out as go in
 * (also if there is no such line), or no more than that, or any number. */
typedef enum { ROWS_SAME, ROWS_FEWER, ROWS_ANY } RowsRule;

typedef struct Program {
    char *name, *text;          /* the last part of its path, for messages; the program itself */
    RowsRule rows;
    int seconds;                /* give up when jq has neither taken nor given a byte so long; 0: never */
} Program;

Program program_load(const char *path);         /* dies if it cannot be read */
void program_free(Program *p);

typedef struct Adapter Adapter;

Adapter *adapter_open(const Program *p, const char *file, AdapterRow *row, void *arg);
/* The index-th row of the file (from 0; they follow each other) goes in; some may come out. false: no
 * more are wanted, be it by row() or by the program. */
bool adapter_feed(Adapter *a, uint64_t index, const char *s, size_t n);
/* No more rows go in: those still inside come out, and all is checked; once row() wanted no more, jq is
 * ended instead. */
void adapter_close(Adapter *a);

#endif
