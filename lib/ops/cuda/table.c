/* table.c -- the table of operations of the CUDA back-end, for this Act. */
#include "ops/cuda/cuda.h"

#ifdef ACT_BF16
#define DTYPE "bf16"
#else
#define DTYPE "fp32"
#endif

const Ops *CU(ops)(void)
{
    static const Ops table = {
        .name = "cuda", .dtype = DTYPE, .act_size = sizeof(Act),
        .alloc = cuda_alloc, .free = cuda_free, .zero = cuda_zero, .copy = cuda_copy,
        .put = cuda_put, .get = cuda_get, .sync = cuda_sync, .cast = CU(cast),
        .uncast = CU(uncast), .store = cuda_store, .load = cuda_load,
        .linear = CU(linear), .linear_dx = CU(linear_dx), .linear_dw = CU(linear_dw),
        .embed = CU(embed), .embed_bwd = CU(embed_bwd),
        .rmsnorm = CU(rmsnorm), .rmsnorm_bwd = CU(rmsnorm_bwd),
        .gain = CU(gain), .gain_bwd = CU(gain_bwd),
        .smear = CU(smear), .smear_bwd = CU(smear_bwd),
        .mix = CU(mix), .mix_bwd = CU(mix_bwd),
        .mix_norm = CU(mix_norm), .mix_norm_bwd = CU(mix_norm_bwd),
        .vgate = CU(vgate), .vgate_bwd = CU(vgate_bwd),
        .rope = CU(rope), .rope_bwd = CU(rope_bwd),
        .relu2 = CU(relu2), .relu2_bwd = CU(relu2_bwd), .add = CU(add),
        .dropout = CU(dropout),
        .swiglu = CU(swiglu), .swiglu_bwd = CU(swiglu_bwd),
        .attn = CU(attn), .attn_bwd = CU(attn_bwd),
        .attn_drop = CU(attn_drop), .attn_drop_bwd = CU(attn_drop_bwd),
        .kv_put = CU(kv_put), .attn_kv = CU(attn_kv),
        .route = CU(route), .route_bwd = CU(route_bwd),
        .experts = CU(experts), .experts_dx = CU(experts_dx), .experts_dw = CU(experts_dw),
        .slots_add = CU(slots_add), .slots_add_bwd = CU(slots_add_bwd),
        .xent = CU(xent), .logits = CU(logits),
        .adamw = cuda_adamw, .muon_tmp = CU(muon_tmp), .muon = CU(muon),
        .sumsq = cuda_sumsq, .sum = cuda_sum, .scale = cuda_scale, .lerp = cuda_lerp,
        .exchange = cuda_exchange,
        .pick = cuda_pick, .graph_begin = cuda_graph_begin, .graph_end = cuda_graph_end,
        .graph_run = cuda_graph_run, .graph_free = cuda_graph_free,
    };
    return &table;
}
#ifdef ACT_BF16
const Ops *cuda_ops_fp8(void)
{
    static Ops table;
    table = *CU(ops)();
    table.dtype = "fp8";
    table.linear8 = cuda_linear8;
    table.linear8_bwd = cuda_linear8_bwd;
    return &table;
}
#endif
