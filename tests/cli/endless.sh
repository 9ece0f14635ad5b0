# A line or a document without end is refused by name, before it takes the machine's memory.
. "$(dirname "$0")/../lib.sh"
cd "$dir" || exit 1
limit="ulimit -v 500000"
if ! ($limit; data-fetch --version) >/dev/null 2>&1; then skip "endless inputs" "no tool starts in 500 MB"; finish; fi
printf '{"text": "a b c a b c"}\n' >a.jsonl
bpe-train -q -v 265 -o a.tok a.jsonl && tok-encode -q -t a.tok a.jsonl | pack-rows -q -T 8 -o a.rows || exit 1
gpt-train -q -j 1 --depth 2 --aspect-ratio 16 --head-dim 16 -t a.tok --train a.rows --total-batch-size 8 --steps 1 -o m >/dev/null || exit 1
as() { yes "$1" | tr -d '\n'; }
says 1 "/dev/zero: byte " "a text of no lines" "$limit; timeout 60 data-fetch /dev/zero -o x"
says 1 "stdin: line 1: longer than 122 MB" "a row" "as '{\"a\": \"b' | ($limit; timeout 60 data-fetch -o x)"
says 1 "stdin: line 1: longer than 122 MB" "prompts" "as a | ($limit; timeout 60 gpt-sample -q -j 1 -m m)"
says 1 "/dev/zero: line 1: longer than 122 MB" "questions" "$limit; timeout 60 gpt-eval -q -j 1 -m m chat /dev/zero"
says 1 "stdin: the line that begins at byte 24 is longer than 122 MB" "documents" \
    "{ cat a.jsonl; as '{\"text\": \"b'; } | ($limit; timeout 60 tok-encode -q -j 1 -t a.tok -o x)"
says 1 "stdin: line 1: longer than 122 MB" "documents to train on" \
    "as '{\"text\": \"b' | ($limit; timeout 60 bpe-train -q -j 1 -v 265 -o x)"
ok "nothing is left" "! ls | grep -e x -e tmp"
finish
