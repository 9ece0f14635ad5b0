#!/bin/sh
# tok-encode.sh TOKENIZER.tok DOCS.jsonl [ROUNDS] -- tok-encode, file to file, against tiktoken (pip
# install tiktoken) with the same vocabulary, on one processor each, in turn, ROUNDS (3) times; the
# least time of each counts, and the ids must be equal. "warm" is the rate of three more passes over
# the same documents after the first: what a long input tends to. Then two threads against one.
# tok-encode must be on PATH; files go to TMPDIR, best one in memory (/dev/shm).
tok=$1; docs=$2; rounds=${3:-3}
[ -r "$tok" ] && [ -r "$docs" ] || { echo "usage: tok-encode.sh TOKENIZER.tok DOCS.jsonl [ROUNDS]" >&2; exit 2; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
python3 -c 'import tiktoken' 2>/dev/null && peer=1 || { peer=; echo "tiktoken # SKIP not installed (python3, tiktoken)"; }
one=; two=
command -v taskset >/dev/null && { one="taskset -c 0"; two="taskset -c 0,1"; }

cat >"$dir/peer.py" <<'END'
import array, base64, json, sys, time, tiktoken
pattern = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}"
           r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
ranks = {}
for line in open(sys.argv[1], "rb"):
    token, rank = line.split()
    ranks[base64.b64decode(token)] = int(rank)
enc = tiktoken.Encoding("bench", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
# its own time only: reading, JSON and writing are not in it
docs = [json.loads(line)["text"] for line in open(sys.argv[2], encoding="utf-8", newline="\n") if line.strip()]
t = time.time()
ids = [enc.encode_ordinary(d) for d in docs]
print("%.3f" % (time.time() - t))
if len(sys.argv) > 3:
    with open(sys.argv[3], "w") as f:
        for d in ids: f.write(" ".join(map(str, d)) + "\n")
END
least() { sort -n "$1" | head -n 1; }
clock() { # NAME COMMAND...: its wall time in seconds to NAME
    to=$dir/$1; shift
    rm -f "$dir/out"                    # freeing an old file of up to four times the size is not it
    from=$(date +%s%N)
    "$@" || exit 1
    awk -v a="$from" -v b="$(date +%s%N)" 'BEGIN {printf "%.4f\n", (b - a) / 1e9}' >>"$to"
}
memory() { /usr/bin/env time -f %M -a -o "$dir/kb" "$@" || exit 1; }
bytes=$(tok-encode -q -t "$tok" --no-bos "$docs" | tok-encode -q -t "$tok" --decode --raw | wc -c)
[ "$peer" ] && { tok-encode --convert "$tok" "$dir/ranks.tiktoken" || exit 1; }

for r in $(seq "$rounds"); do
    clock cold $one tok-encode -q -j 1 -t "$tok" -o "$dir/out" "$docs"
    clock four $one tok-encode -q -j 1 -t "$tok" -o "$dir/out" "$docs" "$docs" "$docs" "$docs"
    clock both $two tok-encode -q -j 2 -t "$tok" -o "$dir/out" "$docs" "$docs" "$docs" "$docs"
    [ "$peer" ] || continue
    # its ids once only, for they are long
    if [ "$r" = 1 ]; then set -- "$dir/ids"; else set --; fi
    $one python3 "$dir/peer.py" "$dir/ranks.tiktoken" "$docs" "$@" >>"$dir/theirs" || exit 1
done
memory $one tok-encode -q -j 1 -t "$tok" -o "$dir/out" "$docs" "$docs"
memory $two tok-encode -q -j 2 -t "$tok" -o "$dir/out" "$docs" "$docs"
rate() { awk -v b="$bytes" -v t="$1" -v n="${2:-1}" 'BEGIN {printf "%.0f MB/s", n * b / t / 1e6}'; }
cold=$(least "$dir/cold"); four=$(least "$dir/four"); both=$(least "$dir/both")
warm=$(awk -v a="$four" -v b="$cold" 'BEGIN {print (a - b) / 3}')
echo "$bytes bytes of text; one processor: $cold s, $(rate "$cold"); warm $(rate "$warm")"
echo "four times the same: one thread $four s, two $both s, ratio $(awk -v a="$four" -v b="$both" 'BEGIN {printf "%.2f", a / b}'); at most $(sort -n "$dir/kb" | tail -n 1) KB"
[ "$peer" ] || exit 0
tok-encode -q --ids --no-bos -t "$tok" "$docs" | cmp -s - "$dir/ids" || { echo "the ids differ"; exit 1; }
theirs=$(least "$dir/theirs")
echo "tiktoken: $theirs s, $(rate "$theirs"), without files; the same ids; ratio $(awk -v a="$theirs" -v b="$cold" 'BEGIN {printf "%.1f", a / b}'), warm $(awk -v a="$theirs" -v b="$warm" 'BEGIN {printf "%.1f", a / b}')"
