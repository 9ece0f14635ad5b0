#!/bin/sh
# gpu.sh -- make check-gpu: the CUDA back-end on a real device, in at most 8 minutes. stdout: one JSON
# object; stderr: how it goes. Exit 1 unless all of it was done and passed, 2 without a device.
#
#   tests      tests/cuda/*.c, whose kernels run on the device here, each twice or more: same bits.
#              Operations, golden cases and whole steps come first
#   losses     of six steps of a small model against the CPU's, both types, within 1e-5 and 1e-3
#   sanitizer  compute-sanitizer memcheck and racecheck on every operation's small shapes and on what
#              is none: the optimizers, sampling, decoding, eight bits
#   training   depth 12 in bf16, 100 steps, and depth 20, 20 steps: tok/s, MFU, memory
#   decoding   one row of those two models: tok/s, and what part of the bandwidth that is
#   ops        each operation of a step of depth 20 against the device's roofs
#   fp8        depth 12 in eight bits, from compute capability 8.9 on: bf16's loss
#   two        the losses of two ranks on two devices, if there are two, against the CPU's
#
# Each part has its share of the 8 minutes, and what those before it left. What is cut off has failed; what
# could not begin is named in "left_out": either way "passed" is false.
#
# GPU_PEAK=TFLOPS (bf16, dense) and GPU_BANDWIDTH=GB/s where the device is not in the table below.
# GPU_DEPTHS, GPU_ROWS, GPU_STEPS: of the training runs, two each. GPU_SMALL: the model whose losses are
# compared. GPU_BUDGET: seconds. GPU_TESTS, GPU_BENCH: folders with the programs; GPU_OPS: how the
# operations are timed. GPU_DEVICE=cpu tries the script out without a device, but for the tests and the
# sanitizer unless GPU_TESTS is set.
set -u
: "${BUILD:=build}" "${GPU_DEPTHS:=12 20}" "${GPU_ROWS:=32 16}" "${GPU_STEPS:=100 20}" "${GPU_DEVICE:=cuda}"
: "${GPU_T:=2048}" "${GPU_DOCS:=1500}" "${GPU_SMALL:=--depth 4 --aspect-ratio 32}" "${GPU_BUDGET:=480}" "${GPU_BENCH:=$BUILD/tests/bench}" "${GPU_OPS:=--depth 20 --rows 16 -t 0.2}"
[ "$GPU_DEVICE" = cpu ] || : "${GPU_TESTS:=$BUILD/gpu/tests/cuda}"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
say() { echo "gpu: $*" >&2; }
failed=0; left_out=; cut_off=; done_tests=
fail() { failed=1; say "$*"; }

# ---- time
begin=$(date +%s)
spent() { echo $(($(date +%s) - begin)); }
leave_out() { left_out="$left_out${left_out:+, }\"$1\""; say "$1: left out, ${2:-no time for it}"; }
too_long() { cut_off="$cut_off${cut_off:+, }\"$1\""; fail "$1: cut off"; }
# share MOST UNTIL: the seconds for what comes next, at most MOST and to UNTIL per cent of the budget
share() { s=$((GPU_BUDGET * $2 / 100 - $(spent))); [ "$s" -le "$1" ] || s=$1; }
# timed NAME MOST UNTIL COMMAND ...: COMMAND within that; rc is its exit status, 125 if there is no time
timed() {
    name=$1; share "$2" "$3"; shift 3
    if [ "$s" -lt 1 ]; then leave_out "$name"; rc=125; return 125; fi
    timeout -k 2 "$s" "$@"; rc=$?
    case $rc in 124|137) too_long "$name";; esac
    return $rc
}

# ---- the device
device=cpu; capability=; memory=0; devices=0
query() { nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits -i 0 2>/dev/null; }
if [ "$GPU_DEVICE" != cpu ]; then
    device=$(query name) || { say "no device: nvidia-smi finds none"; exit 2; }
    capability=$(query compute_cap | tr -d .); memory=$(query memory.total); devices=$(nvidia-smi -L | wc -l)
fi
case $device in
    *H100*PCIe*) roof="756 2000";;  *H100*|*GH200*) roof="989 3350";;  *H200*) roof="989 4800";;
    *B200*) roof="2250 8000";;      *A100*80GB*) roof="312 2039";;     *A100*) roof="312 1555";;
    *L40S*) roof="362 864";;        *"RTX 4090"*) roof="165 1008";;    *"RTX 5090"*) roof="209 1792";;
    *) roof="0 0";;
