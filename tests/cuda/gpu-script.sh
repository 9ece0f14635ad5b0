# tests/gpu.sh, tried out on the CPU and with the emulated back-end: programs that print what they are told to stand
# in for the tests and for compute-sanitizer, the rest is real. What it must not do is pass, when something
# failed, was cut off or was never begun.
. "$(dirname "$0")/../lib.sh"
if [ -x "$(command -v nvidia-smi)" ]; then
    skip "without a device" "there is one"
else
    says 2 "no device" "without a device it says so" "GPU_DEVICE=cuda $top/tests/gpu.sh"
fi
if ! command -v jq >/dev/null; then
    skip "tests/gpu.sh" "jq is not installed"
    finish
fi

installed=$(command -v compute-sanitizer)
# ---- what stands in for programs. A test that stands in FAILS exits 1, one in HANGS stays.
mkdir "$dir/tests" "$dir/bin" "$dir/quick"
cat >"$dir/tests/attn" <<'END'
#!/bin/sh
me=$(basename "$0"); echo "$me" "$@" >>"$RAN"
case " $HANGS " in *" $me "*) exec sleep 60;; esac
case " $FAILS " in *" $me "*) echo "not ok 1 - $me"; exit 1;; esac
[ "$me" != ops ] || [ $# -gt 0 ] || printf 'ok %s\n' '1 - rmsnorm cuda (7 33): outputs' '2 - rmsnorm cuda (7 33): dx' '3 - mix, x = z cuda (bf16: 1): outputs'
echo "ok 9 - $me"
END
chmod +x "$dir/tests/attn"
for t in ops optim golden_model golden_llama golden_train10 step pick decode fp8 lt; do cp "$dir/tests/attn" "$dir/tests/$t"; done
cat >"$dir/bin/compute-sanitizer" <<'END'
#!/bin/sh
[ "$1 $3 $4" = "--tool --error-exitcode 9" ] || exit 77
tool=$2; shift 4
[ "$(basename "$1")" != "$SLOW" ] || exec sleep 60
[ "$tool $(basename "$1")$2" != "$RACE" ] || { echo "===== a race"; exit 9; }
"$@"
END
cat >"$dir/bin/nvidia-smi" <<'END'
#!/bin/sh
case "$*" in
    -L) echo "GPU 0: x";; *memory.used*) echo 77;; *=name*) echo "NVIDIA H100 80GB HBM3";;
    *compute_cap*) echo "9.0";; *memory.total*) echo "${MEMORY:-80000}";;
esac
END
# In place of gpt-train and of what measures: at once; the device's losses are off by WRONG in the type ONLY.
cat >"$dir/quick/gpt-train" <<'END'
#!/bin/sh
case "$*" in *--dry-run*) echo '{"bytes": 1000000000}'; exit;; esac
by=0; case "$*" in *"-d cuda --dtype $ONLY "*"/s") by=$WRONG;; esac
case "$*" in *"-B 2 "*) echo "$@" >>"$RAN";; esac
for i in 1 2 3 4 5 6; do awk -v i=$i -v by=$by 'BEGIN {printf "{\"step\": %d, \"loss\": %.9f, \"tok_per_s\": 5, \"mfu\": 0.1}\n", i, 7 - i / 9 + by}'; done
END
cat >"$dir/quick/decode" <<'END'
#!/bin/sh
[ "$FAILS" != bench ] && echo '{"tok_per_s": 1, "of_bandwidth": 0.1}'
END
cp "$dir/quick/decode" "$dir/quick/ops"
chmod +x "$dir/bin"/* "$dir/quick"/*
export RAN="$dir/ran" FAILS= HANGS= RACE= SLOW= ONLY=none WRONG=0 OMP_NUM_THREADS=1 GPU_DEVICE=cuda GPU_TESTS="$dir/tests" GPU_BENCH="$dir/quick" \
    GPU_T=32 GPU_DOCS=20 GPU_VOCAB=400 GPU_DEPTHS="2 1" GPU_ROWS="2 2" GPU_STEPS="3 2" GPU_OPS="--depth 1 -t 0 sumsq" GPU_SMALL="--depth 2 --aspect-ratio 16 --head-dim 32"
gpu() { : >"$RAN"; "$top/tests/gpu.sh" >"$dir/out" 2>"$dir/err"; }
what() { jq -c "$1" "$dir/out" || cat "$dir/err"; }

# ---- all of it, on the emulator
if [ -x "$BUILD/emu/tests/bench/decode" ]; then
    ok "all of it" "GPU_BENCH='$BUILD/emu/tests/bench' PATH='$dir/bin:$BUILD/emu/bin:$PATH'; CUEMU_CAPABILITY=90; export CUEMU_CAPABILITY; gpu"
    is "  passes, and nothing was left out" "what '[.passed, .left_out, .cut_off, .seconds < 120, .peak_tflops]'" '[true,[],[],true,989]'
    is "  operations, golden cases and steps come first" "what '[.tests[].test]'" '["ops","attn","optim","golden_model","golden_llama","golden_train10","step","decode","fp8","lt","pick"]'
    is "  each operation under both tools" "what '[.sanitizer[] | .tool + \" \" + .test]'" "$(for t in memcheck racecheck; do for w in 'ops rmsnorm' 'ops mix, x = z' attn optim pick decode fp8; do echo "\"$t $w\""; done; done | paste -s -d , | sed 's/.*/[&]/')"
    is "  with that operation's name" "grep -cx 'ops mix, x = z' $RAN" 2
    is "  losses agree with the CPU's" "what '[.loss_off_cpu | .fp32 <= 1e-5, .bf16 <= 1e-3, .fp32 + .bf16 > 0]'" '[true,true,true]'
    is "  two models are trained, and one in eight bits" "what '[.training[], .training_fp8 | [.depth, .dtype, .rows, .steps, .tok_per_s > 0, .loss > 3, .mib_used, .bytes_planned > 1e7]]'" \
        '[[2,"bf16",2,3,true,true,77,true],[1,"bf16",2,2,true,true,77,true],[2,"fp8",2,3,true,true,77,true]]'
    is "  and decode" "what '[.decoding[] | [.depth, .rounds, .tokens, .tok_per_s > 0, .least_us <= .us_a_token and .us_a_token <= .most_us, .of_bandwidth > 0]]'" '[[2,7,4,true,true,true],[1,7,4,true,true,true]]'
    is "  operations are timed" "what '[.ops[] | .op // .tier]'" '["cuda","sumsq"]'
