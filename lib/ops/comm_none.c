/* comm_none.c -- one rank: nothing is exchanged. */
#include "ops/comm.h"

static int64_t sum(void *x, int64_t n, CommType t)
{
    (void)x; (void)n; (void)t;
    return 0;
}
static int64_t parts(void *x, int64_t n, int64_t part, CommType t)
{
    (void)x; (void)n; (void)part; (void)t;
    return 0;
}
static int64_t broadcast(void *x, int64_t n, CommType t, int root)
{
    (void)x; (void)n; (void)t; (void)root;
    return 0;
}
static void wait_for(int64_t call) { (void)call; }
static void barrier(void) {}

#define ALONE(host, ranks) \
    { "none", 0, ranks, host, sum, parts, parts, broadcast, wait_for, barrier }
const Comm comm_none = ALONE(&comm_none, 1);

const Comm *comm_pretend(int ranks)
{
    static Comm c;
    c = (Comm)ALONE(&c, ranks);
    return &c;
}
