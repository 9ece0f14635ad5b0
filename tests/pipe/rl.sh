# gpt-train --rl: learning from rewards, filters that fail, exact resume.
. "$(dirname "$0")/../lib.sh"
cd "$dir" || exit 1

i=0; while [ $i -lt 40 ]; do echo '{"text": "qa"}'; echo '{"text": "qb"}'; i=$((i+1)); done >docs.jsonl
bpe-train -q -v 265 -o t.tok docs.jsonl 2>/dev/null && tok-encode -q -t t.tok docs.jsonl | pack-rows -q -T 24 -o t.rows || exit 1
gpt-train -q -j 1 --depth 2 --aspect-ratio 16 --head-dim 16 --window-pattern L -t t.tok --train t.rows --steps 60 \
    --total-batch-size 96 --warmup-steps 0 --matrix-lr 0.3 --embedding-lr 3 --unembedding-lr 0.2 -o base >/dev/null || exit 1
i=0; while [ $i -lt 6 ]; do echo "{\"prompt\": \"q\", \"n\": $i}"; i=$((i+1)); done >q.jsonl
last() { tail -n "${3:-1}" "$1" | head -n 1 | sed "s/.*\"$2\": \([^,}]*\).*/\1/"; }
rl="gpt-train -q -j 1 --init base --rl q.jsonl --max-tokens 3 --examples 2 --samples 8 --lr-scale 7"
cat >first_a <<'END'
#!/bin/sh
while IFS= read -r line; do case $line in *'"completion": "a'*) echo 1;; *) echo 0;; esac; done
END
yes='while read -r x; do echo 1; done'
ok "an answer is half of a small context at most, unless --max-tokens says more" \
    "gpt-train -q -j 1 --init base --rl q.jsonl --examples 2 --samples 4 --steps 1 --reward \"\$yes\" -o half >/dev/null && grep -q '\"max-tokens\": 12,' half/state.json"

# the model says a or b after q, one as often as the other; a is rewarded
ok "a run with rewards" "$rl --dtype fp32 --steps 30 --reward 'sh first_a' --val q.jsonl --eval-samples 8 --eval-every 30 --eval-prompts 2 --check-every 1 --log-rollouts roll.jsonl -o a >a.jsonl"
is "before it: a and b both" "sed -n 's/.*\"step\": 0.*\"pass_at_1\": \([^,]*\).*/\1/p' a.jsonl | awk '{print (\$1 > 0.1 && \$1 < 0.9)}'" 1
is "after it: a, nearly always ($(last a.jsonl pass_at_1))" "last a.jsonl pass_at_1 | awk '{print (\$1 > 0.95)}'" 1
is "pass@k" "tail -n 1 a.jsonl | grep -o 'pass_at_[0-9]*' | tr '\n' ' '" "pass_at_1 pass_at_2 pass_at_4 pass_at_8 "
is "log-probabilities: those of sampling and those of training are the same" \
    "grep -o '\"logp_diff\": [0-9.e-]*' a.jsonl | awk '{n++; if (!(\$2 < 1e-4)) bad++} END {print n, bad + 0}'" "30 0"
is "every answer is logged, with its step, phase and reference" \
    "jq -c 'select(.phase == \"train\") | [.step, .reference.n < 6, .reward == 0 or .reward == 1, .prompt]' roll.jsonl | sort -u | wc -l; jq -c .phase roll.jsonl | sort | uniq -c | tr -s ' '" "30
 32 \"eval\"
 480 \"train\""
is "rewards in the records are those of the answers" \
    "jq -s '[.[] | select(.phase == \"train\" and .step == 7) | .reward] | add / length' roll.jsonl" "$(sed -n 's/^{"step": 7,.*"reward": \([^,]*\),.*/\1/p' a.jsonl)"
is "it samples" "gpt-sample -q -m a -p q -n 1 --temperature 0" "a"
ok "and with GRPO" "$rl --grpo --kl 0.01 --steps 20 --lr-scale 2 --reward 'sh first_a' --val q.jsonl --eval-samples 8 --eval-every 20 --eval-prompts 2 -o g >g.jsonl"
is "after it: a more often ($(sed -n 's/.*"step": 0.*"pass_at_1": \([^,]*\).*/\1/p' g.jsonl), $(last g.jsonl pass_at_1))" "last g.jsonl pass_at_1 | awk '{print (\$1 > 0.8)}'" 1
is "--grpo normalises by the answer, and keeps near" "jq -c 'select(.config).config.options | [.norm, .grpo, .kl]' g.jsonl; last g.jsonl kl 2 | awk '{print (\$1 > 0)}'" '["answer",true,0.01]
1'

