/* drop.h -- what dropout drops: a function of a key and a counter, so that it depends neither on
 * threads nor on the order of work, and is the same when a pass is recomputed or a run goes on.
 * Number i of a key is the i-th output of splitmix64 (Steele et al. 2014) seeded with it. */
#ifndef OPS_DROP_H
#define OPS_DROP_H
#include <stdint.h>

#ifdef __CUDACC__
#define DROP_INLINE static inline __host__ __device__
#else
#define DROP_INLINE static inline
#endif

typedef struct Drop {
    double p;                       /* what part is dropped, [0, 1) */
    uint64_t key, at;               /* where the counter of an array's first row starts: at ... */
    const uint64_t *from; uint64_t by;      /* ... + by *from, a number on the device; NULL: 0 */
} Drop;
/* where memory on the device is the host's, or on the device */
DROP_INLINE uint64_t drop_start(uint64_t at, const uint64_t *from, uint64_t by)
{
    return at + (from ? *from * by : 0);
}

DROP_INLINE uint32_t drop_number(uint64_t key, uint64_t i)
{
    uint64_t z = key + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ z >> 31) >> 32);
}
/* Number i is kept if it is not less than this. */
DROP_INLINE uint32_t drop_limit(double p) { return (uint32_t)(p * 0x1p32); }

#endif
