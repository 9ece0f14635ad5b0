# gpt-sample: options, prompts, limits, seeds, what comes out. The tokenizer has no merges: a byte of
# text is a token. "flat" is hardly trained, "ab" has learnt that a document is the letter a.
. "$(dirname "$0")/../lib.sh"

i=0; while [ $i -lt 40 ]; do echo "{\"text\": \"line $i: the cat sat on mat $((i * 7 % 13)).\"}"; i=$((i+1)); done >"$dir/flat.jsonl"
i=0; while [ $i -lt 400 ]; do echo '{"text": "a"}'; i=$((i+1)); done >"$dir/ab.jsonl"
bpe-train -q -v 265 -o "$dir/t.tok" "$dir/flat.jsonl" && bpe-train -q -v 270 -o "$dir/other.tok" "$dir/flat.jsonl" || exit 1
model() {       # NAME T STEPS
    tok-encode -q -t "$dir/t.tok" "$dir/$1.jsonl" | pack-rows -q -T "$2" -o "$dir/$1.rows" &&
    gpt-train -q -j 1 --shuffle none --depth 2 --aspect-ratio 16 --head-dim 16 -t "$dir/t.tok" --train "$dir/$1.rows" \
        --steps "$3" --total-batch-size 64 --warmup-steps 2 \
        --matrix-lr 2 --unembedding-lr 0.8 --embedding-lr 3 -o "$dir/$1" >/dev/null
}
model flat 64 2 && model ab 16 60 || exit 1
g="gpt-sample -q -j 1 -m $dir/flat"
z() { awk -v n="$1" 'BEGIN { while (n-- > 0) printf "Z" }'; }          # n tokens
field() { sed "s/.*\"$1\":\"*\([^,\"}]*\).*/\1/"; }

# ---- the command line
is "help on stdout" "gpt-sample --help | head -n 1 | cut -c 1-17" "Usage: gpt-sample"
exits 0 "version" "gpt-sample --version"
says 2 "unknown option" "an unknown option" "$g --temprature 1"
says 2 "give -m" "no model" "gpt-sample -p x"
says 2 "give -m" "a model without a name" "gpt-sample -m '' -p x"
says 2 "unexpected operand 'x'" "an operand" "$g x"
says 2 "cannot be combined" "-p and -f" "$g -p x -f $dir/t.tok"
says 2 "cannot be combined" "-p and --jsonl-in" "$g -p x --jsonl-in"
says 2 "--echo" "--echo with --json" "$g -p x --echo --json"
for arg in "--temperature -1" "--temperature nan" "--temperature inf" "--temperature 1x" "--top-k -1" "--top-k 1.5" \
    "-n -1" "-n 3x" "-n 99999999999999999999" "--samples 0" "--batch 0" "-s -1" "--dtype fp64" "--stop-token ZZ"; do
    exits 2 "$arg" "$g -p x -n 1 $arg"
done
says 1 "$dir/none" "no such model" "gpt-sample -m $dir/none -p x"
says 1 "$dir" "a directory without a model" "gpt-sample -m $dir -p x"
says 1 "/dev/full" "a full disk" "$g -p x -n 4 -o /dev/full"
exits 1 "a full disk behind stdout" "$g -p x -n 4 >/dev/full"
says 1 "none" "no such prompt file" "$g -f $dir/none"
cp -r "$dir/flat" "$dir/mixed"; cp "$dir/other.tok" "$dir/mixed/tokenizer.tok"
says 1 "tokenizer has 270 tokens, but the model's vocab_size is 265" "another vocabulary" "gpt-sample -m $dir/mixed -p x"
cp -r "$dir/flat" "$dir/cut"; truncate -s 5000 "$dir/cut/model.safetensors"
says 1 "cut/model.safetensors" "a model cut short" "gpt-sample -m $dir/cut -p x"

# ---- prompts
is "a sample for each line" "printf 'a\nb\n\nc' | $g -n 2 --json | field prompt | tr '\n' ," "a,b,,c,"
is "CR LF" "printf 'a\r\n' | $g -n 2 --json | field prompt_tokens" 2
is "bos is the only token of an empty prompt" "$g -p '' -n 2 --json | field prompt_tokens" 1
is "several -p" "$g -p aa -p bbb -n 2 --json | field prompt_tokens | tr '\n' ' '" "3 4 "
printf 'a b\n\nc \n' >"$dir/prompt"
is "-f is one prompt, every byte of it" "$g -f $dir/prompt -n 2 --json | field prompt_tokens" 9
is "-f -" "$g -f - -n 2 --json <$dir/prompt | field prompt_tokens" 9
is "special tokens' names are text" "$g -p '<|bos|>' -n 2 --json | field prompt_tokens" 8
is "--no-bos" "$g --no-bos -p abc -n 2 --json | field prompt_tokens" 3
says 1 "no prompts" "no prompt at all" "$g </dev/null"
says 1 "line 2: an empty prompt" "nothing to go on from" "printf 'a\n\n' | $g --no-bos -n 2"
is "bytes that are not UTF-8 are replaced" "printf 'a\377b\n' | $g -n 2 --json | field prompt_tokens" 6
printf 'a\377b\n' >"$dir/bad"
says 0 "stdin: line 1: not valid UTF-8" "  with a warning" "gpt-sample -m $dir/flat -n 2 <$dir/bad"

