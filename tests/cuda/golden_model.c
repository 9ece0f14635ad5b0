/* Golden cases A and B from the CUDA back-end, its kernels run by the emulator: see ../golden/model.c. */
#define GOLDEN_DEVICE "cuda"
#include "../golden/model.c"
