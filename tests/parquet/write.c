/* write SHAPE CODEC VERSION VALUES ROWS NULLS OUT.parquet OUT.jsonl -- a Parquet file of random rows and
 * the rows that a reader must give. Knows nothing of the reader's code. What it writes, pyarrow reads
 * as the same rows.
 * write bomb CODEC KIND STATED TRUE COLUMNS OUT.parquet -- one row; each column has a page (KIND data)
 * or a dictionary (KIND dict) of TRUE zero bytes, of which its header says that they are STATED.
 *
 *   SHAPE    text, smoltalk, mmlu, arc: as those sets are; all: every type and way of nesting
 *   CODEC    none, snappy, gzip, zstd
 *   VERSION  1, 2: of data pages
 *   VALUES   plain, dict, or both: a dictionary, and plain once it has 100 entries
 *   NULLS    percent, of what is optional; with 0, nothing is null
 *
 * (github.com/apache/parquet-format.) Levels by Melnik et al., Dremel, VLDB 2010, figure 17. */
#include "base/io.h"
#include "base/json.h"
#include "base/rng.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#ifdef HAVE_SNAPPY
#include <snappy-c.h>
#endif
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

enum { BOOLEAN, INT32, INT64, FLOAT = 4, DOUBLE, STRING };      /* physical types */
enum { REQUIRED, OPTIONAL, REPEATED };
enum { NONE = 0, UTF8 = 1, MAP = 2, LIST = 4 };                 /* ConvertedType + 1 */
enum { GROUP_ROWS = 4000, PAGE_VALUES = 700, DICT_MOST = 100, DEPTH = 8 };

/* A schema: a node, then what is below it. type -1: a group of n children. */
typedef struct Node { const char *name; int type, repetition, n, as; } Node;

#define LISTED(name, type, utf8) { name, -1, OPTIONAL, 1, LIST }, \
    { "list", -1, REPEATED, 1, 0 }, { "element", type, OPTIONAL, 0, utf8 }
static const Node text[] = { { "schema", -1, 0, 1, 0 }, { "text", STRING, OPTIONAL, 0, UTF8 } };
static const Node smoltalk[] = {
    { "schema", -1, 0, 2, 0 }, { "messages", -1, OPTIONAL, 1, LIST }, { "list", -1, REPEATED, 1, 0 },
    { "element", -1, OPTIONAL, 2, 0 }, { "content", STRING, OPTIONAL, 0, UTF8 },
    { "role", STRING, OPTIONAL, 0, UTF8 }, { "source", STRING, OPTIONAL, 0, UTF8 } };
static const Node mmlu[] = {
    { "schema", -1, 0, 4, 0 }, { "question", STRING, OPTIONAL, 0, UTF8 },
    { "subject", STRING, OPTIONAL, 0, UTF8 }, LISTED("choices", STRING, UTF8),
    { "answer", INT64, OPTIONAL, 0, 0 } };
static const Node arc[] = {
    { "schema", -1, 0, 4, 0 }, { "id", STRING, OPTIONAL, 0, UTF8 },
    { "question", STRING, OPTIONAL, 0, UTF8 }, { "choices", -1, OPTIONAL, 2, 0 },
    LISTED("text", STRING, UTF8), LISTED("label", STRING, UTF8),
    { "answerKey", STRING, OPTIONAL, 0, UTF8 } };
