/* refused.cpp -- kernels and launches that a device would refuse, or that would go wrong there; for
 * tests/cuda/refused.c, which sees to it that the emulator ends the program with a message. */
#include "ops/cuda/cu.h"

enum { THREADS = 64 };
static __global__ void idle(int *) {}
static __global__ void with_static(int *to)
{
    SHARED(int, x, 1024);
    DYN_SMEM(int, y);
    x[threadIdx.x] = y[threadIdx.x] = (int)threadIdx.x;
    __syncthreads();
    to[threadIdx.x] = x[threadIdx.x] + y[threadIdx.x];
}
static __global__ void past_static(int *)
{
    SHARED(int, x, THREADS);
    x[threadIdx.x + 1] = 1;
}
static __global__ void past_dynamic(int *)
{
    DYN_SMEM(int, x);
    x[threadIdx.x + 1] = 1;
}
static __global__ void unaligned(float *p)
{
    float x[4];
    rload<4>(x, p + 1);
    p[0] = x[0];
}
/* a lane reads what another one wrote, without __syncwarp: `step` lanes on */
static __global__ void racing(int *to, int step)
{
    SHARED(int, x, WARP);
    x[threadIdx.x % WARP] = 1;
    const int from = (int)threadIdx.x + step;
    to[threadIdx.x] = x[from < 0 ? 0 : from < WARP ? from : WARP - 1];
}

extern "C" void refused_run(int what, int *p);
extern "C" int refused_race(int *p, int step);
void refused_run(int what, int *p)
{
    const size_t most = CU_SHARED_MAX;
    switch (what) {
    case 0: LAUNCH(with_static, 1, THREADS, most - 4096, cuda_stream, p); break;    /* this one fits */
    case 1: LAUNCH(with_static, 1, THREADS, most - 4092, cuda_stream, p); break;
    case 2: LAUNCH(idle, 1, THREADS, most + 1, cuda_stream, p); break;
    case 3: LAUNCH(with_static, 1, THREADS, 46 << 10, cuda_stream, p); break;
    case 4: LAUNCH(idle, dim3(1, 65536), THREADS, 0, cuda_stream, p); break;
    case 5: LAUNCH(idle, 1, 1056, 0, cuda_stream, p); break;
    case 6: LAUNCH(idle, 0, THREADS, 0, cuda_stream, p); break;
    case 7: LAUNCH(past_static, 1, THREADS, 0, cuda_stream, p); break;
    case 8: LAUNCH(past_dynamic, 1, THREADS, THREADS * sizeof(int), cuda_stream, p); break;
    case 9: LAUNCH(unaligned, 1, THREADS, 0, cuda_stream, (float *)p); break;
    }
}
int refused_race(int *p, int step)
{
    int seen = 0;
    LAUNCH(racing, 1, WARP, 0, cuda_stream, p, step);
    for (int i = 0; i < WARP; i++) seen |= p[i] != 1;
    return seen;
}
