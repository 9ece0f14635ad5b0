/* fp8.h -- products in eight-bit floats (--dtype fp8), what back-ends must agree upon: for which linear
 * maps, in which formats, in how much memory.
 *
 * A tensor x is taken as q / s, q eight bits and s one number for all of it, s = max / (its largest
 * magnitude): weights and activations in e4m3 (max 448, a relative error of up to 2^-4), gradients of
 * outputs in e5m2 (max 57344, up to 2^-3). Micikevicius et al. 2022, arXiv 2209.05433. A tensor of
 * zeros has s = 1; one with an infinity or a NaN in it becomes NaN altogether.
 */
#ifndef OPS_FP8_H
#define OPS_FP8_H
#include <stddef.h>
#include <stdint.h>

/* Tensor cores multiply rows of multiples of 16 bytes; small maps lose more by the conversion than
 * they gain. nanochat has the same rule. W [O,C] */
static inline int fp8_fits(int C, int O)
{
    return C % 16 == 0 && O % 16 == 0 && C >= 128 && O >= 128;
}

/* Bytes for the quantised arrays of one linear map, each at a multiple of 256: x forward; dy, dy
 * transposed and x transposed backward, those filled up with zeros to `fp8_padded` tokens; one more
 * block for scales. Of its weights, kept: as they are, transposed, and scales. */
static inline int64_t fp8_padded(int N) { return ((int64_t)N + 15) / 16 * 16; }
static inline size_t fp8_block(int64_t bytes) { return ((size_t)bytes + 255) / 256 * 256; }
static inline size_t fp8_forward_bytes(int N, int C)
{
    return fp8_block((int64_t)N * C) + fp8_block(1);
}
static inline size_t fp8_backward_bytes(int N, int C, int O, int want_dw)
{
    const int64_t P = fp8_padded(N);
    return fp8_block((int64_t)N * O) + (want_dw ? fp8_block(P * O) + fp8_block(P * C) : 0) +
           fp8_block(1);
}
static inline size_t fp8_weight_bytes(int C, int O)
{
    return 2 * fp8_block((int64_t)C * O) + fp8_block(1);
}
#endif
