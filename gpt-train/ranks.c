/* A run over several ranks: each takes its turns of the rows of a step, and what decides anything is
 * the same for all. */
#include "options.h"
#include "run.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

void ranks_options(void)
{
    if (opt.ranks == 1) return;
    if (opt.rl) die_usage("--rl: not over several ranks");
    if (opt.rescan) die_usage("--rescan: not over several ranks, which may see different files");
}

/* Each rank has a share of the processors, and a device of its own, ranks_device(). */
void ranks_begin(void)
{
    const Comm *c = comm_host();
    if (c->ranks == 1) return;
    opt.ranks = c->ranks;
    if (c->rank) {
        prog = xasprintf("%s: rank %d", prog, c->rank);
        verbose = 0;
    }
    if (!opt.threads) opt.threads = comm_threads();
}

const char *ranks_device(void)
{
    int locals, local = comm_local(&locals);
    if (comm_host()->ranks == 1) return opt.device;
    if (locals > 1 && !strncmp(opt.device, "cuda:", 5))
        die_usage("--device %s: the ranks of a machine have a device each: give cuda", opt.device);
    return ops_device(opt.device, local);
}

int ranks_stop(void)
{
    double sig = stopped_by;
    comm_max(&sig, 1);
    if (sig > 0) stopped_by = (sig_atomic_t)sig;
    return stopped_by;
}

int ranks_any(int x)
{
    double any = x != 0;
    comm_max(&any, 1);
    return any > 0;
}

double ranks_first(double x)
{
    comm_host()->broadcast(&x, 1, COMM_F64, 0);
    return x;
}

void ranks_equal(const Run *r)
{
    if (opt.ranks == 1) return;
    uint64_t h = model_hash(r->m);
    double x[4] = { (double)(h >> 32), -(double)(h >> 32), (double)(uint32_t)h,
                    -(double)(uint32_t)h };
    comm_max(x, 4);
    if (x[0] != -x[1] || x[2] != -x[3])
        die("the ranks have different weights: do all see the same %s?",
            run_source() ? run_source() : "files");
}

Bpb ranks_bpb(const Bpb *b)
{
    return (Bpb){ .nats = comm_sum(b->nats), .bytes = (uint64_t)comm_sum((double)b->bytes),
                  .all = comm_sum(b->all), .tokens = (uint64_t)comm_sum((double)b->tokens),
                  .rows = (uint64_t)comm_sum((double)b->rows) };
}

uint64_t ranks_turn(const Run *r, int64_t i)
{
    return data_turn(r->st.pos, i, r->plan.B, comm_host()->rank, comm_host()->ranks);
}

uint64_t ranks_row(const Run *r, uint64_t i)
{
    uint64_t B = (uint64_t)r->plan.B;
    return ranks_turn(r, (int64_t)(i / B)) + i % B;
}
