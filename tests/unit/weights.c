/* Weights in several files: read as from one, and refused where index and files disagree. */
#include "gpt/weights.h"
#include "base/io.h"
#include "gpt/ckpt.h"
#include "gpt/llama.h"
#include "tap.h"
#include <fcntl.h>

static char dir[] = "/tmp/weights.XXXXXX";
static const Ops *ops;

static char *at(const char *name) { return xasprintf("%s/%s", dir, name); }

static void put(const char *name, const char *text)
{
    char *path = at(name);
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f)) die("%s:", path);
    free(path);
}

/* Parameters from, from + step, ... of the model in a file. */
static void shard(const Model *m, const char *name, int from, int step)
{
    char *path = at(name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    StWriter *w = stw_new();
    for (int i = from; i < m->nparam; i += step) {
        int64_t dim[2] = { m->param[i].rows, m->param[i].cols };
        stw_add(w, m->param[i].name, m->param[i].ndim, dim);
    }
    stw_begin_fd(w, fd);
    for (int i = from; i < m->nparam; i += step) {
        real *x = xreallocarray(NULL, (size_t)m->param[i].n, sizeof *x);
        model_get(m, &m->param[i], x);
        stw_data(w, x, m->param[i].n);
        free(x);
    }
    if (stw_end(w) || close(fd)) die("%s:", path);
    free(path);
}

/* An index of two files; the first tensor's file may be another, and a tensor more be listed. */
static void listing(const Model *m, const char *first, const char *more)
{
    Buf b = {0};
    buf_str(&b, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {");
    for (int i = 0; i < m->nparam; i++)
        buf_printf(&b, "%s\"%s\": \"%s\"", i ? ", " : "", m->param[i].name,
                   i == 0 && first ? first : i % 2 ? "b.safetensors" : "a.safetensors");
    buf_printf(&b, "%s}}", more ? more : "");
    put(WEIGHTS_INDEX, b.s);
    buf_free(&b);
}

static void load(void *arg)
{
    (void)arg;
    model_free(ckpt_model(dir, ops, 0));
}

static void refused(const char *text, const char *name)
{
    ok(dies(1, text, load, NULL), "refused: %s", name);
}

static Model *tiny(void)
{
    Config c;
    llama_preset(&c, "minimind-moe");
    c.T = 16, c.V = c.Vp = 40, c.L = 2, c.H = 2, c.K = 1, c.C = 16, c.D = 8;
    c.llama.F = c.llama.Fe = 24;
    Model *m = model_new(ops, &c, 0);
    model_init(m, 1);
    Buf b = {0};
    config_json(&c, &b);
    put("config.json", b.s);
    buf_free(&b);
    return m;
}

static int same(const Model *a, const Model *b)
{
    int bad = a->nparam != b->nparam;
    for (int i = 0; i < a->nparam && !bad; i++) {
        size_t n = (size_t)a->param[i].n;
        real *x = xreallocarray(NULL, n, sizeof *x), *y = xreallocarray(NULL, n, sizeof *y);
        model_get(a, &a->param[i], x), model_get(b, &b->param[i], y);
        bad += memcmp(x, y, n * sizeof *x) != 0;
        free(x), free(y);
    }
    return !bad;
}

int main(void)
{
    if (!mkdtemp(dir)) return 1;
    ops = ops_open("cpu", "fp32", 1);
    Model *m = tiny();
    shard(m, "a.safetensors", 0, 2);
    shard(m, "b.safetensors", 1, 2);
    listing(m, NULL, NULL);
    Model *got = ckpt_model(dir, ops, 0);
    ok(same(m, got), "two files give the model that one gives");
    model_free(got);

    listing(m, NULL, ", \"ghost\": \"b.safetensors\"");
    refused("b.safetensors: no tensor ghost", "a tensor that its file lacks");
    listing(m, "b.safetensors", NULL);
    refused("b.safetensors: no tensor ", "a tensor listed for the wrong file");
    listing(m, "c.safetensors", NULL);
    refused("c.safetensors: No such file", "a file that is not there");
    listing(m, "../a.safetensors", NULL);
    refused("is not a file's name", "a path");
    listing(m, "", NULL);
    refused("is not a file's name", "an empty name");
    shard(m, "b.safetensors", 0, 1);
    listing(m, NULL, NULL);
    refused(" is in ", "a tensor in two files");
    shard(m, "b.safetensors", 3, 2);
    refused("no tensor ", "a tensor that is listed and in no file");
    put(WEIGHTS_INDEX, "{\"weight_map\": {\"x\": 3}}");
    refused("x: its file is not a text", "a number for a file");
    put(WEIGHTS_INDEX, "{\"weight_map\": []}");
    refused("no \"weight_map\"", "no map");
    put(WEIGHTS_INDEX, "{");
    refused("not valid JSON", "no JSON");
    put("b.safetensors", "0123456789");
    listing(m, NULL, NULL);
    refused("b.safetensors: not a valid safetensors file", "a damaged file");
    shard(m, "model.safetensors", 0, 1);
    got = ckpt_model(dir, ops, 0);
    ok(same(m, got), "model.safetensors comes before an index");
    model_free(got);
    model_free(m);
    char *rm = xasprintf("rm -r %s", dir);
    int r = system(rm);
    free(rm);
    return done() || r;
}
