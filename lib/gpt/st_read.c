/* st_read.c -- reading safetensors files; see safetensors.h. */
#include "base/map.h"
#include "gpt/narrow.h"
#include "gpt/safetensors.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define HEADER_MAX 100000000u       /* bytes; the format's own limit */

struct StFile {
    int fd;
    char *path;
    uint64_t data;                  /* where the data begins */
    Arena a;                        /* header text, JSON tree, names */
    StTensor *t; int n;
    Map by_name;
    const Json *meta;
    struct Sums *sums;              /* NULL: the file has none */
};

/* Of the tensor that is being read, up to element next. */
typedef struct Sums {
    const char *want;               /* 16 digits for each tensor */
    XXH3_state_t *hash;
    const StTensor *now; int64_t next;
} Sums;

static const struct { const char *name; StType type; unsigned width; } dtypes[] = {
    { "F64", ST_F64, 8 }, { "F32", ST_F32, 4 }, { "F16", ST_F16, 2 }, { "BF16", ST_BF16, 2 },
    { "I64", ST_I64, 8 }, { "I32", ST_I32, 4 }, { "I16", ST_I16, 2 }, { "I8", ST_I8, 1 },
    { "U8", ST_U8, 1 }, { "BOOL", ST_BOOL, 1 }, { "U64", ST_OTHER, 8 }, { "U32", ST_OTHER, 4 },
    { "U16", ST_OTHER, 2 }, { "C64", ST_OTHER, 8 }, { "F8_E4M3", ST_OTHER, 1 },
    { "F8_E5M2", ST_OTHER, 1 }, { "F8_E8M0", ST_OTHER, 1 },
};

static unsigned dtype_width(const char *name)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (!strcmp(dtypes[i].name, name)) return dtypes[i].width;
    return 0;
}

_Noreturn static void bad(const StFile *f, const char *why)
{
    die("%s: not a valid safetensors file: %s", f->path, why);
}

_Noreturn static void bad_tensor(const StFile *f, const char *name, const char *why)
{
    die("%s: not a valid safetensors file: tensor %s: %s", f->path, name, why);
}

/* All n bytes at off, or death; the file may have shrunk since it was opened. */
static void read_at(const StFile *f, void *p, uint64_t n, uint64_t off, const char *what)
{
    char *c = p;
    while (n) {
        ssize_t k = pread(f->fd, c, n < (1u << 30) ? n : 1u << 30, (off_t)off);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) die("%s:", f->path);
        if (k == 0) die("%s: ends inside %s, byte %llu", f->path, what, (unsigned long long)off);
        c += k; off += (uint64_t)k; n -= (uint64_t)k;
    }
}

/* The header's integers are plain digits, below 2^63. */
static bool digits(const Json *j, int64_t *x)
{
    if (!j || j->kind != J_NUM || !j->len) return false;
    int64_t v = 0;
    for (size_t i = 0; i < j->len; i++) {
        if (j->s[i] < '0' || j->s[i] > '9') return false;
        if (__builtin_mul_overflow(v, 10, &v)) return false;
        if (__builtin_add_overflow(v, j->s[i] - '0', &v)) return false;
    }
    *x = v;
    return true;
}

static bool has_nul(const char *s, size_t n) { return memchr(s, 0, n) != NULL; }

static void parse_shape(const StFile *f, StTensor *t, const Json *shape)
{
    if (!shape || shape->kind != J_ARR) bad_tensor(f, t->name, "no shape");
    if (shape->n > 8) bad_tensor(f, t->name, "more than 8 dimensions");
    t->n = 1;
    for (const Json *d = shape->child; d; d = d->next) {
        int64_t *x = &t->dim[t->ndim++];
        if (!digits(d, x)) bad_tensor(f, t->name, "a dimension is not a whole number");
        if (__builtin_mul_overflow(t->n, *x, &t->n)) bad_tensor(f, t->name, "a huge shape");
    }
}

