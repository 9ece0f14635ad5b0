/* narrow.h -- numbers as files of other programs have them: fp32, fp16, bf16, and ggml's q8_0.
 *
 * fp16 and bf16 are rounded to the nearest, ties to even; fp16 has subnormals, and what is beyond
 * its largest number becomes infinite: ask narrow_fits() first. q8_0: blocks of 32 numbers, each an
 * fp16 scale d = max |x| / 127 and 32 signed bytes round(x / d). Little-endian. */
#ifndef GPT_NARROW_H
#define GPT_NARROW_H
#include "ops/ops.h"
#include <stddef.h>
#include <stdint.h>

typedef enum { NARROW_F32, NARROW_F16, NARROW_BF16, NARROW_Q8_0 } Narrow;
enum { Q8_BLOCK = 32 };

uint16_t fp16_of(float x);
uint16_t bf16_of(float x);
float fp16_value(uint16_t h);

int narrow_block(Narrow t);                     /* numbers that go together: 1, or Q8_BLOCK */
size_t narrow_bytes(Narrow t, int64_t n);       /* n a multiple of that */
void narrow_put(Narrow t, unsigned char *to, const real *x, int64_t n);
/* NULL, or what is wrong with one of the numbers: not finite, too large for fp16. */
const char *narrow_fits(Narrow t, const real *x, int64_t n);

#endif
