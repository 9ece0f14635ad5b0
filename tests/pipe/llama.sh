# The Llama family through the pipe: rewards, adapters by fine-tuning and by rewards, a directory whose
# vocabulary is padded.
. "$(dirname "$0")/../lib.sh"
cd "$dir" || exit 1

i=0; while [ $i -lt 40 ]; do echo '{"text": "qa"}'; echo '{"text": "qb"}'; i=$((i+1)); done >docs.jsonl
bpe-train -q -v 265 -o t.tok docs.jsonl 2>/dev/null && tok-encode -q -t t.tok docs.jsonl | pack-rows -q -T 24 -o t.rows || exit 1
config() { # MODEL_TYPE KEYS
    echo "{\"model_type\": \"$1\", \"hidden_size\": 32, \"num_hidden_layers\": 2,
      \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 16, \"intermediate_size\": 64,
      \"vocab_size\": 265, \"max_position_embeddings\": 24, \"tie_word_embeddings\": true,
      \"initializer_range\": 0.1$2}" >config.json
}
base() { # NAME
    gpt-train -q -j 1 --dtype fp32 --model config.json -t t.tok --train t.rows --steps 60 --total-batch-size 96 --optimizer adamw \
        --lr 3e-3 --warmup-steps 0 --clip-norm 1 -o "$1" >/dev/null || exit 1
}
config qwen3; base base
config qwen3_moe ', "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32'; base moe
i=0; while [ $i -lt 6 ]; do echo "{\"prompt\": \"q\", \"n\": $i}"; i=$((i+1)); done >q.jsonl
last() { tail -n "${3:-1}" "$1" | head -n 1 | sed "s/.*\"$2\": \([^,}]*\).*/\1/"; }
cat >first_a <<'END'
#!/bin/sh
while IFS= read -r line; do case $line in *'"completion": "a'*) echo 1;; *) echo 0;; esac; done
END
common="--rl q.jsonl --max-tokens 3 --examples 2 --samples 8 --reward 'sh first_a' --val q.jsonl --eval-samples 8 --eval-every 20 --eval-prompts 2 --check-every 1 --dtype fp32 --lr-scale 2"

# rewards. The model says a or b after q, one as often as the other; a is rewarded
for m in base moe; do
    ok "$m: a run with rewards" "gpt-train -q -j 1 --init $m $common --steps 20 -o $m-rl >a.jsonl"
    is "before it: a and b both" "sed -n 's/.*\"step\": 0.*\"pass_at_1\": \([^,]*\).*/\1/p' a.jsonl | awk '{print (\$1 > 0.1 && \$1 < 0.9)}'" 1
    is "after it: a, nearly always ($(last a.jsonl pass_at_1))" "last a.jsonl pass_at_1 | awk '{print (\$1 > 0.9)}'" 1
    is "log-probabilities: those of sampling and those of training are the same" \
        "grep -o '\"logp_diff\": [0-9.e-]*' a.jsonl | awk '{n++; if (!(\$2 < 1e-4)) bad++} END {print n, bad + 0}'" "20 0"
    is "it samples" "gpt-sample -q -m $m-rl -p q -n 1 --temperature 0" "a"
done
grpo="gpt-train -q -j 1 --init base $common --grpo --grpo-epochs 2 --kl 0.01 --steps 6"
ok "with GRPO and a divergence" "$grpo -o g >g.jsonl"
ok "one stopped at 3 goes on" "$grpo --stop-at 3 -o h && gpt-train -q -j 2 --resume -o h --stop-at 0"
ok "to the same bytes" "cmp g/model.safetensors h/model.safetensors && cmp g/optimizer-0.safetensors h/optimizer-0.safetensors"