static void parse_tensor(const StFile *f, StTensor *t, const Json *j)
{
    if (has_nul(j->key, j->key_len)) bad(f, "a tensor's name holds a NUL");
    t->name = j->key;
    if (j->kind != J_OBJ) bad_tensor(f, t->name, "not an object");
    const Json *ty = json_get(j, "dtype"), *o = json_get(j, "data_offsets");
    size_t k = 0, nk = sizeof dtypes / sizeof *dtypes;
    while (k < nk && !(ty && json_is_str(ty, dtypes[k].name))) k++;
    if (k == nk) bad_tensor(f, t->name, ty ? "unknown dtype" : "no dtype");
    t->dtype = dtypes[k].type;
    t->dtype_name = dtypes[k].name;
    parse_shape(f, t, json_get(j, "shape"));
    int64_t lo, hi, bytes;
    if (!o || o->kind != J_ARR || o->n != 2
        || !digits(o->child, &lo) || !digits(o->child->next, &hi))
        bad_tensor(f, t->name, "data_offsets are not two whole numbers");
    if (lo > hi) bad_tensor(f, t->name, "data_offsets end before they begin");
    if (__builtin_mul_overflow(t->n, (int64_t)dtypes[k].width, &bytes) || bytes != hi - lo)
        bad_tensor(f, t->name, "its shape does not fill its data_offsets");
    t->off = (uint64_t)lo;
    t->bytes = (uint64_t)bytes;
}

static void parse_meta(StFile *f, const Json *m)
{
    if (m->kind != J_OBJ) bad(f, "__metadata__ is not an object");
    for (const Json *j = m->child; j; j = j->next)
        if (j->kind != J_STR) bad(f, "a value in __metadata__ is not a string");
    f->meta = m;
}

/* By place in the file; a tensor without data comes before one that begins at the same place. */
static int by_place(const void *a, const void *b)
{
    const StTensor *x = a, *y = b;
    if (x->off != y->off) return x->off < y->off ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static void check_tiling(StFile *f, uint64_t size)
{
    uint64_t end = 0;
    qsort(f->t, (size_t)f->n, sizeof *f->t, by_place);
    for (int i = 0; i < f->n; i++) {
        const StTensor *t = &f->t[i];
        if (t->off < end) bad_tensor(f, t->name, "its data overlaps another tensor's");
        if (t->off > end) bad_tensor(f, t->name, "there is a hole before its data");
        end = t->off + t->bytes;            /* both below 2^63 */
        if (end > size) bad_tensor(f, t->name, "the file ends inside its data");
        *map_put(&f->by_name, t->name, strlen(t->name)) = i;
    }
    if (end < size) bad(f, "there are bytes after the last tensor");
}

static void parse_header(StFile *f, char *s, size_t n, uint64_t size)
{
    const char *err;
    size_t at;
    if (s[0] != '{') bad(f, "the header does not begin with {");
    const Json *j = json_parse(&f->a, s, n, &err, &at);
    if (!j) die("%s: not a valid safetensors file: header: %s (byte %zu)", f->path, err, at + 8);
    if (j->kind != J_OBJ) bad(f, "the header is not an object");
    f->t = arena_alloc(&f->a, size_mul((size_t)j->n + 1, sizeof *f->t));
    for (const Json *m = j->child; m; m = m->next) {
        if (m->key_len == 12 && !memcmp(m->key, "__metadata__", 12)) parse_meta(f, m);
        else parse_tensor(f, &f->t[f->n++], m);
    }
    check_tiling(f, size);
}

/* Another program may have made other tensors of them, and kept what it did not know. */
static void find_hashes(StFile *f)
{
    const Json *j = json_get(f->meta, ST_HASHES);
    if (!j || j->kind != J_STR || j->len != 16 * (size_t)f->n) return;
    f->sums = xcalloc(1, sizeof *f->sums);
    f->sums->want = j->s;
    f->sums->hash = XXH3_createState();
    if (!f->sums->hash) die("out of memory (for a hash)");
}

StFile *st_open(const char *path)
{
    StFile *f = xcalloc(1, sizeof *f);
    f->path = xstrdup(path);
    f->fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (f->fd < 0 || fstat(f->fd, &st)) die("%s:", path);
    if (!S_ISREG(st.st_mode)) die("%s: not a regular file", path);
    uint64_t size = (uint64_t)st.st_size, n;
    if (size < 8) bad(f, "shorter than its first field");
    unsigned char len[8];
    read_at(f, len, 8, 0, "the header's length");
    n = get_u64(len);
    if (n > HEADER_MAX) bad(f, "header longer than 100 MB");
    if (n > size - 8) bad(f, "the header is longer than the file");
    if (n < 2) bad(f, "no header");
    char *s = arena_alloc(&f->a, n + 1);
    read_at(f, s, n, 8, "the header");
    f->data = 8 + n;
    parse_header(f, s, n, size - f->data);
    find_hashes(f);
    return f;
}

int st_count(const StFile *f) { return f->n; }
const StTensor *st_at(const StFile *f, int i) { return &f->t[i]; }
const Json *st_meta(const StFile *f) { return f->meta; }

const StTensor *st_find(const StFile *f, const char *name)
{
    int64_t *i = map_get(&f->by_name, name, strlen(name));
    return i ? &f->t[*i] : NULL;
}

void st_close(StFile *f)
{
    if (!f) return;
    close(f->fd);
    if (f->sums) XXH3_freeState(f->sums->hash);
    free(f->sums);
    map_free(&f->by_name);
    arena_free(&f->a);
    free(f->path);
    free(f);
}

/* ---- conversion. Every bf16 and fp16 is exactly a float. */

static uint32_t get_u16(const unsigned char *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static double double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, 8);
    return x;
}

