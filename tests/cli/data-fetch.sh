. "$(dirname "$0")/../lib.sh"
cd "$dir" || exit 1
tab=$(printf '\t')

# ---- command line
is "help names every option" "data-fetch --help | grep -cE -- '--(output|format|column|inspect|split|range|max-docs) '" 7
says 2 "--frmat" "unknown option" "data-fetch --frmat text"
says 2 "--max-docs" "bad number" "data-fetch --max-docs 3x"
says 2 "--max-docs" "negative number" "data-fetch --max-docs -1"
says 2 "--format" "bad choice" "data-fetch --format xml"
says 2 "--split" "empty separator" "data-fetch --split ''"
for r in 5 a:b 90:10 10%:101% 5%:1% 1x:2 1:2:3 -1:5 99999999999999999999: 0.0000001%: 5%%:; do
    says 2 "--range" "bad range $r" "echo a | data-fetch --range=$r"
done
says 1 "nothing@0:8: no such file" "an operand that is neither file nor set" "data-fetch nothing@0:8"
exits 1 "no output is left by a refused operand" "echo a >a.txt; data-fetch a.txt nofile -o refused.jsonl; ls refused.jsonl* && exit 0; exit 1"
says 1 "is a directory" "a folder" "mkdir folder; data-fetch folder"
says 1 "No space" "full disk" "seq 100000 | data-fetch --split line -o /dev/full"
says 1 "'': an empty name" "an output without a name" "echo a | data-fetch -o ''"
is "help to a full disk: one message" "data-fetch --help 2>&1 >/dev/full | grep -c ." 1
says 1 "No space" "full disk as stdout" "seq 100000 | data-fetch --split line >/dev/full"
ok "SIGPIPE ends quietly" "seq 1000000 | data-fetch --split line 2>err | head -n 1; ! [ -s err ]"

# ---- plain text
is "paragraphs" "printf '\n\na\nb \n\n\n\nc\r\n\r\n\r\nd\r\n e' | data-fetch -q" \
'{"text":"a\nb "}
{"text":"c"}
{"text":"d\r\n e"}'
is "a line of spaces is not empty" "printf 'a\n  \nb\n' | data-fetch -q" '{"text":"a\n  \nb"}'
is "the final line end belongs to no document" "printf 'a\r\n' | data-fetch -q" '{"text":"a"}'
is "white space is kept" "printf '  a  b${tab}c   \n' | data-fetch -q" '{"text":"  a  b\tc   "}'
is "lines" "printf 'a\r\nb\rc\n\n d \ne' | data-fetch -q --split line" \
'{"text":"a"}
{"text":"b\rc"}
{"text":" d "}
{"text":"e"}'
is "none" "printf '\n\na\n\nb\n' | data-fetch -q --split none" '{"text":"\n\na\n\nb\n"}'
is "a control character as separator" "printf 'a\n\n\001b\001\001c\001' | data-fetch -q --split \"\$(printf '\001')\"" \
'{"text":"a\n\n"}
{"text":"b"}
{"text":"c"}'
is "a longer separator" "printf 'aa<|endoftext|><|endoftex<|endoftext|>b' | data-fetch -q --split '<|endoftext|>'" \
'{"text":"aa"}
{"text":"<|endoftex"}
{"text":"b"}'
is "separators are found from the left" "printf 'xaaay' | data-fetch -q --split aa" \
'{"text":"x"}
{"text":"ay"}'
says 0 "2 rows, 26 bytes; 2 empty documents left out, 0 invalid" "what was left out is said" \
    "printf 'a\n\n\nb\n' | data-fetch --split line"
is "a byte-order mark is no text" "printf '\357\273\277a' | data-fetch -q" '{"text":"a"}'
is "one further on is" "printf 'x\357\273\277a' | data-fetch -q --split none" "$(printf '{"text":"x\357\273\277a"}')"
is "NUL is text" "printf 'a\000b' | data-fetch -q" '{"text":"a\u0000b"}'
is "invalid UTF-8 is replaced" "printf 'hi\377\376 \346\255\nx\360\237' | data-fetch -q --split none" \
    "$(printf '{"text":"hi\357\277\275\357\277\275 \357\277\275\\nx\357\277\275"}')"
