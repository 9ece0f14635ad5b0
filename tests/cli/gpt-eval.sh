# gpt-eval: options, refusals, bits per byte of a small model.
. "$(dirname "$0")/../lib.sh"

i=0; while [ $i -lt 40 ]; do echo "{\"text\": \"line $i: a fox, $((i * 7 % 13)) hens, a dog.\"}"; i=$((i+1)); done >"$dir/docs.jsonl"
bpe-train -q -v 300 -o "$dir/a.tok" "$dir/docs.jsonl" || exit 1
bpe-train -q -v 280 -o "$dir/b.tok" "$dir/docs.jsonl" || exit 1
rows() { tok-encode -q -t "$dir/$1.tok" "$dir/docs.jsonl" | pack-rows -q -T "$2" -o "$dir/$3"; }
rows a 32 a.rows; rows a 16 short.rows; rows a 64 long.rows; rows b 32 b.rows
gpt-train -q -j 1 --depth 2 --aspect-ratio 16 --head-dim 16 --steps 3 --total-batch-size 128 -t "$dir/a.tok" \
    --train "$dir/a.rows" --val "$dir/a.rows" -o "$dir/m" >"$dir/m.jsonl" || exit 1
ev="gpt-eval -q -j 1 -m $dir/m"
val() { printf '%s' "sed 's/.*\"$1\": \([^,}]*\).*/\1/'"; }

exits 0 "help" "gpt-eval --help"
says 2 "unknown option" "an unknown option" "gpt-eval --batc 4 bpb x"
says 2 "not a whole number" "a bad number" "gpt-eval -B 4x bpb x"
says 2 "known: bpb" "an unknown task names the known ones" "$ev bpc $dir/a.rows"
says 2 "which task" "no task" "$ev"
says 2 "ROWS" "no shards" "$ev bpb"
says 2 "-m DIR" "no model" "gpt-eval bpb $dir/a.rows"
says 1 "none" "a missing model" "gpt-eval -q -m $dir/none bpb $dir/a.rows"
says 1 "none.rows" "a missing shard" "$ev bpb $dir/none.rows"
says 1 "made with tokenizer" "rows of another tokenizer" "$ev bpb $dir/b.rows"
says 1 "context of 32" "rows longer than the context" "$ev bpb $dir/long.rows"
exits 1 "a full disk" "$ev bpb $dir/a.rows >/dev/full"
ok "one line" "[ \$($ev bpb $dir/a.rows | wc -l) -eq 1 ]"
ok "shorter rows are fine" "$ev bpb $dir/short.rows"
ok "bits per byte are those of the trainer's last evaluation" \
    "[ \"\$($ev -B 4 bpb $dir/a.rows | $(val bpb))\" = \"\$(tail -n 1 $dir/m.jsonl | $(val val_bpb))\" ]"
is "bytes: those of the rows' targets" \
    "[ \$($ev bpb $dir/a.rows | $(val bytes)) -le \$(wc -c <$dir/docs.jsonl) ] && echo yes" yes
b1=$($ev -B 1 bpb "$dir/a.rows" | eval "$(val bpb)")
for b in 3 8 1000; do
    ok "batches of $b: equal to 1e-6" \
        "$ev -B $b bpb $dir/a.rows | $(val bpb) | awk '{d = (\$1 - $b1) / $b1; exit !(d < 1e-6 && d > -1e-6)}'"
done
cp -r "$dir/m" "$dir/nan"; LC_ALL=C sed -i 's/"xxh3"/"none"/' "$dir/nan/model.safetensors"
printf '\300\177\300\177' | dd of="$dir/nan/model.safetensors" bs=1 seek=$(($(wc -c <"$dir/nan/model.safetensors") - 4)) conv=notrunc 2>/dev/null
says 1 "$dir/nan: the model's losses are not finite" "weights that are not numbers" "gpt-eval -q -m $dir/nan bpb $dir/a.rows"
is "a limit" "$ev --limit 3 bpb $dir/a.rows | $(val rows)" 3
is "shards add up" "$ev bpb $dir/a.rows $dir/a.rows | $(val tokens)" \
    "$(($($ev bpb "$dir/a.rows" | eval "$(val tokens)") * 2))"
finish
