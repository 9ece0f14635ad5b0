/* decode.c -- speed of generating one token after the other, timed inside the process: a model with
 * random weights continues a prompt, over and over; the median of the rounds, after one that warms up
 * (plans, graphs, caches).
 *
 *     decode [-d DEVICE] [-j THREADS] [--dtype TYPE] [--depth N [--vocab N] | --model NAME]
 *            [-B ROWS] [--prompt N] [-n TOKENS] [--rounds N] [--bandwidth GBYTES] [--json]
 *
 * What a token must read at least: every weight of a linear map that it meets, once for all rows, and
 * the keys and values of half of the tokens beside the prompt's, of each row. of_bandwidth: the time
 * of that at the bandwidth over the time taken; without --bandwidth that of the processor is
 * measured, and of a GPU nothing is said.
 */
#include "base/opt.h"
#include "gpt/decode.h"
#include "roof.h"
#include "shape.h"
#include <limits.h>
#include <stdio.h>

enum { MOST = 101 };
static int threads, depth = 12, vocab = 32768, rows = 1, prompt = 32, tokens = 128, rounds = 5;
static double bandwidth;
static const char *device = "cpu", *dtype = "auto", *name;
static int json;

static void hear(void *arg, int sample, int id) { (void)arg, (void)sample, (void)id; }

/* seconds of `tokens` passes of one token a row */
static double round_of(Gen *g, const int *ids)
{
    const double before = g->new_seconds;
    const int64_t made = g->new_tokens;
    GenJob j = { .model = "bench", .prompt = ids, .n = prompt, .samples = rows, .batch = rows,
                 .max_tokens = tokens + 1, .pick = { .temperature = 0 }, .token = hear, .end = hear };
    gen_run(g, &j);
    if (g->new_tokens - made != (int64_t)rows * (tokens + 1)) die("decode: a sample ended early");
    return g->new_seconds - before;
}
static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
/* the least, the median and the largest of the rounds */
static void measure(Gen *g, double s[3])
{
    double all[MOST];
    int *ids = xcalloc((size_t)prompt, sizeof *ids);
    for (int i = 0; i < prompt; i++) ids[i] = (i * 7919 + 1) % g->m->cfg.V;
    round_of(g, ids);
    for (int i = 0; i < rounds; i++) all[i] = round_of(g, ids);
    qsort(all, (size_t)rounds, sizeof *all, ascending);
    s[0] = all[0], s[1] = all[rounds / 2], s[2] = all[rounds - 1];
    free(ids);
}

int main(int argc, char **argv)
{
    const Opt opts[] = {
        OPT_STR('d', "device", &device, "NAME", "cpu, cuda or cuda:N"),
        OPT_INT('j', "threads", &threads, "N", 0, INT_MAX, "threads (0: all)"),
        OPT_STR(0, "dtype", &dtype, "TYPE", "activations: fp32, bf16 or auto"),
        OPT_INT(0, "depth", &depth, "N", 1, 128, "of nanochat's model"),
        OPT_INT(0, "vocab", &vocab, "N", 2, 1 << 24, "its vocabulary"),
        OPT_STR(0, "model", &name, "NAME", "of the Llama family: a preset, qwen3-0.6b, a config.json"),
        OPT_INT('B', "batch", &rows, "ROWS", 1, 1024, "samples side by side"),
        OPT_INT(0, "prompt", &prompt, "N", 1, 1 << 20, "tokens that are there already"),
        OPT_INT('n', "tokens", &tokens, "N", 1, 1 << 20, "tokens of a round"),
        OPT_INT(0, "rounds", &rounds, "N", 1, MOST, "how many are timed"),
        OPT_FLOAT(0, "bandwidth", &bandwidth, "GBYTES", 0, 1e6, "of the memory, a second (0: measured)"),
        OPT_FLAG(0, "json", &json, "an object on a line"),
        OPT_END
    };
    ops_begin(argv);
    if (opt_parse(argc, argv, "[options]", "Speed of generating tokens.", opts))
        die_usage("no arguments are taken");
    const Config c = shape(name, depth, prompt + tokens + 1, vocab);
    const Ops *o = ops_open(device, dtype, threads);
    if (bandwidth == 0 && strncmp(o->name, "cpu", 3) == 0)
        bandwidth = bytes_roof(threads_used()) / 1e9;
    Model *m = model_new(o, &c, 0);
    model_init(m, 1);
    Gen *g = gen_new(m);
    double s[3];
    measure(g, s);
    const double token = s[1] / tokens,
                 weights = (double)config_matmul_params(&c) * (double)o->act_size,
                 bytes = weights + config_cache_bytes(&c, rows, prompt + tokens / 2, o->act_size);
    char part[32] = "null";
    if (bandwidth > 0) snprintf(part, sizeof part, "%.4g", bytes / (bandwidth * 1e9) / token);
    printf(json ? "{\"model\": \"%s\", \"depth\": %d, \"rows\": %d, \"tier\": \"%s\", \"dtype\": \"%s\", "
                  "\"threads\": %d, \"tokens\": %d, \"rounds\": %d, \"us_a_token\": %.1f, \"least_us\": "
                  "%.1f, \"most_us\": %.1f, \"tok_per_s\": %.1f, \"mbytes\": %.2f, \"of_bandwidth\": %s}\n"
                : "%s, %d layers, %d rows; %s %s, %d threads; %d tokens, %d rounds\n"
                  "a token %.1f us (%.1f to %.1f), %.1f tokens/s; it reads %.2f MB, %s of the bandwidth\n",
           c.family->name, c.L, rows, o->name, o->dtype, threads_used(), tokens, rounds, 1e6 * token,
           1e6 * s[0] / tokens, 1e6 * s[2] / tokens, rows / token, bytes / 1e6, part);
    gen_free(g);
    model_free(m);
    return 0;
}
