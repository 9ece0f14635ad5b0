# gpt-train: options, refusals, the plan.
. "$(dirname "$0")/../lib.sh"

i=0; while [ $i -lt 60 ]; do echo "{\"text\": \"line $i: the cat sat on mat $((i * 7 % 13)), and the dog did not.\"}"; i=$((i+1)); done >"$dir/docs.jsonl"
bpe-train -q -v 300 -o "$dir/a.tok" "$dir/docs.jsonl" || exit 1
bpe-train -q -v 280 -o "$dir/b.tok" "$dir/docs.jsonl" || exit 1
rows() { tok-encode -q -t "$dir/$1.tok" "$dir/docs.jsonl" | pack-rows -q -T "$2" -o "$dir/$3"; }
rows a 32 a.rows; rows a 32 v.rows; rows b 32 b.rows; rows a 48 t.rows
size="--depth 2 --aspect-ratio 16 --head-dim 16"
run="gpt-train -q -j 1 $size --steps 2 --total-batch-size 64"

is "help on stdout" "gpt-train --help | head -n 1 | cut -c 1-16" "Usage: gpt-train"
exits 0 "help" "gpt-train --help"
exits 0 "version" "gpt-train --version"
says 2 "unknown option" "an unknown option" "gpt-train --dept 4"
says 2 "not a whole number" "a number with a tail" "gpt-train --depth 4x"
says 2 "not a number" "a rate with a tail" "gpt-train --matrix-lr 0.1x"
says 2 "out of range" "a number out of range" "gpt-train --depth 0"
says 2 "give -o" "no output" "gpt-train --depth 2 -t $dir/a.tok --train $dir/a.rows"
says 2 "--train" "nothing to train on" "$run -t $dir/a.tok -o $dir/m"
says 2 "tokenizer" "no tokenizer" "$run --train $dir/a.rows -o $dir/m"
says 2 "unexpected operand" "an operand" "$run $dir/a.rows"
says 2 "one horizon" "two horizons" "$run --target-flops 1e9 -t $dir/a.tok --train $dir/a.rows -o $dir/m"
says 2 "--resume and --init" "resume and init" "gpt-train --resume --init $dir/m -o $dir/m"
says 2 "not a multiple" "a total batch that is no multiple of the micro-batch" \
    "$run -B 3 -t $dir/a.tok --train $dir/a.rows -o $dir/m"
says 2 "3 times T 32 = 96" "  names both" "$run -B 3 -t $dir/a.tok --train $dir/a.rows -o $dir/m"
says 1 "none.tok" "a missing tokenizer" "$run -t $dir/none.tok --train $dir/a.rows -o $dir/m"
says 1 "none.rows" "a missing shard" "$run -t $dir/a.tok --train $dir/none.rows -o $dir/m"
says 1 "matches no file" "a pattern without a match" "$run -t $dir/a.tok --train '$dir/none*.rows' -o $dir/m"
says 1 "made with tokenizer" "rows of another tokenizer" "$run -t $dir/a.tok --train $dir/b.rows -o $dir/m"
says 1 "made with tokenizer" "validation rows of another tokenizer" \
    "$run -t $dir/a.tok --train $dir/a.rows --val $dir/b.rows -o $dir/m"
says 1 "T 32, but --max-seq-len is 48" "another T" "$run -T 48 -t $dir/a.tok --train $dir/a.rows -o $dir/m"
says 1 "T 48" "shards of two T" "$run -t $dir/a.tok --train $dir/a.rows --train $dir/t.rows -o $dir/m"
mkfifo "$dir/fifo.rows"
says 1 "fifo.rows: not a regular file" "a pipe for a shard" "timeout 20 $run -t $dir/a.tok --train $dir/fifo.rows -o $dir/m"
says 1 "nothing to resume" "nothing to resume" "gpt-train -q --resume -o $dir/m"
cp "$dir/a.rows" "$dir/cut.rows" && truncate -s -9 "$dir/cut.rows"
says 1 "cut.rows" "a shard cut short" "$run -t $dir/a.tok --train $dir/cut.rows -o $dir/m"
echo '{}' | tok-encode -q -t "$dir/a.tok" 2>/dev/null | pack-rows -q -T 32 -o "$dir/e.rows" 2>/dev/null
ok "no model directory came of all that" "[ ! -e $dir/m/model.safetensors ]"

