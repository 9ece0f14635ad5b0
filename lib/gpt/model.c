/* model.c -- the parameter block and its table; what families share. */
#include "gpt/model.h"

#include <assert.h>
#include <fnmatch.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/rng.h"
#include "gpt/nn.h"

/* ---- the table ----------------------------------------------------------- */

static char *vname(const char *fmt, va_list ap)
{
    char *s = NULL;
    if (vasprintf(&s, fmt, ap) < 0)
        die("out of memory");
    return s;
}

static int same_stack(const Param *a, const Param *b)
{
    return a->group == PG_MATRIX && b->group == PG_MATRIX && a->rows == b->rows &&
           a->cols == b->cols && a->keep == b->keep;
}

Param *param_add(Model *m, ParamGroup g, int ndim, int rows, int cols, const char *fmt, ...)
{
    if (m->nparam % 64 == 0)
        m->param = xreallocarray(m->param, (size_t)m->nparam + 64, sizeof *m->param);
    Param *p = &m->param[m->nparam++];
    va_list ap;
    va_start(ap, fmt);
    *p = (Param){ .name = vname(fmt, ap), .rows = rows, .cols = cols, .ndim = ndim, .group = g,
                  .keep = ndim > 1 ? KEEP_SPLIT : KEEP_REAL, .n = (int64_t)rows * cols };
    va_end(ap);
    m->n += p->n;
    if (m->n > (int64_t)1 << 50)
        die("a model of more than 2^50 parameters");
    return p;
}

void params_free(Model *m)
{
    for (int i = 0; i < m->nparam; i++)
        free((char *)m->param[i].name);
    free(m->param);
    m->param = NULL;
    m->nparam = 0;
}

static void find_stacks(Model *m)
{
    m->stack = xcalloc((size_t)m->nparam, sizeof *m->stack);
    for (int i = 0; i < m->nparam; i++) {
        const Param *p = &m->param[i];
        if (p->group != PG_MATRIX)
            continue;
        if (m->nstack && i > 0 && same_stack(p - 1, p))
            m->stack[m->nstack - 1].count++;
        else
            m->stack[m->nstack++] = (Stack){ i, 1, p->rows, p->cols, p->off };
    }
}

Param *model_find(const Model *m, const char *name)
{
    for (int i = 0; i < m->nparam; i++)
        if (strcmp(m->param[i].name, name) == 0)
            return &m->param[i];
    return NULL;
}

Var *model_var(Model *m, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *name = vname(fmt, ap);
    va_end(ap);
    Param *p = model_find(m, name);
    if (!p)
        die("internal: no parameter '%s'", name);
    free(name);
    return &p->var;
}

void model_seen(Model *m, const char *name, Var *x)
{
    if (m->on_act)
        m->on_act(m->on_act_arg, name, x);
}

/* ---- the block ----------------------------------------------------------- */

static size_t bytes_of(int64_t n, size_t size)
{
    return size_mul((size_t)n, size);
}

/* How parameters are kept, and where: offsets are multiples of 16 elements, but within a stack
 * matrices follow each other without a gap. */
static void lay_out(Model *m, int how)
{
    int halves = m->ops->act_size == sizeof(uint16_t);
    int64_t end[KEEP_COUNT], n = 0;
    for (int i = 0; i < m->nparam; i++) {
        Keep *k = &m->param[i].keep;
        if (*k == KEEP_HALF && (!(how & MODEL_TRAIN) || how & MODEL_MASTERS)) *k = KEEP_SPLIT;
        if (!halves) *k = KEEP_REAL;
    }
    for (Keep k = 0; k < KEEP_COUNT; k++) {
        for (int i = 0; i < m->nparam; i++) {
            Param *p = &m->param[i];
            if (p->keep != k) continue;
            if (i == 0 || !same_stack(p - 1, p)) n = (n + 15) & ~(int64_t)15;
            p->off = n;
            n += p->n;
        }
        end[k] = k + 1 < KEEP_COUNT ? n = (n + 15) & ~(int64_t)15 : n;
    }
    m->nhalf = end[KEEP_HALF], m->nact = end[KEEP_SPLIT], m->n = end[KEEP_REAL];
}

/* n numbers, or NULL if there are none */
static void *array(const Ops *ops, int64_t n, size_t size)
{
    return n ? ops->alloc(bytes_of(n, size)) : NULL;
}

static Var var_of(const Model *m, const Param *p)
{
    Var x = { .n = p->n, .param = 1 };
    if (p->keep == KEEP_REAL) x.w = m->w + (p->off - m->nact);
    x.v = p->keep != KEEP_REAL ? act_at(m->ops, m->c, p->off) :
          m->ops->act_size == sizeof(real) ? (Act *)x.w : NULL;
    if (p->keep == KEEP_SPLIT) x.lo = m->lo + (p->off - m->nhalf);
    if (m->gh && p->keep == KEEP_HALF) x.dh = m->gh + p->off;
    if (m->g && p->keep != KEEP_HALF) x.dw = m->g + (p->off - m->nhalf);
    return x;
}

