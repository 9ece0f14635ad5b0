/* pq_page.c -- a column chunk: its pages, levels and values. */
#include "data/codec.h"
#include "data/pq.h"
#include "data/thrift.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 };

typedef struct PageHead {
    int type, encoding, def_encoding, rep_encoding;
    int64_t size, packed;               /* unpacked, and as it lies in the file */
    int64_t values, nulls, rows, def_bytes, rep_bytes;
    uint32_t crc;
    bool has_crc, v2_plain;             /* V2: is_compressed is false */
    uint64_t at;                        /* where it begins */
} PageHead;

void pq_column_name(const Parquet *p, int leaf, Buf *b)
{
    const char *dot = "";
    for (int i = 1; i <= p->leaf_node[leaf]; i++) {
        const PqNode *n = &p->node[i];
        if (leaf < n->leaf || leaf >= n->leaf + n->leaves) continue;
        buf_str(b, dot);
        dot = ".";
        buf_add(b, n->key.s + 1, n->key.n - 3);         /* without quotes and colon */
    }
}

_Noreturn void pq_bad(const Parquet *p, const PqLeaf *l, const char *why)
{
    Buf b = { 0 };
    pq_column_name(p, p->node[l->node].leaf, &b);
    die("%s: column %s, before byte %" PRIu64 ": %s", p->path, b.s, l->at, why);
}

_Noreturn static void refuse(const Parquet *p, const PqLeaf *l, const char *what)
{
    char *why = xasprintf("%s, which is not supported", what);
    pq_bad(p, l, why);
}

void pq_pread(const Parquet *p, void *to, size_t n, uint64_t at)
{
    for (size_t k = 0; k < n; ) {
        ssize_t got = pread(p->fd, (char *)to + k, n - k, (off_t)(at + k));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) die("%s:", p->path);
        if (got == 0) die("%s: became shorter while it was read", p->path);
        k += (size_t)got;
    }
}

/* ---- page headers */

/* Each kind's own struct, told by the field it stands in; the fields' numbers differ. */
static void page_details(Thrift *t, int kind, PageHead *h)
{
    int id = 0, type;
    while ((type = thrift_field(t, &id)) != T_STOP) {
        if (id == 1) h->values = thrift_i32(t, type);
        else if (kind == DATA_PAGE_V2 && id == 2) h->nulls = thrift_i32(t, type);
        else if (kind == DATA_PAGE_V2 && id == 3) h->rows = thrift_i32(t, type);
        else if (kind == DATA_PAGE_V2 && id == 5) h->def_bytes = thrift_i32(t, type);
        else if (kind == DATA_PAGE_V2 && id == 6) h->rep_bytes = thrift_i32(t, type);
        else if (kind == DATA_PAGE_V2 && id == 7) h->v2_plain = type == T_FALSE;
        else if (id == (kind == DATA_PAGE_V2 ? 4 : 2)) h->encoding = thrift_i32(t, type);
        else if (kind == DATA_PAGE && id == 3) h->def_encoding = thrift_i32(t, type);
        else if (kind == DATA_PAGE && id == 4) h->rep_encoding = thrift_i32(t, type);
        else thrift_skip(t, type);
    }
}

static void page_head(Thrift *t, PageHead *h)
{
    int id = 0, type;
    h->type = -1, h->size = h->packed = h->values = h->encoding = -1;
    h->def_encoding = h->rep_encoding = PQ_RLE;
    while ((type = thrift_field(t, &id)) != T_STOP) {
        switch (id) {
        case 1: h->type = thrift_i32(t, type); break;
        case 2: h->size = thrift_i32(t, type); break;
        case 3: h->packed = thrift_i32(t, type); break;
        case 4: h->crc = (uint32_t)thrift_i32(t, type), h->has_crc = true; break;
        case 5: case 7: case 8:
            if (type == T_STRUCT)
                page_details(t, id == 5 ? DATA_PAGE : id == 7 ? DICTIONARY_PAGE : DATA_PAGE_V2, h);
            else thrift_fail(t, "a page header's field of another type");
            break;
        default: thrift_skip(t, type);
        }
    }
}

