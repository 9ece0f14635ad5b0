/* Model directories: round trip, a kill and a failure at every step of a save, two writers,
 * readers beside a writer, refusals. A back-end of malloc stands in for the real ones. */
#include "golden/golden.h"
#include "gpt/ckpt.h"
#include "gpt/safetensors.h"
#include "tap.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* ---- memory that is only stored and fetched */

static void *dev_alloc(size_t n) { return xcalloc(n + !n, 1); }
static void dev_free(void *p, size_t n) { (void)n; free(p); }
static void dev_zero(void *p, size_t n) { memset(p, 0, n); }
static void dev_copy(void *to, const void *from, size_t n) { memcpy(to, from, n); }
static void dev_sync(void) {}
static void dev_store(Store to, const real *h, int64_t n) { memcpy(to.w, h, (size_t)n * sizeof *h); }
static void dev_load(real *h, Store from, int64_t n) { memcpy(h, from.w, (size_t)n * sizeof *h); }
static size_t dev_tmp(int count, int R, int K) { (void)count; (void)R; (void)K; return 64; }

static const Ops ops = {
    .name = "store",
    .dtype = "fp32",
    .act_size = sizeof(real),
    .alloc = dev_alloc,
    .free = dev_free,
    .zero = dev_zero,
    .copy = dev_copy,
    .put = dev_copy,
    .get = dev_copy,
    .sync = dev_sync,
    .store = dev_store,
    .load = dev_load,
    .muon_tmp = dev_tmp,
};

/* ---- a run whose every number tells its version */

static const Config config = { .family = &nanochat_family, .T = 16, .V = 70, .Vp = 128, .L = 2, .H = 2,
                               .K = 1, .C = 32, .window = "SL" };
static const OptimSettings settings = { .embedding_lr = 0.3, .unembedding_lr = 0.008, .matrix_lr = 0.02,
    .scalar_lr = 0.5, .batch_scale = 1, .lr_scale = 1, .weight_decay = 0.28 };
static char *root;

typedef struct Run { Model *m; Optim *o; Buf tok; char *state; } Run;

static void fill(real *x, int64_t n, int version, int salt)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (real)(version * 100000 + salt * 10000 + (int)(i % 9973));
}

static char *in(const char *dir, const char *name) { return xasprintf("%s/%s", dir, name); }

static void write_text(const char *path, const char *s)
{
    FILE *f = fopen(path, "w");
    if (!f || fputs(s, f) < 0 || fclose(f)) die("%s:", path);
}

static Run run_of(int version)
{
    Run r = { .m = model_new(&ops, &config, 1) };
    r.o = optim_new(r.m, &settings);
    for (int i = 0; i < r.m->nparam; i++)
        fill(r.m->w + r.m->param[i].off, r.m->param[i].n, version, i % 7);
    fill(r.o->m1, r.m->n, version, 8);
    fill(r.o->m2, r.o->n2, version, 9);
    r.o->t = version * 10;
    buf_printf(&r.tok, "tokenizer %d\n", version);
    r.state = xasprintf("{\"version\": %d}", version);
    return r;
}

static void run_free(Run *r)
{
    optim_free(r->o);
    model_free(r->m);
    buf_free(&r->tok);
    free(r->state);
}

/* ---- which version is in dir? -1: none; -2: a mixture, or wrong numbers */

static int model_version(const Model *m)
{
    int v = (int)(m->w[m->param[0].off] / 100000);
    Run want = run_of(v);
    int same = 1;
    for (int i = 0; i < m->nparam; i++) {
        const Param *p = &m->param[i];
        same &= !memcmp(m->w + p->off, want.m->w + p->off, (size_t)p->n * sizeof(real));
    }
    run_free(&want);
    return same ? v : -2;
}

static int optim_version(const Optim *o)
{
    int v = (int)(o->t / 10), same = 1;
    Run want = run_of(v);
    for (int i = 0; i < o->m->nparam; i++) {
        const Param *p = &o->m->param[i];
        int64_t n, from, at = optim_moment(o, p, 1, &from, &n).w - o->m2;
        same &= !memcmp(o->m1 + p->off, want.o->m1 + p->off, (size_t)p->n * sizeof(real));
        same &= !memcmp(o->m2 + at, want.o->m2 + at, (size_t)n * sizeof(real));
    }
    run_free(&want);
    return same ? v : -2;
}

