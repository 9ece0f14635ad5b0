# Fine-tuning, from text to answers: a base model, conversations, --sft, gpt-eval chat.
. "$(dirname "$0")/../lib.sh"

i=0; while [ $i -lt 40 ]; do echo "{\"text\": \"line $i: a fox, $((i * 7 % 13)) hens, a dog. What is 3 + 4? It is 7.\"}"; i=$((i+1)); done >"$dir/docs.jsonl"
bpe-train -q -v 280 -o "$dir/a.tok" "$dir/docs.jsonl" || exit 1
tok-encode -q -t "$dir/a.tok" "$dir/docs.jsonl" | pack-rows -q -T 24 -o "$dir/a.rows" || exit 1
for q in 1+2 4+4 2+3 7-5; do
    printf '%s\n' "{\"messages\": [{\"role\": \"user\", \"content\": \"$q?\"}, {\"role\": \"assistant\", \"content\": [{\"type\": \"python\", \"text\": \"$q\"}, {\"type\": \"python_output\", \"text\": \"$(($q))\"}, {\"type\": \"text\", \"text\": \"So $(($q)).\"}]}]}"
done >"$dir/chat.jsonl"
tok-encode -q -t "$dir/a.tok" --chat "$dir/chat.jsonl" | pack-rows -q --sft -T 24 -o "$dir/chat.rows" || exit 1
train="gpt-train -q -j 1"
base() { $train --depth 2 --aspect-ratio 32 --head-dim 16 --steps 4 --total-batch-size 72 "$@" -t "$dir/a.tok" --train "$dir/a.rows" -o "$dir/base" >"$dir/base.jsonl"; }
base --matrix-lr 0.04 --embedding-lr 0.4 || exit 1
sft="$train --sft --init $dir/base --train $dir/chat.rows"
rows=$(gpt-train --dry-run --json --sft --init "$dir/base" --train "$dir/chat.rows" | tr ',' '\n' | sed -n 's/.*"data_rows": \([0-9]*\).*/\1/p')
field() { printf '%s' "sed -n 's/.*\"$1\": \([^,}]*\).*/\1/p'"; }

# refusals
says 2 "give --init DIR" "no base" "$train --sft --train $dir/chat.rows -t $dir/a.tok -o $dir/x"
says 1 "rows without loss masks" "F04: rows without masks" "$train --sft --init $dir/base --train $dir/a.rows -o $dir/x"
says 1 "$dir/a.rows" "  by name" "$train --sft --init $dir/base --train $dir/a.rows -o $dir/x"
says 1 "without loss masks" "  in the plan too" "gpt-train --dry-run --sft --init $dir/base --train $dir/a.rows"
says 2 "only with --sft" "--fresh-optimizer alone" "$train --fresh-optimizer --init $dir/base --train $dir/a.rows -o $dir/x"
says 2 "one horizon" "two horizons" "$sft --epochs 2 --steps 3 -o $dir/x"
says 2 "of what" "epochs of nothing" "gpt-train --dry-run --epochs 2"

# the plan: rates and batch of the base, times 0.8; no decay of matrices; by the data
plan=$(gpt-train --dry-run --json --sft --init "$dir/base" --train "$dir/chat.rows" --epochs 7)
of_plan() { printf '%s' "$plan" | tr ',' '\n' | eval "$(field "$1")" | head -n 1; }
is "the base's batch" "of_plan total-batch-size" 72
is "the base's rates" "of_plan matrix-lr; of_plan embedding-lr" "0.04
0.4"
is "times 0.8" "of_plan lr-scale" 0.8
is "  that of smear and backout, 0.2, too" "printf '%s' '$plan' | sed 's/.*smear_and_backout[^}]*lr.: 0.16.*/0.16/'" 0.16
is "no weight decay" "of_plan weight-decay" 0
is "steps: the rows seven times, 3 a step" "of_plan steps" $(((7 * rows + 2) / 3))
ok "  as text" "gpt-train --dry-run --sft --init $dir/base --train $dir/chat.rows | grep -q '^rates  *sft'"

# the run: schedule, exact resume, warm start
ok "a run" "$sft --epochs 7 -o $dir/s >$dir/s.jsonl"
is "the multiplier is 1, then falls in the second half of the data, and never below 0" \
    "$(field lr_mult) $dir/s.jsonl | awk -v r=$rows '{ p = 3 * (NR - 1) / (7 * r); want = p <= 0.5 ? 1 : 2 - 2 * p; if (want < 0) want = 0
        d = \$1 - want; if (d > 1e-12 || d < -1e-12) print NR, \$1, want }'" ""
