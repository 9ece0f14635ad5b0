/* pq_meta.c -- the footer: schema and row groups. Every number in it is checked here. */
#include "base/json.h"
#include "data/codec.h"
#include "data/pq.h"
#include "data/thrift.h"
#include "text/utf8.h"
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NODES = 20000, MAX_LEVEL = 32 };

static const char *const encodings[PQ_ENCODINGS] = {
    "PLAIN", "GROUP_VAR_INT", "PLAIN_DICTIONARY", "RLE", "BIT_PACKED", "DELTA_BINARY_PACKED",
    "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "RLE_DICTIONARY", "BYTE_STREAM_SPLIT"
};

const char *pq_encoding_name(int e)
{
    return e >= 0 && e < PQ_ENCODINGS ? encodings[e] : "an unknown encoding";
}

/* ---- schema */

/* ConvertedType -> how the values are shown */
static void converted(PqNode *n, int c)
{
    switch (c) {
    case 1: case 2: n->as = AS_MAP; break;              /* MAP, MAP_KEY_VALUE */
    case 3: n->as = AS_LIST; break;
    case 5: n->as = AS_REFUSED, n->refused = "DECIMAL"; break;
    case 6: n->as = AS_DATE; break;
    case 7: case 8: n->as = AS_TIME, n->digits = c == 7 ? 3 : 6; break;
    case 9: case 10: n->as = AS_TIMESTAMP, n->digits = c == 9 ? 3 : 6; break;
    case 11: case 12: case 13: case 14: n->as = AS_UNSIGNED; break;
    case 20: n->as = AS_REFUSED, n->refused = "BSON"; break;
    case 21: n->as = AS_REFUSED, n->refused = "INTERVAL"; break;
    default: break;
    }
}

/* TIME and TIMESTAMP: 2 unit, a union of 1 milli-, 2 micro-, 3 nanoseconds */
static void time_unit(Thrift *t, PqNode *n)
{
    int id = 0, unit, type;
    n->digits = 6;
    while ((type = thrift_field(t, &id)) != T_STOP) {
        if (id != 2 || type != T_STRUCT) {
            thrift_skip(t, type);
            continue;
        }
        for (unit = 0; (type = thrift_field(t, &unit)) != T_STOP; thrift_skip(t, type))
            n->digits = unit == 1 ? 3 : unit == 3 ? 9 : 6;
    }
}

static void integer_type(Thrift *t, PqNode *n)          /* INTEGER: 2 isSigned */
{
    int id = 0, type;
    for (; (type = thrift_field(t, &id)) != T_STOP; thrift_skip(t, type))
        if (id == 2 && type == T_FALSE) n->as = AS_UNSIGNED;
}

/* LogicalType: a union, told by the number of its one field */
static void logical(Thrift *t, PqNode *n)
{
    static const struct { PqAs as; const char *refused; } kinds[] = {
        [2] = { AS_MAP, NULL }, [3] = { AS_LIST, NULL }, [5] = { AS_REFUSED, "DECIMAL" },
        [6] = { AS_DATE, NULL }, [7] = { AS_TIME, NULL }, [8] = { AS_TIMESTAMP, NULL },
        [13] = { AS_REFUSED, "BSON" }, [14] = { AS_REFUSED, "UUID" },
        [15] = { AS_REFUSED, "FLOAT16" },
    };
    int id = 0, type;
    while ((type = thrift_field(t, &id)) != T_STOP) {
        if (id < (int)(sizeof kinds / sizeof *kinds) && kinds[id].as != AS_PLAIN)
            n->as = kinds[id].as, n->refused = kinds[id].refused;
        if (type != T_STRUCT) thrift_skip(t, type);
        else if (id == 7 || id == 8) time_unit(t, n);
        else if (id == 10) integer_type(t, n);
        else thrift_skip(t, type);
    }
}

