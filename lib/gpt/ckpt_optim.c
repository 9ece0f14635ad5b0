#include "gpt/ckpt_optim.h"
#include "gpt/ckpt.h"
#include "gpt/ckpt_lora.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The two moments of p: name and shape of tensor k (0 or 1), and how long one of its rows is. */
static char *moment_name(const Optim *o, const Param *p, int k)
{
    static const char *const what[2][2] = { { "exp_avg", "exp_avg_sq" },
                                            { "momentum_buffer", "second_momentum_buffer" } };
    return xasprintf("state.%s.%s", p->name, what[optim_muon(o->adamw, p)][k]);
}

static int moment_shape(const Optim *o, const Param *p, int k, int64_t dim[2])
{
    bool second = optim_muon(o->adamw, p) && k == 1, rows = p->rows >= p->cols;
    dim[0] = second && !rows ? 1 : p->rows;
    dim[1] = second && rows ? 1 : p->cols;
    return p->ndim;
}

static int64_t row_of(int ndim, const int64_t *dim) { return ndim > 1 ? dim[1] : 1; }

/* ---- writing */

/* What goes into this rank's file of moment k of p: n numbers, or none. */
static Store to_save(const Optim *o, const Param *p, int k, int64_t *n)
{
    int64_t at;
    Store x = optim_moment(o, p, k, &at, n);
    if (!optim_saves(o, p)) *n = 0;
    return x;
}

StWriter *optim_writer(const Optim *o)
{
    StWriter *w = stw_new();
    char s[32];
    stw_hash(w);
    snprintf(s, sizeof s, "%" PRId64, o->t);
    stw_meta(w, "step", s);
    if (o->comm->ranks > 1) {
        snprintf(s, sizeof s, "%d", o->comm->rank);
        stw_meta(w, "rank", s);
        snprintf(s, sizeof s, "%d", o->comm->ranks);
        stw_meta(w, "ranks", s);
    }
    for (int i = 0; i < 2 * o->m->nparam; i++) {
        const Param *p = &o->m->param[i / 2];
        int64_t dim[2], n;
        int ndim = moment_shape(o, p, i % 2, dim);
        to_save(o, p, i % 2, &n);
        if (!n) continue;
        dim[0] = n / row_of(ndim, dim);
        char *name = moment_name(o, p, i % 2);
        ckpt_add_kept(w, p, name, ndim, dim);
        free(name);
    }
    return w;
}

void optim_write(Commit *c, StWriter *w, const Optim *o)
{
    int file = ckpt_optimizer(o->comm->rank), fd = commit_create(c, file);
    if (fd < 0) {
        stw_discard(w);
        return;
    }
    real *chunk = xreallocarray(NULL, CKPT_CHUNK, sizeof *chunk);
    stw_begin_fd(w, fd);
    for (int i = 0; i < 2 * o->m->nparam; i++) {
        int64_t n;
        Store x = to_save(o, &o->m->param[i / 2], i % 2, &n);
        if (n) ckpt_copy_out(w, o->m->ops, x, n, chunk);
    }
    commit_close(c, fd, file, stw_end(w));
    free(chunk);
}

/* ---- reading */

struct OptimFiles { int n; StFile **f; char **path; int64_t step; };

/* A count in the metadata; -1 if there is none. */
static int64_t number(const StFile *f, const char *path, const char *key)
{
    const Json *j = json_get(st_meta(f), key);
    int64_t t = 0;
    if (!j) return -1;
    bool good = j->kind == J_STR && j->len > 0 && j->len < 19;
    for (size_t i = 0; good && i < j->len; i++) {
        good = j->s[i] >= '0' && j->s[i] <= '9';
        t = t * 10 + (j->s[i] - '0');
    }
    if (!good) die("%s: its metadata has no %s that is a number", path, key);
    return t;
}

static void open_file(OptimFiles *v, const char *dir, int rank)
{
    char name[64];
    ckpt_file_name(name, ckpt_optimizer(rank), "");
    char *path = v->path[rank] = ckpt_path(dir, name);
    if (!path) die("%s/%s: No such file or directory", dir, name);
    v->f[rank] = st_open(path);
}