# ---- JSON Lines in
is "settings of a line" \
    "echo '{\"prompt\":\"a\",\"max_tokens\":3,\"samples\":2,\"temperature\":0}' | $g --jsonl-in | field tokens | tr '\n' ' '" "3 3 "
is "other members pass, results replace" "echo '{\"id\": [1, 2], \"prompt\": \"a\", \"tokens\": \"x\"}' | $g -n 0 --jsonl-in" \
    '{"id":[1, 2],"prompt":"a","index":0,"text":"","prompt_tokens":2,"tokens":0,"finish_reason":"length"}'
is "NUL in a prompt" "echo '{\"prompt\":\"a\\u0000b\"}' | $g -n 0 --jsonl-in | field prompt_tokens" 4
is "byte-order mark and blank lines" "printf '\357\273\277{\"prompt\":\"a\"}\r\n \n\n{\"prompt\":\"b\"}' | $g -n 0 --jsonl-in | field prompt | tr '\n' ' '" "a b "
is "--jsonl-in -f" "echo '{\"prompt\":\"q\"}' >$dir/q.jsonl; $g -n 0 --jsonl-in -f $dir/q.jsonl | field prompt" q
for arg in '{"prompt":3}' '{"text":"a"}' '[]' '{"prompt":"a"' '{"prompt":"a","temperature":-1}' '{"prompt":"a","top_k":-1}' \
    '{"prompt":"a","samples":0}' '{"prompt":"a","max_tokens":1.5}' '{"prompt":"a","seed":"x"}' '{"prompt":"a","temperature":1e999}'; do
    printf '{"prompt":"ok"}\n%s\n' "$arg" >"$dir/bad.jsonl"
    says 1 "bad.jsonl: line 2: " "$arg" "$g -n 1 --jsonl-in -f $dir/bad.jsonl"
done

# ---- what comes out
ids=$($g -p x -n 40 -s 3 --top-k 0 --ids | sed 's/.*"ids":\[\([^]]*\).*/\1/')
want=$(echo "$ids" | tr , '\n' | awk -v names="$(printf '258 <|user_end|>\n259 <|assistant_start|>\n261 <|python_start|>\n262 <|python_end|>\n263 <|output_start|>\n264 <|output_end|>\n')" '
    BEGIN { for (i = 1; i < 128; i++) ord[sprintf("%c", i)] = i; n = split(names, l, "\n"); for (i = 1; i <= n; i++) { split(l[i], p, " "); name[p[1]] = p[2] } }
    $1 < 256 { print $1; next } { for (i = 1; i <= length(name[$1]); i++) print ord[substr(name[$1], i, 1)] } END { print 10 }' | tr '\n' ' ')
is "text is the bytes of the ids" "$g -p x -n 40 -s 3 --top-k 0 | od -An -v -tu1 | tr -s ' \n' ' ' | sed 's/^ //'" "$want"
ok "  and there were some" "[ ${#ids} -gt 20 ]"
is "--echo" "printf 'one\ntwo\n' | $g -n 0 --echo" "one
two"
is "a line feed after each sample" "$g -p a -p b -n 0 --samples 2 | wc -l | tr -d ' '" 4
is "-o writes the same" "$g -p x -n 30 -o $dir/out; $g -p x -n 30 | cmp - $dir/out && echo same" same
$g -p x -n 30 --samples 200 2>"$dir/err" | head -c 1 >/dev/null
ok "a closed pipe ends it without a word" "[ ! -s $dir/err ]"
says 0 "new tokens" "-v says how fast" "gpt-sample -v -m $dir/flat -p x -n 4"
mkfifo "$dir/in"
$g -n 2 <"$dir/in" >"$dir/live" 2>"$dir/log" & pid=$!
exec 3>"$dir/in"
echo x >&3; i=0
while [ ! -s "$dir/live" ] && [ $i -lt 200 ]; do sleep 0.1; i=$((i+1)); done
ok "a sample is out before the next prompt is in" "[ -s $dir/live ]"
exec 3>&-
wait $pid

# ---- the end of a sample
t() { $g -f "$dir/z" --json --temperature 0 "$@" | sed 's/.*"tokens":\([0-9]*\).*"finish_reason":"\([a-z]*\)".*/\1 \2/'; }
for p in x y z a b c d e f g h; do          # one after which comes a letter
    first=$($g -p $p --temperature 0 -n 1)
    case $first in [a-z]) break;; esac
