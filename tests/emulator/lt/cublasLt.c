/* cublasLt.c -- a library in place of NVIDIA's libcublasLt, for tests (tests/cuda/lt.c) of the code that
 * calls it (lib/ops/cuda/gemm.c), which has no other way to run without a GPU. Compiled with NVIDIA's
 * own headers. Column-major products in plain loops, by what the descriptors say and nothing else; what
 * the documentation forbids is an error here.
 *
 * It has three algorithms, numbered in data[1]: 0 wants 16 bytes of alignment, 1 and 2 take anything; 1
 * adds from the end. By lt_clock, one takes 1 ms and the others 2: the fast one is $LT_FAST. With
 * $LT_EVEN, 0 does not make an odd number of columns. A fourth, 3, passes the check and does not
 * run; with $LT_MORE it is proposed too, first, as one that is of no use. With $LT_SLOW a product
 * takes its milliseconds. */
#include <cublasLt.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int lt_proposals;                       /* asked for so far */
double lt_clock;                        /* ms */

typedef struct Desc { int ta, tb, fast; const float *scale_a, *scale_b; } Desc;
typedef struct Layout { cudaDataType type; int64_t rows, cols, ld, stride; int batch; } Layout;
typedef struct Pref { size_t work; uint32_t reduce, align[4]; } Pref;
enum { A, B, C, D };

#define SAME(size, type) do { if (n != sizeof(type)) return CUBLAS_STATUS_INVALID_VALUE; \
                              memcpy(size, v, n); return CUBLAS_STATUS_SUCCESS; } while (0)
