/* optim.c -- the step over spans of the parameters; see optim.h. */
#include "gpt/optim.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#define MUON_BETA2 0.9
#define TMP_MAX ((size_t)256 << 20)     /* bytes; a stack that needs more goes through in parts */

void optim_groups(OptimGroup g[PG_COUNT], const OptimSettings *s, int C)
{
    for (int i = 0; s->adamw && i < PG_COUNT; i++)
        g[i] = (OptimGroup){ s->lr * s->lr_scale, s->beta1, s->beta2, s->eps, s->weight_decay };
    if (s->adamw) return;
    double width = pow(C / 768.0, -0.5), b = s->batch_scale * s->lr_scale;
    double emb = s->embedding_lr * b * width, scalar = s->scalar_lr * b;
    g[PG_LM_HEAD] = (OptimGroup){ s->unembedding_lr * b * width, 0.8, 0.96, 1e-10, 0.01 };
    g[PG_WTE] = (OptimGroup){ emb, 0.8, 0.995, 1e-10, 0.001 };
    g[PG_VALUE_EMBEDS] = (OptimGroup){ emb * 0.5, 0.8, 0.995, 1e-10, 0.01 };
    g[PG_RESID] = (OptimGroup){ scalar * 0.01, 0.8, 0.95, 1e-10, 0.05 };
    g[PG_X0] = (OptimGroup){ scalar, 0.96, 0.95, 1e-10, 0 };
    g[PG_SMEAR] = (OptimGroup){ 0.2 * s->lr_scale, 0.8, 0.95, 1e-10, 0 };
    g[PG_NORM] = (OptimGroup){ scalar * 0.01, 0.8, 0.95, 1e-10, 0 };
    g[PG_MATRIX] = (OptimGroup){ s->matrix_lr * b, 0, MUON_BETA2, 0, s->weight_decay };
}

/* ---- spans. Each starts at a multiple of 16 in m2 too. */

static int64_t longer_side(const Param *p) { return p->rows >= p->cols ? p->rows : p->cols; }

static const Stack *stack_of(const Model *m, int i)
{
    int k = 0;
    while (i >= m->stack[k].first + m->stack[k].count) k++;
    return &m->stack[k];
}

/* The parameter after the span that begins with i: a change of group, of stack, of how they are kept
 * or of frozen ends it. */
static int span_end(const Model *m, int adamw, int i)
{
    const Param *p = &m->param[i];
    const Stack *s = optim_muon(adamw, p) ? stack_of(m, i) : NULL;
    int end = s ? s->first + s->count : m->nparam, k = i + 1;
    while (k < end && m->param[k].group == p->group && m->param[k].keep == p->keep &&
           m->param[k].frozen == p->frozen) k++;
    return k;
}

/* The span that begins with parameter i. */
static OptimSpan span_from(const Model *m, int adamw, int i)
{
    const Param *p = &m->param[i], *last = &m->param[span_end(m, adamw, i) - 1];
    OptimSpan s = { .first = i, .count = (int)(last - p) + 1, .group = p->group,
                    .muon = optim_muon(adamw, p), .frozen = p->frozen, .keep = p->keep,
                    .off = p->off, .n = last->off + last->n - p->off };
    s.n2 = s.muon ? s.count * longer_side(p) : s.n;
    assert(!s.muon || s.n == s.count * p->n);     /* no gaps in a stack */
    return s;
}

/* Fills span [m->nparam] unless it is NULL. Returns the length of m2. */
static int64_t cut(const Model *m, int adamw, OptimSpan *span, int *count)
{
    int64_t n2 = 0;
    *count = 0;
    for (int i = 0; i < m->nparam; ++*count) {
        OptimSpan s = span_from(m, adamw, i);
        s.off2 = s.keep == KEEP_HALF ? s.off : n2;
        if (s.keep != KEEP_HALF) n2 += (s.n2 + 15) / 16 * 16;
        i += s.count;
        if (span) span[*count] = s;
    }
    return n2;
}

/* A span's moments: first (k 0), second (1). */
static Store moments(const Optim *o, const OptimSpan *s, int k)
{
    if (s->keep == KEEP_HALF) return (Store){ .hi = (k ? o->h2 : o->h1) + s->off };
    return store_real(k ? o->m2 + s->off2 : o->m1 + (s->off - o->m->nhalf));
}

Store optim_moment(const Optim *o, const Param *p, int k, int64_t *n)
{
    int i = (int)(p - o->m->param), at = 0;
    while (i >= o->span[at].first + o->span[at].count) at++;
    const OptimSpan *s = &o->span[at];
    int rows = k && s->muon;                    /* one number per row or column */
    *n = rows ? longer_side(p) : p->n;
    return store_at(moments(o, s, k), rows ? (i - s->first) * *n : p->off - s->off);
}

/* ---- memory */

/* How many matrices of a stack to do at once. Each is on its own, so parts change no result. */
static int part_of(const Ops *ops, int count, int rows, int cols)
{
    int part = count;
    while (part > 1 && ops->muon_tmp(part, rows, cols) > TMP_MAX) part = (part + 1) / 2;
    return part;
}

static size_t tmp_bytes(const Model *m, int adamw)
{
    size_t most = 0;
    for (int i = 0; !adamw && i < m->nstack; i++) {
        const Stack *s = &m->stack[i];
        int part = part_of(m->ops, s->count, s->rows, s->cols);
        size_t n = m->ops->muon_tmp(part, s->rows, s->cols);
        if (n > most) most = n;
    }
    return most;
}

static size_t reals(int64_t n) { return size_mul((size_t)n, sizeof(real)); }
static size_t halves(int64_t n) { return size_mul((size_t)n, sizeof(uint16_t)); }

