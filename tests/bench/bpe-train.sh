#!/bin/sh
# bpe-train.sh DOCS.jsonl [ROUNDS [VOCAB]] -- bpe-train against rustbpe (pip install rustbpe), with two
# threads each, in turn, ROUNDS (3) times; the least time of each counts, and the merges must be equal.
# Each document is cut to 10,000 characters, as nanochat does. bpe-train must be on PATH.
docs=$1; rounds=${2:-3}; vocab=${3:-32768}
[ -r "$docs" ] || { echo "usage: bpe-train.sh DOCS.jsonl [ROUNDS [VOCAB]]" >&2; exit 2; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
python3 -c 'import rustbpe' 2>/dev/null && peer=1 || { peer=; echo "rustbpe # SKIP not installed (python3, rustbpe)"; }

cat >"$dir/peer.py" <<'EOF'
import json, sys, time, rustbpe
pattern = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}"
           r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
def texts():
    with open(sys.argv[1], encoding="utf-8", newline="\n") as f:
        for line in f: yield json.loads(line)["text"][:10000]
# its own time only: reading and JSON are done before
docs = list(texts())
t = time.time()
tok = rustbpe.Tokenizer()
tok.train_from_iterator(iter(docs), int(sys.argv[2]) - 9, pattern=pattern)
print("%.2f" % (time.time() - t))
with open(sys.argv[3], "w") as f:
    for b, rank in sorted(tok.get_mergeable_ranks(), key=lambda x: x[1]):
        f.write("%d %s\n" % (rank, bytes(b).hex()))
EOF
# the tokens of "left right id" lines as "id hex"
tokens() {
    awk 'BEGIN { for (i = 0; i < 256; i++) { b[i] = sprintf("%02x", i); print i, b[i] } }
         { b[$3] = b[$1] b[$2]; print $3, b[$3] }' "$1"
}
least() { sort -n "$1" | head -n 1; }

for r in $(seq "$rounds"); do
    /usr/bin/env time -f '%e %M' -o "$dir/time" bpe-train -j 2 -v "$vocab" --max-chars 0 \
        --merges "$dir/merges" -o "$dir/tok" "$docs" || exit 1
    awk '{ print $1 }' "$dir/time" >>"$dir/ours"; awk '{ print "round '"$r"': bpe-train " $1 " s, " $2 / 1024 " MB" }' "$dir/time"
    [ "$peer" ] || continue
    RAYON_NUM_THREADS=2 python3 "$dir/peer.py" "$docs" "$vocab" "$dir/peer" >"$dir/time" || exit 1
    cat "$dir/time" >>"$dir/theirs"; echo "round $r: rustbpe $(cat "$dir/time") s, without reading the file"
done
echo "bpe-train: $(least "$dir/ours") s for $(wc -c <"$docs") bytes of JSON Lines, file to file"
[ "$peer" ] || exit 0
tokens "$dir/merges" | cmp -s - "$dir/peer" || { echo "the tokens differ"; exit 1; }
echo "rustbpe: $(least "$dir/theirs") s; the same tokens; ratio $(awk -v a="$(least "$dir/theirs")" -v b="$(least "$dir/ours")" 'BEGIN { printf "%.1f", a / b }')"