static const Node all[] = {
    { "schema", -1, 0, 9, 0 }, { "b", BOOLEAN, OPTIONAL, 0, 0 }, { "i", INT32, REQUIRED, 0, 0 },
    { "l", INT64, OPTIONAL, 0, 0 }, { "f", FLOAT, OPTIONAL, 0, 0 }, { "d", DOUBLE, REQUIRED, 0, 0 },
    { "rep", INT32, REPEATED, 0, 0 },
    { "ll", -1, OPTIONAL, 1, LIST }, { "list", -1, REPEATED, 1, 0 }, LISTED("element", INT64, 0),
    { "s", -1, OPTIONAL, 2, 0 }, { "x", -1, REQUIRED, 1, LIST }, { "list", -1, REPEATED, 1, 0 },
    { "element", -1, OPTIONAL, 2, 0 }, { "y", STRING, REQUIRED, 0, UTF8 },
    { "z", INT32, OPTIONAL, 0, 0 }, { "w", BOOLEAN, REQUIRED, 0, 0 },
    { "m", -1, OPTIONAL, 1, MAP }, { "key_value", -1, REPEATED, 2, 0 },
    { "key", STRING, REQUIRED, 0, UTF8 }, { "value", -1, OPTIONAL, 1, MAP },
    { "key_value", -1, REPEATED, 2, 0 }, { "key", INT32, REQUIRED, 0, 0 },
    { "value", STRING, OPTIONAL, 0, UTF8 } };

typedef struct Leaf {
    const Node *node; char path[200]; int elements;     /* elements of the path */
    int max_rep, max_def;
    uint8_t *rep, *def; size_t n, cap;          /* levels of this page */
    Buf plain; uint32_t *idx; size_t count; bool *bits; /* its values, both ways */
    Buf dict; uint32_t *dict_at, dict_n;        /* of this row group */
    Buf pages; bool fell, dict_used, begun; int64_t values, at;
} Leaf;

static const Node *schema; static size_t nodes;
static Leaf leaf[32]; static int leaves;
static Rng rng;
static int codec, version, nulls;
static enum { PLAIN, DICT, BOTH } how;
static FILE *out; static int64_t at;

static void fail(const char *why) { fprintf(stderr, "write: %s\n", why); exit(1); }

/* ---- Thrift's compact protocol */

static void varint(Buf *b, uint64_t x)
{
    for (; x > 127; x >>= 7) buf_char(b, (char)(x | 128));
    buf_char(b, (char)x);
}
static uint64_t zigzag(int64_t x) { return (uint64_t)x << 1 ^ (uint64_t)(x >> 63); }
static void field(Buf *b, int *last, int id, int type)
{
    buf_char(b, (char)((id - *last) << 4 | type));
    *last = id;
}
static void int_field(Buf *b, int *last, int id, int64_t x, bool wide)
{
    field(b, last, id, wide ? 6 : 5);
    varint(b, zigzag(x));
}
static void list_head(Buf *b, size_t n, int type)
{
    if (n < 15) buf_char(b, (char)(n << 4 | (size_t)type));
    else buf_char(b, (char)(0xF0 | type)), varint(b, n);
}
static void text_of(Buf *b, const char *s, size_t n) { varint(b, n), buf_add(b, s, n); }
static void stop(Buf *b) { buf_char(b, 0); }

/* ---- pages */

static void hybrid(Buf *b, const uint32_t *x, size_t n, int width)
{
    for (size_t i = 0; i < n; ) {
        size_t run = 1;
        while (i + run < n && x[i + run] == x[i]) run++;
        if (run >= 8 || n - i < 8) {                    /* repeated */
            varint(b, run << 1);
            for (int k = 0; k < width; k += 8) buf_char(b, (char)(x[i] >> k));
            i += run;
            continue;
        }
        size_t groups = 1;
        while (i + 8 * (groups + 1) <= n && rng_below(&rng, 4)) groups++;
        varint(b, groups << 1 | 1);
        uint64_t bits = 0;
        int have = 0;
        for (size_t k = 0; k < 8 * groups; k++) {
            bits |= (uint64_t)x[i + k] << have;
            for (have += width; have >= 8; have -= 8, bits >>= 8) buf_char(b, (char)bits);
        }
        i += 8 * groups;
    }
}

static int width_of(uint32_t max)
{
    int w = 0;
    while (max >> w) w++;
    return w;
}

