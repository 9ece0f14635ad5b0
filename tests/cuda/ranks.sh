# Several ranks with the emulated back-end ($BUILD/emu/bin), NCCL's twin between them: the collectives,
# training against one rank on the CPU, resuming.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../mpirun.sh"
build=${BUILD:-$top/build}
[ -x "$build/emu/bin/gpt-train" ] || { skip "ranks under the emulator" "no C++ compiler"; finish; }
need_ranks
export CUEMU_DEVICES=3
comm=$build/tests/cuda/comm
for how in "CUEMU=0" "CUEMU_LATE=1" "CUEMU_LAZY=1" "CUEMU_PROTECT=1"; do
    for k in 2 3; do ok "collectives of $k ranks, $how" "export $how; ranks $k $comm >tap && ! grep '^not ok' tap"; done
done
bad() { (export $1; ranks 2 "$comm") >tap 2>&1; grep -q '^not ok' tap; }
ok "a collective that does not wait for what it adds up is seen" "bad 'CUEMU_LAZY=1 CUEMU_DEAF=other'"
ok "  so is a use that does not wait for the collective" "bad 'CUEMU_LATE=1 CUEMU_DEAF=first'"
says 1 "--device cuda:1: 1 here, the first is cuda:0" "more ranks than devices" "CUEMU_DEVICES=1 ranks 2 $comm"

i=0; while [ $i -lt 40 ]; do echo "{\"text\": \"line $i: the cat sat on mat $((i * 7 % 13)), and the dog did not.\"}"; i=$((i+1)); done >docs.jsonl
bpe-train -q -v 300 -o a.tok docs.jsonl && tok-encode -q -t a.tok docs.jsonl | pack-rows -q -T 32 -o a.rows || exit 1
PATH="$build/emu/bin:$PATH"
run="gpt-train -q -j 1 --depth 2 --aspect-ratio 32 --head-dim 32 --steps 4 --total-batch-size 384 -t a.tok --train a.rows --val a.rows --eval-every 2 --eval-tokens 320 --force"
for dtype in fp32 bf16; do
    may=$([ $dtype = fp32 ] && echo 2e-5 || echo 5e-3)
    $run -d cpu --dtype $dtype -B 12 -o one >one.jsonl 2>err
    ok "$dtype: 2 ranks on 2 devices" "ranks 2 $run -d cuda --dtype $dtype -B 3 -o two >two.jsonl"
    for f in loss val_bpb; do
        field one.jsonl $f >f1; field two.jsonl $f >f2
        is "  $f as on one CPU" "near f1 f2 $may" "$(wc -l <f1)"
    done
done
ok "late collectives: the same bits" "CUEMU_LATE=1 ranks 2 $run -d cuda --dtype bf16 -B 3 -o late >late.jsonl && cmp two/model.safetensors late/model.safetensors"
ok "a late first stream too" "CUEMU_LAZY=1 ranks 2 $run -d cuda --dtype bf16 -B 3 -o lazy >lazy.jsonl && cmp two/model.safetensors lazy/model.safetensors"
says 2 "--device cuda:0: the ranks of a machine have a device each" "one device for two ranks" "ranks 2 $run -d cuda:0 -B 3 -o no"
ok "stopped" "ranks 2 $run -d cuda --dtype bf16 -B 3 --stop-at 2 -o part >part.jsonl"
is "  the device is kept as it was given" "grep -o '\"device\": \"[^\"]*\"' part/state.json" '"device": "cuda"'
ok "  and resumed: the same bits" "ranks 2 gpt-train -q -j 1 --resume -o part >rest.jsonl && cmp two/model.safetensors part/model.safetensors"
finish
