# gpt-eval chat: tasks and their rows, letters in batches, sampled answers, records. The model knows
# nothing: what is tested is who counts what.
. "$(dirname "$0")/../lib.sh"

i=0; while [ $i -lt 40 ]; do echo "{\"text\": \"line $i: a fox, $((i * 7 % 13)) hens, ABCD #### 3.\"}"; i=$((i+1)); done >"$dir/docs.jsonl"
bpe-train -q -v 300 -o "$dir/a.tok" "$dir/docs.jsonl" || exit 1
tok-encode -q -t "$dir/a.tok" "$dir/docs.jsonl" | pack-rows -q -T 256 -o "$dir/a.rows" || exit 1
gpt-train -q -j 1 --depth 2 --aspect-ratio 16 --head-dim 16 --steps 2 --total-batch-size 512 -t "$dir/a.tok" \
    --train "$dir/a.rows" -o "$dir/m" >/dev/null || exit 1
ev="gpt-eval -q -j 1 -m $dir/m -n 8"
field() { printf '%s' "sed -n 's/.*\"$1\": \([^,}]*\).*/\1/p'"; }

# rows
for i in 1 2 3 4 5 6 7; do
    printf '%s\n' "{\"question\": \"How many are $i and $i?\", \"answer\": \"All are <<$i+$i=$((i + i))>>$((i + i)).\n#### 1,00$i\"}"
done >"$dir/gsm8k.jsonl"
for i in 0 1 2 3 3 2 1 0 2; do
    echo "{\"question\": \"Which? $i$i$i$i$i\", \"subject\": \"\", \"choices\": [\"a\", \"b\", \"cc cc cc\", \"d\"], \"answer\": $i}"
done >"$dir/mmlu.jsonl"
echo '{"id": "x", "question": "Which?", "choices": {"text": ["a", "b", "c"], "label": ["1", "2", "3"]}, "answerKey": "3"}' >"$dir/arc.jsonl"
printf '%s\n' '{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}, {"role": "assistant", "content": [{"type": "text", "text": "d"}]}]}' >"$dir/talk.jsonl"

