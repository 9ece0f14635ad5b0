/* The optimizers of the CUDA back-end under the emulator: see ../ops/optim.c. */
#define HARNESS_CUDA
#include "../ops/optim.c"
