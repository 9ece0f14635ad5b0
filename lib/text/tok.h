/* tok.h -- a tokenizer: its files, and encoding.
 *
 * A tokenizer has ordinary tokens (every single byte is one), special tokens with names, a way to
 * split text into pieces, and merges; or it is one of words: pieces are tokens or unknown. Those of
 * bpe-train are plain, and so are some others: ids 0..255 are the bytes, 256 + k is what merge k
 * makes. In others the bytes have any ids, ids may have gaps, and there may be tokens that merging
 * cannot reach. A Tok is read-only once made and may be shared by threads; each thread encodes with
 * its own TokEnc. tok_load() dies on a file that is not a whole, valid tokenizer: "FILE: why".
 * Format: pipegpt-tok(5). Encoding equals tiktoken's encode_ordinary (or, for a tokenizer.json,
 * that of Hugging Face tokenizers), in time linear in the length of a piece (windows.h). */
#ifndef TEXT_TOK_H
#define TEXT_TOK_H
#include "base/buf.h"
#include "text/split_other.h"
#include <stdbool.h>

typedef struct Tok Tok;

/* nanochat's nine, in id order */
enum { SP_BOS, SP_USER_START, SP_USER_END, SP_ASSISTANT_START, SP_ASSISTANT_END, SP_PYTHON_START,
       SP_PYTHON_END, SP_OUTPUT_START, SP_OUTPUT_END, SP_COUNT };
extern const char *const special_names[SP_COUNT];       /* "<|bos|>", ... */

/* What a file may ask for: expanded, merges can double n times. A trainer stops before these. */
#define TOK_MAX_MERGES (1 << 24)
#define TOK_MAX_LEN    (1 << 20)        /* bytes of one token */
#define TOK_MAX_BYTES  (1 << 28)        /* bytes of all tokens */

/* A .tok file, a Hugging Face tokenizer.json (byte-level BPE), or ranks as tiktoken has them: told
 * apart by content. Ranks name no pattern: they need a kind, which for the others must be -1. */
Tok *tok_load(const char *path);                                /* = tok_load_as(path, -1) */
Tok *tok_load_as(const char *path, int kind);
/* Merge k makes id 256 + k of two smaller ids. Adds the nine specials; impossible merges die. */
Tok *tok_from_merges(const uint32_t (*pair)[2], size_t n);
/* The same with the special tokens of `like` instead, in the order of their ids; it is tok_simple(). */
Tok *tok_from_merges_like(const uint32_t (*pair)[2], size_t n, const Tok *like);
void tok_save(const Tok *t, const char *path);                  /* atomic */
struct Out;
void tok_write(const Tok *t, struct Out *o);                    /* to an output that is open */
void tok_print(const Tok *t, Buf *b);                           /* the file's bytes, added */
void tok_free(Tok *t);

int tok_vocab(const Tok *t);                    /* ids are less than this, special ones too */
uint64_t tok_hash(const Tok *t);                /* XXH3 of the .tok file: names it in data */
int tok_special(const Tok *t, int which);       /* id of SP_...; -1 if this tokenizer has none */
int tok_named(const Tok *t, const char *name);  /* id of the special token of that name, or -1 */
bool tok_is_special(const Tok *t, int id);
/* The bytes of id: raw bytes of an ordinary token, the name of a special one, none (0) of an id
 * that is not used. id in range. */
const char *tok_bytes(const Tok *t, int id, size_t *len);
/* Bytes per id for bits-per-byte: raw length, 0 for special tokens. [tok_vocab] */
const int32_t *tok_byte_lengths(const Tok *t);
int tok_max_length(const Tok *t);               /* of an ordinary token, bytes */

bool tok_plain(const Tok *t);                   /* see above */
/* Plain, split as nanochat does, special tokens directly after the merges, and nothing else. */
bool tok_simple(const Tok *t);
/* Has it words instead of merges? A piece that is no token is then <unk>, and <eos> stands where
 * other tokenizers have <|bos|>: tok_special(t, SP_BOS). */
bool tok_words(const Tok *t);
extern const char *const word_specials[3];              /* "<pad>", "<unk>", "<eos>", ids 0 to 2 */
bool tok_whole(const Tok *t);                   /* a piece that is a token becomes that token */
SplitKind tok_split(const Tok *t);
const char *tok_pattern(const Tok *t);          /* as it stands in the file */
bool tok_nfc(const Tok *t);                     /* text is put into form NFC first (nfc.h) */
int tok_byte_id(const Tok *t, unsigned char b);         /* -1 only if words */
/* Of a plain tokenizer: how many merges, and the pairs. Otherwise 0. */
size_t tok_merges(const Tok *t, const uint32_t (**pair)[2]);
/* Of a tokenizer that is not plain: a plain one with the same merges in the same order, for merging
 * only; (*ids)[its id] is the id in t. Both belong to t. NULL: t is plain, or its merges go by rank
 * or do not make one new token each. */
const Tok *tok_renumbered(const Tok *t, const uint32_t **ids);
/* Merge of a and b: its id, or -1. Ordinary token with these bytes: its id, or -1. */
int tok_pair(const Tok *t, uint32_t a, uint32_t b);
int tok_find(const Tok *t, const char *s, size_t n);

typedef struct Ids { uint32_t *id; size_t n, cap; } Ids;        /* {0} is empty */
void ids_add(Ids *v, uint32_t id);
void ids_free(Ids *v);

/* One piece, with any tokenizer: what a faster encoder of plain ones must equal, and what it calls
 * for the others. {0} is an empty PieceRoom. */
typedef struct PieceRoom { uint32_t *id; uint64_t *heap; size_t cells, n, cap; } PieceRoom;
void tok_piece(const Tok *t, PieceRoom *r, const char *s, size_t n, Ids *out);
void piece_free(PieceRoom *r);

typedef struct TokEnc TokEnc;
TokEnc *tokenc_new(const Tok *t);
void tokenc_free(TokEnc *e);
/* Append the ids of text s[0..n) to out: ordinary tokens only, whatever s says. Invalid UTF-8 is
 * repaired first (utf8.h); returns how many replacements that took. */
uint64_t tok_encode(TokEnc *e, const char *s, size_t n, Ids *out);

#endif
