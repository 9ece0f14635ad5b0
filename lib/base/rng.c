#include "base/rng.h"
#include <math.h>

static uint64_t rotl(uint64_t x, int k) { return x << k | x >> (64 - k); }

static uint64_t mix(uint64_t z)         /* the output function of splitmix64 (Steele et al. 2014) */
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Word i is mix(a_i + 5 * b_i) with a and b the splitmix64 sequences from seed and from stream
 * (moved away, so that (s, s) is nothing special): every word depends on both. */
void rng_init(Rng *r, uint64_t seed, uint64_t stream)
{
    const uint64_t gamma = 0x9e3779b97f4a7c15u;
    uint64_t a = seed, b = stream ^ 0x6a09e667f3bcc908u;
    for (int i = 0; i < 4; i++) {
        a += gamma;
        b += gamma;
        r->s[i] = mix(mix(a) + 5 * mix(b));
    }
    if (!(r->s[0] | r->s[1] | r->s[2] | r->s[3])) r->s[0] = 1;    /* all zero is a dead end */
}

uint64_t rng_u64(Rng *r)
{
    uint64_t *s = r->s, x = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return x;
}

uint64_t rng_below(Rng *r, uint64_t n)  /* Lemire 2019: the high half of x * n, few rejections */
{
    unsigned __int128 m = (unsigned __int128)rng_u64(r) * n;
    if ((uint64_t)m < n) {
        uint64_t least = -n % n;            /* 2^64 mod n */
        while ((uint64_t)m < least) m = (unsigned __int128)rng_u64(r) * n;
    }
    return (uint64_t)(m >> 64);
}

double rng_uniform(Rng *r) { return (double)(rng_u64(r) >> 11) * 0x1p-53; }

double rng_normal(Rng *r)
{
    double u = 1 - rng_uniform(r), v = rng_uniform(r);      /* u in (0, 1] */
    return sqrt(-2 * log(u)) * cos(6.283185307179586477 * v);
}

/* A Feistel network on the smallest even number of bits (6 at least) that holds n, walked until it
 * is below n again (Black, Rogaway 2002): fewer than 4 rounds of it on average, from n = 16 on. */
uint64_t rng_order(uint64_t seed, uint64_t stream, uint64_t n, uint64_t i)
{
    enum { ROUNDS = 8 };
    int half = 3;
    while (half < 32 && (n - 1) >> 2 * half) half++;
    uint64_t key[ROUNDS], mask = ((uint64_t)1 << half) - 1;
    Rng r;
    rng_init(&r, seed, stream);
    for (int k = 0; k < ROUNDS; k++) key[k] = rng_u64(&r);
    do {
        uint64_t a = i >> half, b = i & mask;
        for (int k = 0; k < ROUNDS; k++) {
            uint64_t c = a ^ mix(b + key[k]) >> (64 - half);
            a = b;
            b = c;
        }
        i = a << half | b;
    } while (i >= n);
    return i;
}
