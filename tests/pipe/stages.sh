# The stages as one pipe, over files, and with a stage that dies.
. "$(dirname "$0")/../lib.sh"
awk -v n=300 -v seed=3 -f "$top/share/demo/world.awk" >"$dir/world.txt"
cd "$dir" || exit 1

# ---- over files
data-fetch -q world.txt -o docs.jsonl && bpe-train -q --vocab-size 400 -o files.tok docs.jsonl &&
    tok-encode -q -t files.tok -o docs.tokens docs.jsonl && pack-rows -q -T 64 -o files.rows docs.tokens || exit 1

# ---- as pipes
ok "a pipe trains a tokenizer" "data-fetch -q <world.txt | bpe-train -q --vocab-size 400 -o pipe.tok"
ok "the same as over files" "cmp files.tok pipe.tok"
ok "a pipe makes rows" "cat world.txt | data-fetch -q | tok-encode -q -t pipe.tok | pack-rows -q -T 64 -o pipe.rows"
ok "the same as over files" "cmp files.rows pipe.rows"
ok "gzip on the way changes nothing" "gzip -c docs.jsonl | tok-encode -q -t pipe.tok | gzip -c | pack-rows -q -T 64 -o gz.rows && cmp files.rows gz.rows"
ok "jq fits between two stages" "data-fetch -q world.txt | jq -c 'select(.text | length > 0)' | tok-encode -q -t pipe.tok | pack-rows -q -T 64 -o jq.rows && cmp files.rows jq.rows"
ok "two files are one stream" "head -n 100 docs.jsonl >a.jsonl; tail -n +101 docs.jsonl >b.jsonl; tok-encode -q -t pipe.tok a.jsonl b.jsonl | pack-rows -q -T 64 -o ab.rows && cmp files.rows ab.rows"
ok "cat of two token streams is a stream" "for x in a b; do tok-encode -q -t pipe.tok \$x.jsonl; done | pack-rows -q -T 64 -o cat.rows && cmp files.rows cat.rows"
ok "every document comes back" "tok-encode -q -t pipe.tok --decode docs.tokens | jq -r .text >back.txt; jq -r .text docs.jsonl | cmp - back.txt"

# ---- a model from both, byte for byte
train() { gpt-train -q --depth 2 --aspect-ratio 32 --head-dim 32 -t "$1.tok" --train "$1.rows" --steps 3 --total-batch-size 256 -o "$1.model" >"$1.log"; }
train files && train pipe || exit 1
ok "equal rows train equal models" "for f in model.safetensors optimizer-0.safetensors config.json tokenizer.tok; do cmp files.model/\$f pipe.model/\$f || exit 1; done"
is "the pipe ends in text" "gpt-sample -q -m pipe.model -p 'Ada is' -n 5 --temperature 0 --json | jq -r .finish_reason" "length"

# ---- a stage that dies half-way: the next one fails and leaves nothing
size=$(wc -c <docs.tokens)
says 1 "stdin: " "a token stream cut in the middle is refused" "head -c $((size / 2)) docs.tokens | pack-rows -q -T 64 -o cut.rows"
exits 1 "so is one without its last byte" "head -c $((size - 1)) docs.tokens | pack-rows -q -T 64 -o cut.rows"
exits 1 "and an empty one" "pack-rows -q -T 64 -o cut.rows </dev/null"
# the encoder gets a line, then hangs in the middle of the next and is killed
says 1 "stdin: " "an encoder killed half-way" \
    "{ sh -c 'tok-encode -q -t pipe.tok & p=\$!; sleep 1; kill -9 \$p; wait' 2>/dev/null <<X
\$(head -n 50 docs.jsonl)
X
} 2>/dev/null | head -c 400 | pack-rows -q -T 64 -o cut.rows"
says 1 "no-such-file" "a tokenizer that is missing" "data-fetch -q world.txt | tok-encode -q -t no-such-file | pack-rows -q -T 64 -o cut.rows"
says 1 "stdin: " "and the next stage notices" "{ data-fetch -q world.txt | tok-encode -q -t no-such-file; } 2>/dev/null | pack-rows -q -T 64 -o cut.rows"
says 1 "no documents" "a fetch that failed" "{ data-fetch -q no-such-file; } 2>/dev/null | tok-encode -q -t pipe.tok -o cut.tokens"
gz=$(gzip -c docs.jsonl | wc -c)
exits 1 "a gzip cut half-way" "gzip -c docs.jsonl | head -c $((gz / 2)) | tok-encode -q -t pipe.tok -o cut.tokens"
is "nothing of all that is left" "ls | grep -c cut" 0

# ---- another tokenizer
bpe-train -q --vocab-size 350 -o other.tok docs.jsonl || exit 1
says 1 "tokenizer" "rows of another tokenizer are refused" \
    "gpt-train -q --depth 2 --aspect-ratio 32 --head-dim 32 -t other.tok --train files.rows --steps 1 -o other.model"
says 1 "tokenizer" "also in evaluation" \
    "tok-encode -q -t other.tok docs.jsonl | pack-rows -q -T 64 -o other.rows; gpt-eval -q -m pipe.model bpb other.rows"
ok "a reader that leaves early ends the pipe quietly" "data-fetch -q world.txt 2>err | head -n 1 >/dev/null; [ ! -s err ]"
finish
