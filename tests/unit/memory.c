/* The memory that gpt-train --dry-run plans is what a run takes at most: within 5 % of its peak
 * resident size, at several depths and batches, rows short and long, few and many threads, query heads
 * that share keys, with recomputation, --doc-mask, --freeze and --lora. Both programs come from PATH. */
#include "text/rows.h"
#include "tap.h"
#include <math.h>
#include <sys/resource.h>

enum { LONG = 2048 };                   /* tokens of a row in b.rows; 256 in a.rows */
static char dir[] = "/tmp/memory-test-XXXXXX";

#ifndef __has_feature
#define __has_feature(x) 0
#endif

static void make_rows(const Tok *tok, const char *name, int T, int rows)
{
    RowHead h = { .vocab = (uint32_t)tok_vocab(tok),
                  .bos = (uint32_t)tok_special(tok, SP_BOS),
                  .T = (uint32_t)T,
                  .tok_hash = tok_hash(tok) };
    char *path = xasprintf("%s/%s", dir, name);
    uint32_t *id = xcalloc((size_t)T + 1, sizeof *id);
    RowWriter *w = rows_create(path, &h);
    for (int r = 0; r < rows; r++) {
        for (int t = 0; t <= T; t++) id[t] = (uint32_t)((r * 37 + t * t * 11 + t / 3) % 256);
        rows_write(w, id, NULL);
    }
    rows_close(w);
    free(path);
    free(id);
}

/* Eight query heads to one of keys and values: what attention keeps is most of what is taken. */
static void make_config(void)
{
    char *path = xasprintf("%s/shared.json", dir);
    FILE *f = fopen(path, "w");
    if (!f || fputs("{\"model_type\": \"qwen3\", \"vocab_size\": 512, \"hidden_size\": 256, "
                    "\"num_hidden_layers\": 1, \"num_attention_heads\": 8, \"num_key_value_heads\": 1, "
                    "\"head_dim\": 64, \"intermediate_size\": 256, \"max_position_embeddings\": 4096, "
                    "\"rms_norm_eps\": 1e-6, \"rope_theta\": 10000, \"tie_word_embeddings\": true, "
                    "\"hidden_act\": \"silu\"}\n", f) < 0 || fclose(f)) abort();
    free(path);
}

/* "bytes" of the plan. before: words that go before the command; rows: a.rows, b.rows */
static double planned(const char *before, const char *rows, const char *options)
{
    char *s = xasprintf("cd %s && %s gpt-train -q --dry-run --json -t a.tok --train %s %s | "
                        "sed -n 's/.*\"bytes\": \\([0-9.e+]*\\),.*/\\1/p'", dir, before, rows, options);
    FILE *f = popen(s, "r");
    double x = NAN;
    if (!f || fscanf(f, "%lf", &x) != 1) x = NAN;
    if (f) pclose(f);
    free(s);
    return x;
}

/* Peak resident bytes of a step with an evaluation before and after. */
static double taken(const char *before, const char *rows, const char *options)
{
    char *s = xasprintf("cd %s && rm -rf m && %s exec gpt-train -q -t a.tok --train %s --val %s "
                        "--eval-every 1 --eval-tokens 4096 --steps 1 --force -o m %s >/dev/null",
                        dir, before, rows, rows, options);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", s, (char *)NULL);
        _exit(127);
    }
    free(s);
    int st;
    struct rusage u;
    if (pid < 0 || wait4(pid, &st, 0, &u) != pid || !WIFEXITED(st) || WEXITSTATUS(st)) return NAN;
    return (double)u.ru_maxrss * 1024;
}

static void compare_as(const char *before, const char *rows, const char *options)
{
    double p = planned(before, rows, options), t = taken(before, rows, options);
    ok(fabs(p / t - 1) <= 0.05, "planned %.1f MB, taken %.1f MB, ratio %.3f: %s %s %s", p / 1e6, t / 1e6,
       p / t, before, rows, options);
}
static void compare(const char *options) { compare_as("OMP_NUM_THREADS=1", "a.rows", options); }

/* Rows of 2048 tokens, one at a time; threads by option and by environment. */
static void long_rows(void)
{
    static const char *const two = "OMP_NUM_THREADS=2", *const eight = "OMP_NUM_THREADS=8";
    compare_as(two, "b.rows", "--depth 2 -B 1 --total-batch-size 2048 --dtype fp32");
    compare_as(two, "b.rows", "--depth 2 -B 1 --total-batch-size 2048 --dtype bf16");
    compare_as(two, "b.rows", "--depth 3 -B 1 --total-batch-size 2048 --dtype bf16 --recompute");
    compare_as(two, "b.rows", "--model shared.json --optimizer adamw -B 1 --total-batch-size 2048 "
               "--dtype fp32");
    compare_as(two, "b.rows", "--model shared.json --optimizer adamw -B 1 --total-batch-size 2048 "
               "--dtype bf16 -j 8");
    compare_as(eight, "a.rows", "--depth 4 -B 4 --total-batch-size 1024 --dtype fp32");
    compare_as(two, "a.rows", "--depth 4 -B 4 --total-batch-size 1024 --dtype fp32 -j 8");
}

int main(void)
{
#if defined __SANITIZE_ADDRESS__ || __has_feature(address_sanitizer)
    skip("the address sanitizer takes memory of its own", "memory");
    return done();
#endif
#ifndef __linux__
    skip("ru_maxrss is in KB on Linux", "memory");
    return done();
#endif
    if (system("gpt-train --version >/dev/null 2>&1")) {
        skip("gpt-train is not on PATH", "memory");
        return done();
    }
    if (!mkdtemp(dir)) return 1;
    char *tok_path = xasprintf("%s/a.tok", dir);
    Tok *made = tok_from_merges(NULL, 0);
    tok_save(made, tok_path);
    tok_free(made);
    Tok *tok = tok_load(tok_path);
    make_rows(tok, "a.rows", 256, 16);
    make_rows(tok, "b.rows", LONG, 2);
    make_config();
    compare("--depth 3 --aspect-ratio 64 --head-dim 64 -B 4 --total-batch-size 1024");
    compare("--depth 5 --aspect-ratio 40 --head-dim 40 -B 8 --total-batch-size 2048");
    compare("--depth 5 --aspect-ratio 40 --head-dim 40 -B 8 --total-batch-size 2048 --recompute");
    compare("--depth 5 --aspect-ratio 40 --head-dim 40 -B 8 --total-batch-size 2048 --dtype fp32 -j 2");
    compare("--depth 5 --aspect-ratio 40 --head-dim 40 -B 8 --total-batch-size 2048 --dtype bf16 -j 2");
    compare("--depth 8 --aspect-ratio 24 --head-dim 32 -B 2 --total-batch-size 1024");
    compare("--depth 5 --aspect-ratio 40 --head-dim 40 -B 8 --total-batch-size 2048 --doc-mask");
    compare("--depth 5 --aspect-ratio 40 --head-dim 40 -B 8 --total-batch-size 2048 "
            "--freeze 'transformer.h.[0-2].*' --freeze '*.wte.*' --freeze 'value_embeds.*'");
    char *mv = xasprintf("mv %s/m %s/base", dir, dir);
    if (system(mv)) return 1;
    free(mv);
    compare("--init base --lora r=8,targets=all -B 8 --total-batch-size 2048");
    long_rows();
    tok_free(tok);
    free(tok_path);
    char *rm = xasprintf("rm -rf %s", dir);
    if (system(rm)) return 1;
    free(rm);
    return done();
}
