/* mem.c -- the CUDA back-end's device, stream and memory.
 *
 * Memory comes from the device's stream-ordered pool, which keeps what is freed: allocating and freeing
 * wait for nothing. put returns when the host's array may change; get and sync wait for all that was
 * asked for before. What is not too large goes through a ring of pinned memory, so that a put waits for
 * the device only where the ring is full of copies that it has not come to. */
#include "ops/cuda/cuda.h"
#include "ops/cuda/fp8.h"
#include "ops/cuda/sort.h"
#include "base/err.h"
#include <string.h>

cudaStream_t cuda_stream;
static int sm_count, capability;

void cuda_check(cudaError_t e, const char *what)
{
    if (e == cudaErrorIllegalAddress || e == cudaErrorLaunchFailure || e == cudaErrorMisalignedAddress)
        die("CUDA: %s: %s, there or in what was launched before (CUDA_LAUNCH_BLOCKING=1 tells)", what,
            cudaGetErrorString(e));
    if (e != cudaSuccess) die("CUDA: %s: %s", what, cudaGetErrorString(e));
}
#define CHECK(call) cuda_check(call, #call)

int cuda_devices(const char **why)
{
    int n = 0;
    cudaError_t e = cudaGetDeviceCount(&n);
    if (why) *why = cudaGetErrorString(e);
    return e == cudaSuccess ? n : 0;
}
/* Left alone, the pool gives everything that is unused back to the system whenever the host waits. */
static void keep_freed_memory(int device)
{
    cudaMemPool_t pool;
    uint64_t all = UINT64_MAX;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, device));
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
}
void cuda_start(int device)
{
    int major, minor;
    CHECK(cudaSetDevice(device));
    CHECK(cudaDeviceGetAttribute(&sm_count, cudaDevAttrMultiProcessorCount, device));
    CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
    capability = 10 * major + minor;
    if (major < 8)
        die("cuda:%d has compute capability %d.%d: at least 8.0 is needed", device, major, minor);
    keep_freed_memory(device);
    if (!cuda_stream) CHECK(cudaStreamCreateWithFlags(&cuda_stream, cudaStreamNonBlocking));
}
int cuda_sm_count(void) { return sm_count; }
int cuda_capability(void) { return capability; }

/* More dynamic shared memory than 48 KiB must be asked for. */
void cuda_before(const void *kernel, size_t smem)
{
    if (smem > 48 << 10)
        CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem));
}

static void *get_memory(size_t bytes)
{
    void *p;
    cudaError_t e = cudaMallocAsync(&p, bytes ? bytes : 1, cuda_stream);
    if (e == cudaErrorMemoryAllocation) {
        size_t unused = 0, total = 0;
        cudaMemGetInfo(&unused, &total);
        die("out of memory asking for %zu bytes: the device has %.3g GB, %.3g of them unused%s%s",
            bytes, (double)total / 1e9, (double)unused / 1e9, *ops_advice ? "; " : "", ops_advice);
    }
    cuda_check(e, "cudaMallocAsync");
    return p;
}
void *cuda_alloc(size_t bytes)
{
    void *p = get_memory(bytes);
    cuda_zero(p, bytes);
    return p;
}
void cuda_changed(const void *p, size_t bytes)
{
    cuda_sort_forget(p, bytes);
    if (p) cuda_fp8_forget(p, bytes);
}
void cuda_free(void *p, size_t bytes)
{
    cuda_changed(p, bytes);
    cuda_fp8_free(p, bytes);
    if (p) CHECK(cudaFreeAsync(p, cuda_stream));
}
void cuda_zero(void *p, size_t bytes)
{
    cuda_changed(p, bytes);
    if (bytes) CHECK(cudaMemsetAsync(p, 0, bytes, cuda_stream));
}
void cuda_copy(void *to, const void *from, size_t bytes)
{
    cuda_changed(to, bytes);
    if (bytes) CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, cuda_stream));
}
/* A pinned buffer of at least so many bytes that the device is done with: of the ring, in turn. Two or
 * three are filled for a micro-batch, so the host may be some steps ahead. */
enum { RING = 8, STAGED = 4 << 20 };
typedef struct Stage { void *p; size_t n; cudaEvent_t done; } Stage;
static Stage *stage(size_t bytes)
{
    static Stage ring[RING];
    static int turn;
    Stage *s = &ring[turn];
    turn = (turn + 1) % RING;
    if (!s->done) CHECK(cudaEventCreateWithFlags(&s->done, cudaEventDisableTiming));
    CHECK(cudaEventSynchronize(s->done));
    if (s->n < bytes) {
        CHECK(cudaFreeHost(s->p));
        CHECK(cudaHostAlloc(&s->p, bytes, cudaHostAllocDefault));
        s->n = bytes;
    }
    return s;
}
static void copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    CHECK(cudaMemcpyAsync(to, from, bytes, kind, cuda_stream));
}
/* Large arrays from where they are: the runtime has copied them when it returns. */
void cuda_put(void *dev, const void *host, size_t bytes)
{
    cuda_changed(dev, bytes);
    if (!bytes) return;
    Stage *s = bytes <= STAGED ? stage(bytes) : NULL;
    if (s) memcpy(s->p, host, bytes);
    copy(dev, s ? s->p : host, bytes, cudaMemcpyHostToDevice);
    if (s) CHECK(cudaEventRecord(s->done, cuda_stream));
}
void cuda_get(void *host, const void *dev, size_t bytes)
{
    Stage *s = bytes && bytes <= STAGED ? stage(bytes) : NULL;
    if (bytes) copy(s ? s->p : host, dev, bytes, cudaMemcpyDeviceToHost);
    cuda_sync();
    if (s) memcpy(host, s->p, bytes);
}
void cuda_sync(void) { CHECK(cudaStreamSynchronize(cuda_stream)); }

static int64_t scratch_grown;
int64_t cuda_scratch_grown(void) { return scratch_grown; }
void *cuda_scratch(int slot, size_t bytes)
{
    static struct { void *p; size_t n; } kept[SLOT_COUNT];
    if (bytes > kept[slot].n || !kept[slot].p) {
        if (cuda_graph_noting())
            die("CUDA: %zu bytes of scratch for a shape that was not seen before, while a graph is "
                "noted down", bytes);
        if (kept[slot].p) CHECK(cudaFreeAsync(kept[slot].p, cuda_stream));
        kept[slot].p = get_memory(bytes);
        kept[slot].n = bytes;
        scratch_grown++;
    }
    return kept[slot].p;
}
