/* safetensors: every verdict of the manifest, exact conversion of every half, writing. REAL_F64 */
#include "golden/golden.h"
#include "gpt/safetensors.h"
#include "tap.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define SET "tests/golden/data/safetensors/"
static char dir[] = "/tmp/safetensors.XXXXXX";

static void open_and_close(void *path) { st_close(st_open(path)); }

static int same(real x, const Json *want)
{
    if (json_is_str(want, "nan")) return isnan(x);
    if (json_is_str(want, "inf")) return isinf(x) && x > 0;
    real w = (real)want->num;
    return memcmp(&x, &w, sizeof x) == 0 || (isinf(w) && isinf(x) && (w > 0) == (x > 0));
}

static int tensor_good(const StFile *f, const Json *want)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)want->key_len, want->key);
    const StTensor *t = st_find(f, name);
    if (!t || !json_is_str(json_get(want, "dtype"), t->dtype_name)) return 0;
    int d = 0, good = json_get(want, "shape")->n == t->ndim;
    for (const Json *j = json_get(want, "shape")->child; j; j = j->next)
        good &= t->dim[d++] == (int64_t)j->num;
    const Json *v = json_get(want, "values");
    good &= v->n == t->n;
    if (!good || !st_is_real(t)) return good;
    real *x = xcalloc((size_t)t->n + 1, sizeof *x);
    st_read(f, t, x);
    int i = 0;
    for (const Json *j = v->child; j; j = j->next) good &= same(x[i++], j);
    free(x);
    return good;
}

static void loads(const char *path, const Json *e)
{
    StFile *f = st_open(path);
    const Json *tensors = json_get(e, "tensors"), *meta = json_get(e, "metadata");
    int good = st_count(f) == tensors->n;
    for (const Json *t = tensors->child; t; t = t->next) good &= tensor_good(f, t);
    if (meta && meta->kind == J_OBJ)
        for (const Json *m = meta->child; m; m = m->next) {
            const Json *got = json_get(st_meta(f), m->key);
            good &= got && got->len == m->len && !memcmp(got->s, m->s, m->len);
        }
    else good &= !st_meta(f);
    ok(good, "loads: %s", json_get(e, "why")->s);
    st_close(f);
}

static void manifest(void)
{
    Arena a = { 0 };
    const Json *m = golden_json(&a, SET "manifest.json");
    ok(m->n == 32, "the manifest lists 32 files");
    for (const Json *e = m->child; e; e = e->next) {
        char *path = xasprintf(SET "%s", json_get(e, "file")->s);
        if (json_is_str(json_get(e, "expect"), "load")) loads(path, e);
        else {
            char *text = xasprintf("%s: not a valid safetensors file: ", path);
            ok(dies(1, text, open_and_close, path), "refused: %s", json_get(e, "why")->s);
            free(text);
        }
        free(path);
    }
    arena_free(&a);
}

static char *tmp(const char *name) { return xasprintf("%s/%s", dir, name); }

static void write_raw(const char *path, const char *header, const void *data, size_t n)
{
    unsigned char len[8] = { 0 };
    for (int i = 0; i < 8; i++) len[i] = (unsigned char)(strlen(header) >> 8 * i);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(len, 8, 1, f) != 1 || fwrite(header, strlen(header), 1, f) != 1
        || (n && fwrite(data, n, 1, f) != 1) || fclose(f)) die("%s:", path);
}

/* Every 16-bit pattern against arithmetic on its fields. */
static double field_value(unsigned h, int ebits, int mbits)
{
    int e = h >> mbits & ((1 << ebits) - 1), m = h & ((1 << mbits) - 1),
        bias = (1 << (ebits - 1)) - 1;
    double x = e == (1 << ebits) - 1 ? (m ? NAN : INFINITY)
             : e ? ldexp(1 + ldexp(m, -mbits), e - bias) : ldexp(m, 1 - bias - mbits);
    return h >> 15 ? -x : x;
}

