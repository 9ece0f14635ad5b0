/* ckpt.c -- what a model directory holds: writing and reading its files; see ckpt.h. */
#include "gpt/ckpt.h"
#include "gpt/ckpt_dir.h"
#include "gpt/ckpt_lora.h"
#include "gpt/ckpt_optim.h"
#include "gpt/safetensors.h"
#include "gpt/weights.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_MAX ((size_t)1 << 26)  /* bytes of config.json or state.json */

/* ---- writing */

void ckpt_copy_out(StWriter *w, const Ops *ops, Store from, int64_t n, real *chunk)
{
    for (int64_t i = 0; i < n; i += CKPT_CHUNK) {
        int64_t k = n - i < CKPT_CHUNK ? n - i : CKPT_CHUNK;
        ops->load(chunk, store_at(from, i), k);
        stw_data(w, chunk, k);
    }
    (void)ckpt_step();              /* a place for a test to kill us, between two tensors */
}

void ckpt_add_kept(StWriter *w, const Param *p, const char *name, int ndim, const int64_t *dim)
{
    if (p->keep == KEEP_HALF) stw_narrow(w, NARROW_BF16);
    stw_add(w, name, ndim, dim);
    if (p->keep == KEEP_HALF) stw_narrow(w, NARROW_F32);
}

/* Of the weights, or of their mean, which is reals. */
static StWriter *model_writer(const Model *m, int mean)
{
    StWriter *w = stw_new();
    stw_hash(w);
    stw_meta(w, "format", "pt");
    if (m->merged) stw_meta(w, "merged_adapters", m->merged);
    if (m->cfg.stored != NARROW_F32) stw_narrow(w, m->cfg.stored);
    for (int i = 0; i < m->nparam; i++) {
        const Param *p = &m->param[i];
        int64_t dim[2] = { p->rows, p->cols };
        if (mean || m->cfg.stored != NARROW_F32) stw_add(w, p->name, p->ndim, dim);
        else ckpt_add_kept(w, p, p->name, p->ndim, dim);
    }
    return w;
}

/* The parameters of m, or their mean. Frees w. */
static void write_tensors(Commit *c, int file, StWriter *w, const Model *m, const real *mean)
{
    int fd = commit_create(c, file);
    if (fd < 0) {
        stw_discard(w);
        return;
    }
    real *chunk = xreallocarray(NULL, CKPT_CHUNK, sizeof *chunk);
    stw_begin_fd(w, fd);
    for (int i = 0; i < m->nparam; i++) {
        const Param *p = &m->param[i];
        ckpt_copy_out(w, m->ops, mean ? store_real((real *)mean + p->off) : var_weights(&p->var),
                      p->n, chunk);
    }
    commit_close(c, fd, file, stw_end(w));
    free(chunk);
}

static int write_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return errno;
        p += k;
        n -= (size_t)k;
    }
    return 0;
}

static void write_text(Commit *c, int file, const char *s, size_t n)
{
    int fd = commit_create(c, file);
    if (fd >= 0) commit_close(c, fd, file, write_all(fd, s, n));
}

typedef struct Texts { Buf config, state, clock; const Buf *tok; } Texts;

static void texts_free(Texts *t)
{
    buf_free(&t->config);
    buf_free(&t->state);
    buf_free(&t->clock);
}

/* What a checkpoint holds. */
typedef struct Kind { const Model *m; StWriter *weights; int file, config; } Kind;

/* Is it so at any rank? */
static int any(const Optim *o, int bad)
{
    double x = bad != 0;
    if (o) o->comm->host->sum(&x, 1, COMM_F64);
    return x > 0;
}

