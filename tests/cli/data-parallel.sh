#!/bin/sh
# Several downloads at once: in order, at most so many, none lost by another's failure or by a kill.
. "$(dirname "$0")/../lib.sh"
cd "$dir"
data-fetch --version | grep -q curl || { skip "parallel downloads" "built without libcurl"; finish; }
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY PIPEGPT_SETS HF_TOKEN
export HOME="$dir"
for i in 1 2 3 4 5 6 7 8; do seq $((i * 2000)) | sed "s/.*/{\"text\":\"$i-&\"}/" >$i.jsonl; done
"$BUILD/tests/fetch/server" 8.jsonl requests >ports &
server=$!
trap 'kill $server 2>/dev/null; rm -rf "$dir"' EXIT
while [ ! -s ports ]; do sleep 0.1; done
read -r a b <ports
u=http://127.0.0.1:$a
fresh() { export PIPEGPT_CACHE="$dir/cache.$1"; seen=$(wc -l <requests); }
since() { tail -n +$((seen + 1)) requests; }          # requests since fresh(): ms, at once, port, path, from
get() { data-fetch -q --retry-wait 0 --stall 1 "$@"; }

fresh order
cat 1.jsonl 2.jsonl 3.jsonl 4.jsonl 5.jsonl 6.jsonl >want
ok "rows in the order of the command line" "get $u/late/1.jsonl $u/plain/2.jsonl $u/slow/3.jsonl $u/cut/4.jsonl $u/late/5.jsonl $u/plain/6.jsonl | cmp - want"
is "at most four at once, and not one by one" "since | awk '\$2 > m {m = \$2} END {print (m > 1 && m <= 4)}'" 1
fresh two
ok "--jobs 2" "get --jobs 2 $u/late/1.jsonl $u/late/2.jsonl $u/late/3.jsonl $u/late/4.jsonl >/dev/null"
is "two at once" "since | awk '\$2 > m {m = \$2} END {print m}'" 2
fresh one
ok "--jobs 1" "get --jobs 1 $u/late/1.jsonl $u/late/2.jsonl >/dev/null"
is "one at once" "since | awk '\$2 > m {m = \$2} END {print m}'" 1
fresh early
ok "rows come while later files are fetched" "timeout 10 data-fetch -q --max-docs 2000 $u/plain/1.jsonl $u/hang/2.jsonl | cmp - 1.jsonl"
ok "and are not held back" "timeout 1.5 data-fetch -q $u/plain/1.jsonl $u/hang/3.jsonl | cmp - 1.jsonl"

fresh faults
faults="hop expired busy limit cut whole changed changed2 wrongrange no416 reset stall chunked slow plain"
urls=$(for f in $faults; do printf "%s " "$u/$f/7.jsonl"; done)
for f in $faults; do cat 7.jsonl; done >want
ok "all faults at once" "HF_ENDPOINT=$u HF_TOKEN=secret get --jobs 15 $urls | cmp - want"
ok "the same from the cache" "get --offline $urls | cmp - want"

fresh lost
says 1 "/missing/2.jsonl: HTTP status 404" "one of four is not there" "get --stall 9 $u/stuck/8.jsonl $u/missing/2.jsonl $u/stuck/7.jsonl $u/stuck/6.jsonl -o out"
ok "no output" "[ ! -e out ]"
seen=$(wc -l <requests)
cat 8.jsonl 7.jsonl 6.jsonl >want
ok "the others are right the next time" "get $u/stuck/8.jsonl $u/stuck/7.jsonl $u/stuck/6.jsonl | cmp - want"
is "and went on where they were" "since | awk '\$5 > 0' | wc -l" 3
says 1 "is wanted" "a wrong hash among others" "get $u/slow/5.jsonl $u/sum/1.jsonl $u/slow/4.jsonl"
cat 5.jsonl 4.jsonl >want
ok "the others' bytes are right" "get $u/slow/5.jsonl $u/slow/4.jsonl | cmp - want"
is "a file that is not what was promised has no name" "ls cache.lost/files/*/1.jsonl 2>/dev/null | wc -l" 0

four="$u/slow/5.jsonl $u/slow/6.jsonl $u/slow/7.jsonl $u/slow/8.jsonl"
cat 5.jsonl 6.jsonl 7.jsonl 8.jsonl >want
for s in INT TERM; do
    fresh $s
    stuck="$u/stuck/5.jsonl?$s $u/stuck/6.jsonl?$s $u/stuck/7.jsonl?$s $u/stuck/8.jsonl?$s"
    parts() { find cache.$s/part -name '*.part' -size +50k 2>/dev/null | wc -l; }
    { until [ "$(parts)" -eq 4 ]; do sleep 0.05; done; kill -s $s "$(cat pid)"; } &
    { sh -c 'echo $$ >pid; exec timeout 60 data-fetch -q --stall 50 "$@" -o out' sh $stuck; kill $!; wait $!; } 2>/dev/null
    is "SIG$s: four parts are kept" "parts" 4
    ok "SIG$s: no output, no temporary" "[ -z \"\$(ls -A | grep out)\" ]"
    seen=$(wc -l <requests)
    ok "SIG$s: right bytes" "get $stuck | cmp - want"
    is "SIG$s: all four went on" "since | awk '\$5 > 0' | wc -l" 4