static void halves(const char *dtype, int ebits, int mbits)
{
    unsigned char data[1 << 17];
    char head[128];
    for (unsigned i = 0; i < 1 << 16; i++) {
        data[2 * i] = (unsigned char)i;
        data[2 * i + 1] = (unsigned char)(i >> 8);
    }
    snprintf(head, sizeof head,
             "{\"x\":{\"dtype\":\"%s\",\"shape\":[65536],\"data_offsets\":[0,131072]}}", dtype);
    char *path = tmp("half");
    write_raw(path, head, data, sizeof data);
    StFile *f = st_open(path);
    real *x = xcalloc(1 << 16, sizeof *x), part[3];
    st_read(f, st_at(f, 0), x);
    int bad = 0;
    for (unsigned i = 0; i < 1 << 16; i++) {
        double want = field_value(i, ebits, mbits);
        bad += isnan(want) ? !isnan(x[i])
                           : !((double)x[i] == want && !signbit(x[i]) == !signbit(want));
    }
    ok(bad == 0, "all 65536 values of %s are exact", dtype);
    st_read_at(f, st_at(f, 0), 15363, 3, part);
    ok(memcmp(part, x + 15363, sizeof part) == 0, "  and so is a part of them");
    st_close(f);
    free(x);
    free(path);
}

/* Written with checksums, and again with bit `turned` of the data turned; read in pieces. */
static void read_turned(void *arg)
{
    int turned = *(int *)arg;
    char *path = tmp("sums");
    real x[40], got[40];
    int64_t dim[2] = { 5, 6 }, none = 0, ten = 10;
    for (int i = 0; i < 40; i++) x[i] = (real)i / 7;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    StWriter *w = stw_new();
    stw_hash(w);
    stw_meta(w, "format", "pt");
    stw_add(w, "a", 2, dim);
    stw_add(w, "none", 1, &none);
    stw_add(w, "b", 1, &ten);
    off_t data = (off_t)(stw_size(w) - sizeof x);
    stw_begin_fd(w, fd);
    stw_data(w, x, 40);
    if (stw_end(w)) die("cannot write");
    unsigned char c;
    if (turned >= 0) {
        if (pread(fd, &c, 1, data + turned / 8) != 1) die("cannot read");
        c ^= (unsigned char)(1 << turned % 8);
        if (pwrite(fd, &c, 1, data + turned / 8) != 1) die("cannot write");
    }
    close(fd);
    StFile *f = st_open(path);
    st_read_at(f, st_find(f, "a"), 3, 4, got);          /* a part: nothing to compare */
    st_read_at(f, st_find(f, "a"), 0, 20, got);
    st_read_at(f, st_find(f, "a"), 20, 10, got + 20);
    st_read(f, st_find(f, "none"), got + 30);
    st_read(f, st_find(f, "b"), got + 30);
    if (memcmp(x, got, sizeof x)) die("other numbers");
    st_close(f);
    free(path);
}

static void sums(void)
{
    int at[] = { -1, 0, 30 * 8 * (int)sizeof(real) - 1, 30 * 8 * (int)sizeof(real) };
    read_turned(&at[0]);
    ok(1, "a file with checksums is read");
    ok(dies(1, "tensor a: damaged", read_turned, &at[1]), "the first bit of a tensor turned");
    ok(dies(1, "tensor a: damaged", read_turned, &at[2]), "its last bit");
    ok(dies(1, "tensor b: damaged", read_turned, &at[3]), "the first bit of the next one");
}

static void more_bad(void)
{
    static const struct { const char *head, *why; int data;
    } c[] = {
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775807,2,0],\"data_offsets\":[0,0]}}",
          "a huge shape", 0 },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775808],\"data_offsets\":[0,4]}}",
          "whole number", 4 },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}",
          "8 dimensions", 4 },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1e0],\"data_offsets\":[0,4]}}", "whole number", 4 },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}}", "two whole numbers",
          4 },
        { "{\"a\":{\"dtype\":[],\"shape\":[1],\"data_offsets\":[0,4]}}", "dtype", 4 },
        { "{\"a\":7}", "not an object", 0 },
        { "{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "NUL", 4 },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,4]},"
          "\"b\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}",
          "overlaps", 8 },
        { "{\"__metadata__\":[]}", "__metadata__", 0 },
    };
    char *path = tmp("bad");
    for (unsigned i = 0; i < sizeof c / sizeof *c; i++) {
        write_raw(path, c[i].head, "\0\0\0\0\0\0\0\0", (size_t)c[i].data);
        ok(dies(1, c[i].why, open_and_close, path), "refused: %s (case %u)", c[i].why, i);
    }
    ok(dies(1, "No such file", open_and_close, "/nonexistent/x"), "a missing file");
    ok(dies(1, "not a regular file", open_and_close, dir), "a directory");
    free(path);
}

static void read_i64(void *f) { real x[2]; st_read(f, st_find(f, "i64"), x); }
static void read_wrong(void *f) { int32_t x[2]; st_read_i32(f, st_find(f, "f64"), x); }
static void read_cut(void *f) { real x[8]; st_read(f, st_at(f, 0), x); }

