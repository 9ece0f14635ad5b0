/* A NaN in attention gets to what sees it, and nowhere else: CUDA's kernels. */
#define HARNESS_CUDA
#include "../ops/nan.h"

int main(void)
{
    for (int h = 0; h < 2; h++) {
        bf16 = h;
        for (int i = 0; i < NAN_SHAPES; i++)    /* the plain kernels are those of fp32 */
            if (bf16 || i % 3 == 0) check_nan("cuda", nan_shapes[i]);
    }
    return done();
}
