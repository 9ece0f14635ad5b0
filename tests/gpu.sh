#!/bin/sh
# gpu.sh -- make check-gpu: the CUDA back-end on a real device, in at most 8 minutes. stdout: one JSON
# object; stderr: how it goes. Exit 1 if a test failed, 2 without a device.
#
#   tests      tests/cuda/*.c, whose kernels run on the device here, each twice or more: same bits
#   sanitizer  compute-sanitizer memcheck and racecheck on some of them, if it is installed
#   ops        each operation of a step of depth 20 against the device's roofs
#   training   depth 12 in bf16, 100 steps: tok/s, MFU, memory; the same in fp8 from compute capability
#              8.9 on; losses of 20 steps against the CPU's
#   two        20 losses of two ranks on two devices, if there are two, against the CPU's
#   decoding   a row of 256 tokens from that model: tok/s, and what part of the bandwidth that is
#
# GPU_PEAK=TFLOPS (bf16, dense) and GPU_BANDWIDTH=GB/s where the device is not in the table below.
# GPU_DEPTH, GPU_ROWS, GPU_STEPS: of the training run. GPU_DEVICE=cpu tries the script out without a device.
set -u
: "${BUILD:=build}" "${GPU_DEPTH:=12}" "${GPU_ROWS:=32}" "${GPU_STEPS:=100}" "${GPU_DEVICE:=cuda}" "${GPU_T:=2048}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
say() { echo "gpu: $*" >&2; }
failed=0; begin=$(date +%s)
left() { echo $((480 - $(date +%s) + begin)); }

name=cpu
if [ "$GPU_DEVICE" != cpu ]; then
    name=$(nvidia-smi --query-gpu=name --format=csv,noheader -i 0 2>/dev/null) || { say "no device: nvidia-smi finds none"; exit 2; }
fi
case $name in
    *H100*PCIe*) roof="756 2000";;  *H100*|*GH200*) roof="989 3350";;  *H200*) roof="989 4800";;
    *B200*) roof="2250 8000";;      *A100*80GB*) roof="312 2039";;     *A100*) roof="312 1555";;
    *L40S*) roof="362 864";;        *"RTX 4090"*) roof="165 1008";;    *"RTX 5090"*) roof="209 1792";;
    *) roof="0 0";;
