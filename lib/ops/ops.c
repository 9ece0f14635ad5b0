/* ops.c -- picks a back-end by name, and the CPU tier by what the processor has. */
#include "ops/ops.h"
#include "base/err.h"
#include <stdlib.h>
#include <string.h>
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
static int has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
static int has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif
static int has_base(void) { return 1; }

static const struct {               /* best first */
    const char *name;
    int (*has)(void);
    int bf16;                       /* multiplies it: what dtype auto goes by */
    const Ops *(*ops[2])(void);     /* fp32, bf16 */
} tier[] = {
#ifdef __x86_64__
    { "avx512", has_avx512, 0, TABLES(avx512) },
    { "avx2", has_avx2, 0, TABLES(avx2) },
#endif
    { "base", has_base, 0, TABLES(base) },
};

static const Ops *open_cpu(const char *dtype, int threads)
{
#ifdef _OPENMP
    if (threads > 0) omp_set_num_threads(threads);
    omp_set_dynamic(0);
#else
    (void)threads;
#endif
    const char *want = getenv("PIPEGPT_CPU");
    for (size_t i = 0; i < sizeof tier / sizeof *tier; i++) {
        if (want && *want) {
            if (strcmp(want, tier[i].name) != 0) continue;
            if (!tier[i].has()) die("PIPEGPT_CPU=%s: this processor cannot run it", want);
        }
        if (!tier[i].has()) continue;
        int bf16 = strcmp(dtype, "auto") == 0 ? tier[i].bf16 : strcmp(dtype, "bf16") == 0;
        if (bf16 && !tier[i].ops[1]) die("--dtype bf16: not in a double build");
        return tier[i].ops[bf16]();
    }
    die("PIPEGPT_CPU=%s: not known here (base%s)", want,
        sizeof tier / sizeof *tier > 1 ? ", avx2, avx512" : "");
}

const Ops *ops_cpu(int threads) { return open_cpu("fp32", threads); }

const Ops *ops_open(const char *device, const char *dtype, int threads)
{
    if (strcmp(dtype, "auto") != 0 && strcmp(dtype, "fp32") != 0 && strcmp(dtype, "bf16") != 0)
        die_usage("--dtype: '%s' is none of auto, fp32, bf16", dtype);
    if (strcmp(device, "auto") == 0 || strcmp(device, "cpu") == 0) return open_cpu(dtype, threads);
    if (strncmp(device, "cuda", 4) == 0 && (!device[4] || device[4] == ':')) {
        char *end = NULL;
        if (device[4] &&
            (device[5] < '0' || device[5] > '9' || (strtol(device + 5, &end, 10), *end)))
            die_usage("--device: '%s': expected a number after cuda:", device);
        die("--device %s: built without CUDA", device);
    }
    die_usage("--device: '%s' is none of auto, cpu, cuda, cuda:N", device);
}

const Ops *ops_reference(const Ops *ops, const char *device, int threads)
{
    return strcmp(ops->dtype, "fp32") ? ops_open(device, "fp32", threads) : cpu_ops_base();
}