is "momentum from 0.85 to 0.95 over 300 steps" "$(field momentum) $dir/s.jsonl | awk '{ d = \$1 - (0.85 + 0.1 * (NR - 1) / 300); if (d > 1e-12 || d < -1e-12) print NR, \$1 }'" ""
is "no decay" "$(field weight_decay) $dir/s.jsonl | sort -u" 0
ok "stopped" "$sft --epochs 7 --stop-at 5 -o $dir/r >/dev/null"
ok "  and resumed" "$train --resume -o $dir/r >/dev/null"
ok "  to the same weights" "cmp $dir/s/model.safetensors $dir/r/model.safetensors && cmp $dir/s/optimizer-0.safetensors $dir/r/optimizer-0.safetensors"
ok "a fresh optimizer" "$sft --fresh-optimizer --epochs 7 -o $dir/f >$dir/f.jsonl"
is "  begins with the same loss" "$(field loss) $dir/f.jsonl | head -n 1" "$(eval "$(field loss) $dir/s.jsonl" | head -n 1)"
ok "  and goes another way" "! cmp -s $dir/s/model.safetensors $dir/f/model.safetensors"
cp -r "$dir/base" "$dir/bare"; rm "$dir/bare/optimizer-0.safetensors" "$dir/bare/state.json"
ok "weights alone will do" "gpt-train -j 1 --sft --init $dir/bare --train $dir/chat.rows --total-batch-size 72 -o $dir/b 2>&1 >/dev/null | grep -q 'begins afresh'"

cat >"$dir/llama.json" <<'X'
{"model_type": "llama", "vocab_size": 280, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
 "num_key_value_heads": 1, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000, "tie_word_embeddings": true}
X
# the script of make sft: does what is missing, and no more
pipeline="$top/share/pipeline/sft.sh $dir/base $dir/chat.jsonl $dir/p -q -j 1 --epochs 4"
exits 1 "the script, stopped half-way" "$pipeline --train $dir/none.rows"
ok "  goes on with the rows that are there" "touch -d '1 hour ago' $dir/chat.jsonl; cp $dir/p.data/sft-00000.rows $dir/rows; $pipeline && cmp $dir/rows $dir/p.data/sft-00000.rows"
ok "  and once more, changing nothing" "cp $dir/p/model.safetensors $dir/w; $pipeline && cmp $dir/w $dir/p/model.safetensors"
mkdir "$dir/killed"; cp -r "$dir/p" "$dir/killed/p"; cp -r "$dir/p.data" "$dir/killed"; touch "$dir/killed/p.data/sft-00000.rows"
for f in "$dir"/killed/p/*.json "$dir"/killed/p/*.safetensors "$dir"/killed/p/*.tok; do case $f in */status.json) ;; *) mv "$f" "$f.new";; esac; done
(cd "$dir/killed/p" && printf '{"version": 1, "files": [%s], "remove": []}\n' "$(ls *.new | sed 's/\.new$//;s/.*/"&"/' | paste -sd, -)" >commit.json)
ok "  after a kill within the first save, too" "$top/share/pipeline/sft.sh $dir/base $dir/chat.jsonl $dir/killed/p -q -j 1 --epochs 4 && cmp $dir/w $dir/killed/p/model.safetensors"
$train --model "$dir/llama.json" -t "$dir/a.tok" --train "$dir/a.rows" --steps 1 --total-batch-size 24 -o "$dir/llama" >/dev/null
ok "  a model of the Llama family" "$top/share/pipeline/sft.sh $dir/llama $dir/chat.jsonl $dir/l -q -j 1 --total-batch-size 64 --steps 1"
is "  in rows of its context" "pack-rows --check $dir/l.data/sft-00000.rows | sed 's/.*\"seq_len\":\([0-9]*\).*/\1/'" 64
says 1 "no model here" "no base" "$top/share/pipeline/sft.sh $dir/none $dir/chat.jsonl"

# F36: each end of an answer is learned; F01: the first token of an answer too
ok "four conversations by heart" "$sft --steps 400 --lr-scale 3 -o $dir/h >$dir/h.jsonl"
eval="gpt-eval -q -j 1 -m $dir/h -n 32 chat $dir/chat.jsonl"
is "  all answers are right" "$eval | $(field accuracy) | head -n 1" 1
is "  and end" "$eval | $(field unfinished)" 0
is "  with calls that the calculator answers" "$eval | $(field well_formed_calls)" 4
is "  none of which it answers with --no-tools" "gpt-eval -q -j 1 -m $dir/h -n 32 --no-tools chat $dir/chat.jsonl | $(field with_calls)" 4
finish