static void levels(Buf *b, const uint8_t *x, size_t n, int max)
{
    if (!max) return;
    uint32_t *v = xreallocarray(NULL, n + 1, sizeof *v);
    for (size_t i = 0; i < n; i++) v[i] = x[i];
    hybrid(b, v, n, width_of((uint32_t)max));
    free(v);
}

static void pack(Buf *to, const Buf *from)
{
    size_t n = from->n + from->n / 2 + 1000;
    if (codec == 0) {
        buf_add(to, from->s, from->n);
        return;
    }
    buf_reserve(to, n);
    if (codec == 2) {
        z_stream z = {0};
        deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
        z.next_in = (Bytef *)from->s, z.avail_in = (uInt)from->n;
        z.next_out = (Bytef *)to->s + to->n, z.avail_out = (uInt)n;
        if (deflate(&z, Z_FINISH) != Z_STREAM_END) fail("gzip");
        to->n += z.total_out;
        deflateEnd(&z);
    }
#ifdef HAVE_SNAPPY
    if (codec == 1 && snappy_compress(from->s, from->n, to->s + to->n, &n)) fail("snappy");
    if (codec == 1) to->n += n;
#endif
#ifdef HAVE_ZSTD
    if (codec == 6) to->n += ZSTD_compress(to->s + to->n, n, from->s, from->n, 3);
#endif
}

/* A page: header and body; head: the first bytes of the body, outside the compression (V2). */
static void page(Leaf *l, int type, const Buf *head, const Buf *body, size_t values, int encoding,
                 size_t rep_bytes, size_t rows, size_t null)
{
    Buf b = {0}, h = {0};
    int last = 0, in = 0;
    if (head) buf_add(&b, head->s, head->n);
    pack(&b, body);
    int_field(&h, &last, 1, type, false);
    int_field(&h, &last, 2, (int64_t)(body->n + (head ? head->n : 0)), false);
    int_field(&h, &last, 3, (int64_t)b.n, false);
    if (rng_below(&rng, 2)) int_field(&h, &last, 4, (int32_t)crc32(0, (Bytef *)b.s, (uInt)b.n), false);
    field(&h, &last, type == 0 ? 5 : type == 2 ? 7 : 8, 12);
    int_field(&h, &in, 1, (int64_t)values, false);
    if (type == 3) int_field(&h, &in, 2, (int64_t)null, false), int_field(&h, &in, 3, (int64_t)rows, false);
    int_field(&h, &in, type == 3 ? 4 : 2, encoding, false);
    if (type == 0) int_field(&h, &in, 3, 3, false), int_field(&h, &in, 4, 3, false);
    if (type == 3) int_field(&h, &in, 5, (int64_t)(head->n - rep_bytes), false), int_field(&h, &in, 6, (int64_t)rep_bytes, false);
    stop(&h), stop(&h);
    buf_add(&l->pages, h.s, h.n), buf_add(&l->pages, b.s ? b.s : "", b.n);
    buf_free(&b), buf_free(&h);
}

static void with_length(Buf *to, const Buf *from, bool wanted)
{
    if (!wanted) return;
    buf_u32(to, (uint32_t)from->n);
    buf_add(to, from->s ? from->s : "", from->n);
}

static void values_of(const Leaf *l, bool by_dict, Buf *b)
{
    if (by_dict) {
        int w = width_of(l->dict_n ? l->dict_n - 1 : 0);
        buf_char(b, (char)w);
        hybrid(b, l->idx, l->count, w);
    } else if (l->node->type == BOOLEAN) {
        for (size_t i = 0; i < l->count; i += 8) {
            int byte = 0;
            for (size_t k = i; k < i + 8 && k < l->count; k++) byte |= l->bits[k] << (k - i);
            buf_char(b, (char)byte);
        }
    } else buf_add(b, l->plain.s ? l->plain.s : "", l->plain.n);
}

