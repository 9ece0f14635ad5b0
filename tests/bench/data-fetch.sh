#!/bin/sh
# data-fetch.sh [ROUNDS] -- data-fetch from Parquet to JSON Lines, MB of text per second on one processor,
# least time of ROUNDS (5): a column of text as in pretraining sets, packed by each codec, and the
# shape of SmolTalk. "zstd -d": the time that unpacking the same rows takes by itself, as JSON Lines; and
# pyarrow with json.dumps, where python3 has it. Files go to TMPDIR.
rounds=${1:-5}
write=${BUILD:-build}/tests/parquet/write
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
one=; command -v taskset >/dev/null && one="taskset -c 0"
now() { date +%s.%N; }
rate() { # NAME BYTES COMMAND...
    name=$1 bytes=$2; shift 2
    i=0
    while [ $i -lt "$rounds" ]; do
        from=$(now); $one "$@" >/dev/null || exit 1; to=$(now)
        echo "$from $to"; i=$((i + 1))
    done | awk -v n="$name" -v b="$bytes" '{t = $2 - $1; if (!m || t < m) m = t} END {printf "%-34s %6.0f MB/s\n", n, b / m / 1e6}'
}
for codec in zstd snappy gzip none; do
    [ $codec = gzip ] || [ $codec = none ] || data-fetch --version | grep -q $codec || continue
    "$write" text $codec 1 plain 30000 0 a.parquet a.jsonl || exit 1
    size=$(wc -c <a.jsonl)
    rate "text column, $codec" "$size" data-fetch -q a.parquet
    [ $codec = zstd ] && command -v zstd >/dev/null && zstd -q -3 -k a.jsonl && rate "  zstd -d of the same rows" "$size" zstd -q -d -c a.jsonl.zst
    [ $codec = zstd ] && python3 -c 'import pyarrow.parquet' 2>/dev/null && rate "  pyarrow and json.dumps" "$size" python3 -c '
import json, sys, pyarrow.parquet as p
f = p.ParquetFile("a.parquet")
for g in range(f.num_row_groups):
    for r in f.read_row_group(g, use_threads=False).to_pylist(): print(json.dumps(r, ensure_ascii=False))'
done
"$write" smoltalk snappy 1 both 30000 0 a.parquet a.jsonl || exit 1
rate "conversations, snappy, dictionary" "$(wc -c <a.jsonl)" data-fetch -q a.parquet