done
is "an end token is not printed" "$g -p $p --temperature 0 -n 9 --stop-token '$first' --json | sed 's/.*text/text/'" \
    'text":"","prompt_tokens":2,"tokens":0,"finish_reason":"stop"}'
is "<|bos|> ends and is not printed" "gpt-sample -q -m $dir/ab -p a --temperature 0 -n 9 --json | sed 's/.*text/text/'" \
    'text":"","prompt_tokens":2,"tokens":0,"finish_reason":"stop"}'
is "and comes after an a" "gpt-sample -q -m $dir/ab -p '' --temperature 0 -n 9" a
z 60 >"$dir/z"; is "-n" "t -n 2" "2 length"
is "prompt of 61 in a context of 64: 3 tokens" "t -n 3" "3 length"
is "  and not a fourth" "t -n 4" "3 length"
is "  however many are asked for" "t -n 100000" "3 length"
z 62 >"$dir/z"; is "prompt of 63: 1 token" "t -n 10" "1 length"
z 63 >"$dir/z"; is "prompt of 64: none" "t -n 10" "0 length"
z 64 >"$dir/z"; says 1 "the prompt is 65 tokens with <|bos|>, but the context of $dir/flat is 64" "prompt of 65" "$g -f $dir/z"
is "  but without bos it is 64" "t --no-bos" "0 length"
z 300000 >"$dir/z"; says 1 "is 300001 tokens" "a prompt of 300001" "$g -f $dir/z"

# ---- temperature, top-k, seeds
first() { sed 's/.*"ids":\[\([0-9]*\).*/\1/' | sort -u | wc -l | tr -d ' '; }
sure="$g --dtype fp32"                 # bfloat16's logits have ties, and a temperature chooses among them
greedy=$($sure -p x -n 20 --temperature 0)
for more in "-s 1" "-s 77" "--top-k 0" "--top-k 1 --temperature 1" "--temperature 1e-30" "--temperature 1e-300" "-j 2"; do
    is "greedy: $more" "$sure -p x -n 20 --temperature 0 $more" "$greedy"
done
many="$g -p x -n 1 --samples 600 --ids"
is "top-k 1 is one token" "$many --top-k 1 | first" 1
is "top-k 2 is two" "$many --top-k 2 --temperature 50 | first" 2
ok "top-k 50 by default" "[ \$($many --temperature 50 | first) -le 50 ]"
ok "top-k 0 is no limit" "[ \$($many --top-k 0 --temperature 50 | first) -gt 150 ]"
$many --top-k 0 >"$dir/k0"
is "top-k past the vocabulary is none either" "$many --top-k 100000 | cmp - $dir/k0 && echo same" same
ok "the first tokens of 64 samples differ" "[ \$($g -p x -n 1 --samples 64 --top-k 0 --temperature 50 --ids | first) -gt 35 ]"
sampled=$($g -p x -n 30 --json)
is "same seed, same sample" "$g -p x -n 30 --json -s 42" "$sampled"
is "any number of threads" "$g -p x -n 30 --json -j 2" "$sampled"
ok "another seed, another sample" "[ \"\$($g -p x -n 30 --json -s 43)\" != '$sampled' ]"
is "what was asked before does not matter" "printf 'a\nlonger prompt\nx\n' | $g -n 30 --json | tail -n 1" "$sampled"
is "nor how many samples are drawn" "$g -p x -n 30 --json --samples 9 | head -n 1" "$sampled"
ok "equal prompts get different samples" "[ \$($g -p x -p x -p x -n 30 --json | sort -u | wc -l) -eq 3 ]"
is "but not with a seed of their own" \
    "printf '%s\n' '{\"prompt\":\"x\",\"seed\":42}' '{\"prompt\":\"x\",\"seed\":42}' | $g -n 30 --jsonl-in | sort -u | sed 's/\"seed\":42,//'" "$sampled"
$g -p x -n 50 --samples 20 --json >"$dir/b16"
for b in 1 3 20; do is "batch $b" "$g -p x -n 50 --samples 20 --json --batch $b | cmp - $dir/b16 && echo same" same; done
is "indices in order" "field index <$dir/b16 | tr '\n' ' '" "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 "
finish
