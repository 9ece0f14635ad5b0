/* Processors that this process may run on. */
#include "base/cpu.h"
#include "tap.h"
#include <sched.h>

int main(void)
{
    int n = cpu_count();
    ok(n >= 1, "%d processors", n);
#ifdef __linux__
    cpu_set_t mine, one;
    if (sched_getaffinity(0, sizeof mine, &mine)) {
        skip("bound to one", "more than CPU_SETSIZE of them");
        return done();
    }
    ok(n == CPU_COUNT(&mine), "those of the affinity mask");
    int first = 0;
    while (!CPU_ISSET(first, &mine))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ok(!sched_setaffinity(0, sizeof one, &one) && cpu_count() == 1, "bound to one: one");
#endif
    return done();
}
