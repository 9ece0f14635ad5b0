/* Task bpb: bits per byte on row shards. */
#include "gpt/bpb.h"
#include "base/progress.h"
#include "eval.h"
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

/* A batch at a time, so that progress shows. */
static Bpb bpb_of(Subject *s, const Data *d, uint64_t rows, int B)
{
    BpbEval e;
    Bpb sum = {0};
    Progress p = { .what = "bpb", .unit = "rows", .total = rows };
    bpb_eval_init(&e, s->m->ops, B, (int)d->head.T);
    e.docs = opt.doc_mask;
    progress(&p, 0);
    for (uint64_t r = 0; r < rows; ) {
        uint64_t n = rows - r < (uint64_t)B ? rows - r : (uint64_t)B;
        bpb_rows(&e, s->m, &s->tape, d, r, n, tok_byte_lengths(s->tok), &sum);
        r += n;
        progress(&p, r);
    }
    progress_end(&p);
    bpb_eval_free(&e);
    return sum;
}

void bpb_task(Subject *s, const StrList *shards, Out *out)
{
    Data *d = data_open(shards);
    data_require(d, tok_hash(s->tok), tok_vocab(s->tok), 0);
    if (opt.doc_mask && d->head.bos == UINT32_MAX)
        die("%s: its tokenizer has no <|bos|>, by which --doc-mask finds documents", d->path[0]);
    int T = s->m->cfg.T;
    if (d->head.T > (uint32_t)T)
        die("%s: rows of T %" PRIu32 ", but the model in %s has a context of %d", d->path[0],
            d->head.T, s->dir, T);
    uint64_t rows = opt.limit && (uint64_t)opt.limit < d->head.rows ? (uint64_t)opt.limit
                                                                    : d->head.rows;
    int most = INT_MAX / 4 / (int)d->head.T;
    int B = opt.batch ? opt.batch : BATCH_TOKENS / (int)d->head.T;
    if (B < 1) B = 1;
    if (B > most) die_usage("--batch: %d rows of T %" PRIu32 " are too many", B, d->head.T);
    if ((uint64_t)B > rows) B = (int)rows;
    Bpb r = bpb_of(s, d, rows, B);
    if (!isfinite(r.all))
        die("%s: the model's losses are not finite: its weights are damaged or its training diverged",
            s->dir);
    Buf b = {0};
    buf_str(&b, "{\"task\": \"bpb\"");
    rec_num(&b, "bpb", bpb_value(&r));
    rec_num(&b, "loss", bpb_loss(&r));
    rec_count(&b, "tokens", r.tokens);
    rec_count(&b, "bytes", r.bytes);
    rec_count(&b, "rows", r.rows);
    rec_str(&b, "model", s->dir, strlen(s->dir));
    buf_char(&b, '}');
    rec_write(out, &b);
    buf_free(&b);
    data_free(d);
}
