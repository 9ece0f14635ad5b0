#!/bin/sh
# demo.sh -- the whole pipe in a few minutes, with no network: text made by world.awk, a tokenizer,
# token rows, a small GPT trained on them, its bits per byte, and samples; then conversations made by
# talk.awk, fine-tuning on them, questions that it has not seen; reinforcement by rewards; and a chat.
# Everything is kept in $BUILD/demo (DEMO_DIR to put it elsewhere) to be looked at.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${DEMO_DIR:-${BUILD:-build}/demo}
rm -rf "$out"
mkdir -p "$out"
cd "$out"
cp "$here/world.awk" "$here/talk.awk" .
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

say "Conversations: sums and counting with a calculator, spelling, opposites, the island"
run "awk -v kind=all -v n=12000 -v seed=1 -f world.awk -f talk.awk > talk.jsonl"
head -n 1 talk.jsonl
run "tok-encode -t world.tok --chat talk.jsonl | pack-rows --sft -T 128 -o talk"

say "The same model, fine-tuned on them"
run "gpt-train --sft --init model --train 'talk-*.rows' --epochs 2 -o chat > chat.jsonl"

say "Questions that were held out: other sums, other words, other people"
held=
for kind in arithmetic story counting spelling opposites world; do
    run "awk -v kind=$kind -v n=100 -v seed=2 -v held=1 -f world.awk -f talk.awk > $kind.jsonl"
    held="$held $kind=$kind.jsonl"
done
run "gpt-eval -m chat -n 64 --items answers.jsonl chat$held > chat-eval.jsonl"

say "Reinforcement: sums told as stories, of which it has seen a handful; its own answers, scored by the number after ####"
if command -v jq >/dev/null; then
    cp "$here/../reward/gsm8k.jq" .
    run "awk -v kind=story -v n=2000 -v seed=3 -f world.awk -f talk.awk > prompts.jsonl"
    run "gpt-train --init chat --rl prompts.jsonl --reward 'jq -rnf gsm8k.jq' --max-tokens 32 --examples 8 --lr-scale 0.2 --steps 40 \
--val story.jsonl --eval-every 10 -o rl > rl.jsonl"
    run "gpt-eval -m rl -n 64 chat$held > rl-eval.jsonl"
else
    echo "(left out: jq, the judge here, is not installed)"
    cp -r chat rl
fi

say "A chat"
cat >questions <<'EOF'
What is 38 + 47?
How much is 12 * 81?
How many times is the letter e in beekeeper?
Where does Bram live?
Dora has 38 plums and sells 12 of them. How many are left?
What is the opposite of hot?
Spell the word honey.
EOF
run "gpt-sample -q -m rl --chat --temperature 0 -n 64 < questions"

say "All of it is in $PWD. Go on with: make chat"
