/* pick.c -- see pick.h. */
#include "gpt/pick.h"
#include <assert.h>
#include <math.h>
#include <stdbool.h>

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

/* Does id a come before b in the order of falling weights, smallest ids first? */
static bool before(const double *w, double a, double b)
{
    double x = w[(int)a], y = w[(int)b];
    return x > y || (x == y && a < b);
}

/* Let the id at i of the heap h[0..n) of ids, the first in that order at its root, sink. */
static void settle(double *h, int n, int i, const double *w)
{
    double id = h[i];
    for (int64_t c; (c = 2 * (int64_t)i + 1) < n; i = (int)c) {
        if (c + 1 < n && before(w, h[c + 1], h[c])) c++;
        if (!before(w, h[c], id)) break;
        h[i] = h[c];
    }
    h[i] = id;
}

/* Of the weights w [V] keep the largest whose sum reaches `goal`, and one at least. h [V] holds ids
 * (exact in a double): a heap costs O(V + m log V) where m stay. Returns their sum. */
static double nucleus(double *w, int V, double goal, double *h)
{
    int n = 0;
    double sum = 0;
    for (int i = 0; i < V; i++)
        if (w[i] > 0) h[n++] = i;
    for (int i = n / 2; i-- > 0;) settle(h, n, i, w);
    do {
        sum += w[(int)h[0]];
        h[0] = h[--n];
        if (n > 0) settle(h, n, 0, w);
    } while (n > 0 && sum < goal);
    for (int i = 0; i < n; i++) w[(int)h[i]] = 0;
    return sum;
}

static double at_least(double *w, int V, double least)
{
    double sum = 0;
    for (int i = 0; i < V; i++) {
        if (w[i] < least) w[i] = 0;
        sum += w[i];
    }
    return sum;
}

/* best: of the largest logit. Its weight is 1. */
static double weights(const Pick *p, const real *logits, int V, int best, double *tmp)
{
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
    if (p->top_p > 0 && p->top_p < 1) sum = nucleus(tmp, V, p->top_p * sum, tmp + V);
    if (p->min_p > 0) sum = at_least(tmp, V, p->min_p < 1 ? p->min_p : 1);
    return sum;
}

double pick_weights(const Pick *p, const real *logits, int V, double *tmp)
{
    assert(V > 0 && p->temperature > 0);
    int best = largest(logits, V);
    return best < 0 ? -1 : weights(p, logits, V, best, tmp);
}

int pick(const Pick *p, const real *logits, int V, Rng *rng, double *tmp)
{
    assert(V > 0 && p->temperature >= 0);
    int best = largest(logits, V);
    if (best < 0 || p->temperature == 0) return best;

    double u = rng_uniform(rng) * weights(p, logits, V, best, tmp), c = 0;
    for (int i = 0; i < V; i++) {
        c += tmp[i];
        if (u < c) return i;
    }
    return best;                        /* u rounded up to the sum: as good as impossible */
}

void pick_penalize(real *logits, int V, const unsigned char *seen, double r)
{
    for (int i = 0; i < V; i++) {
        if (!seen[i]) continue;
        double l = (double)logits[i];
        logits[i] = (real)(l > 0 ? l / r : l * r);
    }
}

double pick_logprob(const real *logits, int V, int id)
{
    double max = (double)logits[0], sum = 0;
    for (int i = 1; i < V; i++)
        if ((double)logits[i] > max) max = (double)logits[i];
    for (int i = 0; i < V; i++) sum += exp((double)logits[i] - max);
    return (double)logits[id] - max - log(sum);
}
