# data-fetch: zip and tar archives, and the files in them.
. "$(dirname "$0")/../lib.sh"
cd "$dir" || exit 1
fetch="data-fetch -q"
archives=$top/tests/archives            # of Info-ZIP, and of another program: one that cannot seek, zip64

mkdir -p d/data/deep
i=0; while [ $i -lt 20 ]; do echo "{\"text\": \"row $i of the first file\"}"; i=$((i + 1)); done >d/data/a.jsonl
printf 'text,n\n"b, 1",1\n' >d/data/b.csv
cp d/data/a.jsonl want; echo '{"text":"b, 1","n":"1"}' >>want
for z in info stream zip64; do ok "$z.zip" "$fetch '$archives/$z.zip' | sort >s; sort want | cmp - s"; done
z=$archives/zip64.zip
ok "in the archive's order" "$fetch $z | cmp - want"
is "a file by its pattern" "$fetch '$z:*.csv'" '{"text":"b, 1","n":"1"}'
is "by its name, a slice, twice" "$fetch '$z:data/a.jsonl@1:2*2' | tr -d '\n'" '{"text": "row 1 of the first file"}{"text": "row 1 of the first file"}'
is "of a URL" "$fetch 'file://$z:*.csv'" '{"text":"b, 1","n":"1"}'
is "where rows are from" "$fetch --provenance '$z:*.csv' | jq -c ._from.set" "\"$z:*.csv\""
says 1 "zip64.zip: no file in it is named *.txt" "a pattern that matches nothing" "$fetch '$z:*.txt'"
says 1 "want: no archive" "a file in what is no archive" "$fetch want:x"
is "a file of that very name" "cp want 'x.zip:y'; $fetch x.zip:y --format jsonl | wc -l" 21
says 1 "stdin: a zip archive must be a file" "zip from a pipe" "cat $z | $fetch -"
says 1 "zip64.zip:data/b.csv: line 1, byte 1: " "a bad row names archive and file" "$fetch --format jsonl '$z:*.csv' -o no"
says 1 "not a zip file" "what only says that it is one" "echo text >page.zip; $fetch page.zip -o no"
says 1 "p.parquet: " "Parquet that is none" "echo text >p.parquet; $fetch p.parquet -o no"
says 1 "not a zip file, or cut short" "half of one" "head -c 200 $z >cut.zip; $fetch cut.zip -o no"

printf '{"text":"hidden"}\n' >d/data/.h.jsonl
gzip -c d/data/a.jsonl >d/data/deep/c.jsonl.gz
echo '[{"text":"e"}]' >d/data/deep/e.json
ln -s a.jsonl d/data/link.jsonl
for f in ustar gnu pax v7; do
    if tar --format=$f -C d -cf $f.tar data 2>err; then
        is "tar, $f: all files but hidden ones" "$fetch $f.tar | sort | cksum" "$({ cat want d/data/a.jsonl; echo '{"text":"e"}'; } | sort | cksum)"
    else skip "tar, $f" "tar does not know it: $(head -n 1 err)"; fi
