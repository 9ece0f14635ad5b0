/* lib/ops/cuda/gemm.c, which hands products to cublasLt, against a library in cublasLt's place
 * (tests/emulator/lt) that does what its documentation says: every call's layouts, the choice of an
 * algorithm, and the file that plans are kept in. Each test is a process of its own, since plans are
 * read once. */
#include "tap.h"
#ifdef ON_DEVICE
int main(void)
{
    skip("products by another cublasLt", "the real one is here");
    return done();
}
#else
#include "base/err.h"
#include "base/io.h"
#include "cuda_runtime_api.h"
#include "ops/cuda/gemm.h"
#include "ops/ops.h"
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

void lt_gemm(const CudaGemm *g);        /* cuda_gemm() of gemm.c */
const Ops *cuda_ops_fp32(void);
void cuda_start(int device);

/* ---- events, for gemm.c; time is the library's own */
static void *symbol(const char *name)
{
    void *p = dlsym(RTLD_DEFAULT, name);
    if (!p) die("the library has no %s", name);
    return p;
}
int lt_event_create(double **e), lt_event_destroy(double *e),
    lt_event_record(double *e, void *stream), lt_event_synchronize(double *e),
    lt_event_elapsed(float *ms, const double *from, const double *to);
int lt_event_create(double **e)
{
    *e = xcalloc(1, sizeof **e);
    return 0;
}
int lt_event_destroy(double *e)
{
    free(e);
    return 0;
}
int lt_event_record(double *e, void *stream)
{
    (void)stream;
    *e = *(double *)symbol("lt_clock");
    return 0;
}
int lt_event_synchronize(double *e) { return !e; }
int lt_event_elapsed(float *ms, const double *from, const double *to)
{
    *ms = (float)(*to - *from);
    return 0;
}

/* ---- a product, by the library and by hand */

