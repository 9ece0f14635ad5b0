/* state.json: written from a RunState, read back to the last bit. */
#include "options.h"
#include "run.h"
#include <inttypes.h>
#include <math.h>

static void num(Buf *b, const char *key, double x)
{
    buf_printf(b, "  \"%s\": ", key);
    json_num(b, x);
    buf_str(b, ",\n");
}

void state_json(const Run *r, Buf *b)
{
    const RunState *s = &r->st;
    uint64_t in;
    buf_printf(b,
               "{\n  \"version\": 1,\n  \"step\": %" PRId64 ",\n  \"rows_taken\": %" PRIu64
               ",\n  \"epoch\": %" PRIu64 ",\n  \"skipped_steps\": %" PRId64
               ",\n  \"nonfinite_steps\": %" PRId64 ",\n  \"targets\": %" PRIu64 ",\n",
               s->step, s->pos, data_epoch(r->train, s->pos, &in), s->skipped,
               s->nonfinite, s->targets);
    num(b, "loss_ema", s->loss_ema);
    num(b, "loss_mean", s->loss_mean);
    num(b, "loss_var", s->loss_var);
    num(b, "val_bpb", s->val_bpb);
    num(b, "best_val_bpb", s->best_bpb);
    buf_str(b, "  \"data\": ");
    state_data_json(r->train, b);
    buf_str(b, ",\n  \"options\": ");
    options_json(b);
    buf_str(b, "\n}");
}

static int64_t get_int(const Json *j, const char *key, const char *file)
{
    int64_t x;
    if (!json_int(json_get(j, key), &x) || x < 0)
        die("%s: '%s' is missing or not a count", file, key);
    return x;
}

static double get_num(const Json *j, const char *key, const char *file)
{
    const Json *v = json_get(j, key);
    if (v && v->kind == J_NULL) return NAN;
    if (!v || v->kind != J_NUM) die("%s: '%s' is missing or not a number", file, key);
    return v->num;
}

void state_restore(Run *r, const Json *j, const char *file)
{
    int64_t version = get_int(j, "version", file);
    if (version != 1) die("%s: version %" PRId64 "; this program reads 1", file, version);
    r->st = (RunState){
        .step = get_int(j, "step", file),
        .pos = (uint64_t)get_int(j, "rows_taken", file),
        .skipped = get_int(j, "skipped_steps", file),
        .nonfinite = get_int(j, "nonfinite_steps", file),
        .targets = (uint64_t)get_int(j, "targets", file),
        .loss_ema = get_num(j, "loss_ema", file),
        .loss_mean = get_num(j, "loss_mean", file),
        .loss_var = get_num(j, "loss_var", file),
        .val_bpb = get_num(j, "val_bpb", file),
        .best_bpb = get_num(j, "best_val_bpb", file),
    };
    if (r->st.skipped > r->st.step || r->st.nonfinite > r->st.step - r->st.skipped)
        die("%s: %" PRId64 " and %" PRId64 " of %" PRId64 " steps skipped", file, r->st.skipped,
            r->st.nonfinite, r->st.step);
}
