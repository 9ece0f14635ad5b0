/* Task chat: questions to a chat model, task by task (ChatCORE). */
#include "chat.h"
#include "base/progress.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void trial_prompt(Trial *t, const Item *it, size_t room, Ids *out)
{
    ChatIds c = {0};
    char *bad = chat_render(t->chat, &c, it->messages, true, SIZE_MAX);
    if (bad) die("%s: item %" PRIu64 ": %s", t->name, t->done, bad);
    const uint32_t *id = chatids(&c);
    size_t n = c.ids.n, from = n > room ? n - room : 0;
    for (size_t i = from; i < n; i++) ids_add(out, i == from && n ? id[0] : id[i]);
    t->score.cut += from > 0;
    chatids_free(&c);
}

void item_begin(Buf *b, const Trial *t, uint64_t index, const Item *it)
{
    buf_str(b, "{\"task\": ");
    json_str(b, t->name, strlen(t->name));
    rec_count(b, "item", index + 1);
    if (it->messages) {
        buf_str(b, ", \"messages\": ");
        buf_add(b, it->messages->src, it->messages->src_len);
    }
    if (it->check == CHECK_LETTER) rec_str(b, "want", it->want.s, it->want.n);
}

/* ---- one task ----------------------------------------------------------------- */

static void run_items(Trial *t, Task *task)
{
    Arena a = {0};
    Item it;
    Letters *l = letters_new(t);
    uint64_t limit = opt.limit ? (uint64_t)opt.limit : task_size(task);
    Progress p = { .what = t->name, .unit = "items", .total = limit };
    bool checked = false;
    progress(&p, 0);
    while ((!limit || t->done < limit) && task_next(task, &a, &it)) {
        t->done++;
        if (it.check == CHECK_PROGRAM && !checked) runner_check();
        checked = checked || it.check == CHECK_PROGRAM;
        if (it.check == CHECK_LETTER) letters_add(l, &it);
        else words_item(t, &it);
        arena_reset(&a);
        progress(&p, t->done);
    }
    letters_end(l);
    progress_end(&p);
    arena_free(&a);
}

static double accuracy(const Score *s) { return s->right / (double)s->items; }

static double centred(const Score *s, double baseline)
{
    return (accuracy(s) - baseline) / (1 - baseline);
}

static void report(const Trial *t, double baseline, Out *out)
{
    const Score *s = &t->score;
    Buf b = {0};
    buf_str(&b, "{\"task\": ");
    json_str(&b, t->name, strlen(t->name));
    rec_num(&b, "accuracy", accuracy(s));
    rec_num(&b, "centred", centred(s, baseline));
    rec_num(&b, "baseline", baseline);
    rec_count(&b, "items", s->items);
    rec_count(&b, "cut", s->cut);
    if (s->answers) {
        rec_count(&b, "samples", (uint64_t)opt.samples);
        buf_str(&b, ", \"pass_at\": {");
        for (int i = 0; i < PASSES && 1 << i <= opt.samples; i++) {
            buf_printf(&b, "%s\"%d\": ", i ? ", " : "", 1 << i);
            json_num(&b, s->pass[i] / (double)s->items);
        }
        buf_char(&b, '}');
        rec_count(&b, "answers", s->answers);
        rec_count(&b, "unfinished", s->unfinished);
        rec_count(&b, "with_calls", s->called);
        rec_count(&b, "well_formed_calls", s->well_formed);
    }
    rec_str(&b, "model", t->s->dir, strlen(t->s->dir));
    buf_char(&b, '}');
    rec_write(out, &b);
    buf_free(&b);
}

/* ---- all tasks ------------------------------------------------------------------ */

typedef struct Sum { double accuracy, centred; int n, core; } Sum;

static void add(Sum *sum, const Trial *t, double baseline)
{
    static const char *const core[] = { "arc-easy", "arc-challenge", "mmlu", "gsm8k", "humaneval" };
    sum->accuracy += accuracy(&t->score);
    sum->centred += centred(&t->score, baseline);
    sum->n++;
    for (int i = 0; i < (int)(sizeof core / sizeof *core); i++)
        if (!strcmp(t->name, core[i])) sum->core |= 1 << i;
}

static void report_sum(const Sum *sum, const Subject *s, Out *out)
{
    Buf b = {0};
    buf_str(&b, "{\"task\": \"mean\"");
    rec_num(&b, "accuracy", sum->accuracy / sum->n);
    rec_num(&b, "centred", sum->centred / sum->n);
    rec_count(&b, "tasks", (uint64_t)sum->n);
    if (sum->n == 5 && sum->core == 31) rec_num(&b, "chatcore", sum->centred / sum->n);
    rec_str(&b, "model", s->dir, strlen(s->dir));
    buf_char(&b, '}');
    rec_write(out, &b);
    buf_free(&b);
}

static void table_line(Buf *b, const Trial *t, double baseline)
{
    const Score *s = &t->score;
    buf_printf(b, "%-24s %7" PRIu64 " %8.2f%% %8.2f%%", t->name, s->items, 100 * accuracy(s),
               100 * centred(s, baseline));
    if (s->answers) {
        double n = (double)s->answers / 100;
        buf_printf(b, " %8.1f%% %8.1f%% %8.1f%%", (double)s->unfinished / n,
                   (double)s->called / n, (double)s->well_formed / n);
    }
    buf_char(b, '\n');
}

void chat_task(Subject *s, const StrList *operands, Out *out)
{
    Task **task = xcalloc((size_t)operands->n, sizeof *task);
    Out *items = opt.items ? out_open(opt.items, 0) : NULL;
    if (items && out_same(items, out)) die_usage("--items: %s is where the results go", opt.items);
    Chat *chat = chat_new(s->tok, s->dir, s->enc, chat_guess(s->tok), -1);
    chat_stops(chat, s->stop);
    Gen *gen = gen_new(s->m);
    Tool calculator;
    bool tools = !opt.no_tools && tool_init(&calculator, s->tok, s->enc);
    Buf table = {0};
    Sum sum = {0};
    for (int i = 0; i < operands->n; i++)               /* a missing file is told before the work */
        task[i] = task_open(operands->s[i], (uint64_t)opt.seed);
    for (int i = 0; i < operands->n; i++) {
        Trial t = { .s = s, .chat = chat, .gen = gen, .name = task_name(task[i]), .items = items,
                    .tool = tools ? &calculator : NULL };
        run_items(&t, task[i]);
        if (t.score.items == 0) die("%s: no items", operands->s[i]);
        double baseline = task_baseline(task[i]);
        report(&t, baseline, out);
        table_line(&table, &t, baseline);
        add(&sum, &t, baseline);
        task_close(task[i]);
    }
    report_sum(&sum, s, out);
    buf_printf(&table, "%-24s %7s %8.2f%% %8.2f%%\n", "mean", "", 100 * sum.accuracy / sum.n,
               100 * sum.centred / sum.n);
    note(1, "%s\n%-24s %7s %9s %9s %9s %9s %9s\n%s", s->dir, "task", "items", "accuracy", "centred",
         "cut off", "calling", "well", table.s);
    if (items) out_close(items);
    buf_free(&table);
    gen_free(gen);
    chat_free(chat);
    free(task);
}