static int tok_version(const char *dir)
{
    char *path = ckpt_path(dir, "tokenizer.tok");
    Buf b = { 0 };
    if (!path) return -1;
    read_file(path, &b, 100);
    int v = b.n == 12 ? b.s[10] - '0' : -2;
    buf_free(&b);
    free(path);
    return v;
}

static int state_version(const char *dir)
{
    Arena a = { 0 };
    const Json *j = ckpt_state(dir, &a), *c = ckpt_clock(dir, &a);
    int v = j ? (int)num(j, "version") : -1, w = c ? (int)num(c, "version") : -1;
    arena_free(&a);
    return v == w ? v : -2;
}

/* full: with optimizer and state; else those must be absent. */
static int version_in(const char *dir, int *full)
{
    if (!ckpt_exists(dir)) return -1;
    Model *m = ckpt_model(dir, &ops, 1);
    char *opt = ckpt_path(dir, "optimizer-0.safetensors");
    int v = model_version(m), s = state_version(dir);
    *full = opt != NULL;
    if (tok_version(dir) != v || s != (*full ? v : -1)) v = -2;
    if (opt) {
        Optim *o = optim_new(m, &settings);
        ckpt_optim(dir, o);
        if (optim_version(o) != v) v = -2;
        optim_free(o);
    }
    free(opt);
    model_free(m);
    return v;
}

/* ---- helpers around a directory */

static int stray(const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d)); )
        n += strstr(e->d_name, ".new") || !strcmp(e->d_name, "commit.json");
    if (d) closedir(d);
    return n;
}

static void wipe(const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d)); ) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        char *p = in(dir, e->d_name);
        if (unlink(p)) wipe(p);
        free(p);
    }
    if (d) closedir(d);
    rmdir(dir);
}

static int save(const char *dir, int version, int full)
{
    Run r = run_of(version);
    int x = ckpt_save(dir, r.m, full ? r.o : NULL, &r.tok, full ? r.state : NULL,
                      full ? r.state : NULL);
    run_free(&r);
    return x;
}

/* Save in a child that dies at step k; its exit code: 77 killed, 0 or 1 as saved. */
static int save_killed(const char *dir, int version, int full, int k)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        ckpt_fault = (struct CkptFault){ .kill_at = k };
        _exit(save(dir, version, full) != 0);
    }
    int st = 0;
    waitpid(pid, &st, 0);
    return WIFEXITED(st) ? WEXITSTATUS(st) : -1;
}

static int save_quietly_failing(const char *dir, int version, int full, int k)
{
    int err = dup(2), null = open("/dev/null", O_WRONLY);
    dup2(null, 2);
    ckpt_fault = (struct CkptFault){ .fail_at = k };
    int r = save(dir, version, full);
    ckpt_fault.fail_at = 0;
    dup2(err, 2);
    close(err);
    close(null);
    return r;
}

/* ---- tests */

static void round_trip(void)
{
    char *dir = in(root, "a/b//c");
    int full;
    ok(!ckpt_exists(dir), "no checkpoint in a missing directory");
    ok(save(dir, 1, 1) == 0 && version_in(dir, &full) == 1 && full,
       "saved, parents made, read back equal");
    char *extra = in(dir, "notes.txt");
    write_text(extra, "mine");
    ok(save(dir, 2, 1) == 0 && version_in(dir, &full) == 2 && full, "saved over");
    ok(save(dir, 3, 0) == 0 && version_in(dir, &full) == 3 && !full,
       "weights only: the old optimizer and state go");
    Run r = run_of(4);
    ok(ckpt_save(dir, r.m, NULL, NULL, NULL, NULL) == 0 && tok_version(dir) == 3,
       "no tokenizer given: it stays");
    ok(!stray(dir) && !access(extra, F_OK), "nothing is left behind, other files are not touched");
    Tok *t = tok_from_merges(NULL, 0);
    Buf bytes = { 0 };
    tok_print(t, &bytes);
    ok(ckpt_save(dir, r.m, NULL, &bytes, NULL, NULL) == 0, "saved with a real tokenizer");
    buf_free(&bytes);
    Tok *back = ckpt_tok(dir);
    ok(tok_hash(back) == tok_hash(t) && tok_vocab(back) == 265, "  which is read back");
    tok_free(t); tok_free(back);
    Config c = ckpt_config(dir);
    ok(c.V == 70 && c.Vp == 128 && c.L == 2 && !strcmp(c.window, "SL"), "the configuration");
    run_free(&r);
    wipe(dir);
    free(dir); free(extra);
}

