# lib.sh -- TAP for shell tests. The tools are on PATH; $dir is a scratch folder, removed at the end.
#   is NAME COMMAND EXPECTED    stdout of COMMAND equals EXPECTED
#   exits CODE NAME COMMAND     COMMAND exits with CODE
#   says CODE TEXT NAME COMMAND COMMAND exits with CODE and its stderr holds TEXT
#   ok NAME COMMAND             COMMAND exits with 0
#   skip NAME WHY
n=0; bad=0
top=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
report() {
    n=$((n+1))
    if [ "$1" -eq 0 ]; then echo "ok $n - $2"
    else bad=$((bad+1)); echo "not ok $n - $2"; head -n 20 "$dir/log" | sed 's/^/# /'; fi
}
is() {
    out=$(eval "$2" 2>"$dir/log"); [ "$out" = "$3" ]; r=$?
    [ $r -eq 0 ] || printf 'got: %s\nexpected: %s\n' "$out" "$3" >>"$dir/log"
    report $r "$1"
}
exits() {
    (eval "$3") >"$dir/log" 2>&1 </dev/null; r=$?
    [ $r -eq "$1" ]; e=$?
    [ $e -eq 0 ] || echo "exit $r" >>"$dir/log"
    report $e "$2 (exit $1)"
}
says() {
    (eval "$4") >/dev/null 2>"$dir/log" </dev/null; r=$?
    [ $r -eq "$1" ] && grep -qF -e "$2" "$dir/log"; e=$?
    [ $e -eq 0 ] || printf 'exit %s; expected exit %s and: %s\n' "$r" "$1" "$2" >>"$dir/log"
    report $e "$3"
}
ok() { exits 0 "$1" "$2"; }
skip() { n=$((n+1)); echo "ok $n - $1 # SKIP $2"; }
finish() { echo "1..$n"; [ $bad -eq 0 ]; exit; }
