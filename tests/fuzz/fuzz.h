/* fuzz.h -- what fuzz targets and driver.c share. */
#ifndef FUZZ_H
#define FUZZ_H
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
typedef void (*FuzzSeed)(const void *s, size_t n);
void fuzz_seeds(FuzzSeed put);                  /* optional */

#endif
