#!/bin/sh
# The downloader against a server of this machine that makes mistakes.
. "$(dirname "$0")/../lib.sh"
cd "$dir"
data-fetch --version | grep -q curl || { skip "downloads" "built without libcurl"; finish; }
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY PIPEGPT_SETS
seq 40000 | sed 's/.*/{"text":"&"}/' >want.jsonl
"$BUILD/tests/fetch/server" want.jsonl requests >ports &
server=$!
trap 'kill $server 2>/dev/null; rm -rf "$dir"' EXIT
while [ ! -s ports ]; do sleep 0.1; done
read -r a b <ports
export PIPEGPT_CACHE="$dir/cache" HF_ENDPOINT="http://127.0.0.1:$a" HF_TOKEN=secret
get() { data-fetch -q --retry-wait 0 --retries 3 --stall 1 "http://127.0.0.1:$a/$1/x.jsonl"; }
for f in plain hop hops expired busy limit after date cut whole changed changed2 wrongrange no416 stall reset chunked long; do
    ok "$f: right bytes" "get $f >got; cmp got want.jsonl"
done
is "a date is waited for" "awk '\$4 ~ /^.date/ {if (t) print (\$1 - t >= 900); t = \$1}' requests" 1
# the file comes in 0.3 s or more; the process is killed at 20 moments of it, and goes on each time
{ for i in 01 02 03 04 05 06 07 08 09 10 11 12 13 14 15 16 17 18 19 20; do
    timeout -s KILL 0.$i data-fetch -q "http://127.0.0.1:$a/slow/x.jsonl" -o killed.jsonl
done; } 2>kills
ok "killed 20 times: right bytes" "get slow >got; cmp got want.jsonl"
ok "an answer that stops: right bytes" "get stuck >got; cmp got want.jsonl"
# no room: what came is kept
says 1 "/part/" "a full disk" "(ulimit -f 400; get late/full >/dev/null)"
is "its part is kept" "find cache/part -name '*.part' -size +100k | wc -l" 1
ok "and used" "get late/full >got; cmp got want.jsonl && awk '\$4 ~ /full/ {f = \$5} END {exit !(f > 0)}' requests"
says 1 "4000000000000 MB are needed" "a disk that is too small is noticed before the first byte" "get room"
refused() { says 1 "$2" "$1: refused" "get $1"; }
refused loop "redirects"
refused gone "HTTP status 404"
refused forbidden "HTTP status 403"
refused nolength "no length"
refused coded "coded"
refused huge "x.jsonl: "
refused negative "x.jsonl: "
refused sum "SHA-256"
# of a set whose manifest says another length: a body that states its own, and one that does not
mkdir sets
size=$(wc -c <want.jsonl)
set_of() { printf '{"licence":"x","default":"a","repo":"me/s","splits":{"a":{"files":[{"path":"x.jsonl","size":%s}]}}}\n' $1 >sets/s.json; }
of_set() { PIPEGPT_SETS="$dir/sets" HF_ENDPOINT="http://127.0.0.1:$a/$1" data-fetch -q --retry-wait 0 --retries 3 s; }
set_of $((size - 1))
says 1 "its length is not the stated one" "a body that is too long: refused" "of_set plain"
says 1 "it is longer than stated" "a chunked one: refused" "of_set chunked"
set_of $((size + 1))
says 1 "it ended early" "a chunked one that is too short: refused" "of_set chunked"
is "after four tries" "grep -c ' /chunked/data' requests" 8
set_of $size
ok "the stated length: right bytes" "of_set chunked >got; cmp got want.jsonl"
is "nothing else got a name" "ls cache/files | wc -l" 1
ok "--offline has what was fetched" "HF_TOKEN= data-fetch -q --offline http://127.0.0.1:$a/plain/x.jsonl | cmp - want.jsonl"
ok "HF_HUB_OFFLINE too" "HF_HUB_OFFLINE=1 data-fetch -q http://127.0.0.1:$a/plain/x.jsonl | cmp - want.jsonl"
says 1 "not in the cache" "HF_HUB_OFFLINE, and nothing else" "HF_HUB_OFFLINE=True data-fetch http://127.0.0.1:$a/other/x.jsonl"
says 1 "not in the cache" "and nothing else" "data-fetch --offline http://127.0.0.1:$a/other/x.jsonl"
is "no token is kept" "grep -rl secret cache" ""
for f in cache/files/*/x.jsonl; do printf 'X' | dd of="$f" conv=notrunc bs=1 seek=100 2>dd.log; done
says 1 "not what was fetched" "a changed cache is noticed" "data-fetch --offline http://127.0.0.1:$a/plain/x.jsonl"
ok "and mended" "get plain >got; cmp got want.jsonl"
finish
