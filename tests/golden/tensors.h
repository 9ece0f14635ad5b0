/* tensors.h -- golden weights and activations: reading, comparing, a model of them. Comparisons are
 * in double. */
#ifndef TENSORS_H
#define TENSORS_H
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "golden.h"
#include "gpt/model.h"
#include "gpt/safetensors.h"
#include "tap.h"

static const int f64 = sizeof(real) == 8;

#ifndef GOLDEN_DEVICE
#define GOLDEN_DEVICE "cpu"             /* tests/cuda includes some of these tests for another one */
#endif

/* all values of a tensor, as real; *n elements (NULL: do not care). Dies if absent. */
static inline real *tensor(const StFile *f, const char *name, int64_t *n)
{
    const StTensor *t = st_find(f, name);
    if (!t)
        die("golden file has no '%s'", name);
    real *x = xreallocarray(NULL, (size_t)t->n + 1, sizeof *x);
    st_read(f, t, x);
    if (n)
        *n = t->n;
    return x;
}

static inline int32_t *tensor_i32(const StFile *f, const char *name, int64_t *n)
{
    const StTensor *t = st_find(f, name);
    if (!t)
        die("golden file has no '%s'", name);
    int32_t *x = xreallocarray(NULL, (size_t)t->n + 1, sizeof *x);
    st_read_i32(f, t, x);
    if (n)
        *n = t->n;
    return x;
}

static inline double max_abs(const real *a, int64_t n)
{
    double m = 0;
    for (int64_t i = 0; i < n; i++)
        m = fabs((double)a[i]) > m ? fabs((double)a[i]) : m;
    return m;
}

/* largest |a - b|; infinity if anything is not a number */
static inline double max_diff(const real *a, const real *b, int64_t n)
{
    double m = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (isnan(d))
            return INFINITY;
        m = d > m ? d : m;
    }
    return m;
}

/* The configuration in a golden file's metadata. */
static inline Config golden_config(const StFile *f)
{
    Arena a = { 0 };
    const char *err;
    size_t at;
    const Json *text = json_get(st_meta(f), "config");
    Json *j = json_parse(&a, text->s, text->len, &err, &at);
    Config c;
    if (!j || (err = config_parse(&c, j)))
        die("golden config: %s", err);
    arena_free(&a);
    return c;
}

/* A model with the weights of a golden file. */
static inline Model *golden_weights(const StFile *f, const Config *c, const Ops *ops, int train)
{
    Model *m = model_new(ops, c, train);
    for (int i = 0; i < m->nparam; i++) {
        int64_t n;
        real *x = tensor(f, m->param[i].name, &n);
        if (n != m->param[i].n)
            die("golden tensor %s has %lld values", m->param[i].name, (long long)n);
        model_set(m, &m->param[i], x);
        free(x);
    }
    return m;
}

/* The same for nanochat, with the rotary tables of the reference. */
static inline Model *golden_model(const StFile *f, const Ops *ops, int train)
{
    Config c = golden_config(f);
    Model *m = golden_weights(f, &c, ops, train);
    int64_t n;
    real *cs = tensor(f, "rotary_cos", &n), *sn = tensor(f, "rotary_sin", NULL);
    real *tab = xreallocarray(NULL, (size_t)n * 2, sizeof *tab);
    for (int64_t i = 0; i < n; i++)
        tab[2 * i] = cs[i], tab[2 * i + 1] = sn[i];
    ops->put(m->rope, tab, (size_t)n * 2 * sizeof *tab);
    free(tab), free(cs), free(sn);
    return m;
}

/* a host copy of an activation */
static inline real *act_host(const Ops *ops, const Act *x, int64_t n)
{
    real *d = ops->alloc((size_t)n * sizeof *d), *h = xreallocarray(NULL, (size_t)n + 1, sizeof *h);
    ops->uncast(d, x, n);
    ops->get(h, d, (size_t)n * sizeof *h);
    ops->free(d, (size_t)n * sizeof *d);
    return h;
}

#endif
