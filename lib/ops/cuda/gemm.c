/* gemm.c -- products by cublasLt. A plan for each kind of product is made once and kept: descriptors
 * and the fastest of what cublasLt's heuristics propose, timed at first use if it is large enough to
 * matter. That first use waits for the device; none after it does.
 *
 * Which algorithm is fastest may differ from run to run where two are near, and with it the order of
 * sums. So plans are kept in a file, one line each, and a second run on the same kind of device does
 * bit for bit what the first did: $PIPEGPT_CUDA_PLANS, or plans.txt in $XDG_CACHE_HOME/pipegpt or
 * ~/.cache/pipegpt; set but empty: none. Algorithms that add in the output with atomics are excluded.
 *
 * The library is loaded at the first product, so that a program that was built with CUDA starts where
 * there is none. cublasLt is column-major: it is asked for y^T = op(b)^T op(a)^T. */
#include "ops/cuda/cuda.h"
#include "ops/cuda/gemm.h"
#include "base/err.h"
#include <cublasLt.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the library ---- */

#define FUNCTIONS(F) F(Create) F(GetVersion) F(MatmulDescCreate) F(MatmulDescSetAttribute) \
    F(MatrixLayoutCreate) F(MatrixLayoutSetAttribute) F(MatmulPreferenceCreate) \
    F(MatmulPreferenceSetAttribute) F(MatmulPreferenceDestroy) F(MatmulAlgoGetHeuristic) \
    F(MatmulAlgoCheck) F(Matmul) F(GetStatusString)
static struct {
#define F(name) __typeof__(cublasLt##name) *name;
    FUNCTIONS(F)
#undef F
} lt;
static cublasLtHandle_t handle;

#define STRING_(x) #x
#define STRING(x) STRING_(x)
static void *find(void *lib, const char *name)
{
    void *f = dlsym(lib, name);
    if (!f) die("CUDA: %s", dlerror());
    return f;
}
static void check(cublasStatus_t s, const char *what)
{
    if (s != CUBLAS_STATUS_SUCCESS) die("CUDA: cublasLt: %s: %s", what, lt.GetStatusString(s));
}
#define LT(name, ...) check(lt.name(__VA_ARGS__), #name)

static void load_library(void)
{
    const char *file = "libcublasLt.so." STRING(CUBLAS_VER_MAJOR);
    void *lib = dlopen(file, RTLD_NOW | RTLD_LOCAL), *f;
    if (!lib) die("CUDA: %s", dlerror());
    /* ISO C has no conversion between pointers to objects and to functions */
#define F(name) f = find(lib, "cublasLt" #name); memcpy(&lt.name, &f, sizeof f);
    FUNCTIONS(F)
#undef F
    LT(Create, &handle);
}

/* ---- plans ---- */

typedef struct Key {
    int m, n, k, ta, tb, batch, num_a, num_b, num_y, fast, add, align_a, align_b, align_d, align_y;
} Key;
enum { KEY_INTS = sizeof(Key) / sizeof(int) };
typedef struct Plan {
    Key key;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, y;     /* of cublasLt's a and b, which are b and a here */
    cublasLtMatmulAlgo_t algo;
    int kept;                           /* algo is from the file */
} Plan;
static Plan *plans;
static int nplan, capplan;

static int alignment(const void *p)
{
    for (int a = 256; a > 1; a /= 2) if ((uintptr_t)p % (unsigned)a == 0) return a;
    return 1;
}
static Key key_of(const CudaGemm *g)
{
    return (Key){ g->m, g->n, g->k, g->ta, g->tb, g->batch, g->num_a, g->num_b, g->num_y, g->fast,
                  g->beta != 0, alignment(g->a), alignment(g->b),
                  alignment(g->beta != 0 ? g->d : g->y), alignment(g->y) };
}
static const cudaDataType type[] = { [NUM_F32] = CUDA_R_32F, [NUM_BF16] = CUDA_R_16BF,
                                     [NUM_E4M3] = CUDA_R_8F_E4M3, [NUM_E5M2] = CUDA_R_8F_E5M2 };
