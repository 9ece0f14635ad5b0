#!/bin/sh
# demo.sh -- the whole pipe in a few minutes, with no network: text made by world.awk, a tokenizer,
# token rows, a small GPT trained on them, its bits per byte, and samples. Everything is kept in
# $BUILD/demo (DEMO_DIR to put it elsewhere) to be looked at.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${DEMO_DIR:-${BUILD:-build}/demo}
rm -rf "$out"
mkdir -p "$out"
cd "$out"
cp "$here/world.awk" .
say() { printf '\n== %s\n' "$*"; }
run() { printf '$ %s\n' "$*"; eval "$*"; }

say "Text: 4,000 short texts about an invented island"
run "awk -v n=4000 -v seed=1 -f world.awk > world.txt"
run "data-fetch --range 0:95% world.txt -o train.jsonl"
run "data-fetch --range 95%: world.txt -o val.jsonl"

say "A tokenizer of 512 tokens"
run "bpe-train -v 512 -o world.tok train.jsonl"

say "Rows of tokens"
run "tok-encode -t world.tok train.jsonl | pack-rows -T 128 -o train"
run "tok-encode -t world.tok val.jsonl | pack-rows -T 128 -o val.rows"

say "A GPT of 4 layers, trained on this machine"
run "gpt-train --depth 4 --aspect-ratio 32 --head-dim 32 -t world.tok --train 'train-*.rows' --val val.rows \
--steps 400 --total-batch-size 2048 --eval-every 100 -o model > model.jsonl"

say "How well it predicts text that it has not seen: bits per byte, of 8"
run "gpt-eval -m model bpb val.rows"

say "What it says"
for prompt in 'Ada is a' 'One morning, Bram the fisher' 'Kell is' '"What is the opposite of hot?"'; do
    run "gpt-sample -q -m model -p '$prompt' --echo -n 100 --temperature 0.7 -s 1"
done

say "All of it is in $PWD. Go on with:"
echo "cd $PWD && ${BUILD:-..}/bin/gpt-sample -m model -p 'Vera the doctor' --temperature 0.5"
