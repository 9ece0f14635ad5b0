/* docs.h -- reading documents: JSON Lines with {"text": ...} or {"messages": [...]}.
 *
 * Input may be gzip (io.h). A byte-order mark at the start and blank lines are skipped, CR LF is
 * accepted, the last line may lack its LF. "text" must be a string, "messages" an array, and a row
 * must have at least one of them. A bad line dies: "FILE: line N: why". Memory is in proportion to
 * the longest line. */
#ifndef TEXT_DOCS_H
#define TEXT_DOCS_H
#include "base/io.h"
#include "base/json.h"

typedef struct Doc {
    const Json *row;            /* the whole object; valid until the next doc_next() */
    const char *text; size_t len;       /* "text", or NULL */
    const Json *messages;       /* "messages", or NULL */
    const char *raw; size_t raw_len;    /* the line as it stands, without BOM and line end */
    uint64_t line;
} Doc;

typedef struct DocReader DocReader;
DocReader *docs_open(const char *path);         /* "-" is stdin */
/* Go on with an open input, of which `lines` lines were consumed already (for messages). The reader
 * takes the input over. */
DocReader *docs_from(In *in, uint64_t lines);
bool doc_next(DocReader *r, Doc *d);            /* false at the end */
/* The next line that is not blank, not parsed at all: only d->raw, raw_len and line are set. */
bool doc_skip(DocReader *r, Doc *d);
const char *docs_name(const DocReader *r);
void docs_close(DocReader *r);

#endif
