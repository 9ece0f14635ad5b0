/* nfc.h -- Unicode's normalization form C, version 16.0: what some tokenizers do to text first. */
#ifndef TEXT_NFC_H
#define TEXT_NFC_H
#include "base/buf.h"
#include <stdbool.h>

/* Valid UTF-8 s[0..n) in form NFC: s itself if it is easy to see that it is so already, else in b
 * (cleared first); *m is its length. Linear, but for n log n where n marks stand in a row. */
const char *nfc(Buf *b, const char *s, size_t n, size_t *m);

enum { NFC_PAIRS = 2081, NFC_JOINS = 961 };     /* nfc16.c, made by nfc16.awk */
extern const uint32_t nfc_pair[NFC_PAIRS][3], nfc_loose[][3];
extern const uint16_t nfc_join[NFC_JOINS];
extern const int nfc_loose_n;

#endif
