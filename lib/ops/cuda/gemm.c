/* gemm.c -- products by cublasLt. A plan for each kind of product is made once and kept:
 * descriptors and the fastest of what cublasLt's heuristics propose, timed at first use if it is
 * large enough to matter. That first use waits for the device; none after it does.
 *
 * How many rows there are is often another number: along a dimension that is the outer one of every
 * array it is in, as rows are, a plan serves a class of sizes, an eighth apart at most (plan_class()).
 * Plans are kept in a file, by which ranks agree and runs repeat (plans.h). Algorithms that add in
 * the output with atomics are excluded.
 *
 * The library is loaded at the first product, so that a program that was built with CUDA starts where
 * there is none. cublasLt is column-major: it is asked for y^T = op(b)^T op(a)^T. */
#include "ops/cuda/cuda.h"
#include "ops/cuda/gemm.h"
#include "ops/cuda/plans.h"
#include "base/err.h"
#include "base/map.h"
#include <cublasLt.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

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

_Static_assert(sizeof(PlanAlgo) == sizeof(cublasLtMatmulAlgo_t), "an algorithm's bytes");

typedef struct Plan {
    PlanKey key;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, y;     /* of cublasLt's a and b, which are b and a here */
    int m, k;                           /* what they are described for */
    cublasLtMatmulAlgo_t algo;
    enum { TO_CHOOSE, FROM_FILE, CHOSEN } state;
} Plan;
static Plan *plans;
static int nplan;
static Map index_of;                    /* of a key in plans */

static int alignment(const void *p)
{
    for (int a = 256; a > 1; a /= 2) if ((uintptr_t)p % (unsigned)a == 0) return a;
    return 1;
}
/* m is no array's inner dimension unless a is taken transposed, k if a is and b is not */
static PlanKey key_of(const CudaGemm *g)
{
    const int m = g->ta ? g->m : plan_class(g->m), k = g->ta && !g->tb ? plan_class(g->k) : g->k;
    return (PlanKey){ m, g->n, k, g->ta, g->tb, g->batch, g->num_a, g->num_b, g->num_y, g->fast,
                  g->beta != 0, alignment(g->a), alignment(g->b),
                  alignment(g->beta != 0 ? g->d : g->y), alignment(g->y) };
}
static const cudaDataType type[] = { [NUM_F32] = CUDA_R_32F, [NUM_BF16] = CUDA_R_16BF,
                                     [NUM_E4M3] = CUDA_R_8F_E4M3, [NUM_E5M2] = CUDA_R_8F_E5M2 };
