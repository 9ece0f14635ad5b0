/* cu.h -- what kernels are written in: CUDA for nvcc, or its emulation for tests.
 *
 * Rules, so that a kernel runs in both:
 *   launch     LAUNCH(kernel, grid, block, smem, cuda_stream, args...); blocks of whole warps; more
 *              than 256 threads only with __launch_bounds__: 65,536 registers are what there is
 *   memory     SHARED(type, name, count) and DYN_SMEM(type, name), in the body of a function
 *   allowed    __syncthreads, __syncwarp, __any_sync and shuffles of whole warps, int atomicAdd,
 *              threadIdx and friends, templates on ints and types
 *   not        float atomics, divergent shuffles (no lane may have returned), cooperative groups,
 *              textures, lambdas, std::
 *   PTX        only in the six wrappers below, each with its twin in the emulator
 * A template of several arguments is launched through a name: auto k = kernel<64, 1>.
 */
#ifndef OPS_CUDA_CU_H
#define OPS_CUDA_CU_H
#include "ops/cuda/cuda.h"

#ifdef __CUDACC__
#define LAUNCH(kernel, grid, block, smem, stream, ...) do { \
        cuda_before((const void *)(kernel), smem); \
        kernel<<<(grid), (block), (smem), (stream)>>>(__VA_ARGS__); \
        cuda_check(cudaGetLastError(), #kernel); \
    } while (0)
#define DYN_SMEM(T, name) \
    extern __shared__ __align__(128) unsigned char cuda_dyn_smem[]; \
    T *name = (T *)(void *)cuda_dyn_smem
#define SHARED(T, name, n) __shared__ __align__(16) T name[n]
#define CHECK_ALIGNED(p, bytes) ((void)0)
#define UNROLL _Pragma("unroll")
#define INLINE static __device__ __forceinline__
#include <cuda_bf16.h>
#else
#include "cuemu.h"
#define CHECK_ALIGNED(p, bytes) cuemu::check_aligned(p, bytes)
#define UNROLL
#define INLINE static inline __attribute__((unused))
#endif

enum { WARP = 32, CU_SHARED_MAX = 99 << 10 };  /* shared memory a block may have on any device */

/* ---- the six wrappers of PTX ---- */

/* c[16,8] += a[16,16] b[16,8], fragments as in the PTX manual for mma.m16n8k16, bf16 -> fp32 */
INLINE void mma_bf16_16816(float c[4], const uint32_t a[4], const uint32_t b[2])
{
#ifdef __CUDACC__
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    cuemu_mma(c, a, b);
#endif
}
/* four 8x8 matrices of 16-bit elements; lane i points to row i % 8 of matrix i / 8, 16-aligned */
INLINE void ldsm_x4(uint32_t r[4], const void *row)
{
#ifdef __CUDACC__
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row)) : "memory");
#else
    cuemu_ldmatrix(r, row, false);
#endif
}
INLINE void ldsm_x4t(uint32_t r[4], const void *row)    /* each of them transposed */
{
#ifdef __CUDACC__
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3},[%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row)) : "memory");
#else
    cuemu_ldmatrix(r, row, true);
#endif
}
/* 16 bytes from global to shared memory, both 16-aligned; of them the first `bytes` (0 to 16) are
 * read, the others become 0 */