static void names_and_shapes(void)
{
    char *dir = in(root, "n"), *path;
    save(dir, 1, 1);
    StFile *f = st_open(path = ckpt_path(dir, "optimizer-0.safetensors"));
    const StTensor *a = st_find(f, "state.transformer.wte.weight.exp_avg_sq");
    const StTensor *b = st_find(f, "state.transformer.h.1.mlp.c_fc.weight.second_momentum_buffer");
    const StTensor *c =
        st_find(f, "state.transformer.h.1.mlp.c_proj.weight.second_momentum_buffer");
    const StTensor *d = st_find(f, "state.resid_lambdas.exp_avg");
    ok(a && a->ndim == 2 && a->dim[0] == 128 && a->dim[1] == 32, "second moments of an embedding");
    ok(b && b->dim[0] == 128 && b->dim[1] == 1, "of a tall matrix: one a row");
    ok(c && c->dim[0] == 1 && c->dim[1] == 128, "of a wide matrix: one a column");
    ok(d && d->ndim == 1 && d->dim[0] == 2 && st_count(f) == 42,
       "a vector; two tensors a parameter");
    st_close(f);
    wipe(dir);
    free(dir); free(path);
}

/* Over a first and a later save, whole and weights only: kill at step k; then the directory holds
 * the old or the new version, and the next save works. */
static void killed(const char *what, int old, int old_full, int new_full)
{
    char *dir = in(root, "k");
    int steps = 0, good = 1, olds = 0, news = 0;
    for (int k = 1; good; k++) {
        wipe(dir);
        if (old > 0) save(dir, old, old_full);
        int code = save_killed(dir, 2, new_full, k), full = old_full, after = 0;
        int v = version_in(dir, &full), again;
        good = code == 77 || code == 0;
        good &= (v == old && (v < 0 || full == old_full)) || (v == 2 && full == new_full);
        v == 2 ? news++ : olds++;
        if (!good) printf("# killed at %d: exit %d, version %d, full %d\n", k, code, v, full);
        /* the next writer is killed too, at every third step, before one gets through */
        if (k % 3 == 0) save_killed(dir, 3, 1, 1 + k / 3);
        again = version_in(dir, &after);
        if (again != v && again != 3) { good = 0; printf("# then version %d\n", again); }
        if (save(dir, 4, 1) || version_in(dir, &after) != 4 || !after || stray(dir)) {
            good = 0;
            printf("# killed at %d: the next save fails\n", k);
        }
        if (code == 0) break;
        steps = k;
    }
    ok(good && olds > 10 && news > 5, "%s: killed at each of %d steps (%d old, %d new)", what,
       steps, olds, news);
    wipe(dir);
    free(dir);
}

static void failed(void)
{
    char *dir = in(root, "f");
    int good = 1, full, k = 1, fails = 0;
    ckpt_fault.steps = 0;
    save(dir, 1, 1);
    int steps = ckpt_fault.steps;
    for (; k <= steps; k++) {
        int r = save_quietly_failing(dir, 2, 1, k), v = version_in(dir, &full);
        fails += r != 0;
        if (v != (r ? 1 : 2) || !full || (r && stray(dir))) {
            good = 0;
            printf("# failed at %d: %d, version %d\n", k, r, v);
        }
        if (save(dir, 1, 1) || version_in(dir, &full) != 1 || stray(dir)) good = 0;
    }
    ok(good && fails > 10, "a failure at each of %d steps: -1 and the old, or 0 and the new",
       steps);
    wipe(dir);
    free(dir);
}

static void big_file(void *dir)
{
    struct rlimit l = { 20000, 20000 };
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &l);
    int full;
    exit(save(dir, 2, 1) == -1 && version_in(dir, &full) == 1 && !stray(dir) ? 5 : 6);
}

static void full_disk(void *dir)
{
    ckpt_fault = (struct CkptFault){ .fail_at = 1 };
    exit(save(dir, 2, 1) == -1 ? 5 : 6);
}

static void lock_it(void *dir) { ckpt_lock(dir); }
static void save_it(void *dir) { exit(save(dir, 2, 1) == -1 ? 5 : 6); }

/* A model of 200 TB, on a back-end that has no memory at all. */
static void *no_alloc(size_t n) { (void)n; return (void *)64; }
static void no_free(void *p, size_t n) { (void)p; (void)n; }
static void no_copy(void *to, const void *from, size_t n) { (void)to; (void)from; (void)n; }

