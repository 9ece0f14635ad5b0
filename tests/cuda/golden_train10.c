/* Golden case D on a device, ten training steps in fp32 and bf16: see ../golden/train10.c. Under the
 * emulator step.c has fewer, against the CPU's. */
#ifdef ON_DEVICE
#define GOLDEN_DEVICE "cuda"
#include "../golden/train10.c"
#else
#include "tap.h"
int main(void)
{
    skip("minutes under the emulator, which step.c makes fewer of", "ten golden steps");
    return done();
}
#endif