static uint32_t seed = 1;
static float number(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) / (1 << 23) - 1;
}
static float bf16(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
static size_t size_of(CudaNum t) { return t == NUM_F32 ? 4 : t == NUM_BF16 ? 2 : 1; }
/* Eight-bit ones: small integers, which both formats have. */
static double value(const void *p, CudaNum t, int64_t i)
{
    if (t == NUM_F32) return (double)((const float *)p)[i];
    if (t == NUM_BF16) return (double)bf16(((const uint16_t *)p)[i]);
    const uint8_t v = ((const uint8_t *)p)[i];
    const int k = t == NUM_E4M3 ? (v & 127) - 0x38 : (v & 127) - 0x3c;
    return (v & 128 ? -1 : 1) * (t == NUM_E4M3 ? 1 + k / 8. : 1 + k / 4.);  /* from 1 to 2 */
}
static void *numbers(CudaNum t, int64_t n)
{
    char *p = xreallocarray(NULL, (size_t)n, size_of(t));
    for (int64_t i = 0; i < n; i++) {
        const float f = number();
        uint32_t u;
        memcpy(&u, &f, sizeof u);
        if (t == NUM_F32) ((float *)(void *)p)[i] = f;
        else if (t == NUM_BF16) ((uint16_t *)(void *)p)[i] = (uint16_t)(u >> 16);
        else if (t == NUM_E4M3) p[i] = (char)(0x38 + (u & 7) + (u & 128));
        else p[i] = (char)(0x3c + (u & 3) + (u & 128));
    }
    return p;
}
/* worst error in units of what floats and y's type may be off by. skew: bytes that arrays lie off. */
static double worst(CudaGemm g, int over, size_t skew, void **result)
{
    const Ops *o = cuda_ops_fp32();
    const int64_t na = (int64_t)g.batch * g.m * g.k, nb = (int64_t)g.batch * g.k * g.n,
                  ny = (int64_t)g.batch * g.m * g.n;
    void *a = numbers(g.num_a, na), *b = numbers(g.num_b, nb), *d = numbers(g.num_y, ny);
    const size_t by = size_of(g.num_y), sa = (size_t)na * size_of(g.num_a),
                 sb = (size_t)nb * size_of(g.num_b), sy = (size_t)ny * by;
    char *pa = o->alloc(sa + 256), *pb = o->alloc(sb + 256), *pd = o->alloc(sy + 256),
         *py = over ? pd : o->alloc(sy + 256);
    float scale[2] = { 0.5f, 3 }, *ps = o->alloc(sizeof scale);
    o->put(pa + skew, a, sa);
    o->put(pb + skew, b, sb);
    o->put(pd + skew, d, sy);
    o->put(ps, scale, sizeof scale);
    g.a = pa + skew, g.b = pb + skew, g.d = pd + skew, g.y = py + skew;
    const int eight = g.num_a >= NUM_E4M3;
    if (eight) g.scale_a = ps, g.scale_b = ps + 1;
    lt_gemm(&g);
    void *y = xreallocarray(NULL, (size_t)ny, by);
    o->get(y, py + skew, sy);
    double most = 0;
    for (int64_t i = 0; i < ny; i += ny < 10000 ? 1 : 97) {
        const int64_t x = i / ((int64_t)g.m * g.n), r = i / g.n % g.m, c = i % g.n;
        double s = 0, mag = 0;
        for (int64_t k = 0; k < g.k; k++) {
            const double t = value(a, g.num_a, x * g.m * g.k + (g.ta ? k * g.m + r : r * g.k + k)) *
                             value(b, g.num_b, x * g.k * g.n + (g.tb ? c * g.k + k : k * g.n + c));
            s += t, mag += fabs(t);
        }
        s *= (double)g.alpha * (eight ? 1.5 : 1), mag *= fabs((double)g.alpha) * (eight ? 1.5 : 1);
        if (g.beta != 0) s += (double)g.beta * value(d, g.num_y, i), mag += fabs(value(d, g.num_y, i));
        const double e = fabs(value(y, g.num_y, i) - s) /
                         (mag * (g.k + 2) * 0x1p-24 + (g.num_y == NUM_BF16 ? fabs(s) * 0x1p-8 : 0) + 1e-30);
        if (!(e <= most)) most = e;
    }
    o->free(pa, sa + 256), o->free(pb, sb + 256), o->free(pd, sy + 256);
    if (!over) o->free(py, sy + 256);
    o->free(ps, sizeof scale);
    free(a), free(b), free(d);
    if (result) *result = y;
    else free(y);
    return most;
}

/* ---- every kind of product */

static int kinds(void)
{
    static const struct { CudaNum a, b, y; } types[] = {
        { NUM_F32, NUM_F32, NUM_F32 }, { NUM_BF16, NUM_BF16, NUM_BF16 }, { NUM_BF16, NUM_BF16, NUM_F32 },
    };
    int bad = 0;
    for (int i = 0; i < 3 * 4 * 2 * 3; i++) {
        CudaGemm g = { .m = 5, .n = 7, .k = 12, .ta = i & 1, .tb = i >> 1 & 1, .batch = i >> 2 & 1 ? 3 : 1,
                       .alpha = i & 1 ? 1 : 0.3f };
        const int type = i >> 3, beta = i % 3;
        if (type >= 3) break;
        g.num_a = types[type].a, g.num_b = types[type].b, g.num_y = types[type].y;
        for (int b = 0; b < 4; b++) {           /* replaced, added to, another's part added */
            g.beta = b == 0 ? 0 : b == 1 ? 1 : -0.7f;
            const double e = worst(g, b < 3, b == 3 && beta == 1 ? 4 : 0, NULL);
            bad += !(e <= 1);
        }
    }
    for (int i = 0; i < 8; i++) {
        CudaGemm g = { .m = 13, .n = 32, .k = 48, .tb = 1, .batch = 1, .num_a = i & 1 ? NUM_E5M2 : NUM_E4M3,
                       .num_b = NUM_E4M3, .num_y = i & 2 ? NUM_BF16 : NUM_F32, .alpha = 1,
                       .beta = (float)(i >> 2), .fast = !(i & 1) };
        bad += !(worst(g, 1, 0, NULL) <= 1);
    }
    return bad;
}

/* ---- plans: large enough to be timed and kept */

static CudaGemm large(void)
{
    return (CudaGemm){ .m = 288, .n = 256, .k = 256, .tb = 1, .batch = 1, .alpha = 1, .beta = 1 };
}
static char *plan_text;                         /* name of the file */
static size_t lines(void)
{
    FILE *f = fopen(plan_text, "r");
    size_t n = 0;
    for (int c; f && (c = getc(f)) != EOF;) n += c == '\n';
    if (f) fclose(f);
    return n;
}
static uint64_t hash;                           /* of the last result, to compare processes by */
static int tuned(void)
{
    void *y;
    const size_t before = cuemu_memory().now;
    seed = 5;
    const double e = worst(large(), 1, 0, &y);
    hash = xxh3(y, 288 * 256 * 4);
    free(y);
    const int work = 32 << 20;
    return e <= 1 && cuemu_memory().now <= before + (size_t)work + 4096;
}
/* the same product in a new process; its hash, or 0 if it was wrong, did ask the heuristics where it
 * should not have, or failed */
static uint64_t process(const char *fast, int proposals, int more)
{
    int fd[2];
    uint64_t got = 0;
    if (pipe(fd)) die("pipe:");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("LT_FAST", fast, 1);
        if (more) setenv("LT_MORE", "1", 1);
        const int good = tuned() && *(int *)symbol("lt_proposals") == proposals;
        if (!good) printf("# wrong, or %d proposals\n", *(int *)symbol("lt_proposals"));
        if (!good) hash = 0;
        fflush(stdout);
        _exit(write(fd[1], &hash, sizeof hash) != sizeof hash);
    }
    close(fd[1]);
    if (read(fd[0], &got, sizeof got) != sizeof got) got = 0;
    close(fd[0]);
    waitpid(pid, NULL, 0);
    return got;
}
static int child(int (*f)(void))
{
    int status;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) _exit(f() != 0);
    waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
