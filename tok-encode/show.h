/* show.h -- tokens made visible: coloured on a terminal, with "|" between them elsewhere. */
#ifndef SHOW_H
#define SHOW_H
#include "text/chat.h"

typedef struct ShowOptions {
    const char *output;
    bool ids;               /* the id after each token */
    bool stream;            /* the input is token streams, not documents */
    bool bos;               /* documents begin with <|bos|> */
    bool chats, completion; /* conversations */
    int invalid;            /* DOCS_STRICT, DOCS_REPLACE; not of token streams */
    size_t most;            /* tokens of a document; SIZE_MAX: all */
    ChatKind template;
} ShowOptions;

/* The n files argv[1 ..], or stdin if n is 0. A document is a line (on a terminal, more). */
void show_all(const Tok *t, const char *tok_file, int n, char **argv, const ShowOptions *o);

#endif