static int save(Commit *c, const Kind *k, const Optim *o, const Texts *t)
{
    const real *ema = o ? o->ema : NULL;
    StWriter *wo = o ? optim_writer(o) : NULL, *we = ema ? model_writer(k->m, 1) : NULL;
    unsigned other = k->file == F_MODEL ? 1u << F_ADAPTER | 1u << F_ADAPTER_CONFIG : 0;
    uint64_t ranks = o ? (uint64_t)o->comm->ranks : 1;
    commit_room(c, stw_size(k->weights) + (o ? ranks * stw_size(wo) : 0) +
                       (ema ? stw_size(we) : 0) + t->config.n + (t->tok ? t->tok->n : 0) +
                       t->state.n + t->clock.n);
    write_tensors(c, k->file, k->weights, k->m, NULL);
    if (o) optim_write(c, wo, o);
    if (ema) write_tensors(c, F_EMA, we, k->m, ema);
    write_text(c, k->config, t->config.s, t->config.n);
    if (t->tok) write_text(c, F_TOK, t->tok->s, t->tok->n);
    if (t->state.n) write_text(c, F_STATE, t->state.s, t->state.n);
    if (t->clock.n) write_text(c, F_CLOCK, t->clock.s, t->clock.n);
    commit_ranks(c, (int)ranks);
    if (any(o, c->failed)) c->failed = true;            /* all have written */
    return commit_end(c, (o ? 0 : 1u << F_OPTIM) | (ema ? 0 : 1u << F_EMA) | other |
                             (t->state.n ? 0 : 1u << F_STATE) | (t->clock.n ? 0 : 1u << F_CLOCK));
}

/* What another rank than the first does meanwhile. */
static int save_part(const char *dir, const Optim *o)
{
    Commit c;
    if (any(o, 0)) return -1;                           /* the first could not begin */
    int bad = commit_join(&c, dir);
    if (!bad) optim_write(&c, optim_writer(o), o);
    if (any(o, bad || c.failed)) c.failed = true;
    if (!bad) commit_leave(&c);
    return any(o, 0) ? -1 : 0;
}

static int save_kind(const char *dir, const Kind *k, const Optim *o, Texts *t,
                     const char *state_json, const char *clock_json)
{
    Commit c;
    int r = commit_begin(&c, dir);
    if (state_json) buf_printf(&t->state, "%s\n", state_json);
    if (clock_json) buf_printf(&t->clock, "%s\n", clock_json);
    any(o, r);
    if (!r) {
        r = save(&c, k, o, t);
        any(o, r);
    } else {
        stw_discard(k->weights);
    }
    texts_free(t);
    return r;
}

int ckpt_save(const char *dir, const Model *m, const Optim *o, const Buf *tok,
              const char *state_json, const char *clock_json)
{
    if (o && o->comm->rank) return save_part(dir, o);
    Texts t = { .tok = tok };
    Kind k = { m, model_writer(m, 0), F_MODEL, F_CONFIG };
    config_json(&m->cfg, &t.config);
    return save_kind(dir, &k, o, &t, state_json, clock_json);
}

int ckpt_save_lora(const char *dir, const Lora *l, const char *base, uint64_t base_hash,
                   const Optim *o, const char *state_json, const char *clock_json)
{
    if (o && o->comm->rank) return save_part(dir, o);
    Texts t = { 0 };
    Kind k = { l->p, model_writer(l->p, 0), F_ADAPTER, F_ADAPTER_CONFIG };
    char *hash = xasprintf("%016" PRIx64, base_hash);
    stw_meta(k.weights, "base", hash);
    lora_config_json(l, base, &t.config);
    free(hash);
    return save_kind(dir, &k, o, &t, state_json, clock_json);
}

/* ---- reading */

static char *need(const char *dir, int file)
{
    char *path = ckpt_path(dir, ckpt_name[file]);
    if (!path) die("%s/%s: No such file or directory", dir, ckpt_name[file]);
    return path;
}

/* The path of a file as other programs have it, if ours is not there; else of ours. */
static char *ours_or(const char *dir, int file, const char *other)
{
    char *path = ckpt_path(dir, ckpt_name[file]);
    if (!path) path = ckpt_path(dir, other);
    return path ? path : need(dir, file);
}