static void schema_element(Thrift *t, PqNode *n)
{
    int id = 0, type, has_children = 0;
    *n = (PqNode){ .type = -1, .repetition = PQ_REQUIRED };
    while ((type = thrift_field(t, &id)) != T_STOP) {
        switch (id) {
        case 1:
            n->type = thrift_i32(t, type);
            if (n->type < 0 || n->type >= PQ_TYPES) thrift_fail(t, "a physical type there is not");
            break;
        case 3:
            n->repetition = thrift_i32(t, type);
            if (n->repetition < PQ_REQUIRED || n->repetition > PQ_REPEATED)
                thrift_fail(t, "a repetition type there is not");
            break;
        case 4: n->name = thrift_bin(t, type, &n->name_len); break;
        case 5:
            n->children = thrift_i32(t, type);
            has_children = 1;
            if (n->children < 0) thrift_fail(t, "a negative number of children");
            break;
        case 6: converted(n, thrift_i32(t, type)); break;
        case 10:
            if (type == T_STRUCT) logical(t, n);
            else thrift_skip(t, type);
            break;
        default: thrift_skip(t, type);
        }
    }
    if (n->type !=
            (n->as == AS_DATE || (n->as == AS_TIME && n->digits == 3) ? PQ_INT32 : PQ_INT64) &&
        (n->as == AS_DATE || n->as == AS_TIME || n->as == AS_TIMESTAMP))
        n->as = AS_PLAIN;                               /* not what the format allows */
    if (!n->name && !t->bad) thrift_fail(t, "a schema element without a name");
    if (n->type >= 0 && n->children) thrift_fail(t, "a column of a type that has children");
    if (n->type < 0 && !has_children) thrift_fail(t, "a schema element without a type or children");
    if (utf8_valid(n->name, n->name_len) != n->name_len) thrift_fail(t, "a name that is not UTF-8");
}

static void schema_list(Thrift *t, int type, Parquet *p)
{
    int elem;
    size_t n = thrift_list(t, type, &elem);
    if (p->node) thrift_fail(t, "two schemas");
    if (n > MAX_NODES) thrift_fail(t, "a schema of more than 20000 elements");
    if (elem != T_STRUCT) thrift_fail(t, "a schema that is no list of structs");
    if (t->bad) return;
    p->node = xcalloc(n + 1, sizeof *p->node);
    for (size_t i = 0; i < n && !t->bad; i++) {
        schema_element(t, &p->node[i]);
        p->nodes++;
    }
}

/* Depth-first: levels, extents and leaf numbers of node i and all below; returns the index after.
 */
static int place(Parquet *p, int i, int def, int rep, int depth)
{
    PqNode *n = &p->node[i];
    if (depth > MAX_LEVEL)
        die("%s: damaged Parquet schema: nested deeper than %d", p->path, MAX_LEVEL);
    if (depth) {
        def += n->repetition != PQ_REQUIRED;
        rep += n->repetition == PQ_REPEATED;
        json_str(&n->key, n->name, n->name_len);
        buf_char(&n->key, ':');
    }
    n->max_def = def, n->max_rep = rep, n->leaf = p->leaves, n->wanted = true;
    int at = i + 1;
    if (n->type >= 0) p->leaves++;
    for (int k = 0; k < n->children; k++) {
        if (at >= p->nodes) die("%s: damaged Parquet schema: children that are not there", p->path);
        at = place(p, at, def, rep, depth + 1);
    }
    n->leaves = p->leaves - n->leaf;
    if (depth && !n->leaves)
        die("%s: damaged Parquet schema: %.*s has no columns", p->path, (int)n->key.n - 1,
            n->key.s);
    return n->next = at;
}

