/* parquet.c -- rows put together from columns: Dremel's levels read back.
 * (Melnik et al., Dremel: interactive analysis of web-scale datasets, VLDB 2010, section 4.) */
#include "base/json.h"
#include "data/codec.h"
#include "data/pq.h"
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool parquet_magic(const char *s, size_t n)
{
    return n >= 4 && (!memcmp(s, "PAR1", 4) || !memcmp(s, "PARE", 4));
}

static void choose(Parquet *p, const char *const *columns, int n)
{
    for (int i = 1; n && i < p->nodes; i++) p->node[i].wanted = false;
    for (int c = 0; c < n; c++) {
        int found = 0;
        for (int i = 1; i < p->nodes; i = p->node[i].next) {
            PqNode *x = &p->node[i];
            if (x->name_len != strlen(columns[c]) || memcmp(x->name, columns[c], x->name_len))
                continue;
            for (int k = i; k < x->next; k++) p->node[k].wanted = true;
            found = 1;
        }
        if (!found) die("%s: no column '%s'", p->path, columns[c]);
    }
}

Parquet *parquet_open(const char *path, const char *const *columns, int n)
{
    Parquet *p = xcalloc(1, sizeof *p);
    struct stat st;
    if (!strcmp(path, "-")) die("stdin: Parquet is read from its end: give a file");
    p->path = path;
    p->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (p->fd < 0 || fstat(p->fd, &st)) die("%s:", path);
    if (!S_ISREG(st.st_mode)) die("%s: Parquet is read from its end: give a regular file", path);
    p->size = (uint64_t)st.st_size;
    pq_footer(p);
    choose(p, columns, n);
    p->leaf = xcalloc((size_t)p->leaves + 1, sizeof *p->leaf);
    for (int i = 0; i < p->leaves; i++) p->leaf[i].node = p->leaf_node[i];
    return p;
}

uint64_t parquet_rows(const Parquet *p)
{
    return p->rows;
}

void parquet_close(Parquet *p)
{
    for (int i = 0; i < p->nodes; i++) buf_free(&p->node[i].key);
    for (int i = 0; i < p->leaves; i++) {
        buf_free(&p->leaf[i].dict), buf_free(&p->leaf[i].page);
        free(p->leaf[i].dict_at);
    }
    buf_free(&p->footer), buf_free(&p->raw);
    free(p->pair), free(p->node), free(p->leaf_node), free(p->chunk), free(p->group_rows), free(p->leaf);
    close(p->fd);
    free(p);
}

/* ---- structure */

static PqLeaf *first_leaf(Parquet *p, int i)
{
    return &p->leaf[p->node[i].leaf];
}

static void check_row(const Parquet *p, const PqLeaf *l, const Buf *out)
{
    if (out->n > p->limit) pq_bad(p, l, "a row of more than 48 MB, which is not supported");
}

/* The value at hand of leaf l, which stands at repetition level rep of what is being built. */
static void value(Parquet *p, PqLeaf *l, int rep, Buf *out)
{
    const PqNode *n = &p->node[l->node];
    if (l->done || l->rep != rep) pq_bad(p, l, "damaged: columns of different length");
    check_row(p, l, out);
    if (l->def < n->max_def - (n->repetition == PQ_OPTIONAL))
        pq_bad(p, l, "damaged: columns of different length");
    if (l->def < n->max_def) buf_str(out, "null");
    else pq_value(p, l, out);
    pq_next(p, l);
}

static void put(Parquet *p, int i, int rep, Buf *out);

/* Node i is not there, although what it is in is: every column below must say the same. */
static void nothing(Parquet *p, int i, int rep, const char *as, Buf *out)
{
    const PqNode *n = &p->node[i];
    int def = n->max_def - 1;
    check_row(p, first_leaf(p, i), out);
    for (int k = n->leaf; k < n->leaf + n->leaves; k++) {
        PqLeaf *l = &p->leaf[k];
        if (l->done || l->rep != rep || l->def != def)
            pq_bad(p, l, "damaged: columns of different length");
        pq_next(p, l);
    }
    buf_str(out, as);
}

