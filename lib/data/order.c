/* order.c -- see order.h. */
#include "data/order.h"

/* ---- NumPy */

typedef struct Pcg { unsigned __int128 state, inc; uint32_t half; int has; } Pcg;

static uint32_t hash_mix(uint32_t x, uint32_t *c)
{
    x ^= *c;
    *c *= 0x931e8875u;
    x *= *c;
    return x ^ x >> 16;
}

static uint32_t mix(uint32_t x, uint32_t y)
{
    uint32_t r = x * 0xca01f9ddu - y * 0x4973f715u;
    return r ^ r >> 16;
}

/* SeedSequence(seed).generate_state(4, uint64) */
static void seed_words(uint64_t seed, uint64_t out[4])
{
    uint32_t in[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) }, pool[4], c = 0x43b0d7e5u;
    int n = in[1] ? 2 : 1;
    for (int i = 0; i < 4; i++) pool[i] = hash_mix(i < n ? in[i] : 0, &c);
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++)
            if (from != to) pool[to] = mix(pool[to], hash_mix(pool[from], &c));
    uint32_t w[8];
    c = 0x8b51f9ddu;
    for (int i = 0; i < 8; i++) {
        uint32_t x = pool[i % 4] ^ c;
        c *= 0x58f38dedu;
        x *= c;
        w[i] = x ^ x >> 16;
    }
    for (int i = 0; i < 4; i++) out[i] = w[2 * i] | (uint64_t)w[2 * i + 1] << 32;
}

static void pcg_step(Pcg *p)
{
    const unsigned __int128 a = (unsigned __int128)0x2360ed051fc65da4u << 64 | 0x4385df649fccf645u;
    p->state = p->state * a + p->inc;
}

static void pcg_init(Pcg *p, uint64_t seed)
{
    uint64_t w[4];
    seed_words(seed, w);
    *p = (Pcg){ .inc = ((unsigned __int128)w[2] << 64 | w[3]) << 1 | 1 };
    pcg_step(p);
    p->state += (unsigned __int128)w[0] << 64 | w[1];
    pcg_step(p);
}

static uint64_t pcg_u64(Pcg *p)
{
    pcg_step(p);
    uint64_t x = (uint64_t)(p->state >> 64) ^ (uint64_t)p->state;
    int r = (int)(p->state >> 122);
    return x >> r | x << (-r & 63);
}

static uint32_t pcg_u32(Pcg *p)
{
    if (p->has) {
        p->has = 0;
        return p->half;
    }
    uint64_t x = pcg_u64(p);
    p->half = (uint32_t)(x >> 32);
    p->has = 1;
    return (uint32_t)x;
}

static uint64_t pcg_upto(Pcg *p, uint64_t max)
{
    uint64_t mask = ~(uint64_t)0 >> (max ? __builtin_clzll(max) : 63), x;
    do x = (max <= UINT32_MAX ? pcg_u32(p) : pcg_u64(p)) & mask; while (x > max);
    return x;
}

static void swap(uint64_t *v, size_t i, size_t j)
{
    uint64_t x = v[i];
    v[i] = v[j];
    v[j] = x;
}

void order_numpy(uint64_t seed, uint64_t *v, size_t n)
{
    Pcg p;
    pcg_init(&p, seed);
    for (size_t i = 0; i < n; i++) v[i] = i;
    for (size_t i = n; i-- > 1;) swap(v, i, (size_t)pcg_upto(&p, i));
}

/* ---- CPython */

enum { N = 624, M = 397 };
typedef struct Mt { uint32_t s[N]; int i; } Mt;

static void mt_init(Mt *m, uint64_t seed)
{
    uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    int len = key[1] ? 2 : 1, i = 1, j = 0;
    uint32_t *s = m->s;
    s[0] = 19650218;
    for (int k = 1; k < N; k++) s[k] = 1812433253u * (s[k - 1] ^ s[k - 1] >> 30) + (uint32_t)k;
    for (int k = N; k; k--) {
        s[i] = (s[i] ^ (s[i - 1] ^ s[i - 1] >> 30) * 1664525u) + key[j] + (uint32_t)j;
        if (++i == N) s[0] = s[N - 1], i = 1;
        if (++j == len) j = 0;
    }
    for (int k = N - 1; k; k--) {
        s[i] = (s[i] ^ (s[i - 1] ^ s[i - 1] >> 30) * 1566083941u) - (uint32_t)i;
        if (++i == N) s[0] = s[N - 1], i = 1;
    }
    s[0] = 0x80000000u;
    m->i = N;
}

static uint32_t mt_u32(Mt *m)
{
    uint32_t *s = m->s;
    if (m->i == N) {
        for (int k = 0; k < N; k++) {
            uint32_t y = (s[k] & 0x80000000u) | (s[(k + 1) % N] & 0x7fffffffu);
            s[k] = s[(k + M) % N] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
        }
        m->i = 0;
    }
    uint32_t y = s[m->i++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

/* getrandbits(k), 0 < k <= 64: words of 32 bits, the lowest first, of the last its top bits */
static uint64_t mt_bits(Mt *m, int k)
{
    if (k <= 32) return mt_u32(m) >> (32 - k);
    uint64_t low = mt_u32(m);
    return low | (uint64_t)(mt_u32(m) >> (64 - k)) << 32;
}

void order_python(uint64_t seed, uint64_t *v, size_t n)
{
    Mt m;
    mt_init(&m, seed);
    for (size_t i = n; i-- > 1;) {
        int k = 64 - __builtin_clzll((uint64_t)i + 1);
        uint64_t j;
        do j = mt_bits(&m, k); while (j > i);
        swap(v, i, (size_t)j);
    }
}
