#include "data/thrift.h"
#include <stdbool.h>

enum { DEPTH = 16 };                    /* structs and containers in each other, when skipping */

void thrift_fail(Thrift *t, const char *why)
{
    if (!t->bad) t->bad = why;
    t->p = t->end;
}

static unsigned byte(Thrift *t)
{
    if (t->p < t->end) return *t->p++;
    thrift_fail(t, "it ends too early");
    return 0;
}

static uint64_t varint(Thrift *t)
{
    uint64_t x = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        uint64_t b = byte(t);
        if (shift == 63 && b > 1) break;
        x |= (b & 127) << shift;
        if (b < 128) return x;
    }
    thrift_fail(t, "a number of more than 64 bits");
    return 0;
}

static int64_t zigzag(Thrift *t)
{
    uint64_t x = varint(t);
    return (int64_t)(x >> 1 ^ (0 - (x & 1)));
}

int thrift_field(Thrift *t, int *id)
{
    unsigned b = byte(t), type = b & 15;
    if (t->bad || b == T_STOP) return T_STOP;
    if (type == T_STOP || type > T_STRUCT) {
        thrift_fail(t, "a field of no type");
        return T_STOP;
    }
    int64_t next = b >> 4 ? *id + (int64_t)(b >> 4) : zigzag(t);
    if (t->bad || next <= 0 || next > 32767) {
        thrift_fail(t, "a field number out of range");
        return T_STOP;
    }
    *id = (int)next;
    return (int)type;
}

int64_t thrift_int(Thrift *t, int type)
{
    switch (type) {
    case T_BYTE: return (int8_t)byte(t);
    case T_I16: case T_I32: case T_I64: return zigzag(t);
    default: thrift_fail(t, "a field of another type than an integer"); return 0;
    }
}

int32_t thrift_i32(Thrift *t, int type)
{
    int64_t x = thrift_int(t, type);
    if (x == (int32_t)x) return (int32_t)x;
    thrift_fail(t, "a number of more than 32 bits");
    return 0;
}

const char *thrift_bin(Thrift *t, int type, size_t *n)
{
    *n = 0;
    if (type != T_BINARY) thrift_fail(t, "a field of another type than a string");
    uint64_t len = varint(t);
    if (len > (uint64_t)(t->end - t->p)) thrift_fail(t, "a string longer than what is there");
    const char *s = (const char *)t->p;
    if (t->bad) return s;
    *n = (size_t)len;
    t->p += len;
    return s;
}

size_t thrift_list(Thrift *t, int type, int *elem)
{
    if (type != T_LIST && type != T_SET) thrift_fail(t, "a field of another type than a list");
    unsigned b = byte(t);
    uint64_t n = b >> 4 == 15 ? varint(t) : b >> 4;
    *elem = (int)(b & 15);
    if (n > (uint64_t)(t->end - t->p)) thrift_fail(t, "a list longer than what is there");
    if (n && (*elem == T_STOP || *elem > T_STRUCT)) thrift_fail(t, "a list of no type");
    return t->bad ? 0 : (size_t)n;
}

static void skip(Thrift *t, int type, int depth, bool in_list)
{
    size_t n;
    int elem, id = 0;
    if (depth > DEPTH) {
        thrift_fail(t, "structures nested too deep");
        return;
    }
    switch (type) {
    case T_TRUE: case T_FALSE:          /* a field's value is its type; an element is a byte */
        if (in_list) byte(t);
        break;
    case T_BYTE: byte(t); break;
    case T_I16: case T_I32: case T_I64: varint(t); break;
    case T_DOUBLE:
        if (t->end - t->p < 8) thrift_fail(t, "it ends too early");
        else t->p += 8;
        break;
    case T_BINARY: thrift_bin(t, type, &n); break;
    case T_LIST: case T_SET:
        for (n = thrift_list(t, type, &elem); n && !t->bad; n--) skip(t, elem, depth + 1, true);
        break;
    case T_MAP: {
        uint64_t pairs = varint(t);
        unsigned kinds = pairs ? byte(t) : 0;
        if (pairs > (uint64_t)(t->end - t->p)) thrift_fail(t, "a map longer than what is there");
        for (; pairs && !t->bad; pairs--) {
            skip(t, (int)(kinds >> 4), depth + 1, true);
            skip(t, (int)(kinds & 15), depth + 1, true);
        }
        break;
    }
    case T_STRUCT:
        while ((type = thrift_field(t, &id)) != T_STOP) skip(t, type, depth + 1, false);
        break;
    default: thrift_fail(t, "a value of no type");
    }
}

void thrift_skip(Thrift *t, int type)
{
    skip(t, type, 0, false);
}
