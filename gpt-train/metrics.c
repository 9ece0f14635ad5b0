/* Metrics: JSON Lines, one record per step. */
#include "options.h"
#include "rl.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static void num(Buf *b, const char *key, double x)
{
    buf_printf(b, ", \"%s\": ", key);
    json_num(b, x);
}

static void end_line(Run *r)
{
    buf_str(&r->line, "}\n");
    mlog_write(&r->log, r->line.s, r->line.n);
}

void metrics_config(Run *r)
{
    Buf *b = &r->line;
    buf_clear(b);
    buf_str(b, "{\"config\": {");
    if (r->rl) rl_plan_json(r, b);
    else plan_json(&r->plan, r->train->head.rows, b);
    buf_printf(b, ", \"start_step\": %" PRId64 ", \"tokenizer\": \"%016" PRIx64 "\", \"device\": ",
               r->st.step, tok_hash(r->tok));
    json_str(b, r->ops->name, strlen(r->ops->name));
    buf_printf(b, ", \"dtype\": \"%s\", \"threads\": %d, \"options\": ", r->ops->dtype,
               opt.threads);
    options_json(b);
    buf_str(b, ", \"version\": ");
    json_str(b, opt_version(), strlen(opt_version()));
    buf_char(b, '}');
    end_line(r);
}

static void add_val(Buf *b, const Bpb *v)
{
    num(b, "val_bpb", bpb_value(v));
    num(b, "val_loss", bpb_loss(v));
}

/* Which rows the step took, numbered over all shards. */
static void add_rows(Buf *b, const Run *r)
{
    uint64_t n = (uint64_t)r->plan.rows;
    buf_str(b, ", \"rows\": [");
    for (uint64_t i = 0; i < n; i++)
        buf_printf(b, "%s%" PRIu64, i ? ", " : "", data_row(r->train, r->st.pos - n + i));
    buf_char(b, ']');
}

void metrics_step(Run *r, const StepLog *s, const Bpb *val)
{
    Buf *b = &r->line;
    buf_clear(b);
    buf_printf(b, "{\"step\": %" PRId64, r->st.step);
    num(b, "epoch", data_epochs(r->train, r->st.pos));
    buf_printf(b, ", \"tokens\": %" PRIu64, r->st.pos * (uint64_t)r->plan.T);
    num(b, "loss", s->loss);
    if (r->m->aux) num(b, "aux_loss", s->aux_loss);
    num(b, "loss_z", s->loss_z);
    num(b, "lr", s->lr);
    num(b, "lr_mult", s->lr_mult);
    num(b, "momentum", s->momentum);
    num(b, "weight_decay", s->weight_decay);
    num(b, "grad_norm", s->grad_norm);
    double rate = s->seconds > 0 ? (double)s->tokens / s->seconds : 0;
    buf_printf(b, ", \"tok_per_s\": %.1f, \"flops_per_s\": %.4g", rate,
               rate * r->plan.a.flops_per_token);
    if (opt.peak_flops > 0)
        buf_printf(b, ", \"mfu\": %.4f",
                   rate * r->plan.a.flops_per_token / (opt.peak_flops * opt.ranks));
    buf_printf(b, ", \"seconds\": %.3f, \"dt\": %.6f", clock_seconds(r), s->seconds);
    if (opt.log_rows) add_rows(b, r);
    if (r->st.skipped) buf_printf(b, ", \"skipped_steps\": %" PRId64, r->st.skipped);
    if (r->st.nonfinite) buf_printf(b, ", \"nonfinite_steps\": %" PRId64, r->st.nonfinite);
    if (val) add_val(b, val);
    end_line(r);
}

void metrics_eval(Run *r, const Bpb *val)
{
    buf_clear(&r->line);
    buf_printf(&r->line, "{\"step\": %" PRId64, r->st.step);
    add_val(&r->line, val);
    end_line(r);
}

void metrics_plan(Run *r)
{
    buf_clear(&r->line);
    buf_printf(&r->line, "{\"step\": %" PRId64 ", \"steps\": %" PRId64, r->st.step,
               r->plan.a.steps);
    end_line(r);
}

void metrics_sync(Run *r) { mlog_sync(&r->log); }

void metrics_sample(Run *r, const char *prompt, const char *text, size_t n)
{
    Buf *b = &r->line;
    buf_clear(b);
    buf_printf(b, "{\"step\": %" PRId64 ", \"prompt\": ", r->st.step);
    json_str(b, prompt, strlen(prompt));
    buf_str(b, ", \"sample\": ");
    json_str(b, text, n);
    end_line(r);
}

void metrics_check(Run *r, const Ops *ops, double loss, double grad)
{
    Buf *b = &r->line;
    buf_clear(b);
    buf_printf(b, "{\"step\": %" PRId64 ", \"check\": \"%s %s\"", r->st.step, ops->name,
               ops->dtype);
    num(b, "loss_diff", loss);
    num(b, "grad_diff", grad);
    end_line(r);
}
