/* encode.h -- documents to tokens, by several threads that share one ring of batches.
 *
 * A batch is about 1 MB of whole lines, or a part of one long text. Each thread does what is there
 * to do: write the next batch in order, encode one that was read, or read one. So memory does not
 * depend on the length of the input, only on that of its longest line: about twice that, and 18 MB
 * a thread. */
#ifndef TOK_ENCODE_ENCODE_H
#define TOK_ENCODE_ENCODE_H
#include "base/progress.h"
#include "text/chat.h"
#include "text/docs.h"
#include "text/enc.h"
#include <stdbool.h>

enum { SPECIAL_ORDINARY, SPECIAL_ALLOW, SPECIAL_DENY };

typedef struct Encode {
    const Tok *tok;
    const char *tok_file, *output;
    bool ids;                   /* text: ids on a line */
    bool text;                  /* plain text in: a file is a document */
    int threads, invalid;       /* DOCS_STRICT, DOCS_REPLACE */
    int bos, eos;               /* ids, -1: none */
    int special;                /* names of special tokens in text */
    bool chats, completion;     /* conversations in, with loss masks; without their last answer */
    ChatKind template;
    int64_t max_tokens;         /* 0: all */
    int64_t shard_size;         /* tokens after which another output file begins; 0: none */
    int shards;                 /* output files that take turns; 0: one, named `output` */
    size_t block;               /* bytes in a batch */
    /* what came of it */
    uint64_t documents, bytes, tokens, cut, replaced;
    uint64_t counting, counting_cut;    /* tokens of mask 1: written, cut */
} Encode;

/* Encode files[0..n), or stdin if there are none. Dies on bad input and if there is no document. */
void encode_run(Encode *e, char **files, int n);

/* ---- the parts: feed.c reads, work.c encodes, sink.c writes ------------------------------ */

extern const char no_chat[];    /* why a row of messages is refused */

typedef struct Batch {
    DocBlock in;                /* whole lines; or a part of a text, the whole of in.b */
    const char *name;           /* of the file */
    bool file_begins;           /* first batch of its file */
    bool part, first, last;     /* part of one text; its first, its last */
    uint64_t at;                /* part: where it begins, a byte of the text (the file, if plain) */
    uint64_t line;              /* part: of the row that it is in; 0: plain text */
    TokOut out;
    ChatIds chat;               /* conversations: in place of out */
    size_t *len; size_t docs, cap;      /* tokens of each document; a part is one */
    uint64_t bytes, cut, bad;
    DocError err;               /* why: no more after the documents that are here */
    enum { FREE, BUSY, READY, DONE } state;
    int owner;                  /* the thread that used its buffers last */
} Batch;

typedef struct Feed Feed;
Feed *feed_new(const Encode *e, char **files, int n);
bool feed_next(Feed *f, Batch *b);              /* false at the end */
void feed_free(Feed *f);

typedef struct Worker Worker;
Worker *worker_new(const Encode *e, const Worker *like);        /* like: to share with, or NULL */
void worker_encode(Worker *w, Batch *b);
void worker_free(Worker *w);

typedef struct Sink Sink;
Sink *sink_new(Encode *e);
void sink_batch(Sink *s, const Batch *b);       /* in the order they were read; dies of b->err */
void sink_close(Sink *s);

/* Is there a special token's name across s[at]? For cutting texts. */
typedef struct Specials Specials;
Specials *specials_new(const Tok *t);
/* The first name in s[i..n), the longest that begins there: where, its id and length. n: none. */
size_t specials_find(const Specials *p, const char *s, size_t n, size_t i, int *id, size_t *len);
size_t specials_longest(const Specials *p);
void specials_free(Specials *p);

#endif
