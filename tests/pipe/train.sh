# From text to a model that knows it: overfits a small text to a loss near 0 within seconds.
. "$(dirname "$0")/../lib.sh"

awk 'BEGIN { for (i = 0; i < 40; i++) print "{\"text\": \"The quick brown fox jumps over the lazy dog, then sleeps.\"}" }' >"$dir/docs.jsonl"
bpe-train -q -v 290 -o "$dir/a.tok" "$dir/docs.jsonl" || exit 1
tok-encode -q -t "$dir/a.tok" "$dir/docs.jsonl" | pack-rows -q -T 64 -o "$dir/a.rows" || exit 1
ok "trains" "gpt-train -q --depth 2 --aspect-ratio 32 --head-dim 32 -t $dir/a.tok --train $dir/a.rows --val $dir/a.rows \
    --steps 120 --total-batch-size 256 --warmup-steps 5 --matrix-lr 0.5 \
    --embedding-lr 5 --unembedding-lr 0.3 --eval-every 60 -j 1 -o $dir/m >$dir/m.jsonl"
last() { tail -n 1 "$dir/m.jsonl" | sed "s/.*\"$1\": \([^,}]*\).*/\1/"; }
first() { grep '"loss"' "$dir/m.jsonl" | head -n 1 | sed "s/.*\"loss\": \([^,}]*\).*/\1/"; }
ok "the first loss is that of a guess, ln 290 = 5.67: $(first)" "echo $(first) | awk '{exit !(\$1 > 5.6 && \$1 < 5.75)}'"
ok "the last loss is below 0.1: $(last loss)" "echo $(last loss) | awk '{exit !(\$1 < 0.1)}'"
ok "bits per byte are small: $(last val_bpb)" "echo $(last val_bpb) | awk '{exit !(\$1 < 0.15)}'"
is "and it says so" "gpt-sample -q -m $dir/m -p 'The quick brown' -n 14 -j 1 --temperature 0 | cut -c 1-21" " fox jumps over the l"
finish
