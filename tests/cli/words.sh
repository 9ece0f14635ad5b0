# bpe-train --words: a vocabulary of words, in every tool that takes a tokenizer.
. "$(dirname "$0")/../lib.sh"
cd "$dir" || exit 1
printf '%s\n' '{"text": "b a  b\nb"}' >few.jsonl
ids() { tok-encode -q -t "$1" --ids "$2"; }
ok "a vocabulary" "bpe-train -q --words -v 100 -o all.tok few.jsonl"
is "pad, unk, eos, then by frequency and bytes" "ids all.tok few.jsonl" "2 3 5 7 6 3 4 3"
says 0 "0 of 7 pieces are unknown" "nothing is unknown" "bpe-train --words -v 100 -o x.tok few.jsonl"
says 0 "the tokenizer has 8 ids, not 100" "there are no more" "bpe-train --words -v 100 -o x.tok few.jsonl"
says 0 "2 of 7 pieces are unknown, 28.57 %; 6 ids" "the unknown are told of" "bpe-train --words -v 6 -o six.tok few.jsonl"
is "and become <unk>" "ids six.tok few.jsonl" "2 3 5 1 1 3 4 3"
is "which decodes as its name" "tok-encode -q -t six.tok few.jsonl | tok-encode -q -t six.tok --decode" '{"text":"b <unk><unk>b\nb"}'
is "pieces that are too rare are unknown" "bpe-train -q --words -v 100 --min-count 2 few.jsonl | tok-encode -q -t /dev/stdin --ids few.jsonl" "2 3 1 1 1 3 1 3"
printf '%s\n' '{"text": "<unk> x <unk> <eos>"}' >names.jsonl
is "a name in a text is no word" "bpe-train -q --words -v 100 names.jsonl | tok-encode -q -t /dev/stdin --ids names.jsonl" "2 1 3 4 3 1 3 1"

awk -v n=300 -v seed=5 -f "$top/share/demo/world.awk" | data-fetch -q --split blank - >docs.jsonl
printf '%s\n' '{"text": "a\u0085b c\u2003d\u00a0\te \u200bf\ufeff g  "}' '{"text": ""}' '{"text": " "}' '{"text": "\u4e2d\u6587 \ud83d\ude00\ud83d\ude00\n\n"}' >>docs.jsonl
bpe-train -q --words -v 100000 -o docs.tok docs.jsonl || exit 1
jq -c .text docs.jsonl >want
ok "what is known comes back" "tok-encode -q -t docs.tok docs.jsonl | tok-encode -q -t docs.tok --decode | jq -c .text | cmp - want"
is "white space is Unicode's" "printf '%s\n' '{\"text\": \"a\u0085b c\u2003d\u00a0\te \u200bf\ufeff g  \"}' | tok-encode -q -t docs.tok --ids - | wc -w" 15
ok "threads and memory change nothing" "bpe-train -q --words -v 300 -j 1 -o one.tok docs.jsonl && PIPEGPT_TABLE=4096 PIPEGPT_BLOCK=500 bpe-train -q --words -v 300 -j 2 -T . -o two.tok docs.jsonl && cmp one.tok two.tok"
ok "tokenizer.json and back" "tok-encode --convert docs.tok docs.json && tok-encode --convert docs.json back.tok && cmp docs.tok back.tok"
is "which is of words" "jq -r '.model.type, .model.unk_token, .pre_tokenizer.pattern.Regex' docs.json | tr '\n' ' '" 'WordLevel <unk> \s+ '
is "with what begins a text" "jq -c '.post_processor.special_tokens' docs.json" '{"<eos>":{"id":"<eos>","ids":[2],"tokens":["<eos>"]}}'
says 1 "ranks are of byte pairs" "no ranks" "tok-encode --convert docs.tok x.tiktoken"
for f in continue-from counts merges; do says 2 "--$f: not with --words" "--$f" "bpe-train --words --$f x docs.jsonl"; done
bpe-train -q -v 300 --counts few.counts -o bpe.tok few.jsonl 2>/dev/null
says 1 "--words needs documents" "counts of pieces" "bpe-train --words few.counts"
says 2 "is not from 265" "a small vocabulary without --words" "bpe-train -v 100 docs.jsonl"
says 2 "range" "too small for words" "bpe-train --words -v 3 docs.jsonl"
jq -c '.model.vocab["<unk>"] = 0 | .model.vocab["<pad>"] = 1 | .added_tokens[1].id = 0 | .added_tokens[0].id = 1' docs.json >bad.json
says 1 "the special token 0 is not <pad>" "specials of other ids" "tok-encode --convert bad.json x.tok"
jq -c '.pre_tokenizer.pattern.Regex = "\\w+"' docs.json >bad.json
says 1 "pre-tokenizer is not one that is known" "another pattern" "tok-encode --convert bad.json x.tok"
says 1 "has no special token <|bos|>, which the template" "no conversations" "echo '{}' | tok-encode -t docs.tok --chat --ids"

# the tutorial's recipe: its own configuration, only a smaller model and fewer steps
jq -nc --argjson V "$(jq '.model.vocab | length' docs.json)" '{model_type: "llama", hidden_size: 64, num_hidden_layers: 2,
    num_attention_heads: 2, intermediate_size: 64, vocab_size: $V, max_position_embeddings: 256}' >c.json
ok "rows" "tok-encode -q -t docs.tok docs.jsonl | pack-rows -q -T 256 -o docs.rows"
ok "its model" "gpt-train -q -j 2 -c $top/share/configs/tutorial.conf --model c.json -t docs.tok --train docs.rows --steps 2 -B 1 --total-batch-size 256 -o run >log"
ok "it talks" "gpt-sample -q -m run -p 'The cook' -n 4 >said"
is "bits per byte" "gpt-eval -q -m run bpb docs.rows | jq '.bpb > 0.5 and .bpb < 5'" true
says 1 "llama.cpp has no tokenizers of words" "no GGUF" "gpt-train --export gguf-f16 --init run -o run.gguf"
finish
