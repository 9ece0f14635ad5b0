# gpt-sample: filters, stop strings, log-probabilities, scores, beam search. A byte is a token.
. "$(dirname "$0")/../lib.sh"

i=0; while [ $i -lt 40 ]; do echo "{\"text\": \"line $i: the cat sat on mat $((i * 7 % 13)).\"}"; i=$((i+1)); done >"$dir/flat.jsonl"
bpe-train -q -v 265 -o "$dir/t.tok" "$dir/flat.jsonl" &&
tok-encode -q -t "$dir/t.tok" "$dir/flat.jsonl" | pack-rows -q -T 64 -o "$dir/flat.rows" &&
gpt-train -q -j 1 --dtype fp32 --depth 2 --aspect-ratio 16 --head-dim 16 -t "$dir/t.tok" --train "$dir/flat.rows" --steps 40 \
    --total-batch-size 128 --warmup-steps 2 -o "$dir/m" >/dev/null || exit 1
g="gpt-sample -q -j 1 --dtype fp32 -m $dir/m" # where ties are rare
text() { sed 's/.*"text":"\(.*\)","prompt_tokens.*/\1/'; }
list() { sed "s/.*\"$1\":\[\([^]]*\)\].*/\1/" | tr , '\n'; }
sum() { awk '{ s += $1 } END { printf "%.3f\n", s }'; }
greedy=$($g -p 'line' -n 30 --temperature 0)

# ---- the command line
for arg in "--top-p -0.1" "--top-p 1.1" "--top-p nan" "--min-p 2" "--repetition-penalty 0" "--beam 0" "--length-penalty 1" \
    "--stop ''" "--beam 2 --score" "--beam 2 --top-p 0.5" "--beam 2 --temperature 1" "--score --samples 2" "--score --stop x"; do
    exits 2 "$arg" "$g -p x -n 1 $arg"
done
says 2 "not for conversations" "--beam with --chat" "$g --chat --beam 2"
says 2 "not for conversations" "--stop with --chat-jsonl" "$g --chat-jsonl --stop x"
for arg in '"top_p":2' '"min_p":-1' '"repetition_penalty":0' '"top_p":"x"'; do
    echo "{\"prompt\":\"a\",$arg}" >"$dir/bad.jsonl"
    says 1 "bad.jsonl: line 1: " "$arg" "$g -n 1 --jsonl-in -f $dir/bad.jsonl"
done

# ---- filters
plain=$($g -p line -n 30 -s 5 --samples 3)
is "filters that are off change nothing" "$g -p line -n 30 -s 5 --samples 3 --top-p 1 --min-p 0 --repetition-penalty 1" "$plain"
for arg in "--top-p 0" "--top-p 1e-9" "--min-p 1"; do is "$arg is greedy" "$g -p line -n 30 $arg --top-k 0" "$greedy"; done
n() { $g -p x -n 1 --samples 300 --temperature 3 --top-k 0 --ids "$@" | list ids | sort -u | wc -l; }
ok "top-p draws among fewer" "[ $(n --top-p 0.3) -lt $(n) ]"
ok "min-p too" "[ $(n --temperature 0.3 --min-p 0.5) -lt $(n --temperature 0.3) ]"
for k in 0 9; do for p in 1 0.7; do for m in 0 0.1; do for r in 1 1.3; do for t in 0 0.8; do
    a="--top-k $k --top-p $p --min-p $m --repetition-penalty $r --temperature $t"
    $g -p line -n 12 --samples 5 $a >"$dir/one" && $g -p line -n 12 --samples 5 $a --batch 2 | cmp -s - "$dir/one" || echo "$a"
done; done; done; done; done >"$dir/wrong"
is "every combination works, and --batch changes nothing" "cat $dir/wrong" ""
is "settings of a line" \
    "echo '{\"prompt\":\"line\",\"max_tokens\":30,\"top_k\":0,\"top_p\":0}' | $g --jsonl-in | text" "$greedy"
kinds() { $g -p line -n 40 --temperature 0 --ids "$@" | list ids | sort -u | wc -l; }
ok "with a penalty fewer tokens come again" "[ $(kinds --repetition-penalty 4) -gt $(kinds) ]"

