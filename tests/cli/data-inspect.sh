# data-fetch --inspect: what files hold.
. "$(dirname "$0")/../lib.sh"
cd "$dir" || exit 1
look="data-fetch --inspect"
printf '%s\n' '{"messages":[{"role":"user","content":"a"},{"role":"x","content":["p"]}],"n":1}' \
    '' '{"n":"two","b":null,"a.b":{"":true}}' '{"messages":[],"n":2.5}' >r.jsonl
want='rows 3
fields
  messages array 2
  messages[] object 2
  messages[].role string 2
  messages[].content string 1 array 1
  messages[].content[] string 1
  n number 2 string 1
  b null 1
  "a.b" object 1
  "a.b"."" boolean 1'
is "JSON Lines: fields, types, how often" "$look r.jsonl" "format JSON Lines
$want"
is "from a pipe" "cat r.jsonl | $look -" "format JSON Lines
$want"
is "packed" "gzip -c r.jsonl >r.jsonl.gz; $look r.jsonl.gz" "format JSON Lines
$want"
is "the first rows" "$look r.jsonl --max-docs 1 | sed -n 2p; $look r.jsonl --max-docs 3 | sed -n 2p" "rows the first 1
rows 3"
is "of themselves 1000" "seq 1001 | sed 's/.*/{\"a\":&}/' >m.jsonl; $look m.jsonl | tr '\n' ' '" "format JSON Lines rows the first 1000 fields   a number 1000 "
is "a JSON array" "echo '[{\"a\":1},{\"a\":[]}]' >a.json; $look a.json | tr '\n' ' '" "format JSON array rows 2 fields   a number 1 array 1 "
is "CSV" "printf 'x,y\n1,2\n' >c.csv; $look c.csv | tr '\n' ' '" "format CSV rows 1 fields   x string 1   y string 1 "
is "plain text" "printf 'a\n\nb\n' >t.txt; $look t.txt | tr '\n' ' '" "format plain text rows 2 fields   text string 2 "
is "Parquet" "$look '$top/tests/parquet/map.parquet' | head -n 1 | cut -d' ' -f1" rows
is "a zip" "$look '$top/tests/archives/zip64.zip'" "format zip
files 2
  data/a.jsonl size 730 packed 98 deflated
  data/b.csv size 16 packed 16 stored"
is "a file of it" "$look '$top/tests/archives/zip64.zip:*.csv' | tr '\n' ' '" "format CSV rows 1 fields   text string 1   n string 1 "
is "a tar" "tar -cf x.tar c.csv t.txt; $look x.tar; ln -s c.csv l; tar -cf x.tar l; $look x.tar | tail -n 1" "format tar
files 2
  c.csv size 8
  t.txt size 5
  and 1 links and devices"
is "ids for keys" "awk 'BEGIN {for (i = 0; i < 5000; i++) print \"{\\\"k\" i \"\\\":1}\"}' >k.jsonl; $look k.jsonl --max-docs 5000 | sed -n '2p;\$p'; $look k.jsonl --max-docs 5000 | wc -l" "rows 5000
  and more than these 1000
1004"
says 1 "r2.jsonl: line 2, byte" "a bad row" "printf '{}\n{\n' >r2.jsonl; $look r2.jsonl"
is "nothing" ": >n.jsonl; $look n.jsonl | tr '\n' ' '" "format JSON Lines rows 0 fields "
says 1 "gone: No such file" "a file that is not there" "$look gone"
says 2 "takes one file" "two files" "$look r.jsonl a.json"
says 1 "No space" "a full disk" "$look r.jsonl -o /dev/full"
finish