static int by_name(const void *a, const void *b)
{
    const PqNode *x = *(const PqNode *const *)a, *y = *(const PqNode *const *)b;
    size_t m = x->name_len < y->name_len ? x->name_len : y->name_len;
    int c = memcmp(x->name, y->name, m);
    return c ? c : (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

/* Two children of one name would make an object with a key twice. */
static void check_names(const Parquet *p)
{
    const PqNode **c = xreallocarray(NULL, (size_t)p->nodes + 1, sizeof *c);
    for (int i = 0; i < p->nodes; i++) {
        int n = 0;
        for (int k = i + 1; k < p->node[i].next; k = p->node[k].next) c[n++] = &p->node[k];
        qsort(c, (size_t)n, sizeof *c, by_name);
        for (int k = 1; k < n; k++)
            if (by_name(&c[k - 1], &c[k]) == 0)
                die("%s: Parquet schema: two columns named %.*s", p->path, (int)c[k]->key.n - 1,
                    c[k]->key.s);
    }
    free(c);
}

static void finish_schema(Parquet *p)
{
    if (!p->nodes) die("%s: damaged Parquet file: no schema", p->path);
    if (p->node[0].type >= 0) die("%s: damaged Parquet schema: its root is a column", p->path);
    if (place(p, 0, 0, 0, 0) != p->nodes)
        die("%s: damaged Parquet schema: elements after its end", p->path);
    check_names(p);
    p->leaf_node = xreallocarray(NULL, (size_t)p->leaves + 1, sizeof *p->leaf_node);
    for (int i = 0; i < p->nodes; i++)
        if (p->node[i].type >= 0) p->leaf_node[p->node[i].leaf] = i;
}

/* ---- row groups */

static void column_meta(Thrift *t, const Parquet *p, PqChunk *c)
{
    int id = 0, type, elem;
    int64_t data = -1, dict = 0, size = -1;
    c->values = -1, c->codec = c->type = -1;
    while ((type = thrift_field(t, &id)) != T_STOP) {
        switch (id) {
        case 1: c->type = thrift_i32(t, type); break;
        case 2:
            for (size_t n = thrift_list(t, type, &elem); n && !t->bad; n--) {
                int32_t e = thrift_i32(t, elem);
                c->encodings |= (uint32_t)1 << (e >= 0 && e < 31 ? e : 31);
            }
            break;
        case 4: c->codec = thrift_i32(t, type); break;
        case 5: c->values = thrift_int(t, type); break;
        case 7: size = thrift_int(t, type); break;
        case 9: data = thrift_int(t, type); break;
        case 11: dict = thrift_int(t, type); break;
        default: thrift_skip(t, type);
        }
    }
    int64_t start = dict > 0 && dict < data ? dict : data;
    if (c->type < 0 || c->codec < 0) thrift_fail(t, "a column chunk without type or codec");
    else if (c->values < 0) thrift_fail(t, "a column chunk with a negative number of values");
    else if (c->values && (start < 4 || size < 0 || (uint64_t)start > p->data_end ||
                           (uint64_t)size > p->data_end - (uint64_t)start))
        thrift_fail(t, "a column chunk outside the file's data");
    c->start = start < 0 ? 0 : (uint64_t)start;
    c->size = size < 0 ? 0 : (uint64_t)size;
}

static void column_chunk(Thrift *t, const Parquet *p, PqChunk *c)
{
    int id = 0, type, there = 0;
    size_t n;
    *c = (PqChunk){ 0 };
    while ((type = thrift_field(t, &id)) != T_STOP) {
        switch (id) {
        case 1:
            thrift_bin(t, type, &n);
            if (n) thrift_fail(t, "a column in another file (file_path), which is not supported");
            break;
        case 3:
            if (type != T_STRUCT || there) thrift_fail(t, "a column chunk without one description");
            else column_meta(t, p, c);
            there = 1;
            break;
        default: thrift_skip(t, type);
        }
    }
    if (!there) thrift_fail(t, "a column chunk without a description (encrypted?)");
}

static void row_group(Thrift *t, Parquet *p, size_t g)
{
    int id = 0, type, elem;
    size_t n = 0;
    p->group_rows[g] = -1;
    while ((type = thrift_field(t, &id)) != T_STOP) {
        switch (id) {
        case 1:
            if (n) thrift_fail(t, "a row group with two lists of columns");
            n = thrift_list(t, type, &elem);
            if (n != (size_t)p->leaves)
                thrift_fail(t, "a row group with another number of columns");
            if (n && elem != T_STRUCT) thrift_fail(t, "columns that are no structs");
            for (size_t i = 0; i < n && !t->bad; i++)
                column_chunk(t, p, &p->chunk[g * n + i]);
            break;
        case 3: p->group_rows[g] = thrift_int(t, type); break;
        default: thrift_skip(t, type);
        }
    }
    if (n != (size_t)p->leaves) thrift_fail(t, "a row group without its columns");
    if (p->group_rows[g] < 0 || (uint64_t)p->group_rows[g] > INT64_MAX - p->rows)
        thrift_fail(t, "a row group with a negative number of rows");
    else p->rows += (uint64_t)p->group_rows[g];
    for (size_t i = 0; i < n && !t->bad; i++) {
        const PqNode *leaf = &p->node[p->leaf_node[i]];
        if (p->chunk[g * n + i].type != leaf->type)
            thrift_fail(t, "a column chunk of another type than its schema's");
    }
}

static void row_groups(Thrift *t, int type, Parquet *p)
{
    int elem;
    size_t n = thrift_list(t, type, &elem);
    if (p->groups) thrift_fail(t, "two lists of row groups");
    if (n && elem != T_STRUCT) thrift_fail(t, "row groups that are no structs");
    /* A description of a chunk takes more than 16 bytes: so much memory the file is good for. */
    if (n > (size_t)(t->end - t->p) / 16 / (size_t)(p->leaves ? p->leaves : 1))
        thrift_fail(t, "more row groups than there is room for");
    if (t->bad || !n) return;
    p->chunk = xcalloc(size_mul(n, (size_t)p->leaves), sizeof *p->chunk);
    p->group_rows = xcalloc(n, sizeof *p->group_rows);
    for (size_t g = 0; g < n && !t->bad; g++, p->groups++) row_group(t, p, g);
}

/* ---- the file's end */

static size_t footer_length(Parquet *p)
{
    char tail[8], head[4];
    if (p->size < 12) die("%s: too short for a Parquet file: %" PRIu64 " bytes", p->path, p->size);
    pq_pread(p, head, 4, 0);
    pq_pread(p, tail, 8, p->size - 8);
    if (!memcmp(tail + 4, "PARE", 4) || !memcmp(head, "PARE", 4))
        die("%s: an encrypted Parquet file, which is not supported", p->path);
    if (memcmp(head, "PAR1", 4)) die("%s: not a Parquet file", p->path);
    if (memcmp(tail + 4, "PAR1", 4))
        die("%s: cut short: it does not end as a Parquet file does", p->path);
    uint32_t n = get_u32(tail);
    if (n > p->size - 12)
        die("%s: damaged Parquet file: a footer of %" PRIu32 " bytes in a file of %" PRIu64,
            p->path, n, p->size);
    if (n > PARQUET_FOOTER)
        die("%s: a Parquet footer of %" PRIu32 " bytes; %zu are supported", p->path, n,
            PARQUET_FOOTER);
    return n;
}

void pq_footer(Parquet *p)
{
    size_t n = footer_length(p);
    p->data_end = p->size - 8 - n;
    buf_reserve(&p->footer, n);
    pq_pread(p, p->footer.s, n, p->data_end);
    p->footer.n = n;
    const uint8_t *s = (const uint8_t *)p->footer.s;
    Thrift t = { s, s + n, NULL };
    int id = 0, type;
    int64_t stated = -1;
    while ((type = thrift_field(&t, &id)) != T_STOP) {
        switch (id) {
        case 2:
            schema_list(&t, type, p);
            if (!t.bad) finish_schema(p);
            break;
        case 3: stated = thrift_int(&t, type); break;
        case 4:
            if (!p->node) thrift_fail(&t, "row groups before the schema");
            row_groups(&t, type, p);
            break;
        default: thrift_skip(&t, type);
        }
    }
    if (t.bad) die("%s: damaged Parquet footer: %s", p->path, t.bad);
    if (!p->node) die("%s: damaged Parquet footer: no schema", p->path);
    if (stated != (int64_t)p->rows)
        warn("%s: the footer states %" PRId64 " rows; its row groups have %" PRIu64, p->path,
             stated, p->rows);
}