size_t optim_bytes(const Model *m, const OptimSettings *s)
{
    int count;
    size_t n = size_add(reals(m->n - m->nhalf), reals(cut(m, s->adamw, NULL, &count)));
    n = size_add(n, halves(2 * m->nhalf));
    if (s->ema > 0) n = size_add(n, reals(m->n));
    return size_add(n, tmp_bytes(m, s->adamw));
}

/* The mean moves towards the weights, by 1: it becomes them. */
static void ema_to(Optim *o, double by)
{
    for (Keep k = 0; k < KEEP_COUNT; k++) {
        int64_t n, at = model_section(o->m, k, &n);
        if (n) o->m->ops->lerp(o->ema + at, model_weights(o->m, k, &n), by, n);
    }
}

Optim *optim_new(Model *m, const OptimSettings *s)
{
    Optim *o = xcalloc(1, sizeof *o);
    o->m = m;
    o->adamw = s->adamw;
    optim_groups(o->group, s, m->cfg.C);
    o->span = xcalloc((size_t)m->nparam, sizeof *o->span);
    o->n2 = cut(m, s->adamw, o->span, &o->nspan);
    o->m1 = m->ops->alloc(reals(m->n - m->nhalf));
    o->m2 = m->ops->alloc(reals(o->n2));
    if (m->nhalf) {
        o->h1 = m->ops->alloc(halves(m->nhalf));
        o->h2 = m->ops->alloc(halves(m->nhalf));
    }
    o->ntmp = tmp_bytes(m, s->adamw);
    o->tmp = o->ntmp ? m->ops->alloc(o->ntmp) : NULL;
    o->ema_decay = s->ema;
    if (s->ema > 0) {
        o->ema = m->ops->alloc(reals(m->n));
        ema_to(o, 1);
    }
    return o;
}

void optim_free(Optim *o)
{
    if (!o) return;
    const Ops *ops = o->m->ops;
    ops->free(o->m1, reals(o->m->n - o->m->nhalf));
    ops->free(o->m2, reals(o->n2));
    if (o->h1) ops->free(o->h1, halves(o->m->nhalf));
    if (o->h2) ops->free(o->h2, halves(o->m->nhalf));
    if (o->tmp) ops->free(o->tmp, o->ntmp);
    if (o->ema) ops->free(o->ema, reals(o->m->n));
    free(o->span);
    free(o);
}

/* ---- the step */

static void adamw(Optim *o, const OptimSpan *s, double lr_mult)
{
    const Model *m = o->m;
    const Var *x = &m->param[s->first].var;
    const OptimGroup *g = &o->group[s->group];
    double t = (double)o->t, c1 = 1 - pow(g->beta1, t), c2 = 1 - pow(g->beta2, t);
    m->ops->adamw(var_weights(x), var_grad(x), moments(o, s, 0), moments(o, s, 1), s->n,
                  g->lr * lr_mult, g->beta1, g->beta2, g->eps, g->wd, c1, c2);
}

static void muon(Optim *o, const OptimSpan *s, double lr_mult, double momentum, double wd)
{
    const Model *m = o->m;
    const OptimGroup *g = &o->group[PG_MATRIX];
    const Param *k = &m->param[s->first];
    real *m1 = moments(o, s, 0).w, *m2 = moments(o, s, 1).w;
    int64_t size = k->n, side = s->n2 / s->count;
    double lr = g->lr * lr_mult * sqrt(fmax(1, (double)k->rows / k->cols));
    int part = part_of(m->ops, s->count, k->rows, k->cols);
    for (int i = 0; i < s->count; i += part) {
        int n = s->count - i < part ? s->count - i : part;
        int64_t at = i * size;
        m->ops->muon(store_at(var_weights(&k->var), at), k->var.dw + at, m1 + at, m2 + i * side,
                     o->tmp, n, k->rows, k->cols, momentum, g->beta2, lr, wd);
    }
}

/* Less at first, so that the mean forgets the initial weights: over about t/10 steps. */
static double ema_decay(const Optim *o)
{
    double t = (double)o->t;
    return fmin(o->ema_decay, (1 + t) / (10 + t));
}

void optim_step(Optim *o, double lr_mult, double momentum, double muon_wd)
{
    o->t++;
    for (int i = 0; i < o->nspan; i++) {
        const OptimSpan *s = &o->span[i];
        if (s->frozen) continue;
        if (s->muon) muon(o, s, lr_mult, momentum, muon_wd);
        else adamw(o, s, lr_mult);
    }
    if (o->ema) ema_to(o, 1 - ema_decay(o));
}

typedef Store SectionOf(const Model *m, Keep k, int64_t *n);
static void squares(const Model *m, SectionOf *of, double *out)
{
    for (Keep k = 0; k < KEEP_COUNT; k++) {
        int64_t n;
        Store x = of(m, k, &n);
        if (n) m->ops->sumsq(out, x, n);
    }
}

static double norm(const Model *m, SectionOf *of)
{
    double sum;
    m->ops->zero(m->sum, sizeof sum);
    squares(m, of, m->sum);
    m->ops->get(&sum, m->sum, sizeof sum);
    return sqrt(sum);
}

double clip_factor(double norm, double most)
{
    return fmin(1, most / (norm + 1e-6));
}

void grad_squares(const Model *m, double *out) { squares(m, model_grads, out); }
double grad_norm(const Model *m) { return norm(m, model_grads); }
double weight_norm(const Model *m) { return norm(m, model_weights); }

void grad_scale(Model *m, double by)
{
    for (Keep k = 0; k < KEEP_COUNT; k++) {
        int64_t n;
        Store g = model_grads(m, k, &n);
        if (n) m->ops->scale(g, by, n);
    }
}
