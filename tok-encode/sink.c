/* sink.c -- batches in their order to token streams, or to text. */
#include "encode.h"
#include "text/tokens.h"
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct Sink {
    Encode *e;
    Out *text;                  /* ids as text */
    TokenWriter **w; int n;     /* output files: one, or those of --shards */
    TokenWriter *now;           /* that of the document */
    TokenHead head;
    uint64_t in_file, files;    /* --shard-size: tokens in the one that is open; those there were */
    Buf line;
    size_t doc;                 /* tokens of the document so far, when it comes in parts */
    bool inside;                /* a document is not at its end */
    uint64_t lines;             /* of this file, before this batch */
    Progress progress;
};

/* ---- numbered files --------------------------------------------------------------- */

/* web.tokens, 3: web-00003.tokens */
static int before_number(const char *path)
{
    const char *base = strrchr(path, '/'), *dot = strrchr(base ? base : path, '.');
    return (int)(dot && dot > (base ? base + 1 : path) ? dot - path : (ptrdiff_t)strlen(path));
}

static char *numbered(const char *path, uint64_t k)
{
    int head = before_number(path);
    return xasprintf("%.*s-%05" PRIu64 "%s", head, path, k, path + head);
}

/* The number in `name`, a file beside `path`; -1 if it is none that numbered() gives. */
static int64_t number_of(const char *path, const char *name)
{
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    size_t head = (size_t)(path + before_number(path) - base);
    if (strncmp(name, base, head) || name[head] != '-') return -1;
    const char *digits = name + head + 1;
    size_t n = strspn(digits, "0123456789");
    if (n < 5 || n > 18 || (n > 5 && digits[0] == '0')) return -1;
    if (strcmp(digits + n, base + head)) return -1;
    return strtoll(digits, NULL, 10);
}

/* Files that an earlier run made under higher numbers: a pattern for the names finds them, too. */
static void warn_of_others(const char *path, uint64_t files)
{
    const char *slash = strrchr(path, '/');
    char *dir = xasprintf("%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    DIR *d = opendir(dir);
    uint64_t others = 0, lowest = UINT64_MAX;
    for (struct dirent *e; d && (e = readdir(d)); ) {
        int64_t k = number_of(path, e->d_name);
        if (k < (int64_t)files) continue;
        others++;
        if ((uint64_t)k < lowest) lowest = (uint64_t)k;
    }
    if (others) {
        char *name = numbered(path, lowest);
        char more[40] = "";
        if (others > 1) snprintf(more, sizeof more, " and %" PRIu64 " more", others - 1);
        warn("%s%s: left over from an earlier run; this one wrote %" PRIu64, name, more, files);
        free(name);
    }
    if (d) closedir(d);
    free(dir);
}

/* Files that are open at the same time, and some more: as many as the system lets us have. */
static void need_files(int n)
{
    enum { OTHERS = 32 };
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r)) return;
    rlim_t want = (rlim_t)n + OTHERS;
    if (r.rlim_cur == RLIM_INFINITY || r.rlim_cur >= want) return;
    r.rlim_cur = r.rlim_max == RLIM_INFINITY || r.rlim_max >= want ? want : r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
    if (r.rlim_cur < want)
        die("--shards %d: so many files cannot be open at once here, only %llu (ulimit -Hn); with "
            "--shard-size one is at a time", n, (unsigned long long)r.rlim_max);
}

/* ---- writing ------------------------------------------------------------------------ */

static TokenWriter *create(Sink *s, uint64_t k)
{
    if (!s->e->shards && !s->e->shard_size) return tokens_create(s->e->output, &s->head);
    char *path = numbered(s->e->output, k);
    TokenWriter *w = tokens_create(path, &s->head);
    free(path);
    return w;
}

Sink *sink_new(Encode *e)
{
    Sink *s = xcalloc(1, sizeof *s);
    int bos = e->bos >= 0 || e->chats ? e->bos : tok_special(e->tok, SP_BOS);
    s->e = e;
    s->progress = (Progress){ .what = "encoding", .unit = "B" };
    s->head = (TokenHead){ .vocab = (uint32_t)tok_vocab(e->tok), .tok_hash = tok_hash(e->tok),
                           .bos = bos < 0 ? UINT32_MAX : (uint32_t)bos, .masks = e->chats };
    if (e->ids) {
        s->text = out_open(e->output, 0);
        return s;
    }
    s->n = e->shards ? e->shards : 1;
    need_files(s->n);
    s->w = xcalloc((size_t)s->n, sizeof *s->w);
    for (int i = 0; i < s->n; i++) s->w[i] = create(s, (uint64_t)i);
    s->now = s->w[0];
    s->files = (uint64_t)s->n;
    return s;
}

