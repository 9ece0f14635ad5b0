/* gpt-eval's grading: numbers after "####", last numbers, texts, programs, pass@k. */
#include "../../gpt-eval/answer.c"
#include "gpt/rl.h"
#include "tap.h"
#include <math.h>
#include <stdio.h>

static Str str(const char *s) { return (Str){ s, strlen(s) }; }

static int right(Check check, const char *want, const char *answer)
{
    Item it = { .check = check, .want = str(want) };
    return answer_right(&it, str(answer));
}

static void hashes(void)
{
    static const struct { const char *answer; int right; } t[] = {
        { "#### 18", 1 },           { "So 9 * 2 = 18.\n#### 18", 1 },  { "#### 18 eggs", 1 },
        { "#### 1,8", 1 },          { "#### 18\n#### 19", 1 },         { "#### 19\n#### 18", 0 },
        { "####18", 0 },            { "####  18", 0 },                 { "#### $18", 0 },
        { "18", 0 },                { "#### 18.0", 0 },                { "#### 18.", 0 },
        { "#### -18", 0 },          { "#### 180", 0 },                 { "", 0 },
        { "####", 0 },              { "#### ", 0 },                    { "#### -", 0 },
        { "#### x\n#### 18", 1 },   { "##### 18", 1 },
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++)
        ok(right(CHECK_GSM8K, "18", t[i].answer) == t[i].right, "gsm8k: answer %zu is %s", i,
           t[i].right ? "right" : "wrong");
    ok(right(CHECK_GSM8K, "-1234.5", "#### -1,234.5"), "gsm8k: sign and fraction");
    ok(!answer_right(&(Item){ .check = CHECK_GSM8K, .want = str("1") }, (Str){ "#### \0001", 7 }),
       "gsm8k: NUL is no part of a number");
}

static void numbers(void)
{
    static const struct { const char *want, *answer; int right; } t[] = {
        { "95", "37 + 58 = 95", 1 },    { "95", "37 + 58 = 95.", 1 },   { "95", "It is 95!", 1 },
        { "-21", "37 - 58 = -21.", 1 }, { "21", "58-37 is 58-21", 1 },  { "1234", "1,234", 1 },
        { "95", "95, I think; not 96", 0 },                             { "95", "#### 95 (of 100)", 1 },
        { "95", "none", 0 },            { "95", "", 0 },                { "-5", "-5", 1 },
        { "0.2", "so 0.2.", 1 },        { "21", "x -21", 0 },
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++)
        ok(right(CHECK_NUMBER, t[i].want, t[i].answer) == t[i].right, "number: \"%s\" for %s is %s",
           t[i].answer, t[i].want, t[i].right ? "right" : "wrong");
}

static void texts(void)
{
    ok(right(CHECK_TEXT, "Yes.", " Yes.\n"), "text: white space around does not count");
    ok(!right(CHECK_TEXT, "Yes.", "Yes"), "text: the rest does");
    ok(right(CHECK_TEXT, "so #### 3", "hence #### 3 "), "text: after #### only that counts");
    ok(right(CHECK_TEXT, "#### 3", "##### 3"), "text: nor how many # there are, from four on");
    ok(right(CHECK_CONTAINS, "c-a-t", "It is C-A-T."), "contains: case does not count");
    ok(!right(CHECK_CONTAINS, "c-a-t", "c-a"), "contains: all of it");
    ok(right(CHECK_CONTAINS, "", ""), "contains: nothing");
}

static void programs(void)
{
    Item it = { .check = CHECK_PROGRAM, .test = str("def check(f): pass"), .entry = str("g"),
                .prompt = str("# c\nfrom a import b\n\n  import os\ndef g():\nimport no\n") };
    const char *tail = "\n\ndef check(f): pass\ncheck(g)\n", *head = "from a import b\nimport os\n\n\n";
    static const struct { const char *answer, *code, *what; } t[] = {
        { "x = 1", "x = 1", "plain" },
        { "Here:\n```python\nx = 1\n```\nDone.\n```\ny\n```", "x = 1\n", "the first block" },
        { "```\nx = 1\n", "x = 1\n", "a block that does not end" },
        { "```", "```", "a fence alone" }, { "", "", "nothing" },
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        Buf b = {0}, want = {0};
        answer_program(&it, str(t[i].answer), &b);
        buf_printf(&want, "%s%s%s", head, t[i].code, tail);
        ok(b.n == want.n && !memcmp(b.s, want.s, b.n), "program: %s", t[i].what);
        buf_free(&b);
        buf_free(&want);
    }
}

static double binomial(int n, int k)
{
    double c = 1;
    for (int i = 1; i <= k; i++) c *= (double)(n - k + i) / i;
    return n < k ? 0 : c;
}

static void passes(void)
{
    double worst = 0;
    for (int n = 1; n <= 20; n++)
        for (int c = 0; c <= n; c++)
            for (int k = 1; k <= n; k++) {
                double d = pass_at(n, c, k) - (1 - binomial(n - c, k) / binomial(n, k));
                if (fabs(d) > worst) worst = fabs(d);
            }
    ok(worst < 1e-12, "pass@k is 1 - C(n-c, k) / C(n, k) for all up to n = 20 (%.1e)", worst);
    ok(pass_at(100, 0, 10) == 0 && pass_at(100, 100, 1) == 1, "none and all");
    ok(fabs(pass_at(1000, 37, 1) - 0.037) < 1e-12, "pass@1 is the mean");
}

int main(void)
{
    hashes();
    numbers();
    texts();
    programs();
    passes();
    return done();
}
