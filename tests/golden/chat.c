/* Golden case H: every conversation that nanochat's tokenizer rendered, or refused, by ours. */
#include "golden.h"
#include "tap.h"
#include "text/chat.h"

static Chat *chat;
static int rows, refused, wrong;

static int same(const Json *want, const uint32_t *id, const char *mask, size_t n)
{
    if ((size_t)want->n != n) return 0;
    const Json *j = want->child;
    for (size_t i = 0; i < n; i++, j = j->next) {
        int64_t x, have = mask ? mask[i] : (int64_t)id[i];
        if (!json_int(j, &x) || x != have) return 0;
    }
    return 1;
}

static void check(const Json *row)
{
    static ChatIds got;
    const Json *ids = json_get(row, "ids"), *mask = json_get(row, "mask");
    bool completion = json_is_str(json_get(row, "function"), "render_for_completion");
    /* the reference cuts before it adds the header, to 2048 */
    size_t most = json_get(row, "max_tokens") ? (size_t)num(row, "max_tokens") : 2048;
    chatids_cut(&got, 0);
    char *err = chat_render(chat, &got, json_get(json_get(row, "conversation"), "messages"),
                            completion, most);
    int good = !err == !json_get(row, "error");
    if (!err && ids) good = same(ids, chatids(&got), NULL, got.ids.n);
    if (!err && mask) good = good && same(mask, NULL, got.mask.s, got.mask.n);
    rows++;
    refused += err != NULL;
    wrong += !good;
    if (!good) printf("# %s, %zu tokens: %s\n", json_get(row, "name")->s, most, err ? err : "");
    free(err);
}

int main(void)
{
    Tok *t = tok_from_merges(NULL, 0);          /* bytes, then the specials: 256 and on */
    TokEnc *e = tokenc_new(t);
    Arena a = {0};
    Buf line = {0};
    chat = chat_new(t, "bytes", e, CHAT_NANOCHAT, -1);
    In *in = in_open("tests/golden/data/h_conversations.jsonl");
    while (in_line(in, &line)) {
        const char *err;
        size_t at;
        arena_reset(&a);
        const Json *row = json_parse(&a, line.s, line.n, &err, &at);
        if (!row) die("row %d: %s", rows + 1, err);
        check(row);
    }
    ok(wrong == 0 && rows == 106, "%d conversations, %d of them refused: %d differ", rows, refused,
       wrong);
    in_close(in);
    buf_free(&line);
    arena_free(&a);
    chat_free(chat);
    tokenc_free(e);
    tok_free(t);
    return done();
}
