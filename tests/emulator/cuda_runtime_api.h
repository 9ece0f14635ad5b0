/* cuda_runtime_api.h -- the twin of CUDA's runtime for tests (cudart.cpp): the few functions that
 * lib/ops/cuda/mem.c calls. A stream's work is done at once, or as late as can be (stream.cpp); device
 * memory is the host's, in an arena of its own with a marked gap after each block. */
#ifndef CUEMU_RUNTIME_H
#define CUEMU_RUNTIME_H
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef enum cudaError {
    cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidDevice = 101, cudaErrorNoDevice = 100, cudaErrorIllegalAddress = 700,
    cudaErrorMisalignedAddress = 716, cudaErrorLaunchFailure = 719,
    cudaErrorStreamCaptureInvalidated = 901
} cudaError_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
typedef enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 } cudaStreamCaptureMode;
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaHostAllocDefault = 0 };
enum cudaDeviceAttr {
    cudaDevAttrMultiProcessorCount = 16, cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76
};

const char *cudaGetErrorString(cudaError_t e);
cudaError_t cudaGetLastError(void);
cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr a, int device);
cudaError_t cudaFuncSetAttribute(const void *f, enum cudaFuncAttribute a, int value);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags);
cudaError_t cudaStreamSynchronize(cudaStream_t s);
cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *e, cudaGraph_t g, unsigned long long flags);
cudaError_t cudaGraphDestroy(cudaGraph_t g);
cudaError_t cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t s);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t e);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags);
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s);
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags);
cudaError_t cudaEventSynchronize(cudaEvent_t e);
cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaMallocAsync(void **p, size_t bytes, cudaStream_t s);
cudaError_t cudaFreeAsync(void *p, cudaStream_t s);
typedef struct CUmemPoolHandle_st *cudaMemPool_t;
enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold = 4 };
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr a, void *value);
cudaError_t cudaMemGetInfo(size_t *unused, size_t *total);
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind k,
                            cudaStream_t s);

/* ---- for tests */
typedef struct CuemuMemory { size_t now, peak; } CuemuMemory;
CuemuMemory cuemu_memory(void);         /* bytes allocated */
long cuemu_launches(void);              /* of kernels, so far */
void cuemu_schedule(int s);             /* 0 to 3 (cuemu.h); at the start the environment's CUEMU */
void cuemu_sample(long blocks);          /* only so many first and last ones of a launch run; and
                                         * large memory is not filled. 0: all of them, as usual */
void cuemu_memory_limit(size_t bytes);  /* as if the device had no more */
void cuemu_protect(int on);             /* nobody but kernels and copies may touch device memory */
int cuemu_damaged(void);                /* blocks written past their end since the start */
long cuemu_graphs(void);                /* graphs run so far */
long cuemu_waits(void);                 /* how often the host has waited for the device */
void cuemu_lazy(int on);                /* work is put off until the host waits */
/* NCCL's twin: f(a copy of arg), on another stream than the first */
void cuemu_other(cudaStream_t s, void (*f)(const void *), const void *arg, size_t bytes);
int cuemu_note(void (*f)(const void *), const void *arg, size_t bytes); /* 1: it is noted, not now */
void cuemu_access(int may);             /* gemm's twin: opens device memory for itself */

#ifdef __cplusplus
}
#endif
#endif
