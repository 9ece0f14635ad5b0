# The golden cases that compute, on the lesser kernels of this processor: on the best ones they run by
# themselves (for what is fp32, avx512's are the best).
. "$(dirname "$0")/../lib.sh"

runs() { PIPEGPT_CPU=$1 gpt-train -q --dry-run --depth 1 --vocab-size 300 --device cpu >/dev/null 2>&1; }
golden="generate llama llama_train lora model optim rl train10"
for t in base avx2; do
    better=avx2; [ $t = base ] || better=avx512
    if ! runs $better; then
        skip "$t" "it is the best here, or not known"
        continue
    fi
    for g in $golden; do
        [ -x "$BUILD/tests/golden/$g" ] || { skip "$t: $g" "golden/$g is not built"; continue; }
        ok "$t: $g" "cd $top && PIPEGPT_CPU=$t $BUILD/tests/golden/$g >$dir/out || { grep -A3 '^not ok' $dir/out; false; }"
    done
done
finish