else
    skip "all of it" "no emulator: no C++ compiler"
fi

# ---- faults
PATH="$dir/bin:$dir/quick:$PATH"
ok "nothing fails" "gpu"
for off in "fp32 2e-5" "bf16 2e-3"; do
    exits 1 "losses $off beside the CPU's" "ONLY=${off% *} WRONG=${off#* }; gpu"
    is "  fail it" "what '[.passed, .left_out]'; grep -c 'not the CPU' $dir/err" '[false,[]]
1'
done
ok "losses less far from the CPU's" "ONLY=fp32 WRONG=8e-6; gpu"
exits 1 "a test that fails" "FAILS=golden_model; gpu"
is "  is told, and fails it" "what '[.passed, .left_out, .cut_off, (.tests[] | select(.failed > 0).test)]'" '[false,[],[],"golden_model"]'
exits 1 "a race in one operation" "RACE='racecheck opsrmsnorm'; export RACE; gpu"
is "  is told, and fails it" "what '[.passed, (.sanitizer[] | select(.exit != 0))]'; grep -c 'a race' $dir/err" '[false,{"tool":"racecheck","test":"ops rmsnorm","exit":9}]
1'
exits 1 "what measures fails" "FAILS=bench; gpu"
is "  is told, and fails it" "grep -c -e 'decoding.*: exit 1' -e 'operations could not be timed' $dir/err; what '[.decoding, .ops]'" "3
[[],[]]"
exits 1 "a test that is not there" "mv $dir/tests/step $dir/step; gpu; r=\$?; mv $dir/step $dir/tests/step; exit \$r"
is "as many rows as fit into the device's memory" "MEMORY=900; export MEMORY; gpu; grep -c -e '-B 2 ' $RAN; what '.training[].rows'" "0
1
1"
if [ -n "$installed" ]; then skip "without compute-sanitizer" "it is installed"
else
    exits 1 "without compute-sanitizer" "mv $dir/bin/compute-sanitizer $dir/cs; gpu; r=\$?; mv $dir/cs $dir/bin/compute-sanitizer; exit \$r"
    is "  it is not whole" "what '[.passed, .left_out]'" '[false,["sanitizer"]]'
fi

# ---- time: of 8 seconds the tests have 3.2, the sanitizer may go on to the 5.8th; what hangs, for 60
hang() { begin=$(date +%s); HANGS=$1 GPU_BUDGET=$2; export GPU_BUDGET; gpu; r=$?; [ $(($(date +%s) - begin)) -le $((GPU_BUDGET + 20)) ] || r=9; exit $r; }
exits 1 "tests that hang, within the budget" "hang 'ops attn step' 8"
is "  are cut off, and what came too late is named" "what '[.passed, .cut_off[0], (.left_out | index(\"attn\", \"step\") != null)]'" '[false,"ops",true,true]'
is "  neither is among what was run" "what '[.tests[].test]'" '["ops"]'
exits 1 "a sanitizer that hangs" "HANGS=none; export SLOW=optim; hang none 8"
is "  is cut off, and does not pass" "what '[.passed, (.cut_off | index(\"memcheck, optim\") != null)]'" '[false,true]'
finish
