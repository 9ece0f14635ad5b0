/* cudart.cpp -- the twin of CUDA's runtime: devices, and memory in one arena (work on it: stream.cpp).
 *
 * A block is filled with NaN (0xff) and followed by a gap of the same; what is read past the end is
 * NaN, and what is written there is found by cuemu_damaged(). A freed block serves the next of its
 * size. CUEMU_MEMORY: bytes of the device. CUEMU_CAPABILITY: 80, or what it is to be. With
 * CUEMU_PROTECT in the environment, or after cuemu_protect(1), the arena is out of reach except inside
 * kernels, copies and products, and kernels take no pointers from outside it. */
#include "cuemu.h"
#include <map>
#include <sys/mman.h>
#include <vector>

namespace {
const size_t GAP = 256, LARGE = 16 << 20, ARENA = (size_t)1 << 40, PAGE = 4096;
struct Range { size_t at, bytes; };
char *arena;
size_t used, open_to;
size_t limit = getenv("CUEMU_MEMORY") ? (size_t)atoll(getenv("CUEMU_MEMORY")) : ARENA;
std::map<size_t, size_t> live;                  /* offset -> bytes asked for */
std::map<size_t, std::vector<size_t>> spare;    /* rounded bytes -> offsets */
CuemuMemory counts;
/* CUEMU_REPORT: the most that was allocated at once is said at the end. */
struct Report {
    ~Report()
    {
        if (getenv("CUEMU_REPORT")) fprintf(stderr, "cuemu: %zu bytes at most\n", counts.peak);
    }
} report;
int damaged, depth;
bool protect = getenv("CUEMU_PROTECT") != NULL;

size_t rounded(size_t n) { return (n + GAP - 1) / GAP * GAP; }
size_t pages(size_t n) { return (n + PAGE - 1) / PAGE * PAGE; }
bool gap_whole(size_t at, size_t bytes)
{
    for (size_t i = at + bytes; i < at + rounded(bytes) + GAP; i++)
        if ((unsigned char)arena[i] != 0xff) return false;
    return true;
}
/* NaN; of large blocks, which are workspace of libraries in tests, only the end */
void fill(size_t at, size_t n)
{
    size_t from = n > LARGE ? n - PAGE : 0;
    memset(arena + at + from, 0xff, n - from);
}
/* lets more of the arena be used */
void extend(size_t to)
{
    to = pages(to);
    if (to <= open_to) return;
    if (mprotect(arena + open_to, to - open_to, PROT_READ | PROT_WRITE))
        cuemu::fail("no memory for the arena");
    open_to = to;
}
} // namespace

extern "C" void cuemu_access(int may)
{
    if (!protect || !arena) return;
    if (may ? depth++ : --depth) return;
    if (mprotect(arena, open_to, may ? PROT_READ | PROT_WRITE : PROT_NONE))
        cuemu::fail("mprotect");
}
namespace cuemu {
void check_pointer(const char *kernel, const void *p)
{
    if (!protect || !p) return;
    if ((const char *)p < arena || (const char *)p >= arena + used)
        fail("%s is given %p, which is not in device memory", kernel, p);
}
} // namespace cuemu

extern "C" {
const char *cudaGetErrorString(cudaError_t e)
{
    return e == cudaErrorMemoryAllocation ? "out of memory"
           : e == cudaErrorInvalidValue   ? "invalid argument"
           : e == cudaErrorInvalidDevice  ? "invalid device ordinal"
           : e == cudaErrorNoDevice       ? "no CUDA-capable device is detected"
                                          : "no error";
}
cudaError_t cudaGetLastError(void) { return cudaSuccess; }
/* CUEMU_DEVICES: how many there are, 1 */
cudaError_t cudaGetDeviceCount(int *n)
{
    *n = getenv("CUEMU_DEVICES") ? atoi(getenv("CUEMU_DEVICES")) : 1;
    return *n ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t cudaSetDevice(int device)
{
    int n;
    cudaGetDeviceCount(&n);
    return device >= 0 && device < n ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr a, int)
{
    const char *s = getenv("CUEMU_CAPABILITY");
    const int capability = s ? atoi(s) : 80;
    *value = a == cudaDevAttrMultiProcessorCount        ? 4
             : a == cudaDevAttrComputeCapabilityMajor ? capability / 10
                                                      : capability % 10;
    return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void *f, enum cudaFuncAttribute, int value)
{
    return cuemu::allow_shared(f, value) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaMallocAsync(void **p, size_t bytes, cudaStream_t)
{
    cuemu::catch_up("cudaMallocAsync");
    if (!arena) {
        void *m = mmap(NULL, ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (m == MAP_FAILED) cuemu::fail("no address space");
        arena = (char *)m;
        extend(PAGE);
    }
    if (bytes > limit || counts.now + bytes > limit) return cudaErrorMemoryAllocation;
    cuemu_access(1);
    size_t n = rounded(bytes), at;
    std::vector<size_t> &old = spare[n];
    if (!old.empty()) {
        at = old.back();
        old.pop_back();
    } else {
        at = used;
        used += n + GAP;
        extend(used);
    }
    fill(at, n + GAP);
    live[at] = bytes;
    counts.now += bytes;
    if (counts.now > counts.peak) counts.peak = counts.now;
    cuemu_access(0);
    *p = arena + at;
    return cudaSuccess;
}
cudaError_t cudaFreeAsync(void *p, cudaStream_t)
{
    cuemu::catch_up("cudaFreeAsync");
    if (!p) return cudaSuccess;
    const size_t at = (size_t)((char *)p - arena);
    auto it = live.find(at);
    if (it == live.end()) cuemu::fail("free of %p, which is no block", p);
    cuemu_access(1);
    damaged += !gap_whole(at, it->second);
    fill(at, rounded(it->second));              /* what is used after this is NaN */
    cuemu_access(0);
    counts.now -= it->second;
    spare[rounded(it->second)].push_back(at);
    live.erase(it);
    return cudaSuccess;
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int)
{
    *pool = NULL;
    return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, enum cudaMemPoolAttr, void *) { return cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t *unused, size_t *total)
{
    *total = limit;
    *unused = limit - counts.now;
    return cudaSuccess;
}
CuemuMemory cuemu_memory(void) { return counts; }
void cuemu_memory_limit(size_t bytes) { limit = bytes; }
void cuemu_protect(int on)
{
    if (!on == !protect) return;
    cuemu::catch_up("cuemu_protect");
    protect = on;
    depth = 0;
    if (arena && mprotect(arena, open_to, on ? PROT_NONE : PROT_READ | PROT_WRITE))
        cuemu::fail("mprotect");
}
int cuemu_damaged(void)
{
    cuemu::catch_up("cuemu_damaged");
    int n = damaged;
    cuemu_access(1);
    for (auto &b : live) n += !gap_whole(b.first, b.second);
    cuemu_access(0);
    return n;
}
} // extern "C"
