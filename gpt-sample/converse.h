/* converse.h -- a conversation with a person: lines from stdin, answers as they come to stdout. */
#ifndef GPT_SAMPLE_CONVERSE_H
#define GPT_SAMPLE_CONVERSE_H
#include "session.h"

typedef struct Converse {
    Settings set;
    const char *system;             /* NULL: none */
    const char *output;
    int strict;                     /* no turn is left out: refuse what does not fit */
} Converse;

void converse(Session *s, const Converse *c);           /* until /quit or the end of stdin */

#endif
