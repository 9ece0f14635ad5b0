/* graph.c -- a stretch of operations as a CUDA graph: what is launched between begin and end is noted
 * down by the stream, and run again as one launch. The addresses are part of it, those of scratch
 * too: a graph is stale once scratch has grown, which it must not in between: shapes have been seen
 * before (ops.h). What was sorted before does not count in it, nor after it. Where the runtime cannot
 * note something down, which it says at the end, there is no graph, and the caller goes on without. */
#include "ops/cuda/cuda.h"
#include "ops/cuda/fp8.h"
#include "ops/cuda/sort.h"
#include "base/err.h"
#include <stdlib.h>

typedef struct Graph { cudaGraphExec_t exec; int64_t scratch; } Graph;

static int noting;
int cuda_graph_noting(void) { return noting; }

static void forget_all(void)
{
    cuda_fp8_forget(NULL, 0);
    cuda_sort_forget_all();
}
void cuda_graph_begin(void)
{
    forget_all();
    cuda_check(cudaStreamBeginCapture(cuda_stream, cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture");
    noting = 1;
}
void *cuda_graph_end(void)
{
    cudaGraph_t g = NULL;
    noting = 0;
    forget_all();                               /* it was not done */
    Graph *made = xcalloc(1, sizeof *made);
    cudaError_t e = cudaStreamEndCapture(cuda_stream, &g);
    if (e == cudaSuccess) e = cudaGraphInstantiate(&made->exec, g, 0);
    if (g) cudaGraphDestroy(g);
    made->scratch = cuda_scratch_grown();
    if (e == cudaSuccess) return made;
    cudaGetLastError();                         /* it is dealt with */
    note(2, "CUDA: no graph: %s", cudaGetErrorString(e));
    free(made);
    return NULL;
}
int cuda_graph_run(void *graph)
{
    const Graph *g = graph;
    if (g->scratch != cuda_scratch_grown()) return 0;
    forget_all();                               /* it may write weights */
    cuda_check(cudaGraphLaunch(g->exec, cuda_stream), "cudaGraphLaunch");
    return 1;
}
void cuda_graph_free(void *graph)
{
    Graph *g = graph;
    if (!g) return;
    cuda_check(cudaGraphExecDestroy(g->exec), "cudaGraphExecDestroy");
    free(g);
}
