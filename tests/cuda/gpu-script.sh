# tests/gpu.sh, tried out on the CPU: what it would do on a GPU but the tests there.
. "$(dirname "$0")/../lib.sh"
if command -v jq >/dev/null; then
    export GPU_DEVICE=cpu GPU_DEPTH=2 GPU_T=64 GPU_ROWS=2 GPU_STEPS=4 GPU_VOCAB=1000
    ok "tests/gpu.sh" "$top/tests/gpu.sh >'$dir/out'"
    is "its report" "jq -c '[.passed, .training.steps, .training.tok_per_s > 0, .training.bytes_planned > 1e7, .training_fp8, .loss_off_cpu, .decoding.tok_per_s >= 0]' '$dir/out'" \
        '[true,4,true,true,null,{"fp32":0,"bf16":0},true]'
else
    skip "tests/gpu.sh" "jq is not installed"
fi
if [ -x "$(command -v nvidia-smi)" ]; then
    skip "without a device" "there is one"
else
    says 2 "no device" "without a device it says so" "GPU_DEVICE=cuda $top/tests/gpu.sh"
fi
finish
