#!/bin/sh
# gsm8k.sh DIR [OUT] -- real questions from end to end: GSM8K's training set (DIR/train.jsonl) as text
# for a base model of depth 6, then as conversations with calls of the calculator, then the first 100
# questions of DIR/test.jsonl. STEPS and SFT_STEPS (400, 500) set how long; it prints losses and score.
set -eu
data=$1 out=${2:-$(mktemp -d)}
here=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$out"
jq -nc '[inputs] | .[] | {text: (.question + "\n" + .answer)}' "$data/train.jsonl" >"$out/text.jsonl"
jq -nc -f "$here/share/data/gsm8k.jq" "$data/train.jsonl" >"$out/train.jsonl"
jq -nc -f "$here/share/data/gsm8k.jq" "$data/test.jsonl" >"$out/test.jsonl"
bpe-train -q -v 2048 -o "$out/gsm.tok" "$out/text.jsonl"
tok-encode -q -t "$out/gsm.tok" "$out/text.jsonl" | pack-rows -q -T 384 -o "$out/text"
for s in train test; do
    tok-encode -q -t "$out/gsm.tok" --chat "$out/$s.jsonl" | pack-rows -q --sft -T 384 -o "$out/chat-$s"
done
gpt-train -j 1 --depth 6 --aspect-ratio 16 --head-dim 32 --matrix-lr 0.06 -t "$out/gsm.tok" --train "$out/text-*.rows" \
    --total-batch-size 3072 --steps "${STEPS:-400}" -o "$out/base" >"$out/base.jsonl"
gpt-train -j 1 --sft --init "$out/base" --train "$out/chat-train-*.rows" --steps "${SFT_STEPS:-500}" \
    -o "$out/sft" >"$out/sft.jsonl"
for m in base sft; do
    printf '%s: ' $m; gpt-eval -q -j 1 -m "$out/$m" --limit 100 bpb "$out"/chat-test-*.rows
done
gpt-eval -j 1 -m "$out/sft" --limit 100 -n 192 --items "$out/answers.jsonl" chat gsm8k="$data/test.jsonl"
