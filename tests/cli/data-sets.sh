#!/bin/sh
# Data sets by name: manifests, --list, --plan, mirrors, manifests that must be refused.
. "$(dirname "$0")/../lib.sh"
cd "$dir"
unset HF_ENDPOINT PIPEGPT_SETS

# ---- the manifests that are shipped
is "--list knows them all" "data-fetch --list | wc -l" "$(ls "$top"/share/data/*.json | wc -l)"
for f in "$top"/share/data/*.json; do
    s=$(basename "$f" .json)
    for split in $(data-fetch --list | sed -n "s/^{\"set\":\"$s\",\"splits\":\\[\\([^]]*\\)\\].*/\\1/p" | tr -d '"' | tr ',' ' '); do
        ok "$s:$split" "data-fetch --plan $s:$split | grep -q '\"licence\":\"..*\"first\":\"https://'"
    done
done
is "numbered files" "data-fetch --plan climbmix@0:8 | sed 's/.*\"files\":\\([0-9]*\\).*shard_0*\\([0-9]*\\).parquet\"}/\\1 \\2/'" "8 7"
is "the last shard is validation" "data-fetch --plan climbmix:val | grep -c resolve/main/shard_06542.parquet" 1
says 1 "climbmix: there are 6542 files" "shards past the end" "data-fetch --plan climbmix@6542:7000"
says 1 "gsm8k has no split 'tset', but train, test" "a split that is not there" "data-fetch gsm8k:tset"
says 1 "no data set of that name" "a path is no name" "data-fetch ../gsm8k"

says 2 "--list takes no operands: 'x'" "--list of one" "data-fetch --list x"
for e in x huggingface.co ftp://x file://x; do
    says 1 "HF_ENDPOINT: '$e' is no https, http or file:/// URL" "a hub at $e" "HF_ENDPOINT=$e data-fetch gsm8k"
done

# ---- sets of one's own, and a mirror
mkdir -p sets m/datasets/me/mine/resolve/main/d
export PIPEGPT_SETS="$dir/sets" HF_ENDPOINT="file://$dir/m/"
set_of() { printf '{"licence":"x","default":"a","repo":"me/mine",%s}\n' "$1" >sets/mine.json; }
for i in 0 1 2; do printf '{"text":"%s"}\n{"text":"%s!"}\n' $i $i >m/datasets/me/mine/resolve/main/d/f_0$i.jsonl; done
printf 'x\n\ny\n' >u.jsonl
printf 'one<>two' >m/datasets/me/mine/resolve/main/t.txt
set_of '"splits":{"a":{"files":["d/f_00.jsonl","d/f_01.jsonl"]},"n":{"path":"d/f_{2}.jsonl","count":3}}'
is "files are read one after the other" "data-fetch -q mine | tr -d '\n'" '{"text":"0"}{"text":"0!"}{"text":"1"}{"text":"1!"}'
is "rows are counted over files" "data-fetch -q mine@1:3 | tr -d '\n'" '{"text":"0!"}{"text":"1"}'
is "the plan knows a mirror's bytes, and a file's" "data-fetch --plan mine mine:n@1:2 u.jsonl | sed 's/.*\"bytes\":\([0-9]*\).*/\1/' | tr '\n' ' '" "54 27 5 "
is "shards" "data-fetch -q mine:n@1:2 --provenance | tr -d '\n'" \
    '{"text":"1","_from":{"set":"mine:n","row":0}}{"text":"1!","_from":{"set":"mine:n","row":1}}'
is "twice" "data-fetch -q 'mine:n@2:3*2' | wc -l" 4
is "a shuffled set has all rows" "data-fetch -q --shuffle 1 mine mine:n | wc -l" 10
is "a file URL" "printf '{\"text\":\"u\"}\n' >'u v.jsonl'; data-fetch -q 'file://$dir/u%20v.jsonl'" '{"text":"u"}'
says 1 "a bad %" "a bad file URL" "data-fetch 'file://$dir/u%2'"
set_of '"format":"text","separator":"<>","splits":{"a":{"files":["t.txt"]}}'
is "a separator" "data-fetch -q mine | tr -d '\n'" '{"text":"one"}{"text":"two"}'
is "--split goes first" "data-fetch -q --split none mine" '{"text":"one<>two"}'
set_of '"splits":{"a":{"files":[{"path":"t.txt","size":9}]}}'
says 1 "8 bytes, but 9 are wanted" "a size that differs" "data-fetch mine"
set_of '"splits":{"a":{"files":["gone.txt"]}}'
says 1 "gone.txt: No such file" "a file that is not in the mirror" "data-fetch mine"

# ---- hostile manifests
bad() { set_of "$2"; says 1 "$3" "$1" "data-fetch mine"; }
bad "a path out of the repository" '"splits":{"a":{"files":["../../../../../etc/passwd"]}}' "is no path inside"
bad "in the middle" '"splits":{"a":{"files":["a/../b"]}}' "is no path inside"
bad "an absolute path" '"splits":{"a":{"files":["/etc/passwd"]}}' "is no path inside"
bad "an empty part" '"splits":{"a":{"files":["a//b"]}}' "is no path inside"
bad "a file URL" '"splits":{"a":{"files":["file:///etc/passwd"]}}' "only https"
bad "escapes" '"splits":{"a":{"files":["a%2f..%2fb"]}}' "no place in a path"
bad "a control character" '"splits":{"a":{"files":["a\u000ab"]}}' "control character"
bad "NUL" '"splits":{"a":{"files":["a\u0000b"]}}' "control character"
bad "a backslash" '"splits":{"a":{"files":["a\\b"]}}' "no place in a path"
bad "a query" '"splits":{"a":{"files":["a?b"]}}' "no place in a path"
bad "an adapter elsewhere" '"adapter":"../x","splits":{"a":{"files":["a"]}}' "no plain name"
bad "a format of its own" '"format":"--help","splits":{"a":{"files":["a"]}}' "no plain name"
bad "no such split" '"splits":{"b":{"files":["a"]}}' "names no split"
bad "no files" '"splits":{"a":{"files":[]}}' "not a list of files"
bad "files that are none" '"splits":{"a":{"files":[1]}}' "a file is a string"
bad "a negative size" '"splits":{"a":{"files":[{"path":"a","size":-1}]}}' '"size" is not'
bad "a huge size" '"splits":{"a":{"files":[{"path":"a","size":1e300}]}}' '"size" is not'
bad "a short hash" '"splits":{"a":{"files":[{"path":"a","sha256":"12"}]}}' "64 hexadecimal"
bad "a count past all bounds" '"splits":{"a":{"path":"f{5}","count":9999999999}}' "out of range"
bad "no number in the path" '"splits":{"a":{"path":"f","count":3}}' "needs one"
bad "no JSON" 'x' "sets/mine.json: byte"
finish
