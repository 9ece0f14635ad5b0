# gpt-train --model, --optimizer adamw: plans, refusals, a run of a mixture of experts.
. "$(dirname "$0")/../lib.sh"
i=0; while [ $i -lt 80 ]; do echo "{\"text\": \"line $i: the cat sat on mat $((i * 7 % 13)), and the dog did not.\"}"; i=$((i+1)); done >"$dir/docs.jsonl"
bpe-train -q -v 300 -o "$dir/a.tok" "$dir/docs.jsonl" || exit 1
tok-encode -q -t "$dir/a.tok" "$dir/docs.jsonl" | pack-rows -q -T 32 -o "$dir/a.rows" || exit 1
member() { grep -o "\"$1\": [^,}]*" | head -n 1 | sed 's/.*: //'; }
plan() { gpt-train --dry-run --json --steps 1 "$@"; }
is "tutorial's parameters" "plan --model tutorial | member params" 28334592
is "minimind's" "plan --model minimind | member params" 63912192
is "minimind-moe's" "plan --model minimind-moe | member params" 198416640
is "and those a token meets" "plan --model minimind-moe | member active_params" 63936768

config() {      # keys that differ or are more, as the members of an object
    echo "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 32, \"num_hidden_layers\": 2,
      \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 16,
      \"intermediate_size\": 64, \"moe_intermediate_size\": 24, \"num_experts\": 4,
      \"num_experts_per_tok\": 2, \"vocab_size\": 300, \"max_position_embeddings\": 64,
      \"router_aux_loss_coef\": 0.02, \"tie_word_embeddings\": true}" | sed "$1" >"$dir/config.json"
}
cache() {       # key/value heads
    echo "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"num_hidden_layers\": 32,
      \"num_attention_heads\": 32, \"num_key_value_heads\": $1, \"head_dim\": 128,
      \"intermediate_size\": 64, \"vocab_size\": 300, \"max_position_embeddings\": 4096}" >"$dir/config.json"
    plan --model "$dir/config.json" --dtype bf16 -B 1 --total-batch-size 2048 | member bytes_cache
}
is "keys and values: 32 heads take 2 GiB" "cache 32" 2147483648
is "8 heads 512 MiB" "cache 8" 536870912
is "1 head 64 MiB" "cache 1" 67108864

refused() {     # what it says, a change of the configuration
    config "$2"
    says 1 "$1" "refused: $1" "plan --model $dir/config.json"
}
refused "num_hidden_layers is missing" 's/"num_hidden_layers": 2,//'
refused "hidden_size is missing or not an integer" 's/"hidden_size": 32/"hidden_size": "32"/'
refused "num_attention_heads is not a multiple of num_key_value_heads" 's/"num_key_value_heads": 2/"num_key_value_heads": 3/'
refused "head_dim is not even" 's/"head_dim": 16/"head_dim": 15/'
refused "num_experts is missing" 's/"num_experts": 4,//'
refused "num_experts_per_tok is missing" 's/"num_experts_per_tok": 2,//'
refused "moe_intermediate_size is missing" 's/"moe_intermediate_size": 24,//'
refused "num_experts_per_tok is not from 1 to num_experts" 's/"num_experts_per_tok": 2/"num_experts_per_tok": 5/'
refused "vocab_size is missing or not an integer from 1" 's/"vocab_size": 300/"vocab_size": 0/'
refused 'model_type is "gpt2"' 's/qwen3_moe/gpt2/'
refused "attention_bias is true" 's/}/, "attention_bias": true}/'
refused 'rope_scaling has the type "dynamic"' 's/}/, "rope_scaling": {"rope_type": "dynamic", "factor": 2}}/'
refused "factor is not a number" 's/}/, "rope_scaling": {"type": "yarn", "factor": "x"}}/'
refused "hidden_act is not" 's/}/, "hidden_act": "gelu"}/'
refused "tie_word_embeddings is not true or false" 's/: true}/: 1}/'
refused "not valid JSON" 's/}//'
says 2 "neither tutorial" "an unknown preset" "plan --model minmind"
says 1 "No such file" "a missing file" "plan --model $dir/none.json"
says 2 "--model and --depth" "model and depth" "plan --model tutorial --depth 4"
says 2 "--matrix-lr: not with --optimizer adamw" "a rate of the other optimizer" "plan --model tutorial --optimizer adamw --matrix-lr 0.1"
says 2 "--lr: not with --optimizer muon" "and the other way round" "plan --model tutorial --lr 0.1"
says 2 "exceeds the model's context of 256" "rows beyond the context" "plan --model tutorial -T 512"

refused "attention_dropout is not a number from 0 to 0.999" 's/}/, "attention_dropout": 1}/'
config ''
run="gpt-train -q -j 1 --model $dir/config.json -t $dir/a.tok --train $dir/a.rows --val $dir/a.rows --eval-every 3
  --optimizer adamw --lr 1e-2 --schedule minimind --warmup-steps 0 --final-lr-frac 0.1 --clip-norm 1
  --total-batch-size 256 -B 2 --steps 6"