static void huge(void *dir)
{
    Ops none = ops;
    none.alloc = no_alloc;
    none.free = no_free;
    none.put = none.get = no_copy;
    Config c = { .family = &nanochat_family, .T = 16, .V = 1 << 24, .Vp = 1 << 24, .L = 1, .H = 8192,
                 .K = 8192, .C = 1 << 20, .window = "L" };
    Model *m = model_new(&none, &c, 0);
    int full, old = ckpt_save(dir, m, NULL, NULL, NULL, NULL) == -1 && version_in(dir, &full) == 1 &&
                    !stray(dir);
    model_free(m);
    exit(old ? 5 : 6);
}

static void refused_saves(void)
{
    char *dir = in(root, "r"), *file = in(root, "file"), *under = in(root, "file/x");
    save(dir, 1, 1);
    ok(dies(5, "r/model.safetensors: File too large", big_file, dir),
       "a write fails: the old stays");
    ok(dies(5, "r/model.safetensors: No space left on device", full_disk, dir),
       "a full disk is named");
    ok(dies(5, "r/model.safetensors: No space left on device (the checkpoint takes", huge, dir),
       "a checkpoint that cannot fit is not begun");
    write_text(file, "x");
    ok(dies(5, "Not a directory", save_it, under), "a directory that cannot be");
    ckpt_lock(dir);
    ok(save(dir, 3, 1) == 0, "the holder of the lock saves");
    ckpt_unlock();
    wipe(dir);
    unlink(file);
    free(dir); free(file); free(under);
}

/* The lock in another process: started, not inherited. */
static void two_writers(void)
{
    char *dir = in(root, "w");
    int go[2], ready[2], full;
    char c;
    save(dir, 1, 1);
    if (pipe(go) || pipe(ready)) abort();
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        ckpt_lock(dir);
        if (write(ready[1], "x", 1) != 1 || read(go[0], &c, 1) != 1) _exit(1);
        _exit(0);
    }
    if (read(ready[0], &c, 1) != 1) abort();
    ok(dies(1, "w: another program is writing this model directory", lock_it, dir),
       "a second trainer is refused");
    ok(dies(5, "w: another program is writing this model directory", save_it, dir),
       "and so is a save");
    ok(version_in(dir, &full) == 1, "a reader is not");
    if (write(go[1], "x", 1) != 1) abort();
    waitpid(pid, NULL, 0);
    ok(save(dir, 2, 1) == 0, "afterwards the directory is free");
    wipe(dir);
    free(dir);
}

/* A child saves version after version; we read at the same time. */
static void readers(void)
{
    char *dir = in(root, "rr");
    int good = 1, seen = 0, st = 0;
    save(dir, 1, 0);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int bad = 0;
        for (int i = 0; i < 60; i++) bad |= save(dir, 1 + i % 4, i % 2);
        _exit(bad);
    }
    while (waitpid(pid, &st, WNOHANG) == 0) {
        Model *m = ckpt_model(dir, &ops, 0);
        good &= model_version(m) > 0;
        model_free(m);
        seen++;
    }
    ok(good && st == 0 && seen > 5, "read %d times while another process saves", seen);
    wipe(dir);
    free(dir);
}

/* ---- checkpoints kept beside the newest */

/* Version in dir/name, -1 if it is not there; whole, or -2. */
static int kept(const char *dir, const char *name)
{
    char *p = in(dir, name);
    int full = 0, v = version_in(p, &full);
    free(p);
    return v > 0 && !full ? -2 : v;
}

static void keeping(void)
{
    char *dir = in(root, "keep"), *other = in(dir, "step-000002/mine");
    int good = 1;
    for (int v = 1; v <= 4; v++) {
        good &= !save(dir, v, 1) && !ckpt_keep(dir, v, 2);
        if (v == 2) write_text(other, "x");
    }
    ok(good && kept(dir, "step-000004") == 4 && kept(dir, "step-000003") == 3, "the last two stay");
    ok(kept(dir, "step-000001") == -1, "an older one goes");
    ok(kept(dir, "step-000002") == 2 && !access(other, F_OK),
       "one with a file of the user's in it is left as it is");
    ok(!save(dir, 3, 1) && !ckpt_keep(dir, 3, 1) && kept(dir, "step-000004") == 4 &&
       kept(dir, "step-000003") == 3, "a later step than this one is left alone");
    char *sub = in(dir, "step-000003");
    ok(!save(sub, 1, 1) && kept(dir, "step-000003") == 1 && kept(dir, ".") == 3,
       "a save in a kept one changes that alone");
    ok(!save(dir, 2, 1) && !ckpt_keep(dir, 2, 9) && kept(dir, "step-000002") == 2 &&
       !access(other, F_OK), "nor is it replaced");
    char *best = in(dir, CKPT_BEST), *foreign = in(dir, "step-123");
    write_text(foreign, "x");
    ok(!save(best, 4, 0) && !ckpt_forget(dir) && kept(dir, ".") == 2,
       "all are forgotten but the newest");
    ok(access(best, F_OK) && kept(dir, "step-000003") == -1 && kept(dir, "step-000004") == -1 &&
       kept(dir, "step-000002") == 2 && !access(foreign, F_OK), "and what is not all ours");
    wipe(dir);
    free(dir); free(other); free(sub); free(best); free(foreign);
}

