# Faults that users of comparable trainers have met, each with its number in our list of them, from
# text to a trained model. Others are where their parts are tested: F02 F03 F24 tests/unit/train.c;
# F05 F37 pack-rows.sh; F09 F10 resume.sh; F09 F39 rows.sh; F25 F40 gpt-eval.sh, tests/unit/bpb.c.
. "$(dirname "$0")/../lib.sh"
cd "$dir" || exit 1

i=0; while [ $i -lt 60 ]; do echo "{\"text\": \"line $i: the cat sat on mat $((i * 7 % 13)), and the dog did not.\"}"; i=$((i+1)); done >docs.jsonl
bpe-train -q -v 300 -o a.tok docs.jsonl && tok-encode -q -t a.tok docs.jsonl | pack-rows -q -T 32 -o a.rows || exit 1
turn() { printf '{"messages": [{"role": "user", "content": "%s"}, {"role": "assistant", "content": "%s"}]}\n' "$1" "$2"; }
turn '2+2?' '4' >one.jsonl
{ turn '2+2?' '4'; turn 'Where is the cat?' 'On the mat.'; turn 'And the dog? Did it sit there as well?' 'It did not.'; } >three.jsonl
size="-j 1 --depth 2 --aspect-ratio 16 --head-dim 16 --window-pattern L"
run="gpt-train -q $size -t a.tok"
field() { tail -n 1 "$1" | sed "s/.*\"$2\": \([^,}]*\).*/\1/"; }

# F01, F04: what counts is the answer and its end marker, at every stage
for f in one three; do
    tok-encode -t a.tok --chat $f.jsonl -o $f.tokens 2>$f.enc && pack-rows --sft -T 64 -o $f.rows $f.tokens 2>$f.pack || exit 1
done
counts() { sed -n 's/.* \([0-9]*\) with loss mask 1.*/\1/p' $1.enc; sed -n 's/.*loss mask 1: \([0-9]*\) tokens in, \([0-9]*\) in rows/\1 \2/p' $1.pack; sed -n 's/^  "targets": \([0-9]*\),/\1/p' $1.model/state.json; }
rows=$(pack-rows --check three.rows | sed 's/.*"rows":\([0-9]*\).*/\1/')
ok "F01 a step on 2+2? 4" "$run --train one.rows --steps 1 --total-batch-size 64 -o one.model >one.log"
is "F01 two targets: 4 and its end" "counts one | tr '\n' ' '" "2 2 2 2 "
ok "F04 an epoch of three conversations" "$run --train three.rows --steps 1 --total-batch-size $((64 * rows)) -o three.model >three.log"
is "F04 no target is lost on the way" "counts three | tr ' ' '\n' | sort -u | wc -l" 1

# F36: the end of an answer is learnt, though padding follows it
ok "F36 overfits one pair" "$run --train one.rows --val one.rows --steps 60 --total-batch-size 64 --warmup-steps 0 --matrix-lr 0.5 --embedding-lr 5 --unembedding-lr 0.3 -o fit >fit.log"
is "F36 loss over answer and end: $(field fit.log val_loss)" "field fit.log val_loss | awk '{print (\$1 < 0.05)}'" 1

# F75: padding has no part in a loss
for T in 31 95; do
    pack-rows -q --sft -T $T -o pad$T.rows one.tokens && $run --train pad$T.rows --steps 1 --total-batch-size $T -o pad$T >pad$T.log || exit 1
done
ok "F75 one conversation in rows of 32 and of 96: $(field pad31.log loss), $(field pad95.log loss)" \
    "echo $(field pad31.log loss) $(field pad95.log loss) | awk '{d = \$1 - \$2; exit !(d < 1e-6 && d > -1e-6)}'"

# F11: steps are steps, however many micro-batches they have
ok "F11 ten steps of 64 micro-batches" "$run --train a.rows --steps 10 --total-batch-size 2048 -B 1 --warmup-steps 0 --warmdown-ratio 0.5 -o ten >ten.log"
is "F11 are ten" "grep -c '\"loss\"' ten.log; sed -n 's/.*\"accumulation\": \([0-9]*\).*/\1/p' ten.log" "10
64"
is "F11 and the rate stays in (0, 1]" "sed -n 's/.*\"lr_mult\": \([^,]*\).*/\1/p' ten.log | awk '!(\$1 > 0 && \$1 <= 1)' | wc -l" 0

# F38: a shard of one row
one_doc='{"text": "the cat sat"}'
echo "$one_doc" | tok-encode -t a.tok -o short.tokens 2>short.log
tokens=$(sed -n 's/.* \([0-9]*\) tokens.*/\1/p' short.log)
says 1 "a row needs $((tokens + 1))" "F38 T tokens make no row" "pack-rows -T $tokens -o short.rows short.tokens"
ok "F38 T + 1 make one" "pack-rows -q -T $((tokens - 1)) -o short.rows short.tokens"
ok "F38 which trains, many times over" "$run --train short.rows --val short.rows --steps 2 --total-batch-size $((8 * (tokens - 1))) -B 4 -o short >short.log"
is "F38 and is evaluated once" "gpt-eval -q -j 1 -B 8 -m short bpb short.rows | sed 's/.*\"tokens\": \([0-9]*\).*/\1/'" "$((tokens - 1))"

