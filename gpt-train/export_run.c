/* export_run.c -- see export_run.h. A directory is written as a checkpoint is, a file as a
 * temporary one that is renamed: there is nothing under the final name before all is done. */
#include "export_run.h"
#include "gpt/ends.h"
#include "gpt/export.h"
#include "gpt/torchfile.h"
#include "options.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum Shape { SAFETENSORS, GGUF, NANOCHAT };
static const struct Format { const char *name; enum Shape shape; Narrow type; } formats[] = {
    { "fp32", SAFETENSORS, NARROW_F32 },    { "bf16", SAFETENSORS, NARROW_BF16 },
    { "fp16", SAFETENSORS, NARROW_F16 },    { "gguf-f32", GGUF, NARROW_F32 },
    { "gguf-bf16", GGUF, NARROW_BF16 },     { "gguf-f16", GGUF, NARROW_F16 },
    { "gguf-q8_0", GGUF, NARROW_Q8_0 },     { "nanochat", NANOCHAT, NARROW_F32 },
};
enum { FORMATS = sizeof formats / sizeof *formats };

static const struct Format *format(void)
{
    for (int i = 0; i < FORMATS; i++)
        if (!strcmp(opt.export, formats[i].name)) return &formats[i];
    Buf known = {0};
    for (int i = 0; i < FORMATS; i++) buf_printf(&known, "%s%s", i ? ", " : "", formats[i].name);
    die_usage("--export %s: known are %s", opt.export, known.s);
}

static void check_output(enum Shape shape)
{
    struct stat to, from;
    int there = !stat(opt.out, &to);
    if (shape == GGUF) {
        if (there && S_ISDIR(to.st_mode)) die("%s: is a directory, and GGUF is one file", opt.out);
        if (there && S_ISREG(to.st_mode) && !opt.force)
            die("%s: is there already: overwrite it with --force", opt.out);
        return;
    }
    if (there && !stat(opt.init, &from) && to.st_dev == from.st_dev && to.st_ino == from.st_ino)
        die("%s: is what is to be exported: give -o another name", opt.out);
    if (shape == SAFETENSORS && ckpt_exists(opt.out) && !opt.force)
        die("%s: holds a model already: overwrite it with --force", opt.out);
}

/* ---- nanochat's own files ------------------------------------------------------ */

static int64_t step_of(const char *dir)
{
    Arena a = {0};
    int64_t step = 0;
    const Json *state = ckpt_state(dir, &a);
    if (!json_int(json_get(state, "step"), &step) || step < 0) step = 0;
    arena_free(&a);
    return step;
}

static Out *open_in(const char *name)
{
    struct stat st;
    char *path = xasprintf("%s/%s", opt.out, name);
    if (!stat(path, &st) && !opt.force) die("%s: is there already: overwrite it with --force", path);
    Out *o = out_open(path, 0);
    free(path);
    return o;
}

static void make_dir(const char *path)
{
    if (mkdir(path, 0777) && errno != EEXIST) die("%s:", path);
}

/* The description goes last: without it the rest is no checkpoint. */
static void write_nanochat(const Model *m, const Tok *t)
{
    int64_t step = step_of(opt.init);
    char *model = xasprintf("model_%06" PRId64 ".pt", step);
    char *meta = xasprintf("meta_%06" PRId64 ".json", step);
    char *sub = xasprintf("%s/tokenizer", opt.out);
    if (m->cfg.family != &nanochat_family)
        die("%s: not of the nanochat family: its programs know no other", opt.init);
    make_dir(opt.out), make_dir(sub);
    Out *o[4] = { open_in(model), open_in("tokenizer/tokenizer.pkl"),
                  open_in("tokenizer/token_bytes.pt"), open_in(meta) };
    torch_model(m, o[0]);
    torch_tokenizer(t, opt.init, o[1]);
    torch_i32(tok_byte_lengths(t), tok_vocab(t), o[2]);
    Buf b = {0};
    config_json(&m->cfg, &b);
    const char *shape = strchr(b.s, ',');           /* behind the family, which nanochat has no key for */
    out_printf(o[3], "{\"step\": %" PRId64 ", \"model_config\": {%s", step, shape + 2);
    out_str(o[3], "}\n");
    for (int i = 0; i < 4; i++) out_close(o[i]);
    buf_free(&b);
    free(model), free(meta), free(sub);
}

static void check_numbers(const Model *m, Narrow type)
{
    for (int i = 0; i < m->nparam && type != NARROW_F32; i++) {
        const Param *p = &m->param[i];
        real *x = xreallocarray(NULL, (size_t)p->n, sizeof *x);
        model_get(m, p, x);
        const char *bad = narrow_fits(type, x, p->n);
        if (bad) die("%s: tensor %s %s", opt.init, p->name, bad);
        free(x);
    }
}

static void write_dir(Model *m, const Tok *t, Narrow type, int bos, const unsigned char *stop)
{
    Buf tok = {0};
    check_numbers(m, type);
    tok_print(t, &tok);
    m->cfg.stored = type;
    if (ckpt_save(opt.out, m, NULL, &tok, NULL, NULL)) exit(1);     /* it told why */
    if (m->cfg.family == &llama_family) ends_write(opt.out, &m->cfg, t, bos, stop);
    buf_free(&tok);
}

void export_run(void)
{
    const struct Format *f = format();
    check_output(f->shape);
    Model *m = ckpt_model(opt.init, ops_open("cpu", "fp32", opt.threads), 0);
    Tok *t = ckpt_tok(opt.init);
    int have = tok_vocab(t), bos = ends_bos(opt.init, t, &m->cfg);
    if (have > m->cfg.V)
        die("%s: the tokenizer has %d tokens, but vocab_size is %d", opt.init, have, m->cfg.V);
    unsigned char *stop = xcalloc((size_t)m->cfg.V, 1);
    ends_stops(opt.init, t, m->cfg.V, stop);
    if (f->shape == SAFETENSORS) {
        write_dir(m, t, f->type, bos, stop);
    } else if (f->shape == NANOCHAT) {
        write_nanochat(m, t);
    } else {
        Out *o = out_open(opt.out, OUT_BINARY);
        export_gguf(m, t, f->type, bos, stop, opt.init, o);
        out_close(o);
    }
    free(stop);
    tok_free(t);
    model_free(m);
}
