/* hybrid.h -- Parquet's run-length / bit-packed hybrid, read one number at a time.
 *
 * (github.com/apache/parquet-format, Encodings.md, "RLE".) A run is a varint h: h & 1 is 0: the
 * next ceil(width/8) bytes are a value, h >> 1 times; else h >> 1 groups of 8 values, width bits
 * each, from the least significant bit on. Holds no memory of its own, so a run of 2^31 costs
 * nothing. */
#ifndef DATA_HYBRID_H
#define DATA_HYBRID_H
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct Hybrid {
    const uint8_t *p, *end;     /* what is not begun; where it ends */
    const uint8_t *bits;        /* of a packed run */
    uint64_t left, at;          /* values left of this run; its next one's first bit */
    uint32_t value;             /* of a repeated run */
    int width;                  /* 0 to 32 bits */
    bool packed;
} Hybrid;

bool hybrid_run(Hybrid *h);     /* the next run; false: there is none, or it is not whole */

/* false at the end of the data, or where it is damaged. */
static inline bool hybrid_next(Hybrid *h, uint32_t *x)
{
    if (h->left == 0 && !hybrid_run(h)) return false;
    h->left--;
    if (!h->packed) {
        *x = h->value;
        return true;
    }
    uint64_t w = 0;
    const uint8_t *p = h->bits + h->at / 8;
    if (h->end - p >= 8) memcpy(&w, p, 8);      /* little-endian, as everything here */
    else memcpy(&w, p, (size_t)(h->end - p));
    *x = (uint32_t)(w >> h->at % 8 & (((uint64_t)1 << h->width) - 1));
    h->at += (uint64_t)h->width;
    return true;
}

#endif
