#!/bin/sh
# rl.sh RUN PROMPTS [OUT [OPTIONS]] -- reinforce the model in directory RUN on PROMPTS, a JSON Lines file of
# conversations; their answers are the reference.
#
# REWARD (in the environment) is the filter that scores; by default GSM8K's rule, share/reward/gsm8k.jq.
# The model goes to OUT (RUN-rl), its metrics to OUT.jsonl. OPTIONS are for gpt-train. A run that was
# stopped goes on.
set -eu
die() { echo "rl: $*" >&2; exit 1; }
[ $# -ge 2 ] || { echo "usage: rl.sh RUN PROMPTS [OUT [OPTIONS for gpt-train]]" >&2; exit 2; }
here=$(cd "$(dirname "$0")/../reward" && pwd)
run=$1 prompts=$2 out=${3:-$1-rl}
[ $# -lt 3 ] && shift 2 || shift 3
[ -f "$run/config.json" ] || die "$run: no model here"
[ -f "$prompts" ] || die "$prompts: no such file"
if [ -z "${REWARD:-}" ]; then
    command -v jq >/dev/null || die "jq is not installed, and REWARD is not set"
    REWARD="jq -rnf '$here/gsm8k.jq'"
fi
# half of what the model can hold, at most 256: prompt and answer share it
number() { sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" "$run/config.json" | head -n 1; }
T=$(number sequence_len); T=${T:-$(number max_position_embeddings)}
[ -n "$T" ] || die "$run/config.json: neither sequence_len nor max_position_embeddings"
n=$((T / 2 < 256 ? T / 2 : 256))
if [ -f "$out/state.json" ] || [ -f "$out/commit.json" ]; then gpt-train --resume -o "$out" "$@" >>"$out.jsonl"
else gpt-train --init "$run" --rl "$prompts" --reward "$REWARD" --max-tokens "$n" -o "$out" "$@" >"$out.jsonl"; fi
echo "$out: reinforced on $prompts; talk to it: gpt-sample -m $out --chat"
