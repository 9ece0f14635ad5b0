/* table.c -- the table of operations of this tier and Act. */
#include "ops/cpu/cpu.h"

#ifdef ACT_TILE
#ifdef ACT_DOT
#define REST(name) PASTE3(TIERED(name), _, dot)
#else
#define REST(name) PASTE3(TIERED(name), _, bf16)
#endif
const Ops *REST(ops)(void);

/* all but the matrix products as without tiles */
const Ops *CPU(ops)(void)
{
    static Ops table;
    static OpsRoom room;
    Ops o = *REST(ops)();
    o.name = "cpu amx_bf16";
    o.linear = CPU(linear); o.linear_dx = CPU(linear_dx); o.linear_dw = CPU(linear_dw);
    o.experts = CPU(experts); o.experts_dx = CPU(experts_dx); o.experts_dw = CPU(experts_dw);
    room = *o.room;
    room.linear = CPU(linear_room);
    room.linear_dx = CPU(linear_dx_room); room.linear_dw = CPU(linear_dw_room);
#ifdef ACT_DOT
    o.muon = CPU(muon);
    o.muon_tmp = CPU(muon_tmp);
    room.muon = CPU(muon_room);
#endif
    o.room = &room;
    table = o;
    return &table;
}
#else
static void no_wait(void) {}

#ifdef ACT_BF16
#define DTYPE "bf16"
#else
#define DTYPE "fp32"
#endif
#ifdef ACT_DOT
#define NAME_(t) "cpu " #t "_bf16"
#else
#define NAME_(t) "cpu " #t
#endif
#define NAME(t) NAME_(t)

const Ops *CPU(ops)(void)
{
    static const OpsRoom room = {
        .linear = CPU(linear_room), .linear_dx = CPU(linear_dx_room),
        .linear_dw = CPU(linear_dw_room), .embed_bwd = CPU(embed_bwd_room), .attn = CPU(attn_room),
        .attn_bwd = CPU(attn_bwd_room), .route_bwd = CPU(route_bwd_room), .xent = CPU(xent_room),
        .muon = MUON(muon_room),
    };
    static const Ops table = {
        .name = NAME(TIER), .dtype = DTYPE, .act_size = sizeof(Act), .room = &room,
        .alloc = TIERED(mem_alloc), .free = TIERED(mem_free), .zero = TIERED(mem_zero),
        .copy = TIERED(mem_copy), .put = TIERED(mem_copy), .get = TIERED(mem_copy),
        .sync = no_wait, .cast = CPU(cast), .uncast = CPU(uncast),
        .store = TIERED(store), .load = TIERED(load),
        .linear = CPU(linear), .linear_dx = CPU(linear_dx), .linear_dw = CPU(linear_dw),
        .embed = CPU(embed), .embed_bwd = CPU(embed_bwd),
        .rmsnorm = CPU(rmsnorm), .rmsnorm_bwd = CPU(rmsnorm_bwd),
        .gain = CPU(gain), .gain_bwd = CPU(gain_bwd),
        .smear = CPU(smear), .smear_bwd = CPU(smear_bwd),
        .mix = CPU(mix), .mix_bwd = CPU(mix_bwd),
        .mix_norm = CPU(mix_norm), .mix_norm_bwd = CPU(mix_norm_bwd),
        .vgate = CPU(vgate), .vgate_bwd = CPU(vgate_bwd),
        .rope = CPU(rope), .rope_bwd = CPU(rope_bwd),
        .attn = CPU(attn), .attn_bwd = CPU(attn_bwd),
        .dropout = CPU(dropout), .attn_drop = CPU(attn_drop), .attn_drop_bwd = CPU(attn_drop_bwd),
        .kv_put = CPU(kv_put), .attn_kv = CPU(attn_kv),
        .relu2 = CPU(relu2), .relu2_bwd = CPU(relu2_bwd), .add = CPU(add),
        .swiglu = CPU(swiglu), .swiglu_bwd = CPU(swiglu_bwd),
        .route = CPU(route), .route_bwd = CPU(route_bwd),
        .experts = CPU(experts), .experts_dx = CPU(experts_dx), .experts_dw = CPU(experts_dw),
        .slots_add = CPU(slots_add), .slots_add_bwd = CPU(slots_add_bwd),
        .xent = CPU(xent), .logits = CPU(logits),
        .adamw = TIERED(adamw), .muon_tmp = MUON(muon_tmp), .muon = MUON(muon),
        .sumsq = TIERED(sumsq), .sum = TIERED(sum), .scale = TIERED(scale), .lerp = TIERED(lerp),
        .exchange = TIERED(exchange),
    };
    return &table;
}
#endif
