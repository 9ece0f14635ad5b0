# data-fetch in constant memory: 40 MB through every path; and an order that does not depend on it.
. "$(dirname "$0")/../lib.sh"
cd "$dir" || exit 1
case $(data-fetch --version) in *fsanitize*) skip "memory" "a sanitizer takes memory of its own"; finish;; esac
peak() { # MB NAME COMMAND: at most so much, and all rows
    ok "$2" "\"$BUILD/tests/peak\" kb sh -c '$3' >rows && awk '{exit !(\$1 > 1)}' rows"
    is "$2: under $1 MB" "awk '{print (\$1 < $1 * 1024 ? \"yes\" : \$1 \" KB\")}' kb" yes
}
row='{"text":"the same sentence again and again, as long as a line is","n":[1,2,{"a":null}]}'
lines() { yes "$1" | head -c 40000000; }
export row
lines "$row" | sed '$d' >a.jsonl
peak 16 "JSON Lines" "data-fetch -q a.jsonl | wc -l"
peak 16 "JSON Lines, checked, with provenance" "data-fetch -q --provenance a.jsonl | wc -l"
{ printf '['; sed '$!s/$/,/' a.jsonl; printf ']'; } >a.json
peak 16 "an array" "data-fetch -q a.json | wc -l"
rm a.json
{ echo 'text,n'; yes 'the same sentence,"and, again ""so""."' | head -c 40000000 | sed '$d'; } >a.csv
peak 16 "CSV" "data-fetch -q a.csv | wc -l"
rm a.csv
yes 'one line of text' | head -c 40000000 >a.txt
peak 16 "text" "data-fetch -q --split line a.txt | wc -l"
gzip -1 <a.txt >a.txt.gz; rm a.txt
peak 16 "gzip" "data-fetch -q --split line a.txt.gz | wc -l"
"$BUILD/tests/parquet/write" text gzip 1 plain 12000 0 a.parquet b.jsonl
peak 48 "Parquet, pages of 2 MB" "data-fetch -q a.parquet | wc -l"
rm a.parquet
peak 48 "a shuffle of 40 MB in 16 MB" "data-fetch -q --shuffle 1 -S 16M a.jsonl -T . | wc -l"
peak 48 "in nanochat's order" "data-fetch -q --shuffle 1 --order nanochat a.jsonl@0:100000 -T . | wc -l"
finish
