# share/data/*.jq: rows of published sets to conversations. The hashes are of what a program in
# another language makes of the same files.
. "$(dirname "$0")/../lib.sh"
cd "$dir" || exit 1
a=$top/share/data
of() { printf '%s\n' "$2" | jq -nc -f "$a/$1.jq"; }
bad() { says 5 "$3" "$1: $2" "of $1 '$4'"; }
golden() {                              # NAME HASH FILE...
    name=$1 hash=$2; shift 2
    if [ -r "$1" ]; then is "$name: all of its rows" "gzip -dcf $* | jq -nc -f $a/$name.jq | sha256sum | cut -c1-16" "$hash"
    else skip "$name: all of its rows" "no $1"; fi
}
golden gsm8k 7703eb331f7a9e77 "$top"/../shared/data/gsm8k/train.jsonl "$top"/../shared/data/gsm8k/test.jsonl
golden humaneval f3316d1e00691035 "$top"/../shared/data/humaneval/HumanEval.jsonl.gz
golden mmlu 068ab4bd7db726cd "$top"/../shared/data/parquet-shapes/mmlu.jsonl
golden arc aa7145f539398b4c "$top"/../shared/data/parquet-shapes/arc.jsonl
golden smoltalk d7113181c659fbbd "$top"/../shared/data/parquet-shapes/smoltalk.jsonl

is "gsm8k: calls, the last =, no =, nothing between" \
    "of gsm8k '{\"question\":\"q\",\"answer\":\"a <<1=2=3>><<4>>\n#### 3\"}' | jq -c '.messages[1].content | map(.text)'" \
    '["a ","1=2","3","","4","","\n#### 3"]'
bad gsm8k "a question that is no text" "row 1: not a string" '{"question":1,"answer":"a"}'
is "mmlu" "of mmlu '{\"question\":\"q\",\"choices\":[\"w\",\"x\",\"y\",\"z\"],\"answer\":2,\"subject\":\"s\"}'" \
    '{"messages":[{"role":"user","content":"Multiple Choice question: q\n- w=A\n- x=B\n- y=C\n- z=D\n\nRespond only with the letter of the correct answer."},{"role":"assistant","content":"C"}],"subject":"s","letters":["A","B","C","D"]}'
bad mmlu "three choices" "not four choices" '{"question":"q","choices":["w","x","y"],"answer":2}'
for x in 4 -1 1.5 null '"1"'; do
    bad mmlu "the answer $x" "none of the four" '{"question":"q","choices":["w","x","y","z"],"answer":'"$x}"
done
is "arc: its own labels" "of arc '{\"question\":\"q\",\"choices\":{\"text\":[\"x\",\"y\",\"z\"],\"label\":[\"1\",\"2\",\"3\"]},\"answerKey\":\"3\"}' | jq -c '[.messages[1].content, .letters]'" \
    '["3",["1","2","3"]]'
bad arc "an answer without a choice" "none of the labels" '{"question":"q","choices":{"text":["x"],"label":["A"]},"answerKey":"B"}'
bad arc "fewer labels" "without a label" '{"question":"q","choices":{"text":["x","y"],"label":["A"]},"answerKey":"A"}'

m() { printf '{"role":"%s","content":"%s"}' "$1" "$2"; }
u=$(m user q) ans=$(m assistant x) s=$(m system s)
is "smoltalk: content first, a source" "of smoltalk '{\"messages\":[{\"content\":\"q\",\"role\":\"user\"},{\"content\":\"x\",\"role\":\"assistant\"}],\"source\":\"o\"}'" \
    "{\"messages\":[$u,$ans],\"source\":\"o\"}"
for x in "[$u]" "[$s,$u]" "[$u,$s,$ans]" "[$u,$u]" "[$ans,$u]" "[]"; do bad smoltalk "$x" "take turns" "{\"messages\":$x}"; done
bad smoltalk "content that is no text" "without a role" '{"messages":[{"role":"user","content":null}]}'
says 5 "row 2" "smoltalk: a bad row in the middle stops it" "printf '%s\n' '{\"messages\":[$u,$ans]}' '{\"messages\":[]}' '{\"messages\":[$u,$ans]}' | jq -nc -f $a/smoltalk.jq"
is "identity: bare arrays, blank lines" "printf '[$u,$ans]\n\n[$u,$ans,$u]\n' | jq -nc -f $a/identity.jq | wc -l" 2
bad identity "from the assistant" "take turns" "[$ans,$u]"
bad identity "one message" "two messages" "[$u]"

is "minimind: JSON in strings, what is kept" \
    "of minimind '{\"conversations\":[{\"role\":\"system\",\"content\":\"s\",\"tools\":\"[{\\\"f\\\":1}]\"},$u,{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":\"h\",\"tool_calls\":\"[2]\",\"other\":0}],\"gt\":[\"1\"]}'" \
    '{"messages":[{"role":"system","content":"s","tools":[{"f":1}]},'"$u"',{"role":"assistant","content":"","reasoning_content":"h","tool_calls":[2]}],"gt":["1"]}'
is "minimind: empty tools" "of minimind '{\"conversations\":[{\"role\":\"system\",\"content\":\"s\",\"tools\":\"\"}]}'" "{\"messages\":[$s]}"
is "minimind: preferences" "of minimind '{\"chosen\":[$u,$ans],\"rejected\":[$u,$u]}'" \
    "{\"messages\":[$u,$ans],\"chosen\":[$u,$ans],\"rejected\":[$u,$u]}"
bad minimind "preferences of two prompts" "different prompts" "{\"chosen\":[$u,$ans],\"rejected\":[$s,$ans]}"
bad minimind "tools that are no JSON" "inside a string" '{"conversations":[{"role":"system","content":"s","tools":"["}]}'
bad minimind "an unknown role" "known role" '{"conversations":[{"role":"x","content":"s"}]}'
bad minimind "no conversation" "no conversation" '{"text":"t"}'
finish