static void write_plans(const char *text, const char *mode)
{
    FILE *f = fopen(plan_text, mode);
    if (!f || fputs(text, f) < 0 || fclose(f)) die("%s:", plan_text);
}
static char *read_line(void)
{
    char *line = NULL;
    size_t n = 0;
    FILE *f = fopen(plan_text, "r");
    if (!f || getline(&line, &n, f) < 0) die("%s:", plan_text);
    fclose(f);
    return line;
}
/* the line with its last hexadecimal digits, those of the algorithm, those of another; or any part
 * replaced */
static char *with(const char *line, const char *old, const char *by)
{
    const char *at = strstr(line, old);
    if (!at) die("a line without '%s'", old);
    return xasprintf("%.*s%s%s", (int)(at - line), line, by, at + strlen(old));
}
static void plans(void)
{
    const uint64_t forward = process("0", 1, 0);
    ok(forward && lines() == 1, "a large product: timed, right, and its plan is kept");
    char *line = read_line();
    unlink(plan_text);
    const uint64_t back = process("1", 1, 0);
    ok(back && back != forward && lines() == 1, "the fastest is taken, whose sums are others");
    ok(process("0", 0, 0) == back && lines() == 1,
       "a later process takes what is kept, though another is faster now");
    unlink(plan_text);
    ok(process("0", 1, 1) == forward, "a proposal that is said to be of no use is left out");

    static const char *const spoilt[][2] = {
        { "3 cublasLt", "2 cublasLt" }, { "3 cublasLt", "" }, { " sm 80", " sm 90" }, { " 288 ", " 0 " },
        { " 288 ", " -272 " }, { " 288 ", " 99999999999 " }, { " 288 ", " x " }, { ": 288", ":" },
        { " 0 0 0 0 1 ", " 9 9 9 0 1 " }, { " 1700", " 17g0" }, { " 1700", " 170" }, { " 1700", " 170000" },
        { " 1700", " 1600" }, { "\n", "" },
    };
    int good = 0;
    const int n = sizeof spoilt / sizeof *spoilt;
    for (int i = 0; i < n; i++) {
        char *bad = with(line, spoilt[i][0], spoilt[i][1]);
        write_plans(bad, "w");
        /* only the last of them is still good */
        const int fine = process("1", i < n - 1, 0) == (i < n - 1 ? back : forward);
        if (!fine) printf("# '%s' for '%s'\n", spoilt[i][1], spoilt[i][0]);
        good += fine;
        free(bad);
    }
    ok(good == n, "%d of %d spoilt files do no harm", good, n);
    write_plans(line, "w");
    write_plans(line, "a");
    char *other = with(line, "1700000000000000000000", "1700000000000000010000");
    write_plans(other, "a");
    ok(process("0", 0, 0) == back, "of several lines for a product the last one counts");
    char *broken = with(line, "1700000000000000000000", "1700000000000000030000");
    write_plans(broken, "a");
    ok(process("0", 1, 0) == forward && process("1", 0, 0) == forward && lines() == 5,
       "one that passes the check and does not run is replaced, in the file too");
    free(other), free(broken), free(line);
    setenv("PIPEGPT_CUDA_PLANS", "", 1);
    unlink(plan_text);
    ok(process("0", 1, 0) == forward && access(plan_text, F_OK), "an empty name: none are kept");
    setenv("PIPEGPT_CUDA_PLANS", "/proc/none/plans.txt", 1);
    ok(process("0", 1, 0) == forward, "a file that cannot be written is not needed");
    setenv("PIPEGPT_CUDA_PLANS", "/dev/full", 1);
    ok(process("0", 1, 0) == forward, "nor one that has no end");
    setenv("PIPEGPT_CUDA_PLANS", plan_text, 1);
}
/* ---- classes of sizes: rows of all numbers, that choose among few; and of a gradient's depth */

