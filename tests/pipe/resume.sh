# A resumed run is a straight run, to the last byte of every file; two equal runs are equal; so are
# runs with another number of threads.
. "$(dirname "$0")/../lib.sh"

i=0; while [ $i -lt 90 ]; do echo "{\"text\": \"$i bottles of beer on the wall, take $((i * 5 % 17)) down.\"}"; i=$((i+1)); done >"$dir/docs.jsonl"
bpe-train -q -v 300 -o "$dir/a.tok" "$dir/docs.jsonl" || exit 1
tok-encode -q -t "$dir/a.tok" "$dir/docs.jsonl" | pack-rows -q -T 32 --shard-rows 20 -o "$dir/a" || exit 1
nrows=$(gpt-train --dry-run --json --depth 1 -t "$dir/a.tok" --train "$dir/a-*.rows" | sed 's/.*"data_rows": \([0-9]*\).*/\1/')
steps=$((nrows / 4 + 6))                # 4 rows a step: past the end of the first epoch
opts="-q -j 1 --depth 2 --aspect-ratio 16 --head-dim 16 -t $dir/a.tok --train $dir/a-*.rows --val $dir/a-00000.rows
  --eval-every 4 --eval-tokens 128 --total-batch-size 128 -B 2 --steps $steps --warmup-steps 2"
go() { d=$1; shift; gpt-train $opts -o "$dir/$d" "$@" >"$dir/$d.jsonl"; }
same() { diff -r -x clock.json -x status.json "$dir/$1" "$dir/$2"; }
losses() { grep '"loss"' "$dir/$1.jsonl" | sed 's/, "tok_per_s.*"dt": [0-9.]*//'; }

opts=$(printf '%s' "$opts" | tr '\n' ' ' | sed "s,--train $dir/a-\*.rows,--train $dir/a-[0-9]*.rows,")
set -f                                  # the pattern is gpt-train's to expand
ok "a run of more than an epoch ($nrows rows, $steps steps)" "go one -j 1"
ok "the same again" "go two -j 1 && same one two"
ok "with two threads" "go three -j 2 && same one three"
ok "the same losses" "losses one >$dir/l1; losses two >$dir/l2; losses three >$dir/l3; cmp $dir/l1 $dir/l2 && cmp $dir/l1 $dir/l3"
is "every step has its record" "grep -c '\"loss\"' $dir/one.jsonl" "$steps"

# 256 tokens of 128 channels: what goes over elements is shared out too, from 16,384 on
wide() { d=$1; shift; go "$d" --aspect-ratio 64 --head-dim 32 --total-batch-size 256 -B 8 --steps 3 "$@"; }
for t in fp32 bf16; do
    ok "$t: a wide one with three threads" "wide w1 -j 1 --dtype $t --force && wide w3 -j 3 --dtype $t --force && same w1 w3"
done

k=$((nrows / 4 + 2))
ok "stopped at step $k" "go four -j 2 --stop-at $k && ! diff -qr $dir/one $dir/four >/dev/null"
is "  and saved there" "sed -n 's/^  \"step\": \([0-9]*\),/\1/p' $dir/four/state.json" "$k"
cp -r "$dir/four" "$dir/five"
losses four >"$dir/l4"
cp -r "$dir/four" "$dir/mixed"; cp "$dir/one/optimizer-0.safetensors" "$dir/mixed"
says 1 "of step $steps, but state.json is of step $k" "files of two checkpoints are refused" "gpt-train -q --resume -o $dir/mixed"
ok "resumed: the same files" "gpt-train -q -j 1 --resume -o $dir/four >$dir/four.jsonl && same one four"
ok "and the same losses" "{ cat $dir/l4; losses four; } | cmp - $dir/l1"
is "the first record after a resume is the next step" "grep -m 1 -o '\"step\": [0-9]*' $dir/four.jsonl" "\"step\": $((k + 1))"
ok "resumed step by step" "gpt-train -q -j 1 --resume --stop-at $((k + 1)) -o $dir/five >/dev/null && gpt-train -q -j 1 --resume --stop-at $((k + 3)) -o $dir/five >/dev/null && gpt-train -q -j 1 --resume -o $dir/five >/dev/null && same one five"
ok "a finished run resumed is left as it is" "gpt-train -q -j 1 --resume -o $dir/five >/dev/null && same one five"
ok "options that agree may be said again" "go five --resume && same one five"
says 2 "--matrix-lr: 0.03, but" "an option that disagrees is refused" "go five --resume --matrix-lr 0.03"
says 2 "--steps: 500, but" "  another horizon" "gpt-train --resume --steps 500 -o $dir/five"
says 2 "--device-batch-size: 4, but" "  another micro-batch" "gpt-train --resume -B 4 -o $dir/five"
says 2 "--total-batch-size: 256, but" "  another batch" "gpt-train --resume --total-batch-size 256 -o $dir/five"
says 2 '--shuffle: "1", but' "  another order" "gpt-train --resume --shuffle 1 -o $dir/five"
says 1 "a-00001.rows (10 rows) is not there or has changed" "  other data" "gpt-train -q -j 1 --resume -o $dir/five --train $dir/a-00000.rows"
cp "$dir/a-00000.rows" "$dir/more.rows"
says 1 "more.rows is not one of the" "  more data" "gpt-train -q -j 1 --resume -o $dir/five --train $dir/a-[0-9]*.rows --train $dir/more.rows"
mkdir "$dir/moved"; j=9; for f in $(set +f; echo "$dir"/a-[0-9]*.rows); do cp "$f" "$dir/moved/$j.rows"; j=$((j-1)); done
ok "the same shards under other names, in another order" \
    "gpt-train $opts -o $dir/named --stop-at $k >/dev/null && gpt-train -q -j 1 --resume -o $dir/named --train $dir/moved >$dir/n.jsonl && cmp $dir/one/model.safetensors $dir/named/model.safetensors && cmp $dir/one/optimizer-0.safetensors $dir/named/optimizer-0.safetensors"

