/* array.h -- a JSON array of objects into its elements, as a stream.
 *
 * Each element is parsed strictly (json.h) and put out on one line: line ends between its parts
 * become spaces. Dies "FILE: byte N: why". Memory: an element. */
#ifndef DATA_ARRAY_H
#define DATA_ARRAY_H
#include "base/buf.h"
#include <stdbool.h>
#include <stdint.h>

typedef bool ArrayRow(void *arg, const char *json, size_t n);   /* false: no more are wanted */

typedef struct Array {
    const char *file;
    ArrayRow *row; void *arg;
    /* {0} to begin with */
    Buf element;
    uint64_t pos, began;        /* bytes seen; where the element began */
    int depth;
    bool string, escape;        /* inside a string; after a backslash there */
    enum { ARRAY_OPEN, ARRAY_FIRST, ARRAY_ELEMENT, ARRAY_COMMA, ARRAY_NEXT, ARRAY_DONE } at;
    bool stop;
} Array;

bool array_feed(Array *a, const char *s, size_t n);
void array_end(Array *a);
void array_free(Array *a);

#endif
