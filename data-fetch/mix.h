/* mix.h -- rows of several sources, each taken some times, in an order made of all of them.
 *
 * MIX_HASH: by XXH3 of (seed, the source's name, epoch, row): an external sort in bounded memory,
 * whose result depends on nothing else; another source does not reorder the rest. A source taken
 * 2.5 times has each row in epochs 0 and 1, and of epoch 2 the half that comes first.
 * MIX_NANOCHAT: NumPy's permutation of each source, of which a slice may be taken, then the list of
 * all (source, row) pairs shuffled as CPython does (order.h). Rows lie in an unlinked file; memory:
 * 8 bytes a row, and 24 for each that is put out. */
#ifndef DATA_FETCH_MIX_H
#define DATA_FETCH_MIX_H
#include "base/buf.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum { MIX_HASH, MIX_NANOCHAT } MixKind;
typedef struct Mix Mix;

/* source: number, from 0, of the source; index: of the row in it. false: no more are wanted. */
typedef bool MixEach(void *arg, int source, uint64_t index, const char *s, size_t n);

/* mem: bytes for sorting (MIX_HASH); dir: where runs go. */
Mix *mix_new(MixKind kind, uint64_t seed, size_t mem, const char *dir);
/* The rows that follow are of this one. times: whole for MIX_NANOCHAT; [from, to): of its rows, for
 * MIX_NANOCHAT after its permutation. */
void mix_source(Mix *m, const char *name, double times, uint64_t from, uint64_t to);
void mix_add(Mix *m, const char *s, size_t n);
void mix_run(Mix *m, MixEach *each, void *arg);         /* all of it, in order */
void mix_free(Mix *m);

#endif
