/* ops.c -- picks a back-end by name, and the CPU tier by what the processor has. */
#include "ops/ops.h"
#include "base/cpu.h"
#include "base/err.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#ifdef REAL_F64
#define TIER(t) const Ops *cpu_ops_##t(void)
#define TABLES(t) { cpu_ops_##t, NULL }
#else
#define TIER(t) const Ops *cpu_ops_##t(void); const Ops *cpu_ops_##t##_bf16(void)
#define TABLES(t) { cpu_ops_##t, cpu_ops_##t##_bf16 }
#endif
TIER(base);
#ifdef __x86_64__
TIER(avx2);
TIER(avx512);
#ifndef REAL_F64
const Ops *cpu_ops_avx512_dot(void);
#ifdef HAVE_AMX
const Ops *cpu_ops_avx512_tile(void);
#endif
#endif
#endif

/* best first */
static const char *const tiers[] = {
#ifdef __x86_64__
#if defined HAVE_AMX && !defined REAL_F64
    "amx_bf16",
#endif
    "avx512_bf16", "avx512", "avx2",
#endif
    "base",
};
static const struct {
    const Ops *(*ops[2])(void);     /* fp32, bf16 */
    int bf16;                       /* multiplies it: what dtype auto goes by */
} tables[] = {
#ifdef __x86_64__
#ifdef REAL_F64
    { TABLES(avx512), 0 },
#else
#ifdef HAVE_AMX
    { { cpu_ops_avx512, cpu_ops_avx512_tile }, 1 },
#endif
    { { cpu_ops_avx512, cpu_ops_avx512_dot }, 1 },
#endif
    { TABLES(avx512), 0 }, { TABLES(avx2), 0 },
#endif
    { TABLES(base), 0 },
};

/* Memory is set aside by the thread, so a slip of the keyboard must not ask for a billion. */
static void set_threads(int threads)
{
#ifdef _OPENMP
    int most = omp_get_num_procs() > 64 ? omp_get_num_procs() : 64;
    if (threads <= 0) threads = omp_get_max_threads();
    omp_set_num_threads(threads < most ? threads : most);
    omp_set_dynamic(0);
#else
    (void)threads;
#endif
}

static const Ops *open_cpu(const char *dtype, int threads)
{
    if (strcmp(dtype, "fp8") == 0)
        die("--dtype fp8: not on the CPU: it needs a CUDA device of compute capability 8.9 or more");
    set_threads(threads);
    int i = cpu_pick(tiers, sizeof tiers / sizeof *tiers);
    int bf16 = strcmp(dtype, "auto") == 0 ? tables[i].bf16 : strcmp(dtype, "bf16") == 0;
    if (bf16 && !tables[i].ops[1]) die("--dtype bf16: not in a double build");
    return tables[i].ops[bf16]();
}

/* Measured with one other program running on two processors: spinning threads made training six
 * times slower than waiting ones. */
void ops_begin(char **argv)
{
#ifdef _OPENMP
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT") || getenv("KMP_BLOCKTIME")) return;
    if (setenv("OMP_WAIT_POLICY", "passive", 1) == 0)
        execv("/proc/self/exe", argv);          /* if that fails, they spin */
#else
    (void)argv;
#endif
}

const Ops *ops_cpu(int threads) { return open_cpu("fp32", threads); }

#if defined HAVE_CUDA && !defined REAL_F64
const Ops *cuda_ops_fp32(void), *cuda_ops_bf16(void), *cuda_ops_fp8(void);
int cuda_devices(const char **why);
int cuda_capability(void);
void cuda_start(int device);

static const Ops *open_cuda(int device, const char *dtype, int threads)
{
    set_threads(threads);               /* of what the host does */
    cuda_start(device);
    if (strcmp(dtype, "fp8") == 0) {
        const int has = cuda_capability();
        if (has < 89)
            die("--dtype fp8: cuda:%d has compute capability %d.%d: 8.9 or more is needed (Ada, Hopper, "
                "Blackwell)", device, has / 10, has % 10);
        return cuda_ops_fp8();
    }
    return strcmp(dtype, "fp32") ? cuda_ops_bf16() : cuda_ops_fp32();
}
static int is_cuda_here(void) { return cuda_devices(NULL) > 0; }
static const Ops *must_cuda(const char *name, long device, const char *dtype, int threads)
{
    const char *why;
    int n = cuda_devices(&why);
    if (n == 0) die("--device %s: no device can be used: %s", name, why);
    if (device >= n) die("--device %s: %d here, the first is cuda:0", name, n);
    return open_cuda((int)device, dtype, threads);
}
#else
static const Ops *open_cuda(int device, const char *dtype, int threads)
{
    (void)device;
    return open_cpu(dtype, threads);
}
static int is_cuda_here(void) { return 0; }
static const Ops *must_cuda(const char *name, long device, const char *dtype, int threads)
{
    (void)device; (void)dtype; (void)threads;
    die("--device %s: built without CUDA", name);
}
#endif

const char *ops_advice = "";

const Ops *ops_open(const char *device, const char *dtype, int threads)
{
    if (strcmp(dtype, "auto") && strcmp(dtype, "fp32") && strcmp(dtype, "bf16") &&
        strcmp(dtype, "fp8"))
        die_usage("--dtype: '%s' is none of auto, fp32, bf16, fp8", dtype);
    if (strcmp(device, "cpu") == 0) return open_cpu(dtype, threads);
    if (strcmp(device, "auto") == 0)
        return is_cuda_here() ? open_cuda(0, dtype, threads) : open_cpu(dtype, threads);
    if (strncmp(device, "cuda", 4) == 0 && (!device[4] || device[4] == ':')) {
        char *end = NULL;
        long n = 0;
        if (device[4] &&
            (device[5] < '0' || device[5] > '9' || (n = strtol(device + 5, &end, 10), *end)))
            die_usage("--device: '%s': expected a number after cuda:", device);
        return must_cuda(device, n, dtype, threads);
    }
    die_usage("--device: '%s' is none of auto, cpu, cuda, cuda:N", device);
}

const char *ops_device(const char *device, int local)
{
    static char its_own[32];
    int automatic = strcmp(device, "auto") == 0;
    if (automatic && !is_cuda_here()) return "cpu";
    if (!automatic && strcmp(device, "cuda")) return device;
    snprintf(its_own, sizeof its_own, "cuda:%d", local);
    return its_own;
}

const Ops *ops_reference(const Ops *ops, const char *device, int threads)
{
    return strcmp(ops->dtype, "fp32") ? ops_open(device, "fp32", threads) : cpu_ops_base();
}
