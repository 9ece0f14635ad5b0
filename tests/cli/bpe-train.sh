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
