/* csv.h -- comma- or tab-separated values (RFC 4180) into JSON objects, as a stream.
 *
 * The first record names the fields; every other one must have as many. A field in quotes may hold
 * separators, line ends and doubled quotes; a quote within one that is not in quotes is an error.
 * Lines end in LF or CR LF; empty ones are left out where there are several fields. All values are
 * strings. A byte-order mark is skipped; invalid UTF-8 becomes U+FFFD, counted. Dies "FILE: line N:
 * why". Memory: a record. */
#ifndef DATA_CSV_H
#define DATA_CSV_H
#include "base/buf.h"
#include <stdbool.h>
#include <stdint.h>

typedef bool CsvRow(void *arg, const char *json, size_t n);     /* false: no more are wanted */

typedef struct Csv {
    const char *file;           /* for messages */
    char sep;
    CsvRow *row; void *arg;
    /* {0} to begin with */
    Buf data, name, json, fixed;                /* fields of the record; quoted names with colons */
    size_t *end, *name_end; size_t n, cap, names;       /* where fields, names end */
    uint64_t line, began;       /* lines seen; where this record began */
    uint64_t replaced;
    int mark;                   /* bytes of the byte-order mark seen; 3: past where it can be */
    enum { CSV_START, CSV_PLAIN, CSV_QUOTED, CSV_QUOTE, CSV_CR } at;
    bool stop;
} Csv;

bool csv_feed(Csv *c, const char *s, size_t n);
void csv_end(Csv *c);
void csv_free(Csv *c);

#endif