done
tar -C d -cf a.tar data
says 0 "a.tar: 1 links and devices in it are left out" "links are left out, aloud" "data-fetch a.tar"
is "a hidden one by its name" "$fetch a.tar:data/.h.jsonl" '{"text":"hidden"}'
says 1 "no file in it is named *.h.jsonl" "but not by a pattern" "$fetch 'a.tar:*.h.jsonl'"
gzip -c a.tar >a.tgz
is "tar.gz, an array and gzip inside" "$fetch 'a.tgz:*/deep/*' | wc -l" 21
is "by its first bytes" "cat a.tgz | $fetch - | wc -l" 42
is "--format is that of the files in it" "$fetch --format text --split none 'a.tgz:*.csv'" '{"text":"text,n\n\"b, 1\",1\n"}'
is "--max-docs" "$fetch --max-docs 21 a.tar | wc -l" 21
ok "| head -1 is quiet" "data-fetch a.tgz 2>err | head -n 1 >/dev/null; grep -v 'rows,' err | grep -v links | cmp - /dev/null"
is "shuffled" "$fetch --shuffle 1 a.tar $z | wc -l" 63
says 1 "a.tar:data/b.csv: percentages" "percentages" "$fetch --range 50%: 'a.tar:*.csv'"
case $(data-fetch --version) in
*zstd*) if command -v zstd >/dev/null; then is "tar.zst" "zstd -q a.tar; $fetch a.tar.zst | wc -l" 42; else skip "tar.zst" "no zstd here"; fi;;
*) skip "tar.zst" "built without it";;
esac
says 1 "ends inside" "half a tar" "head -c 3000 a.tar >cut.tar; $fetch cut.tar -o no"
says 1 "has no end mark" "cut between two files" "head -c 512 a.tar >cut.tar; $fetch cut.tar -o no"
says 1 "ends inside gzip data" "half a tar.gz" "head -c 200 a.tgz >cut.tgz; $fetch cut.tgz -o no"
says 1 "wrong sum" "no tar at all" "yes | head -n 1000 >no.tar; $fetch no.tar -o none"
says 1 "an archive inside an archive" "zip in tar" "cp $z d/data/x.zip; tar -C d -cf n.tar data/x.zip; $fetch n.tar -o no"
says 1 "Parquet is not read inside" "Parquet in tar" "cp '$top/tests/parquet/map.parquet' d/p.parquet; tar -C d -cf p.tar p.parquet; $fetch p.tar -o no"
says 1 "bad.tar:b.jsonl: line 2: \"text\" is not a string" "a bad row names archive, file and line" \
    "printf '{\"text\":\"a\"}\n{\"text\":1}\n' >d/b.jsonl; tar -C d -cf bad.tar b.jsonl; $fetch bad.tar -o no"
says 1 "No space" "a full disk" "$fetch a.tar -o /dev/full"
awk 'BEGIN {for (i = 0; i < 400000; i++) print "{\"text\":\"" i "\"}"}' >d/big.jsonl
tar -C d -czf big.tgz big.jsonl
is "a file of 7 MB" "$fetch big.tgz | cksum" "$(cksum <d/big.jsonl)"
is "nothing came of what failed" "ls no none 2>/dev/null" ""

# ---- the files of a set
mkdir -p sets e/eval_data/kind
export PIPEGPT_SETS="$dir/sets" HF_ENDPOINT="file://$dir/m"
cp "$top/share/data/core.jq" sets/
echo '{"query":"q","choices":["a","b"],"gold":1,"category":"c"}' >e/eval_data/kind/one.jsonl
echo '{"context_options":["a","b"],"continuation":"c","gold":0}' >e/eval_data/kind/two.jsonl
echo '{"context":"a","continuation":"b"}' >e/eval_data/kind/three.jsonl
echo 'a,b' >e/eval_meta_data.csv
mkdir -p m/datasets/me/x/resolve/main
tar -C e -cf m/datasets/me/x/resolve/main/x.tar .
sed 's/"format": "zip"/"format": "tar", "repo": "me\/x"/; s/"https:[^"]*"/"x.tar"/' "$top/share/data/core.json" >sets/core.json
is "CORE's rows, with their task" "$fetch core | sort" '{"task":"one","query":"q","choices":["a","b"],"gold":1,"category":"c"}
{"task":"three","context":"a","continuation":"b"}
{"task":"two","context_options":["a","b"],"continuation":"c","gold":0}'
is "one of them" "$fetch 'core:all:*/three.jsonl' | jq -r .task" three
is "as published" "$fetch --raw 'core:all:*/three.jsonl'" '{"context":"a","continuation":"b"}'
core() { echo "$1" >c.jsonl; says 1 "row 1: core.jq: $3" "CORE: $2" "$fetch --jq core c.jsonl"; }
for g in 2 -1 0.5 '"1"' null; do core '{"query":"q","choices":["a","b"],"gold":'"$g}" "gold $g" "not a query"; done
core '{"query":"q","choices":["a"],"gold":0}' "one choice" "not a query"
core '{"context_options":["a",1],"continuation":"c","gold":0}' "a context that is no text" "not contexts"
core '{"text":"a"}' "none of these" "neither choices nor"
sed 's/"files": *\["x.tar"\]/"rows": 4, &/' sets/core.json >c && mv c sets/core.json
says 0 "core: 3 rows, but its manifest says 4" "a set that is not as long as its manifest says" "data-fetch core"
says 1 "what is in \"members\" is not a string" "members that are none" "sed 's/\"members\": *\[/&1, /' sets/core.json >c && mv c sets/core.json; $fetch core"
finish
