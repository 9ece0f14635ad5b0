# gpt-train --lora, --adapter, --merge, on both families: frozen base, resume, PEFT's layout, refusals.
. "$(dirname "$0")/../lib.sh"
i=0; while [ $i -lt 80 ]; do echo "{\"text\": \"line $i: the cat sat on mat $((i * 7 % 13)), and the dog did not.\"}"; i=$((i+1)); done >"$dir/docs.jsonl"
bpe-train -q -v 300 -o "$dir/a.tok" "$dir/docs.jsonl" || exit 1
tok-encode -q -t "$dir/a.tok" "$dir/docs.jsonl" | pack-rows -q -T 32 -o "$dir/a.rows" || exit 1
member() { grep -o "\"$1\": [^,}]*" | head -n 1 | sed 's/.*: //'; }
moe() {
    echo '{"model_type": "qwen3_moe", "hidden_size": 32, "num_hidden_layers": 2,
      "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
      "intermediate_size": 64, "moe_intermediate_size": 24, "num_experts": 4,
      "num_experts_per_tok": 2, "vocab_size": 300, "max_position_embeddings": 64,
      "router_aux_loss_coef": 0.02, "tie_word_embeddings": true}' >"$dir/config.json"
}
moe
base="gpt-train -q -j 1 -t $dir/a.tok --train $dir/a.rows --steps 2 --total-batch-size 256"
ok "a mixture of experts to adapt" "$base --model $dir/config.json -o $dir/moe"
ok "and a nanochat" "$base --depth 2 --aspect-ratio 24 --head-dim 24 -o $dir/nano"
for m in moe nano; do
    sum=$(cksum <"$dir/$m/model.safetensors")
    run="gpt-train -q -j 1 --init $dir/$m --train $dir/a.rows --val $dir/a.rows --eval-every 6 --lora r=4,targets=all --lr 2e-2
      --warmup-steps 0 --total-batch-size 256 -B 2 --steps 6"
    run=$(echo $run)
    bf16="$run --dtype bf16" run="$run --dtype fp32"
    ok "$m: a run" "$run -o $dir/$m-a >$dir/a.jsonl"
    is "it learns" "sed -n 's/.*\"step\": \([16]\),.*\"loss\": \([0-9.]*\).*/\2/p' $dir/a.jsonl | tr '\n' ' ' | awk '{print \$2 < \$1 - 0.01}'" 1
    is "the model stays" "cksum <$dir/$m/model.safetensors" "$sum"
    is "no model is written" "ls $dir/$m-a | tr '\n' ' '" "adapter_config.json adapter_model.safetensors clock.json optimizer-0.safetensors state.json status.json "
    ok "a run that pauses" "$run -o $dir/$m-b --stop-at 4"
    ok "and goes on" "gpt-train -q --resume -o $dir/$m-b"
    ok "is the same" "cmp $dir/$m-a/adapter_model.safetensors $dir/$m-b/adapter_model.safetensors && cmp $dir/$m-a/optimizer-0.safetensors $dir/$m-b/optimizer-0.safetensors"
    ok "with --recompute and two threads too" "$run -o $dir/$m-c --recompute -j 2 && cmp $dir/$m-a/adapter_model.safetensors $dir/$m-c/adapter_model.safetensors"
    ok "bf16 pauses" "$bf16 -o $dir/$m-d --stop-at 3 --check-every 3 >$dir/d.jsonl"
    is "its gradient is near" "sed -n 's/.*\"grad_diff\": \([0-9.e-]*\).*/\1/p' $dir/d.jsonl | awk '{print \$1 < 0.1}'" 1
    ok "and straight is the same" "gpt-train -q --resume -o $dir/$m-d && $bf16 -o $dir/$m-e && cmp $dir/$m-d/adapter_model.safetensors $dir/$m-e/adapter_model.safetensors"
    want=$(grep '"step": 6' "$dir/a.jsonl" | member val_bpb)
    is "gpt-eval --adapter: the run's own" "gpt-eval -q --dtype fp32 -m $dir/$m --adapter $dir/$m-a bpb $dir/a.rows | member bpb | cut -c 1-7" "$(echo "$want" | cut -c 1-7)"
    ok "merged" "gpt-train -q --init $dir/$m --adapter $dir/$m-a --merge -o $dir/$m-m"
    is "it is the same model" "gpt-eval -q --dtype fp32 -m $dir/$m-m bpb $dir/a.rows | member bpb | cut -c 1-6" "$(echo "$want" | cut -c 1-6)"
    is "and talks the same" "gpt-sample -q --dtype fp32 -m $dir/$m --adapter $dir/$m-a -p line -n 12 --temperature 0" "$(gpt-sample -q --dtype fp32 -m $dir/$m-m -p line -n 12 --temperature 0)"
    says 1 "merged into the model's weights already" "twice is refused" "gpt-train --init $dir/$m-m --adapter $dir/$m-a --merge -o $dir/twice"
    says 1 "merged into the model's weights already" "also to sample" "gpt-sample -m $dir/$m-m --adapter $dir/$m-a -p x"
    says 0 "trained on other weights" "on other weights: told" "gpt-sample -m $dir/$m-m --adapter $dir/$m-d -p x -n 1"
    ok "another adapter on the merged model" "gpt-train -q --init $dir/$m-m --lora r=2 --train $dir/a.rows --total-batch-size 256 --steps 1 -o $dir/$m-f"
    ok "going on with one" "gpt-train -q --init $dir/$m --adapter $dir/$m-a --train $dir/a.rows --total-batch-size 256 --steps 1 --save-every 1 --keep 1 -o $dir/$m-g"
    ok "and resuming that" "gpt-train -q --resume -o $dir/$m-g"
    is "what was kept is an adapter" "ls $dir/$m-g/step-000001 | head -n 2 | tr '\n' ' '" "adapter_config.json adapter_model.safetensors "
