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

/* Every rank has what is smaller. */
#define SMALL 1024

static int is_small(const Param *p) { return p->n < SMALL; }

/* The parameter after the span that begins with i: a change of group, of stack, of how they are kept
 * or of frozen ends it. What ranks share by rows is a span by itself. */
static int span_end(const Model *m, const OptimSettings *o, int i)
{
    const Param *p = &m->param[i];
    const Stack *s = optim_muon(o->adamw, p) ? stack_of(m, i) : NULL;
    int end = s ? s->first + s->count : m->nparam, k = i + 1, alone = !s && o->comm->ranks > 1;
    if (alone && !is_small(p)) return k;
    while (k < end && m->param[k].group == p->group && m->param[k].keep == p->keep &&
           m->param[k].frozen == p->frozen && !(alone && !is_small(&m->param[k]))) k++;
    return k;
}

static int64_t padded(int64_t n) { return (n + 15) / 16 * 16; }

/* Units for each rank. Parts of a table begin where vectors of numbers may. */
static int64_t part_of_rank(const OptimSpan *s, int ranks)
{
    int64_t part = (s->units + ranks - 1) / ranks;
    return s->muon || s->unit % 16 == 0 ? part : padded(part);
}

/* The span that begins with parameter i. */
static OptimSpan span_from(const Model *m, const OptimSettings *o, int i)
{
    const Param *p = &m->param[i], *last = &m->param[span_end(m, o, i) - 1];
    const Comm *c = o->comm;
    OptimSpan s = { .first = i, .count = (int)(last - p) + 1, .group = p->group,
                    .muon = optim_muon(o->adamw, p), .frozen = p->frozen, .keep = p->keep,
                    .off = p->off, .n = last->off + last->n - p->off };
    int shared = !s.muon && (c->ranks == 1 || is_small(p));
    s.unit = s.muon ? p->n : shared ? s.n : p->cols;
    s.units = s.muon ? s.count : shared ? 1 : p->rows;
    s.side = s.muon ? longer_side(p) : s.unit;
    assert(s.n == s.units * s.unit);            /* no gaps in a stack */
    s.nown = s.units;
    if (c->ranks == 1 || shared) return s;
    s.part = part_of_rank(&s, c->ranks);
    s.own = c->rank * s.part < s.units ? c->rank * s.part : s.units;
    s.nown = s.units - s.own < s.part ? s.units - s.own : s.part;
    return s;
}

typedef struct Lengths { int64_t n1, n2, nh; } Lengths;

/* Fills span [m->nparam] unless it is NULL; how long the moments' arrays are. */
static Lengths cut(const Model *m, const OptimSettings *o, OptimSpan *span, int *count)
{
    Lengths l = { 0 };
    int one = o->comm->ranks == 1;
    *count = 0;
    for (int i = 0; i < m->nparam; ++*count) {
        OptimSpan s = span_from(m, o, i);
        int half = s.keep == KEEP_HALF;
        s.off1 = one ? s.off - (half ? 0 : m->nhalf) : half ? l.nh : l.n1;
        s.off2 = half ? s.off1 : l.n2;
        if (half) l.nh += padded(s.nown * s.unit);
        else l.n1 += padded(s.nown * s.unit), l.n2 += padded(s.nown * s.side);
        i += s.count;
        if (span) span[*count] = s;
    }
    if (one) l.n1 = m->n - m->nhalf, l.nh = m->nhalf;   /* one as the parameters, gaps included */
    return l;
}

/* The moments of a span's own units: first (k 0), second (1). */
static Store moments(const Optim *o, const OptimSpan *s, int k)
{
    if (s->keep == KEEP_HALF) return (Store){ .hi = k ? o->h2 + s->off2 : o->h1 + s->off1 };
    return store_real(k ? o->m2 + s->off2 : o->m1 + s->off1);
}

static const OptimSpan *span_of(const Optim *o, const Param *p)
{
    int i = (int)(p - o->m->param), k = 0;
    while (i >= o->span[k].first + o->span[k].count) k++;
    return &o->span[k];
}

int optim_saves(const Optim *o, const Param *p) { return span_of(o, p)->part || o->comm->rank == 0; }

