# gpt-train --export: directories of bf16 and fp16 weights, GGUF; what is refused; nothing left of a failure.
. "$(dirname "$0")/../lib.sh"
i=0; while [ $i -lt 60 ]; do echo "{\"text\": \"line $i: the cat sat on mat $((i * 7 % 13)), and the dog did not.\"}"; i=$((i+1)); done >"$dir/docs.jsonl"
bpe-train -q -v 300 -o "$dir/a.tok" "$dir/docs.jsonl" || exit 1
tok-encode -q -t "$dir/a.tok" "$dir/docs.jsonl" | pack-rows -q -T 32 -o "$dir/a.rows" || exit 1
echo '{"model_type": "qwen3", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
  "head_dim": 16, "intermediate_size": 96, "vocab_size": 300, "max_position_embeddings": 64, "tie_word_embeddings": true}' >"$dir/c.json"
gpt-train -q -j 1 --model "$dir/c.json" -t "$dir/a.tok" --train "$dir/a.rows" --optimizer adamw --lr 1e-2 --steps 20 \
    --total-batch-size 256 -o "$dir/m" >/dev/null || exit 1
ls "$dir/m" >"$dir/m.files"
for f in tokenizer.json tokenizer_config.json generation_config.json; do ok "training writes $f" "jq -e . $dir/m/$f"; done
is "which say how a text begins" "jq -c '[.bos_token, .add_bos_token, .eos_token]' $dir/m/tokenizer_config.json" '["<|bos|>",true,"<|bos|>"]'
is "and which tokens end it" "jq -c .eos_token_id $dir/m/generation_config.json" '[291,292,295]'

head_of() { tail -c +9 "$1/model.safetensors" | head -c 2000 | LC_ALL=C grep -ao '"dtype":"[A-Z0-9]*"' | head -n 1; }
greedy() { gpt-sample -q -m "$1" -p 'line 1' -n 12 --temperature 0; }
greedy "$dir/m" >"$dir/text"
for t in fp32 bf16 fp16; do
    case $t in fp32) d=float32 s=F32;; bf16) d=bfloat16 s=BF16;; fp16) d=float16 s=F16;; esac
    ok "a directory of $t" "gpt-train -q --export $t --init $dir/m -o $dir/$t"
    is "says so" "jq -r .torch_dtype $dir/$t/config.json; head_of $dir/$t" "$d
\"dtype\":\"$s\""
    is "talks" "greedy $dir/$t" "$(cat "$dir/text")"
    ok "gives the same again" "gpt-train -q --export $t --init $dir/$t -o $dir/$t.2 && cmp $dir/$t/model.safetensors $dir/$t.2/model.safetensors"
    ok "has the tokenizer" "cmp $dir/m/tokenizer.tok $dir/$t/tokenizer.tok && cmp $dir/m/tokenizer.json $dir/$t/tokenizer.json && cmp $dir/m/generation_config.json $dir/$t/generation_config.json"
done
ok "fp32 has the same weights" "cmp $dir/m/model.safetensors $dir/fp32/model.safetensors"
ok "from tokenizer.json alone" "rm $dir/bf16.2/tokenizer.tok && gpt-train -q --export bf16 --init $dir/bf16.2 -o $dir/bf16.3 && cmp $dir/bf16/model.safetensors $dir/bf16.3/model.safetensors"
is "bf16 is half as long" "wc -c <$dir/bf16/model.safetensors | awk -v a=\$(wc -c <$dir/m/model.safetensors) '{print (\$1 < 0.52 * a)}'" 1

for t in f32 f16 bf16 q8_0; do
    ok "gguf-$t" "gpt-train -q --export gguf-$t --init $dir/m -o $dir/$t.gguf"
    is "is GGUF, version 3" "head -c 8 $dir/$t.gguf | od -An -tx1 | tr -d ' '" 4747554603000000
