# A run that is killed again and again, or whose disk is full for a while, ends in the same bytes as one
# that was not. KILLS=30 for the long version; SEED repeats the moments of another run.
. "$(dirname "$0")/../lib.sh"
: "${KILLS:=4}" "${SEED:=$(date +%N | sed 's/^0*//')}"
echo "# SEED=$SEED KILLS=$KILLS"
awk -v n=60 -v seed=7 -f "$top/share/demo/world.awk" | data-fetch -q >"$dir/docs.jsonl"
cd "$dir" || exit 1
bpe-train -q -v 300 -o a.tok docs.jsonl && tok-encode -q -t a.tok docs.jsonl | pack-rows -q -T 32 --shard-rows 40 -o a || exit 1
opts="-q -j 1 --depth 2 --aspect-ratio 16 --head-dim 16 -t a.tok --train a-00000.rows --train a-00001.rows --val a-00000.rows
  --steps 200 --total-batch-size 256 --eval-every 20 --eval-tokens 512 --save-every 5 --keep 3 --keep-best --metrics log.jsonl"
same() { diff -r -x clock.json -x status.json -x '*.new' "$1" "$2"; }
steps() { sed -n 's/^{"step": \([0-9]*\), "epoch.*/\1/p' "$1"; }
records() { grep '"loss"' "$1" | sed 's/, "tok_per_s.*"dt": [0-9.]*//'; }
# One session of the run in $1: from its checkpoint, or from the beginning if it has none.
session() {
    if [ -e "$1/m/state.json" ] || [ -e "$1/m/commit.json" ]; then set -- "$1" "gpt-train -q -j 1 --resume -o m"
    else set -- "$1" "gpt-train $opts --force -o m"; fi
    cd "$1" && exec $2
}
mkdir one && ln -s ../a.tok ../a-00000.rows ../a-00001.rows one || exit 1
ok "the straight run" "(session one)"
[ $bad -eq 0 ] || finish

# ---- kill -9 at random moments, as long as the straight run would take to half of its end
k=0; runs=0; rm -rf two
while [ $k -lt "$KILLS" ]; do
    [ -d two ] || { mkdir two && ln -s ../a.tok ../a-00000.rows ../a-00001.rows two; }
    wait_s=$(awk -v s="$SEED" -v k=$k 'BEGIN { srand(s + k); for (i = 0; i < 3; i++) x = rand(); printf "%.3f", 0.05 + 0.8 * x }')
    (session two) 2>>kills.err & p=$!
    sleep "$wait_s"
    kill -9 $p 2>/dev/null
    wait $p 2>/dev/null; rc=$?
    [ $rc -ne 137 ] || k=$((k + 1))
    [ $rc -eq 137 ] && continue
    [ $rc -eq 0 ] || { ok "a session between kills ends well" "cat kills.err; false"; break; }
    runs=$((runs + 1))                          # it was done before its kill: compared, and begun again
    [ $runs -lt 200 ] || break
    ok "the same bytes, $k kills so far" "same one/m two/m && cmp -s one/m/best/model.safetensors two/m/best/model.safetensors"
    rm -rf two
done
[ -d two ] || { mkdir two && ln -s ../a.tok ../a-00000.rows ../a-00001.rows two; }
ok "$KILLS kills, and the rest of the run" "(session two)"
ok "  the same bytes in every file" "same one/m two/m"
ok "  the same records, each once" "records one/log.jsonl >r1; records two/log.jsonl | cmp - r1"
is "  none missing" "steps two/log.jsonl | wc -l" 200
ok "  no session had to complain" "! grep -v 'Killed' kills.err | grep ."

# ---- a full disk, in the middle and up to the end
full() {
    unshare -rm sh -c '
        mount -t tmpfs -o size=8m none disk || exit 99
        mkdir disk/m && cd three || exit 99
        gpt-train '"$(echo $opts)"' --force -o ../disk/m & p=$!
        while [ ! -e ../disk/m/state.json ] && kill -0 $p; do sleep 0.02; done
        dd if=/dev/zero of=../disk/filler bs=64k 2>/dev/null
        [ '"$1"' = middle ] || { wait $p; echo "rc $?" >&2; rm ../disk/filler; cp -r ../disk/m ../left; exit; }
        while ! grep -q "training goes on" ../full.err && kill -0 $p; do sleep 0.02; done
        rm ../disk/filler
        wait $p; rc=$?
        cp -r ../disk/m ../three.m
        exit $rc' 2>full.err
}
if unshare -rm sh -c 'mkdir -p disk && mount -t tmpfs -o size=1m none disk' 2>/dev/null; then
    opts=$(echo "$opts" | sed 's/^-q //')
    mkdir -p disk three && ln -s ../a.tok ../a-00000.rows ../a-00001.rows three
    exits 1 "a disk that is full for a while" "full middle"
    ok "  says so" "grep -q 'No space left on device' full.err && grep -q 'saves failed on the way' full.err"
    ok "  the same bytes" "same one/m three.m"
    full end
    ok "a disk that is full to the end: exit 1" "grep -q '^rc 1' full.err && grep -q 'is not saved' full.err"
    mkdir four && ln -s ../a.tok ../a-00000.rows ../a-00001.rows four && mv left four/m && cp three/log.jsonl four
    ok "  the older checkpoint is whole, and goes on" "(session four)"
    ok "  to the same bytes" "same one/m four/m"
else
    skip "a full disk" "no file system may be mounted here"
fi
finish
