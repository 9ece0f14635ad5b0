/* comm.c -- one rank, and which back-end; see comm.h. */
#include "ops/comm.h"
#include "base/cpu.h"
#include "base/err.h"
#include <assert.h>
#include <math.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static Comm host;                       /* as comm_none, before comm_begin() */
static int local, locals = 1, joined;

const Comm *comm_host(void) { return host.ranks ? &host : &comm_none; }
int comm_local(int *n)
{
    *n = locals;
    return local;
}

/* Ranks as the launcher says: MPICH's and Slurm's PMI, Open MPI, Slurm without either; -1: PMIx does
 * not say. */
static int announced(void)
{
    static const char *const name[] = { "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS" };
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        const char *s = getenv(name[i]);
        if (s && *s) return atoi(s);
    }
    return getenv("PMIX_RANK") ? -1 : 1;
}

static void rest(double seconds)
{
    nanosleep(&(struct timespec){ .tv_nsec = (long)(seconds * 1e9) }, NULL);
}
/* A rank that dies takes the others with it. All may die of one cause, each with the same message:
 * rank 0 is given the time to say it alone. */
static void let_rank_0_speak(void) { rest(0.6); }
static void leaving(int code)
{
    if (!joined) return;
    fflush(NULL);
    if (code) {
        rest(0.2);                      /* mpirun forwards messages, but not once it is ending */
        comm_mpi_abort(code);
    }
    comm_end();
}
#ifdef __GLIBC__
static void on_leaving(int code, void *arg)
{
    (void)arg;
    leaving(code);
}
static int call_at_exit(void) { return on_exit(on_leaving, NULL); }
#else
static void on_leaving(void) { leaving(1); }
static int call_at_exit(void) { return atexit(on_leaving); }
#endif
/* What goes to standard output is rank 0's to say. */
static void close_stdout(void)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0) die("/dev/null:");
    close(fd);
}

void comm_begin(void)
{
    int n = announced();
    if (n == 0 || n == 1) return;
    if (!comm_mpi_begin(&host, &local, &locals))
        die("started as one of several ranks, but built without MPI");
    joined = 1;
    if (call_at_exit()) die("what is to be done at the end cannot be kept");
    const char *rank = getenv("PMIX_RANK");
    if (n > 0 ? host.ranks != n : host.ranks == 1 && rank && atoi(rank) > 0)
        die("started as one of %d ranks, but MPI knows of %d: is this another MPI's mpirun, or does srun "
            "need --mpi?", n > 0 ? n : atoi(rank) + 1, host.ranks);
    if (host.rank == 0) return;
    close_stdout();
    before_death = let_rank_0_speak;
}

void comm_end(void)
{
    if (!joined) return;
    joined = 0;
    comm_mpi_end();
    host = (Comm){ 0 };
}

const Comm *comm_device(const Ops *ops)
{
    if (comm_host()->ranks == 1) return &comm_none;
    if (strncmp(ops->name, "cuda", 4)) return &host;
#ifdef HAVE_NCCL
    return comm_nccl(&host);
#else
    die("several ranks with CUDA need NCCL, which this was built without");
#endif
}

/* Launchers that bind ranks to processors have shared them out already. */
int comm_threads(void)
{
    int all = (int)sysconf(_SC_NPROCESSORS_ONLN), may = cpu_count(), n = may < all ? may : may / locals;
    return n > 0 ? n : 1;
}

void comm_max(double *x, int n)
{
    enum { MOST = 16 };
    if (comm_host()->ranks == 1) return;
    assert(n <= MOST);
    double *all = xcalloc((size_t)host.ranks * MOST, sizeof *all);
    memcpy(all + host.rank * MOST, x, (size_t)n * sizeof *x);
    host.gather(all, (int64_t)host.ranks * MOST, MOST, COMM_F64);
    for (int r = 0; r < host.ranks; r++)
        for (int i = 0; i < n; i++) x[i] = fmax(x[i], all[r * MOST + i]);
    free(all);
}

double comm_sum(double x)
{
    comm_host()->sum(&x, 1, COMM_F64);
    return x;
}