Store optim_moment(const Optim *o, const Param *p, int k, int64_t *at, int64_t *n)
{
    const OptimSpan *s = span_of(o, p);
    int64_t size = k && s->muon ? s->side : p->n, before = p->off - s->off;
    int64_t u = p - o->m->param - s->first - s->own;
    *at = 0;
    *n = size;
    if (s->muon) {                              /* whole matrices */
        if (u < 0 || u >= s->nown) *n = 0;
        before = *n ? u * size : 0;
    } else if (s->part) {                       /* rows of one table */
        *at = s->own * s->unit;
        *n = s->nown * s->unit;
    }
    return store_at(moments(o, s, k), before);
}

/* ---- memory */

/* How many matrices of a stack to do at once. Each is on its own, so parts change no result. */
static int part_of(const Ops *ops, int count, int rows, int cols)
{
    int part = count;
    while (part > 1 && ops->muon_tmp(part, rows, cols) > TMP_MAX) part = (part + 1) / 2;
    return part;
}

static size_t tmp_bytes(const Model *m, const OptimSettings *o)
{
    size_t most = 0;
    int ranks = o->comm->ranks;
    for (int i = 0; !o->adamw && i < m->nstack; i++) {
        const Stack *s = &m->stack[i];
        int part = part_of(m->ops, (s->count + ranks - 1) / ranks, s->rows, s->cols);
        size_t n = m->ops->muon_tmp(part, s->rows, s->cols);
        if (n > most) most = n;
    }
    return most;
}

static size_t reals(int64_t n) { return size_mul((size_t)n, sizeof(real)); }
static size_t halves(int64_t n) { return size_mul((size_t)n, sizeof(uint16_t)); }

/* s with the ranks that it goes without saying there are. */
static OptimSettings with_ranks(const OptimSettings *s)
{
    OptimSettings o = *s;
    if (!o.comm) o.comm = &comm_none;
    return o;
}

size_t optim_bytes(const Model *m, const OptimSettings *settings)
{
    int count;
    OptimSettings s = with_ranks(settings);
    Lengths l = cut(m, &s, NULL, &count);
    size_t n = size_add(size_add(reals(l.n1), reals(l.n2)), halves(2 * l.nh));
    if (s.ema > 0) n = size_add(n, reals(m->n));
    return size_add(n, tmp_bytes(m, &s));
}

/* The mean moves towards the weights, by 1: it becomes them. */
static void ema_to(Optim *o, double by)
{
    for (Keep k = 0; k < KEEP_COUNT; k++) {
        int64_t n, at = model_section(o->m, k, &n);
        if (n) o->m->ops->lerp(o->ema + at, model_weights(o->m, k, &n), by, n);
    }
}

Optim *optim_new(Model *m, const OptimSettings *settings)
{
    Optim *o = xcalloc(1, sizeof *o);
    OptimSettings s = with_ranks(settings);
    o->m = m;
    o->comm = s.comm;
    o->adamw = s.adamw;
    optim_groups(o->group, &s, m->cfg.C);
    o->span = xcalloc((size_t)m->nparam, sizeof *o->span);
    Lengths l = cut(m, &s, o->span, &o->nspan);
    o->n1 = l.n1;
    o->n2 = l.n2;
    o->nh = l.nh;
    o->m1 = m->ops->alloc(reals(o->n1));
    o->m2 = m->ops->alloc(reals(o->n2));
    if (o->nh) {
        o->h1 = m->ops->alloc(halves(o->nh));
        o->h2 = m->ops->alloc(halves(o->nh));
    }
    o->ntmp = tmp_bytes(m, &s);
    o->tmp = o->ntmp ? m->ops->alloc(o->ntmp) : NULL;
    o->ema_decay = s.ema;
    if (s.ema > 0) {
        o->ema = m->ops->alloc(reals(m->n));
        ema_to(o, 1);
    }
    return o;
}

void optim_pool(Optim *o, Tape *t)
{
    if (o->tmp) o->m->ops->free(o->tmp, o->ntmp);
    o->tmp = NULL;
    o->pool = t;
}

void optim_free(Optim *o)
{
    if (!o) return;
    const Ops *ops = o->m->ops;
    ops->free(o->m1, reals(o->n1));
    ops->free(o->m2, reals(o->n2));
    if (o->h1) ops->free(o->h1, halves(o->nh));
    if (o->h2) ops->free(o->h2, halves(o->nh));
    if (o->tmp) ops->free(o->tmp, o->ntmp);
    if (o->ema) ops->free(o->ema, reals(o->m->n));
    free(o->span);
    free(o);
}

/* ---- between ranks */

