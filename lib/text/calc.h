/* calc.h -- the calculator that models call: it computes what nanochat's does and nothing else.
 *
 * Commas are left out first. Then either only digits and + - * / ( ) . and spaces are there, and it
 * is arithmetic: whole numbers of any size, floats, + - * / // and signs, brackets; "()" and "..."
 * are Python's empty tuple and Ellipsis. Or it is 'text'.count('part'), of letters, digits, quotes,
 * ( ) . _ and spaces, without the words that nanochat forbids.
 *
 * The result is printed as Python does: 12/60 is 0.2, 4/2 is 2.0, 3*2 is 6, 1e16/1 is 1e+16. No
 * result: a syntax error, division by zero, ** , a whole number too large for a float or of more
 * than 4300 digits, read or printed; more than CALC_MAX bytes; brackets or signs deeper than
 * CALC_DEPTH. Time and memory are bounded by CALC_MAX: a few hundredths of a second at worst. */
#ifndef TEXT_CALC_H
#define TEXT_CALC_H
#include "base/buf.h"
#include <stdbool.h>

enum { CALC_MAX = 1 << 16, CALC_DEPTH = 200 };

/* What s[0..n) comes to, in place of what out held; false: nothing, and out is empty. */
bool calc(const char *s, size_t n, Buf *out);
/* A float as Python prints it, appended: the shortest text that reads back equal. */
void calc_float(Buf *out, double x);

#endif