static void end_page(Leaf *l)
{
    if (!l->n) return;
    Buf reps = {0}, defs = {0}, body = {0}, head = {0};
    bool by_dict = how != PLAIN && l->node->type != BOOLEAN && !l->fell;
    size_t rows = 0;
    for (size_t i = 0; i < l->n; i++) rows += l->rep[i] == 0;
    levels(&reps, l->rep, l->n, l->max_rep), levels(&defs, l->def, l->n, l->max_def);
    if (version == 1) with_length(&body, &reps, l->max_rep), with_length(&body, &defs, l->max_def);
    else buf_add(&head, reps.s ? reps.s : "", reps.n), buf_add(&head, defs.s ? defs.s : "", defs.n);
    values_of(l, by_dict, &body);
    l->dict_used |= by_dict;
    page(l, version == 1 ? 0 : 3, version == 1 ? NULL : &head, &body, l->n, by_dict ? 8 : 0, reps.n, rows,
         l->n - l->count);
    l->values += (int64_t)l->n;
    if (how == BOTH && l->dict_n >= DICT_MOST) l->fell = true;
    l->n = l->count = 0;
    buf_clear(&l->plain);
    buf_free(&reps), buf_free(&defs), buf_free(&body), buf_free(&head);
}

/* ---- values */

static uint32_t dict_index(Leaf *l, const void *s, size_t n)
{
    for (uint32_t i = l->dict_n > 300 ? l->dict_n - 300 : 0; i < l->dict_n; i++)  /* not all: few repeat */
        if (l->dict_at[i + 1] - l->dict_at[i] == n && !memcmp(l->dict.s + l->dict_at[i], s, n)) return i;
    l->dict_at = xreallocarray(l->dict_at, (size_t)l->dict_n + 2, sizeof *l->dict_at);
    l->dict_at[l->dict_n] = (uint32_t)l->dict.n;
    buf_add(&l->dict, s, n);
    l->dict_at[++l->dict_n] = (uint32_t)l->dict.n;
    return l->dict_n - 1;
}

/* One place of the column: a value (of n bytes as PLAIN has it), or none (s NULL) */
static void place(Leaf *l, int rep, int def, const void *s, size_t n, bool bit)
{
    /* pages of V2 begin with a row; of V1 anywhere */
    if (l->n >= PAGE_VALUES && (version == 1 || rep == 0)) end_page(l);
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 1024;
        l->rep = xrealloc(l->rep, l->cap), l->def = xrealloc(l->def, l->cap);
        l->idx = xreallocarray(l->idx, l->cap, sizeof *l->idx);
        l->bits = xreallocarray(l->bits, l->cap, sizeof *l->bits);
    }
    l->rep[l->n] = (uint8_t)rep, l->def[l->n++] = (uint8_t)def;
    if (!s) return;
    if (l->node->type == BOOLEAN) l->bits[l->count] = bit;
    else if (how != PLAIN && !l->fell) l->idx[l->count] = dict_index(l, s, n);
    else buf_add(&l->plain, s, n);
    l->count++;
}

static void word(Buf *b)
{
    static const char *const odd[] = { "\"", "\\", "\n", "\t", "\x01", "\xC3\xA9", "\xE6\x97\xA5\xE6\x9C\xAC",
                                       "\xF0\x9F\x98\x80", "\xEF\xBB\xBF", "</s>", "\x7F" };
    size_t n = 1 + rng_below(&rng, 9);
    if (rng_below(&rng, 40) == 0) buf_str(b, odd[rng_below(&rng, sizeof odd / sizeof *odd)]);
    for (; n; n--) buf_char(b, (char)('a' + rng_below(&rng, 26)));
}

/* A word of a language of 20,000, the short ones the most frequent: packed, it is about as long as
 * English. */
static void known_word(Buf *b)
{
    double u = rng_uniform(&rng);
    uint64_t id = (uint64_t)(20000 * u * u * u), n = 2 + id / 3000 + id % 5;
    for (uint64_t x = (id + 1) * 0x9E3779B97F4A7C15u; n; n--, x = x * 25214903917u + 11)
        buf_char(b, "etaoinshrdlucmfwypvbgkqjxz"[(x >> 33) % 26 * ((x >> 17) % 26) / 26]);
}