void model_arrays(Model *m, int how)
{
    const Ops *ops = m->ops;
    int train = how & MODEL_TRAIN;
    lay_out(m, how);
    find_stacks(m);
    m->w = array(ops, m->n - m->nact, sizeof *m->w);
    m->c = array(ops, m->nact, sizeof(uint16_t));
    m->lo = array(ops, m->nact - m->nhalf, sizeof *m->lo);
    m->g = train ? array(ops, m->n - m->nhalf, sizeof *m->g) : NULL;
    m->gh = train ? array(ops, m->nhalf, sizeof *m->gh) : NULL;
    m->sum = train ? ops->alloc(sizeof *m->sum) : NULL;
    for (int i = 0; i < m->nparam; i++) m->param[i].var = var_of(m, &m->param[i]);
}

int64_t model_section(const Model *m, Keep k, int64_t *n)
{
    int64_t at = k == KEEP_HALF ? 0 : k == KEEP_SPLIT ? m->nhalf : m->nact;
    *n = (k == KEEP_HALF ? m->nhalf : k == KEEP_SPLIT ? m->nact : m->n) - at;
    return at;
}

Store model_weights(const Model *m, Keep k, int64_t *n)
{
    int64_t at = model_section(m, k, n);
    if (*n == 0) return (Store){ 0 };
    if (k == KEEP_REAL) return store_real(m->w);
    return (Store){ .hi = (uint16_t *)(void *)m->c + at, .lo = k == KEEP_SPLIT ? m->lo : NULL };
}

Store model_grads(const Model *m, Keep k, int64_t *n)
{
    int64_t at = model_section(m, k, n);
    if (k == KEEP_HALF) return (Store){ .hi = m->gh };
    return store_real(m->g ? m->g + (at - m->nhalf) : NULL);
}

double model_bytes(const Model *m)
{
    return 2. * (double)m->nhalf + 4. * (double)(m->nact - m->nhalf) +
           (double)sizeof(real) * (double)(m->n - m->nact);
}

double model_grad_bytes(const Model *m)
{
    return 2. * (double)m->nhalf + (double)sizeof(real) * (double)(m->n - m->nhalf);
}

void model_want_aux(Model *m)
{
    if (m->cfg.llama.E && !m->aux) m->aux = m->ops->alloc(bytes_of(m->cfg.L, sizeof *m->aux));
}

Model *model_new(const Ops *ops, const Config *c, int how)
{
    const char *bad = config_check(c);
    if (bad)
        die("model configuration: %s", bad);
    Model *m = xcalloc(1, sizeof *m);
    m->cfg = *c;
    m->ops = ops;
    c->family->params(m);
    model_arrays(m, how);
    if (how & MODEL_TRAIN) model_want_aux(m);
    m->aux_scale = 1;
    c->family->bind(m);
    model_positions(m, c->T);
    return m;
}

void model_free(Model *m)
{
    if (!m)
        return;
    const Ops *o = m->ops;
    if (m->w) o->free(m->w, bytes_of(m->n - m->nact, sizeof *m->w));
    if (m->c) o->free(m->c, bytes_of(m->nact, sizeof(uint16_t)));
    if (m->lo) o->free(m->lo, bytes_of(m->nact - m->nhalf, sizeof *m->lo));
    if (m->g) o->free(m->g, bytes_of(m->n - m->nhalf, sizeof *m->g));
    if (m->gh) o->free(m->gh, bytes_of(m->nhalf, sizeof *m->gh));
    if (m->sum)
        o->free(m->sum, sizeof *m->sum);
    if (m->aux)
        o->free(m->aux, bytes_of(m->cfg.L, sizeof *m->aux));
    if (m->rope) o->free(m->rope, bytes_of(m->rope_T, sizeof(real) * (size_t)head_size(&m->cfg)));
    params_free(m);
    free(m->merged);
    free(m->stack);
    free(m->fam);
    free(m);
}

void model_set(Model *m, const Param *p, const real *host)
{
    m->ops->store(var_weights(&p->var), host, p->n);
}

void model_get(const Model *m, const Param *p, real *host)
{
    m->ops->load(host, var_weights(&p->var), p->n);
}

uint64_t model_hash(const Model *m)
{
    uint64_t all = 0;
    for (int i = 0; i < m->nparam; i++) {
        real *w = xreallocarray(NULL, (size_t)m->param[i].n, sizeof *w);
        model_get(m, &m->param[i], w);
        uint64_t two[2] = { all, xxh3(w, (size_t)m->param[i].n * sizeof *w) };
        all = xxh3(two, sizeof two);
        free(w);
    }
    return all;
}

int model_freeze(Model *m, const char *pattern)
{
    int n = 0;
    for (int i = 0; i < m->nparam; i++) {
        Param *p = &m->param[i];
        if (fnmatch(pattern, p->name, 0)) continue;
        p->frozen = 1;
        p->var.dw = NULL;
        p->var.dh = NULL;
        n++;
    }
    return n;
}

