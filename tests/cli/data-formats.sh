# data-fetch: CSV, JSON arrays, zstd.
. "$(dirname "$0")/../lib.sh"
cd "$dir" || exit 1
fetch="data-fetch -q"

printf 'id,text\r\n1,plain\r\n2,"a, ""b""\nc"\r\n\r\n3,\r\n' >a.csv
is "CSV: separators, quotes and line ends in quotes, an empty field" "$fetch a.csv" '{"id":"1","text":"plain"}
{"id":"2","text":"a, \"b\"\nc"}
{"id":"3","text":""}'
printf '\357\273\277text\tn\nx "y"\t1' >q.tsv
says 1 "q.tsv: line 2: a quote within a field" "a quote within a plain field" "$fetch q.tsv"
printf '\357\273\277text\tn\nx, y\t1' >a.tsv
is "TSV, a byte-order mark, no line end at the end" "$fetch a.tsv" '{"text":"x, y","n":"1"}'
is "the mark in pieces" "{ printf '\\357'; sleep 0.1; printf '\\273\\277text\\nx\\n'; } | $fetch --format csv -" '{"text":"x"}'
is "a column, empty lines of which are values" "printf 'text\n\nx\n' | $fetch --format csv -" '{"text":""}
{"text":"x"}'
is "rows of it" "$fetch --range 1:2 a.csv | jq -r .id; $fetch a.csv@2:3 | jq -r .id" "2
3"
is "invalid UTF-8 becomes U+FFFD" "printf 'text\n\377x\n' | $fetch --format csv -" '{"text":"�x"}'
gzip -c a.csv >a.csv.gz
ok "packed" "$fetch a.csv >1; $fetch a.csv.gz | cmp - 1"
csv() { printf "$1" | $fetch --format csv -o no -; }
says 1 "line 3: 1 fields, but the first line names 2" "a record too short" "csv 'a,b\n1,2\n1\n'"
says 1 "line 2: 3 fields" "too long" "csv 'a,b\n1,2,3\n'"
says 1 "line 2: something follows the closing quote" "text after a quote" "csv 'a\n\"x\"y\n'"
says 1 "whose quote opens in the record of line 2" "an open quote" "csv 'a\n\"x\ny\n'"
says 1 "line 1: two fields are named \"a\"" "a name twice" "csv 'a,a\n1,2\n'"
says 1 "line 2: a CR that no LF follows" "a lone CR" "csv 'a\nx\ry\n'"
says 1 "no documents" "a header alone" "csv 'a,b\n'"
says 1 "percentages" "percentages of a CSV" "$fetch --range 10%: a.csv"
ok "nothing came of these" "[ ! -e no ]"
# every place where a block may end
awk 'BEGIN {print "k,text"; for (i = 0; i < 60000; i++) printf "%d,\"row %d, \"\"quoted\"\"\n%s\"\n", i, i, substr("abcdefghij", 1, i % 11)}' >big.csv
cat >same.jq <<'END'
select(.text == "row " + .k + ", \"quoted\"\n" + "abcdefghij"[0:(.k | tonumber) % 11]) | .k
END
is "60,000 records of 2 MB" "$fetch big.csv | jq -rf same.jq | wc -l" 60000

cat >a.json <<'END'
 [ {"text": "a\n[{\"", "x": [1, {"y": 2}]},
   {
     "text": "b"
   } ]
END
is "a JSON array" "$fetch a.json | jq -c ." '{"text":"a\n[{\"","x":[1,{"y":2}]}
{"text":"b"}'
is "a row a line" "$fetch a.json | wc -l" 2
is "an array of another name" "$fetch --format array - <a.json | wc -l; $fetch a.json@1:2 | jq -r .text" "2
b"
bad() { says 1 "$1" "$2" "printf '%s' '$3' | $fetch --format array -"; }
bad "byte 2: an element of the array is no object" "numbers" '[1, 2]'
bad "ends inside the array" "an array that does not end" '[{"text": "x"}, {"text'
bad "byte 16: neither a comma nor the end" "no comma" '[{"text": "x"} {"text": "x"}]'
bad "byte 18: something follows the array" "two arrays" '[{"text": "x"}]  []'
bad "byte 11: " "bad JSON within" '[{"text": x}]'
bad "an element of the array is no object" "a comma at the end" '[{"text": "x"},]'
says 1 "control" "a line end in a string" "printf '[{\"text\": \"a\nb\"}]' | $fetch --format array -"
says 1 "no documents" "an empty array" "echo '[]' | $fetch --format array -"
awk 'BEGIN {printf "[{\"a\":"; for (i = 0; i < 100000; i++) printf "["; for (i = 0; i < 100000; i++) printf "]"; print "}]"}' >deep.json
says 1 "deep.json: byte" "deep nesting is refused, not followed" "$fetch deep.json"

case $(data-fetch --version) in
*zstd*)
    printf '\050\265\057\375\044\035\305\000\000\220\173\042\164\145\170\164\042\072\040\042\172\042\175\012\172\042\175\012\001\000\141\114\045\361\300\374\354' >z.jsonl.zst
    is "zstd" "$fetch z.jsonl.zst" '{"text": "z"}
{"text": "zz"}'
    is "two frames, and from a pipe" "cat z.jsonl.zst z.jsonl.zst | $fetch --format jsonl - | wc -l" 4
    size=$(wc -c <z.jsonl.zst)
    i=4; bad=0; while [ $i -lt $size ]; do head -c $i z.jsonl.zst >cut.zst; $fetch cut.zst >out 2>err && bad=$((bad + 1)); grep -q 'ends inside zstd' err || bad=$((bad + 1)); i=$((i + 1)); done
    is "cut anywhere it is an error" "echo $bad" 0
    says 1 "zstd data is corrupt" "damaged" "{ head -c 12 z.jsonl.zst; echo xxxxxxxxxxxxxxxxxxxxxxxx; } | $fetch --format jsonl -"
    says 1 "byte $size" "something after the last frame" "{ cat z.jsonl.zst; echo junk; } | $fetch --format jsonl -";;
*) skip "zstd" "built without it";;
esac
finish
