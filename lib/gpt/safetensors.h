/* safetensors.h -- reading and writing the safetensors format (8-byte header length, JSON header,
 * raw little-endian data). Strict: header at most 100 MB, offsets tile the data without overlap or
 * hole, shapes times width equal the span (64-bit checked), no duplicate names, no trailing bytes;
 * otherwise dies "FILE: not a valid safetensors file: why". Data is read when asked for.
 *
 * The format has no checksums. Files of stw_hash() have them in __metadata__, which other programs pass
 * over: "xxh3", of each tensor's bytes, in the order of the data, XXH3's 64 bits in 16 hexadecimal
 * digits. A tensor that is read from its beginning to its end, in one or more calls with no other
 * between them, is compared with its own; st_read_at() dies if it differs. */
#ifndef GPT_SAFETENSORS_H
#define GPT_SAFETENSORS_H
#include "base/io.h"
#include "base/json.h"
#include "gpt/narrow.h"
#include "ops/ops.h"

#define ST_HASHES "xxh3"

typedef enum {
    ST_F64, ST_F32, ST_F16, ST_BF16, ST_I64, ST_I32, ST_I16, ST_I8, ST_U8, ST_BOOL, ST_OTHER
} StType;

typedef struct StTensor {
    const char *name; const char *dtype_name; StType dtype;
    int ndim; int64_t dim[8]; int64_t n;        /* elements */
    uint64_t off, bytes;                        /* in the file's data */
} StTensor;

typedef struct StFile StFile;
StFile *st_open(const char *path);
int st_count(const StFile *f);
const StTensor *st_at(const StFile *f, int i);                  /* in the order of the data */
const StTensor *st_find(const StFile *f, const char *name);     /* NULL if absent */
const Json *st_meta(const StFile *f);                           /* __metadata__, or NULL */
bool st_is_real(const StTensor *t);                             /* can st_read() convert it? */
void st_read(const StFile *f, const StTensor *t, real *out);    /* floats and I32, converted */
void st_read_at(const StFile *f, const StTensor *t, int64_t first, int64_t n, real *out);
void st_read_i32(const StFile *f, const StTensor *t, int32_t *out);
void st_close(StFile *f);

typedef struct StWriter StWriter;
/* Declare all tensors first, then write their data in that order: bounded memory. F32 (F64 when
 * real is double) if nothing else was asked for before a tensor is added. out or fd stays the caller's to close. */
StWriter *stw_new(void);
void stw_narrow(StWriter *w, Narrow type);              /* F32, F16 or BF16, of what is added then */
void stw_meta(StWriter *w, const char *key, const char *value);
void stw_hash(StWriter *w);                             /* for stw_begin_fd(): with checksums */
void stw_add(StWriter *w, const char *name, int ndim, const int64_t *dim);
uint64_t stw_size(StWriter *w);                         /* of the whole file; add nothing after */
void stw_begin(StWriter *w, Out *out);                  /* writes the header; a failed write dies */
void stw_begin_fd(StWriter *w, int fd);                 /* a failure is kept for stw_end() */
void stw_data(StWriter *w, const real *x, int64_t n);   /* of the next tensor(s), any split */
void stw_discard(StWriter *w);                          /* frees w, written or not */
int stw_end(StWriter *w);   /* all data must have come; frees w; 0, or errno of the first failure */

#endif
