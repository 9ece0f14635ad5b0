/* words.h -- word-level vocabularies: the most frequent runs of white space and of all else. */
#ifndef TEXT_WORDS_H
#define TEXT_WORDS_H
#include "text/pieces.h"
#include "text/tok.h"

/* A tokenizer of at most `vocab` ids: <pad>, <unk>, <eos>, then pieces, the most frequent first, of
 * equally frequent ones the first by bytes. Sorts v. *known: how often those that are kept occur. */
Tok *words_train(Pieces *v, int vocab, uint64_t *known);

#endif
