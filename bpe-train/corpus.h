/* corpus.h -- documents and tables of counts to a counter, by the rules of the corpus: a text is
 * cut to its first doc_cap characters; reading stops after the text with which more than max_chars
 * were used. Bad input dies: "FILE: line N: why". */
#ifndef CORPUS_H
#define CORPUS_H
#include "text/count_file.h"
#include "base/progress.h"

typedef struct Corpus {
    Counter *counter;
    bool words;                         /* pieces are words: tables of counts are none */
    uint64_t doc_cap, max_chars;        /* 0: no limit */
    int invalid;                        /* DOCS_STRICT, DOCS_REPLACE */
    CountInfo info;                     /* what was used */
    uint64_t bad;                       /* ill-formed sequences replaced */
    Progress line;
} Corpus;

bool corpus_add(Corpus *c, const char *path);   /* "-" is stdin; false: that was enough */

#endif