esac
peak=${GPU_PEAK:-${roof% *}}; bandwidth=${GPU_BANDWIDTH:-${roof#* }}
say "$device, peak $peak TFLOP/s, memory $bandwidth GB/s"

# ---- tests
tests=
run_test() {
    timed "$1" 120 40 "$GPU_TESTS/$1" >"$dir/tap" 2>&1
    [ $rc -ne 125 ] || return
    [ "$1" != ops ] || cp "$dir/tap" "$dir/tap.ops"
    good=$(grep -c '^ok' "$dir/tap"); bad=$(grep -c '^not ok' "$dir/tap")
    [ $rc -eq 0 ] || { failed=1; grep -A4 '^not ok' "$dir/tap" >&2; tail -n 3 "$dir/tap" >&2; }
    say "$1: $good passed, $bad failed (exit $rc)"
    tests="$tests${tests:+, }{\"test\": \"$1\", \"passed\": $good, \"failed\": $bad, \"exit\": $rc}"
}
if [ -n "${GPU_TESTS:-}" ]; then
    first="ops attn optim golden_model golden_llama golden_train10 step"
    for t in $first $(cd "$GPU_TESTS" && ls); do
        case $t in *.*) continue;; esac
        case " $done_tests " in *" $t "*) continue;; esac
        done_tests="$done_tests $t"
        if [ -x "$GPU_TESTS/$t" ]; then run_test "$t"; else fail "$t: not built"; fi
    done
fi

# ---- data. Words of two to four syllables, the same bytes everywhere; common ones first.
awk -v docs="$GPU_DOCS" 'function rnd(k) { x = (x * 16807) % 2147483647; return int(x / 2147483647 * k) }
    BEGIN { x = 7; n = split("ba ce di fo gu ha je ki lo mu na pe ri so tu va we xi yo zu bre cli dro flu gra kri plo stu tra swe", s, " ")
        for (w = 0; w < 20000; w++) { word[w] = ""; for (k = 1 + rnd(3); k >= 0; k--) word[w] = word[w] s[1 + rnd(n)] }
        for (d = 0; d < docs; d++) { for (i = 0; i < 400; i++) { r = rnd(20000); printf "%s ", word[int(r * r / 20000)] } print ".\n" } }' </dev/null |
    data-fetch -q -o "$dir/text.jsonl" && bpe-train -q -v "${GPU_VOCAB:-32768}" -o "$dir/a.tok" "$dir/text.jsonl" &&
    tok-encode -q -t "$dir/a.tok" "$dir/text.jsonl" | pack-rows -q -T "$GPU_T" -o "$dir/a.rows" || { say "no data"; exit 1; }
set -- -q -t "$dir/a.tok" --train "$dir/a.rows" --force
field() { sed -n "s/.*\"$1\": \([0-9.e+-]*\).*/\1/p"; }
word() { echo "$2" | cut -d ' ' -f "$1"; }

# ---- losses of a small model before each of five optimizer steps and after the last
small="$GPU_SMALL --steps 6 --total-batch-size $((2 * GPU_T)) -B 1"
# losses NAME UNTIL COMMAND ...: into loss.NAME
losses() {
    to=$1; until=$2; shift 2
    timed "losses, $to" 60 "$until" "$@" >"$dir/small.jsonl" </dev/null
    field loss <"$dir/small.jsonl" >"$dir/loss.$to"
}
# apart A B: how far these losses are from each other at most
apart() {
    paste "$dir/loss.$1" "$dir/loss.$2" |
        awk '{d = $1 - $2; if (d < 0) d = -d; if (d > m) m = d} END {printf "%.2g", NF < 2 || NR != 6 ? 99 : m}'
}
near() { awk -v x="$1" -v may="$2" 'BEGIN {exit !(x <= may)}'; }
agree=
for dtype in fp32 bf16; do
    may=$([ $dtype = fp32 ] && echo 1e-5 || echo 1e-3)
    for d in cpu device; do
        # shellcheck disable=SC2086
        losses "$dtype-$d" 50 gpt-train "$@" $small -d "$([ $d = cpu ] && echo cpu || echo "$GPU_DEVICE")" --dtype $dtype -o "$dir/s"
    done
    [ $rc -ne 125 ] || continue
    off=$(apart $dtype-cpu $dtype-device)
    near "$off" "$may" || fail "$dtype: not the CPU's losses"
    say "$dtype: losses within $off of the CPU's"
    agree="$agree${agree:+, }\"$dtype\": $off"
