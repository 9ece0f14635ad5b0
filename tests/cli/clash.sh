# A file that a tool reads is never its output as well, under whatever name, and stays as it is.
. "$(dirname "$0")/../lib.sh"
cd "$dir" || exit 1
i=0; while [ $i -lt 40 ]; do echo "{\"text\": \"line $i: the cat sat on mat $((i * 7 % 13)).\"}"; i=$((i+1)); done >docs.jsonl
bpe-train -q -v 300 -o a.tok docs.jsonl && tok-encode -q -t a.tok -o a.tokens docs.jsonl && pack-rows -q -T 16 -o a.rows a.tokens || exit 1
run="gpt-train -q -j 1 --depth 2 --aspect-ratio 16 --head-dim 16 -t a.tok --train a.rows --total-batch-size 64 --steps 1"
$run -o m >/dev/null || exit 1
mkdir sub && ln docs.jsonl sub/link.jsonl && ln -s docs.jsonl soft.jsonl || exit 1
cp a.tokens b.rows; cp a.tok m.tok; ln -s m.tok soft.tok; cp docs.jsonl d.jsonl
cksum docs.jsonl a.tok a.tokens a.rows b.rows m.tok d.jsonl m/* >sums
kept() { cksum docs.jsonl a.tok a.tokens a.rows b.rows m.tok d.jsonl m/* | cmp - sums && ! ls | grep tmp; }

says 1 "docs.jsonl: is the output, too" "data-fetch" "data-fetch docs.jsonl -o docs.jsonl"
says 1 "docs.jsonl: is the output, too" "  by a hard link" "data-fetch docs.jsonl -o sub/link.jsonl"
says 1 "soft.jsonl: is the output, too" "  by a symbolic one" "data-fetch soft.jsonl -o docs.jsonl"
says 1 "docs.jsonl: is the output, too" "  as --holdout-output" "data-fetch docs.jsonl --holdout 10% --holdout-output docs.jsonl -o x.jsonl"
says 1 "docs.jsonl: is the output, too" "bpe-train" "bpe-train -v 300 docs.jsonl -o docs.jsonl"
says 1 "m.tok: is read, too" "  the tokenizer to go on from" "bpe-train -v 310 --continue-from m.tok docs.jsonl -o m.tok"
says 1 "m.tok: is read, too" "  as --counts" "bpe-train -v 310 --continue-from m.tok --counts m.tok docs.jsonl -o x"
says 1 "soft.tok: is read, too" "  as --merges" "bpe-train -v 310 --continue-from m.tok --merges soft.tok docs.jsonl -o x"
says 1 "d.jsonl: is the output, too" "  a file that --max-chars leaves unread" "bpe-train -v 300 --max-chars 1 docs.jsonl d.jsonl -o d.jsonl"
says 1 "d.jsonl: is the output, too" "  as --counts" "bpe-train -v 300 --max-chars 1 docs.jsonl d.jsonl --counts d.jsonl -o x"
says 1 "stdin: is the output, too" "  standard input" "bpe-train -v 300 --max-chars 1 docs.jsonl - <d.jsonl -o d.jsonl"
says 1 "docs.jsonl: is the output, too" "tok-encode" "tok-encode -t a.tok docs.jsonl -o docs.jsonl"
says 1 "docs.jsonl: is the output, too" "tok-encode --show" "tok-encode -t a.tok --show docs.jsonl -o docs.jsonl"
says 1 "a.tok: is read, too" "  its tokenizer" "tok-encode -t a.tok docs.jsonl -o a.tok"
says 1 "b.rows: is " "pack-rows" "pack-rows -T 16 b.rows -o b.rows"
says 1 "a.rows: is the output, too" "gpt-eval" "gpt-eval -q -m m bpb a.rows -o a.rows"
says 1 "docs.jsonl: is " "gpt-sample -f" "gpt-sample -q -m m -n 1 -f docs.jsonl -o docs.jsonl"
says 1 "a.rows: is read, too" "gpt-train --metrics, the rows" "$run -o x --metrics a.rows --force"
says 1 "a.tok: is read, too" "  the tokenizer" "$run -o x --metrics a.tok --force"
says 2 "m/state.json: is a name of the checkpoint's own" "  a file of the checkpoint" "$run -o m --metrics m/state.json --force"
ok "all of them are as they were, and nothing is left" kept
ok "a log beside the checkpoint is none of it" "$run -o y --metrics y/log.jsonl && [ -s y/log.jsonl ] && [ -s y/state.json ]"

# a redirection is an output, too: with >> it would grow for ever
cp docs.jsonl d.jsonl
for how in "docs.jsonl d.jsonl >>d.jsonl" "- <d.jsonl >>d.jsonl"; do
    (eval "timeout 10 data-fetch $how") 2>err; rc=$?
    ok "data-fetch $how" "[ $rc -eq 1 ] && grep -q 'is the output, too' err"
done
ok "another file is no hindrance" "data-fetch docs.jsonl >>d.jsonl"
finish
