/* expert_faults.cpp -- products by expert with a barrier left out (experts.cu, FAULT), for the test that
 * the tests see it (tests/cuda/faults.c). */
#include "ops/cuda/cu.h"

#define FAULT 1
namespace early {
#include "ops/cuda/experts.cu"
} // namespace early
#undef FAULT
#define FAULT 2
namespace late {
#include "ops/cuda/experts.cu"
} // namespace late

extern "C" void faulty_experts(int fault, Act *y, const Act *x, const Act *w, const int *off, int n,
                               int E, int C, int O);
void faulty_experts(int fault, Act *y, const Act *x, const Act *w, const int *off, int n, int E, int C,
                    int O)
{
    (fault == 1 ? early::cuda_experts_fp32 : late::cuda_experts_fp32)(y, x, w, off, n, E, C, O);
}
