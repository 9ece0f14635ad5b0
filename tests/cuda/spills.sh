# What nvcc said when it compiled the kernels ($BUILD/lib/ops/cuda/*.ptxas): nothing but registers and
# spills, and these within the budget of tests/cuda/spills.
. "$(dirname "$0")/../lib.sh"
# over LOG...: kernels past their budget, as "kernel bytes"
over() {
    awk -v file="$top/tests/cuda/spills" '
        function mangled(k, name, n, a, i) {
            name = k; sub(/<.*/, "", name)
            n = split(substr(k, length(name) + 2, length(k) - length(name) - 2), a, ",")
            name = length(name) name (n ? "I" : "")
            for (i = 1; i <= n; i++) name = name "Li" a[i] "E"
            return name
        }
        BEGIN { while ((getline line < file) > 0) if (line !~ /^#/) { split(line, w, " "); may[mangled(w[1])] = w[2] } }
        /Compiling entry function/ { match($0, /\047[^\047]*\047/); f = substr($0, RSTART + 1, RLENGTH - 2) }
        /bytes spill stores/ {
            most = 0
            for (k in may) if (index(f, k)) most = may[k]
            for (i = 2; i <= NF; i++) if ($i == "spill" && $(i + 1) ~ /^stores/ && $(i - 2) > most) print f, $(i - 2)
        }' "$@"
}
cat >"$dir/log1" <<'END'
ptxas info    : Compiling entry function '_Z8attn_fwdILi128ELi2ELi64ELi0EEvPf' for 'sm_80'
ptxas info    : Function properties for _Z8attn_fwdILi128ELi2ELi64ELi0EEvPf
    8 bytes stack frame, 12 bytes spill stores, 4 bytes spill loads
ptxas info    : Compiling entry function '_Z8attn_fwdILi64ELi2ELi64ELi0EEvPf' for 'sm_80'
    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Compiling entry function '_Z3addPf' for 'sm_80'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
END
is "a spill past the budget is found" "over '$dir/log1'" "_Z8attn_fwdILi64ELi2ELi64ELi0EEvPf 4"
set -- "${BUILD:-$top/build}"/lib/ops/cuda/*.ptxas
if [ -e "$1" ]; then
    is "no kernel spills more than its budget" "over $*" ""
    is "nvcc warned of nothing" "cat $* | grep -vE 'ptxas info|bytes stack frame'" ""
    ok "the kernels are there" "cat $* | grep -q attn_dkdvILi128E"
else
    skip "no kernel spills more than its budget" "built without nvcc"
fi
finish
