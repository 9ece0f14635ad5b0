/* comm_mpi.c -- collectives by MPI, on arrays of the host.
 *
 * Only messages between two ranks are MPI's: what is added up, and in which order, is decided here,
 * so that sums are the same with every library, network and run. Messages are at most CHUNK bytes:
 * counts stay far below 2^31, and the terms of a sum stay in the cache.
 *
 * MPI's own waiting spins, which on a machine with more ranks than processors takes the processor from
 * the rank that is waited for (a barrier of three ranks on two: 16 ms). So nothing waits inside of MPI:
 * calls are begun, and looked at again after a sleep. */
#include "ops/comm.h"
#ifndef HAVE_MPI
int comm_mpi_begin(Comm *c, int *local, int *locals)
{
    (void)c; (void)local; (void)locals;
    return 0;
}
void comm_mpi_end(void) {}
void comm_mpi_abort(int code)
{
    (void)code;
    __builtin_trap();
}
#else
#include "base/err.h"
#include <assert.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHUNK ((int64_t)1 << 19)        /* bytes */
#define FEW 256                         /* elements that are summed in one exchange of all */
static const int64_t size_of[COMM_TYPES] = { 4, 8, 2 };
static int rank, ranks;
static char *terms;                     /* [ranks, CHUNK] */

enum { LOOKS = 100 };                   /* without a sleep: some 10 us */

static void finish(MPI_Request *call, int n)    /* 1 or 2 */
{
    MPI_Status status[2];
    int over = 0;
    for (long i = 0; MPI_Testall(n, call, &over, status), !over; i++)
        if (i >= LOOKS) nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
}

static void swap(const void *out, int64_t n_out, int to, void *in, int64_t n_in, int from)
{
    MPI_Request call[2];
    MPI_Irecv(in, (int)n_in, MPI_BYTE, from, 0, MPI_COMM_WORLD, &call[0]);
    MPI_Isend(out, (int)n_out, MPI_BYTE, to, 0, MPI_COMM_WORLD, &call[1]);
    finish(call, 2);
}

/* Elements of part p from its element `at` on, `most` at most. */
static int64_t piece(int64_t n, int64_t part, int p, int64_t at, int64_t most)
{
    int64_t left = n - p * part;
    left = (left < part ? left : part) - at;
    return left < 0 ? 0 : left < most ? left : most;
}

/* ---- sums */

static float from_bf16(uint16_t x)
{
    uint32_t b = (uint32_t)x << 16;
    float f;
    memcpy(&f, &b, sizeof f);
    return f;
}
static uint16_t to_bf16(float f)        /* to nearest, even */
{
    uint32_t b;
    memcpy(&b, &f, sizeof b);
    if (f != f) return (uint16_t)(b >> 16 | 0x40);
    return (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

/* y [n] = sum over ranks of term[r], in their order */
#define ADD_UP(Type, Sum, from, to) \
    for (int64_t i = 0; i < n; i++) { \
        Sum s = 0; \
        for (int r = 0; r < ranks; r++) s += from(((const Type *)term[r])[i]); \
        ((Type *)y)[i] = to(s); \
    }
static void add_up(void *y, const void *const *term, int64_t n, CommType t)
{
    if (t == COMM_F32) ADD_UP(float, double, (double), (float))
    else if (t == COMM_F64) ADD_UP(double, double, (double), (double))
    else ADD_UP(uint16_t, float, from_bf16, to_bf16)
}

static int64_t scatter(void *x, int64_t n, int64_t part, CommType t)
{
    const int64_t size = size_of[t], most = CHUNK / size;
    const void **term = xcalloc((size_t)ranks, sizeof *term);
    assert(part * ranks >= n && n >= 0);
    for (int64_t at = 0; at < part; at += most) {
        int64_t own = piece(n, part, rank, at, most);
        char *mine = (char *)x + (rank * part + at) * size;
        for (int k = 1; k < ranks; k++) {
            int to = (rank + k) % ranks, from = (rank - k + ranks) % ranks;
            const char *out = (char *)x + (to * part + at) * size;
            int64_t n_out = piece(n, part, to, at, most);
            term[from] = terms + from * CHUNK;
            swap(n_out ? out : terms, n_out * size, to, terms + from * CHUNK, own * size, from);
        }
        term[rank] = mine;
        if (own) add_up(mine, term, own, t);
    }
    free(term);
    return 0;
}

static int64_t gather(void *x, int64_t n, int64_t part, CommType t)
{
    const int64_t size = size_of[t], most = CHUNK / size;
    assert(part * ranks >= n && n >= 0);
    for (int64_t at = 0; at < part; at += most)
        for (int k = 1; k < ranks; k++) {
            int to = (rank + k) % ranks, from = (rank - k + ranks) % ranks;
            int64_t own = piece(n, part, rank, at, most), in = piece(n, part, from, at, most);
            char *c = x;
            swap(own ? c + (rank * part + at) * size : terms, own * size, to,
                 in ? c + (from * part + at) * size : terms, in * size, from);
        }
    return 0;
}

static int64_t sum_few(void *x, int64_t n, CommType t)
{
    const void **term = xcalloc((size_t)ranks, sizeof *term);
    int bytes = (int)(n * size_of[t]);
    MPI_Request call;
    MPI_Iallgather(x, bytes, MPI_BYTE, terms, bytes, MPI_BYTE, MPI_COMM_WORLD, &call);
    finish(&call, 1);
    for (int r = 0; r < ranks; r++) term[r] = terms + (int64_t)r * bytes;
    add_up(x, term, n, t);
    free(term);
    return 0;
}

static int64_t sum(void *x, int64_t n, CommType t)
{
    if (n <= FEW) return sum_few(x, n, t);
    int64_t part = (n + ranks - 1) / ranks;
    scatter(x, n, part, t);
    return gather(x, n, part, t);
}

static int64_t broadcast(void *x, int64_t n, CommType t, int root)
{
    int64_t bytes = n * size_of[t];
    for (int64_t at = 0; at < bytes; at += CHUNK) {
        MPI_Request call;
        MPI_Ibcast((char *)x + at, (int)(bytes - at < CHUNK ? bytes - at : CHUNK), MPI_BYTE, root,
                   MPI_COMM_WORLD, &call);
        finish(&call, 1);
    }
    return 0;
}

static void wait_for(int64_t call) { (void)call; }      /* done at once */
static void barrier(void)
{
    MPI_Request call;
    MPI_Ibarrier(MPI_COMM_WORLD, &call);
    finish(&call, 1);
}

/* ---- */

int comm_mpi_begin(Comm *c, int *local, int *locals)
{
    int threads;
    MPI_Comm machine;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &threads);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &machine);
    MPI_Comm_rank(machine, local);
    MPI_Comm_size(machine, locals);
    MPI_Comm_free(&machine);
    terms = xmalloc(size_mul((size_t)ranks, (size_t)CHUNK));
    *c = (Comm){ "mpi", rank, ranks, c, sum, scatter, gather, broadcast, wait_for, barrier };
    return 1;
}

void comm_mpi_end(void)
{
    free(terms);
    barrier();                          /* none spins for another in there */
    MPI_Finalize();
}

void comm_mpi_abort(int code)
{
    MPI_Abort(MPI_COMM_WORLD, code);
    _Exit(code);
}
#endif
