#!/bin/sh
# cjk.sh [BYTES] [ROUNDS] -- tok-encode against tiktoken (tok-encode.sh) on text shaped like Chinese
# (cjk.awk), 20 MB unless BYTES are given, with a vocabulary of 32,768 trained on other such text.
# Pieces are clauses here, and nearly all of them new: no table of pieces helps.
bytes=${1:-20000000}; here=$(dirname "$0")
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
LC_ALL=C awk -v bytes="$bytes" -v seed=1 -f "$here/cjk.awk" >"$dir/train.jsonl" || exit 1
LC_ALL=C awk -v bytes="$bytes" -v seed=2 -f "$here/cjk.awk" >"$dir/text.jsonl" || exit 1
bpe-train -q -v 32768 -o "$dir/cjk.tok" "$dir/train.jsonl" || exit 1
"$here/tok-encode.sh" "$dir/cjk.tok" "$dir/text.jsonl" ${2:+"$2"}
