#!/bin/sh
# sft.sh RUN DATA [OUT [OPTIONS]] -- fine-tune the model in directory RUN on conversations, DATA.
#
# DATA is one JSON Lines file of {"messages": ...}, gzip or not. The model goes to OUT (RUN-sft), the
# rows made from DATA to OUT.data. OPTIONS are for gpt-train. What is there already is not made again:
# rows are kept while DATA is no newer than they are, and a run that was stopped goes on.
# LAUNCH='mpirun -np 8' starts gpt-train on so many ranks.
set -eu
die() { echo "sft: $*" >&2; exit 1; }
[ $# -ge 2 ] || { echo "usage: sft.sh RUN DATA [OUT [OPTIONS for gpt-train]]" >&2; exit 2; }
run=$1 data=$2 out=${3:-$1-sft}
[ $# -lt 3 ] && shift 2 || shift 3
[ -f "$run/config.json" ] || die "$run: no model here"
[ -f "$data" ] || die "$data: no such file"
rows=$out.data/sft
number() { sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" "$run/config.json" | head -n 1; }
T=$(number sequence_len)
if [ -z "$T" ]; then                    # of the Llama family, whose rows may be shorter than its context
    T=$(number max_position_embeddings)
    [ -n "$T" ] || die "$run/config.json: neither sequence_len nor max_position_embeddings"
    [ "$T" -le 2048 ] || T=2048
fi
mkdir -p "$out.data"
if [ ! -f "$rows-00000.rows" ] || [ "$data" -nt "$rows-00000.rows" ]; then
    rm -f "$rows"-*.rows
    tok-encode -t "$run/tokenizer.tok" --chat "$data" | pack-rows --sft -T "$T" -o "$rows"
fi
if [ -f "$out/state.json" ] || [ -f "$out/commit.json" ]; then ${LAUNCH:-} gpt-train --resume -o "$out" "$@" >>"$out.jsonl"
else ${LAUNCH:-} gpt-train --sft --init "$run" --train "$rows-*.rows" -o "$out" "$@" >"$out.jsonl"; fi
echo "$out: fine-tuned on $data; talk to it: gpt-sample -m $out --chat"
