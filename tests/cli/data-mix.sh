# data-fetch: several files in one order, repeats, slices, holdout, provenance.
. "$(dirname "$0")/../lib.sh"
cd "$dir" || exit 1
for f in a b; do seq 0 999 | sed "s/.*/{\"text\": \"$f&\"}/" >$f.jsonl; done
fetch="data-fetch -q"

is "a slice, twice" "$fetch 'a.jsonl@3:5*2' | tr -dc '0-9a\n' | tr '\n' ' '" "a3 a4 a3 a4 "
is "after the slice of a text comes the next file" "printf 'a\n\nb\n' >t.txt; $fetch t.txt@0:1 t.txt 'a.jsonl@3:4' | tr -dc '0-9a-z\n' | tr '\n' ' '" "texta texta textb texta3 "
cp a.jsonl 'a@1:2*3'
is "a file of that very name" "$fetch 'a@1:2*3' | wc -l" 1000
says 1 "no such file" "a name that is none" "$fetch 'none*2'"
says 2 "START not after STOP" "a slice that ends before it begins" "$fetch 'a.jsonl@5:3'"
says 2 "how many times" "nought times" "$fetch 'a.jsonl*0'"
says 2 "only by --shuffle" "half of a file in its own order" "$fetch 'a.jsonl*1.5'"
says 2 "stdin can be read once" "stdin twice" "$fetch -- '-*2' <a.jsonl"

# nanochat's order: NumPy's permutation of each, sliced; CPython's shuffle of all. From both themselves.
is "nanochat's order of a and three times b" "$fetch --shuffle 42 --order nanochat a.jsonl 'b.jsonl*3' | sha256sum | cut -c1-16" 5ba3d37327b05f96
is "of slices taken after the permutation" "$fetch --shuffle 42 --order nanochat a.jsonl@0:100 'b.jsonl@20:70*2' | sha256sum | cut -c1-16" f34daf8027e3ea1b
is "ten rows" "head -n 10 a.jsonl | $fetch --shuffle 42 --order nanochat - | tr -dc '0-9\n' | tr '\n' ' '" "9 7 0 1 2 4 8 3 5 6 "

ok "by hash" "$fetch --shuffle 7 a.jsonl 'b.jsonl*2.5' -o h.jsonl"
is "each row as often as was asked for" "sort h.jsonl | uniq -c | awk '{print \$1, substr(\$3, 2, 1)}' | sort | uniq -c | tr -s ' '" " 1000 1 a
 500 2 b
 500 3 b"
