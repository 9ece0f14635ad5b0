/* ranks.h -- ranks for tests, without MPI: processes that exchange through shared memory.
 *
 *     int status = ranks_run(3, f, arg);      // each calls f(comm, arg) and ends; 0: all by exit(0)
 *
 * When one ends in another way the rest is killed, as mpirun does, and its status is returned. Sums go
 * in the order of ranks, in double. */
#ifndef RANKS_H
#define RANKS_H
#include "base/err.h"
#include "ops/comm.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MOST = 8, RANKS_CHUNK = 1 << 16 };         /* bytes at a time */
static struct RanksShared {
    pthread_barrier_t all;
    char slot[RANKS_MOST][RANKS_CHUNK];
} *ranks_shared;
static Comm ranks_comm;
static const int ranks_size[COMM_TYPES] = { 4, 8, 2 };

static void ranks_barrier(void) { pthread_barrier_wait(&ranks_shared->all); }

static double ranks_load(const char *p, CommType t)
{
    float f = 0;
    double d;
    if (t == COMM_F64) { memcpy(&d, p, 8); return d; }
    if (t == COMM_F32) memcpy(&f, p, 4);
    else memcpy((char *)&f + 2, p, 2);
    return (double)f;
}
static void ranks_store(char *p, CommType t, double d)
{
    float f = (float)d;
    uint32_t b;
    memcpy(&b, &f, 4);
    b = (b + 0x7fff + (b >> 16 & 1)) >> 16;
    if (t == COMM_F64) memcpy(p, &d, 8);
    else if (t == COMM_F32) memcpy(p, &f, 4);
    else memcpy(p, &b, 2);
}

static int64_t ranks_sum(void *x, int64_t n, CommType t)
{
    const Comm *c = &ranks_comm;
    int64_t size = ranks_size[t], most = RANKS_CHUNK / size;
    for (int64_t at = 0; at < n; at += most) {
        int64_t k = n - at < most ? n - at : most;
        char *p = (char *)x + at * size;
        memcpy(ranks_shared->slot[c->rank], p, (size_t)(k * size));
        ranks_barrier();
        for (int64_t i = 0; i < k; i++) {
            double s = 0;
            for (int r = 0; r < c->ranks; r++) s += ranks_load(ranks_shared->slot[r] + i * size, t);
            ranks_store(p + i * size, t, s);
        }
        ranks_barrier();
    }
    return 0;
}

/* The whole sum; what is not the rank's own part must not be used, and becomes garbage. */
static int64_t ranks_scatter(void *x, int64_t n, int64_t part, CommType t)
{
    int64_t from = ranks_comm.rank * part, size = ranks_size[t];
    if (part * ranks_comm.ranks < n) die("parts of %lld for %lld", (long long)part, (long long)n);
    ranks_sum(x, n, t);
    for (int64_t i = 0; i < n; i++)
        if (i < from || i >= from + part) memset((char *)x + i * size, 0x7f, (size_t)size);
    return 0;
}

static int64_t ranks_gather(void *x, int64_t n, int64_t part, CommType t)
{
    int64_t size = ranks_size[t], most = RANKS_CHUNK / size;
    if (part * ranks_comm.ranks < n) die("parts of %lld for %lld", (long long)part, (long long)n);
    for (int64_t at = 0; at < n; at += most) {
        int64_t k = n - at < most ? n - at : most;
        char *p = (char *)x + at * size;
        memcpy(ranks_shared->slot[ranks_comm.rank], p, (size_t)(k * size));
        ranks_barrier();
        for (int64_t i = 0; i < k; i++)
            memcpy(p + i * size, ranks_shared->slot[(at + i) / part] + i * size, (size_t)size);
        ranks_barrier();
    }
    return 0;
}

static int64_t ranks_broadcast(void *x, int64_t n, CommType t, int root)
{
    if (ranks_comm.rank != root) memset(x, 0, (size_t)(n * ranks_size[t]));
    return ranks_sum(x, n, t);
}

static void ranks_wait(int64_t call) { (void)call; }

__attribute__((unused))
static int ranks_run(int n, void (*f)(const Comm *c, void *arg), void *arg)
{
    pid_t pid[RANKS_MOST];
    pthread_barrierattr_t shared;
    int bad = 0;
    ranks_shared = mmap(NULL, sizeof *ranks_shared, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ranks_shared == MAP_FAILED) die("mmap:");
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&ranks_shared->all, &shared, (unsigned)n);
    fflush(NULL);
    for (int r = 0; r < n; r++) {
        pid[r] = fork();
        if (pid[r]) continue;
        ranks_comm = (Comm){ "test", r, n, &ranks_comm, ranks_sum, ranks_scatter, ranks_gather,
                             ranks_broadcast, ranks_wait, ranks_barrier };
        f(&ranks_comm, arg);
        fflush(NULL);
        _exit(0);
    }
    for (int left = n; left; left--) {
        int st;
        pid_t p = wait(&st);
        for (int r = 0; r < n; r++) {
            if (pid[r] == p) pid[r] = 0;
            else if (st && pid[r]) kill(pid[r], SIGKILL);
        }
        if (st && !bad) bad = st;
    }
    munmap(ranks_shared, sizeof *ranks_shared);
    return bad;
}

#endif