says 0 "4 invalid UTF-8 sequences replaced" "and counted" "printf 'hi\377\376 \346\255\nx\360\237' | data-fetch"
is "a document per file" "printf 'a\n' >1.txt; printf 'b' >2.txt; data-fetch -q 1.txt 2.txt - 1.txt <2.txt" \
'{"text":"a"}
{"text":"b"}
{"text":"b"}
{"text":"a"}'
says 1 "stdin: no documents" "empty input" "printf '' | data-fetch"
says 1 "stdin: no documents" "only empty lines" "printf '\n\n\n' | data-fetch -o none.jsonl"
exits 1 "and no file" "ls none.jsonl* && exit 0; exit 1"

# the same documents however the input comes in pieces: separators over the borders of buffers
awk 'BEGIN { for (i = 0; i < 30000; i++) { s = i; for (k = 0; k < i % 13; k++) s = s "-" i; printf "%s%s", s, i % 3 ? "\r\n\r\n" : "\n\n\n" } }' >many.txt
is "many paragraphs" "data-fetch -q many.txt | awk -F'\"' '{ n = split(\$4, f, \"-\"); bad += f[1] != NR - 1 || n != (NR - 1) % 13 + 1 } END { print NR, bad + 0 }'" "30000 0"
head -c 3000 many.txt >some.txt
byte_by_byte() { od -An -v -to1 -w1 some.txt | tr -d ' ' | while read -r c; do printf "\\$c"; done; }
is "a byte at a time" "byte_by_byte | data-fetch -q | cksum" "$(data-fetch -q some.txt | cksum)"
is "one document of 8 MB" "awk 'BEGIN { for (i = 0; i < 800000; i++) print \"123456789\" }' | data-fetch -q | wc -c" 8800010

# ---- JSON Lines
cat >rows.jsonl <<'.'
{"text":"a\u0041","id":1,  "x": [1, 2.50]}

  {"messages":[{"role":"user","content":"hi"}],"note":"kept"} 
{"text":""}
.
is "rows pass through as they stand" "data-fetch -q rows.jsonl" "$(sed '/^$/d' rows.jsonl)"
is "CR LF, BOM and blank lines are dropped" \
    "{ printf '\357\273\277'; sed 's/\$/\r/' rows.jsonl; } >dos.ndjson; data-fetch -q dos.ndjson" "$(sed '/^$/d' rows.jsonl)"
