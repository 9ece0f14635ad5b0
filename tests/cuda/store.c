/* What is kept as bfloat16s or in two halves, in the CUDA back-end under the emulator: see
 * ../ops/store.c. */
#define HARNESS_CUDA
#include "../ops/store.c"
