#!/bin/sh
# dtype.sh TEXT [SEED ...] -- the same run in fp32 and in bf16: the dial alone, depth 2 (width 128), 300
# steps of 2048 tokens, on the first 90 % of a plain text's bytes, validated on the rest (50K tokens). For
# each seed (1): bits per byte of both, and how far apart they are; exit 1 if more than 0.01. One thread.
# STEPS, VOCAB: other numbers than 300 and 1024. The tools must be on PATH.
set -eu
[ $# -gt 0 ] && [ -r "$1" ] || { echo "usage: dtype.sh TEXT [SEED ...]" >&2; exit 2; }
text=$1; shift
[ $# -gt 0 ] || set -- 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
data-fetch -q --split none --range 0:90% "$text" -o "$dir/train.jsonl"
data-fetch -q --split none --range 90%: "$text" -o "$dir/val.jsonl"
bpe-train -q -v "${VOCAB:-1024}" --doc-cap 0 -o "$dir/a.tok" "$dir/train.jsonl"
for s in train val; do
    tok-encode -q -t "$dir/a.tok" "$dir/$s.jsonl" | pack-rows -q --keep-tails -T 256 -o "$dir/$s.rows"
done
bpb() {     # DTYPE SEED: of the last evaluation
    gpt-train -q -j 1 --depth 2 -t "$dir/a.tok" --train "$dir/train.rows" --val "$dir/val.rows" --total-batch-size 2048 \
        -B 8 --steps "${STEPS:-300}" --eval-every 100 --eval-tokens 50K --dtype "$1" -s "$2" --force -o "$dir/model" |
        sed -n 's/.*"val_bpb": \([0-9.e+-]*\).*/\1/p' | tail -n 1
}
far=0
for seed in "$@"; do
    a=$(bpb fp32 "$seed") b=$(bpb bf16 "$seed")
    awk -v s="$seed" -v n="${STEPS:-300}" -v a="$a" -v b="$b" 'BEGIN {
        d = a - b; if (d < 0) d = -d
        printf "seed %s, %d steps: fp32 %.4f, bf16 %.4f bits per byte; %.4f apart\n", s, n, a, b, d
        exit !(a > 0 && b > 0 && d <= 0.01) }' || far=1
done
exit $far
