/* order.h -- the orders that other programs give rows, to the last one.
 *
 * order_numpy: what NumPy's default_rng(seed).permutation(n) returns: SeedSequence (O'Neill's
 * seed_seq_fe, pool of 4), PCG64 (XSL RR 128/64), and a shuffle that draws each place by masked
 * rejection from halves of 64 bits, the low one first.
 * order_python: what CPython's random.Random(seed).shuffle does to a list: MT19937 seeded by
 * init_by_array, each place by rejection from the top bits. */
#ifndef DATA_ORDER_H
#define DATA_ORDER_H
#include <stddef.h>
#include <stdint.h>

void order_numpy(uint64_t seed, uint64_t *v, size_t n);     /* v becomes a permutation of [0, n) */
void order_python(uint64_t seed, uint64_t *v, size_t n);    /* v's elements change places */

#endif