static void *new(size_t n)
{
    void *p = calloc(1, n);
    if (!p) abort();
    return p;
}
const char *cublasLtGetStatusString(cublasStatus_t s)
{
    return s == CUBLAS_STATUS_NOT_SUPPORTED ? "the requested functionality is not supported" : "an error";
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t *h)
{
    *h = new(1);
    return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion(void) { return CUBLAS_VERSION; }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t c, cudaDataType_t s)
{
    if (c != CUBLAS_COMPUTE_32F || s != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
    *d = new(sizeof(Desc));
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t a, const void *v, size_t n)
{
    Desc *d = (Desc *)desc;
    int8_t fast;
    switch ((int)a) {
    case CUBLASLT_MATMUL_DESC_TRANSA: SAME(&d->ta, int32_t);
    case CUBLASLT_MATMUL_DESC_TRANSB: SAME(&d->tb, int32_t);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER: SAME(&d->scale_a, void *);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER: SAME(&d->scale_b, void *);
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
        if (n != 1) return CUBLAS_STATUS_INVALID_VALUE;
        memcpy(&fast, v, 1);
        d->fast = fast;
        return CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld)
{
    Layout *x = new(sizeof *x);
    *x = (Layout){ type, (int64_t)rows, (int64_t)cols, ld, 0, 1 };
    *l = (cublasLtMatrixLayout_t)(void *)x;
    return ld < (int64_t)rows ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t a, const void *v, size_t n)
{
    Layout *l = (Layout *)(void *)layout;
    switch ((int)a) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: SAME(&l->batch, int32_t);
    case CUBLASLT_MATRIX_LAYOUT_COLS: SAME(&l->cols, uint64_t);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: SAME(&l->stride, int64_t);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p)
{
    Pref *x = new(sizeof *x);
    *x = (Pref){ 0, CUBLASLT_REDUCTION_SCHEME_MASK, { 256, 256, 256, 256 } };
    *p = (cublasLtMatmulPreference_t)(void *)x;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    free(p);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
                                                    cublasLtMatmulPreferenceAttributes_t a,
                                                    const void *v, size_t n)
{
    Pref *p = (Pref *)(void *)pref;
    switch ((int)a) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: SAME(&p->work, size_t);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: SAME(&p->reduce, uint32_t);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: SAME(&p->align[A], uint32_t);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: SAME(&p->align[B], uint32_t);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: SAME(&p->align[C], uint32_t);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: SAME(&p->align[D], uint32_t);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

/* ---- what can be multiplied */

typedef struct Op { const Desc *d; const Layout *x[4]; } Op;

static int size_of(cudaDataType t)
{
    return t == CUDA_R_32F ? 4 : t == CUDA_R_16BF ? 2 : t == CUDA_R_8F_E4M3 || t == CUDA_R_8F_E5M2 ? 1 : 0;
}
static int64_t depth(const Op *o) { return o->d->ta == CUBLAS_OP_T ? o->x[A]->rows : o->x[A]->cols; }
/* shapes that fit, types of the documentation's table, and for eight bits: A transposed and B not, rows
 * of all but B's number in multiples of 16 bytes, scales */
static int possible(const Op *o)
{
    const Layout *a = o->x[A], *b = o->x[B], *c = o->x[C], *d = o->x[D];
    const int ta = o->d->ta == CUBLAS_OP_T, tb = o->d->tb == CUBLAS_OP_T;
    if (d->rows != (ta ? a->cols : a->rows) || d->cols != (tb ? b->rows : b->cols) ||
        depth(o) != (tb ? b->cols : b->rows) || c->rows != d->rows || c->cols != d->cols)
        return 0;
    for (int i = 0; i < 4; i++)
        if (o->x[i]->batch != d->batch || (d->batch > 1 && o->x[i]->stride < o->x[i]->ld * o->x[i]->cols))
            return 0;
    if (c->type != d->type || (d->type != CUDA_R_32F && d->type != CUDA_R_16BF)) return 0;
    if (size_of(a->type) == 1 && size_of(b->type) == 1)
        return ta && !tb && (a->type == CUDA_R_8F_E4M3 || b->type == CUDA_R_8F_E4M3) &&
               a->rows % 16 == 0 && d->rows * size_of(d->type) % 16 == 0 && o->d->scale_a && o->d->scale_b;
    return a->type == b->type && !o->d->scale_a && !o->d->scale_b && !o->d->fast &&
           (a->type == CUDA_R_16BF || (a->type == CUDA_R_32F && d->type == CUDA_R_32F));
}
static Op op(cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
             cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t e)
{
    return (Op){ (const Desc *)d, { (const Layout *)(const void *)a, (const Layout *)(const void *)b,
                                    (const Layout *)(const void *)c, (const Layout *)(const void *)e } };
}
static int least(const Op *o, int algo) { return algo == 0 || size_of(o->x[A]->type) == 1 ? 16 : 1; }
static int odd(const Op *o, int algo) { return algo == 0 && o->x[D]->cols % 2 && getenv("LT_EVEN"); }
static int rows_aligned(const Op *o, int to)
{
    for (int i = 0; i < 4; i++) if (o->x[i]->ld * size_of(o->x[i]->type) % to) return 0;
    return 1;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t pref, int want,
                                              cublasLtMatmulHeuristicResult_t *r, int *n)
{
    const Op o = op(desc, a, b, c, d);
    const Pref *p = (const Pref *)(const void *)pref;
    (void)h;
    lt_proposals++;
    *n = 0;
    if (!possible(&o) || (p->reduce & ~(uint32_t)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    for (int i = getenv("LT_MORE") ? -1 : 0; i < 3 && *n < want; i++) {
        int fits = rows_aligned(&o, least(&o, i)) && !odd(&o, i);
        for (int k = 0; k < 4; k++) fits &= (int)p->align[k] >= least(&o, i);
        if (!fits) continue;
        memset(&r[*n], 0, sizeof *r);
        r[*n].algo.data[0] = 0x17;
        r[*n].algo.data[1] = (uint64_t)(i < 0 ? 3 : i);
        r[*n].workspaceSize = 1 << 20;
        r[*n].state = i < 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
        ++*n;
    }
    return *n ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t h, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *r)
{
    const Op o = op(desc, a, b, c, d);
    (void)h;
    r->workspaceSize = 1 << 20;
    return possible(&o) && algo->data[0] == 0x17 && algo->data[1] <= 3 ? CUBLAS_STATUS_SUCCESS
                                                                      : CUBLAS_STATUS_NOT_SUPPORTED;
}

/* ---- products */

static float of_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
static float element(const void *p, cudaDataType t, int64_t i)
{
    if (t == CUDA_R_32F) return ((const float *)p)[i];
    if (t == CUDA_R_16BF) return of_bits((uint32_t)((const uint16_t *)p)[i] << 16);
    const int e4 = t == CUDA_R_8F_E4M3, v = ((const uint8_t *)p)[i], m = e4 ? v & 7 : v & 3,
              e = e4 ? v >> 3 & 15 : v >> 2 & 31, bits = e4 ? 3 : 2, bias = e4 ? 7 : 15;
    const float f = ldexpf((float)(e ? m + (1 << bits) : m), (e ? e : 1) - bias - bits);
    return v & 128 ? -f : f;            /* the test has nothing that is not finite */
}
static void store(void *p, cudaDataType t, int64_t i, float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    if (t == CUDA_R_32F) ((float *)p)[i] = f;
    else ((uint16_t *)p)[i] = (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
static void multiply(const Op *o, float alpha, const void *a, const void *b, float beta, const void *c,
                     void *d, int backward)
{
    const Layout *la = o->x[A], *lb = o->x[B], *lc = o->x[C], *ld = o->x[D];
    const int ta = o->d->ta == CUBLAS_OP_T, tb = o->d->tb == CUBLAS_OP_T;
    const int64_t K = depth(o);
    if (o->d->scale_a) alpha *= *o->d->scale_a * *o->d->scale_b;
    float *s = new((size_t)ld->rows * sizeof *s), *x = new((size_t)(ld->rows * K) * sizeof *x);
    for (int n = 0; n < ld->batch; n++) {
        for (int64_t k = 0; k < K; k++)
            for (int64_t i = 0; i < ld->rows; i++)
                x[k * ld->rows + i] =
                    element(a, la->type, n * la->stride + (ta ? k + i * la->ld : i + k * la->ld));
        for (int64_t j = 0; j < ld->cols; j++) {
            memset(s, 0, (size_t)ld->rows * sizeof *s);
            for (int64_t l = 0; l < K; l++) {
                const int64_t k = backward ? K - 1 - l : l;
                const float v = element(b, lb->type, n * lb->stride + (tb ? j + k * lb->ld : k + j * lb->ld));
                for (int64_t i = 0; i < ld->rows; i++) s[i] += v * x[k * ld->rows + i];
            }
            for (int64_t i = 0; i < ld->rows; i++) {
                s[i] *= alpha;
                if (beta != 0) s[i] += beta * element(c, lc->type, n * lc->stride + i + j * lc->ld);
                store(d, ld->type, n * ld->stride + i + j * ld->ld, s[i]);
            }
        }
    }
    free(x);
    free(s);
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t la, const void *b,
                              cublasLtMatrixLayout_t lb, const void *beta, const void *c,
                              cublasLtMatrixLayout_t lc, void *d, cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t *algo, void *work, size_t bytes,
                              cudaStream_t stream)
{
    const Op o = op(desc, la, lb, lc, ld);
    const void *p[] = { a, b, c, d };
    (void)h, (void)stream;
    if (!possible(&o) || !algo || algo->data[0] != 0x17 || algo->data[1] > 2 || !work ||
        bytes < 1 << 20 || (uintptr_t)work % 256)
        return CUBLAS_STATUS_INVALID_VALUE;
    const int which = (int)algo->data[1];
    if (!rows_aligned(&o, least(&o, which)) || odd(&o, which)) return CUBLAS_STATUS_NOT_SUPPORTED;
    for (int i = 0; i < 4; i++)
        if ((uintptr_t)p[i] % (unsigned)least(&o, which)) return CUBLAS_STATUS_NOT_SUPPORTED;
    lt_clock += which == (getenv("LT_FAST") ? atoi(getenv("LT_FAST")) : 0) ? 1 : 2;
    if (getenv("LT_SLOW")) usleep(1000);
    multiply(&o, *(const float *)alpha, a, b, *(const float *)beta, c, d, which == 1);
    return CUBLAS_STATUS_SUCCESS;
}
