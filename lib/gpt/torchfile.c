/* torchfile.c -- see torchfile.h. The archive has the fields of ZIP64 always, so that one way
 * serves all sizes. */
#include "gpt/torchfile.h"
#include "gpt/narrow.h"
#include "text/convert.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- pickles: the few opcodes that are needed --------------------------------- */

static void op(Buf *b, const char *s) { buf_str(b, s); }

static void le(Buf *b, uint64_t x, int n)
{
    for (int i = 0; i < n; i++) buf_char(b, (char)(x >> 8 * i));
}

static void text(Buf *b, const char *s, size_t n)       /* BINUNICODE */
{
    buf_char(b, 'X');
    le(b, n, 4);
    buf_add(b, s, n);
}

static void word(Buf *b, const char *s) { text(b, s, strlen(s)); }

static void integer(Buf *b, int64_t x)                  /* LONG1 of 8 bytes, x >= 0 */
{
    op(b, "\x8a\x08");
    le(b, (uint64_t)x, 8);
}

static void tuple(Buf *b, int n, const int64_t *x)
{
    op(b, "(");
    for (int i = 0; i < n; i++) integer(b, x[i]);
    op(b, "t");
}

/* torch._utils._rebuild_tensor_v2(storage, 0, shape, strides, False, OrderedDict()) */
static void tensor(Buf *b, const char *storage, int key, int ndim, const int64_t *dim)
{
    char name[16];
    int64_t n = ndim == 2 ? dim[0] * dim[1] : dim[0], stride[2] = { ndim == 2 ? dim[1] : 1, 1 };
    snprintf(name, sizeof name, "%d", key);
    op(b, "ctorch._utils\n_rebuild_tensor_v2\n((");
    word(b, "storage");
    buf_printf(b, "ctorch\n%s\n", storage);
    word(b, name), word(b, "cpu"), integer(b, n);
    op(b, "tQ");
    integer(b, 0);
    tuple(b, ndim, dim);
    tuple(b, ndim, stride);
    op(b, "\x89" "ccollections\nOrderedDict\n)RtR");
}

/* ---- the archive -------------------------------------------------------------- */

typedef struct Zip { Out *out; Buf central; uint64_t at, entries; } Zip;

/* Before the data of an entry, whose sum of 32 bits and length must be known. */
static void entry(Zip *z, const char *name, uint32_t crc, uint64_t size)
{
    Buf b = {0}, common = {0};
    char *path = xasprintf("archive/%s", name);
    size_t n = strlen(path);
    le(&common, 45, 2);                     /* version needed: ZIP64 */
    le(&common, 0, 2), le(&common, 0, 2);   /* flags; stored */
    le(&common, 0, 2), le(&common, 0x21, 2);            /* time; date: 1980-01-01 */
    le(&common, crc, 4);
    le(&common, UINT32_MAX, 4), le(&common, UINT32_MAX, 4);     /* sizes: see the extra field */
    le(&common, n, 2);
    le(&b, 0x04034b50, 4);
    buf_add(&b, common.s, common.n);
    le(&b, 20, 2);
    buf_add(&b, path, n);
    le(&b, 1, 2), le(&b, 16, 2), le(&b, size, 8), le(&b, size, 8);

    Buf *c = &z->central;
    le(c, 0x02014b50, 4), le(c, 45, 2);
    buf_add(c, common.s, common.n);
    le(c, 28, 2), le(c, 0, 2), le(c, 0, 2), le(c, 0, 2), le(c, 0, 4), le(c, UINT32_MAX, 4);
    buf_add(c, path, n);
    le(c, 1, 2), le(c, 24, 2), le(c, size, 8), le(c, size, 8), le(c, z->at, 8);

    out_write(z->out, b.s, b.n);
    z->at += b.n + size;
    z->entries++;
    buf_free(&b), buf_free(&common);
    free(path);
}

static void whole(Zip *z, const char *name, const void *s, size_t n)
{
    entry(z, name, (uint32_t)crc32_z(0, s, n), n);
    out_write(z->out, s, n);
}

