/* json.h -- strict RFC 8259 JSON: a small document tree, and writing.
 *
 * json_parse() reads one value from s[0..n) into an arena. Refused: anything after the value but
 * white space, control characters in strings, bad escapes, malformed UTF-8, duplicate keys in an
 * object, nesting deeper than 64, numbers that are not JSON's (1e999 is one: its num is
 * infinite). \u escapes: a surrogate pair joins, each lone half becomes U+FFFD. Strings may hold
 * NUL: len rules (a NUL is put after it too). The tree lives as long as the arena, src as s.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H
#include "base/arena.h"
#include "base/buf.h"
#include <stdbool.h>

typedef enum { J_NULL, J_BOOL, J_NUM, J_STR, J_ARR, J_OBJ } JsonKind;

typedef struct Json {
    JsonKind kind;
    bool b;
    double num;                     /* J_NUM */
    const char *s;                  /* J_STR: unescaped; J_NUM: its text */
    size_t len;                     /* bytes of s */
    const char *key; size_t key_len;        /* member of an object */
    const char *src; size_t src_len;        /* this value's text in the input (not copied) */
    struct Json *child, *next;      /* elements or members, in order */
    int n;                          /* how many children */
} Json;

/* NULL on a syntax error: *err says what, *at is the byte offset. */
Json *json_parse(Arena *a, const char *s, size_t n, const char **err, size_t *at);

const Json *json_get(const Json *obj, const char *key);     /* NULL if absent or obj is no object */
bool json_int(const Json *j, int64_t *x);                       /* an integer that fits, exactly */
bool json_is_str(const Json *j, const char *s);

/* The value of four hex digits at p, or -1 if they are not there before end. */
int json_hex4(const char *p, const char *end);

void json_str(Buf *b, const char *s, size_t n);  /* quoted and escaped; invalid UTF-8 -> U+FFFD */
void json_str_valid(Buf *b, const char *s, size_t n);   /* the same, of what is known to be UTF-8 */
/* A text that reads back equal, of 15, 16 or 17 digits; integers to 2^53 plain; NaN: null. */
void json_num(Buf *b, double x);

#endif
