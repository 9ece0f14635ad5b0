# tok-encode in memory that does not grow with its input; bpe-train in the memory it is given.
. "$(dirname "$0")/../lib.sh"
cd "$dir" || exit 1
case $(tok-encode --version) in *fsanitize*) skip "memory" "a sanitizer takes memory of its own"; finish;; esac
peak() { "$BUILD/tests/peak" kb "$@" && cat kb; }
awk 'function rnd(k) { x = (x * 16807) % 2147483647; return int(x / 2147483647 * k) }
    BEGIN { x = 7; n = split("ba ce di fo gu ha je ki lo mu na pe ri so tu va we xi yo zu bre cli dro flu", s, " ")
        for (d = 0; d < 12000; d++) { printf "{\"text\":\""
            for (i = 0; i < 80; i++) { w = ""; for (k = 2 + rnd(3); k >= 0; k--) w = w s[1 + rnd(n)]; printf "%s ", w }
            print "\"}" } }' </dev/null >a.jsonl
bpe-train -q -v 4096 -o a.tok a.jsonl || exit 1
cat a.jsonl a.jsonl a.jsonl a.jsonl a.jsonl a.jsonl a.jsonl a.jsonl >b.jsonl
size=$(($(wc -c <b.jsonl) / 1024))
under() { # COMMAND: its memory is 24 MB a thread, and less than its input
    used=$("$@"); awk "BEGIN {exit !($used < 24000 * $j && $used < 1.2 * $size)}" || echo "$used KB of $size"
}
for j in 1 3; do
    is "-j $j: less than 24 MB a thread" "under peak tok-encode -q -j $j -t a.tok -o x b.jsonl" ""
done
piped() { cat b.jsonl | peak tok-encode -q -j 3 -t a.tok -o y -; }
is "  from a pipe" "under piped" ""
ok "  and the same stream" "cmp x y"
# a stretch without a place to split it, for merges by id and by rank (whose tokens merging may not
# reach): its bytes, its ids twice, and nothing in proportion to it for the merging
awk 'BEGIN { x = 7; for (i = 0; i < 4000000; i++) { x = (x * 16807) % 2147483647; printf "%c", 97 + x % 26 } }' </dev/null >s.txt
tok-encode --convert --pattern nanochat "$top/tests/tok/other.tiktoken" o.tok
for t in a o; do
    used=$(peak tok-encode -q -j 1 -t $t.tok --no-bos --text -o y s.txt)
    is "4 MB of letters with $t.tok take $used KB" "awk 'BEGIN {print ($used < 64000)}'" 1
done
rm -f s.txt
rm -f b.jsonl x y

# pieces that occur once are counted, and spilled, but not trained on
train="bpe-train -q -j 1 -v 2000 --min-count 3"
all=$(peak $train -o c.tok a.jsonl)
used=$(peak $train --mem 22M -T . -o d.tok a.jsonl)
is "bpe-train --mem 22M takes $used KB, not $all" "awk 'BEGIN {print ($used < 1.1 * 22 * 1024 && $all > 1.2 * 22 * 1024)}'" 1
ok "  and makes the same tokenizer" "cmp c.tok d.tok"

# merging, too: many pairs, as pieces are long; cells; and words that hardly share a pair
letters() { # PIECES LENGTH: random ones
    awk -v n="$1" -v len="$2" 'BEGIN { x = 12345; for (; n > 0; n--) { printf "{\"text\":\""
        for (i = 0; i < len; i++) { x = x * 16807 % 2147483647; printf "%c", 97 + x % 26 }
        print "\"}" } }' </dev/null
}
LC_ALL=C awk -v bytes=3000000 -v seed=1 -f "$top/tests/bench/cjk.awk" </dev/null >cjk.jsonl
letters 6000 300 >long.jsonl
letters 1 1500000 >one.jsonl
letters 120000 8 >words.jsonl
train="bpe-train -q -j 1 --doc-cap 0"
for how in "cjk 32" "cjk 40 -v 70000" "long 30" "one 24" "words 24"; do
    set -- $how; name=$1; mem=$2; shift 2
    all=$(peak $train "$@" -o c.tok $name.jsonl)
    used=$(peak $train "$@" --mem ${mem}M -T . -o d.tok $name.jsonl)
    is "$name: bpe-train $* --mem ${mem}M takes $used KB, not $all" \
        "awk 'BEGIN {print ($used < 1.1 * $mem * 1024 && $all > 1.2 * $mem * 1024)}'" 1
    ok "  and makes the same tokenizer" "cmp c.tok d.tok"
done
says 1 "pieces takes at least " "what cannot do is told" "$train --mem 20M -o x cjk.jsonl"
need=$(sed -n 's/.* at least \([0-9]*\) MB.*/\1/p' "$dir/log")
used=$(peak $train --mem "${need}M" -T . -o d.tok cjk.jsonl)
is "  and $need MB can ($used KB)" "awk 'BEGIN {print ($used < 1.1 * $need * 1024)}'" 1
ok "  and make the same tokenizer" "$train -o c.tok cjk.jsonl && cmp c.tok d.tok"
finish
