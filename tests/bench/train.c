/* train.c -- speed of whole training steps of nanochat's model against this machine's roof, measured
 * in the same run: the micro-batches' forward and backward passes and the optimizer's step, each by
 * itself, and what they come to for a step of several micro-batches.
 *
 *     train [-j THREADS] [--depth N] [-T N] [-B N] [--micro N] [--rounds N] [--dtype fp32|bf16]
 *          [--recompute] [--json]
 *
 * FLOPs are nanochat's count: 6 for a parameter of a product and a token, 12 for a channel of a
 * query and each position of the window. rate: of those a second; roof: of multiply-adds on
 * registers, in bfloat16 where the processor multiplies that.
 */
#include "base/opt.h"
#include "gpt/model.h"
#include "gpt/optim.h"
#include "roof.h"
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>

typedef struct Step {
    Model *m;
    Optim *o;
    Tape tape;
    int *x, *y, B, T;
    real *loss;
} Step;

static void micro_batch(Step *s)
{
    Var *h = model_forward(s->m, &s->tape, s->x, s->B, s->T, NULL);
    model_loss(s->m, &s->tape, h, s->y, NULL, s->B * s->T, s->loss, 1.0 / (s->B * s->T));
    tape_backward(&s->tape);
    tape_reset(&s->tape);
    s->m->ops->sync();
}
static void optimizer(Step *s)
{
    optim_step(s->o, 1, 0.95, 0.1);
    model_zero_grad(s->m);
    s->m->ops->sync();
}
/* least time of `rounds`, after one that warms up */
static double least(Step *s, void (*part)(Step *), int rounds)
{
    double best = 1e300;
    for (int i = 0; i <= rounds; i++) {
        double t0 = now_seconds();
        part(s);
        double t = now_seconds() - t0;
        if (i > 0 && t < best) best = t;
    }
    return best;
}
static int *tokens(const Ops *ops, int n, int V, unsigned seed)
{
    int *h = xmalloc((size_t)n * sizeof *h), *d = ops->alloc((size_t)n * sizeof *d);
    for (int i = 0; i < n; i++) h[i] = (int)((seed = seed * 1664525u + 1013904223u) >> 8) % V;
    ops->put(d, h, (size_t)n * sizeof *h);
    free(h);
    return d;
}

int main(int argc, char **argv)
{
    int threads = 0, depth = 12, T = 1024, B = 4, V = 32768, micro = 16, rounds = 2;
    int json = 0, recompute = 0;
    const char *dtype = "auto";
    const Opt opts[] = {
        OPT_INT('j', "threads", &threads, "N", 0, INT_MAX, "threads (0: all)"),
        OPT_INT(0, "depth", &depth, "N", 1, 64, "layers; the width is 64 times that"),
        OPT_INT('T', "seq-len", &T, "N", 1, 1 << 20, "positions"),
        OPT_INT('B', "device-batch-size", &B, "N", 1, 1 << 20, "rows of a micro-batch"),
        OPT_INT(0, "vocab", &V, "N", 2, 1 << 24, "vocabulary"),
        OPT_INT(0, "micro", &micro, "N", 1, INT_MAX, "micro-batches of a step"),
        OPT_INT(0, "rounds", &rounds, "N", 1, INT_MAX, "take the least time of N"),
        OPT_STR(0, "dtype", &dtype, "TYPE", "activations: fp32, bf16 or auto"),
        OPT_FLAG(0, "recompute", &recompute, "keep the inputs of blocks only"),
        OPT_FLAG(0, "json", &json, "an object on a line"),
        OPT_END
    };
    ops_begin(argv);
    opt_parse(argc, argv, "[options]", "Speed of whole training steps against the machine's roof.",
              opts);
    const Ops *ops = ops_open("cpu", dtype, threads);
    const double roof = flops_roof(ops->name, threads_used());
    Config cfg = config_depth(depth, 64, depth < 2 ? 64 : 128, T, V, "SSSL");
    Step s = { .m = model_new(ops, &cfg, 1), .B = B, .T = T };
    model_init(s.m, 1);
    s.o = optim_new(s.m, &(OptimSettings){
        .embedding_lr = 0.3, .unembedding_lr = 0.008, .matrix_lr = 0.02, .scalar_lr = 0.5,
        .batch_scale = 1, .lr_scale = 1, .weight_decay = 0.1 });
    tape_init(&s.tape, ops);
    optim_pool(s.o, &s.tape);
    s.tape.on = 1;
    s.tape.recompute = recompute;
    s.x = tokens(ops, B * T, V, 1);
    s.y = tokens(ops, B * T, V, 2);
    s.loss = ops->alloc((size_t)B * (size_t)T * sizeof *s.loss);
    double pass = least(&s, micro_batch, rounds), step = least(&s, optimizer, rounds);
    double all = micro * pass + step, n = (double)B * T,
           flops = n * config_flops_per_token(&cfg);
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    printf(json ? "{\"tier\": \"%s\", \"dtype\": \"%s\", \"threads\": %d, \"depth\": %d, \"B\": %d, "
                  "\"T\": %d, \"micro\": %d, \"gflops\": %.1f, \"pass_s\": %.3f, \"optimizer_s\": "
                  "%.3f, \"tok_per_s\": %.1f, \"rate_gflops\": %.1f, \"of_roof\": %.3f, "
                  "\"pass_of_roof\": %.3f, \"peak_mb\": %.0f}\n"
                : "%s %s, %d threads; depth %d, %d x %d tokens, %d micro-batches a step\n"
                  "roof %.1f GFLOP/s; a pass %.3f s, the optimizer %.3f s\n%.1f tok/s, %.1f GFLOP/s, "
                  "%.3f of the roof (passes alone %.3f); %.0f MB at most\n",
           ops->name, ops->dtype, threads_used(), depth, B, T, micro, roof / 1e9, pass, step,
           micro * n / all, micro * flops / all / 1e9, micro * flops / all / roof,
           flops / pass / roof, (double)u.ru_maxrss / 1024);
    return 0;
}