static void string(const Node *n, Buf *s)
{
    size_t words = rng_below(&rng, 12);
    if (schema == text) {
        for (size_t i = rng_below(&rng, 1000); i; i--) known_word(s), buf_str(s, i % 15 ? " " : ".\n");
        return;
    }
    if (!strcmp(n->name, "content")) words = rng_below(&rng, rng_below(&rng, 50) ? 80 : 2000);
    if (!strcmp(n->name, "role") || !strcmp(n->name, "label") || !strcmp(n->name, "key") ||
        !strcmp(n->name, "answerKey") || !strcmp(n->name, "source")) {
        buf_printf(s, "%c", (int)('A' + rng_below(&rng, 5)));
        return;
    }
    if (!strcmp(n->name, "subject")) words = 0;
    for (size_t i = 0; i < words; i++) {
        if (i) buf_char(s, ' ');
        word(s);
    }
}

static void value(Leaf *l, int rep, int def, Buf *json)
{
    Buf s = {0}, v = {0};
    int64_t x = (int64_t)rng_u64(&rng) >> rng_below(&rng, 60);
    int32_t i = (int32_t)(!strcmp(l->node->name, "key") ? x & 3 : x);
    float f = (float)(i >> 8) / 8;
    double d = (double)(x >> 12) / 1024;
    bool bit = x & 1;
    if (l->node->type == STRING) {
        string(l->node, &s);
        buf_u32(&v, (uint32_t)s.n);
        buf_add(&v, s.s ? s.s : "", s.n);
        place(l, rep, def, v.s, v.n, 0);
        json_str(json, s.s ? s.s : "", s.n);
    } else if (l->node->type == BOOLEAN) {
        place(l, rep, def, "", 0, bit);
        buf_str(json, bit ? "true" : "false");
    } else if (l->node->type == INT32) {
        place(l, rep, def, &i, 4, 0);
        buf_printf(json, "%" PRId32, i);
    } else if (l->node->type == INT64) {
        place(l, rep, def, &x, 8, 0);
        buf_printf(json, "%" PRId64, x);
    } else if (l->node->type == FLOAT) {
        place(l, rep, def, &f, 4, 0);
        json_num(json, (double)f);
    } else {
        place(l, rep, def, &d, 8, 0);
        json_num(json, d);
    }
    buf_free(&s), buf_free(&v);
}

/* ---- rows. Each function takes a node and the number of its first leaf, and returns the node after
 * all below it; json NULL: it is not there, and def says how far its ancestors are. */

static const Node *put(const Node *n, int *first, int rep, int def, int max_rep, Buf *json);

static const Node *absent(const Node *n, int *first, int rep, int def)
{
    if (n->type >= 0) {
        place(&leaf[(*first)++], rep, def, NULL, 0, 0);
        return n + 1;
    }
    const Node *k = n + 1;
    for (int i = 0; i < n->n; i++) k = absent(k, first, rep, def);
    return k;
}

static const Node *members(const Node *n, int *first, int rep, int def, int max_rep, Buf *json)
{
    const Node *k = n + 1;
    for (int i = 0; i < n->n; i++) {
        buf_str(json, i ? "," : "{");
        json_str(json, k->name, strlen(k->name));
        buf_char(json, ':');
        k = put(k, first, rep, def, max_rep, json);
    }
    buf_char(json, '}');
    return k;
}

/* The pairs of a map: of equal keys the last is the one that counts. */
typedef struct Pair { Buf key, value; } Pair;