static void object(Parquet *p, int i, int rep, Buf *out)
{
    const PqNode *n = &p->node[i];
    const char *sep = "{";
    for (int k = i + 1; k < n->next; k = p->node[k].next) {
        if (!p->node[k].wanted) continue;
        buf_str(out, sep);
        buf_add(out, p->node[k].key.s, p->node[k].key.n);
        put(p, k, rep, out);
        sep = ",";
    }
    buf_str(out, *sep == '{' ? "{}" : "}");
}

static void content(Parquet *p, int i, int rep, Buf *out)
{
    if (p->node[i].type >= 0) value(p, &p->leaf[p->node[i].leaf], rep, out);
    else object(p, i, rep, out);
}

static bool named(const PqNode *n, const char *s)
{
    return n->name_len == strlen(s) && !memcmp(n->name, s, n->name_len);
}

/* LIST's backward compatibility rules: is the repeated node r of list i an element itself, or does
 * it hold one? */
static bool is_element(const Parquet *p, int i, int r)
{
    const PqNode *list = &p->node[i], *n = &p->node[r];
    if (n->type >= 0 || n->children != 1) return true;
    if (n->as == AS_LIST || n->as == AS_MAP) return true;
    if (p->node[r + 1].repetition == PQ_REPEATED) return true;
    if (named(n, "array")) return true;
    size_t k = list->name_len;
    return n->name_len == k + 6 && !memcmp(n->name, list->name, k) &&
           !memcmp(n->name + k, "_tuple", 6);
}

typedef void Each(Parquet *p, int r, int rep, Buf *out);

/* The repetitions of node r, which stand between open and close. */
static void repeat(Parquet *p, int r, int rep, const char *brackets, Each *each, Buf *out)
{
    const PqNode *n = &p->node[r];
    PqLeaf *l = first_leaf(p, r);
    char empty[3] = { brackets[0], brackets[1], 0 };
    if (!l->done && l->def < n->max_def) {
        nothing(p, r, rep, empty, out);
        return;
    }
    buf_char(out, brackets[0]);
    for (int k = 0; k == 0 || (!l->done && l->rep == n->max_rep); k++) {
        if (k) buf_char(out, ',');
        if (l->def < n->max_def) pq_bad(p, l, "damaged: a list that ends twice");
        each(p, r, k ? n->max_rep : rep, out);
    }
    buf_char(out, brackets[1]);
}

static void inner_element(Parquet *p, int r, int rep, Buf *out)
{
    put(p, r + 1, rep, out);
}

/* key and value of a MAP's repeated group; a key that is no string becomes one */
static void pair(Parquet *p, int r, int rep, Buf *out)
{
    size_t at = out->n;
    int key = r + 1, val = p->node[key].next;
    put(p, key, rep, out);
    if (out->s[at] != '"') {
        buf_char(out, '"'), buf_char(out, '"');
        memmove(out->s + at + 1, out->s + at, out->n - at - 2);
        out->s[at] = '"';
    }
    size_t k = pq_pair(p, first_leaf(p, r), at, out->n);
    buf_char(out, ':');
    if (val < p->node[r].next) put(p, val, rep, out);
    else buf_str(out, "null");
    p->pair[k].end = out->n;
}

static void map(Parquet *p, int r, int rep, Buf *out)
{
    size_t first = p->npair;
    repeat(p, r, rep, "{}", pair, out);
    pq_map_end(p, first, out);
}

/* Node i, which is there once. */
static void present(Parquet *p, int i, int rep, Buf *out)
{
    const PqNode *n = &p->node[i], *r = n->children == 1 ? &p->node[i + 1] : NULL;
    bool repeated = r && r->repetition == PQ_REPEATED;
    if (n->as == AS_LIST && repeated)
        repeat(p, i + 1, rep, "[]", is_element(p, i, i + 1) ? present : inner_element, out);
    else if (n->as == AS_MAP && repeated && r->type < 0 && (r->children == 1 || r->children == 2) &&
             p->node[i + 2].type >= 0)
        map(p, i + 1, rep, out);
    else content(p, i, rep, out);
}

