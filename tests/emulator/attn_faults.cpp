/* attn_faults.cpp -- attention with a fault (attn_tile.h, FAULT), for the test that the tests see
 * it: the table of operations with the faulty kernels in place of the right ones. */
#define ACT_BF16
#include "ops/cuda/attn.h"

namespace fault1 {
#define FAULT 1
#include "attn_faults.h"
} // namespace fault1
namespace fault2 {
#define FAULT 2
#include "attn_faults.h"
} // namespace fault2
namespace fault3 {
#define FAULT 3
#include "attn_faults.h"
} // namespace fault3

extern "C" const Ops *cuda_ops_faulty(int fault);
const Ops *cuda_ops_faulty(int fault)
{
    static Ops o;
    o = *cuda_ops_bf16();
    if (fault == 1) fault1::put_into(&o);
    if (fault == 2) fault2::put_into(&o);
    if (fault == 3) fault3::put_into(&o);
    return &o;
}
