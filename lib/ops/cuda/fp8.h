/* fp8.h -- tensors of bfloat16 as eight-bit floats, on the device (ops/fp8.h says what they are). */
#ifndef OPS_CUDA_FP8_H
#define OPS_CUDA_FP8_H
#include "ops/ops.h"
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
/* fp8.cu. q [N,C] (NULL: not wanted) and t [C,P] (likewise), P = fp8_padded(N), become x [N,C] times
 * s = max / amax, in e4m3 or e5m2; scale[0] = s, scale[1] = 1 / s. C a multiple of 16; all but scale
 * aligned to 16 bytes. */
void cuda_fp8(uint8_t *q, uint8_t *t, float *scale, const void *x, int N, int C, int e5m2);

/* fp8.c: weights that are written there are not what was quantised any more; p NULL: no weights are */
void cuda_fp8_forget(const void *p, size_t bytes);
void cuda_fp8_free(const void *p, size_t bytes);    /* the same of memory that is given back */
static inline void cuda_fp8_written(Store p, int64_t n)     /* the same of a Store's numbers */
{
    if (p.hi) cuda_fp8_forget(p.hi, (size_t)n * sizeof *p.hi);
}
#ifdef __cplusplus
}
#endif
#endif
