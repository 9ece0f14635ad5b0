# Parquet files written here (tests/parquet/write.c): the shapes of known sets, every codec, version of
# pages, dictionaries and nulls; and bombs, refused within 256 MB.
. "$(dirname "$0")/../lib.sh"
cd "$dir" || exit 1
write=$BUILD/tests/parquet/write
built() { [ "$1" = none ] || [ "$1" = gzip ] || data-fetch --version | grep -q "$1"; }
# same SHAPE CODEC VERSION VALUES ROWS NULLS
same() {
    ok "$1, $2, V$3, $4, $5 rows, $6% null" "$write $1 $2 $3 $4 $5 $6 x.parquet x.jsonl && data-fetch -q x.parquet | cmp - x.jsonl"
}
for codec in none snappy gzip zstd; do
    built $codec || { skip "$codec" "built without it"; continue; }
    for version in 1 2; do
        for shape in smoltalk mmlu arc; do same $shape $codec $version both 10000 0; done
        for values in plain dict both; do same all $codec $version $values 2000 30; done
    done
done
for nulls in 1 50 99 100; do same all none 1 both 4100 $nulls; done
same text none 2 plain 300 10
ok "one column of a set" "$write mmlu none 1 both 5000 0 x.parquet x.jsonl; data-fetch -q --column choices x.parquet | jq -c . >a; jq -c {choices} x.jsonl | cmp - a"
ok "a slice over row groups" "data-fetch -q x.parquet@3990:4010 >a; sed -n 3991,4010p x.jsonl | cmp - a"

# bomb CODEC KIND STATED TRUE COLUMNS WHY
case $(data-fetch --version) in *fsanitize*) skip "bombs" "a sanitizer takes memory of its own"; finish;; esac
bomb() {
    built $1 || { skip "a bomb of $1" "built without it"; return; }
    $write bomb $1 $2 $3 $4 $5 b.parquet
    says 1 "$6" "$1, $2 page, $3 bytes stated, $4 there, $5 columns: refused" "$BUILD/tests/peak kb data-fetch b.parquet"
    is "within 256 MB" "awk '{print (\$1 > 0 && \$1 < 256 * 1024)}' kb" 1
}
bomb zstd data 2147483647 1000 1 "a page of more than 128 MB"
bomb zstd data 1000 500000000 1 "unpacks to more"
bomb gzip data 1000 200000000 1 "unpacks to more"
bomb snappy data 1000 200000000 1 "unpacks to more"
bomb zstd dict 1000 500000000 1 "unpacks to more"
bomb zstd data 80000000 80000000 4 "more than 160 MB"
bomb zstd dict 120000000 120000000 1 "more than 160 MB"
bomb zstd dict 60000000 60000000 5 "fewer values than its column chunk"
$write bomb none data 120000000 4 1 b.parquet
says 1 "less than the stated size" "a page that states more than there is" "data-fetch b.parquet"
finish
