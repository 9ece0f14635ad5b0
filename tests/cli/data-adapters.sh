# data-fetch: rows through programs for jq, those of data sets and one's own.
. "$(dirname "$0")/../lib.sh"
cd "$dir" || exit 1
unset HF_ENDPOINT
fetch="data-fetch -q"
programs=$top/share/data

# ---- GSM8K: a row with everything the rule knows, and all of the set where it is
cat >g.jsonl <<'END'
{"question": "q\u00e9", "answer": "a <<1=2=3>>b<<4>><<5=>>\n#### 3"}

{"question": "r", "answer": "no call <<>> < <"}
END
cat >g.want <<'END'
{"messages":[{"role":"user","content":"qé"},{"role":"assistant","content":[{"type":"text","text":"a "},{"type":"python","text":"1=2"},{"type":"python_output","text":"3"},{"type":"text","text":"b"},{"type":"python","text":"4"},{"type":"python_output","text":""},{"type":"text","text":""},{"type":"python","text":"5"},{"type":"python_output","text":""},{"type":"text","text":"\n#### 3"}]}]}
{"messages":[{"role":"user","content":"r"},{"role":"assistant","content":[{"type":"text","text":"no call <<>> < <"}]}]}
END
ok "GSM8K's rule, by name" "$fetch --jq gsm8k g.jsonl | cmp - g.want"
ok "and by path" "$fetch --jq '$programs/gsm8k.jq' - <g.jsonl | cmp - g.want"
full=$top/../shared/data/gsm8k
if [ -r "$full/train.jsonl" ]; then     # of a program in another language
    is "all 8,792 rows of GSM8K" "$fetch --jq gsm8k $full/train.jsonl $full/test.jsonl | sha256sum | cut -c1-16" 7703eb331f7a9e77
else skip "all 8,792 rows of GSM8K" "not here"; fi

# ---- a set whose manifest names a program
mkdir -p sets m/datasets/me/q/resolve/main
export PIPEGPT_SETS="$dir/sets" HF_ENDPOINT="file://$dir/m"
at=m/datasets/me/q/resolve/main
for f in a b; do seq 0 499 | sed "s/.*/{\"question\":\"$f&\",\"answer\":\"<<&=1>>\"}/" >$at/$f.jsonl; done
cp "$programs/gsm8k.jq" sets/
echo '{"licence":"x","repo":"me/q","adapter":"gsm8k","default":"a","splits":{"a":{"files":["a.jsonl"]},"both":{"files":["a.jsonl","b.jsonl"]}}}' >sets/q.json
jq -nc -f sets/gsm8k.jq $at/a.jsonl >a.want; jq -nc -f sets/gsm8k.jq $at/a.jsonl $at/b.jsonl >both.want
ok "its rows come as conversations" "$fetch q | cmp - a.want"
ok "of several files" "$fetch q:both | cmp - both.want"
ok "the slice of them, twice" "$fetch 'q:both@499:502*2' >s; sed -n '500,502p' both.want >w; cat w w | cmp - s"
ok "--max-docs" "$fetch --max-docs 3 q >s; head -n 3 a.want | cmp - s"
ok "--range" "$fetch --range 10:12 q >s; sed -n '11,12p' a.want | cmp - s"
ok "--raw: as published" "$fetch --raw q:both >s; cat $at/a.jsonl $at/b.jsonl | cmp - s"
is "--jq goes first" "echo 'inputs | {text: .question}' >own.jq; $fetch --jq own.jq q@3:4" '{"text":"a3"}'
ok "nanochat's order of both" "$fetch --shuffle 42 --order nanochat q:both@0:40 'q*2' >s; $fetch --shuffle 42 --order nanochat both.want@0:40 'a.want*2' | cmp - s"
ok "by hash every row is there" "$fetch --shuffle 1 -S 64K q:both | sort >s; sort both.want | cmp - s"
ok "provenance counts them" "$fetch --provenance q:both | jq -e 'select(.messages[0].content != (if ._from.row < 500 then \"a\\(._from.row)\" else \"b\\(._from.row - 500)\" end))' | cmp - /dev/null"
ok "and is true after a shuffle" "$fetch --provenance --shuffle 3 q | jq -e 'select(.messages[0].content != \"a\\(._from.row)\" or ._from.set != \"q\")' | cmp - /dev/null"
ok "holdout" "$fetch --holdout 20% --holdout-output v q -o t && cat t v | sort >s; sort a.want | cmp - s"
ok "what it knows of the file" "echo 'inputs | {text: \$file}' >own.jq; $fetch --jq own.jq $at/a.jsonl@0:1 | grep -q '$at/a.jsonl'"
is "CSV and arrays too" "echo 'inputs | {text: .t}' >own.jq; printf 't\nx\n' >c.csv; echo '[{\"t\":\"y\"}]' >d.json; $fetch --jq own.jq c.csv d.json | tr -d '\n'" '{"text":"x"}{"text":"y"}'
is "rows that are arrays" "printf '[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}]\n' >i.jsonl; cp '$programs/identity.jq' sets/; $fetch --jq identity i.jsonl | jq -c .messages" "$(cat "$dir/i.jsonl" 2>/dev/null || echo '[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]')"
is "as they are, without a place of theirs" "$fetch --raw --provenance i.jsonl" '[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]'

