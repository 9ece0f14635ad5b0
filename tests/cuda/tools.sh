# --device cuda in the tools, linked with the emulated back-end ($BUILD/emu/bin): training, resuming,
# sampling, evaluating, memory as planned, devices that are missing or full.
. "$(dirname "$0")/../lib.sh"
emu=${BUILD:-$top/build}/emu/bin
[ -x "$emu/gpt-train" ] || { skip "--device cuda under the emulator" "no C++ compiler"; finish; }

i=0; while [ $i -lt 40 ]; do echo "{\"text\": \"line $i: the cat sat on mat $((i * 7 % 13)), and the dog did not.\"}"; i=$((i+1)); done >"$dir/docs.jsonl"
bpe-train -q -v 300 -o "$dir/a.tok" "$dir/docs.jsonl" || exit 1
tok-encode -q -t "$dir/a.tok" "$dir/docs.jsonl" | pack-rows -q -T 32 -o "$dir/a.rows"
PATH="$emu:$PATH"
size="--depth 2 --aspect-ratio 32 --head-dim 32"
run="gpt-train -q -j 1 $size --steps 4 --total-batch-size 128 -B 2 -t $dir/a.tok --train $dir/a.rows"
losses() { sed -n 's/.*"loss": \([0-9.]*\).*/\1/p' "$1"; }

# two micro-batches a step; bf16's Muon rounds to 8 bits on this device and not on the CPU
near() { paste -d ' ' "$dir/l1" "$dir/l2" | awk -v may="$1" '{d = $1 - $2; n += d < may && -d < may} END {print n}'; }
for dtype in fp32 bf16; do
    for d in cpu cuda; do $run -d $d --dtype $dtype -o "$dir/$d" --force >"$dir/$d.jsonl" 2>"$dir/err"; done
    losses "$dir/cpu.jsonl" >"$dir/l1"; losses "$dir/cuda.jsonl" >"$dir/l2"
    is "$dtype: the losses of 4 steps agree" "near $([ $dtype = fp32 ] && echo 2e-5 || echo 5e-3)" 4
done
is "the metrics name the device" "sed -n 's/.*\"device\": \"\([^\"]*\)\", \"dtype\": \"\([^\"]*\)\".*/\1 \2/p' $dir/cuda.jsonl" "cuda bf16"
ok "a run that stops, out of reach of the host's code" "CUEMU_PROTECT=1 $run -d cuda --dtype bf16 --stop-at 2 -o $dir/part"
ok "and resumes" "gpt-train -q -j 1 -d cuda --resume -o $dir/part"
ok "  ends in the same bits" "cmp $dir/part/model.safetensors $dir/cuda/model.safetensors"
ok "no graphs do too" "CUEMU_NO_GRAPHS=1 $run -d cuda --dtype bf16 -o $dir/again --force && cmp $dir/again/model.safetensors $dir/cuda/model.safetensors"
ok "and a device that is late" "CUEMU_LAZY=1 CUEMU_PROTECT=1 $run -d cuda --dtype bf16 -o $dir/again --force && cmp $dir/again/model.safetensors $dir/cuda/model.safetensors"
waits() { CUEMU_REPORT=1 $run -d cuda -o "$dir/waits" --force --steps $1 -B $2 2>&1 >/dev/null | sed -n 's/cuemu: \([0-9]*\) waits.*/\1/p'; }
is "a step waits for the device once, whatever its micro-batches" "echo \$((\$(waits 5 4) - \$(waits 3 4))) \$((\$(waits 5 1) - \$(waits 3 1)))" "2 2"
ok "another schedule of threads does too" "CUEMU=3 $run -d cuda --dtype bf16 -o $dir/again --force && cmp $dir/again/model.safetensors $dir/cuda/model.safetensors"

say() { gpt-sample -q -j 1 -m "$dir/cpu" -d "$1" --dtype fp32 -p 'line 3: the' -n 24 --temperature 0; }
is "a sample is the CPU's" "say cuda" "$(say cpu)"
for d in cpu cuda; do gpt-eval -q -j 1 -m "$dir/cpu" -d $d --dtype fp32 bpb "$dir/a.rows" | sed -n 's/.*"bpb": \([0-9.]*\).*/\1/p' >"$dir/b$d"; done
cp "$dir/bcpu" "$dir/l1"; cp "$dir/bcuda" "$dir/l2"
is "bits per byte are the CPU's" "near 1e-5" 1