static int keep_killed(const char *dir, int64_t step, int n, int k)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        ckpt_fault = (struct CkptFault){ .kill_at = k };
        _exit(ckpt_keep(dir, step, n) != 0);
    }
    int st = 0;
    waitpid(pid, &st, 0);
    return WIFEXITED(st) ? WEXITSTATUS(st) : -1;
}

/* Before the new one is whole nothing is removed; no half of one ever has a final name. */
static void keep_kills(void)
{
    char *dir = in(root, "kk");
    int good = 1, steps = 0, before = 0, after = 0;
    for (int k = 1, code = 77; good && code == 77; k++) {
        wipe(dir);
        for (int v = 1; v <= 2; v++) good &= !save(dir, v, 1) && !ckpt_keep(dir, v, 2);
        save(dir, 3, 1);
        code = keep_killed(dir, 3, 1, k);
        int a = kept(dir, "step-000001"), b = kept(dir, "step-000002"), c = kept(dir, "step-000003");
        good &= (a == 1 || a == -1) && (b == 2 || b == -1) && (c == 3 || c == -1);
        good &= c == 3 || (a == 1 && b == 2);
        good &= kept(dir, ".") == 3;
        if (!good) printf("# killed at %d: exit %d, %d %d %d\n", k, code, a, b, c);
        c == 3 ? after++ : before++;
        good &= !ckpt_keep(dir, 3, 1) && !stray(dir) && kept(dir, "step-000003") == 3 &&
                kept(dir, "step-000002") == -1 && kept(dir, "step-000001") == -1;
        steps = k;
    }
    ok(good && before > 5 && after > 5, "killed at each of %d steps (%d before it was whole, %d "
       "after): the next call mends it", steps, before, after);
    wipe(dir);
    free(dir);
}

static void keep_fails(void *dir)
{
    ckpt_fault = (struct CkptFault){ .fail_at = 3 };
    exit(ckpt_keep(dir, 2, 1) == -1 && kept(dir, "step-000001") == 1 ? 5 : 6);
}

static void keep_failed(void)
{
    char *dir = in(root, "kf");
    save(dir, 1, 1);
    ckpt_keep(dir, 1, 1);
    save(dir, 2, 1);
    ok(dies(5, "kf/step-000002: not kept: No space left on device", keep_fails, dir),
       "a failure is told, and the older one stays");
    ok(!ckpt_locked(dir), "nobody holds it");
    ckpt_lock(dir);
    ok(ckpt_locked(dir), "somebody does");
    ckpt_unlock();
    wipe(dir);
    free(dir);
}

/* ---- what must not be loaded */

static void load(void *dir) { ckpt_model(dir, &ops, 1); }
static void load_state(void *dir) { Arena a = { 0 }; ckpt_state(dir, &a); }
static void load_optim(void *dir)
{
    Model *m = model_new(&ops, &config, 1);
    ckpt_optim(dir, optim_new(m, &settings));
}

static void spoil(const char *dir, const char *name, const char *text)
{
    char *p = in(dir, name);
    write_text(p, text);
    free(p);
}

static void cut(const char *dir, const char *name, int tenths)
{
    char *p = in(dir, name);
    struct stat st;
    if (stat(p, &st) || truncate(p, st.st_size * tenths / 10)) die("%s:", p);
    free(p);
}

#define CONFIG(V, L, C)                                                                            \
    "{\"sequence_len\": 16, \"vocab_size\": " V ", \"n_layer\": " L ", \"n_head\": 2, "            \
    "\"n_kv_head\": 1, \"n_embd\": " C ", \"window_pattern\": \"SL\"}"

