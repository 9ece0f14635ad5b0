#!/bin/sh
# speedrun.sh [DIR] -- the whole pipe on a machine with GPUs and a network: web text to a chat model, with
# its report. What is there already is not made again: after a kill the same command goes on.
#
#   DEPTH    the model's dial [20]
#   SHARDS   of climbmix to fetch [80]
#   TRAIN    more options for gpt-train, both times; '--dtype fp8' pays from depth 20 or so on
#   DEVICE   [cuda]
#   GPUS     a process for each, by mpirun: 8 on a node of 8 [1]
#
# gpt-train --dry-run --depth N says how much work it is.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
run=${1:-runs/d${DEPTH:-20}}
depth=${DEPTH:-20} shards=${SHARDS:-80} device=${DEVICE:-cuda}
if [ "${GPUS:-1}" -gt 1 ]; then
    : "${LAUNCH:=mpirun -np $GPUS}"
    export LAUNCH
fi
mkdir -p "$run"
have() { [ -s "$1" ]; }

have "$run/web.jsonl" || data-fetch "climbmix@0:$shards" -o "$run/web.jsonl"
"$here/pretrain" --depth "$depth" --run "$run/base" --val 1 --train "-d $device ${TRAIN:-}" "$run/web.jsonl"
have "$run/chat.jsonl" ||
    data-fetch smoltalk 'mmlu:auxiliary_train*3' 'gsm8k*4' --shuffle 42 -o "$run/chat.jsonl"
# shellcheck disable=SC2086
"$here/sft.sh" "$run/base/model" "$run/chat.jsonl" "$run/chat" -d "$device" ${TRAIN:-}
have "$run/report.jsonl" || {
    cat "$run/base/eval.jsonl"
    gpt-eval -m "$run/chat" -d "$device" chat gsm8k mmlu
} >"$run/report.jsonl"
echo "$run/chat: talk to it: gpt-sample -m $run/chat --chat; its report: $run/report.jsonl"
