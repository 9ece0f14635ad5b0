/* gguf.c -- see gguf.h. */
#include "gpt/gguf.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* types of values, and of tensors by Narrow */
enum { U32 = 4, I32 = 5, F32 = 6, BOOL = 7, STRING = 8, ARRAY = 9 };
static const uint32_t ggml_type[] = { [NARROW_F32] = 0, [NARROW_F16] = 1, [NARROW_BF16] = 30,
                                      [NARROW_Q8_0] = 8 };
enum { CHUNK = 1 << 16 };           /* numbers converted at a time; whole blocks */

typedef struct Place { Narrow type; int64_t n; } Place;

struct Gguf {
    Buf keys, tensors;
    uint64_t nkeys, left, data;     /* left: items of the array begun; data: bytes, padded */
    Place *t; size_t n, cap;        /* tensors */
    size_t now; int64_t done;       /* the one being written, and how many numbers of it */
    Out *out;
    unsigned char *chunk;
};

Gguf *gguf_new(void) { return xcalloc(1, sizeof(Gguf)); }

static void put_str(Buf *b, const char *s, size_t n)
{
    buf_u64(b, n);
    buf_add(b, s, n);
}

static Buf *key(Gguf *g, const char *name, uint32_t type)
{
    assert(!g->n && !g->left);
    g->nkeys++;
    put_str(&g->keys, name, strlen(name));
    buf_u32(&g->keys, type);
    return &g->keys;
}

void gguf_str(Gguf *g, const char *name, const char *value)
{
    put_str(key(g, name, STRING), value, strlen(value));
}

void gguf_u32(Gguf *g, const char *name, uint32_t value) { buf_u32(key(g, name, U32), value); }
void gguf_bool(Gguf *g, const char *name, bool value) { buf_char(key(g, name, BOOL), value); }

void gguf_f32(Gguf *g, const char *name, double value)
{
    float f = (float)value;
    uint32_t u;
    memcpy(&u, &f, 4);
    buf_u32(key(g, name, F32), u);
}

void gguf_strs(Gguf *g, const char *name, uint64_t n)
{
    buf_u32(key(g, name, ARRAY), STRING);
    buf_u64(&g->keys, n);
    g->left = n;
}

void gguf_item(Gguf *g, const char *s, size_t n)
{
    assert(g->left);
    g->left--;
    put_str(&g->keys, s, n);
}

void gguf_i32s(Gguf *g, const char *name, const int32_t *v, uint64_t n)
{
    buf_u32(key(g, name, ARRAY), I32);
    buf_u64(&g->keys, n);
    for (uint64_t i = 0; i < n; i++) buf_u32(&g->keys, (uint32_t)v[i]);
}

static uint64_t padded(uint64_t n) { return (n + GGUF_ALIGN - 1) / GGUF_ALIGN * GGUF_ALIGN; }

void gguf_tensor(Gguf *g, const char *name, Narrow type, int ndim, const int64_t *dim)
{
    int64_t n = 1;
    assert(!g->out && !g->left && ndim >= 1 && ndim <= GGUF_DIMS);
    assert(dim[ndim - 1] % narrow_block(type) == 0);
    put_str(&g->tensors, name, strlen(name));
    buf_u32(&g->tensors, (uint32_t)ndim);
    for (int i = ndim - 1; i >= 0; i--) {
        buf_u64(&g->tensors, (uint64_t)dim[i]);
        n *= dim[i];
    }
    buf_u32(&g->tensors, ggml_type[type]);
    buf_u64(&g->tensors, g->data);
    g->data += padded(narrow_bytes(type, n));
    if (g->n == g->cap) {
        g->cap = g->cap ? 2 * g->cap : 64;
        g->t = xreallocarray(g->t, g->cap, sizeof *g->t);
    }
    g->t[g->n++] = (Place){ type, n };
}

static void pad(Gguf *g, uint64_t at)
{
    static const char zero[GGUF_ALIGN];
    out_write(g->out, zero, padded(at) - at);
}

void gguf_begin(Gguf *g, Out *o)
{
    Buf head = {0};
    buf_str(&head, "GGUF");
    buf_u32(&head, 3);
    buf_u64(&head, g->n);
    buf_u64(&head, g->nkeys);
    g->out = o;
    g->chunk = xmalloc((size_t)CHUNK * 4);
    out_write(o, head.s, head.n);
    out_write(o, g->keys.s, g->keys.n);
    out_write(o, g->tensors.s, g->tensors.n);
    pad(g, head.n + g->keys.n + g->tensors.n);
    buf_free(&head);
}

void gguf_data(Gguf *g, const real *x, int64_t n)
{
    while (n > 0) {
        assert(g->now < g->n);
        const Place *t = &g->t[g->now];
        int64_t k = t->n - g->done < n ? t->n - g->done : n;
        if (k > CHUNK) k = CHUNK;
        narrow_put(t->type, g->chunk, x, k);
        out_write(g->out, g->chunk, narrow_bytes(t->type, k));
        x += k, n -= k, g->done += k;
        if (g->done < t->n) continue;
        pad(g, narrow_bytes(t->type, t->n));
        g->now++, g->done = 0;
    }
}

void gguf_end(Gguf *g)
{
    assert(g->now == g->n);
    buf_free(&g->keys), buf_free(&g->tensors);
    free(g->t), free(g->chunk);
    free(g);
}
