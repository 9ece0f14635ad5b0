/* fp8_faults.cpp -- eight-bit floats with a barrier left out (fp8.cu, FAULT), for the test that the tests
 * see it (tests/cuda/faults.c). */
#include "ops/cuda/cu.h"
#include "fp8_twin.h"
#include "ops/cuda/fp8.h"
#include "ops/fp8.h"

#define FAULT 1
namespace maximum {
#include "ops/cuda/fp8.cu"
} // namespace maximum
#undef FAULT
#define FAULT 2
namespace tile {
#include "ops/cuda/fp8.cu"
} // namespace tile

extern "C" void faulty_fp8(int fault, uint8_t *q, uint8_t *t, float *scale, const void *x, int N, int C,
                           int e5m2);
void faulty_fp8(int fault, uint8_t *q, uint8_t *t, float *scale, const void *x, int N, int C, int e5m2)
{
    (fault == 1 ? maximum::cuda_fp8 : tile::cuda_fp8)(q, t, scale, x, N, C, e5m2);
}
