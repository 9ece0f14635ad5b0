/* pack.h -- documents into rows of T+1 tokens, by best fit (nanochat's packers).
 *
 *     Pack *p = pack_new(&(PackOpt){ .T = 2048, .bos = bos, .buffer = 1000 }, write_row, w);
 *     while (documents) pack_add(p, id, mask, n), pack_run(p);
 *     PackStat s = pack_end(p);
 *
 * A buffer of documents is kept. Whenever it holds `buffer` of them (pack_run), the longest that
 * fits into what is left of the row is placed; of equal lengths, the one added first. If none fits:
 *   pretraining   the shortest (of equal ones, the first) is cropped to fill the row exactly; the
 *                 rest of it is lost. Rows are full of text.
 *   keep_tails    the same, but the rest goes back to the buffer as a document that begins with a
 *                 bos of its own; documents longer than a row are cut into such pieces at once.
 *   sft           the row is padded with bos, mask 0. A conversation longer than T+1 cannot be
 *                 placed whole: it is cut to T+1 tokens, or dropped with drop_long.
 * pack_end() empties the buffer by the same rules. What then fills no whole row is dropped in
 * pretraining and padded in sft. Always in + added = out + cropped + dropped.
 *
 * Exact, and O(log) per document whatever the buffer. Memory: buffer * (T+1) * 5 bytes at most; the
 * queues take 8 bytes for each length up to T+1. */
#ifndef TEXT_PACK_H
#define TEXT_PACK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct PackOpt {
    uint32_t T;
    uint32_t bos;               /* padding of sft */
    uint32_t buffer;            /* documents, at least 1 */
    bool sft, drop_long;
    bool keep_tails;            /* pretraining: needs bos */
    bool masks;                 /* documents come with masks, rows go with them */
} PackOpt;

typedef struct PackStat {
    uint64_t docs, in;          /* documents and tokens that came in */
    uint64_t rows, out;         /* rows, and tokens of documents in them */
    uint64_t cropped;           /* tokens lost at the end of a document that was cropped or cut */
    uint64_t dropped;           /* tokens of a last row not full, and of documents dropped whole */
    uint64_t added;             /* tokens bos put before kept tails */
    uint64_t padding;           /* out + padding = rows * (T+1) */
    uint64_t cut_docs, dropped_docs;    /* cropped or cut; dropped whole */
    uint64_t mask_in, mask_out; /* tokens with mask 1 that came in, and in rows */
    uint64_t idle_rows;         /* rows with masks in which no target (token 1 to T) has mask 1 */
} PackStat;

typedef struct Pack Pack;
/* id and mask (NULL without masks) hold T+1 and live only during the call. */
typedef void PackRow(void *arg, const uint32_t *id, const uint8_t *mask);

Pack *pack_new(const PackOpt *o, PackRow *row, void *arg);
/* A document, copied; n may be 0. */
void pack_add(Pack *p, const uint32_t *id, const uint8_t *mask, size_t n);
void pack_run(Pack *p);         /* place documents until fewer than `buffer` are left */
PackStat pack_end(Pack *p);     /* the rest; frees p */

#endif
