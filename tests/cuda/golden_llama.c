/* The Llama family's golden numbers from the CUDA back-end: see ../golden/llama.c. Under the emulator
 * a dense model, one of experts, one whose heads share their keys, and some of the texts. */
#define GOLDEN_DEVICE "cuda"
#ifndef ON_DEVICE
#define STRIDE 4
#endif
#include "../golden/llama.c"
