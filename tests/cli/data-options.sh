# gpt-train --ema, --freeze, --doc-mask: exact resume, and evaluations that do likewise.
. "$(dirname "$0")/../lib.sh"

i=0; while [ $i -lt 60 ]; do echo "{\"text\": \"line $i: the cat sat on mat $((i * 7 % 13)), and the dog did not.\"}"; i=$((i+1)); done >"$dir/docs.jsonl"
bpe-train -q -v 300 -o "$dir/a.tok" "$dir/docs.jsonl" || exit 1
tok-encode -q -t "$dir/a.tok" "$dir/docs.jsonl" | pack-rows -q -T 32 -o "$dir/a.rows" || exit 1
opts="-q -j 1 --depth 2 --aspect-ratio 16 --head-dim 16 -t $dir/a.tok --train $dir/a.rows --val $dir/a.rows --eval-tokens 1M
  --eval-every 4 --total-batch-size 128 -B 2 --steps 8 --warmup-steps 0 --matrix-lr 0.2 --embedding-lr 3"
opts=$(printf '%s' "$opts" | tr '\n' ' ')
go() { d=$1; shift; gpt-train $opts -o "$dir/$d" "$@" >"$dir/$d.jsonl"; }
bpb() { sed -n 's/.*"val_bpb": \([0-9.]*\).*/\1/p' "$dir/$1.jsonl" | tail -n 1; }
eval_bpb() { m=$1; shift; gpt-eval -q -j 1 -m "$dir/$m" "$@" bpb "$dir/a.rows" | sed 's/.*"bpb": \([0-9.]*\).*/\1/'; }

ok "a plain run" "go plain"
ok "  has no running mean" "! [ -e $dir/plain/model-ema.safetensors ]"
says 1 "model-ema.safetensors: No such file" "  and gpt-eval --ema says so" "gpt-eval -m $dir/plain --ema bpb $dir/a.rows"
ok "with --ema" "go ema --ema 0.9 && [ -e $dir/ema/model-ema.safetensors ]"
ok "the weights are those without" "cmp $dir/plain/model.safetensors $dir/ema/model.safetensors"
ok "the mean is not" "! cmp -s $dir/ema/model-ema.safetensors $dir/ema/model.safetensors"
is "the evaluation is of the mean: $(bpb ema)" "eval_bpb ema --ema" "$(bpb ema)"
is "  and not of the weights: $(bpb plain)" "eval_bpb ema" "$(bpb plain)"
ok "  which are two things" "! [ $(bpb ema) = $(bpb plain) ]"
ok "gpt-sample takes it" "echo line | gpt-sample -q -m $dir/ema --ema -n 4 -j 1"
ok "stopped and resumed" "go half --ema 0.9 --stop-at 3 && gpt-train -q -j 1 --resume -o $dir/half >/dev/null"
ok "  the same files" "diff -r -x clock.json -x status.json $dir/ema $dir/half"
rm -rf "$dir/half"; go half --ema 0.9 --stop-at 3; rm "$dir/half/model-ema.safetensors"
says 1 "model-ema.safetensors: No such file" "a resume without its mean is refused" "gpt-train -q --resume -o $dir/half"
says 2 "out of range" "a decay of 1" "go no --ema 1"
ok "a run without it over that directory leaves none behind" "go ema --force && ! [ -e $dir/ema/model-ema.safetensors ]"

says 2 "--freeze: 'wte' matches no tensor" "a pattern without a match" "go no --freeze wte"
says 2 "nothing is left to train" "all of it" "go no --freeze '*'"
ok "no model came of that" "! [ -e $dir/no/model.safetensors ]"
set -f
cold="--freeze *.wte.* --freeze transformer.h.0.*"
ok "a frozen run from the plain one" "go cold --init $dir/plain $cold"
ok "stopped and resumed, the same files" "go cold2 --init $dir/plain $cold --stop-at 5 && gpt-train -q -j 1 --resume -o $dir/cold2 >/dev/null && diff -r -x clock.json -x status.json $dir/cold $dir/cold2"
says 2 "--freeze: " "another pattern on a resume is refused" "gpt-train -q --resume -o $dir/cold2 --freeze lm_head*"
set +f
# F57, as far as a command line shows it; the rest is in tests/unit/docmask.c
ok "documents kept apart" "go mask --doc-mask"
ok "is another model" "! cmp -s $dir/mask/model.safetensors $dir/plain/model.safetensors"
ok "stopped and resumed, the same files" "go mask2 --doc-mask --stop-at 3 && gpt-train -q -j 1 --resume -o $dir/mask2 >/dev/null && diff -r -x clock.json -x status.json $dir/mask $dir/mask2"
is "evaluated likewise: $(bpb mask)" "eval_bpb mask --doc-mask" "$(bpb mask)"
ok "  and otherwise" "! [ \$(eval_bpb mask) = $(bpb mask) ]"
is "the log says which" "head -n 1 $dir/mask.jsonl | grep -c '\"doc-mask\": true'; head -n 1 $dir/plain.jsonl | grep -c '\"doc-mask\": false'" "1
1"
finish