static void refused_loads(void)
{
    char *dir = in(root, "l");
    ok(dies(1, "l/config.json: No such file", load, dir), "an empty place");
    save(dir, 1, 1);
    spoil(dir, "config.json", CONFIG("70", "2", "64"));
    ok(dies(1, "config.json asks for", load, dir), "a wider configuration");
    spoil(dir, "config.json", CONFIG("70", "1", "32"));
    ok(dies(1, "no tensor value_embeds.0.weight", load, dir), "a tensor that is missing is named");
    spoil(dir, "config.json", CONFIG("60", "2", "32"));
    ok(dies(1, "transformer.wte.weight: its shape is [128,32], the configuration asks for [64,32]", load,
            dir),
       "a tensor of another shape is named");
    spoil(dir, "config.json", CONFIG("16777216", "4096", "4096"));
    ok(dies(1, "config.json asks for", load, dir), "a huge configuration takes no memory first");
    spoil(dir, "config.json", "{\"n_layer\": ");
    ok(dies(1, "l/config.json: not valid JSON", load, dir), "a configuration that is not JSON");
    spoil(dir, "config.json", "");
    ok(dies(1, "l/config.json: not valid JSON", load, dir), "an empty one");
    spoil(dir, "state.json", "[1]");
    ok(dies(1, "l/state.json: not a JSON object", load_state, dir),
       "a state that is not an object");
    int good = 1;
    for (int t = 0; t < 10; t++) {
        save(dir, 1, 1);
        cut(dir, "model.safetensors", t);
        good &= dies(1, "l/model.safetensors: not a valid safetensors file", load, dir);
        cut(dir, "optimizer-0.safetensors", t);
        good &= dies(1, "l/optimizer-0.safetensors: not a valid safetensors file", load_optim, dir);
    }
    ok(good, "files cut at each tenth");
    save(dir, 1, 0);
    ok(dies(1, "l/optimizer-0.safetensors: No such file", load_optim, dir),
       "no optimizer to go on from");
    spoil(dir, "commit.json",
          "{\"version\": 1, \"files\": [\"../../etc/passwd\"], \"remove\": []}");
    ok(dies(1, "l/commit.json: names a file", load, dir), "a journal that names another file");
    spoil(dir, "commit.json", "{\"version\": 2, \"files\": [], \"remove\": []}");
    ok(dies(1, "l/commit.json: a commit journal of another version", load, dir),
       "a journal of another version");
    wipe(dir);
    free(dir);
}

static void extra(void *dir) { model_free(ckpt_model(dir, &ops, 0)); exit(5); }

static void extra_tensors(void)
{
    char *dir = in(root, "x"), *path = in(dir, "model.safetensors");
    Run r = run_of(1);
    ckpt_save(dir, r.m, NULL, NULL, NULL, NULL);
    StWriter *w = stw_new();
    stw_add(w, "rotary.cos", 1, (int64_t[]){ 4 });
    for (int i = 0; i < r.m->nparam; i++)
        stw_add(w, r.m->param[i].name, r.m->param[i].ndim,
                (int64_t[]){ r.m->param[i].rows, r.m->param[i].cols });
    Out *out = out_open(path, 0);
    stw_begin(w, out);
    stw_data(w, (real[4]){ 0 }, 4);
    for (int i = 0; i < r.m->nparam; i++) stw_data(w, r.m->w + r.m->param[i].off, r.m->param[i].n);
    stw_end(w);
    out_close(out);
    ok(dies(5, "tensor rotary.cos: not part of this model", extra, dir),
       "an unknown tensor is told of");
    run_free(&r);
    wipe(dir);
    free(dir); free(path);
}

int main(void)
{
    /* in memory if there is such a place: fsync takes its time, and is not what is tested */
    root = xasprintf("%s/ckpt.XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(root)) die("%s:", root);
    round_trip();
    names_and_shapes();
    killed("first save", -1, 1, 1);
    killed("later save", 1, 1, 1);
    killed("weights only over all", 1, 1, 0);
    killed("all over weights only", 1, 0, 1);
    failed();
    refused_saves();
    two_writers();
    readers();
    keeping();
    keep_kills();
    keep_failed();
    refused_loads();
    extra_tensors();
    char *b = in(root, "a/b"), *a = in(root, "a");
    rmdir(b); rmdir(a);
    free(a); free(b);
    wipe(root);
    return done();
}
