#!/bin/sh
# book.sh TEXT [gpt-train options] -- train a small GPT on one plain text (the first 90 % of its bytes),
# evaluate it on the rest, sample. Everything but the training is the same each time: vocabulary 1024,
# rows of 256 tokens, depth 4, width 128. The tools must be on PATH; files go to a temporary folder.
text=$1
[ -r "$text" ] || { echo "usage: book.sh TEXT [gpt-train options]" >&2; exit 2; }
shift
[ $# -gt 0 ] || set -- --total-batch-size 8192 --steps 320
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
text=$(cd "$(dirname "$text")" && pwd)/$(basename "$text")
cd "$dir" || exit 1
set -e
data-fetch -q --split none --range 0:90% "$text" -o train.jsonl
data-fetch -q --split none --range 90%: "$text" -o val.jsonl
bpe-train -q -v 1024 --doc-cap 0 -o book.tok train.jsonl
tok-encode -q -t book.tok train.jsonl | pack-rows -q --keep-tails -T 256 -o train
tok-encode -q -t book.tok val.jsonl | pack-rows -q --keep-tails -T 256 -o val.rows
start=$(date +%s)
gpt-train --depth 4 --aspect-ratio 32 --head-dim 32 -t book.tok --train 'train-*.rows' --val val.rows \
    --eval-every 80 --eval-tokens 1M -o model "$@" >log.jsonl
echo "trained for $(($(date +%s) - start)) s; validation bits per byte by step:"
sed -n 's/.*"step": \([0-9]*\).*"val_bpb": \([0-9.]*\).*/\1 \2/p' log.jsonl
gpt-eval -q -m model bpb val.rows
for s in 1 2; do gpt-sample -q -m model -p 'KING' --echo -n 200 --temperature 0.8 -s $s; echo; done