static const Node *repeated(const Node *n, const Node *of, int *first, int rep, int def, int max_rep,
                            Buf *json)
{
    size_t k = nulls && rng_below(&rng, 4) == 0 ? 0 : 1 + rng_below(&rng, of && of->as == MAP ? 6 : 4);
    bool map = of && of->as == MAP;
    const Node *end = NULL;
    int begin = *first;
    Pair pair[8] = { { {0}, {0} } };
    if (k == 0) {
        buf_str(json, map ? "{}" : "[]");
        return absent(n, first, rep, def);
    }
    if (!map) buf_char(json, '[');
    for (size_t i = 0; i < k; i++) {
        int r = i ? max_rep : rep;
        *first = begin;
        if (i && !map) buf_char(json, ',');
        if (map) {
            end = put(n + 1, first, r, def + 1, max_rep, &pair[i].key);
            end = put(end, first, r, def + 1, max_rep, &pair[i].value);
        } else if (of) end = put(n + 1, first, r, def + 1, max_rep, json);
        else if (n->type >= 0) value(&leaf[(*first)++], r, def + 1, json), end = n + 1;
        else end = members(n, first, r, def + 1, max_rep, json);
    }
    if (!map) buf_char(json, ']');
    const char *sep = "{";
    for (size_t i = 0; map && i < k; i++) {
        bool later = false;
        for (size_t j = i + 1; j < k; j++) later |= !strcmp(pair[i].key.s, pair[j].key.s);
        const char *quote = pair[i].key.s[0] == '"' ? "" : "\"";
        if (!later) buf_printf(json, "%s%s%s%s:%s", sep, quote, pair[i].key.s, quote, pair[i].value.s), sep = ",";
    }
    for (size_t i = 0; map && i < k; i++) buf_free(&pair[i].key), buf_free(&pair[i].value);
    if (map) buf_char(json, '}');
    return end;
}

static const Node *put(const Node *n, int *first, int rep, int def, int max_rep, Buf *json)
{
    if (n->repetition == REPEATED) return repeated(n, NULL, first, rep, def, max_rep + 1, json);
    if (n->repetition == OPTIONAL && (int)rng_below(&rng, 100) < nulls) {
        buf_str(json, "null");
        return absent(n, first, rep, def);
    }
    def += n->repetition == OPTIONAL;
    if (n->as == LIST || n->as == MAP) return repeated(n + 1, n, first, rep, def, max_rep + 1, json);
    if (n->type < 0) return members(n, first, rep, def, max_rep, json);
    value(&leaf[(*first)++], rep, def, json);
    return n + 1;
}

/* ---- the file */

static const Node *find_leaves(const Node *n, const char *path, int depth, int rep, int def)
{
    char here[200];
    def += depth && n->repetition != REQUIRED, rep += depth && n->repetition == REPEATED;
    snprintf(here, sizeof here, "%.90s%s%.90s", path, depth > 1 ? "\n" : "", depth ? n->name : "");
    if (n->type >= 0) {
        leaf[leaves] = (Leaf){ .node = n, .elements = depth, .max_rep = rep, .max_def = def };
        strcpy(leaf[leaves++].path, here);
        return n + 1;
    }
    const Node *k = n + 1;
    for (int i = 0; i < n->n; i++) k = find_leaves(k, here, depth + 1, rep, def);
    return k;
}

static void bytes(const void *s, size_t n)
{
    if (n && fwrite(s, 1, n, out) != n) fail("cannot write");
    at += (int64_t)n;
}

