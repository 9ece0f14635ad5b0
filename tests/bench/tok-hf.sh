#!/bin/sh
# tok-hf.sh TOKENIZER.json DOCS.jsonl [ROUNDS] -- tok-encode, file to file, against Hugging Face
# tokenizers (pip install tokenizers) with the same tokenizer.json, on one processor each, in turn,
# ROUNDS (3) times; the least time of each counts, and the ids must be equal. Theirs is the time of
# encode() alone, document by document; ours has the start, the reading of both files and the writing
# in it. tok-encode must be on PATH.
json=$1; docs=$2; rounds=${3:-3}
[ -r "$json" ] && [ -r "$docs" ] || { echo "usage: tok-hf.sh TOKENIZER.json DOCS.jsonl [ROUNDS]" >&2; exit 2; }
python3 -c 'import tokenizers' 2>/dev/null || { echo "tokenizers # SKIP not installed (python3, tokenizers)"; exit 0; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cat >"$dir/peer.py" <<'END'
import json, sys, time, tokenizers
t = tokenizers.Tokenizer.from_file(sys.argv[1])
docs = [json.loads(line)["text"] for line in open(sys.argv[2], encoding="utf-8", newline="\n") if line.strip()]
start = time.time()
ids = [t.encode(d, add_special_tokens=False).ids for d in docs]
print("%.3f %d" % (time.time() - start, sum(len(d.encode()) for d in docs)))
with open(sys.argv[3], "w") as f:
    for d in ids: f.write(" ".join(map(str, d)) + "\n")
END
one=; command -v taskset >/dev/null && one="taskset -c 0"
for r in $(seq "$rounds"); do
    /usr/bin/env time -f %e -a -o "$dir/ours" $one tok-encode -q -j 1 -t "$json" -o "$dir/out" "$docs" || exit 1
    TOKENIZERS_PARALLELISM=false $one python3 "$dir/peer.py" "$json" "$docs" "$dir/ids" >>"$dir/theirs" || exit 1
done
tok-encode -q --ids --no-bos -t "$json" "$docs" | cmp -s - "$dir/ids" || { echo "the ids differ"; exit 1; }
sort -n "$dir/theirs" | head -n 1 | awk -v a="$(sort -n "$dir/ours" | head -n 1)" '
    { printf "tok-encode %.2f s, %.0f MB/s; tokenizers %.2f s, %.1f MB/s; the same ids; ratio %.1f\n",
             a, $2 / a / 1e6, $1, $2 / $1 / 1e6, $1 / a }'
