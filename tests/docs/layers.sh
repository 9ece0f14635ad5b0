# Includes go one way: base <- text, base <- ops <- gpt (gpt may use text). No tool includes another.
. "$(dirname "$0")/../lib.sh"
cd "$top"
# uses LAYER ALLOWED...: no file of lib/LAYER includes from another layer than these
uses() {
    layer=$1; shift; allowed=$(echo "$layer $*" | tr ' ' '|')
    is "lib/$layer includes only: $layer $*" \
       "grep -rnE '#include \"(base|text|ops|gpt)/' lib/$layer | grep -vE '#include \"($allowed)/'" ""
}
uses base
uses text base
uses ops base
uses gpt base text ops
is "nothing in lib includes a tool's header" \
   "grep -rnE '#include \"(data-fetch|bpe-train|tok-encode|pack-rows|gpt-train|gpt-eval|gpt-sample)/' --include='*.[ch]' ." ""
is "no file is past 900 lines" \
   "find lib tests share [a-z]*-[a-z]* -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.sh' | grep -v '16\.c\$' | xargs wc -l | awk '\$2 != \"total\" && \$1 > 900 {print \$2}'" ""
is "no path of a machine is in the tree" "grep -rIlE '(/work|/root|/home/[a-z]+)/' --include='*' --exclude-dir=.git --exclude-dir=build . | grep -v tests/docs/layers.sh" ""
finish
