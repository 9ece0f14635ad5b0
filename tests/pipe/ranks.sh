# A run of several ranks from beginning to end: stopped, resumed on the same and on another number of
# ranks, killed in one rank, failing in one rank; fine-tuning and adapters; from text to model.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../mpirun.sh"
need_ranks
i=0; while [ $i -lt 90 ]; do echo "{\"text\": \"$i bottles of beer on the wall, take $((i * 5 % 17)) down.\"}"; i=$((i+1)); done >docs.jsonl
bpe-train -q -v 300 -o a.tok docs.jsonl && tok-encode -q -t a.tok docs.jsonl | pack-rows -q -T 32 -o a.rows || exit 1
run="gpt-train -q -j 1 --depth 3 --aspect-ratio 16 --head-dim 16 --dtype fp32 -t a.tok --train a.rows --val a.rows --eval-every 4
  --eval-tokens 320 --total-batch-size 384 --steps 10 --ema 0.9"
run=$(echo $run)
same() { diff -r -x clock.json -x status.json "$1" "$2"; }
files() { (cd "$1" && echo optimizer-*); }
# the losses of both files in a row, as far as they agree with one.jsonl's
agree() { cat "$@" >both; field one.jsonl loss >f1; field both loss >f2; near f1 f2 1e-5; }

ok "one rank" "$run -B 12 -o one >one.jsonl"
ok "two ranks" "ranks 2 $run -B 2 -o two >two.jsonl"
is "  losses as one's" "agree two.jsonl" 10
is "  a file each" "files two" "optimizer-0.safetensors optimizer-1.safetensors"
ok "stopped" "ranks 2 $run -B 2 --stop-at 5 -o part >part.jsonl && cp -r part part3 && cp -r part part1"
ok "  and resumed: the same bytes" "ranks 2 gpt-train -q -j 1 --resume -o part >rest.jsonl && same two part"
ok "resumed by three" "ranks 3 gpt-train -q -j 1 --resume -o part3 >rest3.jsonl"
is "  losses as one's" "agree part.jsonl rest3.jsonl" 10
is "  a file each" "files part3" "optimizer-0.safetensors optimizer-1.safetensors optimizer-2.safetensors"
ok "resumed by one" "gpt-train -q -j 1 --resume -o part1 >rest1.jsonl"
is "  losses as one's" "agree part.jsonl rest1.jsonl" 10
is "  one file" "files part1" "optimizer-0.safetensors"
ok "begun by one, resumed by two" "$run -B 6 --stop-at 5 -o first >first.jsonl && ranks 2 gpt-train -q -j 1 --resume -o first >second.jsonl"
is "  losses as one's" "agree first.jsonl second.jsonl" 10
ok "four rows for two ranks of four: smaller micro-batches" "$run -B 4 --total-batch-size 128 --stop-at 2 -o small >/dev/null && ranks 2 gpt-train -q -j 1 --resume --stop-at 3 -o small"
says 2 "is not a multiple of" "  for three of them there is no way" "ranks 3 gpt-train -q -j 1 --resume -o small"

# ---- what happens to one rank happens to all
cat >each <<'X'
r=${PMI_RANK:-$OMPI_COMM_WORLD_RANK}
echo $$ >pid.$r
[ "$r" != "$ODD" ] || set -- "$@" $MORE
exec "$@"
X
begin() { rm -f pid.*; rm -rf "$1"; (ranks 2 sh each $long -o "$1" >log.jsonl 2>err) & mpi=$!; }
until_() { k=0; while ! eval "$1"; do sleep 0.05; k=$((k + 1)); [ $k -lt 400 ] || return 1; done; }
signal() { until_ "[ -e $1/state.json ] && [ \$(grep -c loss log.jsonl) -gt 5 ]" && kill "$2" "$(cat pid."$3")"; }
gone() { until_ '! kill -0 $(cat pid.0) 2>/dev/null && ! kill -0 $(cat pid.1) 2>/dev/null'; }
step_in() { sed -n 's/^  "step": \([0-9]*\),/\1/p' "$1/state.json"; }
long=$(echo "$run" | sed 's/--steps 10/--steps 100000 --save-every 1 -B 6/')
for r in 0 1; do
    begin killed
    ok "rank $r is killed while the run saves at each step" "signal killed -9 $r"
    wait $mpi; rc=$?
    ok "  the run ends, with status $rc" "[ $rc -ne 0 ] && [ $rc -ne 124 ]"
    ok "  both are gone" gone
    at=$(gpt-train --status killed --json | sed -n 's/.*"saved_step": \([0-9]*\).*/\1/p')
    ok "  step $at is whole, and the run goes on" "ranks 2 gpt-train -q -j 1 --resume --stop-at $((at + 2)) -o killed && [ \$(step_in killed) = $((at + 2)) ]"
done
for r in 0 1; do
    begin stopped
    ok "SIGTERM for rank $r" "signal stopped -TERM $r"
    wait $mpi
    is "  both stop after the same step, which is saved" "step_in stopped" "$(grep '"loss"' log.jsonl | tail -n 1 | sed 's/.*"step": \([0-9]*\).*/\1/')"
done
says 1 "gpt-train: rank 1: nowhere.rows: No such file" "an error of one rank names it and ends all" "ODD=1 MORE='--train nowhere.rows' ranks 2 sh each $run -B 6 -o no"

# ---- other runs
cat >chat.jsonl <<'X'
{"messages": [{"role": "user", "content": "How many bottles?"}, {"role": "assistant", "content": "7 bottles of beer."}]}
{"messages": [{"role": "user", "content": "And now?"}, {"role": "assistant", "content": "6 bottles, take 3 down."}]}
{"messages": [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": "On the wall."}]}
{"messages": [{"role": "user", "content": "What of?"}, {"role": "assistant", "content": "Beer, of course, 99 bottles of it on the wall."}]}
X
tok-encode -q -t a.tok --chat chat.jsonl | pack-rows -q --sft -T 32 -o chat.rows || exit 1
tune="--dtype fp32 --sft --init two --train chat.rows --steps 4 --total-batch-size 128"
ok "fine-tuning by one" "gpt-train -q -j 1 $tune -B 4 -o sft1 >one.jsonl"
ok "  and by two, with moments of two" "ranks 2 gpt-train -q -j 1 $tune -B 1 -o sft2 >sft2.jsonl"
is "  the same losses" "agree sft2.jsonl" 4
tune="--dtype fp32 --lora r=2,targets=all --init two --train a.rows --steps 4 --total-batch-size 128"
ok "an adapter by one" "gpt-train -q -j 1 $tune -B 4 -o lora1 >one.jsonl"
ok "  by two, stopped and resumed" "ranks 2 gpt-train -q -j 1 $tune -B 1 -o lora2 --stop-at 2 >lora2.jsonl && ranks 2 gpt-train -q -j 1 --resume -o lora2 >lora3.jsonl"
is "  the same losses" "agree lora2.jsonl lora3.jsonl" 4
ok "from text to model" "LAUNCH='mpirun -np 2' '$top/share/pipeline/pretrain' --depth 1 --run made --vocab 300 --seq-len 32 --train '-q -j 1 --aspect-ratio 32 --head-dim 16 --steps 2 --total-batch-size 128' docs.jsonl </dev/null"
is "  by two ranks" "sed -n 's/.*\"ranks\": \([0-9]*\).*/\1/p' made/metrics.jsonl" 2
finish
