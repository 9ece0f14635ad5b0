# The commands of README.md's "Your own text", "Data" and "Conversations" work as written (with fewer training steps).
. "$(dirname "$0")/../lib.sh"
awk '/^## /{on = /Your own text|Data|Conversations/} on && /^    /{print substr($0, 5)}' "$top/README.md" >"$dir/commands"
cd "$dir" || exit 1
awk -v n=1500 -v seed=5 -f "$top/share/demo/world.awk" >book.txt
awk -v n=40 -v seed=6 -f "$top/share/demo/world.awk" | data-fetch -q | gzip >web.jsonl.gz
say() { printf '{"messages":[{"role":"user","content":"hello %d"}%s]}\n' "$1" "$2"; }
i=0; while [ $i -lt 60 ]; do say $i ',{"role":"assistant","content":"good day"}'; i=$((i+1)); done >chats.jsonl
say 1 >questions.jsonl
bpe-train -q --vocab-size 300 -o web.tok web.jsonl.gz || exit 1
ok "there are commands" "[ \$(wc -l <commands) -ge 7 ]"
while read -r line; do
    short=$(printf '%s\n' "$line" | sed 's/--steps [0-9]*/--steps 2 --eval-tokens 1024/; s/--total-batch-size [0-9]*/--total-batch-size 1024/; s/-T 2048/-T 128/')
    ok "$line" "$short"
done <commands
ok "the model is there" "[ -s model/model.safetensors ] && [ -s log.jsonl ]"
for t in data-fetch bpe-train tok-encode pack-rows gpt-train gpt-eval gpt-sample; do
    ok "$t --help" "$t --help | grep -q '^Usage: $t'"
    is "$t: its man page has every option" "$t --help | sed -n 's/^ .* --\([a-z][a-z0-9-]*\).*/\1/p; s/^  *--\([a-z][a-z0-9-]*\).*/\1/p' |
        grep -vxE 'config|quiet|verbose|help|version' | sort -u |
        while read -r o; do grep -qE -e '^\.It Fl.* -'\$o'( |\$)' '$top/$t/$t.1' || echo \$o; done" ""
done
if command -v mandoc >/dev/null; then
    is "man pages are clean" "mandoc -T lint -W error '$top'/*/*.1 '$top'/share/man/*.5" ""
else
    skip "man pages are clean" "mandoc is not installed"
fi
finish
