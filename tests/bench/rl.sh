#!/bin/sh
# rl.sh DEMO [SEEDS] -- how much reinforcement learning adds: the demo's model (DEMO is where make demo left
# it, build/demo) is fine-tuned on conversations among which a few sums told as stories are, then
# reinforced on other stories with share/reward/gsm8k.jq. For each seed ("1 2 3") of conversations and
# answers: accuracy on 200 stories that were held out, before and after, greedy; seconds.
# The tools must be on PATH; files are kept in DEMO/rl.
set -eu
demo=${1:?usage: rl.sh DEMO [SEEDS]}
seeds=${2:-1 2 3}
here=$(cd "$(dirname "$0")/../../share" && pwd)
mkdir -p "$demo/rl"
cd "$demo/rl"
talk() { awk -v kind="$1" -v n="$2" -v seed="$3" -v held="${4:-0}" -f "$here/demo/world.awk" -f "$here/demo/talk.awk"; }
accuracy() { gpt-eval -q -m "$1" -n 48 chat story=held.jsonl | sed -n '1s/.*"accuracy": \([^,]*\).*/\1/p'; }
talk story 200 2 1 >held.jsonl
for s in $seeds; do
    talk all 12000 "$s" >talk.jsonl
    talk story 4000 "10$s" >prompts.jsonl
    rm -rf "sft$s" "rl$s" talk-*.rows
    tok-encode -q -t ../world.tok --chat talk.jsonl | pack-rows -q --sft -T 128 -o talk
    gpt-train -q -s "$s" --sft --init ../model --train 'talk-*.rows' --epochs 2 -o "sft$s" >"sft$s.jsonl"
    begin=$(date +%s)
    gpt-train -q -s "$s" --init "sft$s" --rl prompts.jsonl --reward "jq -rnf '$here/reward/gsm8k.jq'" --max-tokens 32 --lr-scale 0.2 \
        --examples 8 --steps 60 --val held.jsonl --eval-prompts 100 --eval-every 10 -o "rl$s" >"rl$s.jsonl"
    end=$(date +%s)
    echo "seed $s, $(grep -c '####' talk.jsonl) stories in fine-tuning: $(accuracy "sft$s") before, $(accuracy "rl$s") after $((end - begin)) s"
done
