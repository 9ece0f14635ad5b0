/* cuemu.h -- CUDA kernels on a CPU, for tests: what lib/ops/cuda/cu.h needs when no nvcc reads it.
 *
 * A CUDA thread is a fiber with a stack of its own; blocks are shared out over OpenMP threads. An
 * operation of a warp (shuffle, __syncwarp, mma, ldmatrix) is a barrier of its 32 lanes with a slot
 * for each; the last lane to arrive lets the others go on. Which fiber runs next is one of four
 * schedules, for a race shows only when the order is unlucky:
 *   0, 1   one warp as far as it gets before the next, from the first or from the last;
 *          cp.async copies at the wait, so that a missing wait reads old data
 *   2, 3   the same orders; cp.async copies at once, so that a missing barrier before the next
 *          load overwrites what another warp still reads
 * The lanes of a warp take turns at its operations, in the warps' order: what one lane writes and
 * another reads without a __syncwarp between them is wrong in one of the two orders.
 * Shared memory starts as NaN (0xff) in each block, with a marked gap after each array.
 *
 * Ends the program, with a message, on: a deadlock or barriers that do not match, lanes of a warp at
 * different operations or gone, a misaligned vector access, ldmatrix or cp.async, shared memory
 * written past its end, a launch that a device would refuse (grid, block, arguments, shared memory:
 * that of the devices with the least, sm_86, 89 and 120, unless CUEMU_SHARED says how many bytes; more
 * than 48 KiB only after cudaFuncSetAttribute), and, under CUEMU_PROTECT, on host code that touches device memory and kernels
 * that are given host pointers (cudart.cpp).
 *
 * Not covered: weak memory, registers, asynchronous proxies, wgmma and TMA, speed.
 */
#ifndef CUEMU_H
#define CUEMU_H
#include <functional>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __restrict__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
#include "cuda_runtime_api.h"

namespace cuemu {

enum State { RUN, AT_BLOCK, AT_WARP, DONE };
enum Kind { NONE, SYNC, SHUFFLE, MMA, LDMATRIX };   /* of a warp's operation */
enum { LANES = 32, SLOT = 12, COPIES = 256, SITES = 16, ARGUMENTS = 4096 };

struct Copy { void *to; const void *from; int bytes, group; };
struct Fiber {
    void *sp;
    dim3 tid;
    int lane, warp, state, copies, group;
    Copy *copy;                         /* [COPIES] */
};
/* Slots are double-buffered: a lane that runs ahead to the next operation leaves those of this one. */
struct Warp {
    int arrived, live, parity, kind;
    uint32_t in[2][LANES][SLOT], out[2][LANES][4];
    const void *ptr[2][LANES];
};
struct Block {
    dim3 id, dim, grid;
    Fiber *fiber, *now;
    Warp *warp;
    int threads, live, arrived;
    void *scheduler;                    /* its stack pointer */
    void (*fn)(void *); void *arg;
    const char *kernel;
    unsigned char *dyn, *stat;          /* dynamic, static shared memory */
    size_t dynamic, used, most;         /* bytes of the dynamic one, of the static one, of both */
    struct { const void *site; unsigned char *p, *end; } site[SITES];
    int sites;
};
struct Launch { const char *kernel; const void *function; dim3 grid, threads; size_t smem; };
extern long sampled;                    /* cuemu_sample(), or 0 */
extern __thread Block *block;           /* not thread_local: its access would be a call */

void run(const Launch &l, void (*fn)(void *), void *arg);
bool allow_shared(const void *function, int bytes);     /* false: more than a block may have */
void block_barrier();
bool warp_barrier(Kind k);              /* true for the lane that arrived last */
void *shared(const void *site, size_t bytes);
void copy_async(void *to, const void *from, int bytes);
void copy_commit();
void copy_wait(int groups);
void check_aligned(const void *p, size_t to);
[[noreturn]] void fail(const char *fmt, ...);

void check_pointer(const char *kernel, const void *p);
template <class T> inline void check_arg(const char *, const T &) {}
template <class T> inline void check_arg(const char *k, T *const &p) { check_pointer(k, p); }
template <class... T> inline void check_args(const char *k, const T &...a)
{
    (void)k;
    (check_arg(k, a), ...);
}

bool deferred();                        /* is work to be noted down, for a graph or for later? */
void note(std::function<void()> work);
void catch_up(const char *what);        /* does what was put off; fails while a graph is noted */
/* done now, or noted down with the values that its arguments have now */
template <class F, class... A> void launch(Launch l, F f, A... args)
{
    static_assert((sizeof(A) + ... + 0) <= (size_t)ARGUMENTS, "more arguments than a kernel may have");
    auto call = [=] { f(args...); };
    auto work = [=]() mutable {
        run(l, [](void *p) { (*(decltype(call) *)p)(); }, &call);
    };
    if (deferred()) note(work);
    else work();
}

} // namespace cuemu

