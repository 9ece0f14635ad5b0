/* plans.h -- which algorithm of cublasLt's makes which kind of product, kept in a file, so that a
 * later run, or another rank, does bit for bit what the first did: which is fastest may differ from
 * run to run where two are near, and with it the order of sums.
 *
 * The file is $PIPEGPT_CUDA_PLANS, or plans.txt in $XDG_CACHE_HOME/pipegpt or ~/.cache/pipegpt; set
 * but empty: none. A line has the head that plans_lock() was given, which names the library and the
 * device, a key's numbers and an algorithm's bytes. Of several for a key the last one counts; what
 * does not parse and lines with another head are passed over. It grows to 4 MiB, and then its older
 * half goes.
 *
 * Between lock and unlock no other process that uses the file is there: what the first of them
 * chooses and keeps the others find. Without a file that can be written each chooses alone. */
#ifndef OPS_CUDA_PLANS_H
#define OPS_CUDA_PLANS_H
#include <stdint.h>

/* Of m and k, what plan_class() made of them where cuda_gemm() says so. */
typedef struct PlanKey {
    int m, n, k, ta, tb, batch, num_a, num_b, num_y, fast, add, align_a, align_b, align_d, align_y;
} PlanKey;
typedef struct PlanAlgo { uint64_t data[8]; } PlanAlgo;

void plans_lock(const char *head);      /* and reads the file */
void plans_unlock(void);
const PlanAlgo *plans_find(const PlanKey *k);                   /* read or kept so far, else NULL */
void plans_keep(const PlanKey *k, const PlanAlgo *algo);        /* while it is locked */

/* n, up to the next multiple of an eighth of a power of two: 17 is 18, 1000 1024, 1100 1152 */
static inline int plan_class(int n)
{
    int step = 1;
    while (n > 16 * step && step < 1 << 26) step *= 2;
    return n > INT32_MAX - step ? n : (n + step - 1) / step * step;
}
#endif