/* The column chunk of a leaf to the file, and what the footer says of it. */
static void end_chunk(Leaf *l, Buf *meta)
{
    Buf dict = {0};
    int last = 0, in = 0;
    end_page(l);
    int64_t start = at, dict_at = at;
    if (l->dict_used) {
        Leaf d = { .node = l->node };
        page(&d, 2, NULL, &l->dict, l->dict_n, 0, 0, 0, 0);
        bytes(d.pages.s, d.pages.n);
        buf_free(&d.pages);
    }
    int64_t data_at = at;
    bytes(l->pages.s, l->pages.n);
    int_field(meta, &last, 2, start, true);
    field(meta, &last, 3, 12);
    int_field(meta, &in, 1, l->node->type, false);
    field(meta, &in, 2, 9);
    list_head(meta, 3, 5), varint(meta, zigzag(0)), varint(meta, zigzag(3)), varint(meta, zigzag(8));
    field(meta, &in, 3, 9);
    list_head(meta, (size_t)l->elements, 8);
    for (const char *s = l->path; ; s++) {
        size_t n = strcspn(s, "\n");
        text_of(meta, s, n);
        s += n;
        if (!*s) break;
    }
    int_field(meta, &in, 4, codec, false);
    int_field(meta, &in, 5, l->values, true);
    int_field(meta, &in, 6, at - start, true);          /* not what it means, but nobody looks */
    int_field(meta, &in, 7, at - start, true);
    int_field(meta, &in, 9, data_at, true);
    if (l->dict_used) int_field(meta, &in, 11, dict_at, true);
    stop(meta), stop(meta);
    buf_clear(&l->pages), buf_clear(&l->dict);
    l->dict_n = 0, l->fell = l->dict_used = false, l->values = 0;
    buf_free(&dict);
}

static void schema_of(Buf *b)
{
    list_head(b, nodes, 12);
    for (size_t i = 0; i < nodes; i++) {
        const Node *n = &schema[i];
        int last = 0;
        if (n->type >= 0) int_field(b, &last, 1, n->type, false);
        if (i) int_field(b, &last, 3, n->repetition, false);
        field(b, &last, 4, 8), text_of(b, n->name, strlen(n->name));
        if (n->type < 0) int_field(b, &last, 5, n->n, false);
        if (n->as) int_field(b, &last, 6, n->as - 1, false);
        stop(b);
    }
}

/* groups: what the footer says of the row groups */
static void end_file(int64_t rows, size_t ngroups, const Buf *groups)
{
    Buf footer = {0}, tail = {0};
    int last = 0;
    int_field(&footer, &last, 1, 2, false);
    field(&footer, &last, 2, 9), schema_of(&footer);
    int_field(&footer, &last, 3, rows, true);
    field(&footer, &last, 4, 9), list_head(&footer, ngroups, 12);
    buf_add(&footer, groups->s ? groups->s : "", groups->n);
    stop(&footer);
    buf_u32(&tail, (uint32_t)footer.n), buf_str(&tail, "PAR1");
    bytes(footer.s, footer.n), bytes(tail.s, tail.n);
    if (fclose(out)) fail("cannot write");
    buf_free(&footer), buf_free(&tail);
}

static void write_file(int64_t rows, const char *path, const char *json_path)
{
    Buf groups = {0}, json = {0};
    size_t ngroups = 0;
    FILE *expect = fopen(json_path, "wb");
    if (!(out = fopen(path, "wb")) || !expect) fail("cannot open");
    bytes("PAR1", 4);
    for (int64_t done = 0; done < rows; ngroups++) {
        int64_t n = rows - done < GROUP_ROWS ? rows - done : GROUP_ROWS;
        for (int64_t r = 0; r < n; r++) {
            int first = 0;
            buf_clear(&json);
            members(schema, &first, 0, 0, 0, &json);
            buf_char(&json, '\n');
            if (fwrite(json.s, 1, json.n, expect) != json.n) fail("cannot write");
        }
        int g = 0;
        field(&groups, &g, 1, 9);
        list_head(&groups, (size_t)leaves, 12);
        for (int i = 0; i < leaves; i++) end_chunk(&leaf[i], &groups);
        int_field(&groups, &g, 2, 1, true), int_field(&groups, &g, 3, n, true);
        stop(&groups);
        done += n;
    }
    if (fclose(expect)) fail("cannot write");
    end_file(rows, ngroups, &groups);
    buf_free(&groups), buf_free(&json);
}

