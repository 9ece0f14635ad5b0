/* nccl.c -- see nccl.h. An id is rank 0's process number, and all ranks must have got it. */
#include "nccl.h"
#include "ops/comm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Call {
    enum { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, REDUCE, BROADCAST } what;
    const void *in; void *out; size_t n; ncclDataType_t t; int root;
} Call;
static const struct { CommType type; size_t size; } kind[] = {
    [ncclFloat32] = { COMM_F32, 4 }, [ncclFloat64] = { COMM_F64, 8 }, [ncclBfloat16] = { COMM_BF16, 2 },
};
static int group;

/* Of `ranks` counts for scatter and gather, as NCCL counts a part. */
static void run(const void *arg)
{
    Call c;
    memcpy(&c, arg, sizeof c);
    const Comm *h = comm_host();
    const CommType t = kind[c.t].type;
    const size_t part = c.n * kind[c.t].size, own = (size_t)h->rank * part;
    const int64_t n = (int64_t)c.n, all = n * h->ranks;
    char *tmp = malloc(part * (size_t)h->ranks + 1);
    if (!tmp) abort();
    cuemu_access(1);
    switch (c.what) {
    case ALL_REDUCE:
        memmove(c.out, c.in, part);
        h->sum(c.out, n, t);
        break;
    case REDUCE_SCATTER:
        memcpy(tmp, c.in, part * (size_t)h->ranks);
        h->scatter(tmp, all, n, t);
        memcpy(c.out, tmp + own, part);
        break;
    case ALL_GATHER:
        memmove((char *)c.out + own, c.in, part);
        h->gather(c.out, all, n, t);
        break;
    case REDUCE:
        memcpy(tmp, c.in, part);
        h->sum(tmp, n, t);
        if (h->rank == c.root) memcpy(c.out, tmp, part);
        break;
    case BROADCAST:
        if (h->rank == c.root) memmove(c.out, c.in, part);
        h->broadcast(c.out, n, t, c.root);
        break;
    }
    cuemu_access(0);
    free(tmp);
}
static ncclResult_t call(Call c, cudaStream_t s)
{
    if (!c.n) return ncclInvalidUsage;          /* NCCL takes it; nothing here should ask for it */
    cuemu_other(s, run, &c, sizeof c);
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    snprintf(id->internal, sizeof id->internal, "%ld", (long)getpid());
    return ncclSuccess;
}
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
    const Comm *h = comm_host();
    double x[2] = { atof(id.internal), -atof(id.internal) };
    comm_max(x, 2);
    *comm = NULL;
    return ranks == h->ranks && rank == h->rank && x[0] == -x[1] && x[0] > 0 ? ncclSuccess
                                                                              : ncclInvalidUsage;
}
const char *ncclGetErrorString(ncclResult_t r) { return r ? "invalid usage" : "no error"; }
ncclResult_t ncclGroupStart(void) { return group++ ? ncclInvalidUsage : ncclSuccess; }
ncclResult_t ncclGroupEnd(void) { return --group ? ncclInvalidUsage : ncclSuccess; }
ncclResult_t ncclAllReduce(const void *in, void *out, size_t n, ncclDataType_t t, ncclRedOp_t op,
                           ncclComm_t c, cudaStream_t s)
{
    (void)op; (void)c;
    return call((Call){ ALL_REDUCE, in, out, n, t, 0 }, s);
}
ncclResult_t ncclReduceScatter(const void *in, void *out, size_t n, ncclDataType_t t,
                               ncclRedOp_t op, ncclComm_t c, cudaStream_t s)
{
    (void)op; (void)c;
    return call((Call){ REDUCE_SCATTER, in, out, n, t, 0 }, s);
}
ncclResult_t ncclAllGather(const void *in, void *out, size_t n, ncclDataType_t t, ncclComm_t c,
                           cudaStream_t s)
{
    (void)c;
    return call((Call){ ALL_GATHER, in, out, n, t, 0 }, s);
}
ncclResult_t ncclReduce(const void *in, void *out, size_t n, ncclDataType_t t, ncclRedOp_t op,
                        int root, ncclComm_t c, cudaStream_t s)
{
    (void)op; (void)c;
    return call((Call){ REDUCE, in, out, n, t, root }, s);
}
ncclResult_t ncclBroadcast(const void *in, void *out, size_t n, ncclDataType_t t, int root,
                           ncclComm_t c, cudaStream_t s)
{
    (void)c;
    return call((Call){ BROADCAST, in, out, n, t, root }, s);
}