/* Reads the header at l->at, however long it is, and moves past it. */
static PageHead next_head(Parquet *p, PqLeaf *l)
{
    size_t n = 512, most = 16 << 20;
    PageHead h;
    for (;;) {
        uint64_t left = p->data_end - l->at;
        if (n > left) n = (size_t)left;
        buf_clear(&p->raw);
        buf_reserve(&p->raw, n);
        pq_pread(p, p->raw.s, n, l->at);
        const uint8_t *s = (const uint8_t *)p->raw.s;
        Thrift t = { s, s + n, NULL };
        h = (PageHead){ .at = l->at };
        page_head(&t, &h);
        if (!t.bad) {
            l->at += (uint64_t)(t.p - s);
            break;
        }
        if (n == left || n >= most) {
            char *why = xasprintf("damaged page header: %s", t.bad);
            pq_bad(p, l, why);
        }
        n *= 8;
    }
    if (h.type < 0 || h.size < 0 || h.packed < 0)
        pq_bad(p, l, "damaged page header: no type or size");
    if ((uint64_t)h.packed > p->data_end - l->at)
        pq_bad(p, l, "a page that goes past the end of the data");
    return h;
}

/* Is there room for `more` bytes beside what all columns hold, of which `back` are given back? */
static void budget(const Parquet *p, const PqLeaf *l, size_t more, size_t back)
{
    if (p->held - back + more > PARQUET_ALL)
        pq_bad(p, l, "the pages read at once take more than 160 MB, which is not supported: "
                     "read fewer columns");
}

static void count_held(Parquet *p, PqLeaf *l)
{
    size_t now = l->dict.cap + l->page.cap + l->dict_room * sizeof *l->dict_at;
    p->held += now - l->held;
    l->held = now;
}

/* The body of a page, unpacked but for its first `plain` bytes, into b. */
static void page_body(Parquet *p, PqLeaf *l, const PageHead *h, Buf *b, size_t plain)
{
    int codec = h->type == DATA_PAGE_V2 && h->v2_plain ? CODEC_NONE : l->chunk->codec;
    if ((uint64_t)h->size > PARQUET_PAGE || (uint64_t)h->packed > PARQUET_PAGE)
        pq_bad(p, l, "a page of more than 128 MB, which is not supported");
    budget(p, l, (size_t)h->size + (size_t)h->packed, b->cap);
    if (plain > (size_t)h->packed || plain > (size_t)h->size)
        pq_bad(p, l, "levels longer than their page");
    if (p->raw.cap > 2 * (size_t)h->packed + 65536) buf_free(&p->raw);
    buf_clear(&p->raw);
    buf_reserve(&p->raw, (size_t)h->packed);
    pq_pread(p, p->raw.s, (size_t)h->packed, l->at);
    if (h->has_crc && crc32_z(0, (const Bytef *)p->raw.s, (size_t)h->packed) != h->crc)
        pq_bad(p, l, "damaged page: its checksum is wrong");
    l->at += (uint64_t)h->packed;
    if (b->cap > 2 * (size_t)h->size + 65536) buf_free(b);
    buf_clear(b);
    buf_reserve(b, (size_t)h->size);
    if (plain) memcpy(b->s, p->raw.s, plain);
    size_t want = (size_t)h->size - plain, n = (size_t)h->packed - plain;
    const char *bad =
        want || n ? codec_unpack(codec, b->s + plain, want, p->raw.s + plain, n) : NULL;
    if (bad && !want && !n) bad = NULL;
    if (bad) {
        char *why = xasprintf("damaged page (%s): %s", codec_name(codec), bad);
        pq_bad(p, l, why);
    }
    b->n = (size_t)h->size;
    count_held(p, l);
}

/* ---- dictionaries */

static size_t fixed_size(int type)
{
    return type == PQ_INT32 || type == PQ_FLOAT ? 4 : type == PQ_INT64 || type == PQ_DOUBLE ? 8 : 0;
}

