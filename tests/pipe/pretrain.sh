# share/pipeline/pretrain: builds what is missing; killed at any stage and run again, the same bytes.
. "$(dirname "$0")/../lib.sh"
cd "$dir" || exit 1
awk -v n=250 -v seed=4 -f "$top/share/demo/world.awk" >world.txt
go() {
    "$top/share/pipeline/pretrain" --depth 2 --run "$1" --vocab 300 --seq-len 64 --val 10 \
        --train '-q -j 1 --aspect-ratio 16 --head-dim 16 --total-batch-size 256 --steps 60 --save-every 5 --eval-tokens 1024' world.txt
}
same() { diff -r -x clock.json -x status.json -x metrics.jsonl "$1" "$2"; }
ok "from text to a model" "go one >one.out 2>one.err"
ok "its bits per byte come out" "grep -q '\"bpb\": ' one.out && cmp one.out one/eval.jsonl"
ok "again: nothing is made" "touch now; go one 2>again.err; ! find one -newer now -type f | grep -v -e /pipeline -e '\.lock'; ! grep -v -e there -e done again.err"
ok "what is missing is made again" "rm one/tokenizer.tok one/eval.jsonl; cp -r one two; go two 2>&1; same one two | grep -v '^Only in two: '; cmp two/tokenizer.tok two/model/tokenizer.tok && cmp two/eval.jsonl one.out"
go_killed() {                                    # kills the script and the stage it is in
    setsid sh -c '"$@"' sh "$top/share/pipeline/pretrain" --depth 2 --run three --vocab 300 --seq-len 64 --val 10 \
        --train '-q -j 1 --aspect-ratio 16 --head-dim 16 --total-batch-size 256 --steps 60 --save-every 5 --eval-tokens 1024' world.txt >/dev/null 2>&1 &
    p=$!
    while [ ! -e "three/$1" ] && kill -0 $p 2>/dev/null; do sleep 0.02; done
    kill -9 -- -$p 2>/dev/null; wait $p 2>/dev/null
}
cp -r two one.whole; rm -rf two
for at in train.jsonl train.tokens rows model/state.json; do go_killed $at; done
ok "killed at four stages, and run again" "go three >three.out 2>&1"
ok "the same bytes in every file" "same one.whole three"
ok "no step is missing or there twice" "[ \"\$(sed -n 's/^{\"step\": \([0-9]*\), \"epoch.*/\1/p' three/metrics.jsonl | tr '\n' ' ')\" = \"\$(seq 60 | tr '\n' ' ')\" ]"
says 1 "was begun with other settings" "other settings are refused" "'$top/share/pipeline/pretrain' --depth 3 --run three --vocab 300 --seq-len 64 --val 10 world.txt"
if command -v flock >/dev/null; then
    mkdir busy && exec 8>>busy/.lock && flock -n 8 && says 1 "busy: another pretrain is at work here" "two at once" "'$top/share/pipeline/pretrain' --depth 2 --run busy world.txt"
    exec 8>&-
else skip "two at once" "no flock(1)"; fi
says 2 "no data" "no data" "'$top/share/pipeline/pretrain' --depth 2 --run x"
says 1 "none.txt" "data that is not there" "'$top/share/pipeline/pretrain' --depth 2 --run x none.txt"
says 2 "unknown option '--dept'" "a wrong option" "'$top/share/pipeline/pretrain' --dept 2 --run x world.txt"
says 1 "tokenizer: failed" "a stage that fails ends it" "'$top/share/pipeline/pretrain' --depth 2 --run x --vocab 10 --seq-len 64 world.txt"

# ---- plot
plot="$top/share/pipeline/plot"
cp one/metrics.jsonl a_run.jsonl
says 2 "no picture" "plot: no output" "$plot a_run.jsonl"
says 2 "no metrics" "plot: no input" "$plot -o x.png"
says 2 "not .png" "plot: another kind" "$plot a_run.jsonl -o x.txt"
if command -v gnuplot >/dev/null; then
    ok "plot: two runs in a picture" "$plot a_run.jsonl three/metrics.jsonl -o loss.svg && grep -q 'a run' loss.svg && grep -q '>three<' loss.svg && grep -q 'bits per byte' loss.svg"
    ok "plot: PNG" "$plot a_run.jsonl -o loss.png && [ \"\$(head -c 4 loss.png | tail -c 3)\" = PNG ]"
    says 1 "none.jsonl: cannot be read" "plot: a file that is missing" "$plot none.jsonl -o x.png"
    says 1 "world.txt: no metrics" "plot: a file of something else" "$plot world.txt -o x.png"
    ok "plot: nothing is left of those" "[ ! -e x.png ]"
else
    skip "plot: a picture" "gnuplot is not installed"
    says 1 "gnuplot is not installed" "plot: says what is missing" "$plot a_run.jsonl -o x.png"
fi
finish
