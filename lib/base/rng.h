/* rng.h -- a counter-keyed random generator: xoshiro256** (Blackman, Vigna 2018) seeded through
 * splitmix64 from (seed, stream). Two streams of one seed are independent, so that a sample's
 * numbers do not depend on which others are drawn beside it. The state is plain
 * data: save it, go on. */
#ifndef BASE_RNG_H
#define BASE_RNG_H
#include <stdint.h>

typedef struct Rng { uint64_t s[4]; } Rng;

void rng_init(Rng *r, uint64_t seed, uint64_t stream);
uint64_t rng_u64(Rng *r);
uint64_t rng_below(Rng *r, uint64_t n);     /* uniform in [0, n), without bias; n > 0 */
double rng_uniform(Rng *r);                 /* [0, 1), 53 bits */
double rng_normal(Rng *r);                  /* mean 0, deviation 1 (Box-Muller, one per call) */
/* Where i < n goes in a random order of [0, n) that seed and stream name: a bijection, computed
 * without the order ever being in memory. */
uint64_t rng_order(uint64_t seed, uint64_t stream, uint64_t n, uint64_t i);

#endif