void model_exchange(Model *m, real *w)
{
    for (Keep k = 0; k < KEEP_COUNT; k++) {
        int64_t n, at = model_section(m, k, &n);
        if (n) m->ops->exchange(model_weights(m, k, &n), w + at, n);
    }
}

void model_zero_grad(Model *m)
{
    if (m->g) m->ops->zero(m->g, bytes_of(m->n - m->nhalf, sizeof *m->g));
    if (m->gh) m->ops->zero(m->gh, bytes_of(m->nhalf, sizeof *m->gh));
}

/* The rotary table; angles are computed in double. */
void model_positions(Model *m, int T)
{
    if (T <= m->rope_T)
        return;
    int half = head_size(&m->cfg) / 2;
    size_t row = sizeof(real) * 2 * (size_t)half;
    real *tab = xreallocarray(NULL, (size_t)T, row);
    double *freq = xcalloc((size_t)half, sizeof *freq), by = m->cfg.family->rotary(&m->cfg, freq);
    for (int j = 0; j < half; j++) {
        for (int t = 0; t < T; t++) {
            tab[((size_t)t * (size_t)half + (size_t)j) * 2] = (real)(by * cos(t * freq[j]));
            tab[((size_t)t * (size_t)half + (size_t)j) * 2 + 1] = (real)(by * sin(t * freq[j]));
        }
    }
    free(freq);
    if (m->rope)
        m->ops->free(m->rope, bytes_of(m->rope_T, row));
    m->rope = m->ops->alloc(bytes_of(T, row));
    m->rope_T = T;
    m->ops->put(m->rope, tab, bytes_of(T, row));
    free(tab);
}

/* ---- initial values ------------------------------------------------------- */

enum { INIT_CHUNK = 1 << 16 };

/* Elements [i, i + n) of p. Each chunk has a random stream of its own, so the values depend on the
 * seed and the name alone: not on threads, nor on what other tensors there are. */
static void init_chunk(const Param *p, uint64_t seed, int64_t i, int n, real *out)
{
    Rng r;
    rng_init(&r, seed, xxh3(p->name, strlen(p->name)) + (uint64_t)(i / INIT_CHUNK));
    for (int j = 0; j < n; j++) {
        switch (p->init) {
        case INIT_CONST: out[j] = (real)p->a; break;
        case INIT_NORMAL: out[j] = (real)(p->a * rng_normal(&r)); break;
        case INIT_UNIFORM: out[j] = (real)(p->a + (p->b - p->a) * rng_uniform(&r)); break;
        case INIT_LINEAR:
            out[j] =
                (real)(p->a + (p->b - p->a) * (double)(i + j) / (double)(p->n > 1 ? p->n - 1 : 1));
            break;
        }
    }
}

void model_init(Model *m, uint64_t seed)
{
    enum { CHUNKS = 16 };
    real *buf = xreallocarray(NULL, (size_t)CHUNKS * INIT_CHUNK, sizeof *buf);
    for (int k = 0; k < m->nparam; k++) {
        const Param *p = &m->param[k];
        for (int64_t i = 0; i < p->n; i += (int64_t)CHUNKS * INIT_CHUNK) {
            int64_t left = p->n - i, n = left < CHUNKS * INIT_CHUNK ? left : CHUNKS * INIT_CHUNK;
#pragma omp parallel for schedule(static)
            for (int64_t j = 0; j < n; j += INIT_CHUNK)
                init_chunk(p, seed, i + j, (int)(n - j < INIT_CHUNK ? n - j : INIT_CHUNK), buf + j);
            m->ops->store(store_at(var_weights(&p->var), i), buf, n);
        }
    }
    free(buf);
}

/* ---- forward -------------------------------------------------------------- */

Var *model_forward(Model *m, Tape *t, const int *idx, int B, int T, Cache *cache)
{
    return m->cfg.family->forward(m, t, idx, NULL, B, T, cache);
}

Var *model_forward_docs(Model *m, Tape *t, const int *idx, const int *doc, int B, int T)
{
    return m->cfg.family->forward(m, t, idx, doc, B, T, NULL);
}

void model_loss(Model *m, Tape *t, Var *x, const int *tgt, const real *wt, int N, real *loss,
                double scale)
{
    const Config *c = &m->cfg;
    nn_loss(t, loss, x, m->lm_head, tgt, wt, N, c->C, c->V, c->Vp,
            c->family->softcap, scale);
}

real *model_logits(Model *m, Tape *t, Var *x, const int *rows, int N)
{
    const Config *c = &m->cfg;
    const Ops *o = t->ops;
    const Act *h = x->v;
    if (rows) {
        Act *y = tape_mem(t, bytes_of((int64_t)N * c->C, o->act_size));
        o->embed(y, h, rows, N, c->C);
        h = y;
    }
    Act *z = tape_mem(t, bytes_of((int64_t)N * c->Vp, o->act_size));
    real *l = tape_mem(t, bytes_of((int64_t)N * c->V, sizeof *l));
    o->linear(z, h, m->lm_head->v, N, c->C, c->Vp, 0);
    o->logits(l, z, N, c->V, c->Vp, (real)c->family->softcap);
    return l;
}