/* Is this rank's file of the checkpoint that the first is of? */
static void check_file(const OptimFiles *v, int rank)
{
    const char *path = v->path[rank];
    int64_t step = number(v->f[rank], path, "step"), r = number(v->f[rank], path, "rank");
    int64_t n = number(v->f[rank], path, "ranks");
    if (step < 0) die("%s: its metadata has no step", path);
    if (step != v->step)
        die("%s: of step %" PRId64 ", but %s is of step %" PRId64, path, step, v->path[0], v->step);
    if (v->n > 1 && (r != rank || n != v->n))
        die("%s: of rank %" PRId64 " of %" PRId64 ", not %d of %d", path, r, n, rank, v->n);
}

OptimFiles *optim_open(const char *dir)
{
    OptimFiles *v = xcalloc(1, sizeof *v);
    v->f = xcalloc(1, sizeof *v->f);
    v->path = xcalloc(1, sizeof *v->path);
    open_file(v, dir, 0);
    int64_t n = number(v->f[0], v->path[0], "ranks");
    if (n == 0 || n >= CKPT_RANKS) die("%s: of %" PRId64 " ranks", v->path[0], n);
    v->n = n < 0 ? 1 : (int)n;
    v->step = number(v->f[0], v->path[0], "step");
    v->f = xreallocarray(v->f, (size_t)v->n, sizeof *v->f);
    v->path = xreallocarray(v->path, (size_t)v->n, sizeof *v->path);
    for (int r = 1; r < v->n; r++) open_file(v, dir, r);
    for (int r = 0; r < v->n; r++) check_file(v, r);
    return v;
}

/* Rows of the moment in this file: NULL, none. */
static const StTensor *part_in(const StFile *f, const char *path, const char *name, int ndim,
                               const int64_t *dim)
{
    const StTensor *t = st_find(f, name);
    if (!t) return NULL;
    if (t->ndim != ndim || (ndim > 1 && t->dim[1] != dim[1]))
        die("%s: tensor %s: its shape is not the configuration's", path, name);
    ckpt_need_reals(t, path);
    return t;
}

/* Of moment k of p what this rank has, whichever files it is in. *used += tensors. */
static void read_moment(const OptimFiles *v, Optim *o, const Param *p, int k, real *chunk, int *used)
{
    int64_t dim[2], at, n, have = 0;
    int ndim = moment_shape(o, p, k, dim);
    int64_t row = row_of(ndim, dim), all = dim[0] * row;
    Store to = optim_moment(o, p, k, &at, &n);
    char *name = moment_name(o, p, k);
    for (int r = 0; r < v->n; r++) {
        const StTensor *t = part_in(v->f[r], v->path[r], name, ndim, dim);
        if (!t) continue;
        int64_t from = have > at ? have : at, end = have + t->n < at + n ? have + t->n : at + n;
        if (from < end)
            ckpt_copy_in(v->f[r], t, from - have, end - from, o->m->ops, store_at(to, from - at),
                         chunk);
        have += t->n;
        ++*used;
    }
    if (!have) die("%s: no tensor %s", v->path[0], name);
    if (have != all)
        die("%s: tensor %s: %" PRId64 " rows in the files of all ranks, the configuration asks for %"
            PRId64, v->path[0], name, have / row, dim[0]);
    free(name);
}

void optim_read(OptimFiles *v, Optim *o)
{
    real *chunk = xreallocarray(NULL, CKPT_CHUNK, sizeof *chunk);
    int used = 0, there = 0;
    for (int i = 0; i < 2 * o->m->nparam; i++)
        read_moment(v, o, &o->m->param[i / 2], i % 2, chunk, &used);
    for (int r = 0; r < v->n; r++) there += st_count(v->f[r]);
    if (there > used) warn("%s: holds tensors that are not used", v->path[0]);
    o->t = v->step;
    for (int r = 0; r < v->n; r++) {
        st_close(v->f[r]);
        free(v->path[r]);
    }
    free(v->f);
    free(v->path);
    free(v);
    free(chunk);
}