INLINE void cp_async16(void *to, const void *from, int bytes)
{
#ifdef __CUDACC__
    asm volatile("cp.async.cg.shared.global [%0],[%1],16,%2;"
                 :: "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from), "r"(bytes) : "memory");
#else
    cuemu::copy_async(to, from, bytes);
#endif
}
INLINE void cp_commit()                                 /* closes a group of copies */
{
#ifdef __CUDACC__
    asm volatile("cp.async.commit_group;" ::: "memory");
#else
    cuemu::copy_commit();
#endif
}
/* waits for all but the last N groups of this thread; others' need __syncthreads after it */
template <int N> INLINE void cp_wait()
{
#ifdef __CUDACC__
    asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
#else
    cuemu::copy_wait(N);
#endif
}

/* ---- bfloat16 ---- */

INLINE float bf16_float(uint16_t h) { return __uint_as_float((uint32_t)h << 16); }
/* to the nearest, of two as near the even one; NaN stays NaN */
INLINE uint16_t float_bf16(float f)
{
#ifdef __CUDACC__
    return __bfloat16_as_ushort(__float2bfloat16_rn(f));
#else
    uint32_t u = __float_as_uint(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
#endif
}
INLINE uint32_t bf16_pair(float lo, float hi)
{
#ifdef __CUDACC__
    union { __nv_bfloat162 v; uint32_t u; } r;
    r.v = __floats2bfloat162_rn(lo, hi);
    return r.u;
#else
    return float_bf16(lo) | (uint32_t)float_bf16(hi) << 16;
#endif
}

/* ---- a Store's element i ---- */

/* A real in two halves (ops.h): any bits there and back. */
INLINE float join(uint16_t hi, uint16_t lo)
{
    return __uint_as_float(((uint32_t)hi << 16) + (uint32_t)(int32_t)(int16_t)lo);
}
INLINE uint16_t upper(float x) { return (uint16_t)((__float_as_uint(x) + 0x8000) >> 16); }
INLINE uint16_t lower(float x) { return (uint16_t)__float_as_uint(x); }
INLINE float sget(const Store &s, int64_t i)
{
    return s.w ? s.w[i] : s.lo ? join(s.hi[i], s.lo[i]) : bf16_float(s.hi[i]);
}
INLINE void sput(const Store &s, int64_t i, float x)
{
    if (s.w) {
        s.w[i] = x;
    } else if (s.lo) {                  /* what is no number must not look like one in hi */
        const uint32_t b = __float_as_uint(x);
        if (x != x) x = __uint_as_float((b & 0xffff0000u) | 0x400000u);
        s.hi[i] = upper(x);
        s.lo[i] = lower(x);
    } else {
        s.hi[i] = float_bf16(x);
    }
}

/* ---- Acts: one, or V of them as floats; V is 1 or VW, the elements of 16 aligned bytes ---- */

enum { VW = 16 / sizeof(Act) };
#ifdef ACT_BF16
INLINE float aget(const Act *p) { return bf16_float(p->bits); }
INLINE void aput(Act *p, float x) { p->bits = float_bf16(x); }
INLINE float around(float x) { return bf16_float(float_bf16(x)); }      /* as it will be stored */
#else
INLINE float aget(const Act *p) { return *p; }
INLINE void aput(Act *p, float x) { *p = x; }
INLINE float around(float x) { return x; }
#endif
template <int V> INLINE void aload(float *x, const Act *p)
{
    if constexpr (V == 1) {
        x[0] = aget(p);
    } else {
        union { uint4 q; Act a[VW]; } u;
        CHECK_ALIGNED(p, 16);
        u.q = *(const uint4 *)(const void *)p;
        UNROLL for (int i = 0; i < V; i++) x[i] = aget(u.a + i);
    }
}
template <int V> INLINE void astore(Act *p, const float *x)
{
    if constexpr (V == 1) {
        aput(p, x[0]);
    } else {
        union { uint4 q; Act a[VW]; } u;
        CHECK_ALIGNED(p, 16);
        UNROLL for (int i = 0; i < V; i++) aput(u.a + i, x[i]);
        *(uint4 *)(void *)p = u.q;
    }
}
/* V reals, V as for Acts */
template <int V> INLINE void rload(float *x, const float *p)
{
    if constexpr (V == 1) {
        x[0] = *p;
    } else {
        CHECK_ALIGNED(p, 16);
        UNROLL for (int i = 0; i < V; i += 4) {
            float4 q = *(const float4 *)(const void *)(p + i);
            x[i] = q.x, x[i + 1] = q.y, x[i + 2] = q.z, x[i + 3] = q.w;
        }
    }
}
template <int V> INLINE void rstore(float *p, const float *x)
{
    if constexpr (V == 1) {
        *p = x[0];
    } else {
        CHECK_ALIGNED(p, 16);
        UNROLL for (int i = 0; i < V; i += 4) {
            float4 q = { x[i], x[i + 1], x[i + 2], x[i + 3] };
            *(float4 *)(void *)(p + i) = q;
        }
    }
}

/* ---- sums ---- */

template <class T> INLINE T warp_sum(T v)
{
    for (int o = WARP / 2; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    return v;
}
INLINE float warp_max(float v)
{
    for (int o = WARP / 2; o; o >>= 1) {
        float w = __shfl_xor_sync(~0u, v, o);
        if (!(w <= v)) v = w;
    }
    return v;
}
/* of a block's threads, for all of them; `parts` is shared memory of one T per warp, free again
 * after the next barrier */
template <class T> INLINE T block_sum(T v, T *parts)
{
    v = warp_sum(v);
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = v;
    __syncthreads();
    T s = 0;
    for (unsigned i = 0; i < blockDim.x / WARP; i++) s += parts[i];
    return s;
}

/* ---- dropout (drop.h), as kernels take it ---- */

typedef struct Dropping {
    uint64_t key, at;
    const uint64_t *from; uint64_t size;
    uint32_t limit;
    float by;                           /* 1 / (1 - p); 0: nothing is dropped */
} Dropping;
static inline Dropping dropping(const Drop *d)
{
    return { d->key, d->at, d->from, d->by, drop_limit(d->p), (float)(1 / (1 - d->p)) };
}
INLINE uint64_t drop_start(const Dropping &d) { return drop_start(d.at, d.from, d.size); }
/* what is multiplied with number i */
INLINE float drop_by(const Dropping &d, uint64_t i)
{
    return drop_number(d.key, i) >= d.limit ? d.by : 0;
}

/* ---- the host's side of launches ---- */

static inline __host__ __device__ int64_t cu_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline __host__ __device__ int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
/* blocks for n units of work, block-stride beyond that many */
static inline unsigned cu_grid(int64_t n, int per_block)
{
    return (unsigned)cu_min(div_up(n > 0 ? n : 1, per_block), 1 << 20);
}
/* may rows of n elements at p be read VW at a time? */
static inline int cu_wide(const void *p, int64_t n)
{
    return n % VW == 0 && (uintptr_t)p % 16 == 0;
}
#endif