device() { grep -o '"device": "[a-z]*' "$1" | head -n 1 | sed 's/.*"//'; }      # the one in use; options have what was asked for
ok "auto takes a device" "$run --steps 1 -d auto -o $dir/auto --force >$dir/auto.jsonl; [ \"\$(device $dir/auto.jsonl)\" = cuda ]"
ok "and falls back to the CPU" "CUEMU_DEVICES=0 $run --steps 1 -d auto -o $dir/auto --force >$dir/auto.jsonl; [ \"\$(device $dir/auto.jsonl)\" = cpu ]"
# a resume goes on where the run was told to be, not on what it finds
resumed() { gpt-train -q -j 1 --resume "$@" -o "$dir/there" >"$dir/there.jsonl" && device "$dir/there.jsonl"; }
is "a run on the CPU by name" "$run --stop-at 1 -d cpu -o $dir/there >$dir/there.jsonl; device $dir/there.jsonl" cpu
is "  is resumed there, though there is a device" "resumed --stop-at 2" cpu
is "  unless another is given" "resumed --stop-at 3 -d cuda" cuda
is "  which is kept, too" "resumed --stop-at 4" cuda
is "auto is kept as auto" "$run --stop-at 1 --force -o $dir/there >$dir/there.jsonl; device $dir/there.jsonl; CUEMU_DEVICES=0; export CUEMU_DEVICES; resumed --stop-at 2" "cuda
cpu"
is "a run of before the device was kept: auto" "$run --stop-at 1 --force -d cpu -o $dir/there >/dev/null; sed -i 's/\"device\": \"cpu\", //' $dir/there/state.json; ! grep -q device\\\" $dir/there/state.json && resumed --stop-at 2" cuda
says 1 "--device cuda: no device can be used: no CUDA-capable device is detected" "a device that is asked for must be there" "CUEMU_DEVICES=0 $run -d cuda -o $dir/none"
says 1 "--device cuda:1: 1 here, the first is cuda:0" "so must a second one" "$run -d cuda:1 -o $dir/none"
says 1 "fewer rows at a time (--device-batch-size)" "a device that is full" "CUEMU_MEMORY=40000000 $run -d cuda -o $dir/none"
says 1 "unused; fewer rows at a time (--batch) take less" "  in gpt-eval" "CUEMU_MEMORY=34000000 gpt-eval -q -j 1 -m $dir/cpu -d cuda bpb $dir/a.rows"
says 1 "unused; fewer samples at a time (--batch) take less" "  in gpt-sample" "CUEMU_MEMORY=200000 gpt-sample -q -j 1 -m $dir/cpu -d cuda -p x -n 2"
ok "nothing came of these" "[ ! -e $dir/none/model.safetensors ]"

# eight-bit floats, where a device has them and a model has maps of such sizes
says 1 "--dtype fp8: cuda:0 has compute capability 8.0: 8.9 or more is needed" "fp8 on a device without" "$run -d cuda --dtype fp8 -o $dir/none"
export CUEMU_CAPABILITY=89
says 1 "--dtype fp8: not on the CPU" "  on the CPU" "$run -d cpu --dtype fp8 -o $dir/none"
says 2 "--dtype fp8: none of this model's linear maps" "  of a model with none that is large enough" "$run --aspect-ratio 16 -d cuda --dtype fp8 -o $dir/none"
says 2 "--dtype fp8: not with --rl" "  with answers to draw" "gpt-train -q --rl x --reward y --init $dir/cpu -d cuda --dtype fp8 -o $dir/none"
run8="$run --aspect-ratio 64 --head-dim 64 --steps 3 -d cuda"
ok "fp8: a run" "$run8 --dtype fp8 -o $dir/eight >$dir/eight.jsonl"
is "  is of that type" "sed -n 's/.*\"device\": \"\([^\"]*\)\", \"dtype\": \"\([^\"]*\)\".*/\1 \2/p' $dir/eight.jsonl" "cuda fp8"
ok "  stopped, and resumed in another schedule: the same bits" "CUEMU_PROTECT=1 $run8 --dtype fp8 --stop-at 1 -o $dir/half && CUEMU=3 gpt-train -q -j 1 -d cuda --resume -o $dir/half && cmp $dir/half/model.safetensors $dir/eight/model.safetensors"
says 2 "--dtype: \"bf16\", but" "  the type belongs to the run" "gpt-train -q -d cuda --resume --dtype bf16 -o $dir/half"
ok "  with recomputation: too" "$run8 --dtype fp8 --recompute --force -o $dir/half && cmp $dir/half/model.safetensors $dir/eight/model.safetensors"
bpb() { gpt-eval -q -j 1 -m "$dir/eight" -d cuda --dtype bf16 bpb "$dir/a.rows" | sed -n 's/.*"bpb": \([0-9.]*\).*/\1/p'; }
is "  evaluated, it is a bf16 model" "$run8 --dtype fp8 --val $dir/a.rows --eval-tokens 1M --stop-at 3 --force -o $dir/eight | sed -n 's/.*\"step\": 3.*\"val_bpb\": \([0-9.]*\).*/\1/p'" "$(bpb)"

# planned and measured bytes, within 5 %
planned() {     # what, options
    what=$1; shift
    plan=$(gpt-train --dry-run --json "$@" -t "$dir/a.tok" | sed -n 's/.*[{ ]"bytes": \([0-9]*\).*/\1/p')
    used=$(CUEMU_REPORT=1 gpt-train -j 1 -q "$@" -t "$dir/a.tok" --train "$dir/a.rows" -o "$dir/big" --force 2>&1 >/dev/null | sed -n 's/cuemu: \([0-9]*\) bytes at most/\1/p')
    is "$what: the plan's memory ($plan) is what is used ($used)" "awk -v p=$plan -v u=$used 'BEGIN {print (p > 0.95 * u && p < 1.05 * u)}'" 1
}
big="--steps 1 -T 32 -d cuda --dtype"
for dtype in fp32 bf16 fp8; do
    planned $dtype --depth 3 --aspect-ratio 64 --head-dim 64 --total-batch-size 512 -B 16 $big $dtype
done
echo '{"model_type": "qwen3_moe", "max_position_embeddings": 64, "vocab_size": 300,
    "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "hidden_size": 32,
    "head_dim": 32, "num_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 2,
    "intermediate_size": 64, "tie_word_embeddings": false}' >"$dir/moe.json"
planned "256 experts" --model "$dir/moe.json" --total-batch-size 2048 -B 64 $big bf16
finish