esac
peak=${GPU_PEAK:-${roof% *}}; bandwidth=${GPU_BANDWIDTH:-${roof#* }}
capability=$([ "$GPU_DEVICE" = cpu ] || nvidia-smi --query-gpu=compute_cap --format=csv,noheader -i 0 | tr -d .)
say "$name, peak $peak TFLOP/s, memory $bandwidth GB/s"

# ---- tests
tests=
for t in "$BUILD"/gpu/tests/cuda/*; do
    [ "$GPU_DEVICE" != cpu ] || break
    case $t in *.d) continue;; esac
    timeout 120 "$t" >"$dir/tap" 2>&1; rc=$?
    good=$(grep -c '^ok' "$dir/tap"); bad=$(grep -c '^not ok' "$dir/tap")
    [ $rc -eq 0 ] || { failed=1; grep -A4 '^not ok' "$dir/tap" >&2; tail -n 3 "$dir/tap" >&2; }
    say "$(basename "$t"): $good passed, $bad failed (exit $rc)"
    tests="$tests${tests:+, }{\"test\": \"$(basename "$t")\", \"passed\": $good, \"failed\": $bad, \"exit\": $rc}"
done

# ---- sanitizer: errors are its exit status
sanitizer=
if [ "$GPU_DEVICE" != cpu ] && command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck; do
        for what in attn fp8 "ops rmsnorm" "ops embed" "ops xent" "ops route"; do
            [ "$(left)" -gt 240 ] || break
            # shellcheck disable=SC2086
            set -- $what
            b=$1; shift
            timeout 60 compute-sanitizer --tool $tool --error-exitcode 9 "$BUILD/gpu/tests/cuda/$b" "$@" >"$dir/san" 2>&1; rc=$?
            [ $rc -eq 0 ] || [ $rc -eq 124 ] || { failed=1; grep '=====' "$dir/san" | head -n 20 >&2; }
            say "$tool, $what: exit $rc$([ $rc -ne 124 ] || echo ' (cut off after a minute)')"
            sanitizer="$sanitizer${sanitizer:+, }{\"tool\": \"$tool\", \"test\": \"$what\", \"exit\": $rc}"
        done
    done
else
    say "no compute-sanitizer: not run"
fi

# ---- operations
ops=
if [ "$GPU_DEVICE" != cpu ]; then
    ops=$(timeout 60 "$BUILD/tests/bench/ops" -d cuda --dtype bf16 --depth 20 --rows 16 -t 0.2 --peak "$peak" \
        --bandwidth "$bandwidth" --json | paste -s -d ,)
    [ -n "$ops" ] || { say "the operations could not be timed"; failed=1; }
fi

# ---- training. Words of two to four syllables, the same bytes everywhere; common ones first.
awk 'function rnd(k) { x = (x * 16807) % 2147483647; return int(x / 2147483647 * k) }
    BEGIN { x = 7; n = split("ba ce di fo gu ha je ki lo mu na pe ri so tu va we xi yo zu bre cli dro flu gra kri plo stu tra swe", s, " ")
        for (w = 0; w < 20000; w++) { word[w] = ""; for (k = 1 + rnd(3); k >= 0; k--) word[w] = word[w] s[1 + rnd(n)] }
        for (d = 0; d < 1500; d++) { for (i = 0; i < 400; i++) { r = rnd(20000); printf "%s ", word[int(r * r / 20000)] } print ".\n" } }' </dev/null |
    data-fetch -q -o "$dir/text.jsonl" && bpe-train -q -v "${GPU_VOCAB:-32768}" -o "$dir/a.tok" "$dir/text.jsonl" &&
    tok-encode -q -t "$dir/a.tok" "$dir/text.jsonl" | pack-rows -q -T "$GPU_T" -o "$dir/a.rows" || { say "no data"; exit 1; }
train() { gpt-train -q -t "$dir/a.tok" --train "$dir/a.rows" --force "$@"; }
field() { sed -n "s/.*\"$1\": \([0-9.e+-]*\).*/\1/p"; }
size="--depth $GPU_DEPTH -B $GPU_ROWS --total-batch-size $((GPU_ROWS * GPU_T))"
# GPU_STEPS steps in a type: rate, mfu, loss, used, planned
measured() {
    # shellcheck disable=SC2086
    planned=$(train $size --dry-run --json -d "$GPU_DEVICE" --dtype "$1" -o "$dir/$1" | tr ',' '\n' | field bytes | head -n 1)
    { [ "$GPU_DEVICE" = cpu ] || timeout 300 nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -lms 500; } >"$dir/used" & poll=$!
    # shellcheck disable=SC2086
    timeout "$2" gpt-train -q -t "$dir/a.tok" --train "$dir/a.rows" --force $size --steps "$GPU_STEPS" -d "$GPU_DEVICE" --dtype "$1" \
        --peak-flops "${peak}e12" -o "$dir/$1" >"$dir/train.jsonl" || { say "training in $1 failed"; failed=1; }
    kill $poll 2>/dev/null
    used=$(sort -n "$dir/used" | tail -n 1)
    # the median of the second half
    rate=$(field tok_per_s <"$dir/train.jsonl" | awk -v n="$GPU_STEPS" 'NR > n / 2' | sort -n | awk '{v[NR] = $1} END {print NR ? v[int((NR + 1) / 2)] : 0}')
    mfu=$(field mfu <"$dir/train.jsonl" | tail -n 1)
    loss=$(field loss <"$dir/train.jsonl" | tail -n 1)
    say "depth $GPU_DEPTH, $1, $GPU_STEPS steps: $rate tok/s, MFU ${mfu:-?}, loss $loss, ${used:-?} MiB of the device in use (planned ${planned:-?} bytes)"
}
report() {
    printf '{"depth": %s, "rows": %s, "steps": %s, "tok_per_s": %s, "mfu": %s, "loss": %s, "mib_used": %s, "bytes_planned": %s}' \
        "$GPU_DEPTH" "$GPU_ROWS" "$GPU_STEPS" "$rate" "${mfu:-null}" "${loss:-null}" "${used:-null}" "${planned:-null}"
}
measured bf16 200
training=$(report) loss16=$loss

# in eight bits, where the device has them: the loss of bf16, within what its noise may do in so few steps
fp8=null
if [ "${capability:-0}" -lt 89 ]; then say "no fp8: compute capability $capability"
elif [ "$(left)" -lt 120 ]; then say "no time for fp8"
else
    measured fp8 100
    fp8=$(report)
    awk -v a="${loss:-99}" -v b="${loss16:-0}" 'BEGIN {d = a - b; exit !(d < 0.1 && -d < 0.1)}' || { failed=1; say "fp8: not bf16's loss"; }
fi

# losses of a small model, device against CPU, both types
small="--depth 4 --aspect-ratio 32 --steps 20 --total-batch-size $((2 * GPU_T)) -B 1"
# apart NAME: how far that run's 20 losses are from the CPU's at most
apart() {
    paste "$dir/loss.cpu" "$dir/loss.$1" |
        awk '{d = $1 - $2; if (d < 0) d = -d; if (d > m) m = d} END {printf "%.2g", NF < 2 || NR < 20 ? 99 : m}'
}
agree=
for dtype in fp32 bf16; do
    for d in cpu "$GPU_DEVICE"; do
        # shellcheck disable=SC2086
        train $small -d "$d" --dtype $dtype -o "$dir/s" | field loss >"$dir/loss.$d"
    done
    off=$(apart "$GPU_DEVICE")
    awk -v x="$off" -v may="$([ $dtype = fp32 ] && echo 1e-3 || echo 2e-2)" 'BEGIN {exit !(x <= may)}' || { failed=1; say "$dtype: not the CPU's losses"; }
    say "$dtype: 20 losses within $off of the CPU's"
    agree="$agree${agree:+, }\"$dtype\": $off"
done

# ---- two devices, as two ranks: 20 losses of that model again
two=null
if [ "${GPU_RANKS:-1}" -ge 2 ] || { [ "$GPU_DEVICE" != cpu ] && [ "$(nvidia-smi -L | wc -l)" -ge 2 ]; }; then
    train() { timeout 120 mpirun -np 2 gpt-train -q -j 1 -t "$dir/a.tok" --train "$dir/a.rows" --force "$@" </dev/null; }
    # shellcheck disable=SC2086
    train $small -d "$GPU_DEVICE" --dtype bf16 -o "$dir/s" | field loss >"$dir/loss.2"
    two=$(apart 2)
    awk -v x="$two" 'BEGIN {exit !(x <= 2e-2)}' || { failed=1; say "two ranks: not the CPU's losses"; }
    say "two ranks: 20 losses within $two of the CPU's"
fi

# ---- decoding: a short and a long answer; the difference is that of the tokens
decode() {
    gpt-sample -q -m "$dir/bf16" -d "$GPU_DEVICE" --dtype bf16 -p ba -n "$1" --temperature 0 --json |
        sed -n 's/.*"tokens": *\([0-9]*\).*/\1/p'
}
clock() { date +%s.%N; }
t0=$(clock); few=$(decode $((GPU_T / 64))); t1=$(clock); many=$(decode $((GPU_T / 8))); t2=$(clock)
# bytes a token: all weights but the embeddings, as bf16
weights=$(awk -v d="$GPU_DEPTH" 'BEGIN {c = 128 * int((d + 1) / 2); print 2 * (12 * d * c * c + 32768 * c)}')
decoding=$(awk -v a="$t0" -v b="$t1" -v c="$t2" -v n="$((many - few))" -v w="$weights" -v bw="$bandwidth" 'BEGIN {
    d = (c - b) - (b - a); r = n > 0 && d > 0 ? n / d : 0; printf "\"tok_per_s\": %.1f, \"of_bandwidth\": %s", r, (bw > 0 ? sprintf("%.3f", r * w / (bw * 1e9)) : "null")}')
say "decoding: $decoding"

printf '{"device": "%s", "peak_tflops": %s, "bandwidth_gbytes": %s, "passed": %s, "seconds": %s,\n' \
    "$name" "$peak" "$bandwidth" "$([ $failed = 0 ] && echo true || echo false)" "$((480 - $(left)))"
printf ' "tests": [%s],\n "sanitizer": [%s],\n "ops": [%s],\n' "$tests" "$sanitizer" "$ops"
printf ' "training": %s,\n "training_fp8": %s,\n' "$training" "$fp8"
printf ' "loss_off_cpu": {%s},\n "two_ranks_off_cpu": %s,\n "decoding": {%s}}\n' "$agree" "$two" "$decoding"
exit $failed
