. "$(dirname "$0")/../lib.sh"
docs=$top/tests/tok/docs.jsonl; cd "$dir" || exit 1
row() { printf '{"text":"%s"}\n' "$@"; }

ok "--help" "bpe-train --help"
exits 2 "unknown option" "bpe-train --frobnicate"
exits 2 "bad number" "bpe-train -v 12x"
exits 2 "vocabulary below 256 + 9" "row a | bpe-train -v 264 -o x"
says 1 "nosuch.jsonl" "missing file" "bpe-train -o x nosuch.jsonl"
[ -w /dev/full ] && exits 1 "/dev/full" "bpe-train -v 300 -o /dev/full $docs" || skip "/dev/full" "none here"
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    ok "binary is not written to a terminal" \
        "! script -qec 'bpe-train -v 300 $docs' /dev/null >tty.txt && grep -q terminal tty.txt"
else skip "binary is not written to a terminal" "no script(1)"; fi

# the same pieces, merges and file by every road
ok "trains" "bpe-train -v 521 --doc-cap 0 -o a.tok --merges a.txt $docs"
ok "merges equal the golden ones" "cmp a.txt $top/tests/tok/merges.txt"
ok "stdin" "bpe-train -v 521 --doc-cap 0 <$docs >b.tok && cmp a.tok b.tok"
ok "order of documents" "sort -r $docs | bpe-train -v 521 --doc-cap 0 -o b.tok && cmp a.tok b.tok"
ok "several files" "head -n 20 $docs >p1; tail -n +21 $docs >p2; bpe-train -v 521 --doc-cap 0 p1 p2 -o b.tok && cmp a.tok b.tok"
ok "gzip of two members" "{ gzip -c p1; gzip -c p2; } >p.gz; bpe-train -v 521 --doc-cap 0 p.gz -o b.tok && cmp a.tok b.tok"
ok "another locale" "LC_ALL=tr_TR.UTF-8 bpe-train -v 521 --doc-cap 0 $docs -o b.tok && cmp a.tok b.tok"
ok "byte-order mark, CR LF, blank lines, no last LF" \
    "{ printf '\357\273\277'; sed 's/\$/\r/; a\\
\\
' $docs | head -c -2; } | bpe-train -v 521 --doc-cap 0 -o b.tok && cmp a.tok b.tok"

for j in 1 2 8; do ok "-j $j" "bpe-train -j $j -v 521 --doc-cap 0 $docs -o b.tok && cmp a.tok b.tok"; done
for b in 1 100 4194304; do
    ok "blocks of $b bytes" "PIPEGPT_BLOCK=$b bpe-train -j 3 -v 521 --doc-cap 0 $docs -o b.tok && cmp a.tok b.tok"
done
for t in base avx2 avx512; do
    if PIPEGPT_CPU=$t bpe-train -v 265 -o b.tok $docs 2>cpu.log || ! grep -q 'cannot run' cpu.log; then
        ok "PIPEGPT_CPU=$t" "PIPEGPT_CPU=$t bpe-train -v 521 --doc-cap 0 $docs -o b.tok && cmp a.tok b.tok"
    else skip "PIPEGPT_CPU=$t" "not on this processor"; fi
done

# more distinct pieces than the tables may hold
awk 'BEGIN { for (i = 0; i < 60000; i++) printf "{\"text\":\"w%dx q%dy z%s\"}\n", i * 7919 % 30011, i % 977,
    substr("abcdefghijklmnopqrstuvwxyz", 1 + i % 20, 1 + i % 7) }' | tr 0-9 g-p >many.jsonl
ok "without spilling" "bpe-train -j 1 -v 2000 many.jsonl -o a2.tok --counts a2.counts"
mkdir tmp
for j in 1 3; do
    ok "spilling, -j $j" "PIPEGPT_TABLE=300000 bpe-train -j $j -T tmp -v 2000 many.jsonl -o b2.tok --counts b2.counts && cmp a2.tok b2.tok && cmp a2.counts b2.counts"
done
ok "leaves nothing behind" "[ -z \"\$(ls tmp)\" ]"
says 1 "nosuchdir: cannot make a temporary file" "no folder to spill to" "PIPEGPT_TABLE=300000 bpe-train -T nosuchdir many.jsonl -o x"
says 1 "more memory (--mem) or leaving out rare ones (--min-count" "--mem that cannot do" "bpe-train --mem 100K many.jsonl -o x"
says 2 "x: only one of -o, --counts and --merges" "two outputs of one name" "bpe-train -o x --counts x many.jsonl"
says 1 "nodir/c: cannot create" "an output that cannot be made is told before the work" "bpe-train -o x --counts nodir/c nosuchfile"
ln -sf "$PWD" link
says 2 "x: only one of -o, --counts and --merges" "the same by another name" "bpe-train -o x --counts link/x many.jsonl"
ok "/dev/null takes both" "bpe-train -v 300 -o /dev/null --counts /dev/null many.jsonl"
says 2 "stdout: only one of -o, --counts and --merges" "two outputs to stdout" "bpe-train --merges - many.jsonl >two"

