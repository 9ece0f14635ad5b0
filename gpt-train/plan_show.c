/* The plan for people and for programs. */
#include "options.h"
#include "plan.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const group_name[PG_COUNT] = {
    [PG_LM_HEAD] = "lm_head",     [PG_WTE] = "wte",       [PG_VALUE_EMBEDS] = "value_embeds",
    [PG_RESID] = "resid_lambdas", [PG_X0] = "x0_lambdas", [PG_SMEAR] = "smear_and_backout",
    [PG_MATRIX] = "matrices",      [PG_NORM] = "norms",
};

void plan_groups(const Config *cfg, int64_t n[PG_COUNT])
{
    for (int g = 0; g < PG_COUNT; g++) n[g] = config_params(cfg, g);
}

/* 286261730 -> "286.3 M"; in a buffer of the caller's */
static const char *human(double x, char s[16])
{
    static const char unit[] = " kMGTPEZY";
    size_t i = 0;
    while (x >= 999.95 && i + 2 < sizeof unit) { x /= 1000; i++; }
    if (i) snprintf(s, 16, "%.1f %c", x, unit[i]);
    else snprintf(s, 16, "%.4g", x);
    return s;
}

static void line(Buf *b, const char *what, const char *fmt, ...) PRINTF(3, 4);
static void line(Buf *b, const char *what, const char *fmt, ...)
{
    char *s = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&s, fmt, ap) < 0) die("out of memory");
    va_end(ap);
    buf_printf(b, "%-22s%s\n", what, s);
    free(s);
}

static size_t act_size(void) { return strcmp(opt.dtype, "fp32") ? 2 : sizeof(float); }

static void text_model(const Plan *p, Buf *b)
{
    const Config *c = &p->cfg;
    char h[16];
    int64_t n[PG_COUNT];
    plan_groups(c, n);
    char windows[48] = "";
    if (c->window[0]) snprintf(windows, sizeof windows, ", windows %s", c->window);
    line(b, "model", "%sdepth %d, width %d, %d heads of %d, T %d%s, vocabulary %d (stored %d)",
         c->window[0] ? "" : "llama, ", c->L, c->C, c->H, head_size(c), c->T, windows, c->V, c->Vp);
    if (c->llama.E)
        line(b, "experts", "%d, %d of them for a token: %" PRId64 " parameters active",
             c->llama.E, c->llama.top, config_active_params(c));
    line(b, "parameters", "%" PRId64 " (%s)", p->params, human((double)p->params, h));
    if (p->lora_params)
        line(b, "adapter", "%s: %" PRId64 " parameters (%s) for %d linear maps; the rest is frozen",
             opt.lora, p->lora_params, human((double)p->lora_params, h), p->lora_maps);
    for (int g = 0; g < PG_COUNT; g++) {
        const OptimGroup *o = &p->group[g];
        if (p->lora_params) n[g] = g == PG_MATRIX ? p->lora_params : 0;
        if (!n[g]) continue;
        char s[64] = "", wd[48];
        snprintf(wd, sizeof wd, "weight decay %.6g", g == PG_MATRIX ? p->os.weight_decay : o->wd);
        if (g != PG_MATRIX || p->os.adamw)
            snprintf(s, sizeof s, "AdamW, betas %g %g, ", o->beta1, o->beta2);
        else snprintf(s, sizeof s, "Muon, ");
        buf_printf(b, "  %-20s%-12" PRId64 "rate %.6g, %s%s\n", group_name[g], n[g], o->lr, s, wd);
    }
    line(b, "scaling parameters", "%" PRId64, p->a.scaling_params);
}

static void text_work(const Plan *p, Buf *b)
{
    const AutoSizes *a = &p->a;
    char h[6][16];
    char ranks[32] = "";
    if (opt.ranks > 1) snprintf(ranks, sizeof ranks, "%d ranks x ", opt.ranks);
    line(b, "batch", "%" PRId64 " tokens = %" PRId64 " rows = %s%" PRId64 " x %d rows of %d",
         a->total_batch, p->rows, ranks, p->accum, p->B, p->T);
    if (p->open) {
        line(b, "steps", "as many as fit into %g hours, planned from the speed of the first ones",
             opt.hours);
    } else {
        line(b, "steps", "%" PRId64, a->steps);
        line(b, "tokens", "%" PRId64 " (%.4g per scaling parameter)", a->total_tokens,
             (double)a->total_tokens / (double)a->scaling_params);
    }
    line(b, "work", "%.0f FLOPs per token, %s per step", a->flops_per_token,
         human(a->flops_per_token * (double)a->total_batch, h[0]));
    if (!p->open)
        line(b, "  in all", "%s FLOPs", human(a->flops_per_token * (double)a->total_tokens, h[1]));
    line(b, "  counted", "per step%s: forward %s, backward %s, optimizer %s FLOPs",
         opt.ranks > 1 ? " of a rank" : "", human(p->flops_fwd * (double)p->accum, h[0]),
         human(p->flops_bwd * (double)p->accum, h[1]),
         human(p->flops_opt, h[2]));
    line(b, opt.ranks > 1 ? "memory of a rank" : "memory", "%sB: weights %sB, gradients %sB, optimizer %sB, activations %sB, program %sB",
         human(p->mem_total, h[0]), human(p->mem_weights, h[1]), human(p->mem_grads, h[2]),
         human(p->mem_optim, h[3]), human(p->mem_acts, h[4]), human(p->mem_program, h[5]));
    line(b, "  to sample", "%sB of keys and values for %d positions",
         human(config_cache_bytes(&p->cfg, 1, p->cfg.T, act_size()), h[0]), p->cfg.T);
}