for m in 64K 100K 1M; do ok "the same in $m" "$fetch --shuffle 7 -S $m a.jsonl 'b.jsonl*2.5' | cmp - h.jsonl"; done
ok "no temporary file is left" "mkdir tmp && $fetch --shuffle 7 -S 64K -T tmp a.jsonl b.jsonl >/dev/null && [ -z \"\$(ls tmp)\" ]"
# the same rows as one file, as three, packed: one set, one order
mkdir -p sets m/datasets/me/s/resolve/main
r=m/datasets/me/s/resolve/main
cp a.jsonl $r/whole.jsonl; head -n 333 a.jsonl >$r/1.jsonl; sed -n 334,335p a.jsonl >$r/2.jsonl; tail -n 665 a.jsonl | gzip >$r/3.jsonl.gz
chunked() { printf '{"licence":"x","default":"a","repo":"me/s","splits":{"a":{"files":[%s]}}}\n' "$1" >sets/s.json; PIPEGPT_SETS=$dir/sets HF_ENDPOINT=file://$dir/m $fetch --shuffle 7 -S $2 's*2.25' >"$3"; }
ok "a set in one file" "chunked '\"whole.jsonl\"' 512M one && [ \$(wc -l <one) -eq 2250 ]"
ok "in three, the same order" "chunked '\"1.jsonl\",\"2.jsonl\",\"3.jsonl.gz\"' 512M three && cmp one three"
ok "in 64K too" "chunked '\"1.jsonl\",\"2.jsonl\",\"3.jsonl.gz\"' 64K three && cmp one three"
ok "with 3 threads too" "OMP_NUM_THREADS=3 chunked '\"whole.jsonl\"' 100K three && cmp one three"
ok "another file does not reorder the rest" "$fetch --shuffle 7 a.jsonl >alone && grep '\"a' h.jsonl | cmp - alone"
ok "another seed does" "! $fetch --shuffle 8 a.jsonl | cmp -s - alone"
is "it mixes: the mean place of the first half" "awk -F'\"a' '{n = \$2 + 0; if (n < 500) s += NR} END {m = s / 500; print (m > 450 && m < 550)}' alone" 1
ok "--max-docs counts what comes out" "$fetch --shuffle 7 --max-docs 5 a.jsonl >five && head -n 5 alone | cmp - five"
awk 'BEGIN {for (i = 0; i < 3; i++) {printf "{\"text\": \""; for (k = 0; k < 20000; k++) printf "row %d ", i; print "\"}"}}' >wide.jsonl
ok "rows larger than the memory" "$fetch --shuffle 1 -S 64K wide.jsonl | sort | cmp - wide.jsonl"
says 2 "is no number" "a seed that is none" "$fetch --shuffle x a.jsonl"
says 2 "only with --shuffle" "--order without --shuffle" "$fetch --order hash a.jsonl"
says 1 "no/such" "a folder for runs that is not there" "$fetch --shuffle 1 -S 64K -T no/such a.jsonl b.jsonl"

ok "holdout" "$fetch --holdout 10% --holdout-output v.jsonl a.jsonl b.jsonl -o t.jsonl"
ok "every row is in one of the two" "sort t.jsonl v.jsonl >both && sort a.jsonl b.jsonl | cmp - both"
is "a tenth ($(wc -l <v.jsonl) of 2,000)" "wc -l <v.jsonl | awk '{print (\$1 > 150 && \$1 < 250)}'" 1
ok "the same rows, whatever the order" "$fetch --shuffle 3 --holdout 10% --holdout-output v2.jsonl b.jsonl a.jsonl -o t2.jsonl && sort v2.jsonl >s2 && sort v.jsonl | cmp - s2"
ok "and if rows repeat, on one side" "$fetch --holdout 10% --holdout-output v3.jsonl 'a.jsonl*2' b.jsonl -o t3.jsonl && sort -u v3.jsonl >s3 && sort v.jsonl | cmp - s3"
same="is where the others go"
says 2 "$same" "both outputs in a file that is not there yet" "$fetch --holdout 10% --holdout-output ./new a.jsonl -o new"
ln -s new link
says 2 "$same" "that a link leads to" "$fetch --holdout 10% --holdout-output link a.jsonl -o \"\$dir/new\""
says 2 "$same" "in one that is there" "$fetch --holdout 10% --holdout-output ./h.jsonl a.jsonl -o h.jsonl"
says 2 "$same" "in standard output" "$fetch --holdout 10% --holdout-output out a.jsonl >out"
ok "nothing is written" "[ ! -e new ] && [ ! -s out ] && [ \$(wc -l <h.jsonl) -eq 3500 ] && [ -z \"\$(ls | grep '\.tmp-')\" ]"
ok "/dev/null takes both" "$fetch --holdout 10% --holdout-output /dev/null a.jsonl -o /dev/null"
says 2 "belong together" "--holdout alone" "$fetch --holdout 1% a.jsonl"
says 2 "between 0% and 100%" "all of it" "$fetch --holdout 100% --holdout-output v a.jsonl"
says 1 "line 2" "a bad row" "printf '{\"text\": \"x\"}\n{\n' | $fetch --holdout 10% --holdout-output bad.v -o bad.t -"
ok "leaves neither file" "[ ! -e bad.v ] && [ ! -e bad.t ]"

is "where rows are from" "$fetch --provenance a.jsonl@7:8" '{"text": "a7","_from":{"set":"a.jsonl","row":7}}'
is "after a shuffle too" "$fetch --provenance --shuffle 1 a.jsonl b.jsonl | jq -r '.text + \" \" + ._from.set[0:1] + (._from.row | tostring)' | awk '\$1 != \$2' | wc -l" 0
is "a row that knows keeps it" "$fetch --provenance b.jsonl@0:1 -o p.jsonl; $fetch --provenance p.jsonl | jq -c ._from" '{"set":"b.jsonl","row":0}'
is "in text alone it is no knowledge" "echo '{\"text\": \"say \\\"_from\\\"\" } ' | $fetch --provenance - | jq -c ._from" '{"set":"-","row":0}'
finish
