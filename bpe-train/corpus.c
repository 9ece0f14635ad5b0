/* corpus.c -- see corpus.h. */
#include "corpus.h"
#include "text/docs.h"
#include <inttypes.h>
#include <string.h>

/* Characters begin at all bytes but 80..BF: how many of these 64. */
static size_t begins64(const char *s)
{
    uint64_t sum = 0, w;
    for (int k = 0; k < 64; k += 8) {
        memcpy(&w, s + k, 8);
        sum += (~w >> 7 | w >> 6) & 0x0101010101010101u;
    }
    return (size_t)(sum * 0x0101010101010101u >> 56);
}

/* Bytes of the first cap characters of valid UTF-8; *chars is how many there are. */
static size_t crop(const char *s, size_t n, uint64_t cap, uint64_t *chars)
{
    uint64_t have = 0;
    size_t i = 0;
    while (n - i >= 64) {
        size_t k = begins64(s + i);
        if (have + k > cap)
            break;
        have += k;
        i += 64;
    }
    for (; i < n; i++)
        if (((unsigned char)s[i] & 0xc0) != 0x80 && have++ == cap) {
            *chars = cap;
            return i;
        }
    *chars = have;
    return n;
}

/* One text; false when there has been enough. */
static bool add_text(Corpus *c, const char *s, size_t n)
{
    uint64_t chars;
    n = crop(s, n, c->doc_cap ? c->doc_cap : UINT64_MAX, &chars);
    counter_text(c->counter, s, n);
    c->info.chars += chars;
    c->info.bytes += n;
    progress(&c->line, c->info.bytes);
    return !c->max_chars || c->info.chars <= c->max_chars;
}

_Noreturn static void bad_message(DocReader *r, const Doc *d, int k, const char *why)
{
    die("%s: line %" PRIu64 ": message %d: %s", docs_name(r), d->line, k, why);
}

/* A conversation: each content, or each part of it, is a text by itself. */
static bool add_messages(Corpus *c, DocReader *r, const Doc *d)
{
    int k = 1;
    for (const Json *m = d->messages->child; m; m = m->next, k++) {
        const Json *content = json_get(m, "content");
        if (!content || (content->kind != J_STR && content->kind != J_ARR))
            bad_message(r, d, k, "\"content\" is neither a string nor a list of parts");
        if (content->kind == J_STR) {
            if (!add_text(c, content->s, content->len))
                return false;
            continue;
        }
        for (const Json *part = content->child; part; part = part->next) {
            const Json *text = json_get(part, "text");
            if (!text || text->kind != J_STR)
                bad_message(r, d, k, "a part without a \"text\" that is a string");
            if (!add_text(c, text->s, text->len))
                return false;
        }
    }
    return true;
}

bool corpus_add(Corpus *c, const char *path)
{
    In *in = in_open(path);
    if (counts_begin(in)) {
        if (c->words) die("%s: counts of byte-pair pieces: --words needs documents", path);
        counts_read(in, c->counter, &c->info);
        in_close(in);
        return !c->max_chars || c->info.chars <= c->max_chars;
    }
    DocReader *r = docs_from(in, 0);
    docs_invalid(r, c->invalid);
    bool more = true;
    for (Doc d; more && doc_next(r, &d); c->info.docs++) {
        c->bad += d.bad;
        more = d.text ? add_text(c, d.text, d.len) : add_messages(c, r, &d);
    }
    docs_close(r);
    return more;
}