/* Node i with all below it, at repetition level rep. */
static void put(Parquet *p, int i, int rep, Buf *out)
{
    const PqNode *n = &p->node[i];
    PqLeaf *l = first_leaf(p, i);
    if (n->repetition == PQ_REPEATED)
        repeat(p, i, rep, "[]", present, out);
    else if (n->repetition == PQ_OPTIONAL && n->type < 0 && !l->done && l->def < n->max_def)
        nothing(p, i, rep, "null", out);
    else present(p, i, rep, out);
}

/* ---- rows */

static bool wanted(const Parquet *p, int leaf)
{
    return p->node[p->leaf_node[leaf]].wanted;
}

static void begin_group(Parquet *p)
{
    const PqChunk *c = &p->chunk[p->group * (size_t)p->leaves];
    p->rows_left = p->group_rows[p->group];
    for (int i = 0; p->rows_left && i < p->leaves; i++)
        if (wanted(p, i)) pq_chunk(p, &p->leaf[i], &c[i]);
}

static void end_group(Parquet *p)
{
    for (int i = 0; p->group_rows[p->group] && i < p->leaves; i++)
        if (wanted(p, i) && !p->leaf[i].done)
            pq_bad(p, &p->leaf[i], "damaged: more values than its row group has rows");
    p->group++;
}

bool parquet_row(Parquet *p, Buf *out)
{
    while (!p->rows_left) {
        if (p->full) end_group(p);
        p->full = false;
        if (p->group == p->groups) return false;
        begin_group(p);
        p->full = true;
    }
    p->rows_left--;
    p->limit = out->n + PARQUET_ROW;
    object(p, 0, 0, out);
    return true;
}

/* ---- for a person */

static const char *const types[PQ_TYPES] = {
    "BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"
};
static const char *const repetitions[] = { "required", "optional", "repeated" };

static void describe_node(const Parquet *p, int i, int depth, Buf *out)
{
    const PqNode *n = &p->node[i];
    buf_printf(out, "%*s%s %s %s", 2 * depth, "", repetitions[n->repetition],
               n->type < 0 ? "group" : types[n->type], n->key.s);
    out->n--;                                           /* its colon */
    if (n->as == AS_LIST) buf_str(out, " (LIST)");
    if (n->as == AS_MAP) buf_str(out, " (MAP)");
    if (n->as == AS_UNSIGNED) buf_str(out, " (unsigned)");
    if (n->as == AS_DATE) buf_str(out, " (DATE)");
    if (n->as == AS_TIME || n->as == AS_TIMESTAMP)
        buf_printf(out, " (%s, %d digits)", n->as == AS_TIME ? "TIME" : "TIMESTAMP", n->digits);
    if (n->as == AS_REFUSED) buf_printf(out, " (%s, not supported)", n->refused);
    buf_char(out, '\n');
    for (int k = i + 1; k < n->next; k = p->node[k].next) describe_node(p, k, depth + 1, out);
}

void parquet_describe(const Parquet *p, Buf *out)
{
    buf_printf(out, "rows %" PRIu64 "\nrow groups %zu\nschema\n", p->rows, p->groups);
    for (int k = 1; k < p->nodes; k = p->node[k].next) describe_node(p, k, 1, out);
    buf_str(out, "columns\n");
    for (int i = 0; i < p->leaves; i++) {
        uint64_t bytes = 0, codecs = 0, values = 0;
        uint32_t encodings = 0;
        for (size_t g = 0; g < p->groups; g++) {
            const PqChunk *c = &p->chunk[g * (size_t)p->leaves + (size_t)i];
            bytes += c->size, values += (uint64_t)c->values, encodings |= c->encodings;
            codecs |= (uint64_t)1 << (c->codec < 63 ? c->codec : 63);
        }
        buf_str(out, "  ");
        pq_column_name(p, i, out);
        buf_printf(out, " values %" PRIu64 " bytes %" PRIu64 " codecs", values, bytes);
        for (int c = 0; c < 64; c++)
            if (codecs >> c & 1) buf_printf(out, " %s", codec_name(c));
        buf_str(out, " encodings");
        for (int e = 0; e < 32; e++)
            if (encodings >> e & 1) buf_printf(out, " %s", pq_encoding_name(e));
        buf_char(out, '\n');
    }
}