done

# ---- sanitizer: errors are its exit status. Several at a time: their speed does not matter.
sanitizer=
one='
i=${1%%|*}; r=${1#*|}; tool=${r%%|*}; r=${r#*|}; what=${r%%|*}; arg=${r#*|}
s=$((end - $(date +%s))); [ $s -le 90 ] || s=90
if [ $s -lt 1 ]; then rc=125; else
    timeout -k 2 $s compute-sanitizer --tool $tool --error-exitcode 9 "$GPU_TESTS/$what" ${arg:+"$arg"} >"$dir/san.$i" 2>&1; rc=$?
fi
echo $rc >"$dir/san.$i.rc"'
if [ -z "${GPU_TESTS:-}" ]; then say "no tests: no sanitizer"
elif ! command -v compute-sanitizer >/dev/null; then leave_out sanitizer "compute-sanitizer is not installed"
elif ! [ -s "$dir/tap.ops" ]; then leave_out sanitizer "there are no operations' names without their tests"
else
    # the operations are those that the tests named: "ok 1 - rmsnorm cuda (7 33): ..."
    { sed -n 's/^\(not \)*ok [0-9]* - \([^(]*[^ (]\) cuda (.*/ops|\2/p' "$dir/tap.ops" | awk '!s[$0]++'
      printf '%s|\n' attn optim pick decode fp8; } |
        awk '{print NR "|memcheck|" $0; print 1000 + NR "|racecheck|" $0}' | sort -t '|' -k 2,2 -k 1,1n >"$dir/jobs"
    end=$((begin + GPU_BUDGET * 72 / 100))
    export dir GPU_TESTS end
    xargs -d '\n' -n 1 -P 4 sh -c "$one" sh <"$dir/jobs"
    while IFS='|' read -r i tool what arg; do
        rc=$(cat "$dir/san.$i.rc" 2>/dev/null); job="$tool, $what${arg:+ $arg}"
        case ${rc:=none} in
            0) ;;
            125) leave_out "$job"; continue;;
            124|137) too_long "$job";;
            *) fail "$job: exit $rc"; grep '=====' "$dir/san.$i" | head -n 20 >&2;;
        esac
        sanitizer="$sanitizer${sanitizer:+, }{\"tool\": \"$tool\", \"test\": \"$what${arg:+ $arg}\", \"exit\": $rc}"
    done <"$dir/jobs"
    say "sanitizer: $(wc -l <"$dir/jobs") runs wanted"
fi

# ---- training
# planned: the bytes of a micro-batch of $rows rows; halves $rows until they fit the device
fit() {
    while :; do
        planned=$(timeout -k 2 "$s" gpt-train "$@" --dry-run --json -B "$rows" --total-batch-size $((rows * GPU_T)) | tr ',' '\n' | field bytes | head -n 1)
        [ "$memory" -gt 0 ] && [ "$rows" -gt 1 ] || return
        awk -v p="${planned:-0}" -v m="$memory" 'BEGIN {exit !(p > 0.92 * m * 1048576)}' || return
        rows=$((rows / 2))
    done
}
# measured DTYPE WHICH UNTIL: its steps, of the WHICH-th depth; report: rate, MFU, loss, memory used and planned
measured() {
    depth=$(word "$2" "$GPU_DEPTHS"); rows=$(word "$2" "$GPU_ROWS"); steps=$(word "$2" "$GPU_STEPS"); report=null; loss=
    job="training, depth $depth, $1"; until=$3; dtype=$1
    share 90 "$until"; [ "$s" -ge 1 ] || { leave_out "$job"; return; }
    set -- -q -t "$dir/a.tok" --train "$dir/a.rows" --force --depth "$depth" -d "$GPU_DEVICE" --dtype "$dtype" -o "$dir/$dtype"
    fit "$@"
    { [ "$GPU_DEVICE" = cpu ] || timeout 300 nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -lms 500; } >"$dir/used" & poll=$!
    timed "$job" 90 "$until" gpt-train "$@" -B "$rows" --total-batch-size $((rows * GPU_T)) --steps "$steps" \
        --peak-flops "${peak}e12" >"$dir/train.jsonl" || { [ $rc -eq 125 ] || fail "$job: exit $rc"; }
    kill $poll 2>/dev/null
    used=$(sort -n "$dir/used" | tail -n 1)
    # the median of the second half
    rate=$(field tok_per_s <"$dir/train.jsonl" | awk -v n="$steps" 'NR > n / 2' | sort -n | awk '{v[NR] = $1} END {print NR ? v[int((NR + 1) / 2)] : 0}')
    mfu=$(field mfu <"$dir/train.jsonl" | tail -n 1)
    loss=$(field loss <"$dir/train.jsonl" | tail -n 1)
    say "$job, $steps steps of $rows rows: $rate tok/s, MFU ${mfu:-?}, loss ${loss:-?}, ${used:-?} MiB of the device in use (planned ${planned:-?} bytes)"
    report=$(printf '{"depth": %s, "dtype": "%s", "rows": %s, "steps": %s, "tok_per_s": %s, "mfu": %s, "loss": %s, "mib_used": %s, "bytes_planned": %s}' \
        "$depth" "$dtype" "$rows" "$steps" "$rate" "${mfu:-null}" "${loss:-null}" "${used:-null}" "${planned:-null}")
}
measured bf16 1 84; training=$report; loss16=$loss
measured bf16 2 90; training="$training, $report"