static void reading(void)
{
    StFile *f = st_open(SET "valid_other_dtypes.safetensors");
    int32_t i = 0;
    st_read_i32(f, st_find(f, "i32"), &i);
    ok(i == -7, "an int32");
    ok(!st_find(f, "nobody") && !st_find(f, ""), "a name that is not there");
    ok(dies(1, "type I64", read_i64, f), "int64 is not read as a float");
    ok(dies(1, "not I32", read_wrong, f), "nor a double as an int32");
    st_close(f);
    char *path = tmp("cut");
    write_raw(path, "{\"x\":{\"dtype\":\"F64\",\"shape\":[8],\"data_offsets\":[0,64]}}",
              (char[64]){ 0 }, 64);
    f = st_open(path);
    if (truncate(path, 70)) die("%s:", path);
    ok(dies(1, "ends inside x", read_cut, f), "a file that is cut while it is open");
    st_close(f);
    free(path);
}

/* tensors that do not fit one chunk, a scalar, an empty one; data in odd pieces */
enum { N = 200003 };
static void declare(StWriter *w)
{
    stw_meta(w, "step", "12");
    stw_meta(w, "note", "quote \" and \\");
    stw_add(w, "big", 1, (int64_t[]){ N });
    stw_add(w, "none", 2, (int64_t[]){ 0, 3 });
    stw_add(w, "scalar", 0, NULL);
}

static void round_trip(void)
{
    real *x = xcalloc(N + 1, sizeof *x), *y = xcalloc(N, sizeof *y), s;
    for (int i = 0; i <= N; i++) x[i] = (real)(i * 0.37 - 1e4) / (real)3;
    char *path = tmp("out"), *path2 = tmp("out2");
    StWriter *w = stw_new();
    declare(w);
    uint64_t size = stw_size(w);
    Out *o = out_open(path, 0);
    stw_begin(w, o);
    for (int i = 0; i <= N; i += 70001) stw_data(w, x + i, i + 70001 <= N + 1 ? 70001 : N + 1 - i);
    ok(stw_end(w) == 0, "written");
    out_close(o);
    struct stat st;
    ok(!stat(path, &st) && (uint64_t)st.st_size == size, "stw_size is the size");
    StFile *f = st_open(path);
    st_read(f, st_find(f, "big"), y);
    st_read(f, st_find(f, "scalar"), &s);
    ok(!memcmp(x, y, N * sizeof *x) && s == x[N] && st_count(f) == 3, "read back equal");
    ok(json_is_str(json_get(st_meta(f), "step"), "12")
       && json_is_str(json_get(st_meta(f), "note"), "quote \" and \\"), "metadata too");
    st_close(f);
    int fd = open(path2, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    w = stw_new();
    declare(w);
    stw_begin_fd(w, fd);
    stw_data(w, x, N + 1);
    int err = stw_end(w);
    close(fd);
    Buf a = { 0 }, b = { 0 };
    read_file(path, &a, 1 << 24); read_file(path2, &b, 1 << 24);
    ok(!err && a.n == b.n && !memcmp(a.s, b.s, a.n), "the same bytes to a descriptor");
    fd = open("/dev/full", O_WRONLY);
    w = stw_new();
    declare(w);
    stw_begin_fd(w, fd);
    stw_data(w, x, N + 1);
    ok(stw_end(w) == ENOSPC, "a full device is reported");
    close(fd);
    buf_free(&a); buf_free(&b);
    free(x); free(y); free(path); free(path2);
}

static void empty(void)
{
    char *path = tmp("empty");
    StWriter *w = stw_new();
    Out *o = out_open(path, 0);
    stw_begin(w, o);
    stw_end(w);
    out_close(o);
    StFile *f = st_open(path);
    ok(st_count(f) == 0 && !st_meta(f), "no tensors at all");
    st_close(f);
    free(path);
}

int main(void)
{
    if (!mkdtemp(dir)) die("%s:", dir);
    manifest();
    halves("F16", 5, 10);
    halves("BF16", 8, 7);
    more_bad();
    sums();
    reading();
    round_trip();
    empty();
    const char *made[] = { "half", "bad", "cut", "out", "out2", "empty" };
    for (int i = 0; i < 6; i++) { char *p = tmp(made[i]); unlink(p); free(p); }
    rmdir(dir);
    return done();
}
