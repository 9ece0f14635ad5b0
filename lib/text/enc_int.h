/* enc_int.h -- inside the encoder: the ways to encode one piece that no table knows. They give the
 * same ids; tests compare them. */
#ifndef TEXT_ENC_INT_H
#define TEXT_ENC_INT_H
#include "text/tok.h"

#define NO_ID UINT32_MAX

typedef struct EncModel EncModel;               /* read-only once made; shared by threads */
EncModel *encmodel_new(const Tok *t);
EncModel *encmodel_share(EncModel *m);
void encmodel_free(EncModel *m);
const Tok *encmodel_tok(const EncModel *m);

/* The merge of two tokens of a plain tokenizer, or NO_ID. */
uint32_t encmodel_pair(const EncModel *m, uint32_t a, uint32_t b);

/* out has room for n ids; returns how many. Plain tokenizers only:
 * scan: the lowest merge is searched for each time; n <= SCAN_MAX. O(n^2), quick where n is small.
 * walk: O(n), see enc_walk.c. Only if walk_can(). */
enum { SCAN_MAX = 64 };
size_t enc_scan(const EncModel *m, const char *s, size_t n, uint32_t *out);

typedef struct WalkRoom { uint64_t *dead; size_t words; } WalkRoom;     /* {0} is empty */
bool walk_can(EncModel *m);                     /* makes its tables at the first call; any thread */
size_t enc_walk(const EncModel *m, WalkRoom *r, const char *s, size_t n, uint32_t *out);

struct WalkTables;
struct WalkTables *walk_tables_new(const EncModel *m, const Tok *t);    /* NULL: cannot */
void walk_tables_free(struct WalkTables *w);
struct WalkTables *encmodel_walk(const EncModel *m);

/* For tests: an encoder whose table has 2^bits entries of pieces. */
TokEnc *tokenc_sized(const Tok *t, int bits);
void *huge_alloc(size_t n);                     /* zeroed, on large pages if there are; free() */

#endif
