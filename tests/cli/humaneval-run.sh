# humaneval-run: what it says, and what hostile programs cannot do.
. "$(dirname "$0")/../lib.sh"
# a busy machine may take seconds to make a sandbox
run="$top/share/tasks/humaneval-run --interpreter sh --time 60"

says 2 "unknown option or operand '--tim'" "an unknown option" "$run --tim 3"
says 2 "not a whole number" "a bad number" "$run --time 3x"
says 2 "needs a value" "a missing value" "$run --time"
ok "help" "$run --help | grep -q 'exit 0, or 3'"

# a PATH without what makes namespaces
mkdir "$dir/bin"
for c in sh dash awk cat head timeout prlimit env mktemp rm id dirname basename setsid sed; do
    p=$(command -v $c) && ln -s "$p" "$dir/bin/$c"
done
says 3 "neither bwrap nor unshare" "without namespaces it is refused" "echo exit 0 | PATH=$dir/bin $run"
is "  nothing is run then" "echo 'echo ran >$dir/ran' | PATH=$dir/bin $run; ls $dir/ran 2>/dev/null" ""
exits 0 "  unless told to" "echo exit 0 | PATH=$dir/bin $run --unsafe"
exits 1 "  the status is the program's" "echo exit 7 | PATH=$dir/bin $run --unsafe"
exits 0 "  or what it should be" "echo exit 7 | PATH=$dir/bin $run --unsafe --status 7"
exits 1 "  and nothing else" "echo exit 0 | PATH=$dir/bin $run --unsafe --status 7"
says 2 "not a whole number" "a bad status" "$run --status x"
exits 124 "  under limits" "echo 'while :; do :; done' | PATH=$dir/bin $run --unsafe --time 1"

$run --check >"$dir/check" 2>&1
case $? in
0) ;;
*) skip "hostile programs" "no namespaces here: $(head -n 1 "$dir/check")"; finish;;
esac

# the program is $1; the test is whether the runner exits with $2 and nothing has changed outside
mkdir -m 777 "$dir/open"; echo precious >"$dir/open/victim"; chmod 666 "$dir/open/victim"; chmod 755 "$dir"
state() { ls -a "$dir/open"; cat "$dir/open/victim"; }
before=$(state)
alive() { grep -l "$1" /proc/[0-9]*/cmdline 2>/dev/null; }
hostile() {         # NAME EXIT OPTIONS PROGRAM
    printf '%s\n' "$4" >"$dir/program"
    exits "$2" "$1" "$run $3 <$dir/program"
    is "  nothing changed outside" "state" "$before"
}
hostile "a good program" 0 "" "exit 0"
hostile "a bad one" 1 "" "exit 3"
hostile "one that should end otherwise" 1 "--status 7" "exit 0"
hostile "an endless loop" 124 "--time 1" "while :; do :; done"
hostile "sleep, deaf to signals" 124 "--time 1" "trap '' TERM INT HUP XCPU; sleep 98761; sleep 98761"
is "  is gone" "alive [9]8761" ""
hostile "a child that outlives it" 0 "" "setsid sleep 98762 & exit 0"
is "  does not" "alive [9]8762" ""
hostile "a fork bomb" 124 "--time 2" "b() { sleep 98763 & b | b & }; (b) & while :; do :; done"
is "  leaves no process" "alive [9]8763" ""
hostile "more processes than allowed" 1 "" "for i in 1 2 3 4 5 6 7 8 9; do sleep 1 & done; wait; exit 0"
hostile "10 GB of memory" 1 "" "awk 'BEGIN { s = \"x\"; while (length(s) < 1e10) s = s s }'"
hostile "deleting files" 1 "" "rm -rf $dir/open $top/README.md /tmp/* /etc/passwd; [ ! -e /etc/passwd ]"
hostile "writing files" 1 "" "echo x >$dir/open/victim; for f in /etc/x /usr/x /var/x /var/tmp/x /dev/x /dev/shm/x /run/x ~root/x /home/x /sys/x; do echo x >\$f && exit 0; done; exit 1"
hostile "making its root writable" 1 "" "mount -o remount,rw / && exit 0; mount -o remount,bind,rw / && exit 0; unshare -Urm mount -o remount,bind,rw / && exit 0; exit 1"
hostile "becoming someone else" 0 "" "[ \$(sed -n 's/^CapEff:[^0-9a-f]*//p' /proc/self/status) = 0000000000000000 ]"
hostile "filling the disk with one file" 1 "--disk 4" "dd if=/dev/zero of=/tmp/big bs=1M count=16"
hostile "filling the disk with many" 1 "--disk 4" "for i in 1 2 3 4 5 6 7 8; do dd if=/dev/zero of=/tmp/f\$i bs=1M count=1 || exit 1; done"
hostile "the network is one that leads nowhere" 0 "" "[ \$(grep -c : /proc/net/dev) -eq 1 ] && [ \$(wc -l </proc/net/route) -le 1 ]"
hostile "no other process is to be seen" 0 "" "set -- /proc/[0-9]*; [ \$# -le 4 ]"
hostile "signals to its parents" 0 "" "kill -9 \$PPID; kill -9 1; kill -9 $$; kill -STOP 1; exit 0"
hostile "signals to all" 0 "" "kill -9 -1; exit 0"
hostile "no terminal" 1 "" "echo x >/dev/tty"
hostile "endless output" 1 "" "yes"
is "  is cut" "echo yes | $run 2>&1 | wc -c | awk '{ print (\$1 >= 65536 && \$1 < 66000) }'" 1
hostile "endless output, deaf" 124 "--time 1" "trap '' PIPE; while :; do echo x; done"
is "what it prints goes to standard error" "echo 'echo out; echo err >&2' | $run 2>/dev/null" ""
is "standard input is empty" "echo 'cat; echo end' | $run 2>&1" end

if ! command -v python3 >/dev/null; then skip "Python" "no python3"; finish; fi
py="$top/share/tasks/humaneval-run --time 60"
if ! $py --check >"$dir/check" 2>&1; then skip "Python" "cannot be run in the sandbox: $(head -n 1 "$dir/check")"; finish; fi
exits 0 "a Python program" "printf 'import math\nassert math.sqrt(4) == 2\n' | $py"
exits 1 "a failed assertion" "echo 'assert 1 == 2' | $py"
exits 1 "no socket leads out" "printf 'import socket\ns = socket.create_connection((\"127.0.0.1\", 22), 1)\n' | $py"
exits 1 "10 GB in Python" "echo 'x = bytearray(10 << 30)' | $py"
finish