done
plan="gpt-train --dry-run --json --steps 1 --model minimind -T 512 -B 4 --total-batch-size 2048"
is "minimind, q and v: 131072 parameters" "$plan --lora r=8,alpha=16,targets=q,v | member adapter_params" $((8 * 8 * (768 + 768 + 768 + 384)))
is "their gradients" "$plan --lora r=8 | member bytes_gradients" $((4 * 8 * 8 * (768 + 768 + 768 + 384)))
is "and moments" "$plan --lora r=8 | member bytes_optimizer" $((8 * 8 * 8 * (768 + 768 + 768 + 384)))
is "all: seven maps a layer" "$plan --lora r=1,targets=all | member adapter_params" $((8 * (2 * 768 + 2 * (768 + 384) + 2 * 768 + 3 * (768 + 2432))))
is "two layers by pattern" "$plan --lora 'r=2,targets=model.layers.[01].*' | member adapter_params" $((2 * 2 * (2 * 768 + 2 * (768 + 384) + 2 * 768 + 3 * (768 + 2432))))
tiny="--init $dir/nano --train $dir/a.rows --steps 1 --total-batch-size 256"
says 2 "matches no linear map" "a target that is not there" "gpt-train $tiny --lora targets=zz -o $dir/x"
says 2 "matches no linear map" "the router is no target" "gpt-train --dry-run --model $dir/config.json --lora targets=model.layers.0.mlp.gate"
says 1 "a part of its layer's experts" "a part of a layer's experts" "gpt-train --dry-run --model $dir/config.json --lora 'targets=*.experts.1.*'"
says 2 "known are r, alpha" "a key that is not known" "gpt-train $tiny --lora rank=8 -o $dir/x"
says 2 "r: not a whole number" "half a rank" "gpt-train $tiny --lora r=1.5 -o $dir/x"
says 2 "r: not a number, or out of range" "no rank" "gpt-train $tiny --lora r=0 -o $dir/x"
says 2 "not of the form" "no key" "gpt-train $tiny --lora 8 -o $dir/x"
says 2 "give --init DIR" "an adapter of nothing" "gpt-train --lora r=8 -t $dir/a.tok --train $dir/a.rows -o $dir/x"
says 2 "give one" "new and old" "gpt-train $tiny --lora r=8 --adapter $dir/nano-a -o $dir/x"
says 2 "not with an adapter" "--ema" "gpt-train $tiny --lora r=8 --ema 0.9 -o $dir/x"
says 2 "not with --train" "--merge trains nothing" "gpt-train $tiny --adapter $dir/nano-a --merge -o $dir/x"
says 1 "an adapter needs a directory of its own" "over a model" "gpt-train $tiny --lora r=8 --force -o $dir/nano"
says 1 "No such file" "no adapter there" "gpt-train $tiny --adapter $dir/none -o $dir/x"
says 1 "matches no linear map" "one of another model" "gpt-sample -m $dir/nano --adapter $dir/moe-a -p x"
cp -R "$dir/nano-a" "$dir/bad"
config() { sed "$1" "$dir/nano-a/adapter_config.json" >"$dir/bad/adapter_config.json"; }
refused() { config "$2"; says 1 "$1" "refused: $1" "gpt-sample -m $dir/nano --adapter $dir/bad -p x"; }
refused 'peft_type is not "LORA"' 's/LORA/IA3/'
refused "use_dora is true" 's/}/, "use_dora": true}/'
refused "rank_pattern is not empty" 's/}/, "rank_pattern": {"q": 2}}/'
refused 'bias is not "none"' 's/"none"/"all"/'
refused "its rank is not the configuration's, 3" 's/"r": 4/"r": 3/'
refused "lora_alpha is missing" 's/"lora_alpha": 8,//'
refused "r is missing or not an integer" 's/"r": 4/"r": 0/'
refused "not valid JSON" 's/}//'
config 's/}/, "use_rslora": true}/'
is "rank-stabilised: alpha / sqrt(r)" "gpt-sample -q --dtype fp32 -m $dir/nano --adapter $dir/bad -p line -n 8 --temperature 0 --logprobs" "$(config 's/"lora_alpha": 8/"lora_alpha": 16/'; gpt-sample -q --dtype fp32 -m $dir/nano --adapter $dir/bad -p line -n 8 --temperature 0 --logprobs)"
head -c 3000 "$dir/nano-a/adapter_model.safetensors" >"$dir/bad/adapter_model.safetensors"; config ''
says 1 "not a valid safetensors file" "a file cut short" "gpt-sample -m $dir/nano --adapter $dir/bad -p x"
mv "$dir/moe" "$dir/gone"
says 1 "No such file" "a resume without its model" "gpt-train -q --resume -o $dir/moe-b"
mv "$dir/moe-m" "$dir/moe"
says 1 "not the weights any more" "or with another" "gpt-train -q --resume -o $dir/moe-b"
finish
