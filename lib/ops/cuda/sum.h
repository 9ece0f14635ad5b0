/* sum.h -- the second stage of sums: what blocks have left, added in a fixed order. */
#ifndef OPS_CUDA_SUM_H
#define OPS_CUDA_SUM_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
/* out[i] += f * sum over c of part[c * stride + i], i < n, c < chunks; part in scratch */
void cuda_add_parts(float *out, const float *part, int64_t chunks, int64_t n, int64_t stride,
                    float f);
#ifdef __cplusplus
}
#endif
#endif
