/* nccl.c -- collectives between GPUs by NCCL, on a stream of their own: each begins when the work that
 * was asked for before it is done, and what comes after wait() when it is; events say so in both
 * directions, and the host waits for neither.
 *
 * The ranks find each other by an id that rank 0 makes and MPI hands round. The library is loaded when
 * several ranks use CUDA, and not before. Parts that differ in length are a group of reductions or
 * broadcasts, each to or from the rank whose part it is. */
#include "ops/cuda/cuda.h"
#include "ops/comm.h"
#ifdef HAVE_NCCL
#include "base/err.h"
#include <dlfcn.h>
#include <nccl.h>
#include <string.h>

#define FUNCTIONS(F) F(GetUniqueId) F(CommInitRank) F(AllReduce) F(ReduceScatter) F(AllGather) \
    F(Reduce) F(Broadcast) F(GroupStart) F(GroupEnd) F(GetErrorString)
static struct {
#define F(name) __typeof__(nccl##name) *name;
    FUNCTIONS(F)
#undef F
} nccl;

enum { EVENTS = 64 };                   /* one that is used again stands for a later call: that waits too */
static const Comm *host;
static ncclComm_t ring;
static cudaStream_t stream;
static cudaEvent_t ready, done[EVENTS];
static int64_t calls;

static void check(ncclResult_t r, const char *what)
{
    if (r != ncclSuccess)
        die("NCCL: %s: %s (NCCL_DEBUG=WARN tells more)", what, nccl.GetErrorString(r));
}
#define NCCL(name, ...) check(nccl.name(__VA_ARGS__), #name)
#define CUDA(call) cuda_check(call, #call)

#ifdef NCCL_LINKED                      /* the emulator's */
static void load_library(void)
{
#define F(name) nccl.name = nccl##name;
    FUNCTIONS(F)
#undef F
}
#else
static void load_library(void)
{
    void *lib = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL), *f;
    if (!lib) die("NCCL: %s", dlerror());
    /* ISO C has no conversion between pointers to objects and to functions */
#define F(name) \
    if (!(f = dlsym(lib, "nccl" #name))) die("NCCL: %s", dlerror()); \
    memcpy(&nccl.name, &f, sizeof f);
    FUNCTIONS(F)
#undef F
}
#endif

/* ---- */

static const struct { ncclDataType_t type; size_t size; } kind[COMM_TYPES] = {
    [COMM_F32] = { ncclFloat32, 4 }, [COMM_F64] = { ncclFloat64, 8 },
    [COMM_BF16] = { ncclBfloat16, 2 },
};

/* Of a call that writes x [n]. */
static void begin(void *x, int64_t n, CommType t)
{
    cuda_changed(x, (size_t)n * kind[t].size);
    CUDA(cudaEventRecord(ready, cuda_stream));
    CUDA(cudaStreamWaitEvent(stream, ready, 0));
}
static int64_t end(void)
{
    CUDA(cudaEventRecord(done[calls % EVENTS], stream));
    return calls++;
}

static int64_t sum(void *x, int64_t n, CommType t)
{
    begin(x, n, t);
    if (n) NCCL(AllReduce, x, x, (size_t)n, kind[t].type, ncclSum, ring, stream);
    return end();
}

/* Part r of x, and how long it is. */
static void *part_of(void *x, int64_t n, int64_t part, CommType t, int r, size_t *len)
{
    int64_t at = r * part, left = n - at;
    *len = left <= 0 ? 0 : (size_t)(left < part ? left : part);
    return *len ? (char *)x + (size_t)at * kind[t].size : x;
}

static int64_t scatter(void *x, int64_t n, int64_t part, CommType t)
{
    size_t len;
    void *own = part_of(x, n, part, t, host->rank, &len);
    begin(x, n, t);
    if (n && n == part * host->ranks) {
        NCCL(ReduceScatter, x, own, len, kind[t].type, ncclSum, ring, stream);
    } else {
        NCCL(GroupStart);
        for (int r = 0; r < host->ranks; r++) {
            void *p = part_of(x, n, part, t, r, &len);
            if (len) NCCL(Reduce, p, p, len, kind[t].type, ncclSum, r, ring, stream);
        }
        NCCL(GroupEnd);
    }
    return end();
}

static int64_t gather(void *x, int64_t n, int64_t part, CommType t)
{
    size_t len;
    void *own = part_of(x, n, part, t, host->rank, &len);
    begin(x, n, t);
    if (n && n == part * host->ranks) {
        NCCL(AllGather, own, x, len, kind[t].type, ring, stream);
    } else {
        NCCL(GroupStart);
        for (int r = 0; r < host->ranks; r++) {
            void *p = part_of(x, n, part, t, r, &len);
            if (len) NCCL(Broadcast, p, p, len, kind[t].type, r, ring, stream);
        }
        NCCL(GroupEnd);
    }
    return end();
}

static int64_t broadcast(void *x, int64_t n, CommType t, int root)
{
    begin(x, n, t);
    if (n) NCCL(Broadcast, x, x, (size_t)n, kind[t].type, root, ring, stream);
    return end();
}

static void wait_for(int64_t call)
{
    CUDA(cudaStreamWaitEvent(cuda_stream, done[call % EVENTS], 0));
}

static void barrier(void)
{
    cuda_sync();
    host->barrier();
}

const Comm *comm_nccl(const Comm *of)
{
    static Comm c;
    ncclUniqueId id;
    if (host) return &c;
    load_library();
    host = of;
    memset(&id, 0, sizeof id);
    if (host->rank == 0) NCCL(GetUniqueId, &id);
    host->broadcast(&id, sizeof id / sizeof(double), COMM_F64, 0);
    NCCL(CommInitRank, &ring, host->ranks, id, host->rank);
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
    for (int i = 0; i < EVENTS; i++)
        CUDA(cudaEventCreateWithFlags(&done[i], cudaEventDisableTiming));
    c = (Comm){ "nccl", host->rank, host->ranks, host, sum, scatter, gather, broadcast, wait_for, barrier };
    return &c;
}
#endif
