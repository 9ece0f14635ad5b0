/* thrift.h -- reading Thrift's compact protocol from bytes nobody vouches for.
 *
 * (github.com/apache/thrift, doc/specs/thrift-compact-protocol.md.) A reader walks a span; the
 * first thing that is not well-formed sets bad, after which everything reads as 0 and as the end.
 * Nothing is copied: strings point into the span. */
#ifndef DATA_THRIFT_H
#define DATA_THRIFT_H
#include <stddef.h>
#include <stdint.h>

typedef struct Thrift {
    const uint8_t *p, *end;
    const char *bad;            /* what was wrong, or NULL */
} Thrift;

enum { T_STOP, T_TRUE, T_FALSE, T_BYTE, T_I16, T_I32, T_I64, T_DOUBLE, T_BINARY, T_LIST, T_SET,
       T_MAP, T_STRUCT };

/* Fields of a struct: *id starts as 0 and is the field's number afterwards; returns its type, or
 * T_STOP at the end. Each field's value must then be read, or skipped. */
int thrift_field(Thrift *t, int *id);
int64_t thrift_int(Thrift *t, int type);        /* of an integer type; any other is bad */
int32_t thrift_i32(Thrift *t, int type);        /* and fits */
const char *thrift_bin(Thrift *t, int type, size_t *n);
/* Number of elements, each of type *elem; no more than bytes are left. */
size_t thrift_list(Thrift *t, int type, int *elem);
void thrift_skip(Thrift *t, int type);
void thrift_fail(Thrift *t, const char *why);   /* if it is the first */

#endif
