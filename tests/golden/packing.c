/* The packer against rows that nanochat's own loaders returned (i_packing_*.json). Token k of
 * document d is 1000 d + k in pretraining; in SFT conversations come round again and 999999 is
 * padding. Two SFT cases have a conversation longer than a row: the reference keeps it in its
 * buffer for ever, ours cuts or drops it by a stated rule, so the rows cannot be the same. */
#include "tap.h"
#include "base/io.h"
#include "base/json.h"
#include "text/pack.h"

enum { PAD = 999999 };

typedef struct Run {
    const Json *batch;          /* expected: of the row to come */
    const Json *row, *targets;
    const Json *fetched;        /* expected documents fetched after each batch, or NULL */
    uint64_t docs;              /* fetched so far */
    int T, rows, wrong, wrong_fetched;
} Run;

static int64_t num(const Json *j)
{
    int64_t x;
    if (!json_int(j, &x)) abort();
    return x;
}

static int64_t get(const Json *obj, const char *key)
{
    return num(json_get(obj, key));
}

static Json *load(Arena *a, const char *path)
{
    Buf b = {0};
    const char *err;
    size_t at;
    read_file(path, &b, 1 << 20);
    Json *j = json_parse(a, arena_strndup(a, b.s, b.n), b.n, &err, &at);
    if (!j) die("%s: byte %zu: %s", path, at, err);
    buf_free(&b);
    return j;
}

static const Json *nth(const Json *arr, int64_t i)
{
    const Json *j = arr->child;
    while (i-- > 0) j = j->next;
    return j;
}

static void pretrain_row(void *arg, const uint32_t *id, const uint8_t *mask)
{
    Run *r = arg;
    if (!r->batch || mask) return;              /* more rows than the reference printed */
    if (!r->row) r->row = r->batch->child;
    const Json *want = r->row->child;
    for (int t = 0; t <= r->T; t++, want = want->next)
        if (!want || num(want) != id[t]) { r->wrong++; break; }
    r->rows++;
    r->row = r->row->next;
    if (r->row) return;
    r->wrong_fetched += num(r->fetched) != (int64_t)r->docs;
    r->fetched = r->fetched->next;
    r->batch = r->batch->next;
}

static void pretrain(const Json *c)
{
    const Json *lengths = json_get(c, "lengths");
    Run run = { .batch = json_get(c, "batches")->child, .T = (int)get(c, "T"),
                .fetched = json_get(c, "docs_fetched_after_batch")->child };
    PackOpt o = { .T = (uint32_t)run.T, .buffer = (uint32_t)get(c, "buffer_size") };
    int64_t refill = get(c, "docs_per_refill");
    Pack *p = pack_new(&o, pretrain_row, &run);
    while (run.batch) {
        for (int64_t i = 0; i < refill; i++, run.docs++) {
            uint32_t id[1000];
            size_t n = (size_t)num(nth(lengths, (int64_t)run.docs % lengths->n));
            for (size_t k = 0; k < n; k++) id[k] = (uint32_t)(run.docs * 1000 + k);
            pack_add(p, id, NULL, n);
        }
        pack_run(p);
    }
    int64_t rows = json_get(c, "batches")->n * get(c, "B");
    pack_end(p);
    const Json *name = json_get(c, "name");
    ok(run.rows == rows && run.wrong == 0, "pretraining, %s: %d rows, %d wrong", name->s, run.rows,
       run.wrong);
    ok(run.wrong_fetched == 0, "pretraining, %s: documents fetched", name->s);
}

static void sft_row(void *arg, const uint32_t *id, const uint8_t *mask)
{
    Run *r = arg;
    if (!r->batch) return;
    if (!r->row) {
        r->row = json_get(r->batch, "inputs")->child;
        r->targets = json_get(r->batch, "targets")->child;
    }
    const Json *x = r->row->child, *y = r->targets->child;
    for (int t = 0; t < r->T; t++, x = x->next, y = y->next) {
        int64_t target = mask[t + 1] ? (int64_t)id[t + 1] : -1;
        if (num(x) != id[t] || num(y) != target) { r->wrong++; break; }
    }
    r->rows++;
    r->row = r->row->next;
    r->targets = r->targets->next;
    if (!r->row) r->batch = r->batch->next;
}

static void sft(const Json *c)
{
    const Json *lengths = json_get(c, "lengths"), *masks = json_get(c, "masks");
    Run run = { .batch = json_get(c, "batches")->child, .T = (int)get(c, "T") };
    PackOpt o = { .T = (uint32_t)run.T, .bos = PAD, .buffer = (uint32_t)get(c, "buffer_size"),
                  .sft = true, .masks = true };
    int64_t world = get(c, "world_size"), at = get(c, "rank");
    int64_t rows = json_get(c, "batches")->n * get(c, "B"), longest = 0;
    for (const Json *l = lengths->child; l; l = l->next)
        if (num(l) > longest) longest = num(l);
    const Json *name = json_get(c, "name");
    if (longest > run.T + 1) {
        skip("the reference never gets rid of a conversation longer than a row", "SFT, %s",
             name->s);
        return;
    }
    Pack *p = pack_new(&o, sft_row, &run);
    while (run.batch) {
        uint32_t id[1000];
        uint8_t mask[1000];
        size_t n = (size_t)num(nth(lengths, at));
        const Json *m = nth(masks, at)->child;
        for (size_t k = 0; k < n; k++, m = m->next) {
            id[k] = (uint32_t)((size_t)at * 1000 + k);
            mask[k] = (uint8_t)num(m);
        }
        pack_add(p, id, mask, n);
        pack_run(p);
        at = (at + world) % lengths->n;
    }
    ok(run.rows == rows && run.wrong == 0, "SFT, %s: %d rows, %d wrong", name->s, run.rows,
       run.wrong);
    pack_end(p);
}

int main(void)
{
    Arena a = {0};
    const Json *c = load(&a, "tests/golden/data/i_packing_pretrain.json")->child;
    for (; c; c = c->next) pretrain(c);
    for (c = load(&a, "tests/golden/data/i_packing_sft.json")->child; c; c = c->next) sft(c);
    arena_free(&a);
    return done();
}
