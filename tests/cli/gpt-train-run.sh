# gpt-train along the way: checkpoints that are kept, metrics in a file, status, horizons.
. "$(dirname "$0")/../lib.sh"

i=0; while [ $i -lt 60 ]; do echo "{\"text\": \"line $i: the cat sat on mat $((i * 7 % 13)), and the dog did not.\"}"; i=$((i+1)); done >"$dir/docs.jsonl"
cd "$dir" || exit 1
bpe-train -q -v 300 -o a.tok docs.jsonl && tok-encode -q -t a.tok docs.jsonl | pack-rows -q -T 32 -o a.rows || exit 1
size="--depth 2 --aspect-ratio 16 --head-dim 16 -t a.tok --train a.rows"
base0="gpt-train -q -j 1 $size"
base="$base0 --total-batch-size 64"
names() { (cd "$1" && ls -d step-* best 2>/dev/null | tr '\n' ' '); }
same() { diff -r -x clock.json -x status.json "$1" "$2"; }
field() { sed -n "s/^  \"$2\": \([^,]*\),*\$/\1/p" "$1"; }

# ---- checkpoints
$base --val a.rows --steps 10 --save-every 2 --eval-every 2 --keep 3 --keep-best --metrics m.jsonl -o m || exit 1
is "the last three are kept, and the best" "names m" "best step-000006 step-000008 step-000010 "
ok "the newest kept one is the checkpoint" "same m/step-000010 m 2>&1 | grep -v '^Only in m: '; cmp m/model.safetensors m/step-000010/model.safetensors"
is "kept ones take no room of their own while they are the newest" "stat -c %i m/model.safetensors" "$(stat -c %i m/step-000010/model.safetensors)"
ok "a kept one can be gone on from" "gpt-train -q -j 1 --resume -o m/step-000006 --metrics m6.jsonl && cmp m/model.safetensors m/step-000006/model.safetensors && cmp m/optimizer-0.safetensors m/step-000006/optimizer-0.safetensors"
is "  in its own place" "names m/step-000006" "best step-000008 step-000010 "
cp -r m torn && rm -r torn/step-000010
ok "one that a kill left out is made at the resume" "gpt-train -q -j 1 --resume -o torn --metrics - >torn.log && same m/step-000010 torn/step-000010"
is "  and the older ones stay as many" "names torn" "best step-000006 step-000008 step-000010 "
ok "the best is a model" "gpt-eval -q -m m/best bpb --limit 16 a.rows >best.json"
best=$(field m/state.json best_val_bpb)
is "  with the best bpb on record" "grep -o '\"bpb\": [0-9.]*' best.json | cut -c 1-14" "$(echo "\"bpb\": $best" | cut -c 1-14)"
is "  which is the least of the metrics" "grep '\"loss\"' m.jsonl | sed -n 's/.*\"val_bpb\": \([0-9.]*\).*/\1/p' | sort -n | head -n 1" "$best"
says 1 "weights only" "the best is nothing to resume" "gpt-train -q --resume -o m/best"
says 0 "--keep-best: no --val" "no validation, no best" "gpt-train -j 1 --depth 2 --aspect-ratio 16 --head-dim 16 --total-batch-size 64 -t a.tok --train a.rows --steps 1 --keep-best -o nob >/dev/null"

bytes=$(printf 'b\377.rows'); cp a.rows "$bytes"
says 2 "is not UTF-8" "a name that a resume could not find again" "$base0 --total-batch-size 64 --train '$bytes' -t a.tok --steps 1 -o bytes"

# ---- over an older run
cp -r m over; rm -r over/step-000006; mkdir over/step-000004; touch over/step-000004/notes
says 1 "holds a model already" "a run over another one is refused" "$base --steps 3 --metrics none.jsonl -o over"
ok "  and leaves all there" "[ \"\$(names over)\" = 'best step-000004 step-000008 step-000010 ' ] && [ ! -e none.jsonl ]"
says 1 "m.jsonl: is there already" "so is one over another's metrics" "$base --steps 3 --metrics m.jsonl -o over2"
ok "--force" "cp m.jsonl o.jsonl; $base --steps 3 --stop-at 1 --keep 2 --force --metrics o.jsonl -o over"
is "  takes away what was kept of the older run, and no more" "names over" "step-000001 step-000004 "
ok "  which a new one is equal to" "$base --steps 3 --stop-at 1 --keep 2 --metrics o2.jsonl -o over2; rm -r over/step-000004; diff -r -x clock.json -x status.json -x state.json over over2"
ok "  and so are its metrics" "[ \$(grep -c '\"loss\"' o.jsonl) = 1 ]"
cp -r m over3
says 1 "over3/best: --force would remove it" "nor what the run is to begin with" "$base --force --init over3/best --steps 1 --metrics none.jsonl -o over3"
says 1 "the horizon is" "--force with a mistake takes away nothing" "! $base --force --tokens 3 -o over3 2>&1 | grep 'the horizon is' >&2"
is "  indeed" "names over3" "$(names m)"