# equal rewards, and none, teach nothing: not a bit of the weights changes
ok "equal rewards" "$rl --steps 2 --reward '$yes' -o equal >equal.jsonl"
is "every group is counted, and the steps" "last equal.jsonl equal_groups; sed -n 's/.*\"skipped_steps\": \([0-9]*\).*/\1/p' equal/state.json" "2
2"
ok "the weights are those of --init" "cmp base/model.safetensors equal/model.safetensors"
ok "F73 rewards that could not be computed" "$rl --steps 2 --reward 'while read -r x; do echo null; done' -o null >null.jsonl"
is "F73 are counted, and have no mean" "jq -c 'select(.step == 2) | [.unjudged, .reward, .reward_std]' null.jsonl" "[16,null,null]"
ok "F73 and teach nothing" "cmp base/model.safetensors null/model.safetensors"
ok "F73 a null beside ones and zeros" "$rl --steps 1 --reward 'i=0; while read -r x; do i=\$((i+1)); case \$((i % 4)) in 0) echo null;; 1) echo 0;; *) echo 1;; esac; done' -o some >some.jsonl"
is "F73 leaves the mean" "jq -c 'select(.step == 1) | [.unjudged, (.reward * 1000 | round)]' some.jsonl" "[4,667]"

# filters that fail: the run is saved, the filter and what it did are named, its stderr is seen
fails() { # TEXT NAME FILTER
    rm -rf bad
    says 1 "$1" "$2" "$rl --steps 5 --reward-timeout 1 --reward '$3' -o bad >/dev/null"
    [ "$4" = any ] || is "$2: saved" "sed -n 's/^  \"step\": \([0-9]*\),/\1/p' bad/state.json" "${4:-0}"
}
fails "ended" "a filter that ends" "echo broken >&2; exit 3"
says 1 "broken" "its stderr" "$rl --steps 1 --reward 'echo broken >&2; exit 3' --force -o bad"
fails "ended" "that ends in the second step" "head -n 16 | while read -r x; do echo 1; done" 1
fails "none in 1 s" "that stalls" "while read -r x; do sleep 100; done"
fails "neither a number nor null: 'good'" "that answers in words" "while read -r x; do echo good; done"
fails "neither a number nor null" "that answers with an empty line" "while read -r x; do echo; done"
fails "neither a number nor null" "that answers NaN" "while read -r x; do echo NaN; done"
fails "more lines than it got" "that answers twice" "while read -r x; do echo 1; echo 1; done" any
fails "more lines than it got" "that says more at its end" "while read -r x; do echo 1; done; echo 1" any
says 1 "no-such-program" "that is not there" "$rl --steps 5 --reward no-such-program --force -o bad"
ok "what was saved goes on" "gpt-train -q -j 1 --resume -o bad --reward 'sh first_a' >bad.jsonl"
is "to the end" "last bad.jsonl step" 5
says 1 "/dev/full" "a full disk under the answers" "$rl --steps 5 --reward 'sh first_a' --log-rollouts /dev/full --force -o bad"
is "ends the run, saved" "sed -n 's/^  \"step\": \([0-9]*\),/\1/p' bad/state.json" 1

# a run that was stopped goes on to the same bytes: RNG, order of prompts, records, answers
run="$rl --steps 8 --epochs 0 --grpo --grpo-epochs 2 --kl 0.05 --reward 'sh first_a' --val q.jsonl --eval-every 3 --eval-prompts 2 --save-every 2"
same() { # RUN: the same but for the names of its logs
    for f in model.safetensors optimizer-0.safetensors; do cmp whole/$f "$1/$f" || return 1; done; sed 's/"\(metrics\|log-rollouts\)": "[^"]*"//g' whole/state.json >x; sed 's/"\(metrics\|log-rollouts\)": "[^"]*"//g' "$1/state.json" | diff x -; }