static void text_schedule(const Plan *p, Buf *b)
{
    int64_t n = p->a.steps, last = -1;
    if (p->open) return;
    int64_t at[] = { 0, opt.warmup - 1, n / 4, n / 2, n - n / 4, n - 1 };
    if (p->os.adamw) line(b, "rates", "%s; at step, multiplier:", opt.schedule);
    else
        line(b, "rates", "%s, batch scale %.6g; at step, multiplier, Muon momentum, weight decay:",
             opt.schedule, p->a.batch_lr_scale);
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        if (at[i] <= last || at[i] >= n) continue;
        last = at[i];
        SchedAt s = sched_at(&p->sched, last);
        buf_printf(b, "  %-20" PRId64 "%-10.4g", last + 1, s.lr);
        if (!p->os.adamw) buf_printf(b, "%-10.4g%.4g", s.momentum, s.weight_decay);
        buf_char(b, '\n');
    }
}

void plan_text(const Plan *p, uint64_t data_rows, Buf *b)
{
    text_model(p, b);
    text_work(p, b);
    text_schedule(p, b);
    if (data_rows)
        line(b, "data", "%" PRIu64 " rows = %" PRIu64 " tokens", data_rows,
             data_rows * (uint64_t)p->T);
    if (data_rows && !p->open)
        line(b, "  epochs", "%.4g", (double)p->a.steps * (double)p->rows / (double)data_rows);
}

static void num(Buf *b, const char *key, double x)
{
    buf_printf(b, ", \"%s\": ", key);
    json_num(b, x);
}

void plan_json(const Plan *p, uint64_t data_rows, Buf *b)
{
    const AutoSizes *a = &p->a;
    int64_t n[PG_COUNT];
    plan_groups(&p->cfg, n);
    Buf cfg = {0};
    config_json(&p->cfg, &cfg);
    while (cfg.n && cfg.s[cfg.n - 1] == '\n') cfg.n--;
    buf_printf(b,
               "\"model\": %.*s, \"params\": %" PRId64 ", \"scaling_params\": %" PRId64
               ", \"groups\": {",
               (int)cfg.n, cfg.s, p->params, a->scaling_params);
    buf_free(&cfg);
    for (int g = 0, some = 0; g < PG_COUNT; g++) {
        if (!n[g]) continue;
        buf_printf(b, "%s\"%s\": {\"params\": %" PRId64, some++ ? ", " : "", group_name[g], n[g]);
        num(b, "lr", p->group[g].lr);
        num(b, "weight_decay", g == PG_MATRIX ? p->os.weight_decay : p->group[g].wd);
        buf_char(b, '}');
    }
    buf_str(b, "}");
    if (p->lora_params) num(b, "adapter_params", (double)p->lora_params);
    num(b, "active_params", (double)config_active_params(&p->cfg));
    num(b, "steps", p->open ? NAN : (double)a->steps);
    buf_printf(b, ", \"total_batch\": %" PRId64, a->total_batch);
    num(b, "total_tokens", p->open ? NAN : (double)a->total_tokens);
    buf_printf(b, ", \"device_batch\": %d, \"accumulation\": %" PRId64 ", \"ranks\": %d", p->B,
               p->accum, opt.ranks);
    num(b, "batch_lr_scale", a->batch_lr_scale);
    num(b, "flops_per_token", a->flops_per_token);
    num(b, "flops_step", p->flops_opt + (double)(p->accum * opt.ranks) * (p->flops_fwd + p->flops_bwd));
    num(b, "bytes", p->mem_total);
    num(b, "bytes_weights", p->mem_weights);
    num(b, "bytes_gradients", p->mem_grads);
    num(b, "bytes_optimizer", p->mem_optim);
    num(b, "bytes_activations", p->mem_acts);
    num(b, "bytes_program", p->mem_program);
    num(b, "bytes_cache", config_cache_bytes(&p->cfg, 1, p->cfg.T, act_size()));
    if (data_rows) buf_printf(b, ", \"data_rows\": %" PRIu64, data_rows);
}
