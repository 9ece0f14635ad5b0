# The programs of make bench: what they measure, and that they run. No figure of theirs is tested.
. "$(dirname "$0")/../lib.sh"
bench="$BUILD/tests/bench"
cat >"$dir/moe.json" <<'END'
{"model_type": "qwen3_moe", "vocab_size": 300, "hidden_size": 64, "intermediate_size": 96, "moe_intermediate_size": 96, "num_experts": 3, "num_experts_per_tok": 2,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000, "tie_word_embeddings": true}
END

# ---- step: the operations of a step of both families
step() { "$bench/step" "$@"; }
of() { awk -v op="$1" -v i="$2" '$1 == op {print $i}'; }
is "a step of nanochat's model" "step --depth 12 --rows 32 | grep -c -e '^attn ' -e '^relu2 ' -e '^smear ' -e '^muon '" 4
is "a step of experts: what the products of 8 layers are, 3 matrices of 768 x 2432" "step --model minimind-moe --rows 32 | of experts 2; step --model minimind-moe --rows 32 | of experts 3" "24
$(awk 'BEGIN {printf "%.3f", 8 * 3 * 2 * 32 * 2048 * 768 * 2432 / 1e12}')"
is "Qwen3-0.6B's attention: causal, 16 heads of 128 in 28 layers" "step --model qwen3-0.6b --rows 4 | of attn 3" \
    "$(awk 'BEGIN {printf "%.3f", 28 * 4 * 16 * 128 * 4 * 2048 * 2049 / 2 / 1e12}')"
ok "a config.json" "step --model $dir/moe.json -T 64 --rows 2 | grep -q '^slots_add_bwd '"
says 2 "--model: 'x' is neither" "a model that is none" "step --model x"

# ---- ops: everything that a step does is among what is timed
plan="--plan --peak 989 --bandwidth 3350"
named() { { step --depth 4; step --model minimind-moe; step --model tutorial; } | awk '$NF == "memory" || $NF == "products" {print $1}' | sort -u; }
timed() { { "$bench/ops" $plan; "$bench/ops" $plan --model minimind-moe; } | awk '{print $1}' | sort -u; }
is "no operation of a step is without a time" "named >$dir/named; timed >$dir/timed; comm -23 $dir/named $dir/timed" ""
is "  beside them what other runs do" "timed | grep -cx -e dropout -e attn_drop -e attn_drop_bwd -e cast -e lerp -e attn_kv -e logits" 7
is "narrower ones" "$bench/ops $plan --depth 6 linear_dw | sed -n '3p' | tr -s ' ' | cut -d ' ' -f 2-4" "2048 384 1536"
is "a chunk of logits" "$bench/ops $plan --chunk 1024 linear | tr -s ' ' | grep -c ' 1024 768 32768 '" 3
ok "they run, those of the experts too" "$bench/ops -j 1 -t 0 --model $dir/moe.json --json >$dir/moe && [ \$(wc -l <$dir/moe) -eq 17 ] && ! grep -e nan -e inf $dir/moe"
ok "in bf16" "$bench/ops -j 1 -t 0 --dtype bf16 --model $dir/moe.json --json route slots experts swiglu gain >$dir/moe && [ \$(wc -l <$dir/moe) -eq 12 ]"
ok "of nanochat's" "$bench/ops -j 1 -t 0 --depth 1 --json add relu2 mix vgate emb cast uncast lerp >$dir/nano && [ \$(wc -l <$dir/nano) -eq 15 ]"

# ---- decode and train
ok "decoding" "$bench/decode -j 1 --depth 1 --vocab 300 --prompt 3 -n 4 --rounds 3 --bandwidth 10 --json >$dir/d"
is "  bytes of a token: 12 C^2 + V C weights, the gates, and 5 keys and values, in fp32" "$bench/decode -j 1 --dtype fp32 --depth 1 --vocab 320 --prompt 3 -n 4 --rounds 1 --bandwidth 10 --json | sed 's/.*\"mbytes\": \([^,]*\),.*/\1/'" \
    "$(awk 'BEGIN {printf "%.2f", 4 * (12 * 128 * 128 + 320 * 128 + 2 * 5 * 128 + 12) / 1e6}')"
ok "  rows side by side, of the Llama family" "$bench/decode -j 1 --model $dir/moe.json --prompt 3 -n 4 -B 3 --rounds 2 --bandwidth 10 | grep -q '^llama, 2 layers, 3 rows'"
ok "a training step" "$bench/train -j 1 --depth 1 --vocab 300 -T 32 -B 1 --rounds 1 --json | grep -q '\"tok_per_s\": [1-9]'"

# ---- fp32 beside bf16
awk -v n=400 -v seed=4 -f "$top/share/demo/world.awk" >"$dir/world.txt"
says 2 "usage: dtype.sh" "dtype.sh without a text" "$top/tests/bench/dtype.sh"
ok "dtype.sh: both types" "STEPS=4 VOCAB=300 '$top/tests/bench/dtype.sh' '$dir/world.txt' 1 2 >$dir/dtype"
is "  of each seed" "sed 's/[0-9]\.[0-9]\{4\}/X/g' $dir/dtype" "seed 1, 4 steps: fp32 X, bf16 X bits per byte; X apart
seed 2, 4 steps: fp32 X, bf16 X bits per byte; X apart"
mkdir "$dir/bin"; printf '#!/bin/sh\ncase "$*" in *bf16*) echo "{\\"val_bpb\\": 2.52}";; *) echo "{\\"val_bpb\\": 2.5}";; esac\n' >"$dir/bin/gpt-train"; chmod +x "$dir/bin/gpt-train"
exits 1 "  too far apart" "VOCAB=300 PATH='$dir/bin:$PATH' '$top/tests/bench/dtype.sh' '$dir/world.txt'"
finish