is "auto: JSON Lines begin with {" "{ printf '\357\273\277 \n\n'; cat rows.jsonl; } | data-fetch -q" "$(sed '/^$/d' rows.jsonl)"
is "auto: a bracket is text" "printf ' [1]' | data-fetch -q" '{"text":" [1]"}'
is "auto: half a byte-order mark is text" "printf '\357\273 {' | data-fetch -q" "$(printf '{"text":"\357\277\275 {"}')"
is "--format text" "printf '{\"text\":\"a\"}' | data-fetch -q --format text" '{"text":"{\"text\":\"a\"}"}'
says 1 "stdin: line 1, byte 1: " "--format jsonl" "printf 'a' | data-fetch --format jsonl"
is "gzip, two members" "{ gzip -c rows.jsonl; gzip -c rows.jsonl; } >two.jsonl.gz; data-fetch -q two.jsonl.gz | wc -l" 6
exits 1 "a truncated gzip" "head -c 60 two.jsonl.gz >cut.jsonl.gz; data-fetch cut.jsonl.gz -o cut.jsonl"
exits 1 "leaves no output" "ls cut.jsonl* 2>/dev/null | grep -v gz && exit 0; exit 1"
says 1 "bad.jsonl: line 3: \"text\" is not a string" "a bad row names file and line" \
    "printf '{\"text\":\"a\"}\n\n{\"text\":1}\n' >bad.jsonl; data-fetch bad.jsonl -o bad.out"
says 1 "bad.jsonl: line 1: neither" "neither text nor messages" "echo '{\"question\":\"a\"}' >bad.jsonl; data-fetch bad.jsonl"
says 1 "bad.jsonl: line 1: not a JSON object" "no object" "echo '[{\"text\":\"a\"}]' >bad.jsonl; data-fetch bad.jsonl"
says 1 "stdin: line 5: " "lines are counted from the start" "printf '\n\n\n{\"text\":\"a\"}\n{\"text\":[]}\n' | data-fetch"

# ---- limits and ranges
is "--max-docs, text" "seq 9 | data-fetch -q --split line --max-docs 2" '{"text":"1"}
{"text":"2"}'
is "--max-docs over several files" "data-fetch -q --max-docs 4 rows.jsonl 1.txt 2.txt | tail -n 1" '{"text":"a"}'
is "range of bytes" "printf 0123456789 | data-fetch -q --range 2:5" '{"text":"234"}'
is "open ends" "printf 0123456789 | data-fetch -q --range :3; printf 0123456789 | data-fetch -q --range 8:" '{"text":"012"}
{"text":"89"}'
is "percent" "printf 0123456789 >ten.txt; data-fetch -q --range 20%:50% ten.txt" '{"text":"234"}'
is "decimals" "data-fetch -q --range 0:99.9% ten.txt" '{"text":"012345678"}'
is "percent and bytes" "data-fetch -q --range 7:100% ten.txt" '{"text":"789"}'
is "percent of unpacked bytes" "gzip -c ten.txt >ten.gz; data-fetch -q --range 50%: ten.gz" '{"text":"56789"}'
is "of each file" "data-fetch -q --range 0:10% ten.txt ten.gz" '{"text":"0"}
{"text":"0"}'
says 1 "stdin: percentages" "percent of stdin" "data-fetch --range 0:50% <ten.txt"
says 1 "ten.txt: no documents in this range" "an empty range" "data-fetch --range 10: ten.txt"
# e, acute: 2 bytes; euro: 3; a musical sign: 4. Each cut of the 10 bytes parts no character, and both sides agree.
printf 'a\303\251\342\202\254\360\235\204\236' >utf8.txt
for i in 0 1 2 3 4 5 6 7 8 9 10; do
    data-fetch -q --split none --range 0:$i utf8.txt; data-fetch -q --split none --range $i: utf8.txt
done 2>/dev/null | sed 's/^{"text":"//; s/"}$//' | tr -d '\n' >parts
is "a cut parts no character and loses none" "cat parts" "$(for i in 1 2 3 4 5 6 7 8 9 10 11; do cat utf8.txt; done)"
is "and is moved forward" "data-fetch -q --range 0:2 utf8.txt" "$(printf '{"text":"a\303\251"}')"
is "rows" "data-fetch -q --range 1:2 rows.jsonl" "$(sed -n 3p rows.jsonl)"
is "percent of rows" "data-fetch -q --range 50%:100% rows.jsonl | wc -l" 2
says 1 "stdin: percentages" "percent of rows of stdin" "data-fetch --range 0:50% <rows.jsonl"
is "train and validation tile the text" "data-fetch -q --split none --range 0:90% many.txt >t; data-fetch -q --split none --range 90%: many.txt >v; cat t v | sed 's/^{\"text\":\"//; s/\"}\$//' | tr -d '\n' | cksum" \
    "$(data-fetch -q --split none many.txt | sed 's/^{"text":"//; s/"}$//' | tr -d '\n' | cksum)"
is "a config file" "printf 'split = line\nmax-docs = 1\n' >c; seq 3 | data-fetch -q -c c" '{"text":"1"}'

shakespeare=$top/../shared/data/tinyshakespeare.txt
if [ -f "$shakespeare" ]; then
    is "tinyshakespeare: its paragraphs" "data-fetch -q '$shakespeare' | wc -l" "$(awk 'BEGIN { RS = "" } END { print NR }' "$shakespeare")"
else skip "tinyshakespeare" "not here"; fi
corpus=$top/../shared/data/tok_golden/corpus.txt
if [ -f "$corpus" ]; then
    says 0 "697 rows" "documents separated by U+0001" "data-fetch --split \"\$(printf '\001')\" '$corpus'"
    says 0 "3 empty documents left out, 0 invalid" "three are empty" "data-fetch --split \"\$(printf '\001')\" '$corpus'"
else skip "documents separated by U+0001" "not here"; fi
finish
