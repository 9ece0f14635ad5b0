/* Items answered by a letter: the largest of the letters' logits at the prompt's last position.
 * A batch is padded on the right, which a causal model does not see. */
#include "chat.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct Question { Item it; Ids ids; } Question;

struct Letters {
    Trial *t;
    Arena arena;                    /* the items' letters */
    Question *q; int n, cap;
    size_t longest;
};

Letters *letters_new(Trial *t)
{
    Letters *l = xcalloc(1, sizeof *l);
    l->t = t;
    return l;
}

static Str keep(Letters *l, Str s) { return (Str){ arena_strndup(&l->arena, s.s, s.n), s.n }; }

static int letter_id(Letters *l, Str s)
{
    Ids v = {0};
    tok_encode(l->t->s->enc, s.s, s.n, &v);
    if (v.n != 1)
        die("%s: the label '%.*s' is %zu tokens, not one", l->t->name, (int)s.n, s.s, v.n);
    int id = (int)v.id[0];
    ids_free(&v);
    return id;
}

static int choose(Letters *l, const Question *q, const real *logits)
{
    int best = 0;
    real most = 0;
    for (int i = 0; i < q->it.nletter; i++) {
        real x = logits[letter_id(l, q->it.letter[i])];
        if (i == 0 || x > most) { most = x; best = i; }
    }
    return best;
}

/* Logits [n,V] of each question's last position. */
static void run(Letters *l, real *logits)
{
    Subject *s = l->t->s;
    const Ops *ops = s->m->ops;
    size_t T = l->longest, N = size_mul((size_t)l->n, T), V = (size_t)s->m->cfg.V;
    int *ids = xcalloc(N, sizeof *ids), *last = xcalloc((size_t)l->n, sizeof *last);
    for (int i = 0; i < l->n; i++) {
        for (size_t k = 0; k < l->q[i].ids.n; k++) ids[(size_t)i * T + k] = (int)l->q[i].ids.id[k];
        last[i] = (int)((size_t)i * T + l->q[i].ids.n - 1);
    }
    tape_reset(&s->tape);
    s->tape.on = 0;
    int *dids = tape_mem(&s->tape, N * sizeof *dids);
    int *dlast = tape_mem(&s->tape, (size_t)l->n * sizeof *dlast);
    ops->put(dids, ids, N * sizeof *ids);
    ops->put(dlast, last, (size_t)l->n * sizeof *last);
    Var *x = model_forward(s->m, &s->tape, dids, l->n, (int)T, NULL);
    real *d = model_logits(s->m, &s->tape, x, dlast, l->n);
    ops->get(logits, d, (size_t)l->n * V * sizeof *d);
    ops->sync();
    tape_reset(&s->tape);
    free(ids);
    free(last);
}

static void record(const Trial *t, uint64_t index, const Question *q, int chosen)
{
    Buf b = {0};
    item_begin(&b, t, index, &q->it);
    rec_str(&b, "answer", q->it.letter[chosen].s, q->it.letter[chosen].n);
    buf_printf(&b, ", \"right\": %s}", chosen == q->it.gold ? "true" : "false");
    rec_write(t->items, &b);
    buf_free(&b);
}

static void flush(Letters *l)
{
    if (l->n == 0) return;
    Trial *t = l->t;
    size_t V = (size_t)t->s->m->cfg.V;
    real *logits = xreallocarray(NULL, size_mul((size_t)l->n, V), sizeof *logits);
    run(l, logits);
    for (int i = 0; i < l->n; i++) {
        Question *q = &l->q[i];
        int c = choose(l, q, logits + (size_t)i * V);
        if (t->items) record(t, t->score.items, q, c);
        t->score.right += c == q->it.gold;
        t->score.pass[0] += c == q->it.gold;
        t->score.items++;
        q->ids.n = 0;
    }
    free(logits);
    arena_reset(&l->arena);
    l->n = 0;
    l->longest = 0;
}

static Item kept(Letters *l, const Item *it)
{
    Item k = { .check = it->check, .nletter = it->nletter, .gold = it->gold };
    k.letter = arena_alloc(&l->arena, (size_t)it->nletter * sizeof *k.letter);
    for (int i = 0; i < it->nletter; i++) k.letter[i] = keep(l, it->letter[i]);
    k.want = k.letter[k.gold];
    if (l->t->items) {                  /* of the messages only their text, for the record */
        Str src = keep(l, (Str){ it->messages->src, it->messages->src_len });
        Json *m = arena_alloc(&l->arena, sizeof *m);
        *m = (Json){ .src = src.s, .src_len = src.n };
        k.messages = m;
    }
    return k;
}

void letters_add(Letters *l, const Item *it)
{
    Ids ids = {0};
    trial_prompt(l->t, it, (size_t)l->t->s->m->cfg.T, &ids);
    size_t longest = ids.n > l->longest ? ids.n : l->longest;
    bool full = opt.batch ? l->n >= opt.batch : (size_t)(l->n + 1) * longest > BATCH_TOKENS;
    if (full) flush(l);
    if (l->n == l->cap) {
        int cap = l->cap ? 2 * l->cap : 16;
        l->q = xreallocarray(l->q, (size_t)cap, sizeof *l->q);
        memset(l->q + l->cap, 0, (size_t)(cap - l->cap) * sizeof *l->q);
        l->cap = cap;
    }
    Question *q = &l->q[l->n++];
    ids_free(&q->ids);
    *q = (Question){ kept(l, it), ids };
    if (ids.n > l->longest) l->longest = ids.n;
}

void letters_end(Letters *l)
{
    flush(l);
    for (int i = 0; i < l->cap; i++) ids_free(&l->q[i].ids);
    free(l->q);
    arena_free(&l->arena);
    free(l);
}