# tables of counts
ok "--counts as input" "bpe-train -v 2000 a2.counts -o b2.tok --counts b2.counts && cmp a2.tok b2.tok && cmp a2.counts b2.counts"
ok "two tables are the sum" "head -n 20000 many.jsonl | bpe-train -v 265 -o x.tok --counts p.counts; tail -n +20001 many.jsonl | bpe-train -v 265 -o x.tok --counts q.counts; bpe-train -v 2000 p.counts q.counts -o b2.tok --counts b2.counts && cmp a2.tok b2.tok && cmp a2.counts b2.counts; r=\$?; rm x.tok; exit \$r"
ok "a table and documents" "tail -n +20001 many.jsonl | bpe-train -v 2000 p.counts - -o b2.tok && cmp a2.tok b2.tok"
ok "a table through gzip and a pipe" "gzip -c a2.counts | bpe-train -v 2000 -o b2.tok && cmp a2.tok b2.tok"
says 1 "the checksum is wrong" "a damaged table" "{ head -c -1 a2.counts; printf 0; } >d.counts; bpe-train d.counts -o x"
says 1 "d.counts: ends inside a table of counts" "a table cut short" "head -c 2000 a2.counts >d.counts; bpe-train d.counts -o x"
is "--min-count leaves out what is rare" "row 'ab ab cd' | bpe-train -v 270 --min-count 2 -o m.tok --merges - 2>/dev/null" ""
is "but not what is not" "row 'x:ab:ab:cd' | bpe-train -v 270 --min-count 2 -o m.tok --merges - 2>/dev/null | head -n 1" "58 97 256"

row "ab ab ab cd cd ef" >rare.jsonl
ok "--counts holds all pieces, whatever --min-count is" "bpe-train -q -v 270 --min-count 2 --counts r2.counts --merges r2.txt rare.jsonl -o x.tok && bpe-train -q -v 270 --counts r1.counts --merges r1.txt rare.jsonl -o x.tok && cmp r1.counts r2.counts"
ok "so that training on it is training on the text" "! cmp -s r1.txt r2.txt && bpe-train -q -v 270 --merges r3.txt r2.counts -o x.tok && cmp r1.txt r3.txt && bpe-train -q -v 270 --min-count 2 --merges r3.txt r2.counts -o x.tok && cmp r2.txt r3.txt; r=\$?; rm x.tok; exit \$r"

# going on
ok "--continue-from" "bpe-train -v 900 many.jsonl -o s.tok && bpe-train -v 2000 --continue-from s.tok many.jsonl -o b2.tok && cmp a2.tok b2.tok"
ok "keeps ids on other text" "bpe-train -v 1200 --continue-from s.tok --merges c.txt $docs -o c.tok && bpe-train -v 900 many.jsonl --merges s.txt -o x.tok && head -n 635 c.txt | cmp - s.txt; r=\$?; rm x.tok; exit \$r"
own() { tok-encode -q --convert s.tok s.json && sed "$1" s.json >o.json && tok-encode -q --convert o.json o.tok; }
named() { printf %s "$1" | tok-encode -q -t o2.tok --text --no-bos --allow-special --ids -; }
own 's/<|user_start|>/<|my_own|>/g; s/<|output_end|>/<|z|>/g'
ok "keeps special tokens of other names" "bpe-train -q -v 1000 --continue-from o.tok many.jsonl -o o2.tok"
is "  in their order" "named '<|bos|><|my_own|><|z|>'" "991 992 999"
is "  and adds none" "tok-encode -t o2.tok --eos '<|user_start|>' $docs -o x 2>&1 | sed 's/.*: //'" "has no special token <|user_start|>"
own '/"id": 89[2-9],/d; s/\("id": 891,.*\)},/\1}/'
ok "  nor if there is but one" "bpe-train -q -v 1000 --continue-from o.tok many.jsonl -o o2.tok --merges o.txt && [ \$(wc -l <o.txt) = 743 ]"
is "  which keeps its place" "named '<|bos|>'" "999"
own 's/"id": 899,/"id": 905,/'
says 1 "o.tok: not a tokenizer that bpe-train could have made" "ids with gaps" "bpe-train -v 1000 --continue-from o.tok many.jsonl -o x"
says 1 "s.tok: has 635 merges already" "a vocabulary that is smaller" "bpe-train -v 800 --continue-from s.tok many.jsonl -o x"
says 1 "many.jsonl" "continuing from what is no tokenizer" "bpe-train --continue-from many.jsonl many.jsonl -o x"