static cublasLtMatrixLayout_t layout(int num, int rows, int cols, int batch)
{
    cublasLtMatrixLayout_t l;
    int64_t stride = (int64_t)rows * cols;
    int32_t count = batch;
    LT(MatrixLayoutCreate, &l, type[num], (uint64_t)rows, (uint64_t)cols, rows);
    LT(MatrixLayoutSetAttribute, l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    LT(MatrixLayoutSetAttribute, l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
       sizeof stride);
    return l;
}
static void describe(Plan *p)
{
    const Key *k = &p->key;
    const cublasOperation_t ta = k->tb ? CUBLAS_OP_T : CUBLAS_OP_N,
                            tb = k->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int8_t fast = (int8_t)k->fast;
    LT(MatmulDescCreate, &p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    LT(MatmulDescSetAttribute, p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta);
    LT(MatmulDescSetAttribute, p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof tb);
    LT(MatmulDescSetAttribute, p->desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast);
    p->a = layout(k->num_b, k->tb ? k->k : k->n, k->tb ? k->n : k->k, k->batch);
    p->b = layout(k->num_a, k->ta ? k->m : k->k, k->ta ? k->k : k->m, k->batch);
    p->y = layout(k->num_y, k->n, k->m, k->batch);
}
/* where the scales of eight-bit numbers are: part of a call, not of the plan */
static void point(const Plan *p, const float *scale_a, const float *scale_b)
{
    if (p->key.num_a < NUM_E4M3) return;
    LT(MatmulDescSetAttribute, p->desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &scale_b,
       sizeof scale_b);
    LT(MatmulDescSetAttribute, p->desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &scale_a,
       sizeof scale_a);
}
static cublasStatus_t multiply(const Plan *p, const cublasLtMatmulAlgo_t *algo, const CudaGemm *g,
                               void *y)
{
    void *work = cuda_scratch(SLOT_GEMM, CUDA_GEMM_WORK);
    point(p, g->scale_a, g->scale_b);
    return lt.Matmul(handle, p->desc, &g->alpha, g->b, p->a, g->a, p->b, &g->beta,
                     g->beta != 0 ? g->d : y, p->y, y, p->y, algo, work, CUDA_GEMM_WORK, cuda_stream);
}

/* ---- the file ---- */

enum { MOST_LINES = 1 << 16 };          /* that are read */

static char *plan_file(void)
{
    const char *s = getenv("PIPEGPT_CUDA_PLANS"), *cache = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    if (s) return *s ? xstrdup(s) : NULL;
    if (cache && *cache) return xasprintf("%s/pipegpt/plans.txt", cache);
    return home && *home ? xasprintf("%s/.cache/pipegpt/plans.txt", home) : NULL;
}
/* what a line begins with: the library and the device it is for */
static char *line_head(void)
{
    return xasprintf("2 cublasLt %zu sm %d x %d:", lt.GetVersion(), cuda_capability(), cuda_sm_count());
}
static int hex(int c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }
static int sound(const Key *k)
{
    return k->m > 0 && k->n > 0 && k->k > 0 && k->batch > 0 && k->num_a <= NUM_E5M2 &&
           k->num_b <= NUM_E5M2 && k->num_y <= NUM_BF16 && k->ta <= 1 && k->tb <= 1 && k->fast <= 1;
}
/* " KEY... HEX" */
static int parse(const char *s, Key *k, cublasLtMatmulAlgo_t *algo)
{
    int *v = (int *)(void *)k;
    for (int i = 0; i < KEY_INTS; i++) {
        char *end;
        errno = 0;
        long x = strtol(s, &end, 10);
        if (end == s || errno || x < 0 || x > INT32_MAX) return 0;
        v[i] = (int)x;
        s = end;
    }
    if (!sound(k) || *s++ != ' ') return 0;
    unsigned char *to = (unsigned char *)algo;
    for (size_t i = 0; i < sizeof *algo; i++, s += 2) {
        int a = hex(s[0]), b = a < 0 ? -1 : hex(s[1]);
        if (b < 0) return 0;
        to[i] = (unsigned char)(a << 4 | b);
    }
    return *s == '\n' || !*s;
}
static Plan *plan_new(const Key *k)
{
    if (nplan == capplan) {
        capplan = capplan ? 2 * capplan : 64;
        plans = xreallocarray(plans, (size_t)capplan, sizeof *plans);
    }
    plans[nplan] = (Plan){ .key = *k };
    return &plans[nplan++];
}
static int runs(const Plan *p, const cublasLtMatmulAlgo_t *algo)
{
    const float *any = cuda_scratch(SLOT_GEMM, CUDA_GEMM_WORK);
    cublasLtMatmulHeuristicResult_t r;
    point(p, any, any);
    return lt.MatmulAlgoCheck(handle, p->desc, p->a, p->b, p->y, p->y, algo, &r) ==
               CUBLAS_STATUS_SUCCESS && r.workspaceSize <= CUDA_GEMM_WORK;
}
static Plan *plan_find(const Key *k)
{
    for (int i = 0; i < nplan; i++)
        if (memcmp(&plans[i].key, k, sizeof *k) == 0) return &plans[i];
    return NULL;
}
/* Lines for other devices, and what does not parse or cannot run here, are left alone. Of several for a
 * product the last one counts. */
static void read_plans(void)
{
    char *name = plan_file(), line[512], *head = line_head();
    FILE *f = name ? fopen(name, "r") : NULL;
    for (int n = 0; f && n < MOST_LINES && fgets(line, sizeof line, f); n++) {
        Key k;
        cublasLtMatmulAlgo_t algo;
        if (strncmp(line, head, strlen(head)) != 0 || !parse(line + strlen(head), &k, &algo)) continue;
        Plan *p = plan_find(&k);
        if (!p) describe(p = plan_new(&k));
        if (runs(p, &algo)) p->algo = algo, p->kept = 1;
        else if (!p->kept) nplan--;
    }
    if (f) fclose(f);
    free(name);
    free(head);
}
/* In one write, so that processes side by side do not mix their lines. */
static void keep_plan(const Plan *p)
{
    char *name = plan_file(), line[512];
    if (!name) return;
    char *head = line_head();
    int n = snprintf(line, sizeof line, "%s", head);
    const int *v = (const int *)(const void *)&p->key;
    for (int i = 0; i < KEY_INTS; i++) n += snprintf(line + n, sizeof line - (size_t)n, " %d", v[i]);
    n += snprintf(line + n, sizeof line - (size_t)n, " ");
    const unsigned char *b = (const unsigned char *)&p->algo;
    for (size_t i = 0; i < sizeof p->algo; i++)
        n += snprintf(line + n, sizeof line - (size_t)n, "%02x", b[i]);
    line[n++] = '\n';
    for (char *s = strchr(name + 1, '/'); s; s = strchr(s + 1, '/')) {
        *s = 0;
        mkdir(name, 0777);
        *s = '/';
    }
    int fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        note(2, "%s: plans for products are not kept:", name);
    if (fd >= 0) close(fd);
    free(name);
    free(head);
}

/* ---- choosing ---- */

enum { TRIES = 16, REPEAT = 5 };

/* what the heuristics propose, the likeliest to be fast first; how many */
static int propose(const Plan *p, cublasLtMatmulHeuristicResult_t *r)
{
    cublasLtMatmulPreference_t pref;
    const uint32_t reduce = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, a = (uint32_t)p->key.align_b,
                   b = (uint32_t)p->key.align_a, d = (uint32_t)p->key.align_d,
                   y = (uint32_t)p->key.align_y;
    const size_t work = CUDA_GEMM_WORK;
    int n = 0, good = 0;
    LT(MatmulPreferenceCreate, &pref);
#define SET(what, v) LT(MatmulPreferenceSetAttribute, pref, CUBLASLT_MATMUL_PREF_##what, &v, sizeof v)
    SET(MAX_WORKSPACE_BYTES, work);
    SET(REDUCTION_SCHEME_MASK, reduce);
    SET(MIN_ALIGNMENT_A_BYTES, a);
    SET(MIN_ALIGNMENT_B_BYTES, b);
    SET(MIN_ALIGNMENT_C_BYTES, d);
    SET(MIN_ALIGNMENT_D_BYTES, y);
#undef SET
    cublasStatus_t s = lt.MatmulAlgoGetHeuristic(handle, p->desc, p->a, p->b, p->y, p->y, pref, TRIES,
                                                 r, &n);
    LT(MatmulPreferenceDestroy, pref);
    const Key *k = &p->key;
    for (int i = 0; s == CUBLAS_STATUS_SUCCESS && i < n; i++)   /* each has a state of its own */
        if (r[i].state == CUBLAS_STATUS_SUCCESS && r[i].workspaceSize <= work) r[good++] = r[i];
    if (!good)
        die("CUDA: cublasLt has no way to multiply %d x %d by %d x %d of %s: %s", k->m, k->k, k->k,
            k->n, k->num_a >= NUM_E4M3 ? "fp8" : k->num_a == NUM_BF16 ? "bf16" : "fp32",
            lt.GetStatusString(s));
    return good;
}
/* milliseconds of the fastest of REPEAT, after one to warm up; a very long time if it fails */
static float time_of(const Plan *p, const cublasLtMatmulAlgo_t *algo, const CudaGemm *g, void *y,
                     cudaEvent_t from, cudaEvent_t to)
{
    float best = 1e30f;
    for (int i = 0; i <= REPEAT; i++) {
        float ms;
        cuda_check(cudaEventRecord(from, cuda_stream), "cudaEventRecord");
        if (multiply(p, algo, g, y) != CUBLAS_STATUS_SUCCESS) return 1e30f;
        cuda_check(cudaEventRecord(to, cuda_stream), "cudaEventRecord");
        cuda_check(cudaEventSynchronize(to), "a product");
        cuda_check(cudaEventElapsedTime(&ms, from, to), "cudaEventElapsedTime");
        if (i > 0 && ms < best) best = ms;
    }
    return best;
}
/* Into y itself if its old values do not count, else into memory that is given back. */
static int fastest(const Plan *p, const CudaGemm *g, const cublasLtMatmulHeuristicResult_t *r, int n)
{
    const size_t bytes = (size_t)g->batch * (size_t)g->m * (size_t)g->n * (g->num_y == NUM_BF16 ? 2 : 4);
    void *y = g->y;
    int best = 0;
    float least = 1e30f;
    if (g->beta != 0 && cudaMallocAsync(&y, bytes, cuda_stream) != cudaSuccess) {
        cudaGetLastError();                     /* full: do without */
        return 0;
    }
    cudaEvent_t from, to;
    cuda_check(cudaEventCreate(&from), "cudaEventCreate");
    cuda_check(cudaEventCreate(&to), "cudaEventCreate");
    for (int i = 0; i < n; i++) {
        float ms = time_of(p, &r[i].algo, g, y, from, to);
        if (ms < least) least = ms, best = i;
    }
    cudaEventDestroy(from);
    cudaEventDestroy(to);
    if (y != g->y) cuda_check(cudaFreeAsync(y, cuda_stream), "cudaFreeAsync");
    return best;
}
static void choose(Plan *p, const CudaGemm *g)
{
    cublasLtMatmulHeuristicResult_t r[TRIES];
    point(p, g->scale_a, g->scale_b);
    int n = propose(p, r), large = (double)g->m * g->n * g->k * g->batch >= 1 << 24;
    p->algo = r[large ? fastest(p, g, r, n) : 0].algo;
    p->kept = 0;
    if (large) keep_plan(p);
}
void cuda_gemm(const CudaGemm *g)
{
    if (g->m <= 0 || g->n <= 0 || g->batch <= 0) return;
    if (!handle) {
        load_library();
        read_plans();
    }
    const Key k = key_of(g);
    Plan *p = plan_find(&k);
    if (!p) {
        describe(p = plan_new(&k));
        choose(p, g);
    }
    cublasStatus_t s = multiply(p, &p->algo, g, g->y);
    if (s != CUBLAS_STATUS_SUCCESS && p->kept) {        /* it was checked, which does not see all */
        choose(p, g);
        s = multiply(p, &p->algo, g, g->y);
    }
    check(s, "Matmul");
}