run=$(echo $run)
ok "a run" "$run -o $dir/a >$dir/a.jsonl"
is "it learns" "sed -n 's/.*\"step\": \([16]\),.*\"loss\": \([0-9.]*\).*/\2/p' $dir/a.jsonl | tr '\n' ' ' | awk '{print \$2 < \$1 - 0.5}'" 1
is "the auxiliary loss is recorded" "grep -c '\"aux_loss\": 0.0[0-9]' $dir/a.jsonl" 6
is "weights are not normalised where the configuration does not say so, as in transformers" \
    "grep -o '\"norm_topk_prob\": [a-z]*' $dir/a/config.json" '"norm_topk_prob": false'
is "its configuration is Hugging Face's" "grep -o 'Qwen3MoeForCausalLM' $dir/a/config.json" Qwen3MoeForCausalLM
ok "a run that pauses" "$run -o $dir/b --stop-at 4"
ok "and goes on" "gpt-train -q --resume -o $dir/b"
ok "is the same" "cmp $dir/a/model.safetensors $dir/b/model.safetensors && cmp $dir/a/optimizer-0.safetensors $dir/b/optimizer-0.safetensors"
ok "so is one with --recompute" "$run -o $dir/c --recompute && cmp $dir/a/model.safetensors $dir/c/model.safetensors"
ok "and one with two threads" "$run -o $dir/d -j 2 && cmp $dir/a/model.safetensors $dir/d/model.safetensors"
ok "bf16 runs" "$run -o $dir/e --dtype bf16 --check-every 6 >$dir/e.jsonl"
is "and is near" "sed -n 's/.*\"grad_diff\": \([0-9.e-]*\).*/\1/p' $dir/e.jsonl | awk '{print \$1 < 0.1}'" 1
ok "so is a run with Muon" "gpt-train -q -j 1 --model $dir/config.json -t $dir/a.tok --train $dir/a.rows --steps 2 --total-batch-size 256 -o $dir/m"
loss() { sed -n "s/.*\"step\": $2,.*\"loss\": \([0-9.]*\).*/\1/p" "$dir/$1.jsonl"; }
near() { awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; print (d < 1e-4 && d > -1e-4) }'; }
drop="$run --dtype fp32 --dropout 0.2"
ok "a run with dropout" "$drop -o $dir/g >$dir/g.jsonl"
is "its configuration says so" "grep -o '\"[a-z_]*dropout\": 0.2' $dir/g/config.json | tr '\n' ' '" '"dropout": 0.2 "attention_dropout": 0.2 '
is "it trains otherwise" "near \$(loss a 1) \$(loss g 1)" 0
is "and evaluates without" "near \$(sed -n 's/.*\"step\": 0.*\"val_bpb\": \([0-9.]*\).*/\1/p' $dir/a.jsonl) \$(sed -n 's/.*\"step\": 0.*\"val_bpb\": \([0-9.]*\).*/\1/p' $dir/g.jsonl)" 1
ok "one that pauses is the same" "$drop -o $dir/h --stop-at 4 && gpt-train -q --resume -o $dir/h && cmp $dir/g/model.safetensors $dir/h/model.safetensors"
ok "so is one with --recompute and two threads" "$drop -o $dir/i --recompute -j 2 && cmp $dir/g/model.safetensors $dir/i/model.safetensors"
ok "other micro-batches" "$drop -B 4 -o $dir/k >$dir/k.jsonl"
is "drop the same" "near \$(loss k 1) \$(loss g 1)" 1
ok "a check of a step with dropout" "$drop -o $dir/l --check-every 6 --seed 1 >$dir/l.jsonl"
is "finds it right" "sed -n 's/.*\"grad_diff\": \([0-9.e-]*\).*/\1/p' $dir/l.jsonl | awk '{print \$1 < 1e-3}'" 1
ok "dropout of an adapter's run" "gpt-train -q -j 1 --init $dir/a --lora r=2 --dropout 0.5 -t $dir/a.tok --train $dir/a.rows --steps 3 --total-batch-size 256 -o $dir/n"
ok "goes on" "gpt-train -q -j 1 --init $dir/a --lora r=2 --dropout 0.5 -t $dir/a.tok --train $dir/a.rows --steps 3 --total-batch-size 256 --stop-at 2 -o $dir/o && gpt-train -q --resume -o $dir/o && cmp $dir/n/adapter_model.safetensors $dir/o/adapter_model.safetensors"
says 2 "the nanochat family has none" "dropout of a nanochat" "gpt-train -q --depth 2 --dropout 0.1 -t $dir/a.tok --train $dir/a.rows -o $dir/x"
ok "a second run from its weights" "gpt-train -q -j 1 --init $dir/a --optimizer adamw -t $dir/a.tok --train $dir/a.rows --steps 2 --total-batch-size 256 -o $dir/f"
ok "its bits per byte" "gpt-eval -q -m $dir/a bpb $dir/a.rows"
ok "it talks" "gpt-sample -q -m $dir/a -p 'line' -n 8 --temperature 0"
for c in tutorial minimind minimind-moe; do
    more="--epochs 1"
    ok "share/configs/$c.conf is sound" "gpt-train --dry-run -c $top/share/configs/$c.conf -t $dir/a.tok --train $dir/a.rows $more"
done
finish
