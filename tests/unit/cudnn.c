/* Plans of cuDNN's attention (lib/ops/cuda/cudnn.cpp) for an H100 that need not be here: cuDNN takes a
 * description of it, compiles the kernels, and a stand-in for the driver loads them. Nothing runs. */
#include "tap.h"
#ifndef HAVE_CUDNN
int main(void)
{
    skip("built without cuDNN", "plans of attention");
    return done();
}
#else
#include "base/err.h"
#include "ops/cuda/cudnn.h"
#include <dlfcn.h>

static const char h100[] =
    "{\"deviceVer\":900,\"multiProcessorCount\":132,\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"
    "\"maxSharedMemoryPerBlockOptin\":232448,\"reservedSharedMemoryPerBlock\":1024,"
    "\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,"
    "\"maxThreadsPerSM\":2048,\"regsPerBlock\":65536,\"totalGlobalMem\":85017755648,"
    "\"smClockRateKHz\":1980000,\"l2CacheSize\":52428800,\"maxBlockSize\":[1024,1024,64],"
    "\"memClockRateKHz\":2619000,\"maxGridSize\":[2147483647,65535,65535],\"supportCoopLaunch\":1,"
    "\"pciDeviceId\":0,\"isTccDriver\":0,\"cudaDeviceId\":0,\"driverVer\":13000,"
    "\"deviceName\":\"H100\"}";

static CudnnPlan *plan(const CudnnShape *s, int backward, char why[512])
{
    *why = 0;
    return cudnn_plan(s, backward, h100, 90, 132, why, 512);
}
static void check_training(const char *name, CudnnShape s)
{
    char why[512];
    CudnnShape part = s;
    part.B = cudnn_rows(&s);
    ok(cudnn_takes(&s) && part.B > 0 && s.B % part.B == 0, "%s: backward by %d of %d rows", name,
       part.B, s.B);
    CudnnPlan *p = plan(&s, 0, why);
    ok(p, "%s: forward %s", name, why);
    if (p) ok(cudnn_workspace(p) <= 4096, "%s: forward in %zu bytes", name, cudnn_workspace(p));
    cudnn_free(p);
    p = plan(&part, 1, why);
    ok(p, "%s: backward %s", name, why);
    if (!p) return;
    const size_t T = (size_t)s.T, n = (size_t)part.B, out = n * T * (size_t)((s.H + 2 * s.K) * s.D) * 2,
                 most = cudnn_scratch(&s), need = out + cudnn_workspace(p);
    ok(need <= most && (double)need > 0.99 * (double)most && cudnn_workspace(p) <= (size_t)600 << 20,
       "%s: backward takes %zu bytes, of %zu planned", name, need, most);
    cudnn_free(p);
}

int main(int argc, char **argv)
{
    (void)argc;
    char *slash = strrchr(argv[0], '/'), why[512];
    char *file = xasprintf("%.*s/libcuda.so.1", (int)(slash ? slash - argv[0] : 1),
                           slash ? argv[0] : ".");
    if (!dlopen(file, RTLD_NOW | RTLD_GLOBAL)) die("%s", dlerror());    /* found by its name from now on */
    check_training("depth 12", (CudnnShape){ 32, 2048, 6, 6, 128, 0 });
    check_training("depth 12, window", (CudnnShape){ 32, 2048, 6, 6, 128, 512 });
    check_training("depth 20", (CudnnShape){ 32, 2048, 10, 10, 128, 0 });
    check_training("depth 20, window", (CudnnShape){ 32, 2048, 10, 10, 128, 512 });
    check_training("grouped heads of 64", (CudnnShape){ 3, 256, 6, 2, 64, 0 });

    const CudnnShape odd[] = { { 2, 300, 6, 6, 128, 0 }, { 2, 256, 6, 6, 40, 0 },
                               { 2, 128, 6, 6, 128, 0 },
                               { 2, 256, 6, 6, 96, 0 }, { 2, 256, 5, 2, 64, 0 } };
    int taken = 0;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) taken += cudnn_takes(&odd[i]);
    ok(!taken, "odd shapes are for our own kernels");
    ok(!cudnn_rows(&(CudnnShape){ 2, 16384, 16, 16, 128, 0 }), "and backwards that take too much memory");
    ok(!plan(&(CudnnShape){ 2, 256, 6, 6, 36, 0 }, 0, why) && *why,
       "what cuDNN has no plan for, it says");
    ok(!cudnn_plan(&(CudnnShape){ 2, 256, 6, 6, 64, 0 }, 0, "{", 90, 132, why, sizeof why) && *why,
       "a device that is not one: no plan");
    free(file);
    return done();
}
#endif