/* The span's numbers, of which the Var of its first parameter has the first. */
typedef int64_t Parts(void *x, int64_t n, int64_t part, CommType t);
static int64_t exchange(const OptimSpan *s, Parts *f, Store x)
{
    int64_t n = s->units * s->unit, part = s->part * s->unit, call = 0;
    if (x.w) call = f(x.w, n, part, COMM_REAL);
    if (x.hi) call = f(x.hi, n, part, COMM_BF16);
    if (x.lo) call = f(x.lo, n, part, COMM_BF16);       /* bits: only moved */
    return call;
}

void optim_reduce(Optim *o)
{
    const Comm *c = o->comm;
    int64_t call = -1;
    for (int i = 0; c->ranks > 1 && i < o->nspan; i++) {
        const OptimSpan *s = &o->span[i];
        Store g = var_grad(&o->m->param[s->first].var);
        if (s->frozen) continue;
        if (s->part) call = exchange(s, c->scatter, g);
        else call = c->sum(g.w ? (void *)g.w : g.hi, s->n, g.w ? COMM_REAL : COMM_BF16);
    }
    if (call >= 0) c->wait(call);
}

void optim_squares(const Optim *o, double *sum)
{
    const Model *m = o->m;
    if (o->comm->ranks == 1) {
        grad_squares(m, sum);
        return;
    }
    for (int i = 0; i < o->nspan; i++) {
        const OptimSpan *s = &o->span[i];
        int64_t n = s->part || !o->comm->rank ? s->nown * s->unit : 0;
        if (n && !s->frozen)
            m->ops->sumsq(sum, store_at(var_grad(&m->param[s->first].var), s->own * s->unit), n);
    }
}

/* ---- the step */

static void adamw(Optim *o, const OptimSpan *s, double lr_mult)
{
    const Model *m = o->m;
    const Var *x = &m->param[s->first].var;
    const OptimGroup *g = &o->group[s->group];
    double t = (double)o->t, c1 = 1 - pow(g->beta1, t), c2 = 1 - pow(g->beta2, t);
    int64_t at = s->own * s->unit;
    m->ops->adamw(store_at(var_weights(x), at), store_at(var_grad(x), at), moments(o, s, 0),
                  moments(o, s, 1), s->nown * s->unit, g->lr * lr_mult, g->beta1, g->beta2, g->eps,
                  g->wd, c1, c2);
}

static void muon(Optim *o, const OptimSpan *s, double lr_mult, double momentum, double wd)
{
    const Model *m = o->m;
    const OptimGroup *g = &o->group[PG_MATRIX];
    const Param *k = &m->param[s->first];
    real *m1 = moments(o, s, 0).w, *m2 = moments(o, s, 1).w;
    double lr = g->lr * lr_mult * sqrt(fmax(1, (double)k->rows / k->cols));
    int own = (int)s->nown, part = part_of(m->ops, own, k->rows, k->cols);
    for (int i = 0; i < own; i += part) {
        int n = own - i < part ? own - i : part;
        int64_t at = (s->own + i) * s->unit;
        m->ops->muon(store_at(var_weights(&k->var), at), k->var.dw + at, m1 + i * s->unit,
                     m2 + i * s->side, o->tmp, n, k->rows, k->cols, momentum, g->beta2, lr, wd);
    }
}

/* Less at first, so that the mean forgets the initial weights: over about t/10 steps. */
static double ema_decay(const Optim *o)
{
    double t = (double)o->t;
    return fmin(o->ema_decay, (1 + t) / (10 + t));
}

/* While the ranks exchange a span's new weights, the next is updated. */
void optim_step(Optim *o, double lr_mult, double momentum, double muon_wd)
{
    Act *lent = NULL;
    if (o->pool && o->ntmp) o->tmp = lent = tape_lend(o->pool, o->ntmp);
    int64_t call = -1;
    o->t++;
    for (int i = 0; i < o->nspan; i++) {
        const OptimSpan *s = &o->span[i];
        if (s->frozen) continue;
        if (s->nown && s->muon) muon(o, s, lr_mult, momentum, muon_wd);
        else if (s->nown) adamw(o, s, lr_mult);
        if (s->part) call = exchange(s, o->comm->gather, var_weights(&o->m->param[s->first].var));
    }
    if (call >= 0) o->comm->wait(call);
    if (lent) {
        tape_give(o->pool, &lent);
        o->tmp = NULL;
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
