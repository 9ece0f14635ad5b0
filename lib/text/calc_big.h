/* calc_big.h -- whole numbers of any size, for the calculator: sign and magnitude, 32-bit limbs.
 *
 * A Big owns its limbs; big_free() it. Every function makes a new one and leaves its arguments
 * alone. Schoolbook arithmetic: the caller bounds the sizes. */
#ifndef TEXT_CALC_BIG_H
#define TEXT_CALC_BIG_H
#include "base/buf.h"
#include <stdbool.h>

typedef struct Big { bool neg; size_t n; uint32_t *d; } Big;    /* d[n - 1] != 0; 0: n 0, not neg */

Big big_parse(const char *s, size_t n);         /* decimal digits, nothing else */
void big_free(Big *a);
Big big_copy(Big a);
Big big_neg(Big a);
Big big_add(Big a, Big b);
Big big_mul(Big a, Big b);
Big big_floordiv(Big a, Big b);                 /* towards minus infinity; b is not 0 */
size_t big_bits(Big a);                         /* of the magnitude; 0 of 0 */
/* a / b rounded to the nearest double, ties to even; b is not 0. 0 keeps the sign of the quotient.
 * Infinity where it is too large. */
double big_ratio(Big a, Big b);
double big_double(Big a);                       /* a / 1 */
void big_print(Buf *out, Big a);                /* appended, decimal */

#endif