static void dictionary(Parquet *p, PqLeaf *l, const PageHead *h)
{
    int type = p->node[l->node].type;
    if (l->has_dict) pq_bad(p, l, "a second dictionary");
    if (h->encoding != PQ_PLAIN && h->encoding != PQ_PLAIN_DICTIONARY) {
        char *why = xasprintf("a dictionary in %s", pq_encoding_name(h->encoding));
        refuse(p, l, why);
    }
    if (h->values < 0) pq_bad(p, l, "a dictionary with a negative number of values");
    page_body(p, l, h, &l->dict, 0);
    size_t n = (size_t)h->values, at = 0;
    l->has_dict = true;
    l->dict_n = (uint32_t)n;
    if (type == PQ_BOOLEAN) refuse(p, l, "a dictionary of BOOLEAN");
    if (type != PQ_BYTE_ARRAY) {
        if (n * fixed_size(type) > l->dict.n) pq_bad(p, l, "a dictionary longer than its page");
        return;
    }
    if (n > l->dict.n / 4) pq_bad(p, l, "a dictionary longer than its page");
    budget(p, l, n * sizeof *l->dict_at, l->dict_room * sizeof *l->dict_at);
    l->dict_at = xreallocarray(l->dict_at, n + 1, sizeof *l->dict_at);
    l->dict_room = n + 1;
    count_held(p, l);
    for (size_t i = 0; i < n; i++) {
        if (l->dict.n - at < 4 || get_u32(l->dict.s + at) > l->dict.n - at - 4)
            pq_bad(p, l, "a value that goes past the end of its dictionary");
        l->dict_at[i] = (uint32_t)at;
        at += 4 + (size_t)get_u32(l->dict.s + at);
    }
}

/* ---- data pages */

static int width_of(int max) /* bits that hold 0..max */
{
    int w = 0;
    while (max >> w) w++;
    return w;
}

/* Levels behind a length of 4 bytes (V1); *s moves past them. */
static Hybrid levels_v1(Parquet *p, PqLeaf *l, const uint8_t **s, const uint8_t *end, int max,
                        int encoding)
{
    if (!max) return (Hybrid){ 0 };
    if (encoding != PQ_RLE) {
        char *why = xasprintf("levels in %s", pq_encoding_name(encoding));
        refuse(p, l, why);
    }
    if (end - *s < 4 || get_u32(*s) > (size_t)(end - *s) - 4)
        pq_bad(p, l, "levels longer than their page");
    const uint8_t *from = *s + 4;
    *s = from + get_u32(*s);
    return (Hybrid){ .p = from, .end = *s, .width = width_of(max) };
}

static Hybrid levels_v2(const uint8_t *s, int64_t n, int max)
{
    return (Hybrid){ .p = s, .end = s + n, .width = width_of(max) };
}

static void values_begin(Parquet *p, PqLeaf *l, const uint8_t *s, const uint8_t *end)
{
    l->v = s, l->v_end = end, l->bit = 0;
    switch (l->encoding) {
    case PQ_PLAIN: return;
    case PQ_PLAIN_DICTIONARY: case PQ_RLE_DICTIONARY:
        if (!l->has_dict) pq_bad(p, l, "a page that needs a dictionary, and there is none");
        if (s < end && *s > 32) pq_bad(p, l, "dictionary indices of more than 32 bits");
        l->idx = s < end ? (Hybrid){ .p = s + 1, .end = end, .width = *s } : (Hybrid){ 0 };
        return;
    case PQ_RLE:
        if (p->node[l->node].type == PQ_BOOLEAN) {
            if (s == end) l->idx = (Hybrid){ 0 };
            else l->idx = levels_v1(p, l, &s, end, 1, PQ_RLE);
            return;
        }
    /* fall through */
    default: refuse(p, l, pq_encoding_name(l->encoding));
    }
}

static void data_page(Parquet *p, PqLeaf *l, const PageHead *h)
{
    const PqNode *n = &p->node[l->node];
    if (h->values < 0 || h->encoding < 0)
        pq_bad(p, l, "a page without number of values or encoding");
    if (h->values > l->left) pq_bad(p, l, "more values than its column chunk is said to have");
    size_t levels = 0;
    if (h->type == DATA_PAGE_V2) {
        if (h->def_bytes < 0 || h->rep_bytes < 0) pq_bad(p, l, "levels of negative length");
        levels = (size_t)h->def_bytes + (size_t)h->rep_bytes;
    }
    page_body(p, l, h, &l->page, levels);
    const uint8_t *s = (const uint8_t *)l->page.s, *end = s + l->page.n;
    if (h->type == DATA_PAGE_V2) {
        l->reps = levels_v2(s, h->rep_bytes, n->max_rep);
        l->defs = levels_v2(s + h->rep_bytes, h->def_bytes, n->max_def);
        s += levels;
    } else {
        l->reps = levels_v1(p, l, &s, end, n->max_rep, h->rep_encoding);
        l->defs = levels_v1(p, l, &s, end, n->max_def, h->def_encoding);
    }
    l->encoding = h->encoding;
    values_begin(p, l, s, end);
    l->page_left = (uint32_t)h->values;
    l->left -= h->values;
}

