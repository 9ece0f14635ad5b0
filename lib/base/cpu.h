/* cpu.h -- what the processor can run, for code that is compiled once per instruction set ("tier")
 * and chosen at run time. Tiers, the least first: base (what the compiler was told), avx2 (with
 * FMA, BMI1, BMI2), avx512 (F, BW, DQ, VL), avx512_bf16 (BF16 as well), amx_bf16 (AMX's
 * tiles of bfloat16 as well, and a Linux that lets the process use them, which is asked when the
 * tier is). PIPEGPT_CPU=TIER in the environment allows none above it.
 */
#ifndef BASE_CPU_H
#define BASE_CPU_H
#include <stdbool.h>

bool cpu_runs(const char *tier);        /* the processor does; false for a name not known */
/* May code of this tier be used? The processor runs it, and the environment allows it. */
bool cpu_allows(const char *tier);
bool cpu_allows_vbmi2(void);            /* avx512, with VBMI and VBMI2 */
/* Which of the n tiers, best first, to use. Dies if the environment names one that is not known or
 * cannot run. */
int cpu_pick(const char *const *tier, int n);
int cpu_count(void);                    /* processors that this process may run on, 1 or more */

#endif