static int bad_rows(int from, int to, int n, int depth)
{
    int bad = 0;
    for (int m = from; m <= to; m++) {
        CudaGemm g = { .m = m, .n = n, .k = n, .tb = 1, .batch = 1 + (m == to), .alpha = 1 };
        CudaGemm d = { .m = n, .n = n, .k = m, .ta = 1, .batch = 1 + (m == to), .alpha = 1, .beta = 1 };
        bad += !(worst(depth ? d : g, 1, 0, NULL) <= 1);
    }
    return bad;
}
/* 65 to 128 are 8 classes, one of them with batches of two, too; twice, the second time without asking */
static int few_plans(void)
{
    const int *asked = symbol("lt_proposals");
    int bad = 0;
    for (int i = 0; i < 4; i++) {
        bad += bad_rows(65, 128, 12, i % 2);
        bad += *asked != (i == 0 ? 9 : 18);
    }
    return bad;
}
static int one_line(void)
{
    return bad_rows(285, 288, 256, 0) || bad_rows(285, 288, 256, 1) || lines() != 4;
}
/* the class's algorithm cannot make 287 rows: the heuristics are asked for another, which is not kept */
static int odd_one(void)
{
    const int *asked = symbol("lt_proposals");
    setenv("LT_EVEN", "1", 1);
    CudaGemm g = large();
    const int first = tuned() && *asked == 1;
    g.m = 287;
    return !first || !(worst(g, 1, 0, NULL) <= 1) || *asked != 2 || lines() != 1;
}

/* while a graph is noted down nothing is timed; later it is */
static int in_a_graph(void)
{
    const Ops *o = cuda_ops_fp32();
    const size_t n = 288 * 256;
    CudaGemm g = large();
    float *a = o->alloc(n * 4), *b = o->alloc(n * 4), *y = o->alloc(n * 4);
    lt_gemm(&(CudaGemm){ .y = y, .d = y, .a = a, .b = b, .m = 8, .n = 8, .k = 8, .batch = 1 });
    g.a = a, g.b = b, g.d = g.y = y;
    o->graph_begin();
    lt_gemm(&g);
    o->graph_free(o->graph_end());
    const size_t before = lines();
    lt_gemm(&g);
    return before != 0 || lines() != 1;
}