# ---- decoding: random weights; timed in the process, the median of several rounds
decoding=
for depth in $GPU_DEPTHS; do
    timed "decoding, depth $depth" 30 94 "$GPU_BENCH/decode" -d "$GPU_DEVICE" --dtype bf16 --depth "$depth" --vocab "${GPU_VOCAB:-32768}" \
        --prompt $((GPU_T / 32)) -n $((GPU_T / 8)) --rounds 7 --bandwidth "$bandwidth" --json >"$dir/decode"
    [ $rc -eq 0 ] && [ -s "$dir/decode" ] || { [ $rc -eq 125 ] || fail "decoding, depth $depth: exit $rc"; continue; }
    say "decoding, depth $depth: $(field tok_per_s <"$dir/decode") tok/s, $(field of_bandwidth <"$dir/decode") of the bandwidth"
    decoding="$decoding${decoding:+, }$(cat "$dir/decode")"
done

# ---- operations
ops=
if [ "$GPU_DEVICE" != cpu ]; then
    # shellcheck disable=SC2086
    timed "operations" 40 97 "$GPU_BENCH/ops" -d "$GPU_DEVICE" --dtype bf16 --peak "$peak" --bandwidth "$bandwidth" --json $GPU_OPS >"$dir/ops"
    [ $rc -eq 0 ] && [ -s "$dir/ops" ] || [ $rc -eq 125 ] || fail "the operations could not be timed: exit $rc"
    ops=$(paste -s -d , "$dir/ops" 2>/dev/null)
fi

# ---- in eight bits, where the device has them: the loss of bf16, within what its noise may do in so few steps
fp8=null
if [ "${capability:-0}" -lt 89 ]; then say "no fp8: compute capability ${capability:-0}"
else
    measured fp8 1 98; fp8=$report
    [ "$fp8" = null ] || awk -v a="${loss:-99}" -v b="${loss16:-0}" 'BEGIN {d = a - b; exit !(d < 0.1 && -d < 0.1)}' || fail "fp8: not bf16's loss"
fi

# ---- two devices, as two ranks
two=null
if [ "${GPU_RANKS:-1}" -ge 2 ] || [ "$devices" -ge 2 ]; then
    # shellcheck disable=SC2086
    losses two-ranks 98 mpirun -np 2 gpt-train "$@" -j 1 $small -d "$GPU_DEVICE" --dtype bf16 -o "$dir/s"
    if [ $rc -ne 125 ]; then
        two=$(apart bf16-cpu two-ranks)
        near "$two" 1e-3 || fail "two ranks: not the CPU's losses"
        say "two ranks: losses within $two of the CPU's"
    fi
fi

passed=$([ $failed = 0 ] && [ -z "$left_out" ] && echo true || echo false)
printf '{"device": "%s", "peak_tflops": %s, "bandwidth_gbytes": %s, "passed": %s, "seconds": %s,\n' \
    "$device" "$peak" "$bandwidth" "$passed" "$(spent)"
printf ' "left_out": [%s],\n "cut_off": [%s],\n "tests": [%s],\n "sanitizer": [%s],\n' "$left_out" "$cut_off" "$tests" "$sanitizer"
printf ' "loss_off_cpu": {%s},\n "training": [%s],\n "decoding": [%s],\n' "$agree" "$training" "$decoding"
printf ' "ops": [%s],\n "training_fp8": %s,\n "two_ranks_off_cpu": %s}\n' "$ops" "$fp8" "$two"
[ "$passed" = true ]
