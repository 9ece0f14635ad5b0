# The reward filters of share/reward: a line in, a number or null out.
. "$(dirname "$0")/../lib.sh"
reward=$top/share/reward
gold='"reference":{"messages":[{"role":"user","content":"?"},{"role":"assistant","content":[{"type":"text","text":"so "},{"type":"python","text":"1+1"},{"type":"text","text":"\n#### 1,234"}]}]}'

gsm() { printf '{"completion":"%s",%s}\n' "$1" "$gold" | jq -rnf "$reward/gsm8k.jq"; }
is "gsm8k: right" "gsm 'it is #### 1234'" 1
is "gsm8k: right, with a comma" "gsm 'it is #### 1,234 apples'" 1
is "gsm8k: wrong" "gsm '#### 1235'" 0
is "gsm8k: the first counts" "gsm '#### 5 #### 1234'" 0
is "gsm8k: no answer" "gsm 'it is 1234'" 0
is "gsm8k: only a sign" "gsm '#### '" 0
is "gsm8k: a reference without a number is null" \
    "echo '{\"completion\":\"#### 1\",\"reference\":{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\"}]}}' | jq -rnf '$reward/gsm8k.jq'" null
is "gsm8k: a reference as one text" \
    "echo '{\"completion\":\"#### -7\",\"reference\":{\"messages\":[{\"role\":\"assistant\",\"content\":\"x #### -7\"}]}}' | jq -rnf '$reward/gsm8k.jq'" 1

exact() { printf '{"completion":"%s","reference":%s}\n' "$1" "$2" | jq -rnf "$reward/exact.jq"; }
is "exact: right" "exact ' Paris\n' '{\"answer\":\"Paris\"}'" 1
is "exact: wrong" "exact 'paris' '{\"answer\":\"Paris\"}'" 0
is "exact: a message" "exact 'b' '{\"messages\":[{\"role\":\"assistant\",\"content\":\"b\"}]}'" 1
is "exact: nothing to compare with" "exact 'b' '{}'" null

sum() { printf '{"prompt":"%s","completion":"%s"}\n' "$1" "$2" | jq -rnf "$reward/arithmetic.jq"; }
is "arithmetic: plus" "sum 'What is 12 + 30?' 'It is 42.'" 1
is "arithmetic: minus, below zero" "sum '3-10' 'that makes -7'" 1
is "arithmetic: times" "sum 'and 40 times 30' '1,200'" 1
is "arithmetic: wrong" "sum '1+1' '3'" 0
is "arithmetic: the last number counts" "sum '1+1' '2 or 3'" 0
is "arithmetic: no number" "sum '1+1' 'two'" 0
is "arithmetic: no sum" "sum 'hello' '2'" null

is "regex: yes" "echo '{\"completion\":\"yes\"}' | '$reward/regex' '^(yes|no)\$'" 1
is "regex: no" "echo '{\"completion\":\"yes, sir\"}' | '$reward/regex' '^(yes|no)\$'" 0
exits 2 "regex: without a pattern" "'$reward/regex'"
is "length: just right" "echo '{\"tokens\":40}' | '$reward/length' 40" 1
is "length: half" "echo '{\"tokens\":20}' | '$reward/length' 40" 0.5
is "length: far too much" "echo '{\"tokens\":99}' | '$reward/length' 40" 0
exits 2 "length: no number" "'$reward/length' x"
is "several lines" "printf '{\"tokens\":1}\n{\"tokens\":2}\n' | '$reward/length' 2 | tr '\n' ' '" "0.5 1 "
finish