done
is "q8_0 is 34 bytes for 32 numbers" "wc -c <$dir/q8_0.gguf | awk -v a=\$(wc -c <$dir/f16.gguf) '{print (\$1 < 0.75 * a)}'" 1
says 0 "numbers of three digits" "llama.cpp's way to split text is not ours" "gpt-train --export gguf-f32 --init $dir/m -o $dir/x.gguf"
ok "twice the same bytes" "cmp $dir/f32.gguf $dir/x.gguf"
ok "a Hugging Face directory" "rm $dir/fp16.2/tokenizer.tok && gpt-train -q --export gguf-f16 --init $dir/fp16.2 -o $dir/y.gguf && gpt-train -q --export gguf-f16 --init $dir/fp16 -o $dir/w.gguf && cmp $dir/w.gguf $dir/y.gguf"

says 2 "known are fp32, bf16, fp16, gguf-f32" "an unknown format" "gpt-train --export pt --init $dir/m -o $dir/z"
says 2 "give --init DIR" "no model" "gpt-train --export bf16 -o $dir/z"
says 2 "give -o" "no output" "gpt-train --export bf16 --init $dir/m"
says 2 "--train: not with --export" "rows" "gpt-train --export bf16 --init $dir/m -o $dir/z --train $dir/a.rows"
says 1 "holds a model already" "a model is there" "gpt-train --export bf16 --init $dir/m -o $dir/fp16"
says 1 "is what is to be exported" "onto itself" "gpt-train --export bf16 --init $dir/m -o $dir/m --force"
says 1 "is there already" "a file is there" "gpt-train --export gguf-f16 --init $dir/m -o $dir/f16.gguf"
ok "overwritten with --force" "gpt-train -q --export gguf-f32 --init $dir/m -o $dir/f16.gguf --force && cmp $dir/f16.gguf $dir/f32.gguf"
says 1 "is a directory" "GGUF into a directory" "gpt-train --export gguf-f16 --init $dir/m -o $dir/m"
exits 1 "a full disk" "gpt-train -q --export gguf-f32 --init $dir/m -o /dev/full"
size=$(wc -c <"$dir/m/model.safetensors")
mkdir "$dir/big" && cp "$dir/m/config.json" "$dir/m/tokenizer.tok" "$dir/m/model.safetensors" "$dir/big" &&
    printf '\000\044\164\111' | dd of="$dir/big/model.safetensors" bs=1 seek=$((size - 4)) conv=notrunc 2>/dev/null   # 1e6
says 1 "tensor model.norm.weight: damaged" "a weight that was changed" "gpt-train -q --export bf16 --init $dir/big -o $dir/z"
LC_ALL=C sed -i 's/"xxh3"/"none"/' "$dir/big/model.safetensors"     # as of another program
says 1 "tensor model.norm.weight has a number too large for fp16" "beyond fp16" "gpt-train -q --export fp16 --init $dir/big -o $dir/z"
ok "bf16 holds it" "gpt-train -q --export bf16 --init $dir/big -o $dir/z && rm -r $dir/z"
says 1 "No such file" "no such model" "gpt-train --export gguf-f16 --init $dir/none -o $dir/z"
ok "nothing is left of these" "! ls $dir | grep -E '^z|tmp'"
gpt-train -q -j 1 --depth 2 --aspect-ratio 16 --head-dim 16 -t "$dir/a.tok" --train "$dir/a.rows" --steps 1 --total-batch-size 64 -o "$dir/n" >/dev/null
says 1 "does not know the nanochat family" "a nanochat as GGUF" "gpt-train --export gguf-f16 --init $dir/n -o $dir/z"
ok "and as its own files" "gpt-train -q --export nanochat --init $dir/n -o $dir/np && (cd $dir/np && find * -type f | sort | tr '\n' ' ' >../files)"
is "which are" "cat $dir/files" "meta_000001.json model_000001.pt tokenizer/token_bytes.pt tokenizer/tokenizer.pkl "
is "with the shape" "jq -c '[.step, .model_config.n_layer, .model_config.vocab_size, (.model_config | length)]' $dir/np/meta_000001.json" "[1,2,300,7]"
says 1 "is there already" "these are there" "gpt-train -q --export nanochat --init $dir/n -o $dir/np"
says 1 "not of the nanochat family" "another family" "gpt-train -q --export nanochat --init $dir/m -o $dir/z"
ok "a nanochat in bf16" "gpt-train -q --export bf16 --init $dir/n -o $dir/nb && gpt-sample -q -m $dir/nb -p line -n 2"
ok "its directory has no files for others" "! ls $dir/nb $dir/n | grep tokenizer.json"
finish
