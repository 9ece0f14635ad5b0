/* step.c -- a training step by operation: how often each is called, what it computes and moves, and
 * the least time of that at the roofs of a device, for nanochat's model of a depth or one of the Llama
 * family. Nothing is run: the numbers are the count back-end's.
 *
 *     step --depth 20 --rows 16 --dtype bf16 --peak 989 --bandwidth 3350
 *     step --depth 20 --rows 16 --dtype fp8 --peak8 1979
 *     step --model minimind-moe --rows 32
 *
 * "expected" supposes that products reach `gemm` of the peak, attention `attention` of it, and
 * everything else `memory` of the bandwidth; a measurement has to show it. Muon is not
 * distinguished from a product. MFU counts as nanochat does: 6 per weight, and attention.
 */
#include "base/opt.h"
#include "gpt/nn.h"
#include "gpt/optim.h"
#include "gpt/sched.h"
#include "shape.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static int depth = 20, rows = 16, accum = 0, T = 2048;
static double peak = 989, peak8 = 1979, bandwidth = 3350, gemm = 0.7, attention = 0.4, memory = 0.8;
static const char *dtype = "bf16", *name;

/* one micro-batch and one optimizer step, in n[0] and n[1] */
static void count_step(const Config *c, OpsCount *n)
{
    OpsCount both = { 0 };
    const Ops *o = ops_count(&both, dtype);
    Model *m = model_new(o, c, 1);
    Optim *opt = optim_new(m, &(OptimSettings){ .batch_scale = 1, .lr_scale = 1 });
    const size_t tokens = (size_t)rows * (size_t)T;
    int *x = o->alloc(tokens * sizeof *x), *y = o->alloc(tokens * sizeof *y);
    real *loss = o->alloc(tokens * sizeof *loss);
    Tape t;
    tape_init(&t, o);
    t.on = 1;
    memset(both.by, 0, sizeof both.by);
    both.flops_fwd = both.flops_bwd = both.flops_opt = 0;
    Var *h = model_forward_docs(m, &t, x, NULL, rows, T);
    model_loss(m, &t, h, y, NULL, (int)tokens, loss, 1);
    tape_backward(&t);
    n[0] = both;
    memset(both.by, 0, sizeof both.by);
    both.flops_fwd = both.flops_bwd = both.flops_opt = 0;
    optim_step(opt, 1, 0.9, 0);
    n[1] = both;
    tape_free(&t);
    optim_free(opt);
    model_free(m);
}

typedef struct Times { double least, expected; } Times;
static Times times(const OpsCountOf *of)
{
    const double most = strncmp(of->op, "linear8", 7) == 0 ? peak8 : peak;
    const double flops = of->flops / (most * 1e12), bytes = of->bytes / (bandwidth * 1e9);
    const double reach = strncmp(of->op, "attn", 4) == 0 ? attention : gemm;
    return (Times){ fmax(flops, bytes), fmax(flops / reach, bytes / memory) };
}
static Times show(const OpsCount *n)
{
    Times all = { 0, 0 };
    for (const OpsCountOf *of = n->by; of->op; of++) {
        const Times t = times(of);
        printf("%-14s %6lld %10.3f %9.2f %9.3f %9.3f  %s\n", of->op, (long long)of->calls,
               of->flops / 1e12, of->bytes / 1e9, 1e3 * t.least, 1e3 * t.expected,
               t.least > of->bytes / (bandwidth * 1e9) ? "products" : "memory");
        all.least += t.least;
        all.expected += t.expected;
    }
    return all;
}
static void sum_up(const char *what, double seconds, double tokens, double flops_per_token)
{
    printf("%-9s %9.2f ms a step, %8.0f tokens a second, MFU %.1f %%\n", what, 1e3 * seconds,
           tokens / seconds, 100 * tokens / seconds * flops_per_token / (peak * 1e12));
}

int main(int argc, char **argv)
{
    const Opt opts[] = {
        OPT_INT(0, "depth", &depth, "N", 1, 128, "of nanochat's model"),
        OPT_STR(0, "model", &name, "NAME", "of the Llama family: a preset, qwen3-0.6b, a config.json"),
        OPT_INT('T', "seq-len", &T, "N", 1, 1 << 20, "tokens of a row"),
        OPT_INT(0, "rows", &rows, "N", 1, 1024, "of a micro-batch"),
        OPT_INT(0, "accum", &accum, "N", 0, 1 << 20, "micro-batches a step (0: nanochat's batch)"),
        OPT_STR(0, "dtype", &dtype, "TYPE", "fp32, bf16 or fp8"),
        OPT_FLOAT(0, "peak", &peak, "TFLOPS", 1e-6, 1e6, "products"),
        OPT_FLOAT(0, "peak8", &peak8, "TFLOPS", 1e-6, 1e6, "those in eight bits"),
        OPT_FLOAT(0, "bandwidth", &bandwidth, "GBYTES", 1e-6, 1e6, "memory, a second"),
        OPT_FLOAT(0, "gemm", &gemm, "X", 0.01, 1, "expected part of the peak"),
        OPT_FLOAT(0, "attention", &attention, "X", 0.01, 1, "the same of attention"),
        OPT_FLOAT(0, "memory", &memory, "X", 0.01, 1, "expected part of the bandwidth"),
        OPT_END
    };
    if (opt_parse(argc, argv, "[options]", "What a training step takes at the roofs.", opts))
        die_usage("no arguments are taken");
    const Config c = shape(name, depth, T, 32768), d12 = shape(NULL, 12, T, 32768);
    AutoSizes a = { .scaling_params = config_scaling_params(&c),
                    .scaling_params_d12 = config_scaling_params(&d12), .ratio = 12,
                    .flops_per_token = config_flops_per_token(&c) };
    auto_sizes(&a);
    if (!accum) accum = (int)fmax(1, round((double)a.total_batch / ((double)rows * T)));
    OpsCount n[2];
    count_step(&c, n);
    printf("%s%s%d layers, %d x %d rows of %d, %s, at %.0f TFLOP/s and %.0f GB/s\n%-14s %6s %10s %9s %9s "
           "%9s\n", name ? name : "", name ? ", " : "", c.L, accum, rows, T, dtype, peak, bandwidth, "a micro-batch", "calls", "TFLOP",
           "GB", "least ms", "expected");
    const Times micro = show(&n[0]);
    printf("the optimizer\n");
    const Times opt = show(&n[1]);
    const double tokens = (double)accum * rows * T;
    sum_up("least", accum * micro.least + opt.least, tokens, a.flops_per_token);
    sum_up("expected", accum * micro.expected + opt.expected, tokens, a.flops_per_token);
    return 0;
}
