/* optim.c -- the step over spans of the parameter block; see optim.h. */
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

/* The parameter after the span that begins with i: a change of group, of stack or of frozen ends
 * it. */
static int span_end(const Model *m, int adamw, int i)
{
    const Param *p = &m->param[i];
    const Stack *s = optim_muon(adamw, p) ? stack_of(m, i) : NULL;
    int end = s ? s->first + s->count : m->nparam, k = i + 1;
    while (k < end && m->param[k].group == p->group && m->param[k].frozen == p->frozen) k++;
    return k;
}

/* The span that begins with parameter i. */
static OptimSpan span_from(const Model *m, int adamw, int i)
{
    const Param *p = &m->param[i], *last = &m->param[span_end(m, adamw, i) - 1];
    OptimSpan s = { .first = i, .count = (int)(last - p) + 1, .group = p->group,
                    .muon = optim_muon(adamw, p), .frozen = p->frozen, .off = p->off, .n = last->off + last->n - p->off };
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
        s.off2 = n2;
        n2 += (s.n2 + 15) / 16 * 16;
        i += s.count;
        if (span) span[*count] = s;
    }
    return n2;
}

int64_t optim_second(const Optim *o, const Param *p, int64_t *n)
{
    int i = (int)(p - o->m->param), k = 0;
    while (i >= o->span[k].first + o->span[k].count) k++;
    const OptimSpan *s = &o->span[k];
    *n = s->muon ? longer_side(p) : p->n;
    return s->off2 + (s->muon ? (i - s->first) * *n : p->off - s->off);
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

size_t optim_bytes(const Model *m, const OptimSettings *s)
{
    int count;
    size_t n = size_add(reals(m->n), reals(cut(m, s->adamw, NULL, &count)));
    if (s->ema > 0) n = size_add(n, reals(m->n));
    return size_add(n, tmp_bytes(m, s->adamw));
}

Optim *optim_new(Model *m, const OptimSettings *s)
{
    Optim *o = xcalloc(1, sizeof *o);
    o->m = m;
    o->adamw = s->adamw;
    optim_groups(o->group, s, m->cfg.C);
    o->span = xcalloc((size_t)m->nparam, sizeof *o->span);
    o->n2 = cut(m, s->adamw, o->span, &o->nspan);
    o->m1 = m->ops->alloc(reals(m->n));
    o->m2 = m->ops->alloc(reals(o->n2));
    o->ntmp = tmp_bytes(m, s->adamw);
    o->tmp = o->ntmp ? m->ops->alloc(o->ntmp) : NULL;
    o->ema_decay = s->ema;
    if (s->ema > 0) {
        o->ema = m->ops->alloc(reals(m->n));
        m->ops->copy(o->ema, m->w, reals(m->n));
    }
    return o;
}

void optim_free(Optim *o)
{
    if (!o) return;
    const Ops *ops = o->m->ops;
    ops->free(o->m1, reals(o->m->n));
    ops->free(o->m2, reals(o->n2));
    if (o->tmp) ops->free(o->tmp, o->ntmp);
    if (o->ema) ops->free(o->ema, reals(o->m->n));
    free(o->span);
    free(o);
}

/* ---- the step */

static void adamw(Optim *o, const OptimSpan *s, double lr_mult)
{
    Model *m = o->m;
    const OptimGroup *g = &o->group[s->group];
    double t = (double)o->t, c1 = 1 - pow(g->beta1, t), c2 = 1 - pow(g->beta2, t);
    m->ops->adamw(m->w + s->off, m->g + s->off, o->m1 + s->off, o->m2 + s->off2, s->n,
                  g->lr * lr_mult, g->beta1, g->beta2, g->eps, g->wd, c1, c2);
}

static void muon(Optim *o, const OptimSpan *s, double lr_mult, double momentum, double wd)
{
    Model *m = o->m;
    const OptimGroup *g = &o->group[PG_MATRIX];
    const Param *k = &m->param[s->first];
    int64_t size = k->n, side = s->n2 / s->count;
    double lr = g->lr * lr_mult * sqrt(fmax(1, (double)k->rows / k->cols));
    int part = part_of(m->ops, s->count, k->rows, k->cols);
    for (int i = 0; i < s->count; i += part) {
        int n = s->count - i < part ? s->count - i : part;
        int64_t at = s->off + i * size;
        m->ops->muon(m->w + at, m->g + at, o->m1 + at, o->m2 + s->off2 + i * side, o->tmp, n,
                     k->rows, k->cols, momentum, g->beta2, lr, wd);
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
    if (o->ema) o->m->ops->lerp(o->ema, o->m->w, 1 - ema_decay(o), o->m->n);
    model_refresh(o->m);
}

static double norm(const Model *m, const real *x)
{
    double sum;
    m->ops->zero(m->sum, sizeof sum);
    m->ops->sumsq(m->sum, x, m->n);
    m->ops->get(&sum, m->sum, sizeof sum);
    return sqrt(sum);
}

double clip_factor(double norm, double most)
{
    return fmin(1, most / (norm + 1e-6));
}

double grad_norm(const Model *m) { return norm(m, m->g); }
double weight_norm(const Model *m) { return norm(m, m->w); }