static void put_number(Buf *b, uint32_t x)
{
    char t[10];
    int n = 10;
    do t[--n] = (char)('0' + x % 10); while (x /= 10);
    buf_add(b, t + n, (size_t)(10 - n));
}

static void put_line(Sink *s, const TokOut *o, size_t at, size_t n, bool last)
{
    for (size_t i = at; i < at + n; i++) {
        if (s->doc || i > at) buf_char(&s->line, ' ');
        put_number(&s->line, o->width == 2 ? ((uint16_t *)o->id)[i] : ((uint32_t *)o->id)[i]);
    }
    if (last) buf_char(&s->line, '\n');
    if (s->line.n >= 1 << 16 || last) {
        out_write(s->text, s->line.s, s->line.n);
        buf_clear(&s->line);
    }
}

/* A document begins: to the next file, if several take turns or one is full. */
static void begin(Sink *s)
{
    s->doc = 0;
    s->inside = true;
    if (s->e->shards) s->now = s->w[s->e->documents % (uint64_t)s->n];
    if (s->e->shard_size && s->in_file >= (uint64_t)s->e->shard_size) {
        tokens_close(s->now);
        s->now = s->w[0] = create(s, s->files++);
        s->in_file = 0;
    }
}

/* A conversation, already cut. */
static void put_chat(Sink *s, const ChatIds *c, size_t at, size_t n)
{
    const uint8_t *mask = (const uint8_t *)c->mask.s + at;
    begin(s);
    if (s->text) put_line(s, &c->ids, at, n, true);
    else tokens_write(s->now, chatids(c) + at, mask, n);
    for (size_t i = 0; i < n; i++) s->e->counting += mask[i];
    s->in_file += n;
    s->e->tokens += n;
    s->e->documents++;
    s->inside = false;
}

/* n tokens of a document from the batch's output. */
static void put(Sink *s, const TokOut *o, size_t at, size_t n, bool first, bool last)
{
    Encode *e = s->e;
    if (first) begin(s);
    if (e->max_tokens && n > (uint64_t)e->max_tokens - s->doc) {
        size_t most = (size_t)e->max_tokens - s->doc;
        e->cut += n - most;
        n = most;
    }
    if (s->text) put_line(s, o, at, n, last);
    else tokens_part(s->now, (char *)o->id + at * (size_t)o->width, n, first);
    s->doc += n;
    s->in_file += n;
    e->tokens += n;
    e->documents += last;
    if (last) s->inside = false;
}

static _Noreturn void bad(Sink *s, const Batch *b)
{
    DocError err = b->err;
    progress_end(&s->progress);
    if (s->e->text && err.byte) die("%s: byte %zu: %s", b->name, err.byte, err.why);
    if (s->e->text) die("%s: %s", b->name, err.why);
    err.line += s->lines;
    doc_die(b->name, &err);
}

void sink_batch(Sink *s, const Batch *b)
{
    if (b->file_begins) s->lines = 0;
    size_t at = 0;
    for (size_t i = 0; i < b->docs; at += b->len[i++])
        if (s->e->chats) put_chat(s, &b->chat, at, b->len[i]);
        else put(s, &b->out, at, b->len[i], !b->part || b->first, !b->part || b->last);
    if (b->err.why) bad(s, b);
    s->lines += b->in.line;
    s->e->bytes += b->bytes;
    s->e->cut += b->cut + b->chat.cut;
    s->e->counting_cut += b->chat.mask_cut;
    s->e->replaced += b->bad;
    progress(&s->progress, s->e->bytes);
}

void sink_close(Sink *s)
{
    progress_end(&s->progress);
    if (s->text) out_close(s->text);
    for (int i = 0; i < s->n; i++) tokens_close(s->w[i]);
    if (s->e->shards || s->e->shard_size) warn_of_others(s->e->output, s->files);
    buf_free(&s->line);
    free(s->w);
    free(s);
}
