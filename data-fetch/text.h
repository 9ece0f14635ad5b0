/* text.h -- plain text into documents, as a stream: bytes go in, documents come out.
 *
 * What separates documents, and belongs to none of them:
 *   blank   one or more empty lines. A document is a run of lines that are not empty, without the
 *           line end (LF or CR LF) of the last one. A line of spaces is not empty.
 *   line    the line end, LF or CR LF
 *   none    nothing: the whole input is one document
 *   SEP     every occurrence of that string, found from left to right
 * All other bytes are kept as they are. Documents of no bytes are counted and left out; after the
 * last separator there is no document unless bytes follow. Memory is in proportion to the longest
 * document. */
#ifndef DATA_FETCH_TEXT_H
#define DATA_FETCH_TEXT_H
#include "base/buf.h"
#include <stdbool.h>
#include <stdint.h>

typedef bool TextDoc(void *arg, const char *s, size_t n);       /* false: no more are wanted */

typedef enum { SPLIT_BLANK, SPLIT_LINE, SPLIT_NONE, SPLIT_SEP } SplitKind;

typedef struct Text {
    SplitKind kind;
    const char *sep; size_t sep_len;    /* SPLIT_SEP */
    TextDoc *doc; void *arg;
    Buf buf;                    /* from the start of the document being read */
    size_t seen;                /* bytes of it in which no separator begins */
    size_t line;                /* SPLIT_BLANK: where the line being read begins */
    uint64_t empty;             /* documents of no bytes so far */
    bool stop;
} Text;                         /* {0} but for kind, sep, doc, arg is a beginning */

bool text_feed(Text *t, const char *s, size_t n);   /* false once doc() returned false */
void text_end(Text *t);         /* the input ends: the last document; ready for another input */
void text_free(Text *t);

#endif
