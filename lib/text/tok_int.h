/* tok_int.h -- how the readers of tokenizer files make a Tok, and what the writers see; only
 * lib/text/{tok,tokfile,tiktoken,hf,piece,convert,reach,words}.c include it.
 *
 * tok_begin(), then tokens and special tokens in any order, the pattern, then merges in the order
 * of rank or tok_merge_by_rank(); tok_end() checks the whole. All of them die "NAME: why". */
#ifndef TEXT_TOK_INT_H
#define TEXT_TOK_INT_H
#include "text/tok.h"

#define TOK_MAX_NAME 255
#define TOK_MAX_SPECIALS 65536
#define TOK_MAX_UNREACHED 1024          /* bytes of a token where merges go by rank */

typedef struct PairSlot { uint32_t a, b, id1, rank; } PairSlot;         /* id + 1; 0 is empty */
typedef struct Span { uint32_t at, n; } Span;          /* TOK_MAX_BYTES and names: below 2^32 */

struct Tok {
    const char *name;           /* for messages while it is made; not owned */
    int vocab, max_len;
    size_t ordinary, specials;
    Buf bytes;
    Span *span;                 /* [vocab] bytes of an id; n 0: not used */
    int32_t *len;               /* [vocab] the same for ordinary tokens, 0 for all others */
    int byte_id[256];
    int special[SP_COUNT];
    uint32_t (*pair)[2]; size_t merges, pair_cap;       /* in the order of rank */
    PairSlot *_Atomic pairs;    /* NULL until the first is asked for */
    size_t npairs, pair_mask;   /* slots - 1: 2^k - 1 */
    uint32_t *ids; size_t id_mask;                      /* by bytes: id + 1, 0 is empty */
    bool by_rank;               /* any two tokens merge whose bytes are a token's; rank = its id */
    bool whole;                 /* a piece that is a token is that token */
    bool words;                 /* see tok_words() */
    bool nfc;                   /* the tokenizer wants text in Unicode's form NFC */
    bool out_of_order;          /* merge k is not of two smaller ids to id 256 + k, for some k */
    struct Tok *renumbered; uint32_t *renumbered_ids;   /* see tok_renumbered(); or NULL */
    bool plain, version1;       /* version1: all of it fits the first version of the .tok file */
    SplitKind kind;
    char *pattern;
    uint64_t hash;              /* 0 until tok_end(), unless the file says what it is */
};

Tok *tok_begin(const char *name, size_t tokens, uint64_t vocab);       /* at most `tokens` come */
void tok_put(Tok *t, uint64_t id, const char *s, size_t n);
void tok_put_special(Tok *t, uint64_t id, const char *s, size_t n);
/* The pattern's kind must be known; portable: see split_other.h. */
void tok_put_pattern(Tok *t, const char *s, size_t n, bool portable);
void tok_put_merge(Tok *t, uint32_t a, uint32_t b);     /* makes the token with the bytes of both */
/* Instead, before all else: 256 bytes and m, pairs of two u32, the tokens 256 on. */
void tok_put_plain(Tok *t, const char *m, size_t merges);
void tok_merge_by_rank(Tok *t);         /* by every split of every token; drops merges so far */
Tok *tok_end(Tok *t);                                   /* returns t */

/* Bytes, merges (m: 8 bytes each, two u32) and nanochat's pattern; `specials` are still to come. */
Tok *tok_of_pairs(const char *name, const char *m, size_t merges, size_t specials);

/* Does merging alone make each token from its bytes? Then a piece that is one comes to that token
 * either way. */
bool tok_all_reached(const Tok *t);
bool merges_reach_all(const Tok *plain);                /* the same; see reach.c */
PairSlot *tok_slot(const Tok *t, uint32_t a, uint32_t b);
/* tok_piece() without regard to whether the whole piece is a token. */
void tok_merge_piece(const Tok *t, PieceRoom *r, const char *s, size_t n, Ids *out);

/* From bytes. `name` says what they are in messages. */
Tok *tok_parse(const char *name, const char *s, size_t n, int kind);    /* any of the three */
Tok *tokfile_parse(const char *name, const char *s, size_t n);
bool tiktoken_like(const char *s, size_t n);            /* does it begin as such a file does? */
Tok *tiktoken_parse(const char *name, const char *s, size_t n, SplitKind kind);
Tok *hf_parse(const char *name, const char *s, size_t n);
/* To bytes; other formats: convert.h. */
void tokfile_print(const Tok *t, Buf *b);               /* all but the hash at its end */

#endif
