/* docs.h -- reading documents: JSON Lines with {"text": ...} or {"messages": [...]}.
 *
 * Input may be gzip (io.h). A byte-order mark at the start and blank lines are skipped, CR LF is
 * accepted, the last line may lack its LF. "text" must be a string, "messages" an array, and a row
 * must have at least one of them. A bad line dies: "FILE: line N: why". Memory is in proportion to
 * the longest line.
 *
 * Bytes that are not UTF-8 make a line bad, or with DOCS_REPLACE become U+FFFD, one for each
 * maximal ill-formed subpart, and are counted. */
#ifndef TEXT_DOCS_H
#define TEXT_DOCS_H
#include "base/io.h"
#include "base/json.h"

enum { DOC_PAD = 64 };          /* bytes that may be read after a text, whatever they are */

typedef struct Doc {
    const char *text; size_t len;       /* "text", or NULL; DOC_PAD readable bytes follow */
    const Json *messages;       /* "messages", or NULL */
    const char *raw; size_t raw_len;    /* the line as it stands, without BOM and line end */
    uint64_t line;
    uint64_t bad;               /* ill-formed sequences replaced in this line */
} Doc;                          /* all of it lives until the next one */

enum { DOCS_STRICT, DOCS_REPLACE };

typedef struct DocReader DocReader;
DocReader *docs_open(const char *path);         /* "-" is stdin; DOCS_STRICT */
/* Go on with an open input, of which `lines` lines were consumed already (for messages). The reader
 * takes the input over. */
DocReader *docs_from(In *in, uint64_t lines);
void docs_invalid(DocReader *r, int policy);
bool doc_next(DocReader *r, Doc *d);            /* false at the end */
/* The next line that is not blank, not parsed at all: only d->raw, raw_len and line are set. */
bool doc_skip(DocReader *r, Doc *d);
/* The whole object of the document that doc_next() gave last; made when asked for. */
const Json *doc_row(DocReader *r);
const char *docs_name(const DocReader *r);
void docs_close(DocReader *r);

/* ---- for several threads: one reads blocks of whole lines, each parses blocks of its own ---- */

typedef struct DocBlock {
    Buf b; size_t at;           /* lines, DOC_PAD readable bytes; where the next begins */
    uint64_t line;              /* lines of this block that were given out, blank ones as well */
    bool first;                 /* a byte-order mark at its beginning is none of the text */
} DocBlock;                     /* {0} is empty; buf_free(&block.b) in the end */

/* The next whole lines, about `want` bytes of them: less than that only at the end, more only if
 * one line is longer. false at the end. Not to be mixed with doc_next(). */
bool docs_block(DocReader *r, DocBlock *b, size_t want);

typedef struct DocParser DocParser;             /* one for each thread */
DocParser *docp_new(int policy);
typedef struct DocError { const char *why; uint64_t line; size_t byte; } DocError;      /* from 1 */
/* The next document of the block; d->line and e->line count in it. 1; 0: no more; -1: a bad line
 * (e->byte is 0 if all of it is). */
int docp_next(DocParser *p, DocBlock *b, Doc *d, DocError *e);
void docp_free(DocParser *p);
/* Dies as doc_next() would; e->line counts in the whole file here. */
_Noreturn void doc_die(const char *name, const DocError *e);

#endif