# ---- how many rows
prog() { printf '%s\n' "$1" >p.jq; }
prog 'inputs | select(.question != "a7")'
says 1 "a.jsonl: p.jq made 499 rows of 500" "a row that is left out is noticed" "$fetch --jq p.jq $at/a.jsonl"
prog '# rows: fewer
inputs | select(.question != "a7")'
is "unless the program says that it does so" "$fetch --jq p.jq $at/a.jsonl | wc -l" 499
prog 'inputs | ., .'
says 1 "p.jq makes more rows than the" "two for one" "$fetch --jq p.jq $at/a.jsonl"
prog '# of its rows
# rows: any

inputs | ., .'
is "unless it says so" "$fetch --jq p.jq $at/a.jsonl | wc -l" 1000
prog '# rows: any
[inputs] | {text: (map(.question) | join(" "))}'
is "all rows into one" "$fetch --jq p.jq $at/a.jsonl | jq '.text | length'" "$(awk 'BEGIN {for (i = 0; i < 500; i++) n += length("a" i) + 1; print n - 1}')"
prog '# rows: fewer
limit(5; inputs)'
is "a program that has enough" "seq 0 99999 | sed 's/.*/{\"text\":\"&\"}/' | $fetch --format jsonl --jq p.jq - | wc -l" 5
prog 'limit(5; inputs)'
says 1 "made 5 rows of" "one that has not said so" "seq 0 99999 | sed 's/.*/{\"text\":\"&\"}/' | $fetch --format jsonl --jq p.jq -"
prog '# rows: most
inputs'
says 1 "p.jq: '# rows: most': same, fewer or any" "a word that is none" "$fetch --jq p.jq g.jsonl"
prog '.text'
says 1 "is no JSON object: null" "a program that does not read its rows" "$fetch --jq p.jq g.jsonl"

# ---- programs that go wrong
prog 'inputs | if .question == "a300" then error("no good") else . end'
says 1 "a.jsonl: row 301: p.jq: no good" "an error names file and row" "$fetch --jq p.jq $at/a.jsonl -o no"
says 1 "a.jsonl: row 301: p.jq: no good" "of a range too" "$fetch --range 250: --jq p.jq $at/a.jsonl -o no"
prog 'inputs | if .question == "a300" then error("row \(input_line_number): its own") else . end'
says 1 "a.jsonl: row 301: p.jq: its own" "a row the program names is said once" "$fetch --jq p.jq $at/a.jsonl -o no"
prog 'inputs | if .question == "a300" then halt_error(1) else . end'
says 1 "a.jsonl: row 301: p.jq: " "halt_error" "$fetch --jq p.jq $at/a.jsonl -o no"
prog 'inputs | if .question == "a300" then halt else . end'
says 1 "made 300 rows of" "halt, with status 0" "$fetch --jq p.jq $at/a.jsonl -o no"
prog 'inputs | .answer.x'
says 1 "row 1: p.jq: Cannot index string" "what jq itself finds" "$fetch --jq p.jq $at/a.jsonl -o no"
prog 'inputs | foo('
says 1 "p.jq: not a program for jq: " "a syntax error" "$fetch --jq p.jq $at/a.jsonl -o no"
prog 'def f: f; inputs | if .question == "a300" then f else . end'
says 1 "row 301: p.jq has neither taken nor given anything for 2 s" "an endless loop" "$fetch --jq p.jq --jq-wait 2 $at/a.jsonl -o no"
prog 'inputs | if .question == "a300" then 1 else . end'
says 1 "row 301: what p.jq makes is no JSON object: 1" "a number" "$fetch --jq p.jq $at/a.jsonl -o no"
prog 'inputs | debug'
says 0 "p.jq says: " "what it says without failing is passed on" "data-fetch --jq p.jq g.jsonl"
says 1 "no/p.jq: No such file" "a program that is not there" "$fetch --jq no/p.jq g.jsonl"
says 1 "book.txt: plain text, which becomes documents" "text is not for jq" "echo a >book.txt; $fetch --jq own.jq book.txt"
says 2 "exclude each other" "--raw and --jq" "$fetch --raw --jq own.jq g.jsonl"
says 1 "g2.jsonl: line 2, byte" "a row that is no JSON" "printf '{}\n{\n' >g2.jsonl; $fetch --jq own.jq g2.jsonl"
says 1 "line 1: neither an object nor an array" "or a number" "echo 1 >g2.jsonl; $fetch --jq own.jq g2.jsonl"
says 1 "line 1, byte 7" "or no UTF-8" "printf '{\"a\":\"\\377\"}\n' >g2.jsonl; $fetch --jq own.jq g2.jsonl"
prog 'inputs'
says 0 "row 2: an integer past 2^53" "an integer jq may round" "printf '{\"a\":9007199254740992}\n{\"a\":[12345678901234567890]}\n{\"a\":\"12345678901234567890\"}\n' >g2.jsonl; data-fetch --jq p.jq g2.jsonl"
is "nothing came of all these" "ls no* 2>/dev/null" ""