#define threadIdx (cuemu::block->now->tid)
#define blockIdx (cuemu::block->id)
#define blockDim (cuemu::block->dim)
#define gridDim (cuemu::block->grid)

#define LAUNCH(kernel, grid, threads, smem, stream, ...) do { \
        (void)(stream); \
        cuda_before((const void *)(kernel), smem); \
        cuemu::check_args(#kernel, __VA_ARGS__); \
        cuemu::launch({ #kernel, (const void *)(kernel), grid, threads, smem }, kernel, \
                      __VA_ARGS__); \
    } while (0)
#define DYN_SMEM(T, name) T *name = (T *)(void *)cuemu::block->dyn
#define SHARED(T, name, n) \
    static const char cuemu_site_##name = 0; \
    T *name = (T *)cuemu::shared(&cuemu_site_##name, sizeof(T) * (n))

static inline void __syncthreads() { cuemu::block_barrier(); }
static inline void __syncwarp(unsigned = ~0u) { cuemu::warp_barrier(cuemu::SYNC); }

template <class T> static inline T cuemu_shuffle(T v, int from)
{
    static_assert(sizeof(T) <= sizeof(uint32_t[cuemu::SLOT]), "a slot is too small for it");
    cuemu::Block *b = cuemu::block;
    cuemu::Warp *w = &b->warp[b->now->warp];
    const int lane = b->now->lane, p = w->parity;
    memcpy(w->in[p][lane], &v, sizeof v);
    cuemu::warp_barrier(cuemu::SHUFFLE);
    T r;
    memcpy(&r, w->in[p][from & 31], sizeof r);
    return r;
}
static inline int cuemu_lane() { return cuemu::block->now->lane; }
template <class T> static inline T __shfl_xor_sync(unsigned, T v, int m)
{
    return cuemu_shuffle(v, cuemu_lane() ^ m);
}
template <class T> static inline T __shfl_up_sync(unsigned, T v, int d)
{
    return cuemu_shuffle(v, cuemu_lane() >= d ? cuemu_lane() - d : cuemu_lane());
}
template <class T> static inline T __shfl_down_sync(unsigned, T v, int d)
{
    return cuemu_shuffle(v, cuemu_lane() + d < 32 ? cuemu_lane() + d : cuemu_lane());
}
template <class T> static inline T __shfl_sync(unsigned, T v, int from)
{
    return cuemu_shuffle(v, from);
}
static inline int __any_sync(unsigned m, int v)
{
    v = v != 0;
    for (int o = 16; o; o >>= 1) v |= __shfl_xor_sync(m, v, o);
    return v;
}
static inline int atomicAdd(int *p, int v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
static inline float __uint_as_float(unsigned u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
static inline unsigned __float_as_uint(float f)
{
    unsigned u;
    memcpy(&u, &f, sizeof u);
    return u;
}
#define __expf expf                     /* glibc has declared the name */
#define __logf logf

/* ---- twins of the PTX wrappers in cu.h ---- */

void cuemu_mma(float c[4], const uint32_t a[4], const uint32_t b[2]);
void cuemu_ldmatrix(uint32_t r[4], const void *row, bool trans);
#endif