/* ---- many processes, many lines */

/* Of processes that begin together, of which each finds another algorithm the fastest, all do the same. */
static void together(void)
{
    enum { N = 6 };
    int fd[2], same = 0;
    uint64_t got[N] = { 0 };
    if (pipe(fd)) die("pipe:");
    fflush(stdout);
    setenv("LT_SLOW", "1", 1);
    for (int i = 0; i < N; i++) {
        if (fork()) continue;
        setenv("LT_FAST", i % 2 ? "1" : "0", 1);
        if (!tuned()) hash = 0;
        _exit(write(fd[1], &hash, sizeof hash) != sizeof hash);
    }
    close(fd[1]);
    for (int i = 0; i < N && read(fd[0], &got[i], sizeof *got) == sizeof *got; i++)
        same += got[i] && got[i] == got[0];
    close(fd[0]);
    while (wait(NULL) > 0) {}
    unsetenv("LT_SLOW");
    ok(same == N && lines() == 1, "of %d processes at once %d do the same, %zu lines", N, same, lines());
    unlink(plan_text);
}
static void many_lines(void)
{
    uint64_t back = process("1", 1, 0);
    char *line = read_line();
    FILE *f = fopen(plan_text, "w");
    for (int i = 0; f && i < 30000; i++) {
        char by[32];
        snprintf(by, sizeof by, ": %d ", 1000 + i);
        char *other = with(line, ": 288 ", by);
        fputs(other, f);
        if (i == 10) fputs(line, f);            /* too long ago */
        free(other);
    }
    if (!f || fclose(f)) die("%s:", plan_text);
    const uint64_t forward = process("0", 1, 0);
    const size_t n = lines();
    ok(forward && forward != back && n > 5000 && n * strlen(line) < 4 << 20,
       "a file of more than 4 MiB loses its older half: %zu lines", n);
    ok(process("1", 0, 0) == forward && lines() == n, "the last of many lines is found");
    unlink(plan_text);
    free(line);
}
static void impossible(void *unused)
{
    (void)unused;
    CudaGemm g = { .m = 16, .n = 16, .k = 24, .tb = 1, .batch = 1, .num_a = NUM_E4M3, .num_b = NUM_E4M3,
                   .num_y = NUM_F32, .alpha = 1 };
    worst(g, 1, 0, NULL);
}

int main(int argc, char **argv)
{
    (void)argc;
    char *slash = strrchr(argv[0], '/'), dir[] = "/tmp/ltXXXXXX";
    char *file = xasprintf("%.*s/libcublasLt.so." LT_VERSION, (int)(slash ? slash - argv[0] : 1),
                           slash ? argv[0] : ".");
    if (!dlopen(file, RTLD_NOW | RTLD_GLOBAL)) die("%s", dlerror());    /* found by its name from now on */
    if (!mkdtemp(dir)) die("%s:", dir);
    plan_text = xasprintf("%s/a/b/plans.txt", dir);
    setenv("PIPEGPT_CUDA_PLANS", plan_text, 1);
    cuda_start(0);
    ok(child(kinds), "layouts, transposes, batches, types, scales: as by hand");
    ok(lines() == 0, "small products need no plan");
    plans();
    unlink(plan_text);
    ok(child(few_plans), "rows of all numbers share plans by classes, an eighth apart");
    ok(child(one_line), "large ones share what was timed");
    unlink(plan_text);
    ok(child(odd_one), "a class's algorithm that cannot make one of its sizes");
    unlink(plan_text);
    ok(child(in_a_graph), "a new product while a graph is noted down");
    unlink(plan_text);
    together();
    many_lines();
    ok(dies(1, "no way to multiply 16 x 24 by 24 x 16 of fp8", impossible, NULL),
       "what cannot be multiplied is said");
    char *rm = xasprintf("rm -rf '%s'", dir);
    if (system(rm)) printf("# %s is left\n", dir);
    free(rm), free(file), free(plan_text);
    return done();
}
#endif
