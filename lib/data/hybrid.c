#include "data/hybrid.h"

bool hybrid_run(Hybrid *h)
{
    for (;;) {
        uint64_t head = 0;
        int shift = 0;
        uint8_t b;
        do {
            if (h->p == h->end || shift > 28) return false;
            b = *h->p++;
            head |= (uint64_t)(b & 127) << shift;
            shift += 7;
        } while (b & 128);
        uint64_t n = head >> 1, have = (uint64_t)(h->end - h->p);
        h->packed = head & 1;
        if (h->packed) {
            uint64_t bytes = n * (uint64_t)h->width;
            h->left = n * 8;
            if (bytes > have) {                 /* the last group may be cut after its values */
                h->left = h->width ? have * 8 / (uint64_t)h->width : h->left;
                bytes = have;
            }
            h->bits = h->p;
            h->at = 0;
            h->p += bytes;
        } else {
            size_t bytes = (size_t)(h->width + 7) / 8;
            if (bytes > have) return false;
            h->value = 0;
            for (size_t i = 0; i < bytes; i++) h->value |= (uint32_t)h->p[i] << 8 * i;
            if (h->width < 32 && h->value >> h->width) return false;
            h->left = n;
            h->p += bytes;
        }
        if (h->left) return true;
    }
}
