#!/bin/sh
# speedrun.sh [DIR] -- the whole pipe on a machine with GPUs and a network, from web text to a chat model:
#
#   base model      DIR/base/                       pretrain, on climbmix
#   fine-tuned      DIR/chat/                       sft.sh, on smoltalk, mmlu and gsm8k (DIR/talk.jsonl)
#   reinforced      DIR/rl/                         rl.sh, on gsm8k's questions (DIR/prompts.jsonl)
#   report          DIR/report.jsonl                gpt-eval: the base's bits per byte; gsm8k and mmlu of
#                                                   the other two, DIR/chat-eval.jsonl, DIR/rl-eval.jsonl
#
# What is there already is not made again, so after a kill the same command goes on where it stopped;
# every file gets its name when it is whole. DIR/settings holds what was asked for: another wish needs
# another DIR. In the environment:
#
#   DEPTH           the model's dial [20]
#   SHARDS          of climbmix to fetch [80]
#   VOCAB, SEQ      of the tokenizer; tokens of context [32768, 2048]
#   DEVICE          [cuda]
#   GPUS            a process for each, by mpirun, but for reinforcement, which knows one [all there are]
#   TRAIN           more options for gpt-train, both trainings; '--dtype fp8' pays from depth 20 or so on
#   BASE, SFT, RL   the same for pretraining, fine-tuning, reinforcement alone
#   EVAL            more options for gpt-eval chat
#
# gpt-train --dry-run --depth N says how much work it is.
set -eu
prog=speedrun
die() { echo "$prog: $1" >&2; exit "${2:-1}"; }
case ${1:-} in -*) die "usage: speedrun.sh [DIR]; settings go by the environment, see its first lines" 2;; esac
[ $# -le 1 ] || die "usage: speedrun.sh [DIR]" 2
here=$(cd "$(dirname "$0")" && pwd)
depth=${DEPTH:-20} shards=${SHARDS:-80} vocab=${VOCAB:-32768} seq=${SEQ:-2048} device=${DEVICE:-cuda}
run=${1:-runs/d$depth}
gpus=${GPUS:-}
if [ -z "$gpus" ]; then
    case $device in cuda|auto) gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU') || gpus=1;; *) gpus=1;; esac
fi
case $gpus in *[!0-9]*|0) die "GPUS: '$gpus' is not a number of processes" 2;; esac
[ "$gpus" -le 1 ] || export LAUNCH="${LAUNCH:-mpirun -np $gpus}"
command -v jq >/dev/null || die "jq is not installed: the data sets' rows and the answers' rewards need it"

mkdir -p "$run"
if command -v flock >/dev/null; then            # two at once would remove each other's files
    exec 8>>"$run/.lock" && flock -n 8 || die "$run: another speedrun is at work here"
fi
{   printf 'depth %s\nshards %s\nvocab %s\nseq-len %s\n' "$depth" "$shards" "$vocab" "$seq"
    printf 'train %s\nbase %s\nsft %s\nrl %s\neval %s\n' "${TRAIN:-}" "${BASE:-}" "${SFT:-}" "${RL:-}" "${EVAL:-}"
} >"$run/settings.new"
if [ -e "$run/settings" ] && ! cmp -s "$run/settings" "$run/settings.new"; then
    diff "$run/settings" "$run/settings.new" | grep '^[<>]' | sed 's/^</  there:/; s/^>/  asked:/' >&2
    rm "$run/settings.new"
    die "$run: was begun with other settings; take another DIR, or remove it"
fi
mv "$run/settings.new" "$run/settings"

# stage NAME OUTPUT COMMAND: unless OUTPUT is there, which COMMAND names when it is whole
stage() {
    name=$1; output=$2; shift 2
    if [ -e "$output" ]; then echo "$prog: $name: there" >&2; return; fi
    echo "$prog: $name" >&2
    "$@" || die "$name: failed"
}
finished() { gpt-train --status "$1" --json 2>/dev/null | grep -q '"phase": "finished"'; }
# training NAME OUT COMMAND: unless it is done; one that was stopped goes on
training() {
    name=$1; output=$2; shift 2
    if finished "$output"; then echo "$prog: $name: there" >&2; return; fi
    echo "$prog: $name" >&2
    "$@" >&2 || exit $?
}
# shellcheck disable=SC2086
answers() {     # MODEL: how it answers the questions that no training saw
    stage "questions for $1" "$run/$1-eval.jsonl" gpt-eval -m "$run/$1" -d "$device" -o "$run/$1-eval.jsonl" ${EVAL:-} \
        chat gsm8k="$run/gsm8k-test.jsonl" mmlu="$run/mmlu-test.jsonl"
}
report() {
    (cd "$run" && cat base/eval.jsonl chat-eval.jsonl rl-eval.jsonl >report.new && mv report.new report.jsonl)
}
fetched() { file=$1; shift; stage "$file" "$run/$file" data-fetch -o "$run/$file" "$@"; }

fetched web.jsonl "climbmix@0:$shards"
"$here/pretrain" --depth "$depth" --run "$run/base" --vocab "$vocab" --seq-len "$seq" --val 1 \
    --train "-d $device ${TRAIN:-} ${BASE:-}" "$run/web.jsonl" >&2
fetched talk.jsonl smoltalk 'mmlu:auxiliary_train*3' 'gsm8k*4' --shuffle 42
fetched prompts.jsonl gsm8k
fetched gsm8k-test.jsonl --raw gsm8k:test
fetched mmlu-test.jsonl --raw mmlu:test
# shellcheck disable=SC2086
training "fine-tuning" "$run/chat" "$here/sft.sh" "$run/base/model" "$run/talk.jsonl" "$run/chat" -d "$device" ${TRAIN:-} ${SFT:-}
answers chat
# shellcheck disable=SC2086
training "reinforcement" "$run/rl" "$here/rl.sh" "$run/chat" "$run/prompts.jsonl" "$run/rl" -d "$device" ${RL:-}
answers rl
stage "report" "$run/report.jsonl" report
cat "$run/report.jsonl"
echo "$prog: done; talk to it: gpt-sample -m $run/rl --chat; its report: $run/report.jsonl" >&2
