/* each.h -- loops over n numbers: threads share chunks, which are also the units of partial sums, and a
 * chunk is done vector by vector, those at i of what ends at `end`. */
#ifndef OPS_CPU_EACH_H
#define OPS_CPU_EACH_H
#include "ops/cpu/vec.h"

enum { CHUNK = 8192 };
#define EACH_CHUNK OMP(parallel for schedule(static) if(n > WAKE)) \
    for (int64_t at = 0; at < n; at += CHUNK)
#define EACH_VECTOR for (int64_t i = at, end = min64(at + CHUNK, n); i < end; i += VL)

#endif