says 2 "--shuffle: 'some' is neither" "a shuffle that is no number" "$run --shuffle some -t $dir/a.tok --train $dir/a.rows -o $dir/m"
says 2 "--shuffle: '-1' is neither" "  a negative one" "$run --shuffle=-1 -t $dir/a.tok --train $dir/a.rows -o $dir/m"
is "a micro-batch again: the plain C kernels agree" "$run --dtype fp32 --steps 3 --check-every 2 -t $dir/a.tok --train $dir/a.rows -o $dir/again | sed -n 's/.*\"check\": \"\(cpu base fp32\)\".*\"grad_diff\": \([^}]*\)}/\1 \2/p' | awk '{print \$1, \$2, \$3, (\$4 < 1e-5)}'" "cpu base fp32 1"
rm -rf "$dir/m" "$dir/again"
says 1 "stdout: cannot write: No space left on device" "metrics that cannot be written" "$run -t $dir/a.tok --train $dir/a.rows -o $dir/full >/dev/full"
says 1 "saved in $dir/full" "  the run is saved first" "$run --force --stop-at 1 -t $dir/a.tok --train $dir/a.rows -o $dir/full >/dev/full"
ok "  and can go on" "gpt-train -q -j 1 --resume -o $dir/full >/dev/null"
says 1 "stdout: cannot write: Broken pipe" "nobody reads the metrics" "{ sleep 0.2; $run --force -t $dir/a.tok --train $dir/a.rows -o $dir/full; echo \$? >$dir/rc; } | :; exit \$(cat $dir/rc)"
ok "  saved too" "[ -s $dir/full/model.safetensors ]"
ok "a run" "$run -t $dir/a.tok --train $dir/a.rows --val $dir/v.rows --eval-every 1 -o $dir/m >$dir/m.jsonl"
is "metrics: the plan first, then one record per step" \
    "sed 's/:.*//' $dir/m.jsonl | tr '\n' ' '" '{"config" {"step" {"step" {"step" '
is "validation before, between, at the end" "grep -c val_bpb $dir/m.jsonl" 3
is "quiet is quiet" "$run -t $dir/a.tok --train $dir/a.rows -o $dir/m2 2>&1 >/dev/null" ""
says 1 "holds a model already" "a model is not overwritten" "$run -t $dir/a.tok --train $dir/a.rows -o $dir/m"
ok "unless told to" "$run --force -t $dir/a.tok --train $dir/a.rows -o $dir/m"
ok "no escape code in a file" "$run -v -t $dir/a.tok --train $dir/a.rows -o $dir/m3 >/dev/null 2>$dir/err; ! grep -q '$(printf '\033')' $dir/err"
ok "samples as records" "$run -t $dir/a.tok --train $dir/a.rows --sample-every 2 --sample-prompt 'line 1' --force -o $dir/m3 | grep -q '\"prompt\": \"line 1\", \"sample\": '"
ok "data smaller than a micro-batch wraps" "$run --total-batch-size 64K -B 64 --steps 1 -t $dir/a.tok --train $dir/a.rows -o $dir/m4"
says 1 "limit/model.safetensors" "why nothing was saved is told, also with -q" "ulimit -f 40; $run -t $dir/a.tok --train $dir/a.rows -o $dir/limit >/dev/null"
$run -t "$dir/a.tok" --train "$dir/a.rows" -o "$dir/killed" >/dev/null 2>&1 & pid=$!
while [ ! -e "$dir/killed/model.safetensors.new" ] && kill -0 $pid 2>/dev/null; do :; done
kill -9 $pid 2>/dev/null; wait $pid 2>/dev/null
is "a kill within the first save leaves nothing that the next one does not clear away" "ls -A $dir/killed | grep tokenizer | grep -vE '^tokenizer.tok(.new)?$'" ""
cp -r "$dir/m" "$dir/deep"; sed 's/"n_layer": 2/"n_layer": 64/' "$dir/m/config.json" >"$dir/deep/config.json"
says 1 "config.json asks for" "more layers than channels" "gpt-train -q --resume -o $dir/deep"
rm "$dir/m/state.json"
says 1 "--init" "without state.json there is no resume" "gpt-train -q --resume -o $dir/m --train $dir/a.rows"
ok "a new run from weights" "gpt-train -q -j 1 --init $dir/m --train $dir/a.rows --steps 1 --total-batch-size 64 -o $dir/m5"
says 2 "--depth: 3, but the model in" "of another depth" "gpt-train -q -j 1 --init $dir/m --depth 3 --train $dir/a.rows -o $dir/m6"

# the plan
is "the default model has 286,261,730 parameters" "gpt-train --dry-run | sed -n 's/^parameters *\([0-9]*\).*/\1/p'" 286261730
is "  and as JSON" "gpt-train --dry-run --json | tr ',' '\n' | sed -n 's/.*\"params\": \(286261730\)$/\1/p'" 286261730
field() { printf '%s' "tr ',' '\n' | sed -n 's/.*\"$1\": \([0-9.e+]*\)[]}]*\$/\1/p' | head -n 1"; }
d4="gpt-train --dry-run --json --depth 4"
is "depth 4: the total batch" "$d4 | $(field total_batch)" 262144
is "depth 4: steps" "$d4 | $(field steps)" 528
is "depth 4: work per token" "$d4 | $(field flops_per_token)" 80216496
is "depth 4, given FLOPs" "$d4 --target-flops 1e15 | $(field steps)" 48
is "accumulation" "$d4 -B 2 | $(field accumulation)" 64
is "a micro-batch larger than the batch shrinks" "$d4 -q -B 1000 | $(field device_batch)" 128
is "a T that is no power of two" "$d4 -q -T 96 | $(field total_batch)" 262176
is "data counted in epochs" "gpt-train --dry-run $size -t $dir/a.tok --train $dir/a.rows --steps 3 --total-batch-size 64 | grep -c epochs" 1
says 2 "no such model" "an impossible model" "gpt-train --dry-run --head-dim 3 --aspect-ratio 3"
exits 1 "the plan to a full disk" "gpt-train --dry-run >/dev/full"
finish