static void convert(real *out, const unsigned char *p, StType type, size_t n)
{
    switch (type) {
    case ST_F64: for (size_t i = 0; i < n; i++) out[i] = (real)double_of(get_u64(p + 8 * i)); break;
    case ST_F32: for (size_t i = 0; i < n; i++) out[i] = float_of(get_u32(p + 4 * i)); break;
    case ST_I32: for (size_t i = 0; i < n; i++) out[i] = (real)(int32_t)get_u32(p + 4 * i); break;
    case ST_BF16: for (size_t i = 0; i < n; i++) out[i] = float_of(get_u16(p + 2 * i) << 16); break;
    case ST_F16: for (size_t i = 0; i < n; i++) out[i] = fp16_value((uint16_t)get_u16(p + 2 * i)); break;
    default: break;
    }
}

bool st_is_real(const StTensor *t) { return t->dtype <= ST_BF16 || t->dtype == ST_I32; }

/* `size` bytes, n elements of t from `first` on, were read. */
static void check(const StFile *f, const StTensor *t, int64_t first, int64_t n, const void *p,
                  size_t size)
{
    char hex[17];
    Sums *s = f->sums;
    if (first == 0) {
        XXH3_64bits_reset(s->hash);
        s->now = t;
    } else if (s->now != t || s->next != first) {
        s->now = NULL;
        return;
    }
    XXH3_64bits_update(s->hash, p, size);
    s->next = first + n;
    if (s->next < t->n) return;
    s->now = NULL;
    snprintf(hex, sizeof hex, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(s->hash));
    if (memcmp(hex, s->want + 16 * (t - f->t), 16))
        die("%s: tensor %s: damaged: its bytes are not those that were written (or a program changed "
            "them that kept '" ST_HASHES "' of the metadata, which is to go then)", f->path, t->name);
}

void st_read_at(const StFile *f, const StTensor *t, int64_t first, int64_t n, real *out)
{
    unsigned char chunk[1 << 16];
    if (!st_is_real(t))
        die("%s: tensor %s: type %s is not a kind of float", f->path, t->name, t->dtype_name);
    size_t width = dtype_width(t->dtype_name), step = sizeof chunk / width;
    while (n > 0) {
        size_t k = (uint64_t)n < step ? (size_t)n : step;
        read_at(f, chunk, k * width, f->data + t->off + (uint64_t)first * width, t->name);
        if (f->sums) check(f, t, first, (int64_t)k, chunk, k * width);
        convert(out, chunk, t->dtype, k);
        out += k; first += (int64_t)k; n -= (int64_t)k;
    }
}

void st_read(const StFile *f, const StTensor *t, real *out) { st_read_at(f, t, 0, t->n, out); }

void st_read_i32(const StFile *f, const StTensor *t, int32_t *out)
{
    if (t->dtype != ST_I32)
        die("%s: tensor %s: its type is %s, not I32", f->path, t->name, t->dtype_name);
    read_at(f, out, t->bytes, f->data + t->off, t->name);
    for (int64_t i = 0; i < t->n; i++) out[i] = (int32_t)get_u32(&out[i]);
}
