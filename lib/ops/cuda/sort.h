/* sort.h -- sorts small numbers, such as tokens, and keeps equal ones in order. */
#ifndef OPS_CUDA_SORT_H
#define OPS_CUDA_SORT_H
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
/* key[i] = the i-th of the sorted keys, order[i] = where it was. On the device; good until the next
 * call for other keys. */
typedef struct Sorted { const int *key, *order; } Sorted;

/* keys [n] on the device, each in [0, most). Called again for the same array it gives what it has:
 * what writes there must say so to cuda_sort_forget (memory operations do). */
Sorted cuda_sort(const int *keys, int n, int most);
void cuda_sort_forget(const void *p, size_t bytes);
void cuda_sort_forget_all(void);        /* where work is noted down or done again */
#ifdef __cplusplus
}
#endif
#endif