int ckpt_exists(const char *dir)
{
    char *path = ckpt_path(dir, ckpt_name[F_MODEL]);
    free(path);
    return path != NULL;
}

int ckpt_is_lora(const char *dir)
{
    char *path = ckpt_path(dir, ckpt_name[F_ADAPTER]);
    free(path);
    return path != NULL;
}

/* The text stays in the arena: the tree points into it. */
static Json *load_json(const char *path, Arena *a)
{
    Buf b = { 0 };
    const char *err;
    size_t at;
    read_file(path, &b, TEXT_MAX);
    Json *j = json_parse(a, arena_strndup(a, b.s ? b.s : "", b.n), b.n, &err, &at);
    if (!j) die("%s: not valid JSON: %s, byte %zu", path, err, at);
    buf_free(&b);
    return j;
}

Config config_file(const char *path)
{
    Arena a = { 0 };
    Config c;
    const char *bad = config_parse(&c, load_json(path, &a));
    if (bad) die("%s: %s", path, bad);
    arena_free(&a);
    return c;
}

static Config load_config(const char *dir)
{
    char *path = need(dir, F_CONFIG);
    Config c = config_file(path);
    free(path);
    return c;
}

Config ckpt_config(const char *dir)
{
    int s = snapshot_begin(dir);
    Config c = load_config(dir);
    snapshot_end(s);
    return c;
}

Json *ckpt_json(const char *dir, const char *name, Arena *a)
{
    int s = snapshot_begin(dir);
    char *path = ckpt_path(dir, name);
    Json *j = path ? load_json(path, a) : NULL;
    if (j && j->kind != J_OBJ) die("%s: not a JSON object", path);
    free(path);
    snapshot_end(s);
    return j;
}

Json *ckpt_state(const char *dir, Arena *a) { return ckpt_json(dir, ckpt_name[F_STATE], a); }
Json *ckpt_clock(const char *dir, Arena *a) { return ckpt_json(dir, ckpt_name[F_CLOCK], a); }

char *ckpt_tok_path(const char *dir) { return ours_or(dir, F_TOK, "tokenizer.json"); }

Tok *ckpt_tok(const char *dir)
{
    int s = snapshot_begin(dir);
    char *path = ckpt_tok_path(dir);
    Tok *t = tok_load(path);
    free(path);
    snapshot_end(s);
    return t;
}

static void put_shape(Buf *b, int ndim, const int64_t *dim)
{
    buf_char(b, '[');
    for (int i = 0; i < ndim; i++) buf_printf(b, "%s%lld", i ? "," : "", (long long)dim[i]);
    buf_char(b, ']');
}

/* The tensor of that name, or death if it is not there, has another shape or is not numbers. */
static const StTensor *find(const StFile *f, const char *path, const char *name, int ndim,
                            const int64_t *dim)
{
    const StTensor *t = st_find(f, name);
    if (!t) die("%s: no tensor %s", path, name);
    if (t->ndim != ndim || memcmp(t->dim, dim, (size_t)ndim * sizeof *dim)) {
        Buf b = { 0 };
        buf_printf(&b, "%s: tensor %s: its shape is ", path, name);
        put_shape(&b, t->ndim, t->dim);
        buf_str(&b, ", the configuration asks for ");
        put_shape(&b, ndim, dim);
        die("%s", b.s);
    }
    ckpt_need_reals(t, path);
    return t;
}

void ckpt_need_reals(const StTensor *t, const char *path)
{
    if (!st_is_real(t) || t->dtype == ST_I32)       /* integers: a quantized model's */
        die("%s: tensor %s: numbers of type %s", path, t->name, t->dtype_name);
}