records() { jq -c 'select(.config | not) | del(.dt, .seconds, .tok_per_s)' "$1.jsonl"; }
run=$(echo "$run" | sed 's/ --epochs 0//')
ok "a straight run" "$run --metrics whole.jsonl --log-rollouts whole.roll -o whole"
ok "one stopped at 5" "$run --metrics cut.jsonl --log-rollouts cut.roll --stop-at 5 -o cut"
ok "goes on" "gpt-train -q -j 2 --resume -o cut --stop-at 0"
ok "to the same weights, optimizer and state, with two threads" "same cut"
ok "the same records" "[ \"\$(records whole)\" = \"\$(records cut)\" ]"
ok "the same answers" "cmp whole.roll cut.roll"
# the filter slows down, so that the kill comes in the middle
(exec $(echo "$run" | sed "s/--reward 'sh first_a'//") --reward 'sh slow' --metrics kill.jsonl --log-rollouts kill.roll -o kill 2>/dev/null) & pid=$!
cat >slow <<'END'
while IFS= read -r line; do sleep 0.01; case $line in *'"completion": "a'*) echo 1;; *) echo 0;; esac; done
END
i=0; while [ $i -lt 200 ] && ! grep -q '"step": 5' kill.jsonl 2>/dev/null; do sleep 0.05; i=$((i+1)); done
kill -9 $pid; wait $pid 2>/dev/null
ok "one killed goes on" "gpt-train -q -j 1 --resume -o kill --reward 'sh first_a' >>kill.log"
ok "to the same bytes" "sed -i 's/sh slow/sh first_a/' kill/state.json; same kill"
ok "and answers" "cmp whole.roll kill.roll"

# resuming with something else
head -n 5 q.jsonl >fewer.jsonl
says 1 "other prompts" "a resume with other prompts" "gpt-train -q --resume -o cut --rl fewer.jsonl"
cp -r base base2; $(echo "$rl" | sed 's/--init base /--init base2 /') --steps 4 --stop-at 1 --kl 0.1 --reward "sh first_a" -o moved >/dev/null 2>&1 ||
    eval "$(echo "$rl" | sed 's/--init base /--init base2 /') --steps 4 --stop-at 1 --kl 0.1 --reward 'sh first_a' --force -o moved" >/dev/null
cp a/model.safetensors base2/model.safetensors
says 1 "not the weights any more" "--kl: the reference has changed" "gpt-train -q --resume -o moved"
says 2 "--samples" "a resume with another number of samples" "gpt-train -q --resume -o cut --samples 4"

# command lines and prompts that cannot be
b="gpt-train -q -j 1 --init base --max-tokens 3 -o no"
says 2 "give --reward" "no --reward" "$b --rl q.jsonl"
says 2 "give --init" "no --init" "gpt-train --rl q.jsonl --reward cat -o no"
says 2 "only with --rl" "--samples without --rl" "gpt-train --train t.rows -t t.tok --samples 3 -o no"
says 2 "only with --grpo" "--clip without --grpo" "$b --rl q.jsonl --reward cat --clip 0.1"
says 2 "not with --rl" "--train with --rl" "$b --rl q.jsonl --reward cat --train t.rows"
says 2 "--max-tokens" "an answer longer than the model" "gpt-train --init base --max-tokens 24 -o no --rl q.jsonl --reward cat"
printf '{"prompt": "q"}\n{"prompt": 3}\n' >p1; printf '{"x": 1}\n' >p2; printf '{"prompt": "q"\n' >p3; : >p4
printf '{"prompt": "%s"}\n' qqqqqqqqqqqqqqqqqqqqqqqqqqqqqq >p5; printf '{"messages": [{"role": "user"}]}\n' >p6
says 1 "p1: line 2: \"prompt\" is not a string" "a prompt that is none" "$b --reward cat --rl p1"
says 1 "p2: line 1: neither" "a row without a prompt" "$b --reward cat --rl p2"
says 1 "p3: line 1, byte" "a row that is no JSON" "$b --reward cat --rl p3"
says 1 "p4: no prompts" "an empty file" "$b --reward cat --rl p4"
says 1 "p5: line 1: a prompt of 31 tokens" "a prompt that is too long" "$b --reward cat --rl p5"
says 1 "p6: line 1: message 1" "a message without content" "$b --reward cat --rl p6"
says 1 "make less than one step" "too few prompts for a step" "$b --reward cat --rl q.jsonl --examples 7"
ok "nothing was left behind" "[ ! -e no ]"
is "a dry run tells the plan" "$b --dry-run --json --rl q.jsonl --reward cat --examples 2 --samples 4 | jq -c '[.kind, .steps, .prompts, .answers_per_step, .options.\"lr-scale\", (.bytes > 1000)]'" '["rl",3,6,8,0.05,true]'
is "in words" "$b --dry-run --rl q.jsonl --reward cat --examples 2 | sed -n 's/^prompts *//p'" "6, the longest of 2 tokens; the calculator answers calls"
finish
