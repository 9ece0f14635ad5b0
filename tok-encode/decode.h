/* decode.h -- tokens to documents. */
#ifndef TOK_ENCODE_DECODE_H
#define TOK_ENCODE_DECODE_H
#include "text/tok.h"

typedef struct Decode {
    const Tok *tok;
    const char *tok_file, *output;
    bool ids;                   /* from text: ids on a line */
    bool raw;                   /* to bare bytes */
} Decode;

/* The files argv[1..n], or stdin if there are none. */
void decode_all(const Decode *d, int n, char **argv);

#endif
