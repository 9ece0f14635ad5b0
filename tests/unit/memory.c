/* The memory that gpt-train --dry-run plans is what a run takes at most: within 5 % of its peak
 * resident size, at several depths and batches, with recomputation, --doc-mask, --freeze and
 * --lora. Both programs come from PATH. */
#include "text/rows.h"
#include "tap.h"
#include <math.h>
#include <sys/resource.h>

enum { T = 256, ROWS = 16 };
static char dir[] = "/tmp/memory-test-XXXXXX";

#ifndef __has_feature
#define __has_feature(x) 0
#endif

static void make_rows(const Tok *tok)
{
    RowHead h = { .vocab = (uint32_t)tok_vocab(tok),
                  .bos = (uint32_t)tok_special(tok, SP_BOS),
                  .T = T,
                  .tok_hash = tok_hash(tok) };
    char *path = xasprintf("%s/a.rows", dir);
    RowWriter *w = rows_create(path, &h);
    for (int r = 0; r < ROWS; r++) {
        uint32_t id[T + 1];
        for (int t = 0; t <= T; t++) id[t] = (uint32_t)((r * 37 + t * t * 11 + t / 3) % 256);
        rows_write(w, id, NULL);
    }
    rows_close(w);
    free(path);
}

/* "bytes" of the plan */
static double planned(const char *options)
{
    char *s = xasprintf("cd %s && gpt-train --dry-run --json -j 1 -t a.tok --train a.rows %s | "
                        "sed -n 's/.*\"bytes\": \\([0-9.e+]*\\),.*/\\1/p'", dir, options);
    FILE *f = popen(s, "r");
    double x = NAN;
    if (!f || fscanf(f, "%lf", &x) != 1) x = NAN;
    if (f) pclose(f);
    free(s);
    return x;
}

/* Peak resident bytes of a step with an evaluation before and after. */
static double taken(const char *options)
{
    char *s = xasprintf("cd %s && rm -rf m && exec gpt-train -q -j 1 -t a.tok --train a.rows --val a.rows "
                        "--eval-every 1 --eval-tokens 2560 --steps 1 --force -o m %s >/dev/null",
                        dir, options);
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

static void compare(const char *options)
{
    double p = planned(options), t = taken(options);
    ok(fabs(p / t - 1) <= 0.05, "planned %.1f MB, taken %.1f MB, ratio %.3f: %s", p / 1e6, t / 1e6,
       p / t, options);
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
    make_rows(tok);
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
    tok_free(tok);
    free(tok_path);
    char *rm = xasprintf("rm -rf %s", dir);
    if (system(rm)) return 1;
    free(rm);
    return done();
}
