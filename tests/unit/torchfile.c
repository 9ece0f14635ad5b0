/* Files for nanochat's own programs, read back: the archive by its directory, sums of all entries,
 * the pickles opcode by opcode. */
#include "gpt/torchfile.h"
#include "tap.h"
#include <zlib.h>

static char path[] = "/tmp/torchfile.XXXXXX";

/* ---- the archive ------------------------------------------------------------------ */

typedef struct Entry { char name[64]; const char *data; size_t n; } Entry;
typedef struct Zip { Buf b; Entry e[100]; int n; int bad; } Zip;

static uint64_t le(const char *p, int n)
{
    uint64_t x = 0;
    for (int i = 0; i < n; i++) x |= (uint64_t)(unsigned char)p[i] << 8 * i;
    return x;
}

/* One entry of the directory at p, checked against its header and its data; its length. */
static size_t entry(Zip *z, const char *p)
{
    Entry *e = &z->e[z->n++];
    size_t name = le(p + 28, 2), extra = le(p + 30, 2);
    const char *x = p + 46 + name;
    z->bad |= le(p, 4) != 0x02014b50 || le(p + 10, 2) != 0 || name >= sizeof e->name || extra != 28 ||
              le(x, 2) != 1 || le(x + 2, 2) != 24 || le(p + 20, 4) != UINT32_MAX;
    if (z->bad) return 46;
    e->n = le(x + 4, 8);
    const char *h = z->b.s + le(x + 20, 8);
    z->bad |= le(h, 4) != 0x04034b50 || le(h + 26, 2) != name || memcmp(h + 30, p + 46, name) ||
              le(h + 28, 2) != 20 || le(h + 30 + name + 4, 8) != e->n ||
              memcmp(h + 4, p + 6, 22);            /* version to the length of the name */
    e->data = h + 30 + name + 20;
    z->bad |= e->data + e->n > z->b.s + z->b.n ||
              crc32_z(0, (const unsigned char *)e->data, e->n) != le(p + 16, 4);
    memcpy(e->name, p + 46, name);
    e->name[name] = 0;
    return 46 + name + extra;
}

static void open_zip(Zip *z)
{
    read_file(path, &z->b, 1 << 26);
    const char *end = z->b.s + z->b.n - 22, *where = end - 20;
    z->bad = z->b.n < 98 || le(end, 4) != 0x06054b50 || le(where, 4) != 0x07064b50;
    const char *e64 = z->bad ? NULL : z->b.s + le(where + 8, 8);
    if (z->bad || e64 != where - 56 || le(e64, 4) != 0x06064b50) { z->bad = 1; return; }
    const char *p = z->b.s + le(e64 + 48, 8);
    for (uint64_t i = le(e64 + 32, 8); i && !z->bad; i--) p += entry(z, p);
    z->bad |= p != e64;
}

static const Entry *find(const Zip *z, const char *name)
{
    static const Entry none = { .data = "" };
    for (int i = 0; i < z->n; i++)
        if (!strcmp(z->e[i].name, name)) return &z->e[i];
    return &none;
}

/* ---- pickles ---------------------------------------------------------------------- */

typedef struct Pickle { const char *p, *end; int bad; } Pickle;

static void expect(Pickle *k, const char *s)
{
    size_t n = strlen(s);
    k->bad |= (size_t)(k->end - k->p) < n || memcmp(k->p, s, n);
    if (!k->bad) k->p += n;
}

static int64_t integer(Pickle *k)
{
    expect(k, "\x8a\x08");
    if (k->bad || k->end - k->p < 8) { k->bad = 1; return 0; }
    k->p += 8;
    return (int64_t)le(k->p - 8, 8);
}

/* A text (X) or bytes (B); NULL if it is not there */
static const char *string(Pickle *k, const char *kind, size_t *n)
{
    expect(k, kind);
    *n = k->bad ? 0 : le(k->p, 4);
    k->bad |= (size_t)(k->end - k->p) < 4 + *n;
    if (!k->bad) k->p += 4 + *n;
    return k->bad ? "" : k->p - *n;
}

static void word(Pickle *k, const char *want)
{
    size_t n;
    const char *s = string(k, "X", &n);
    k->bad |= n != strlen(want) || memcmp(s, want, n);
}

static void tensor(Pickle *k, const char *storage, int key, int ndim, int64_t rows, int64_t cols)
{
    char name[16];
    snprintf(name, sizeof name, "%d", key);
    expect(k, "ctorch._utils\n_rebuild_tensor_v2\n((");
    word(k, "storage");
    expect(k, storage);
    word(k, name), word(k, "cpu");
    k->bad |= integer(k) != rows * cols;
    expect(k, "tQ");
    k->bad |= integer(k) != 0;
    expect(k, "(");
    k->bad |= integer(k) != rows || (ndim == 2 && integer(k) != cols);
    expect(k, "t(");
    k->bad |= (ndim == 2 && integer(k) != cols) || integer(k) != 1;
    expect(k, "t\x89" "ccollections\nOrderedDict\n)RtR");
}