#define SET(l, what, v) LT(MatrixLayoutSetAttribute, l, CUBLASLT_MATRIX_LAYOUT_##what, &v, sizeof v)
static void set_cols(cublasLtMatrixLayout_t l, int rows, int cols)
{
    const int64_t stride = (int64_t)rows * cols;
    const uint64_t n = (uint64_t)cols;
    SET(l, COLS, n);
    SET(l, STRIDED_BATCH_OFFSET, stride);
}
static cublasLtMatrixLayout_t layout(int num, int rows, int cols, int batch)
{
    cublasLtMatrixLayout_t l;
    const int32_t count = batch;
    LT(MatrixLayoutCreate, &l, type[num], (uint64_t)rows, (uint64_t)cols, rows);
    SET(l, BATCH_COUNT, count);
    set_cols(l, rows, cols);
    return l;
}
#undef SET
static void describe(Plan *p)
{
    const PlanKey *k = &p->key;
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
    p->m = k->m;
    p->k = k->k;
}
/* for another m and k of the plan's class */
static void fit(Plan *p, int m, int k)
{
    const PlanKey *key = &p->key;
    if (p->m == m && p->k == k) return;
    if (!key->tb) set_cols(p->a, key->n, k);
    set_cols(p->b, key->ta ? m : k, key->ta ? k : m);
    set_cols(p->y, key->n, m);
    p->m = m;
    p->k = k;
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

/* what lines for this library and device begin with */
static char *line_head(void)
{
    return xasprintf("3 cublasLt %zu sm %d x %d:", lt.GetVersion(), cuda_capability(),
                     cuda_sm_count());
}
static int runs(const Plan *p, const PlanAlgo *algo)
{
    const float *any = cuda_scratch(SLOT_GEMM, CUDA_GEMM_WORK);
    cublasLtMatmulHeuristicResult_t r;
    cublasLtMatmulAlgo_t a;
    memcpy(&a, algo, sizeof a);
    point(p, any, any);
    return lt.MatmulAlgoCheck(handle, p->desc, p->a, p->b, p->y, p->y, &a, &r) ==
               CUBLAS_STATUS_SUCCESS && r.workspaceSize <= CUDA_GEMM_WORK;
}
static Plan *plan_of(const PlanKey *k)
{
    int64_t *i = map_get(&index_of, k, sizeof *k);
    if (i) return &plans[*i];
    if ((nplan & (nplan - 1)) == 0)
        plans = xreallocarray(plans, nplan ? 2 * (size_t)nplan : 1, sizeof *plans);
    *map_put(&index_of, k, sizeof *k) = nplan;
    plans[nplan] = (Plan){ .key = *k };
    describe(&plans[nplan]);
    return &plans[nplan++];
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
    const PlanKey *k = &p->key;
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
/* What is proposed depends on the class only. */
static void choose(Plan *p, const CudaGemm *g, int timed)
{
    cublasLtMatmulHeuristicResult_t r[TRIES];
    fit(p, p->key.m, p->key.k);
    point(p, g->scale_a, g->scale_b);
    const int n = propose(p, r);
    fit(p, g->m, g->k);
    p->algo = r[timed ? fastest(p, g, r, n) : 0].algo;
    p->state = CHOSEN;
}
/* the file's, unless that is the one it has */
static int take(Plan *p)
{
    const PlanAlgo *kept = plans_find(&p->key);
    const int tried = p->state == FROM_FILE;
    if (!kept || (tried && memcmp(kept, &p->algo, sizeof *kept) == 0) || !runs(p, kept)) return 0;
    memcpy(&p->algo, kept, sizeof *kept);
    p->state = FROM_FILE;
    return 1;
}
/* Nothing that the device has still to do may wait for a process that waits for the lock. */
static void decide(Plan *p, const CudaGemm *g)
{
    const PlanKey *k = &p->key;
    if (cuda_graph_noting()) {                  /* a product like no other before it: no waiting */
        choose(p, g, 0);
        p->state = TO_CHOOSE;
    } else if ((double)k->m * k->n * k->k * k->batch < 1 << 24) {
        choose(p, g, 0);
    } else if (!take(p)) {
        char *head = line_head();
        cuda_sync();
        plans_lock(head);
        if (!take(p)) {
            PlanAlgo algo;
            choose(p, g, 1);
            memcpy(&algo, &p->algo, sizeof algo);
            plans_keep(k, &algo);
        }
        plans_unlock();
        free(head);
    }
}
void cuda_gemm(const CudaGemm *g)
{
    if (g->m <= 0 || g->n <= 0 || g->batch <= 0) return;
    if (!handle) {
        load_library();
        char *head = line_head();
        plans_lock(head);
        plans_unlock();
        free(head);
    }
    const PlanKey k = key_of(g);
    Plan *p = plan_of(&k);
    fit(p, g->m, g->k);
    if (p->state == TO_CHOOSE) decide(p, g);
    cublasStatus_t s = multiply(p, &p->algo, g, g->y);
    if (s != CUBLAS_STATUS_SUCCESS && p->state == FROM_FILE) {  /* a check does not see all */
        decide(p, g);
        s = multiply(p, &p->algo, g, g->y);
    }
    if (s != CUBLAS_STATUS_SUCCESS) {           /* of its class, this one is another matter */
        cublasLtMatmulHeuristicResult_t r[TRIES];
        point(p, g->scale_a, g->scale_b);
        propose(p, r);
        s = multiply(p, &r[0].algo, g, g->y);
    }
    check(s, "Matmul");
}