# ---- stop strings
want=$(printf %s "$greedy" | sed 's/e.*//')
is "text ends before the stop" "$g -p line -n 30 --temperature 0 --stop e" "$want"
two=$(printf %s "$greedy" | cut -c 7-9)
is "a stop of several tokens" "$g -p line -n 30 --temperature 0 --stop '$two'" "${greedy%%"$two"*}"
is "the first of several" "$g -p line -n 30 --temperature 0 --stop '$two' --stop e --stop '~~~'" \
    "$(printf %s "${greedy%%"$two"*}" | sed 's/e.*//')"
is "the beginning of a stop that does not come is printed" "$g -p line -n 30 --temperature 0 --stop '${two}~'" "$greedy"
is "and at the end of the sample" "$g -p line -n 9 --temperature 0 --stop '${two}~'" "$(printf %s "$greedy" | cut -c 1-9)"
is "finish_reason" "$g -p line -n 30 --temperature 0 --stop '$two' --json | sed 's/.*finish_reason\":\"//'" 'stop"}'
is "samples after it" "$g -p line -n 30 --temperature 0 --stop '$two' --samples 3 --batch 2 | sort -u" "${greedy%%"$two"*}"

# ---- log-probabilities
$g -p line -n 20 --temperature 0 --top-k 3 --logprobs --ids >"$dir/lp"
is "one for each token" "list logprobs <$dir/lp | wc -l | tr -d ' '" 20
ok "none is positive" "! list logprobs <$dir/lp | grep -v '^-' | grep -v '^0'"
is "temperature and filters do not change them" "$g -p line -n 20 --temperature 5 --top-k 1 --top-p 0.5 --logprobs | list logprobs | sum" \
    "$(list logprobs <"$dir/lp" | sum)"
part=$(printf %s "$greedy" | cut -c 1-20)
is "--score of the same text" "a=\$($g --score -p line); b=\$($g --score -p 'line$part'); echo \$a \$b | awk '{ printf \"%.3f\n\", \$2 - \$1 }'" \
    "$(list logprobs <"$dir/lp" | sum)"
is "with each token's" "$g --score --logprobs -p 'line$part' | list logprobs | tail -n 20 | sum" "$(list logprobs <"$dir/lp" | sum)"
is "bos alone has none" "$g --score --logprobs -p ''" '{"prompt":"","prompt_tokens":1,"logprob":0,"logprobs":[null]}'
z() { awk -v n="$1" 'BEGIN { while (n-- > 0) printf "Z" }'; }
z 64 >"$dir/z"; ok "a text that fills the context" "$g --score -f $dir/z"
z 65 >"$dir/z"; says 1 "the context" "one that does not fit" "$g --score -f $dir/z"

# ---- beam search
is "one beam is greedy" "$g -p line -n 30 --beam 1" "$greedy"
score() { $g -p line -n 12 --logprobs "$@" | while read -r l; do echo "$l" | list logprobs | sum; done; }
is "the best come in order" "score --beam 6 --samples 6 | sort -rn | tr '\n' ' '" "$(score --beam 6 --samples 6 | tr '\n' ' ')"
is "and differ" "$g -p line -n 12 --beam 6 --samples 6 | sort -u | wc -l | tr -d ' '" 6
is "all beams of one token are the likeliest tokens" "$g -p line -n 1 --beam 4 --samples 4 --logprobs | list logprobs | sum" \
    "$($g -p line -n 1 --beam 9 --samples 4 --logprobs | list logprobs | sum)"
$g -p line -n 12 --beam 3 --json | text >"$dir/best"
is "its score is the text's" "a=\$($g --score -p line); b=\$($g --score -p \"line\$(cat $dir/best)\"); echo \$a \$b | awk '{ printf \"%.2f\n\", \$2 - \$1 }'" \
    "$(score --beam 3 | awk '{ printf "%.2f\n", $1 }')"
says 1 "give --beam 3" "more samples than beams" "$g -p x -n 2 --beam 2 --samples 3"
exits 0 "a penalty" "$g -p line -n 12 --beam 3 --repetition-penalty 1.2 --length-penalty 1"
is "no room" "$g -p line -n 0 --beam 3 --samples 2 | wc -l | tr -d ' '" 2
finish
