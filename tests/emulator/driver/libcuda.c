/* A stand-in for NVIDIA's driver (libcuda.so.1), so that cuDNN makes plans where there is no device:
 * it compiles a kernel, loads it and asks for its handle, which is all that succeeds here. Nothing
 * can be launched. */
enum { DONE = 0, NO_DEVICE = 100 };
static int thing;
#define GIVES(name) int name(void **p); int name(void **p) { *p = &thing; return DONE; }
#define DOES(name) int name(void); int name(void) { return DONE; }
#define LACKS(name) int name(void); int name(void) { return NO_DEVICE; }

GIVES(cuLibraryLoadData)
GIVES(cuLibraryGetKernel)
GIVES(cuKernelGetFunction)
DOES(cuLibraryUnload)
DOES(cuKernelSetAttribute)
int cuKernelGetAttribute(int *value);
int cuKernelGetAttribute(int *value) { *value = 0; return DONE; }
int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version) { *version = 13000; return DONE; }
LACKS(cuInit)
LACKS(cuGetErrorName)
LACKS(cuGetErrorString)
LACKS(cuDeviceGet)
LACKS(cuDeviceGetAttribute)
LACKS(cuDeviceGetCount)
LACKS(cuDevicePrimaryCtxRelease)
LACKS(cuDevicePrimaryCtxReset)
LACKS(cuDevicePrimaryCtxRetain)
LACKS(cuCtxGetCurrent)
LACKS(cuCtxGetDevice)
LACKS(cuCtxGetLimit)
LACKS(cuCtxPopCurrent)
LACKS(cuCtxPushCurrent)
LACKS(cuFuncGetAttribute)
LACKS(cuFuncSetAttribute)
LACKS(cuLaunchCooperativeKernel)
LACKS(cuLaunchKernel)
LACKS(cuLaunchKernelEx)
LACKS(cuLibraryLoadFromFile)
LACKS(cuLinkAddData)
LACKS(cuLinkAddData_v2)
LACKS(cuLinkAddFile_v2)
LACKS(cuLinkComplete)
LACKS(cuLinkCreate)
LACKS(cuLinkCreate_v2)
LACKS(cuLinkDestroy)
LACKS(cuMemcpyDtoH_v2)
LACKS(cuModuleGetFunction)
LACKS(cuModuleGetGlobal_v2)
LACKS(cuModuleLoadData)
LACKS(cuModuleLoadDataEx)
LACKS(cuModuleLoadFatBinary)
LACKS(cuModuleUnload)
LACKS(cuOccupancyMaxActiveBlocksPerMultiprocessor)
LACKS(cuOccupancyMaxPotentialClusterSize)
LACKS(cuStreamGetCtx)
LACKS(cuStreamGetGreenCtx)
LACKS(cuStreamSynchronize)
LACKS(cuTensorMapEncodeTiled)
LACKS(cuThreadExchangeStreamCaptureMode)