void ckpt_copy_in(const StFile *f, const StTensor *t, int64_t first, int64_t n, const Ops *ops,
                  Store to, real *chunk)
{
    for (int64_t i = 0; i < n; i += CKPT_CHUNK) {
        int64_t k = n - i < CKPT_CHUNK ? n - i : CKPT_CHUNK;
        st_read_at(f, t, first + i, k, chunk);
        ops->store(store_at(to, i), chunk, k);
        ops->sync();                /* before chunk is used again */
    }
}

void ckpt_read(const StFile *f, const char *path, const Param *p, const Ops *ops, Store to,
               real *chunk)
{
    int64_t dim[2] = { p->rows, p->cols };
    const StTensor *t = find(f, path, p->name, p->ndim, dim);
    ckpt_copy_in(f, t, 0, t->n, ops, to, chunk);
}

/* A configuration is believed only as far as the file is long, before memory is asked for. */
static void check_size(const Weights *w, const Config *c)
{
    int64_t have = weights_elements(w), want = config_params(c, -1);
    if (have < want)
        die("%s: holds %lld numbers, config.json asks for %lld", w->name, (long long)have,
            (long long)want);
}

/* A tied model's files may have the embedding a second time, under the head's name. */
static bool known(const Model *m, const char *name)
{
    return model_find(m, name) || (m->cfg.llama.tied && !strcmp(name, "lm_head.weight"));
}

static void warn_extra(const Weights *w, const Model *m)
{
    int extra = 0;
    for (int i = 0; i < w->n; i++) {
        for (int k = 0; k < st_count(w->file[i].f); k++) {
            const char *name = st_at(w->file[i].f, k)->name;
            if (!known(m, name) && extra++ < 5)
                warn("%s: tensor %s: not part of this model, ignored", w->file[i].path, name);
        }
    }
    if (extra > 5) warn("%s: %d more such tensors", w->name, extra - 5);
}

/* Into m, or into a mean. */
static void read_weights(const Weights *w, const Model *m, real *mean)
{
    real *chunk = xreallocarray(NULL, CKPT_CHUNK, sizeof *chunk);
    for (int i = 0; i < m->nparam; i++) {
        const Param *p = &m->param[i];
        int k;
        if (!weights_find(w, p->name, &k)) die("%s: no tensor %s", w->name, p->name);
        ckpt_read(w->file[k].f, w->file[k].path, p, m->ops,
                  mean ? store_real(mean + p->off) : var_weights(&p->var), chunk);
    }
    warn_extra(w, m);
    free(chunk);
}

/* The adapters that went into these weights, as their file says. */
static char *merged_into(const Weights *w)
{
    const Json *j = json_get(st_meta(w->file[0].f), "merged_adapters");
    return j && j->kind == J_STR && !memchr(j->s, 0, j->len) ? xstrdup(j->s) : NULL;
}

Model *ckpt_model(const char *dir, const Ops *ops, int how)
{
    int s = snapshot_begin(dir);
    Config c = load_config(dir);
    char *path = how & CKPT_EMA ? need(dir, F_EMA) : ours_or(dir, F_MODEL, WEIGHTS_INDEX);
    size_t n = strlen(path), end = strlen(WEIGHTS_INDEX);
    bool index = n > end && !strcmp(path + n - end, WEIGHTS_INDEX);
    Weights *w = index ? weights_index(path) : weights_file(path);
    snapshot_end(s);
    check_size(w, &c);
    Model *m = model_new(ops, &c, how & (CKPT_TRAIN | CKPT_MASTERS));
    read_weights(w, m, NULL);
    m->merged = merged_into(w);
    weights_close(w);
    free(path);
    return m;
}

void ckpt_optim(const char *dir, Optim *o)
{
    int s = snapshot_begin(dir);
    OptimFiles *v = optim_open(dir);
    char *ema = o->ema ? need(dir, F_EMA) : NULL;
    Weights *e = ema ? weights_file(ema) : NULL;
    snapshot_end(s);
    if (ema) {
        read_weights(e, o->m, o->ema);
        weights_close(e);
        free(ema);
    }
    optim_read(v, o);
}
