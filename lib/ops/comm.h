/* comm.h -- collectives: what the ranks of a run, processes that mpirun or srun has started, compute
 * together.
 *
 * All ranks call the same functions in the same order with the same counts. Counts are elements and
 * have 64 bits. An array in parts has n elements; part r is [r part, (r+1) part) as far as that lies
 * inside of n, so that the last parts may be short or empty, and ranks * part >= n.
 *
 * comm_host() is for arrays of the host; comm_device() for those of a back-end, where a call is
 * asynchronous as that back-end's operations are: it comes after what was asked for before, and wait()
 * puts it before what is asked for next. In between its array must be left alone.
 *
 * Sums: on the host and the CPU terms are added in the order of ranks, in double (bfloat16: in float),
 * and rounded once, so that every rank and every run gets the same bits; NCCL's order depends on the
 * machine, every rank gets the same bits. Another number of ranks rounds differently.
 *
 * Errors: a rank that dies (base/err.h) ends all of them, within about a second; so does one that is
 * killed, by way of mpirun. Where all die of one cause rank 0 is the one that says so. */
#ifndef OPS_COMM_H
#define OPS_COMM_H
#include "ops/ops.h"

typedef enum CommType { COMM_F32, COMM_F64, COMM_BF16, COMM_TYPES } CommType;
#define COMM_REAL (sizeof(real) == sizeof(double) ? COMM_F64 : COMM_F32)

typedef struct Comm {
    const char *name;                   /* "none", "mpi", "nccl" */
    int rank, ranks;
    const struct Comm *host;            /* the same ranks, for arrays of the host */
    /* Each gives a number for wait(). */
    int64_t (*sum)(void *x, int64_t n, CommType t);             /* x = sum of all ranks' x */
    int64_t (*scatter)(void *x, int64_t n, int64_t part, CommType t);   /* the same for the rank's
                                                                   own part; the rest is spent */
    int64_t (*gather)(void *x, int64_t n, int64_t part, CommType t);    /* part r of x = rank r's */
    int64_t (*broadcast)(void *x, int64_t n, CommType t, int root);     /* x = root's x */
    void (*wait)(int64_t call);         /* for that call and those before it */
    void (*barrier)(void);              /* waits until all ranks are here */
} Comm;

extern const Comm comm_none;            /* one rank */
/* Joins the other ranks if the environment says that there are any; else one rank, and MPI is not
 * touched. Before any thread is started. Dies if they cannot be joined. Standard output is rank 0's
 * from then on, the others' goes nowhere. exit(0) waits for all ranks to come there. */
void comm_begin(void);
void comm_end(void);
const Comm *comm_host(void);            /* one rank before comm_begin() */
const Comm *comm_device(const Ops *ops);
/* This rank's number among those on its machine, and how many they are. */
int comm_local(int *locals);
/* Rank 0 of so many, which exchanges nothing: for plans. */
const Comm *comm_pretend(int ranks);
/* Threads for this rank: its share of the processors. */
int comm_threads(void);
void comm_max(double *x, int n);        /* the largest of all ranks', n at most 16; waits */
double comm_sum(double x);              /* of all ranks; waits */

/* The back-ends. comm_mpi_begin: 0 if built without MPI. */
int comm_mpi_begin(Comm *c, int *local, int *locals);
void comm_mpi_end(void);
_Noreturn void comm_mpi_abort(int code);
const Comm *comm_nccl(const Comm *host);

#endif