says 2 "TASK ..." "no task" "$ev chat"
says 2 "gsm8k=FILE" "a known set needs its rows" "$ev chat gsm8k"
says 1 "none.jsonl" "a missing file" "$ev chat arithmetic gsm8k=$dir/none.jsonl"
is "  nothing is evaluated then" "$ev chat arithmetic gsm8k=$dir/none.jsonl" ""
says 2 "not a whole number" "a bad number" "$ev --samples 3x chat arithmetic"
bad() { printf '%s\n' "$2" >"$dir/bad.jsonl"; says 1 "$3" "$1" "$ev chat $4$dir/bad.jsonl"; }
bad "a row of no known task" '{"q": 1}' "line 1: a row of no known task"
bad "bad JSON" '
{"question": "x' "line 2: not valid JSON"
bad "no number" '{"question": "x", "answer": "y"}' 'line 1: no number after "#### "'
bad "three choices" '{"question": "x", "choices": ["a", "b", "c"], "answer": 1}' "four of them"
bad "no such answer" '{"question": "x", "choices": ["a", "b", "c", "d"], "answer": 4}' "0 to 3"
bad "a key that is no label" '{"question": "x", "choices": {"text": ["a"], "label": ["A"]}, "answerKey": "B"}' "none of the labels"
bad "the wrong set" '{"question": "x", "answer": "#### 3"}' "needs \"choices\"" mmlu=
bad "roles" '{"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "a"}]}' "message 2"
: >"$dir/empty.jsonl"; says 1 "no items" "an empty file" "$ev chat $dir/empty.jsonl"
exits 1 "a full disk" "$ev --limit 1 chat arithmetic >/dev/full"

# records
is "a record for each task, and the mean" "$ev chat $dir/gsm8k.jsonl mmlu=$dir/mmlu.jsonl arc-easy=$dir/arc.jsonl $dir/talk.jsonl | $(field task) | tr '\n' ' '" \
    '"gsm8k" "mmlu" "arc-easy" "talk" "mean" '
is "items" "$ev chat $dir/gsm8k.jsonl $dir/mmlu.jsonl | $(field items) | tr '\n' ' '" "7 9 "
is "a limit" "$ev --limit 2 chat $dir/gsm8k.jsonl $dir/mmlu.jsonl spelling | $(field items) | tr '\n' ' '" "2 2 2 "
is "tasks made here have 256 items" "$ev -n 1 chat counting | $(field items)" 256
is "guessing is 0" "$ev chat $dir/mmlu.jsonl | awk -F '[:,]' '{ for (i = 1; i < NF; i++) v[\$i] = \$(i + 1) }
    END { d = v[\" \\\"centred\\\"\"] - (v[\" \\\"accuracy\\\"\"] - 0.25) / 0.75; print (d < 1e-12 && d > -1e-12) }'" 1
is "gzip, CR LF, blank lines, a byte-order mark" "{ printf '\357\273\277'; sed 's/\$/\r/' $dir/mmlu.jsonl; echo; } | gzip >$dir/z.jsonl.gz; $ev chat mmlu=$dir/z.jsonl.gz | head -n 1 | sed 's/, \"model.*//'" \
    "$($ev chat "$dir/mmlu.jsonl" | head -n 1 | sed 's/, "model.*//')"
one=$($ev -B 1 chat "$dir/mmlu.jsonl")
for b in 2 4 100; do is "letters in batches of $b" "$ev -B $b chat $dir/mmlu.jsonl" "$one"; done
says 2 "is where the results go" "items and results in one file" "$ev -n 1 --limit 1 --items $dir/i -o $dir/i chat counting"
ok "items are told one by one" "$ev --items $dir/items chat $dir/mmlu.jsonl $dir/gsm8k.jsonl; [ \$(wc -l <$dir/items) -eq 16 ]"
is "  the right ones are those counted" "$ev --items $dir/items chat $dir/mmlu.jsonl | $(field accuracy) | head -n 1 | awk '{ print int(\$1 * 9 + 0.5) }'" \
    "$(grep -c '"right": true' "$dir/items")"
is "  with the number that is wanted" "grep -o '\"want\": \"1003\"' $dir/items" ""
is "  without commas" "$ev --items $dir/items chat $dir/gsm8k.jsonl >/dev/null; grep -c '\"want\": \"1003\"' $dir/items" 1
is "the same answers again" "$ev --samples 3 --items $dir/items2 chat $dir/gsm8k.jsonl; cat $dir/items2" \
    "$($ev --samples 3 --items "$dir/items" chat "$dir/gsm8k.jsonl"; cat "$dir/items")"
is "  whatever the batch" "$ev -B 1 --samples 3 --items $dir/items2 chat $dir/gsm8k.jsonl; cat $dir/items2" \
    "$($ev --samples 3 --items "$dir/items" chat "$dir/gsm8k.jsonl"; cat "$dir/items")"
ok "  others with another seed" "$ev -s 7 --samples 3 --items $dir/items2 chat $dir/gsm8k.jsonl; ! cmp -s $dir/items $dir/items2"
is "pass@k: 1, 2, 4" "$ev --samples 5 --limit 1 chat $dir/gsm8k.jsonl | $(field pass_at) | head -n 1; $ev --samples 5 --limit 1 chat $dir/gsm8k.jsonl | grep -o '\"[0-9]*\": ' | tr -d '\n'" \
    '{"1": 0
"1": "2": "4": '
is "F41: a prompt longer than the context keeps its end, and is counted" \
    "awk 'BEGIN { printf \"{\\\"question\\\": \\\"\"; for (i = 0; i < 400; i++) printf \"word%d \", i; print \"\\\", \\\"choices\\\": [\\\"a\\\", \\\"b\\\", \\\"c\\\", \\\"d\\\"], \\\"answer\\\": 1}\" }' >$dir/long.jsonl
     $ev chat $dir/long.jsonl $dir/mmlu.jsonl | $(field cut) | tr '\n' ' '" "1 0 "

# humaneval, with sh for Python
printf '%s\n' '{"task_id": "x/0", "prompt": "import os\n\n", "canonical_solution": "", "test": "exit 0 #", "entry_point": "f"}' >"$dir/he.jsonl"
printf '#!/bin/sh\n[ "$1" = --check ] && exit 0\ncat >%s/got; exit 0\n' "$dir" >"$dir/runner"; chmod +x "$dir/runner"
is "a program that passes" "$ev --runner $dir/runner chat humaneval=$dir/he.jsonl | $(field accuracy) | head -n 1" 1
is "  holds the imports, the answer, the test and its call" "sed -n 1p $dir/got; grep -c 'exit 0 #' $dir/got; tail -n 2 $dir/got | head -n 1" "import os
1
check(f)"
# the answer may not end it: its last line does, with the status that the runner was told
printf '#!/bin/sh\n[ "$1" = --check ] && exit 0\n[ "$1" = --status ] && tail -n 1 | grep -qx "raise SystemExit($2)" && [ $2 -gt 1 ]\n' >"$dir/runner"
is "  and ends in a way of its own" "$ev --runner $dir/runner chat humaneval=$dir/he.jsonl | $(field accuracy) | head -n 1" 1
printf '#!/bin/sh\n[ "$1" = --check ] && exit 0\nexit 1\n' >"$dir/runner"
is "one that fails" "$ev --runner $dir/runner chat humaneval=$dir/he.jsonl | $(field accuracy) | head -n 1" 0
printf '#!/bin/sh\nexit 3\n' >"$dir/runner"
says 1 "--unsafe" "no sandbox: refused" "$ev --runner $dir/runner chat humaneval=$dir/he.jsonl"
ok "the runner is found" "$ev chat humaneval=$dir/he.jsonl || $ev chat humaneval=$dir/he.jsonl 2>&1 | grep -q 'humaneval-run: no sandbox'"
if command -v python3 >/dev/null && "$top/share/tasks/humaneval-run" --check 2>/dev/null; then
    # without what this model says
    printf '#!/bin/sh\nsed "1,/^# test/d" | %s --time 60 "$@"\n' "$top/share/tasks/humaneval-run" >"$dir/runner"
    he() { printf '{"prompt": "", "entry_point": "len", "canonical_solution": "", "test": "# test\\n%s\\ncheck = callable"}\n' "$1" >"$dir/he.jsonl"; }
    passes() { he "$2"; is "$1" "$ev --runner $dir/runner chat humaneval=$dir/he.jsonl | $(field accuracy) | head -n 1" "$3"; }
    passes "a program that runs to its end" "import math" 1
    passes "one that does not" "assert 0" 0
    passes "exit() passes no test" "exit()" 0
    passes "nor does os._exit(0)" "import os\\nos._exit(0)" 0
else
    skip "programs that end themselves" "no python3, or no sandbox"
fi
finish
