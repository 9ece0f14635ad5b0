# Several ranks under mpirun: collectives, the same rows and losses as one rank's, messages once, no hang
# when one fails or is killed.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../mpirun.sh"
case $(gpt-train --version) in
*" mpi "*) ;;
*)  says 1 "started as one of several ranks, but built without MPI" "without MPI: one rank" "PMI_SIZE=2 gpt-train --help";;
esac
need_ranks

comm=${BUILD:-$top/build}/tests/ops/comm
if [ -x "$comm" ]; then
    for k in 2 3; do is "collectives of $k ranks" "ranks $k $comm >log$k && echo good; grep -c '^not ok' log$k" "good
0"; done
else skip "collectives" "not built"; fi

i=0; while [ $i -lt 90 ]; do echo "{\"text\": \"$i bottles of beer on the wall, take $((i * 5 % 17)) down.\"}"; i=$((i+1)); done >docs.jsonl
bpe-train -q -v 300 -o a.tok docs.jsonl && tok-encode -q -t a.tok docs.jsonl | pack-rows -q -T 32 -o a.rows || exit 1
size="--depth 2 --aspect-ratio 16 --head-dim 16"
run="gpt-train -q -j 1 $size --dtype fp32 -t a.tok --train a.rows --val a.rows --eval-every 4 --eval-tokens 320
  --total-batch-size 384 --steps 8 --log-rows --force"
run=$(echo $run)
rows() { sed -n 's/.*"rows": \(\[[^]]*\]\).*/\1/p' "$1"; }
agree() {
    for f in loss val_bpb; do field one.jsonl $f >f1; field "$1.jsonl" $f >f2; near f1 f2 1e-6; done
    rows one.jsonl >f1; rows "$1.jsonl" | cmp - f1 && echo same rows
}

ok "one rank" "$run -B 12 -o one >one.jsonl"
for k in 2 3; do
    ok "$k ranks" "ranks $k $run -B 2 -o m$k >m$k.jsonl"
    is "  the losses of one rank, and its rows" "agree m$k" "8
3
same rows"
    ok "  again, to the same bits" "ranks $k $run -B 2 -o again >/dev/null && cmp m$k/model.safetensors again/model.safetensors"
done
is "  the plan is that of a rank" "sed -n 's/.*\"device_batch\": 2, \"accumulation\": 2, \"ranks\": 3.*/yes/p' m3.jsonl" yes
is "--help is said once" "ranks 2 gpt-train --help | wc -l" "$(gpt-train --help | wc -l)"
says 2 "times 2 ranks = 320 tokens" "a batch that ranks cannot share" "ranks 2 $run -B 5 -o no"
is "  told once" "ranks 2 $run -B 5 -o no 2>&1 | grep -c 'is not a multiple'" 1
says 2 "--ranks: only with --dry-run" "as many as mpirun starts" "gpt-train --ranks 2 $size"
says 2 "--rl: not over several ranks" "no reinforcement learning" "ranks 2 gpt-train --init m2 --rl docs.jsonl --reward cat -o no"
says 2 "--rescan: not over several ranks" "no shards that come later" "ranks 2 $run --rescan -o no"
says 1 "but MPI knows of 1" "another MPI's mpirun" "PMI_SIZE= OMPI_COMM_WORLD_SIZE=2 gpt-train $size -o no"
is "--dry-run of a rank" "gpt-train --dry-run $size -T 32 --total-batch-size 384 -B 2 --ranks 3 | grep -c -e '12 rows = 3 ranks x 2 x 2 rows of 32' -e 'memory of a rank'" 2
finish