# bf16 activations: the files hold fp32 weights, and a resume is exact; recomputation changes nothing
ok "bf16: a run" "go half -j 1 --dtype bf16"
ok "  with two threads and recomputation" "go half2 -j 2 --dtype bf16 --recompute && same half half2"
ok "  is not fp32's" "go full -j 1 --dtype fp32 && ! cmp -s $dir/full/model.safetensors $dir/half/model.safetensors"
ok "  stopped and resumed: the same files" "go half3 -j 1 --dtype bf16 --stop-at $k && gpt-train -q -j 2 --resume -o $dir/half3 >/dev/null && same half half3"
says 2 "--dtype: \"fp32\", but" "  the type belongs to the run" "gpt-train -q --resume --dtype fp32 -o $dir/half3"
is "  evaluated in either type, nearly the same" "for t in fp32 bf16; do gpt-eval -q --dtype \$t -m $dir/half bpb $dir/a-00000.rows | sed 's/.*\"bpb\": \([0-9]*\.[0-9]\).*/\1/'; done | uniq | wc -l" 1
ok "  and sampled from" "gpt-sample -q --dtype bf16 -m $dir/half -p '7 bottles' -n 8 --temperature 0 | grep -q ."

# a signal: saved, told by the exit status, and nothing lost
( exec timeout -s TERM 1 gpt-train $opts --steps 100000 -o "$dir/six" ) >"$dir/six.jsonl" 2>/dev/null
at=$(sed -n 's/^  "step": \([0-9]*\),/\1/p' "$dir/six/state.json" 2>/dev/null)
ok "stopped by SIGTERM at step ${at:-?}" "[ '${at:-0}' -gt 0 ]"
is "  which is the last one reported" "grep '\"loss\"' $dir/six.jsonl | tail -n 1 | sed 's/.*\"step\": \([0-9]*\).*/\1/'" "$at"
gpt-train $opts --steps 100000 -o "$dir/seven" --stop-at "${at:-1}" >/dev/null
ok "  and the same bytes as a run to there, an evaluation it cut short made up for" "gpt-train -q -j 1 --resume --stop-at ${at:-1} -o $dir/six >/dev/null && same six seven"
for s in INT:130 TERM:143; do
    exits "${s#*:}" "SIG${s%:*}" "timeout --preserve-status -s ${s%:*} 1 gpt-train $opts --steps 100000 -o $dir/$s >/dev/null"
done
# in the middle of the evaluation before the first step, which takes seconds here: status.json comes
# when signals are attended to and the evaluation begins
awk 'BEGIN { for (i = 0; i < 20000; i++) print "{\"text\": \"" i " bottles of beer on the wall, take 3 down.\"}" }' | tok-encode -q -t "$dir/a.tok" | pack-rows -q -T 32 -o "$dir/long.rows"
long="$opts --val $dir/long.rows --eval-tokens 1M --steps 1 --total-batch-size 64 --eval-every 1"
in_eval() {
    gpt-train $long -o "$dir/cut" >"$dir/cut.jsonl" & p=$!
    while [ ! -e "$dir/cut/status.json" ]; do sleep 0.01; done
    kill -TERM $p
    wait $p
}
exits 143 "SIGTERM in an evaluation" in_eval
is "  which counts as not made" "grep -c val_bpb $dir/cut.jsonl; sed -n 's/^  \"val_step\": \(.*\),/\1/p; s/^  \"step\": \(.*\),/\1/p' $dir/cut/state.json" "0
0
null"
ok "  and a resume makes up for it" "gpt-train -q -j 1 --resume --eval-tokens 320 -o $dir/cut >$dir/cut.jsonl && gpt-train $long --eval-tokens 320 -o $dir/uncut >$dir/uncut.jsonl && same cut uncut"
ok "  in its own record" "losses_of() { sed 's/, \"tok_per_s.*\"dt\": [0-9.]*//' \$1 | tail -n +2; }; losses_of $dir/cut.jsonl >$dir/c1; losses_of $dir/uncut.jsonl | cmp - $dir/c1 && grep -q '^{\"step\": 0, \"val_bpb' $dir/c1"
# timeout(1) signals the process and its group: twice in a moment is once
twice() {
    : >"$dir/twice.jsonl"
    gpt-train $opts --steps 100000 -o "$dir/twice" >>"$dir/twice.jsonl" & p=$!
    while [ "$(wc -l <"$dir/twice.jsonl")" -lt 4 ]; do sleep 0.1; done
    kill -TERM $p; sleep 0.05; kill -TERM $p
    wait $p
}
exits 143 "SIGTERM twice at once" twice
ok "  has saved too" "[ -e $dir/twice/optimizer-0.safetensors ]"
ok "  has saved" "[ -e $dir/INT:130/optimizer-0.safetensors ]"
finish
