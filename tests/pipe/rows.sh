# The order of the data: every row of every shard once per epoch, whatever the shards' sizes and
# wherever the run was stopped (F09, F39); shards that come later; shards that are damaged.
. "$(dirname "$0")/../lib.sh"

i=0; while [ $i -lt 60 ]; do echo "{\"text\": \"$i: a line of $((i * 7 % 31)) words or so, and some more of them here.\"}"; i=$((i+1)); done >"$dir/docs.jsonl"
bpe-train -q -v 280 -o "$dir/a.tok" "$dir/docs.jsonl" || exit 1
mkdir "$dir/d"
pack() { head -n "$2" "$dir/docs.jsonl" | tok-encode -q -t "$dir/a.tok" | pack-rows -q -T 32 -o "$dir/$1"; }
pack d/a.rows 24 && pack d/b.rows 2 && pack d/c.rows 13 || exit 1      # shards of three sizes
total=$(pack-rows --check "$dir"/d/*.rows | sed 's/.*"rows":\([0-9]*\).*/\1/' | awk '{s += $1} END {print s}')
steps=$((total * 3 / 4 + 1))
opts="-q -j 1 --depth 2 --aspect-ratio 16 --head-dim 16 -t $dir/a.tok --train $dir/d --log-rows
  --total-batch-size 128 -B 2 --warmup-steps 2"
opts=$(printf '%s' "$opts" | tr '\n' ' ')
go() { d=$1; shift; gpt-train $opts -o "$dir/$d" "$@" >>"$dir/$d.jsonl"; }
rows() { sed -n 's/.*"rows": \[\([^]]*\)\].*/\1/p' "$dir/$1.jsonl" | tr -d ' ' | tr ',' '\n'; }
epoch() { rows "$1" | tail -n +"$(($2 * total + 1))" | head -n "$total"; }
each_once() { epoch "$1" "$2" | sort -n | uniq | awk -v n="$total" '$1 == NR - 1 {k++} END {exit k != n || NR != n}'; }

ok "three epochs of $total rows, straight" "go one --steps $steps"
ok "stopped in the second" "go two --steps $steps --stop-at $((total / 3 + 1))"
ok "  and resumed, twice" "gpt-train -q -j 1 --resume --log-rows --stop-at $((total / 2 + 1)) -o $dir/two >>$dir/two.jsonl && gpt-train -q -j 1 --resume --log-rows -o $dir/two >>$dir/two.jsonl"
ok "the same rows in the same order" "rows one >$dir/r1; rows two >$dir/r2; cmp $dir/r1 $dir/r2"
for e in 0 1 2; do ok "epoch $e: every row once" "each_once two $e"; done
ok "in another order each time" "! [ \"\$(epoch one 0)\" = \"\$(epoch one 1)\" ] && ! [ \"\$(epoch one 1)\" = \"\$(epoch one 2)\" ]"
ok "another seed, another order" "go seed --steps 4 --shuffle 7 && ! [ \"\$(rows seed | head -n 9)\" = \"\$(rows one | head -n 9)\" ]"
ok "as they lie" "go plain --steps $steps --shuffle none"
is "  which is in order" "epoch plain 1 | sort -nc && epoch plain 1 | tail -n 1" "$((total - 1))"
is "epochs are shown" "sed -n 's/.*\"step\": $((total / 2 + 1)), \"epoch\": \([0-9]\).*/\1/p' $dir/one.jsonl" 2

# shards that come while the run is going on
early=$((total / 4 + 2))
mkdir "$dir/later"
pack later/0.rows 30 || exit 1
more=$(pack-rows --check "$dir/later/0.rows" | sed 's/.*"rows":\([0-9]*\).*/\1/')
ok "a run with --rescan" "go grow --steps $steps --rescan --stop-at $early"
cp -r "$dir/grow" "$dir/grow2"; cp "$dir/grow.jsonl" "$dir/grow2.jsonl"
cp "$dir/later/0.rows" "$dir/d/0.rows"              # sorts first
says 1 "0.rows is not one of the 3 shards" "without it, a new shard ends a resume" \
    "cp -r $dir/one $dir/no; gpt-train -q --resume -o $dir/no"
ok "with it, the run goes on" "gpt-train -q -j 1 --resume --log-rows -o $dir/grow >>$dir/grow.jsonl"
ok "this epoch ends as it was to" "rows grow >$dir/g; head -n $((2 * total)) $dir/g >$dir/g2; head -n $((2 * total)) $dir/r1 | cmp - $dir/g2"
is "the next one has the new rows, each row once" "rows grow | tail -n +$((2 * total + 1)) | sort -n | uniq -d; rows grow | awk '\$1 >= $total {k++} END {print (k > 0)}'" 1
is "state.json has both epochs" "grep -c '\"position\"' $dir/grow/state.json" 2
ok "a stop after it changes nothing" "for to in $((total / 2 + 2)) $((total / 2 + 3)) 0; do gpt-train -q -j 1 --resume --log-rows --stop-at \$to -o $dir/grow2 >>$dir/grow2.jsonl; done; rows grow2 | cmp - $dir/g && cmp $dir/grow/model.safetensors $dir/grow2/model.safetensors"

ok "a horizon in epochs" "gpt-train -q -j 1 --depth 2 --aspect-ratio 16 --head-dim 16 -t $dir/a.tok --total-batch-size 64 --epochs 2 --train $dir/later --stop-at 1 -o $dir/ep >/dev/null"
says 2 "--rescan: not with a horizon in epochs" "  cannot be moved by new shards, also on a resume" "gpt-train -q --resume --rescan -o $dir/ep"

# damage: one bit of one row
cp -r "$dir/d" "$dir/bad"
printf '\377' | dd of="$dir/bad/c.rows" bs=1 seek=80 conv=notrunc 2>/dev/null
worse="-q -j 1 --depth 2 --aspect-ratio 16 --head-dim 16 -t $dir/a.tok --total-batch-size 64 --steps 100000 --train $dir/bad/a.rows --train $dir/bad/c.rows"
says 1 "c.rows: rows 0 to" "--verify finds a damaged shard before the run" "gpt-train $worse --verify -o $dir/v >/dev/null"
ok "  of which nothing is there" "! [ -e $dir/v/model.safetensors ]"
says 1 "(block 0: its hash differs)" "without it, the run ends when the thread has found it" "timeout 60 gpt-train $worse -o $dir/v >/dev/null"
ok "  and nothing was saved" "! [ -e $dir/v/model.safetensors ]"

# a shard cut short under a running program
awk 'BEGIN { for (i = 0; i < 3000; i++) print "{\"text\": \"" i ": the cat sat on the mat, and the dog did not.\"}" }' | tok-encode -q -t "$dir/a.tok" | pack-rows -q -T 24 -o "$dir/long.rows"
cut_short() {
    : >"$dir/cut.jsonl"
    gpt-train -q -j 1 --depth 2 --aspect-ratio 16 --head-dim 16 -t "$dir/a.tok" --total-batch-size 48 --steps 100000 --train "$dir/long.rows" -o "$dir/cut" >>"$dir/cut.jsonl" & p=$!
    while [ "$(wc -l <"$dir/cut.jsonl")" -lt 3 ]; do sleep 0.05; done
    truncate -s 100 "$dir/long.rows"
    wait $p
}
says 1 "long.rows: byte" "a shard cut short while it is read ends the run, by name" cut_short
finish
