/* pick.c -- see pick.h. */
#include "gpt/pick.h"
#include <assert.h>
#include <math.h>

/* Index of the largest logit, the first of equals; -1 if one is not finite. */
static int largest(const real *l, int V)
{
    int best = 0;
    for (int i = 0; i < V; i++) {
        if (!isfinite(l[i])) return -1;
        if (l[i] > l[best]) best = i;
    }
    return best;
}

/* Put x at the root of the min-heap h[0..k) and let it sink. */
static void sink(double *h, int k, double x)
{
    int i = 0;
    for (int64_t c; (c = 2 * (int64_t)i + 1) < k; i = (int)c) {
        if (c + 1 < k && h[c + 1] < h[c]) c++;
        if (h[c] >= x) break;
        h[i] = h[c];
    }
    h[i] = x;
}

/* Put x at the end of the min-heap h[0..k) and let it rise. */
static void rise(double *h, int k, double x)
{
    int i = k;
    for (; i > 0 && h[(i - 1) / 2] > x; i = (i - 1) / 2) h[i] = h[(i - 1) / 2];
    h[i] = x;
}

/* The k-th largest logit: the root of a heap of the k largest so far. Most logits are below the
 * root and cost one comparison: O(V + k log k log(V/k)) on average, O(V log k) always. */
static double kth_largest(const real *l, int V, int k, double *h)
{
    for (int i = 0; i < k; i++) rise(h, i, (double)l[i]);
    for (int i = k; i < V; i++)
        if ((double)l[i] > h[0]) sink(h, k, (double)l[i]);
    return h[0];
}

int pick(const Pick *p, const real *logits, int V, Rng *rng, double *tmp)
{
    assert(V > 0 && p->temperature >= 0);
    int best = largest(logits, V);
    if (best < 0 || p->temperature == 0) return best;

    double border = -INFINITY;
    int ties = 0;                       /* how many logits equal to the border are kept */
    if (p->top_k > 0 && p->top_k < V) {
        border = kth_largest(logits, V, p->top_k, tmp);
        ties = p->top_k;
        for (int i = 0; i < V; i++) ties -= (double)logits[i] > border;
    }
    /* (l - max) / temperature is 0 or negative, perhaps -inf, never NaN: nothing overflows */
    double max = (double)logits[best], sum = 0;
    for (int i = 0; i < V; i++) {
        double l = (double)logits[i];
        int kept = l > border || (l == border && ties-- > 0);
        tmp[i] = kept ? exp((l - max) / p->temperature) : 0;
        sum += tmp[i];
    }
    double u = rng_uniform(rng) * sum, c = 0;
    for (int i = 0; i < V; i++) {
        c += tmp[i];
        if (u < c) return i;
    }
    return best;                        /* u rounded up to the sum: as good as impossible */
}
