# share/pipeline/speedrun.sh with tiny models on the CPU and a mirror in place of the network: the whole
# pipe; killed in each stage and run again, the same bytes; a report that is whole or not there.
. "$(dirname "$0")/../lib.sh"
cd "$dir" || exit 1
if ! command -v jq >/dev/null; then
    says 1 "jq is not installed" "speedrun.sh says what is missing" "$top/share/pipeline/speedrun.sh one"
    finish
fi

# ---- the sets, by the names of the real ones
export PIPEGPT_SETS="$dir/sets" HF_ENDPOINT="file://$dir/hub"
mkdir -p sets hub/datasets/x/y/resolve/main
cp "$top"/share/data/*.jq sets
at=hub/datasets/x/y/resolve/main
set_of() { printf '{"licence": "x", "repo": "x/y", "default": "%s", %s}\n' "$2" "$3" >"sets/$1.json"; }
splits() { printf '"adapter": "%s", "splits": {"%s": {"files": ["%s"]}, "test": {"files": ["%s"]}}' "$1" "$2" "$3" "$4"; }
set_of climbmix web '"splits": {"web": {"path": "web_{1}.jsonl", "count": 2}}'
set_of smoltalk train "$(splits smoltalk train talk.jsonl talk.jsonl)"
set_of gsm8k train "$(splits gsm8k train sums.jsonl sums-test.jsonl)"
set_of mmlu auxiliary_train "$(splits mmlu auxiliary_train which.jsonl which-test.jsonl)"
for i in 0 1; do awk -v n=150 -v seed=$i -f "$top/share/demo/world.awk" | data-fetch -q -o $at/web_$i.jsonl || exit 1; done
i=0
while [ $i -lt 12 ]; do
    q="{\"question\": \"How many are $i and $i?\", \"answer\": \"All: <<$i+$i=$((i + i))>>$((i + i)).\n#### $((i + i))\"}"
    m="{\"question\": \"Which is $i?\", \"subject\": \"\", \"choices\": [\"a\", \"b\", \"c\", \"d\"], \"answer\": $((i % 4))}"
    t=$([ $i -lt 8 ] || echo -test)
    printf '%s\n' "$q" >>"$at/sums$t.jsonl"; printf '%s\n' "$m" >>"$at/which$t.jsonl"
    echo "{\"messages\": [{\"role\": \"user\", \"content\": \"Hello $i\"}, {\"role\": \"assistant\", \"content\": \"Good day $i\"}], \"source\": \"x\"}" >>$at/talk.jsonl
    i=$((i + 1))
done
export DEVICE=cpu DEPTH=2 SHARDS=2 VOCAB=300 SEQ=64 TRAIN='-q -j 1' EVAL='-q -j 1 -n 4' \
    BASE='--aspect-ratio 16 --head-dim 16 --total-batch-size 256 --steps 8 --save-every 3 --eval-tokens 256' \
    SFT='--total-batch-size 128 --epochs 1 --save-every 2' RL='-q -j 1 --steps 3 --examples 1 --samples 2 --max-tokens 4 --save-every 1'
go() { "$top/share/pipeline/speedrun.sh" run; }
made() { grep '^[a-z]*: ' "$1" | grep -v -e ': there' -e ': done'; }
same() { diff -r -x clock.json -x status.json -x '*.lock' -x metrics.jsonl -x chat.jsonl -x rl.jsonl whole run; }

# ---- the whole
ok "from the web to a report" "go >out 2>err"
is "its records: what was measured, of which model" "jq -r '.task + \" \" + .model' run/report.jsonl" "bpb model
gsm8k run/chat
mmlu run/chat
mean run/chat
gsm8k run/rl
mmlu run/rl
mean run/rl"
ok "  come out" "cmp out run/report.jsonl"
is "questions that no training saw" "jq -c '.items // empty' run/chat-eval.jsonl | head -n 2; jq -r .question run/*-test.jsonl | grep -cFf - run/talk.jsonl run/prompts.jsonl" "4
4
run/talk.jsonl:0
run/prompts.jsonl:0"
is "conversations are those of all three sets" "jq -r '.messages[0].content | tostring | .[0:5]' run/talk.jsonl | sort | uniq -c | tr -s ' \n' ' '" " 12 Hello 32 How m 24 Multi "
is "each training took its steps" "for d in base/model chat rl; do gpt-train --status run/\$d --json | jq -r .phase; done | tr '\n' ' '" "finished finished finished "
is "again: nothing is made" "touch now; go 2>again | cmp - out; find run -newer now -type f | grep -v -e /pipeline -e /settings -e '\.lock'; made again" ""
says 1 "was begun with other settings" "other settings are refused" "SHARDS=1 go"
says 2 "usage: speedrun.sh [DIR]" "an option" "$top/share/pipeline/speedrun.sh --depth"
says 2 "GPUS: 'x' is not" "a bad number" "GPUS=x go"
cp -a run whole

# ---- a failing evaluation: no report, and what is missing is made by the next run
mkdir stub
cat >stub/gpt-eval <<END
#!/bin/sh
case " \$* " in *" \${FAIL:-none} "*) echo '{"task": "half'; exit 1;; esac
exec "$(command -v gpt-eval)" "\$@"
END
chmod +x stub/gpt-eval
rm run/*-eval.jsonl run/report.jsonl
for m in chat rl; do
    exits 1 "an evaluation that fails, of $m" "FAIL=run/$m PATH='$dir/stub:$PATH' go"
    ok "  leaves no report" "[ ! -e run/report.jsonl ] && [ ! -e run/$m-eval.jsonl ]"
done
is "  and is made by the next run, once" "go 2>err | cmp - out; made err" "speedrun: questions for rl
speedrun: report"
ok "half a report is none" "rm run/report.jsonl; head -n 1 out >run/report.new; go | cmp - out && cmp out run/report.jsonl"

# ---- killed in each stage
go_killed() {
    setsid "$top/share/pipeline/speedrun.sh" run >/dev/null 2>&1 &
    p=$!
    while [ ! -e "run/$1" ] && kill -0 $p 2>/dev/null; do sleep 0.02; done
    kill -9 -- -$p 2>/dev/null; wait $p 2>/dev/null
    [ ! -e run/report.jsonl ] || cmp -s run/report.jsonl out || early="$early $1"
}
early=; rm -rf run
for f in web.jsonl base/rows base/model/state.json talk.jsonl gsm8k-test.jsonl chat.data chat/state.json chat-eval.jsonl rl.jsonl rl/state.json rl-eval.jsonl; do go_killed $f; done
is "killed at eleven stages: no report before it is whole" 'echo $early' ""
ok "  and run again" "go >out3 2>err3"
is "  to the same bytes in every file" "same" ""

finish