# bytes that are not UTF-8
ok "are replaced and counted" "printf '{\"text\":\"a\\377\\376b\"}\n' | bpe-train -v 270 -o u.tok 2>u.log --merges u.txt && grep -q '2 stretches' u.log"
says 1 "line 1" "or refused" "printf '{\"text\":\"a\\377b\"}\n' | bpe-train -v 270 -o x --invalid error"

# processors
mine=$(taskset -cp $$ 2>/dev/null | sed 's/.*: \([0-9]*\).*/\1/')
if [ "$mine" ] && [ -d /proc/$$/task ]; then
    mkfifo wait
    taskset -c "$mine" bpe-train -q -v 265 -o t.tok wait & pid=$!
    exec 9>wait                         # it has its threads when it opens this
    threads=$(ls /proc/$pid/task | wc -l)
    row a >&9; exec 9>&-; wait $pid
    is "one processor, one thread" "echo $threads" 1
else skip "one processor, one thread" "no taskset or /proc"; fi

# the rules of the corpus
merges() { bpe-train -v "${v:-270}" "$@" -o m.tok --merges - 2>m.log; }
is "aaa merges once, from the left" "row aaa | merges" "97 97 256
256 97 257"
is "ties: smallest left id, then right id" "row bbbaaaddddcccc | v=268 merges" "99 99 256
100 100 257
97 97 258"
is "--doc-cap counts characters" "row 'ééxéx' | merges --doc-cap 3" "195 169 256
256 120 257
256 257 258"
is "--doc-cap 0 is no cap" "row abcdefgh | merges --doc-cap 0 | wc -l" "5"
is "the document that crosses --max-chars counts, the next does not" \
    "row abab cdcd efef | merges --max-chars 5 | head -n 2" "97 98 256
99 100 257"
ok "and the counts say so" "grep -q '2 documents, 8 characters, 8 bytes' m.log"
is "--max-chars that is met exactly does not stop" "row abab cdcd efef | merges --max-chars 8 >/dev/null; sed -n '1s/.*: //;1s/,.*//p' m.log" "3 documents"
is "the parts of conversations are texts" "printf '%s\n' '{\"messages\":[{\"role\":\"user\",\"content\":\"ab\"},{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"ab\"},{\"type\":\"python\",\"text\":\"cd\"}]}]}' | merges" "97 98 256
99 100 257"
says 1 "line 2: message 1" "content that is no text" \
    "{ row a; echo '{\"messages\":[{\"role\":\"user\",\"content\":7}]}'; } | bpe-train -v 300 -o x"
ok "control strings are ordinary text" "row '<|bos|><|bos|>' | merges | grep -q '^60 124 '"
ok "NUL, newline, space" "row 'a\\n\\na\\n\\nx  x  \\u0000\\u0000' | bpe-train -v 300 -o n.tok && row 'a\\n\\na\\u0000\\u0000x' | tok-encode -t n.tok | tok-encode -t n.tok --decode --raw >n.txt && printf 'a\n\na\000\000x' | cmp - n.txt"

# little or nothing
says 1 "no text in stdin" "empty input" "bpe-train -o x </dev/null"
says 1 "no text in stdin" "empty documents only" "row '' '' | bpe-train -o x"
ok "nothing is left behind" "! ls x* 2>/dev/null | grep ."
ok "three spaces" "row '   ' | bpe-train -o s.tok"
says 0 "no pairs are left after 1 merges: the tokenizer has 266 ids, not 50000" "too little text" "row ab | bpe-train -v 50000 -o s.tok"
is "gives a usable tokenizer" "row ab | tok-encode -t s.tok --ids" "257 256"
ok "no merges at all" "row ab | bpe-train -v 265 -o s.tok"
is "is bytes" "row ab | tok-encode -t s.tok --ids" "256 97 98"
says 1 "stdin: line 2" "a bad line is named" "{ row a; echo '{\"text\":'; } | bpe-train -o x"
printf old >keep; bpe-train -o keep nosuch.jsonl 2>/dev/null
is "a failure leaves the old file" "cat keep" "old"

# one document without a place to split it
{ printf '{"text":"'; head -c 3000000 /dev/zero | tr '\0' a; printf '"}\n'; } >a.jsonl
ok "three million letters" "timeout 120 bpe-train -v 300 --doc-cap 0 -o l.tok a.jsonl"
ok "and they come back" "tok-encode -t l.tok a.jsonl | tok-encode -t l.tok --decode | cmp - a.jsonl"
finish
