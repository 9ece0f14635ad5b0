#!/bin/sh
# large.sh [GB] -- tok-encode and bpe-train in little memory: GB (4) gigabytes of text from a pipe, tok-encode
# under 256 MB, bpe-train within --mem plus 10 % and with the tokenizer that it makes without a limit; then
# documents of 100 MB without a place to split them, random letters and one letter. Prints times and memory,
# exits 1 if there is too much of it, or if text does not come back. bpe-train and tok-encode must be on PATH;
# takes minutes, and 0.6 GB in TMPDIR.
gb=${1:-4}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
permuted() { # K FILE: with other letters, another permutation for each K < 312
    tr a-z "$(awk -v k="$1" 'BEGIN { split("1 3 5 7 9 11 15 17 19 21 23 25", m, " ")
        for (i = 0; i < 26; i++) printf "%c", 97 + (i * m[int(k / 26) % 12 + 1] + k) % 26 }')" <"$2"
}
awk -v bytes=32000000 'function rnd(n) { x = x * 16807 % 2147483647; return int(x / 2147483647 * n) }
    BEGIN { x = 7; n = split("ba ce di fo gu ha je ki lo mu na pe ri so tu va we xi yo zu bre cli dro flu", s, " ")
        while (made < bytes) { printf "{\"TEXT\":\""
            for (i = 0; i < 400; i++) { w = s[1 + rnd(n)] s[1 + rnd(n)]; if (rnd(2)) w = w s[1 + rnd(n)]
                made += length(w) + 1; printf "%s ", w }
            print "\"}" } }' </dev/null >"$dir/base"
awk 'BEGIN { x = 12345; for (i = 0; i < 10000000; i++) { x = x * 16807 % 2147483647; printf "%c", 97 + x % 26 } }' \
    </dev/null >"$dir/letters"
text() { k=0; while [ $k -lt $((gb * 31)) ]; do permuted $k "$dir/base" | sed 's/TEXT/text/'; k=$((k + 1)); done; }
one() { printf '{"text":"'; cat "$@"; printf '"}\n'; }
mixed() { k=0; while [ $k -lt 10 ]; do permuted $k "$dir/letters"; k=$((k + 1)); done; }
# NAME MB COMMAND...: its time and memory, which may be MB, 0: any amount
run() {
    name=$1 mb=$2; shift 2
    /usr/bin/env time -f '%e %M' -o "$dir/time" "$@" || { echo "$name: failed"; : >"$dir/bad"; return; }
    awk -v name="$name" -v mb="$mb" '{ printf "%-50s %7.1f s %6.0f MB", name, $1, $2 / 1024
        over = mb && $2 / 1024 > mb; print mb ? (over ? "  MORE than " : "  of ") mb : ""; exit over }' "$dir/time" || : >"$dir/bad"
}
same() { if cmp -s "$2" "$3"; then echo "  $1"; else echo "  NOT $1"; : >"$dir/bad"; fi; }

text | run "bpe-train, $gb GB from a pipe" 0 bpe-train -q --max-chars 0 --doc-cap 0 -o "$dir/a.tok" -
text | run "  with --mem 100M" 110 bpe-train -q --max-chars 0 --doc-cap 0 --mem 100M -T "$dir" -o "$dir/b.tok" -
same "the same tokenizer" "$dir/a.tok" "$dir/b.tok"
text | run "tok-encode, $gb GB from a pipe" 256 tok-encode -q -t "$dir/a.tok" -o /dev/null -
rm -f "$dir/base"
for what in "random letters" "one letter"; do
    if [ "$what" = "one letter" ]; then head -c 100000000 /dev/zero | tr '\0' a | one >"$dir/d.jsonl"
    else mixed | one >"$dir/d.jsonl"; fi
    run "bpe-train, 100 MB of $what" 0 bpe-train -q --doc-cap 0 -o "$dir/a.tok" "$dir/d.jsonl"
    run "  with --mem 800M" 880 bpe-train -q --doc-cap 0 --mem 800M -T "$dir" -o "$dir/b.tok" "$dir/d.jsonl"
    same "the same tokenizer" "$dir/a.tok" "$dir/b.tok"
    run "tok-encode, 100 MB of $what" 0 tok-encode -q -t "$dir/a.tok" -o "$dir/ids" "$dir/d.jsonl"
    tok-encode -q -t "$dir/a.tok" --decode "$dir/ids" >"$dir/back"
    same "which come back" "$dir/d.jsonl" "$dir/back"
done
[ ! -e "$dir/bad" ]