static void numbered(Zip *z, int key, const void *s, size_t n)
{
    char name[24];
    snprintf(name, sizeof name, "data/%d", key);
    whole(z, name, s, n);
}

static void finish(Zip *z)
{
    whole(z, "version", "3\n", 2);
    whole(z, "byteorder", "little", 6);
    Buf *c = &z->central;
    uint64_t size = c->n, end = z->at + size;
    le(c, 0x06064b50, 4), le(c, 44, 8), le(c, 45, 2), le(c, 45, 2), le(c, 0, 4), le(c, 0, 4);
    le(c, z->entries, 8), le(c, z->entries, 8), le(c, size, 8), le(c, z->at, 8);
    le(c, 0x07064b50, 4), le(c, 0, 4), le(c, end, 8), le(c, 1, 4);
    le(c, 0x06054b50, 4), le(c, 0, 4), le(c, UINT16_MAX, 2), le(c, UINT16_MAX, 2);
    le(c, UINT32_MAX, 4), le(c, UINT32_MAX, 4), le(c, 0, 2);
    out_write(z->out, c->s, c->n);
    buf_free(c);
}

/* ---- files -------------------------------------------------------------------- */

void torch_model(const Model *m, Out *o)
{
    Zip z = { .out = o };
    Buf b = {0};
    op(&b, "\x80\x02}(");
    for (int i = 0; i < m->nparam; i++) {
        const Param *p = &m->param[i];
        word(&b, p->name);
        tensor(&b, "FloatStorage", i, p->ndim, (int64_t[]){ p->rows, p->cols });
    }
    op(&b, "u.");
    whole(&z, "data.pkl", b.s, b.n);
    for (int i = 0; i < m->nparam; i++) {
        const Param *p = &m->param[i];
        real *x = xreallocarray(NULL, (size_t)p->n, sizeof *x);
        size_t n = narrow_bytes(NARROW_F32, p->n);
        unsigned char *s = xmalloc(n);
        model_get(m, p, x);
        narrow_put(NARROW_F32, s, x, p->n);
        numbered(&z, i, s, n);
        free(x), free(s);
    }
    finish(&z);
    buf_free(&b);
}

void torch_i32(const int32_t *x, int n, Out *o)
{
    Zip z = { .out = o };
    Buf b = {0}, data = {0};
    op(&b, "\x80\x02");
    tensor(&b, "IntStorage", 0, 1, (int64_t[]){ n });
    op(&b, ".");
    whole(&z, "data.pkl", b.s, b.n);
    for (int i = 0; i < n; i++) buf_u32(&data, (uint32_t)x[i]);
    numbered(&z, 0, data.s, data.n);
    finish(&z);
    buf_free(&b), buf_free(&data);
}

/* Encoding's state: name, pattern, {bytes: rank}, {name: id}. */
void torch_tokenizer(const Tok *t, const char *name, Out *o)
{
    Buf b = {0}, ranks = {0};
    tiktoken_print(t, name, &ranks);        /* dies if ranks do not say what t does */
    op(&b, "\x80\x03" "ctiktoken.core\nEncoding\n)\x81}(");
    word(&b, "name"), word(&b, "rustbpe");
    word(&b, "pat_str"), word(&b, tok_pattern(t));
    word(&b, "mergeable_ranks");
    op(&b, "}(");
    for (int id = 0; id < tok_vocab(t); id++) {
        size_t n;
        const char *s = tok_bytes(t, id, &n);
        if (!n || tok_is_special(t, id)) continue;
        op(&b, "B");
        le(&b, n, 4);
        buf_add(&b, s, n);
        integer(&b, id);
    }
    op(&b, "u");
    word(&b, "special_tokens");
    op(&b, "}(");
    for (int id = 0; id < tok_vocab(t); id++) {
        size_t n;
        const char *s = tok_bytes(t, id, &n);
        if (!n || !tok_is_special(t, id)) continue;
        text(&b, s, n);
        integer(&b, id);
    }
    op(&b, "uub.");
    out_write(o, b.s, b.n);
    buf_free(&b), buf_free(&ranks);
}