# F13: a sample's prompt beyond the context is left out, by name; one that just fits is continued
long=$(printf 'cat %.0s' $(seq 64))
says 0 "--sample-prompt: " "F13 a prompt beyond the context" "gpt-train $size -t a.tok --train a.rows --steps 1 --total-batch-size 64 --sample-every 1 --sample-prompt '$long' --sample-prompt 'the cat' -o prompt >prompt.log"
is "F13 the other one is continued" "grep -c '\"sample\"' prompt.log" 1

# F51: a NUL is a byte like any other, from the text to a sample in the records
printf '{"text": "ab\\u0000cd\\u0000\\u0000ef"}\n' >nul.jsonl
tok-encode -q -t a.tok -o nul.tokens nul.jsonl && pack-rows -q -T 9 -o nul.rows nul.tokens || exit 1
is "F51 three NULs are three tokens" "tok-encode -t a.tok --show nul.jsonl | grep -o 'x00' | wc -l" 3
ok "F51 a text with NULs is learnt" "$run --train nul.rows --val nul.rows --steps 60 --total-batch-size 9 --warmup-steps 0 --matrix-lr 0.5 --embedding-lr 5 --unembedding-lr 0.3 --sample-every 60 --sample-prompt ab -o nul >nul.log"
is "F51 all of it" "grep -c 'u0000cd.u0000.u0000e' nul.log" 1

# F55: sizes that do not fit are refused before anything is allocated
says 2 "are too many" "F55 a micro-batch beyond 31 bits" "$run --train a.rows -B 16777216 --total-batch-size 512M --steps 1 -o no"
says 2 "--batch: 16777216 rows of T 32 are too many" "F55 also in an evaluation" "gpt-eval -q -B 16777216 -m ten bpb a.rows"

# F77: a damaged directory is refused; it does not crash anything
bad=0
for f in state.json config.json optimizer-0.safetensors model.safetensors tokenizer.tok; do
    size_f=$(wc -c <ten/$f)
    for tenth in 0 1 3 5 7 9; do
        rm -rf hurt; cp -r ten hurt; head -c $((size_f * tenth / 10)) ten/$f >hurt/$f
        gpt-train -q -j 1 --resume -o hurt >/dev/null 2>err; [ $? -eq 1 ] && grep -q "hurt/$f" err || { bad=$((bad + 1)); echo "$f $tenth: $(cat err)" >&2; }
    done
done
is "F77 files cut short are named" "echo $bad" 0
bad=0
for f in model optimizer-0; do                  # one bit of the data, wherever it is
    size_f=$(wc -c <ten/$f.safetensors)
    for at in 1 2 4 7; do
        rm -rf hurt; cp -r ten hurt; at=$((size_f - size_f * at / 10))
        byte=$(od -An -tu1 -j $at -N 1 ten/$f.safetensors)
        printf "\\$(printf %o $((byte ^ 1)))" | dd of=hurt/$f.safetensors bs=1 seek=$at conv=notrunc 2>/dev/null
        gpt-train -q -j 1 --resume -o hurt >/dev/null 2>err; [ $? -eq 1 ] && grep -q "hurt/$f.safetensors: tensor .*: damaged" err || { bad=$((bad + 1)); echo "$f $at: $(cat err)" >&2; }
    done
done
is "F77 so are tensors with a bit turned" "echo $bad" 0
hurt() { rm -rf hurt; cp -r ten hurt; tr '\n' ' ' <ten/state.json | sed "$1" >hurt/state.json; gpt-train -q -j 1 --resume -o hurt; }
says 1 "'epochs' is not what it must be" "F77 an epoch that begins before the data" "hurt 's/\"position\": 0/\"position\": -1/'"
says 1 "'epochs' is not what it must be" "F77 more shards than there are" "hurt 's/\"shards\": 1}/\"shards\": 2147483648}/'"
says 1 "'shards' is missing or not a list" "F77 no shards" "hurt 's/\"shards\": \[/\"shard\": [/'"
says 1 "a shard without its xxh3" "F77 a hash that is none" "hurt 's/\"xxh3\": \"./\"xxh3\": \"x/'"
says 1 "is not there or has changed" "F77 another hash" "hurt 's/\"xxh3\": \"........./\"xxh3\": \"000000000/'"
says 1 "'rows_taken' is missing or not a count" "F77 a position below 0" "hurt 's/\"rows_taken\": /\"rows_taken\": -/'"

# and what any program in C meets
ok "a reader that leaves ends the run, which is saved" "{ gpt-train -q $size -t a.tok --train a.rows --steps 100000 --total-batch-size 64 -o pipe; echo \$? >rc; } 2>err | head -n 3 >/dev/null; [ \$(cat rc) -eq 1 ] && grep -q 'saved in pipe' err && [ -s pipe/state.json ]"
gpt-train -q $size -t a.tok --train a.rows --steps 100000 --total-batch-size 64 -o busy >busy.log 2>/dev/null & pid=$!
while [ ! -s busy.log ]; do sleep 0.05; done
says 1 "another program is writing" "two writers of one directory" "$run --train a.rows --steps 1 --total-batch-size 64 -o busy"
kill $pid; wait $pid 2>/dev/null
if locale -a 2>/dev/null | grep -qi '^de_DE.utf'; then
    plan="gpt-train --dry-run --json --depth 4 | jq -c 'del(.bytes, .bytes_program)'"
    is "a decimal comma changes nothing" "LC_ALL=de_DE.UTF-8; export LC_ALL; $plan" "$(LC_ALL=C; export LC_ALL; eval "$plan")"
else
    skip "a decimal comma changes nothing" "the locale de_DE.UTF-8 is not installed"
fi
finish
