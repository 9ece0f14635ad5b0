#include "base/cpu.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"

#include <unistd.h>
#ifdef __linux__
#include <sched.h>
#endif
#if defined __x86_64__ && defined __linux__
#include <cpuid.h>
#include <sys/syscall.h>
#endif

static const char *const ranks[] = { "base", "avx2", "avx512", "avx512_bf16", "amx_bf16" };
enum { RANKS = sizeof ranks / sizeof *ranks };

static int rank(const char *tier)
{
    for (int i = 0; i < RANKS; i++)
        if (strcmp(tier, ranks[i]) == 0)
            return i;
    return -1;
}

static const char *wanted(void)         /* NULL: the best */
{
    const char *s = getenv("PIPEGPT_CPU");
    return s && *s ? s : NULL;
}

#if defined __x86_64__ && defined __linux__
/* AMX-TILE and AMX-BF16 (cpuid 7, EDX bits 24, 22), both parts of the tiles' state saved by the
 * system (XCR0 bits 17, 18), and its leave to use them. That holds for all threads. */
static bool has_amx(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
    unsigned a, b, c, d, xcr0, high;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 24 & 1) || !(d >> 22 & 1)) return false;
    __asm__("xgetbv" : "=a"(xcr0), "=d"(high) : "c"(0));
    return (xcr0 >> 17 & 3) == 3 && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0;
}
#else
__attribute__((unused)) static bool has_amx(void) { return false; }
#endif

bool cpu_runs(const char *tier)
{
    int r = rank(tier);
#ifdef __x86_64__
    __builtin_cpu_init();               /* also called before main */
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                __builtin_cpu_supports("popcnt");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    bool bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
    return r == 0 || (r == 1 && avx2) || (r == 2 && avx512) || (r == 3 && bf16) ||
           (r == 4 && bf16 && has_amx());
#else
    return r == 0;
#endif
}

bool cpu_allows(const char *tier)
{
    const char *want = wanted();
    int w = want ? rank(want) : RANKS;
    return cpu_runs(tier) && (w < 0 || w >= rank(tier));
}

bool cpu_allows_vbmi2(void)
{
#ifdef __x86_64__
    return cpu_allows("avx512") && __builtin_cpu_supports("avx512vbmi") &&
           __builtin_cpu_supports("avx512vbmi2");
#else
    return false;
#endif
}

int cpu_pick(const char *const *tier, int n)
{
    const char *want = wanted();
    int most = want ? rank(want) : RANKS;
    if (most < 0) {
        Buf known = { 0 };
        for (int i = 0; i < RANKS; i++)
            buf_printf(&known, "%s%s", i ? ", " : "", ranks[i]);
        die("PIPEGPT_CPU=%s: not known here (%s)", want, known.s);
    }
    if (want && !cpu_runs(want))
        die("PIPEGPT_CPU=%s: this processor cannot run it", want);
    for (int i = 0; i < n; i++)
        if (rank(tier[i]) <= most && cpu_runs(tier[i]))
            return i;
    die("internal: no code for this processor");
}

int cpu_count(void)
{
#ifdef __linux__
    cpu_set_t set;
    if (!sched_getaffinity(0, sizeof set, &set))
        return CPU_COUNT(&set);
#endif
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > 1024 ? 1024 : (int)n;
}