done
fresh kill
for i in 01 02 03 05 07 08 09 10 11 12 13 15 17 19 21 23 04 06 02 14; do
    timeout -s KILL 0.$i data-fetch -q $four -o out
done 2>kills
ok "killed 20 times: right bytes" "get $four | cmp - want"

fresh pause
ok "a server that asks for a second" "get --jobs 2 $u/after/1.jsonl $u/late/2.jsonl $u/late/3.jsonl >/dev/null"
is "gets it, from all" "since | awk '\$4 == \"/after/1.jsonl\" && !t {t = \$1} \$4 == \"/late/3.jsonl\" {print (\$1 - t >= 1000)}'" 1

fresh same
cat 3.jsonl 3.jsonl >want
ok "a file twice" "get $u/late/3.jsonl $u/late/3.jsonl | cmp - want"
is "is fetched once" "since | wc -l" 1
cat 5.jsonl 6.jsonl 7.jsonl >want
seen=$(wc -l <requests)
( get $u/slow/5.jsonl $u/slow/6.jsonl $u/slow/7.jsonl >first ) &
get $u/slow/5.jsonl $u/slow/6.jsonl $u/slow/7.jsonl >second
wait $!
ok "two processes, the same files" "cmp first want && cmp second want"
is "each fetched once" "since | wc -l" 3

# ---- --json
fresh json
ok "--json" "data-fetch --json $u/late/1.jsonl $u/cut/2.jsonl $u/slow/8.jsonl >/dev/null 2>lines"
is "each line is an object with a state" "jq -rn '[inputs | has(\"state\")] | all' lines" true
size=$(wc -c <2.jsonl)
is "a file that was cut" "jq -rc 'select(.file == \"$u/cut/2.jsonl\") | [.state, .bytes, .total]' lines | tr '\n' ' '" "[\"begin\",0,null] [\"retry\",$((size / 2)),$size] [\"resume\",$((size / 2)),$size] [\"done\",$size,$size] "
is "the reason is there" "jq -r 'select(.state == \"retry\").why | length > 0' lines" true
is "rows in the end" "tail -n 1 lines | jq -c '[.state, .rows]'" '["done",22000]'
is "from the cache" "data-fetch --json $u/late/1.jsonl 2>&1 >/dev/null | jq -r .state | tr '\n' ' '" "cached done "
is "a failure" "data-fetch --json $u/gone/1.jsonl 2>&1 >/dev/null | sed -n '/^{/p' | jq -rc '[.state, .why]' | tail -n 1" '["failed","HTTP status 404"]'

# ---- the token
fresh token
export HF_ENDPOINT=$u/
tokens() { get --retries 0 $u/hop/$1.jsonl >/dev/null; }
says 1 "HTTP status 401" "no token" "tokens 1"
mkdir -p .cache/huggingface x/huggingface h
echo secret >.cache/huggingface/token
ok "from ~/.cache/huggingface" "tokens 1"
echo wrong >x/huggingface/token
says 1 "HTTP status 401" "XDG_CACHE_HOME goes first" "XDG_CACHE_HOME=\$dir/x tokens 2"
printf ' secret\r\n' >h/token
ok "then HF_HOME" "XDG_CACHE_HOME=\$dir/x HF_HOME=\$dir/h tokens 2"
echo wrong >h/token
printf secret >t
ok "then HF_TOKEN_PATH" "HF_HOME=\$dir/h HF_TOKEN_PATH=\$dir/t tokens 3"
ok "then HF_TOKEN" "HF_HOME=\$dir/h HF_TOKEN=secret tokens 4"
says 1 "HF_TOKEN: not an access token" "a token that would be two headers" "HF_TOKEN=\$(printf 'secret\r\nX: y') tokens 5"
printf 'sec\001ret' >t
says 1 "t: not an access token" "and one of a file" "HF_TOKEN_PATH=\$dir/t tokens 5"
ok "no other server gets it" "get http://127.0.0.1:$b/plain/1.jsonl >/dev/null && HF_TOKEN=secret get http://127.0.0.1:$b/plain/2.jsonl >/dev/null"
ok "a redirect to another one does not" "HF_TOKEN=secret get $u/hops/6.jsonl | cmp - 6.jsonl"
is "it stands nowhere" "grep -rl secret cache.* requests lines" ""
finish
