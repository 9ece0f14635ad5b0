/* range.h -- START:STOP, of bytes or rows, each end a number, a percentage or left out. */
#ifndef DATA_FETCH_RANGE_H
#define DATA_FETCH_RANGE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct RangeEnd { bool percent; uint64_t n; } RangeEnd;     /* n: units, or 10^-6 percent */
typedef struct Range { RangeEnd from, to; } Range;  /* to.n = UINT64_MAX: to the end */

bool range_parse(const char *s, Range *r);      /* false if s is no range */
bool range_relative(const Range *r);            /* has a percentage, so that the size is needed */
/* Units [*from, *to) of a file of `size` of them (looked at only for percentages; rounded down). */
void range_resolve(const Range *r, uint64_t size, uint64_t *from, uint64_t *to);

/* A cut of a byte stream at an offset, moved forward to the next start of a character: a cut never
 * parts one, and what ends at a cut is what begins there. */
typedef struct Cut { uint64_t at; int moved; bool done; } Cut;
/* Where the cut lies in the n bytes p at offset pos of the stream: 0 .. n; n while not done. */
size_t cut_find(Cut *c, uint64_t pos, const char *p, size_t n);

#endif