# ---- SIGUSR1
: >u.jsonl
$base --steps 1000000 --save-every 0 --metrics u.jsonl -o u 2>u.err & pid=$!
while [ "$(wc -l <u.jsonl)" -lt 4 ]; do sleep 0.05; done
kill -USR1 $pid; i=0
while [ ! -e u/state.json ] && [ $i -lt 200 ]; do sleep 0.05; i=$((i+1)); done
ok "SIGUSR1 saves" "[ -e u/state.json ]"
lines=$(wc -l <u.jsonl); i=0
while [ "$(wc -l <u.jsonl)" -le $((lines + 2)) ] && [ $i -lt 200 ]; do sleep 0.05; i=$((i+1)); done
ok "  and goes on" "kill -0 $pid"
says 1 "another program is writing" "a second run in its place is refused" "gpt-train -q --resume -o u"

# ---- status
is "status of a running one" "gpt-train --status u | head -n 1" "u: running"
is "  as JSON" "gpt-train --status u --json | jq -c '[.running, .phase, (.status.step >= 0), .status.pid]'" "[true,\"running\",true,$pid]"
kill -9 $pid; wait $pid 2>/dev/null
is "  of one that was killed" "gpt-train --status u | head -n 1" "u: not running: it was killed, or died"
is "  of a finished one" "gpt-train --status m | head -n 2 | tr '\n' ' ' | cut -c 1-41" "m: finished   step 10 of 10 (100%), epoch"
is "  what is saved" "gpt-train --status m --json | jq -c '[.running, .phase, .saved_step, .steps]'" '[false,"finished",10,10]'
mkdir empty
says 1 "empty: no run here" "  of nothing" "gpt-train --status empty"
says 1 "weights only" "  of weights" "gpt-train --status m/best"
says 1 "none:" "  of no directory" "gpt-train --status none"
echo '{' >empty/status.json
says 1 "not a status" "  of rubbish" "gpt-train --status empty"
exits 1 "  to a full disk" "gpt-train --status m >/dev/full"
is "one that was stopped" "$base --steps 9 --stop-at 3 --metrics s.jsonl -o s; gpt-train --status s | head -n 1" "s: stopped"

# ---- metrics in a file
steps() { sed -n 's/^{"step": \([0-9]*\), "epoch.*/\1/p' "$1" | tr '\n' ' '; }
is "a file has every step" "steps s.jsonl" "1 2 3 "
{ cat s.jsonl; sed -n 's/"step": 3,/"step": 4,/p' s.jsonl; printf '{"step": 5, "ep'; } >killed.jsonl
ok "a resume cuts off what is beyond the checkpoint" "gpt-train -q --resume -o s --metrics killed.jsonl --stop-at 5"
is "  and goes on there" "steps killed.jsonl" "1 2 3 4 5 "
is "  each session is described" "grep -c '^{\"config\"' killed.jsonl" 2
ok "the file is remembered" "gpt-train -q --resume -o s && [ \"\$(steps killed.jsonl)\" = '1 2 3 4 5 6 7 8 9 ' ]"
ok "a finished run's is left alone, but for its description" "gpt-train -q --resume -o s; gpt-train -q --resume -o s; [ \"\$(steps killed.jsonl)\" = '1 2 3 4 5 6 7 8 9 ' ] && [ \$(wc -l <killed.jsonl) -eq 13 ]"
says 0 "its last record is of step 0, but the run stands at step 9" "a gap is told" "gpt-train --resume -o s --metrics new.jsonl"
echo 'not metrics' >notes.txt
says 1 "notes.txt: line 1" "a file of something else is not touched" "gpt-train -q --resume -o s --metrics notes.txt"
is "  indeed" "cat notes.txt" "not metrics"
is "to a pipe" "mkfifo p; cat p >got & $base --steps 2 --metrics p -o pp; wait; steps got" "1 2 "
says 1 "/dev/full: cannot write" "to a full disk" "$base --steps 2 --metrics /dev/full -o fd"
ok "  the run is saved" "[ -s fd/model.safetensors ]"

