/* docs.h -- reading documents: JSON Lines with {"text": ...} or {"messages": [...]}.
 *
 * Input may be gzip (io.h). A byte-order mark at the start and blank lines are skipped, CR LF is
 * accepted, the last line may lack its LF. A bad line dies: "FILE: line N: why". */
#ifndef TEXT_DOCS_H
#define TEXT_DOCS_H
#include "base/io.h"
#include "base/json.h"

typedef struct Doc {
    const Json *row;            /* the whole object; valid until the next doc_next() */
    const char *text; size_t len;       /* "text", or NULL */
    const Json *messages;       /* "messages", or NULL */
    uint64_t line;
} Doc;

typedef struct DocReader DocReader;
DocReader *docs_open(const char *path);         /* "-" is stdin */
bool doc_next(DocReader *r, Doc *d);            /* false at the end */
const char *docs_name(const DocReader *r);
void docs_close(DocReader *r);

#endif