# ---- other programs of that name, that do what jq may not
mkdir bin
export PATH="$dir/bin:$PATH"
tool() { printf '#!/bin/sh\n%s\n' "$1" >bin/jq; chmod +x bin/jq; }
run="$fetch --jq own.jq $at/a.jsonl"
tool 'read x; echo "$x"; kill -9 $$'
says 1 "row 2: own.jq: jq was ended by signal 9" "killed half-way" "$run"
tool 'head -n 20'
says 1 "made 20 rows of" "ends early with status 0" "$run"
tool 'cat | head -c 1000'
says 1 "own.jq ends inside a row" "half a row" "$run"
tool 'cat; exit 7'
says 1 "row 501: own.jq: jq failed, and did not say why" "all rows, but a failure" "$run"
tool 'cat; exec >&-; exec sleep 9'
says 1 "has closed its output, but does not end" "does not end" "$run --jq-wait 2"
tool 'yes | tr -d "\n"'
says 1 "row 1: own.jq makes a row of more than 256 MB" "a row without end" "$run"
tool 'exec head -c 100000 /dev/zero'
says 1 "own.jq ends inside a row" "zeros" "$run"
tool 'echo "{\"a\":\"$(printf "\\377")\"}"; cat'
says 1 "is no JSON object" "no UTF-8" "$run"
tool 'head -c 3000000 /dev/zero | tr "\0" "x" >&2; echo "the end" >&2; exit 4'
says 1 "xxthe end" "a flood on stderr" "$run"
tool 'sleep 0.2; cat; echo thus >&2'
ok "a late one, with a word for the user" "data-fetch --jq own.jq $at/a.jsonl 2>err | cmp - $at/a.jsonl; grep -q 'own.jq says: thus' err"
tool 'while read -r x; do echo "$x"; echo "$x"; echo "$x"; done'
is "more out than in, through full pipes" "printf '# rows: any\n' >any.jq; for i in 1 2 3 4 5 6; do cat $at/a.jsonl; done >big.jsonl; $fetch --jq any.jq big.jsonl | { sleep 0.3; cat; } | wc -l" 9000
printf '#!/bin/sh\necho $$ >%s\nexec cat\n' "$dir/pid" >bin/jq
gone() { i=0; while kill -0 "$(cat pid)" 2>/dev/null && [ $i -lt 50 ]; do sleep 0.1; i=$((i + 1)); done; ! kill -0 "$(cat pid)" 2>/dev/null; }
ok "| head -1 is quiet, and jq ends" "rm -f pid; for i in 1 2 3 4 5 6 7 8 9; do cat $at/a.jsonl; done >big.jsonl; data-fetch --jq own.jq big.jsonl big.jsonl 2>err | head -n 1 >/dev/null; ! [ -s err ] && gone"
says 1 "No space" "a full disk" "$fetch --jq own.jq big.jsonl -o /dev/full"
for s in TERM KILL; do
    printf '#!/bin/sh\necho $$ >%s\ntrap "" INT TERM HUP PIPE\nwhile :; do sleep 0.1; done\n' "$dir/pid" >bin/jq
    ok "SIG$s: jq does not outlive it" "rm -f pid; $fetch --jq own.jq --jq-wait 0 $at/a.jsonl -o no & p=\$!; while [ ! -s pid ]; do sleep 0.05; done; kill -$s \$p; wait \$p; gone"
done
tool '#'; chmod -x bin/jq; rm -rf bin/none; mkdir bin/none
here=$(command -v data-fetch)
says 1 "own.jq needs jq, and there is none on the PATH" "no jq" "PATH=$dir/bin/none $here --jq own.jq g.jsonl"
says 1 "--raw gives the rows as published" "no jq for a set" "PATH=$dir/bin/none $here q"
is "--raw needs none" "PATH=$dir/bin/none $here -q --raw q@0:1" "$(head -n 1 $at/a.jsonl)"
finish