static void bomb(const char *kind, int64_t stated, size_t size, int columns, const char *path)
{
    Buf zeros = {0}, packed = {0};
    Node *n = xcalloc((size_t)columns + 1, sizeof *n);
    n[0] = (Node){ "schema", -1, 0, columns, 0 };
    for (int i = 1; i <= columns; i++) n[i] = (Node){ xasprintf("c%d", i), STRING, REQUIRED, 0, 0 };
    schema = n, nodes = (size_t)columns + 1;
    buf_reserve(&zeros, size);
    memset(zeros.s, 0, zeros.n = size);
    pack(&packed, &zeros);
    buf_free(&zeros);
    if (!(out = fopen(path, "wb"))) fail("cannot open");
    bytes("PAR1", 4);
    int g = 0;
    Buf group = {0}, head = {0};
    field(&group, &g, 1, 9), list_head(&group, (size_t)columns, 12);
    for (int i = 1; i <= columns; i++) {
        bool dict = !strcmp(kind, "dict");
        int h = 0, in = 0;
        leaf[0] = (Leaf){ .node = &n[i], .elements = 1, .values = 1 };
        strcpy(leaf[0].path, n[i].name);
        buf_clear(&head);
        int_field(&head, &h, 1, dict ? 2 : 0, false);
        int_field(&head, &h, 2, stated, false);
        int_field(&head, &h, 3, (int64_t)packed.n, false);
        field(&head, &h, dict ? 7 : 5, 12);
        int_field(&head, &in, 1, dict ? (int64_t)(size / 4) : 1, false);
        int_field(&head, &in, 2, 0, false);
        if (!dict) int_field(&head, &in, 3, 3, false), int_field(&head, &in, 4, 3, false);
        stop(&head), stop(&head);
        buf_add(&leaf[0].pages, head.s, head.n), buf_add(&leaf[0].pages, packed.s, packed.n);
        end_chunk(&leaf[0], &group);
    }
    int_field(&group, &g, 2, 1, true), int_field(&group, &g, 3, 1, true);
    stop(&group);
    end_file(1, 1, &group);
    buf_free(&head), buf_free(&group), buf_free(&packed);
}

static int one_of(const char *s, const char *const *names)
{
    for (int i = 0; names[i]; i++)
        if (!strcmp(s, names[i])) return i;
    fail(s);
    return 0;
}

int main(int argc, char **argv)
{
    static const char *const shapes[] = { "text", "smoltalk", "mmlu", "arc", "all", NULL };
    static const char *const codecs[] = { "none", "snappy", "gzip", "", "", "", "zstd", NULL };
    static const char *const ways[] = { "plain", "dict", "both", NULL };
    static const Node *const is[] = { text, smoltalk, mmlu, arc, all };
    static const size_t n[] = { sizeof text, sizeof smoltalk, sizeof mmlu, sizeof arc, sizeof all };
    if (argc == 8 && !strcmp(argv[1], "bomb")) {
        codec = one_of(argv[2], codecs);
        bomb(argv[3], atoll(argv[4]), (size_t)atoll(argv[5]), atoi(argv[6]), argv[7]);
        return 0;
    }
    if (argc != 9) fail("SHAPE CODEC VERSION VALUES ROWS NULLS OUT.parquet OUT.jsonl");
    int k = one_of(argv[1], shapes);
    schema = is[k], nodes = n[k] / sizeof(Node);
    codec = one_of(argv[2], codecs), version = atoi(argv[3]), how = one_of(argv[4], ways);
    nulls = atoi(argv[6]);
    rng_init(&rng, (uint64_t)k + 1, 0);
    find_leaves(schema, "", 0, 0, 0);
    write_file(atoll(argv[5]), argv[7], argv[8]);
    for (Leaf *l = leaf; l < leaf + leaves; l++) {
        free(l->rep), free(l->def), free(l->idx), free(l->bits), free(l->dict_at);
        buf_free(&l->plain), buf_free(&l->dict), buf_free(&l->pages);
    }
    return 0;
}
