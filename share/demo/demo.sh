#!/bin/sh
# demo.sh -- the whole pipe in a few minutes, with no network: text made by world.awk, a tokenizer,
# token rows, a small GPT trained on them, its bits per byte, and samples. Everything is kept in
# $BUILD/demo (DEMO_DIR to put it elsewhere) to be looked at.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${DEMO_DIR:-${BUILD:-build}/demo}
rm -rf "$out"
mkdir -p "$out"
say() { printf '\n\033[1m%s\033[0m\n' "$*" | if [ -t 1 ]; then cat; else sed 's/\x1b\[[0-9]*m//g'; fi; }
run() { printf '$ %s\n' "$*"; eval "$*"; }

say "1. Text: 4,000 short texts about an invented island"
run "awk -v n=4000 -v seed=1 -f '$here/world.awk' > $out/world.txt"
run "data-fetch --range 0:95% $out/world.txt -o $out/train.jsonl"
run "data-fetch --range 95%: $out/world.txt -o $out/val.jsonl"

say "2. A tokenizer of 512 tokens"
run "bpe-train -v 512 -o $out/world.tok $out/train.jsonl"

say "3. Token rows"
run "tok-encode -t $out/world.tok $out/train.jsonl | pack-rows -T 128 -o $out/train"
run "tok-encode -t $out/world.tok $out/val.jsonl | pack-rows -T 128 -o $out/val.rows"

say "4. A GPT of 4 layers, trained on this machine"
run "gpt-train --depth 4 --aspect-ratio 32 --head-dim 32 -t $out/world.tok --train '$out/train-*.rows' \
--val $out/val.rows --steps 400 --total-batch-size 2048 --eval-every 100 -o $out/model > $out/model.jsonl"

say "5. How well it predicts text that it has not seen"
run "gpt-eval -m $out/model bpb $out/val.rows"

say "6. What it says"
for prompt in 'Ada is a' 'One morning, Bram the fisher' 'Kell is' '"What is the opposite of hot?"'; do
    printf '\n> %s\n' "$prompt"
    gpt-sample -m "$out/model" -q -p "$prompt" -n 60 --temperature 0.7 -s 1
done

say "All of it is in $out. Try:"
echo "  ${BUILD:-build}/bin/gpt-sample -m $out/model -p 'Vera the doctor' --temperature 0.5"
