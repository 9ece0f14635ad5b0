/* cudnn.h -- attention by NVIDIA's cuDNN, for Hopper, whose own instructions (wgmma) it has and
 * attn_fwd.cu and attn_bwd.cu have not; on other devices it is not worth its while. Built in with
 * make CUDNN=1; needs cuDNN 9.26 (gradients from an lse that lies as ours does). PIPEGPT_CUDNN=0 in
 * the environment: not used.
 *
 * cudnn.cpp makes plans, one for a shape and a direction, and runs them; attn_cudnn.c says when.
 */
#ifndef OPS_CUDA_CUDNN_H
#define OPS_CUDA_CUDNN_H
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* causal, of bfloat16: q [B,T,H,D], k, v [B,T,K,D], lse [B,T,H] fp32; window as in ops.h */
typedef struct CudnnShape { int B, T, H, K, D, window; } CudnnShape;
typedef struct CudnnPlan CudnnPlan;

/* What a plan reads and writes, each aligned to 16 bytes: forward Q K V -> Y LSE, backward
 * Q K V Y LSE DY -> DQ DK DV, which are overwritten. */
enum { CUDNN_Q, CUDNN_K, CUDNN_V, CUDNN_Y, CUDNN_LSE, CUDNN_DY, CUDNN_DQ, CUDNN_DK, CUDNN_DV,
       CUDNN_ARRAYS };

/* NULL if cuDNN has none, and why[0..n) says why. device: NULL for the one that is in use, or a
 * description, JSON as cuDNN writes it, of one of compute capability `capability` (90: 9.0) with
 * `sm` multiprocessors, which need not be here; such a plan cannot be run. It takes seconds. */
CudnnPlan *cudnn_plan(const CudnnShape *s, int backward, const char *device, int capability, int sm,
                      char *why, size_t n);
size_t cudnn_workspace(const CudnnPlan *p);
/* On the stream; dies if it cannot. workspace: aligned to 256 */
void cudnn_run(CudnnPlan *p, void *const array[CUDNN_ARRAYS], void *workspace, void *stream);
void cudnn_free(CudnnPlan *p);

/* attn_cudnn.c. Whether it is used on this device; whether it is asked for a shape; how many rows the
 * backward takes at a time, so that cuDNN's workspace, B H T T * 2 bytes since its sums have a fixed
 * order, stays below a bound: 0 if not even one; and the scratch that this takes in all, in bytes. */
int cudnn_used(void);
int cudnn_takes(const CudnnShape *s);
int cudnn_rows(const CudnnShape *s);
size_t cudnn_scratch(const CudnnShape *s);

#ifdef __cplusplus
}
#endif
#endif