# adapters by rewards
for m in base moe; do
    ok "$m: an adapter by rewards" "gpt-train -q -j 1 --init $m $common --lora r=4,targets=all --lr 1e-2 --kl 0.001 --steps 20 -o $m-lora >a.jsonl"
    is "after it: a, nearly always ($(last a.jsonl pass_at_1))" "last a.jsonl pass_at_1 | awk '{print (\$1 > 0.9)}'" 1
    is "there is a divergence from the model" "last a.jsonl kl 2 | awk '{print (\$1 > 0)}'" 1
    is "with it the model says a" "gpt-sample -q -m $m --adapter $m-lora -p q -n 1 --temperature 0" "a"
done
run="gpt-train -q -j 1 --init base $common --lora r=4,targets=all --lr 1e-2 --kl 0.01 --grpo --grpo-epochs 2 --steps 6"
ok "with GRPO" "$run -o lg >a.jsonl"
ok "one stopped at 3 goes on" "$run --stop-at 3 -o lh && gpt-train -q -j 1 --resume -o lh --stop-at 0"
ok "to the same bytes" "cmp lg/adapter_model.safetensors lh/adapter_model.safetensors && cmp lg/optimizer-0.safetensors lh/optimizer-0.safetensors"
is "a dry run counts no second model for the divergence" "$run --dry-run --json -o x | sed 's/.*bytes_decoding\": \([0-9]*\).*/\1/'" \
    "$(eval "$run --kl 0 --dry-run --json -o x" | sed 's/.*bytes_decoding": \([0-9]*\).*/\1/')"

# a directory as Hugging Face has it: tokenizer.json, and more rows of embeddings than tokens
padded() { rm -rf p; mkdir p; cp "$1"/* p/ 2>/dev/null; rm -f p/tokenizer.tok p/state.json p/optimizer-0.safetensors p/clock.json p/status.json; }
sed 's/"vocab_size": 265/"vocab_size": 272/' config.json >wide.json
ok "a model with rows to spare" "gpt-train -q -j 1 --model wide.json -t t.tok --train t.rows --steps 60 --total-batch-size 96 --optimizer adamw --lr 3e-3 --warmup-steps 0 --dtype fp32 -o wide >/dev/null"
padded wide
is "it has them, and no tokenizer of ours" "grep -o '\"vocab_size\": [0-9]*' p/config.json; ls p | tr '\n' ' '" '"vocab_size": 272
config.json generation_config.json model.safetensors tokenizer.json tokenizer_config.json '
field() { sed "s/.*\"$1\": \([^,}]*\).*/\1/"; }
is "gpt-eval bpb: with either tokenizer" "gpt-eval -q --dtype fp32 -m p bpb t.rows | field bpb" "$(gpt-eval -q --dtype fp32 -m wide bpb t.rows | field bpb)"
printf '%s\n' '{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}' >c.jsonl
is "gpt-eval chat runs, and ends answers" "gpt-eval -q -m p -n 4 chat c.jsonl | head -n 1 | field items" 1
ok "gpt-train goes on with it" "gpt-train -q -j 1 --init p --train t.rows --steps 3 --total-batch-size 96 --optimizer adamw -o p2"
is "to a directory that is as wide" "gpt-sample -q -m p2 -p q -n 1 --temperature 0 | grep -c '[ab]'; gpt-eval -q -m p2 bpb t.rows | field tokens" "$(printf '1\n'; gpt-eval -q -m p bpb t.rows | field tokens)"
ok "rewards" "gpt-train -q -j 1 --init p $common --optimizer adamw --lr 3e-3 --steps 20 -o p3 >a.jsonl"
is "teach it a ($(last a.jsonl pass_at_1))" "last a.jsonl pass_at_1 | awk '{print (\$1 > 0.8)}'" 1
sed 's/"vocab_size": 265/"vocab_size": 262/' config.json >narrow.json
says 1 "vocab_size is 262, but the tokenizer has 265" "fewer rows than tokens" "gpt-train -q --model narrow.json -t t.tok --train t.rows --steps 1 -o no"

finish