/* ---- files ------------------------------------------------------------------------ */

static Out *out(void) { return out_open(path, 0); }

static void check_model(void)
{
    const Ops *ops = ops_open("cpu", "fp32", 1);
    Config c = config_depth(3, 16, 16, 32, 300, "SL");
    Model *m = model_new(ops, &c, 0);
    Zip z = {0};
    int bad = 0;
    model_init(m, 3);
    Out *o = out();
    torch_model(m, o);
    out_close(o);
    open_zip(&z);
    ok(!z.bad && z.n == m->nparam + 3, "an archive of %d entries, all of them sound", z.n);
    const Entry *e = find(&z, "archive/data.pkl");
    Pickle k = { e->data, e->data + e->n, 0 };
    expect(&k, "\x80\x02}(");
    for (int i = 0; i < m->nparam; i++) {
        const Param *p = &m->param[i];
        char name[32];
        word(&k, p->name);
        tensor(&k, "ctorch\nFloatStorage\n", i, p->ndim, p->rows, p->cols);
        snprintf(name, sizeof name, "archive/data/%d", i);
        const Entry *d = find(&z, name);
        bad += d->n != 4 * (size_t)p->n;
        for (int64_t j = 0; j < p->n && !bad; j++) {
            float x = (float)m->w[p->off + j], y;
            memcpy(&y, d->data + 4 * j, 4);
            bad += memcmp(&x, &y, 4) != 0;
        }
    }
    expect(&k, "u.");
    ok(!k.bad && k.p == k.end, "names, types and shapes");
    ok(!bad, "the numbers");
    e = find(&z, "archive/byteorder");
    ok(e->n == 6 && !memcmp(e->data, "little", 6), "little-endian");
    buf_free(&z.b);
    model_free(m);
}

static void check_lengths(void)
{
    static const int32_t x[4] = { 1, 5, 0, 70000 };
    Zip z = {0};
    Out *o = out();
    torch_i32(x, 4, o);
    out_close(o);
    open_zip(&z);
    const Entry *e = find(&z, "archive/data.pkl"), *d = find(&z, "archive/data/0");
    Pickle k = { e->data, e->data + e->n, 0 };
    expect(&k, "\x80\x02");
    tensor(&k, "ctorch\nIntStorage\n", 0, 1, 4, 1);
    expect(&k, ".");
    ok(!z.bad && !k.bad && k.p == k.end && d->n == 16 && le(d->data + 4, 4) == 5 &&
       le(d->data + 12, 4) == 70000, "a tensor of integers");
    buf_free(&z.b);
}

static void check_tokenizer(void)
{
    static const uint32_t pair[3][2] = { { 'a', 'b' }, { 256, 'c' }, { ' ', 'c' } };
    Tok *t = tok_from_merges(pair, 3);
    Buf b = {0};
    size_t n;
    Out *o = out();
    torch_tokenizer(t, "t", o);
    out_close(o);
    read_file(path, &b, 1 << 20);
    Pickle k = { b.s, b.s + b.n, 0 };
    expect(&k, "\x80\x03" "ctiktoken.core\nEncoding\n)\x81}(");
    word(&k, "name"), word(&k, "rustbpe"), word(&k, "pat_str"), word(&k, tok_pattern(t));
    word(&k, "mergeable_ranks");
    expect(&k, "}(");
    for (int id = 0; id < 259; id++) {
        size_t want;
        const char *s = tok_bytes(t, id, &want), *got = string(&k, "B", &n);
        k.bad |= n != want || memcmp(got, s, n) || integer(&k) != id;
    }
    expect(&k, "u");
    word(&k, "special_tokens");
    expect(&k, "}(");
    for (int i = 0; i < SP_COUNT; i++) {
        word(&k, special_names[i]);
        k.bad |= integer(&k) != 259 + i;
    }
    expect(&k, "uub.");
    ok(!k.bad && k.p == k.end, "a tokenizer");
    buf_free(&b);
    tok_free(t);
}

static void other(void *arg)
{
    (void)arg;                      /* by rank, abc is a and bc */
    static const uint32_t odd[3][2] = { { 'b', 'c' }, { 'a', 'b' }, { 257, 'c' } };
    Tok *t = tok_from_merges(odd, 3);
    torch_tokenizer(t, "t", out());
}

int main(void)
{
    int fd = mkstemp(path);
    if (fd < 0 || close(fd)) return 1;
    check_model();
    check_lengths();
    check_tokenizer();
    ok(dies(1, "t: cannot be ranks", other, NULL), "merges that ranks would not give");
    unlink(path);
    return done();
}