/* The next page with values; false at the end of the chunk. */
static bool next_page(Parquet *p, PqLeaf *l)
{
    while (l->left > 0) {
        if (l->at >= l->end) pq_bad(p, l, "fewer values than its column chunk is said to have");
        PageHead h = next_head(p, l);
        switch (h.type) {
        case DICTIONARY_PAGE: dictionary(p, l, &h); break;
        case DATA_PAGE: case DATA_PAGE_V2:
            data_page(p, l, &h);
            if (l->page_left) return true;
            break;
        default: l->at += (uint64_t)h.packed;           /* kinds that may come are to be skipped */
        }
    }
    return false;
}

void pq_next(Parquet *p, PqLeaf *l)
{
    const PqNode *n = &p->node[l->node];
    if (!l->page_left && !next_page(p, l)) {
        l->done = true;
        l->rep = l->def = 0;
        return;
    }
    uint32_t rep = 0, def = (uint32_t)n->max_def;
    l->page_left--;
    if ((n->max_rep && !hybrid_next(&l->reps, &rep)) ||
        (n->max_def && !hybrid_next(&l->defs, &def)))
        pq_bad(p, l, "fewer levels than values");
    if (rep > (uint32_t)n->max_rep || def > (uint32_t)n->max_def)
        pq_bad(p, l, "a level higher than its column's highest");
    l->rep = (int)rep, l->def = (int)def;
}

void pq_chunk(Parquet *p, PqLeaf *l, const PqChunk *c)
{
    const PqNode *n = &p->node[l->node];
    l->chunk = c;
    l->at = c->start, l->end = c->start + c->size;
    l->left = c->values;
    l->page_left = 0, l->dict_n = 0;
    l->has_dict = l->done = false;
    const char *why = codec_missing(c->codec);
    if (c->values && why) {
        char *all = xasprintf("compressed with %s: %s", codec_name(c->codec), why);
        pq_bad(p, l, all);
    }
    if (n->as == AS_REFUSED) refuse(p, l, n->refused);
    if (n->type == PQ_INT96) refuse(p, l, "INT96");
    if (n->type == PQ_FIXED) refuse(p, l, "FIXED_LEN_BYTE_ARRAY");
    pq_next(p, l);
    if (!l->done && l->rep) pq_bad(p, l, "damaged: its first value continues a row");
}

/* ---- values */

static uint32_t index_of(Parquet *p, PqLeaf *l)
{
    uint32_t i;
    if (!hybrid_next(&l->idx, &i)) pq_bad(p, l, "fewer values in a page than it says");
    if (i >= l->dict_n) pq_bad(p, l, "a value that is not in the dictionary");
    return i;
}

const char *pq_take_bytes(Parquet *p, PqLeaf *l, size_t *n)
{
    const char *s;
    if (l->encoding != PQ_PLAIN) {
        s = l->dict.s + l->dict_at[index_of(p, l)];
        *n = get_u32(s);
        return s + 4;
    }
    size_t left = (size_t)(l->v_end - l->v);
    if (left < 4 || (*n = get_u32(l->v)) > left - 4)
        pq_bad(p, l, left ? "a value that goes past the end of its page"
                          : "fewer values in a page than it says");
    s = (const char *)l->v + 4;
    l->v += 4 + *n;
    return s;
}

void pq_take_fixed(Parquet *p, PqLeaf *l, void *to, size_t size)
{
    if (l->encoding != PQ_PLAIN) {
        memcpy(to, l->dict.s + index_of(p, l) * size, size);
        return;
    }
    if ((size_t)(l->v_end - l->v) < size) pq_bad(p, l, "fewer values in a page than it says");
    memcpy(to, l->v, size);
    l->v += size;
}

bool pq_take_bool(Parquet *p, PqLeaf *l)
{
    if (l->encoding == PQ_RLE) {
        uint32_t x;
        if (!hybrid_next(&l->idx, &x)) pq_bad(p, l, "fewer values in a page than it says");
        return x;
    }
    if (l->encoding != PQ_PLAIN) refuse(p, l, "BOOLEAN by dictionary");
    if (l->v == l->v_end) pq_bad(p, l, "fewer values in a page than it says");
    bool x = *l->v >> l->bit & 1;
    if (++l->bit == 8) l->bit = 0, l->v++;
    return x;
}