# ---- the plan is what the run does; what the program itself takes is measured, so it differs a little
planned="$size --val a.rows --keep 2 --doc-mask --ema 0.9 --freeze transformer.h.0.attn.* --schedule cosine --clip-norm 1 --recompute --sample-prompt x"
for o in "--steps 3 --total-batch-size 64" "--total-batch-size 64" "--epochs 2.5 -B 1" "" "--tokens 500 --total-batch-size 64 --dtype bf16"; do
    gpt-train -q -j 1 $planned $o --dry-run --json | jq -S "if . then . else error end" >measured.json
    jq -S 'del(.bytes, .bytes_program)' measured.json >dry.json
    gpt-train -q -j 1 $planned $o --stop-at 1 -o as --force >as.jsonl
    is "planned = done: ${o:-the depth alone}" "head -n 1 as.jsonl | jq -S '.config | del(.start_step, .tokenizer, .device, .dtype, .threads, .version, .bytes, .bytes_program)' | diff - dry.json; wc -l <dry.json | awk '{ print (\$1 > 50) }'" 1
    is "  in memory, too" "head -n 1 as.jsonl | jq --slurpfile p measured.json '.config.bytes / \$p[0].bytes | . > 0.9 and . < 1.1'" true
    is "  and kept" "jq -S .options as/state.json" "$(jq -S .options dry.json)"
done

# ---- data too small for the dial's horizon: eight epochs in 64 steps or more each
dial() { gpt-train --dry-run --json $size "$@" 2>dial.err | jq -c "[(.steps * .total_batch / 32 / .data_rows | round), .total_batch]"; }
rows=$(gpt-train --dry-run --json $size | jq .data_rows)
batch=$(awk -v t=$((rows * 32)) 'BEGIN { b = 32; while (b * 128 <= t) b *= 2; print b }')
is "small data: $rows rows" "dial" "[8,$batch]"
ok "  is told" "grep -q 'planned are 8' dial.err"
is "  a batch of one's own stays" "dial --total-batch-size 256" "[8,256]"
for h in "--ratio 12" "--steps 100" "--epochs 3" "--target-flops 1e12"; do
    ok "  a horizon of one's own stays: $h" "[ \"\$(dial $h)\" != '[8,$batch]' ] && [ ! -s dial.err ]"
done
is "  a resume keeps to the plan" "$base0 --stop-at 2 --metrics /dev/null -o dial; gpt-train -q -j 1 --resume --stop-at 3 --metrics - -o dial | head -n 1 | jq '.config | [(.steps * .total_batch / 32 / .data_rows | round), .total_batch] == [8, $batch]'" true

# ---- horizons and schedules
dry() { gpt-train --dry-run --json --depth 2 --aspect-ratio 16 --head-dim 16 --total-batch-size 64 -t a.tok --train a.rows "$@"; }
plan() { dry "$@" | jq -c '[.steps, .total_tokens]'; }
is "tokens" "plan --tokens 1000" "[15,960]"
is "steps" "plan --steps 15" "[15,960]"
is "hours: not known yet" "plan --hours 2" "[null,null]"
says 2 "less than one step" "too few tokens" "dry --tokens 63"
for h in "steps 2 --tokens 99" "tokens 99 --hours 1" "hours 1 --target-flops 1e9"; do
    says 2 "give one horizon" "--$h" "dry --$h"
done
mult() { sed -n 's/^{"step": .*"lr_mult": \([0-9.e-]*\),.*/\1/p' "$1" | tr '\n' ' '; }
ok "constant" "$base --steps 4 --schedule constant --warmup-steps 2 --metrics c.jsonl -o c && [ \"\$(mult c.jsonl)\" = '0.5 1 1 1 ' ]"
ok "cosine" "$base --steps 4 --schedule cosine --warmup-steps 0 --final-lr-frac 0.5 --metrics k.jsonl -o k"
is "  from 1 to the minimum, half-way at half the steps" "mult k.jsonl" "1 0.9267766952966369 0.75 0.5732233047033631 "
rate() { sed -n 's/^{"step": 1, .*"lr": \([0-9.e-]*\),.*/\1/p' "$1"; }
ok "--lr-scale" "$base --steps 1 --lr-scale 0.25 --metrics r.jsonl -o r; $base --steps 1 --metrics r1.jsonl -o r1; echo \$(rate r.jsonl) \$(rate r1.jsonl) | awk '{x = \$1 / \$2 - 0.25; exit x * x > 1e-20}'"
ok "--hours plans, keeps to it, and ends" "timeout 60 gpt-train -j 1 --depth 2 --aspect-ratio 16 --head-dim 16 --total-batch-size 64 -t a.tok --train a.rows --val a.rows --hours 0.0003 --save-every 0 --metrics h.jsonl -o h 2>h.err"
is "  as it says" "tail -n 1 h.jsonl | jq .step" "$(sed -n 's/^{"step": [0-9]*, "steps": \([0-9]*\)}/\1/p' h.jsonl)"
is "  and as state.json keeps" "jq '[.step, .options.steps] | unique | length' h/state.json" 1
at=$(sed -n 's/^{"step": \([0-9]*\), "steps".*/\1/p' h.jsonl)
$base --hours 0.0003 --stop-at 2 --metrics /dev/null -o h2
is "before it is planned the horizon is open" "jq .options.steps h2/state.json" 0
ok "  and a resume plans it" "gpt-train -q -j 1 --resume -o h2 && [ \$(jq .options.steps h2/state.json) -gt 2 ]"
finish
